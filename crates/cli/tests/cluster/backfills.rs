//! A backfill of a real scheduler that is killed with `kill -9` again and again in the middle of it:
//! each due time is executed once.

use std::collections::BTreeSet;

use baton_testing::cluster::{Cluster, lines};
use baton_testing::until;
use serde_json::Value;

/// Due times of the interval.
const HOURS: usize = 24;

const KILLS: usize = 4;

#[test]
fn each_due_time_is_executed_once_though_the_scheduler_is_killed_in_the_middle() {
    for (kind, body) in [
        ("task", "run: echo $BATON_NOMINAL_TIME >> \"$LOG\"\n"),
        (
            "workflow",
            "tasks:\n  only: { run: 'echo $BATON_NOMINAL_TIME >> \"$LOG\"' }\n",
        ),
    ] {
        let mut cluster = Cluster::with_worker();
        let log = cluster.path("effects");
        let body = body.replace("$LOG", &log.display().to_string());
        let text =
            format!("{kind}: hourly\nowner: demo\n{body}trigger: {{ schedule: 0 * * * * }}\n");
        std::fs::write(cluster.path("hourly.yaml"), text).expect("written");
        cluster.run(&["library", "put", "hourly.yaml"]).good();
        cluster.run(&["library", "pause", "demo/hourly"]).good();
        let interval = ["--from", "2026-03-01", "--to", "2026-03-02"];
        let mut start = vec!["backfill", "demo/hourly", "--max-concurrent", "2", "--json"];
        start.extend(interval);
        let mut dry = start.clone();
        dry.push("--dry-run");
        let planned = cluster.run(&dry).json();
        assert_eq!(planned["at"].as_array().map(Vec::len), Some(HOURS));
        let started = cluster.run(&start).json();
        assert_eq!(started["id"], "b1", "{started}");
        for kill in 1..=KILLS {
            let enough = kill * HOURS / (KILLS + 2);
            until("it goes on", || lines(&log).len() >= enough);
            cluster.kill_scheduler();
            cluster.start_scheduler();
        }
        let shown = cluster.run(&["backfill", "show", "b1", "--wait"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let effects = lines(&log);
        let distinct: BTreeSet<&String> = effects.iter().collect();
        assert_eq!(
            (effects.len(), distinct.len()),
            (HOURS, HOURS),
            "{effects:?}"
        );
        let listed = cluster.run(&["backfill", "list", "--json"]).json();
        let done = &listed[0];
        assert_eq!(
            (&done["state"], &done["launched"]),
            (&Value::from("DONE"), &Value::from(24))
        );
        let (launched, origin) = match kind {
            "task" => ("i1", "by backfill b1, revision 1 of demo/hourly, due "),
            _ => ("r1", "revision 1 of demo/hourly, by backfill b1, due "),
        };
        let shown = cluster.run(&["show", launched]).good();
        assert!(shown.contains(origin), "{shown}");
        // Again, there is nothing to do.
        let again = cluster.run(&start).json();
        assert_eq!(again["at"], Value::Array(Vec::new()), "{again}");
    }
}

#[test]
fn a_backfill_is_halted_resumed_and_reports_a_failure() {
    let cluster = Cluster::with_worker();
    let text = "task: hourly\nowner: demo\nrun: case $BATON_NOMINAL_TIME in *T02*) exit 7;; esac\n\
                trigger: { schedule: 0 * * * *, timezone: Europe/Berlin }\n";
    std::fs::write(cluster.path("hourly.yaml"), text).expect("written");
    cluster.run(&["library", "put", "hourly.yaml"]).good();
    let dry = [
        "backfill",
        "demo/hourly",
        "--from",
        "2026-03-01",
        "--to",
        "2026-03-01 05:00",
        "--reverse",
        "--dry-run",
    ];
    let planned = cluster.run(&dry).good();
    assert_eq!(planned.lines().next(), Some("2026-03-01T04:00:00+01:00"));
    let started = cluster.run(&dry[..7]);
    assert_eq!(started.good(), "b1\n");
    let ended = cluster.run(&["backfill", "show", "b1", "--wait"]);
    assert_eq!(ended.code, Some(1), "one has failed: {ended:?}");
    let shown = cluster.run(&["backfill", "show", "b1"]).good();
    assert!(
        shown.contains("5 of 5 launched (4 DONE, 1 FAILED), 0 left"),
        "{shown}"
    );
    for (args, code) in [
        (&["backfill", "halt", "b1"][..], 3),
        (&["backfill", "resume", "b1"], 3),
        (&["backfill", "cancel", "b1"], 3),
        (&["backfill", "show", "b9"], 1),
        (
            &[
                "backfill",
                "demo/none",
                "--from",
                "2026-03-01",
                "--to",
                "now",
            ],
            1,
        ),
        (
            &["backfill", "demo/hourly", "--from", "soon", "--to", "now"],
            2,
        ),
        (&["backfill", "demo/hourly", "--from", "2026-03-01"], 2),
        (
            &[
                "backfill",
                "demo/hourly",
                "--from",
                "2001-01-01",
                "--to",
                "now",
            ],
            2,
        ),
    ] {
        let refused = cluster.run(args);
        assert_eq!(refused.code, Some(code), "{args:?}: {refused:?}");
    }
}

#[test]
fn a_halted_backfill_is_cancelled_for_good() {
    let cluster = Cluster::with_worker();
    let gate = cluster.path("gate");
    let text = format!(
        "task: hourly\nowner: demo\nrun: until test -e {}; do sleep 0.01; done\n\
         trigger: {{ schedule: 0 * * * * }}\n",
        gate.display()
    );
    std::fs::write(cluster.path("hourly.yaml"), text).expect("written");
    cluster.run(&["library", "put", "hourly.yaml"]).good();
    let start = ["backfill", "demo/hourly", "--from", "2026-03-01", "--to"];
    let start = [&start[..], &["2026-03-02"]].concat();
    assert_eq!(cluster.run(&start).good(), "b1\n");
    cluster.run(&["backfill", "halt", "b1"]).good();
    let cancelled = cluster.run(&["backfill", "cancel", "b1"]).good();
    assert!(cancelled.starts_with("b1: CANCELLED"), "{cancelled}");
    let shown = cluster.run(&["backfill", "show", "b1", "--json"]).json();
    assert_eq!(shown["remaining"], Value::from(23), "{shown}");
    assert!(shown["links"]["resume"].is_null(), "{shown}");
    let resumed = cluster.run(&["backfill", "resume", "b1"]);
    assert_eq!(resumed.code, Some(3), "{resumed:?}");
    // What it has launched continues.
    std::fs::write(&gate, "").expect("written");
    until("the launch has ended", || {
        let shown = cluster.run(&["backfill", "show", "b1", "--json"]).json();
        shown["states"]["DONE"] == 1
    });
    // The due times that it has left behind are free for another.
    let again = cluster.run(&[&start[..], &["--dry-run"]].concat()).good();
    assert_eq!(again.lines().count(), 23, "{again}");
}
