//! `baton schedule preview`: the real binary, without a server.

use std::process::{Command, Stdio};

/// Exit code, output and errors.
fn preview(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["schedule", "preview"])
        .args(args)
        // The host's zone has no effect, and its data may have any version.
        .env("TZ", "Asia/Tokyo")
        .env("BATON_TZDATA", "built-in")
        .stdin(Stdio::null())
        .output()
        .expect("baton runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_preview_shows_how_it_was_understood_and_when_it_is_due() {
    let berlin = [
        "--timezone",
        "europe/berlin",
        "-n",
        "3",
        "--from",
        "2026-03-27 22:45",
    ];
    let args = [&["every", "day", "at", "2:30"], &berlin[..]].concat();
    let (code, out, err) = preview(&args);
    assert_eq!((code, &*err), (Some(0), ""));
    let (head, table) = out.split_once('\n').expect("lines");
    let release = head.strip_prefix("at 02:30 every day, Europe/Berlin (time zone data ");
    assert!(
        release.is_some_and(|it| it.ends_with(", built-in)")),
        "{head}"
    );
    assert_eq!(
        table,
        "
LOCAL                           UTC                   IN
Sat 2026-03-28 02:30:00 +01:00  2026-03-28T01:30:00Z  3h45m
Sun 2026-03-29 03:30:00 +02:00  2026-03-29T01:30:00Z  1d03h  moved: clocks are set forward
Mon 2026-03-30 02:30:00 +02:00  2026-03-30T00:30:00Z  2d02h
"
    );
}

#[test]
fn a_preview_for_programs_has_the_same_times() {
    let args = [
        "0 6 * * mon",
        "--from",
        "2026-01-01T00:00:00Z",
        "-n",
        "2",
        "--json",
    ];
    let (code, out, _) = preview(&args);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, Some(0));
    assert_eq!(json["understood"], "at 06:00 on Monday");
    assert_eq!(json["timezone"], "UTC");
    assert_eq!(json["times"][1]["utc"], "2026-01-12T06:00:00Z");
    assert_eq!(json["times"][1]["unix_ms"], 1_768_197_600_000_u64);
    assert_eq!(json["times"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_policy_for_changed_clocks_can_be_tried() {
    let args = [
        "30 2 * * *",
        "--timezone",
        "Europe/Berlin",
        "--from",
        "2026-03-28 12:00",
        "-n",
        "1",
    ];
    let with = |more: &[&str]| preview(&[&args, more].concat()).1;
    assert!(with(&["--gap", "skip"]).contains("Mon 2026-03-30 02:30:00 +02:00"));
    assert!(with(&["--gap", "early"]).contains("Sun 2026-03-29 03:00:00 +02:00"));
}

#[test]
fn a_wrong_schedule_gets_its_hint_and_exit_2() {
    let (code, out, err) = preview(&["75 * * * *"]);
    assert_eq!((code, &*out), (Some(2), ""));
    assert_eq!(
        err,
        "baton: minute: 75 is more than 59\n  hint: write a number from 0 to 59\n"
    );
    let (code, out, err) = preview(&["every", "mnday", "at", "9:00", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &*err), (Some(2), ""));
    assert_eq!(json["hint"], "did you mean `every monday at 9:00`?");
    let (code, _, err) = preview(&["noon", "--timezone", "Berlin"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("such as Europe/Berlin"), "{err}");
}

#[test]
fn an_exhausted_schedule_is_reported() {
    let (code, out, _) = preview(&["at 2026-01-01 00:00", "--from", "2026-06-01T00:00:00Z"]);
    assert_eq!(code, Some(0));
    assert!(
        out.ends_with("nothing is due after Mon 2026-06-01 00:00:00 +00:00\n"),
        "{out}"
    );
}

#[test]
fn time_zone_data_come_from_a_directory_and_the_rest_is_built_in() {
    let dir = tempfile::tempdir().expect("a place");
    let zones = dir.path().join("Mars");
    std::fs::create_dir(&zones).expect("a folder");
    // A fixed offset of five and a half hours: a header without changes, and the rule.
    let mut block = b"TZif2".to_vec();
    block.extend([0; 15]);
    for count in [0_u32, 0, 0, 0, 1, 4] {
        block.extend(count.to_be_bytes());
    }
    block.extend(19_800_i32.to_be_bytes());
    block.extend(*b"\0\0MMT\0");
    let rules = [&*block, &*block, b"\n<MMT>-5:30\n"].concat();
    std::fs::write(zones.join("Olympus"), rules).expect("written");
    std::fs::write(dir.path().join("tzdata.zi"), "# version 2099z\n# more\n").expect("written");
    let from = dir.path().to_str().expect("text");
    let args = |zone| {
        let args = [
            "noon",
            "--timezone",
            zone,
            "--tzdata",
            from,
            "-n",
            "1",
            "--json",
        ];
        [&args[..], &["--from", "2026-06-01T00:00:00Z"]].concat()
    };
    let json = |zone| -> serde_json::Value {
        let (code, out, err) = preview(&args(zone));
        assert_eq!((code, &*err), (Some(0), ""), "{zone}");
        serde_json::from_str(&out).expect("JSON")
    };
    let mars = json("mars/olympus");
    assert_eq!(mars["timezone"], "Mars/Olympus");
    assert_eq!(mars["times"][0]["utc"], "2026-06-01T06:30:00Z");
    assert_eq!(mars["tzdata"]["version"], "2099z");
    assert_eq!(mars["tzdata"]["source"], from);
    assert_eq!(
        json("Europe/Berlin")["times"][0]["utc"],
        "2026-06-01T10:00:00Z"
    );
    let (code, _, err) = preview(&["noon", "--tzdata", "/nonexistent"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("cannot read the time zone data in /nonexistent"),
        "{err}"
    );
    assert!(err.contains("hint: name a directory"), "{err}");
}

#[test]
fn the_version_names_the_time_zone_data() {
    let version = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_baton"))
            .arg("version")
            .args(args)
            .output()
            .expect("baton runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let text = version(&["--tzdata", "built-in"]);
    assert!(
        text.starts_with("baton ") && text.ends_with(", built-in\n"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&version(&["--json"])).expect("JSON");
    assert!(json["tzdata"]["source"].is_string());
}
