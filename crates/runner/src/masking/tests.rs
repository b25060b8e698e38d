//! No form of a secret comes through, and everything else does.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

fn masked(values: &[&str], text: &str) -> String {
    let mut masker = Masker::new(values.iter().map(|it| it.as_bytes()));
    let whole = masker.masked(text.as_bytes());
    // However the stream is cut, the result is the same.
    for size in [1, 2, 3, 7] {
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            masker.mask(piece, &mut out);
        }
        masker.finish(&mut out);
        masker.in_mask = false;
        assert_eq!(out, whole, "in pieces of {size}");
    }
    String::from_utf8(whole).expect("text")
}

#[test]
fn a_value_is_masked_wherever_it_stands_and_nothing_else_is() {
    let secret = "hunter2!";
    for (text, shown) in [
        ("", ""),
        ("hunter", "hunter"),
        ("hunter2!", "***"),
        ("a hunter2! b", "a *** b"),
        ("hunter2!hunter2!", "***"),
        ("hunter2!-hunter2!", "***-***"),
        ("hunthunter2!er2!", "hunt***er2!"),
        ("hunter hunter2", "hunter hunter2"),
        ("{\"p\":\"hunter2!\"}\n", "{\"p\":\"***\"}\n"),
    ] {
        assert_eq!(masked(&[secret], text), shown);
    }
}

#[test]
fn of_secrets_that_overlap_nothing_is_left() {
    let both = ["abcdef", "defghi", "abcdefgh123"];
    assert_eq!(masked(&both, "xabcdefghix"), "x***x");
    assert_eq!(masked(&both, "xabcdefgh12x"), "x***gh12x");
    assert_eq!(masked(&both, "xabcdefgh123x"), "x***x");
    assert_eq!(masked(&["aaaa"], "aaaaaaa aaa"), "*** aaa");
}

#[test]
fn base64_of_anything_with_the_value_in_it_shows_less_than_a_character_at_each_end() {
    let secret = "correct horse battery staple?>";
    for before in ["", "u", "us", "user:", "user1:"] {
        for after in ["", "\n", "xy"] {
            for engine in [&STANDARD, &URL_SAFE] {
                let encoded = engine.encode(format!("{before}{secret}{after}"));
                let shown = masked(&[secret], &encoded);
                let around = encoded.len() - secret.len() * 8 / 6;
                assert!(shown.contains("***"), "{encoded}: {shown}");
                assert!(shown.len() <= around + 5, "{encoded}: {shown}");
            }
        }
    }
}

#[test]
fn a_long_value_is_masked_line_by_line_and_in_broken_base64() {
    let lines: Vec<String> = (0..40)
        .map(|it| format!("line-{it}-of-a-private-key"))
        .collect();
    let key = format!("{}\n{{\n}}\n", lines.join("\n"));
    let shown = masked(&[&key], &format!("a {} b\n{{\n", lines[7]));
    assert_eq!(shown, "a *** b\n{\n", "a brace is no secret");
    let encoded = STANDARD.encode(&key);
    for width in [64, 76] {
        let broken: Vec<&str> = (0..encoded.len())
            .step_by(width)
            .map(|at| &encoded[at..encoded.len().min(at + width)])
            .collect();
        let shown = masked(&[&key], &broken.join("\n"));
        let left = shown.replace("***", "").replace('\n', "");
        assert!(left.len() < 8, "{left}");
    }
}

#[test]
fn a_value_of_one_repeated_byte_takes_no_longer_than_any_other() {
    let secret = "a".repeat(60_000);
    let mut masker = Masker::new([secret.as_bytes()]);
    let text = "a".repeat(1 << 20);
    assert_eq!(masker.masked(text.as_bytes()), b"***");
    let short = "a".repeat(59_999);
    assert_eq!(masker.masked(short.as_bytes()), short.as_bytes());
}

#[test]
fn a_value_is_masked_in_a_json_string_and_with_the_end_of_its_line() {
    let secret = "tab\tquote\"slash\\";
    let quoted = serde_json::to_string(secret).expect("JSON");
    assert_eq!(masked(&[secret], &quoted), "\"***\"");
    assert_eq!(masked(&["password\n"], "password, password"), "***, ***");
}

#[test]
fn what_is_too_short_to_be_told_apart_is_not_masked() {
    assert_eq!(masked(&["abc"], "abc"), "abc");
    assert_eq!(masked(&[], "abc"), "abc");
    assert_eq!(masked(&["abcd"], "abcd"), "***");
}

#[test]
fn secrets_of_an_attempt_are_there_for_it_alone_and_then_gone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().expect("a directory");
    let dir = SecretsDir::new(place.path().join("a"));
    let secrets = [
        HeldSecret {
            env: Some("KEY".to_owned()),
            file: None,
            value: b"one\n".to_vec(),
        },
        HeldSecret {
            env: None,
            file: Some("two".to_owned()),
            value: vec![0, 255],
        },
    ];
    dir.create(&secrets, None).expect("created");
    let read = dir.read().expect("readable");
    assert_eq!(read[0].as_variable(), Ok("one"));
    assert!(read[1].as_variable().is_err());
    let file = dir.files().join("two");
    assert_eq!(std::fs::read(&file).expect("a file"), [0, 255]);
    let mode = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).expect("there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!((mode(&file), mode(&dir.files())), (0o600, 0o700));
    assert!(dir.create(&secrets, None).is_err(), "it is there already");
    assert!(
        !place.path().join("a").exists(),
        "nothing half done is left"
    );
    dir.remove().expect("it was gone");
}
