//! The log is truncated at any byte, or damaged in its middle.

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_runner::log::{self, Kind};
use baton_runner::record::RunnerRecord;

use crate::crash_support::processes;
use crate::crash_support::{Rig, orphans, tasks, until, verdict};

/// Lengths that `make test` tries, beside the ends of all records.
const LENGTHS: usize = 40;

/// One that has finished, one that has failed and runs, and one that waits for it.
fn interrupted() -> Rig {
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("one", 0, ":", &[]),
        tasks::process(
            "two",
            1,
            "test ! -e held || exec sleep 60",
            &["after: [one]"],
        ),
        tasks::process("three", 0, ":", &["after: [two]"]),
        tasks::process("sweep", 0, ":", &["final: true"]),
    ]));
    fs::create_dir_all(rig.sandbox("")).expect("made");
    rig.allow("held");
    rig.start();
    until("a run of the second", || {
        !rig.recorded_lines("begun.two").is_empty()
    });
    rig.kill_all();
    fs::remove_file(rig.sandbox("held")).expect("removed");
    rig
}

/// Puts everything back as it was, but for the log.
fn restore(rig: &Rig, kept: &Path, log: &[u8]) {
    fs::remove_dir_all(&rig.root).expect("removed");
    copy(kept, &rig.root);
    fs::write(rig.runner_log(), log).expect("written");
}

fn copy(from: &Path, to: &Path) {
    orphans::run_ok(Command::new("cp").arg("-a").args([from, to]));
}

/// Where each record ends. The first is what the task began with.
fn ends_of_records(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![28];
    while let Some(length) = log[ends[ends.len() - 1]..].first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        ends.push(ends[ends.len() - 1] + 16 + length);
    }
    ends
}

#[test]
fn a_log_that_was_cut_off_anywhere_is_gone_on_with() {
    let mut rig = interrupted();
    let log = fs::read(rig.runner_log()).expect("readable");
    let kept = rig.dir.path().join("kept");
    copy(&rig.root, &kept);

    let ends = ends_of_records(&log);
    assert_eq!(ends.last(), Some(&log.len()), "the log is whole");
    // Before that there is no task: it is put into its place with both records in it.
    let first = ends[1];
    let lengths: Vec<usize> = match std::env::var_os("BATON_ALL") {
        Some(_) => (first..=log.len()).collect(),
        None => {
            let spread = (0..LENGTHS).map(|step| first + (log.len() - first) * step / LENGTHS);
            let boundaries = ends[1..].iter().flat_map(|end| [*end - 1, *end, *end + 1]);
            let all = spread.chain(boundaries);
            let within = all.filter(|length| (first..=log.len()).contains(length));
            let sorted: std::collections::BTreeSet<usize> = within.collect();
            sorted.into_iter().collect()
        }
    };
    for length in &lengths {
        restore(&rig, &kept, &log[..*length]);
        let finished = verdict::finished(&rig);
        rig.finish();
        verdict::success_after_cut(&mut rig);
        let now = verdict::finished(&rig);
        for done in finished {
            assert!(
                now.contains(&done),
                "cut at {length}: {done:?} was run again"
            );
        }
    }
    println!("cut at {} of {} bytes", lengths.len(), log.len());
}

#[test]
fn a_log_without_its_beginning_is_refused() {
    let mut rig = interrupted();
    let log = fs::read(rig.runner_log()).expect("readable");
    let begun = rig.recorded_lines("begun.two");
    let first = ends_of_records(&log)[1];
    for length in [0, 1, 27, 28, 29, first - 1] {
        fs::write(rig.runner_log(), &log[..length]).expect("written");
        rig.start();
        let code = rig.wait();
        let told = rig.stderr_of_last_runner();
        assert!(
            matches!(code, Some(2 | 5)),
            "{length} bytes: {code:?} {told}"
        );
        assert!(told.contains("log"), "it says what is wrong: {told}");
    }
    assert_eq!(rig.recorded_lines("begun.two"), begun, "nothing is started");
    let there = processes::of_rig(rig.dir.path());
    assert!(there.is_empty(), "nothing is started: {there:?}");
}

#[test]
fn a_log_that_is_damaged_in_its_middle_is_refused_and_set_aside() {
    let mut rig = interrupted();
    let log = fs::read(rig.runner_log()).expect("readable");
    let begun = rig.recorded_lines("begun.two");
    let ends = ends_of_records(&log);
    let (start, end) = (ends[ends.len() - 4], ends[ends.len() - 3]);
    let mut damaged = log.clone();
    damaged[(start + end) / 2] ^= 0x10;
    fs::write(rig.runner_log(), &damaged).expect("written");

    let resume = ["run", "--task-id", "crash"];
    let output = rig.local(&resume);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{told}");
    let name = rig.runner_log().display().to_string();
    let aside = format!("{name}.damaged-1");
    for part in [&name, &aside, &format!("byte {start}")] {
        assert!(told.contains(part), "{part} in: {told}");
    }
    assert_eq!(fs::read(&aside).expect("set aside"), damaged);

    // Another `run` does not start it from the beginning.
    rig.start();
    let code = rig.wait();
    assert!(
        matches!(code, Some(2 | 5)),
        "{code:?} {}",
        rig.stderr_of_last_runner()
    );
    assert!(
        rig.stderr_of_last_runner().contains(&aside),
        "{}",
        rig.stderr_of_last_runner()
    );
    let again = rig.local(&resume);
    assert!(matches!(again.status.code(), Some(2 | 5)), "{again:?}");

    assert_eq!(rig.recorded_lines("begun.two"), begun, "nothing is started");
    let there = processes::of_rig(rig.dir.path());
    assert!(there.is_empty(), "nothing is started: {there:?}");
    assert!(!rig.runner_log().exists());

    let read = rig.local(&["read", &aside]);
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    assert_eq!(read.status.code(), Some(1));
    assert!(text.contains("one"), "what is readable is shown: {text}");
    let (readable, damage) =
        log::salvage::<RunnerRecord>(Path::new(&aside), Kind::Runner).expect("readable");
    assert_eq!(readable.records.len(), ends.len() - 4);
    assert!(damage.is_some());

    // A good copy, restored as the hint describes, can be resumed.
    fs::write(rig.runner_log(), &log).expect("written");
    rig.finish();
    verdict::success(&mut rig);
}
