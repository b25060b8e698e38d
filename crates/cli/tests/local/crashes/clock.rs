//! The wall clock is stepped.

use std::fs;
use std::path::PathBuf;

use baton_model::task::PlanChange;
use baton_runner::record::RunnerRecord;

use crate::crash_support::{Rig, tasks, until, verdict};

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;

/// The library that lies about the time.
fn faketime_library() -> PathBuf {
    let places = fs::read_dir("/usr/lib").expect("readable").flatten();
    let all = places.map(|place| place.path().join("faketime/libfaketime.so.1"));
    let here = all.into_iter().find(|path| path.exists());
    here.expect("libfaketime is missing: `make tools` installs it (or: apt-get install faketime)")
}

/// Steps the wall clock of runners to this far from the true one.
fn step(rig: &Rig, offset: &str) {
    let path = rig.dir.path().join("clock");
    let beside = rig.dir.path().join("clock.new");
    fs::write(&beside, format!("{offset}\n")).expect("written");
    fs::rename(beside, path).expect("renamed");
}

/// The wall time of the last record that is kept.
fn last_wall(rig: &Rig) -> u64 {
    let mut times = rig.records().into_iter().filter_map(|record| match record {
        RunnerRecord::Event(event) => Some(event.at.wall.0),
        _ => None,
    });
    times.next_back().unwrap_or(0)
}

#[test]
fn a_wall_clock_that_is_stepped_changes_nothing_but_what_is_shown() {
    let limits = ["timeout: 10m", "min_duration: 1s"];
    let after = |name| [limits[0], limits[1], name];
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("one", 1, &tasks::wait_for("go1"), &limits),
        tasks::process("two", 1, &tasks::wait_for("go2"), &after("after: [one]")),
        tasks::process("three", 1, &tasks::wait_for("go3"), &after("after: [two]")),
    ]));
    step(&rig, "+0");
    let set = |name: &str, value: String| (name.to_owned(), value);
    let clock = rig.dir.path().join("clock");
    rig.env = vec![
        set("LD_PRELOAD", faketime_library().display().to_string()),
        set("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        set("FAKETIME_NO_CACHE", "1".to_owned()),
        set("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        set("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    rig.start();
    rig.wait_for("waits.go1");
    let begun = last_wall(&rig);

    // Back by an hour, with a run under way and then a wait before it.
    step(&rig, "-3600");
    rig.allow("go1");
    rig.wait_for("waits.go2");
    let back = last_wall(&rig);
    assert!(
        back + HOUR_MS / 2 < begun,
        "the clock was stepped: {begun}, {back}"
    );

    // Ahead by a year, and the runner dies.
    step(&rig, "+31536000");
    rig.kill_runner();
    rig.start();
    until("the next runner", || last_wall(&rig) > begun + YEAR_MS / 2);
    rig.allow("go2");
    rig.wait_for("waits.go3");

    // And back again.
    step(&rig, "-3600");
    rig.allow("go3");
    rig.must_succeed();

    let tally = verdict::success(&mut rig);
    assert_eq!((tally.lost, tally.signaled), (0, 0), "it was adopted");
    assert_eq!(tally.runs, 6, "each failed once");
    let stopped = rig.records().into_iter().any(|record| match record {
        RunnerRecord::Event(event) => matches!(event.change, PlanChange::RunStopping { .. }),
        _ => false,
    });
    assert!(!stopped, "nothing has timed out");
}
