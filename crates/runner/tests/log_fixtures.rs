//! Logs of format 1, as they were written once, stay readable for ever.
//!
//! The files are never regenerated; see the README beside them.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use baton_runner::log::{self, Kind, Log, LogError, Quarantine, RecoveredLog};
use baton_runner::record::{CoordinatorRecord, RunnerRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The CRC32C of every file. If one differs, restore the file.
const FROZEN: [(&str, u32); 10] = [
    ("coordinator.json", 0xa272_feb0),
    ("coordinator.log", 0x7da1_334c),
    ("runner-compacted.json", 0xacf6_d09b),
    ("runner-compacted.log", 0x4e7d_905a),
    ("runner-damaged.json", 0x0fed_ea9e),
    ("runner-damaged.log", 0xa855_2295),
    ("runner-torn.json", 0xbaa1_9326),
    ("runner-torn.log", 0xbe62_a3e5),
    ("runner.json", 0x8881_2262),
    ("runner.log", 0xe31b_afec),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/log-v1")
        .join(name)
}

/// The expected records, as JSON and decoded.
fn expected<T: DeserializeOwned>(name: &str) -> (Vec<Value>, Vec<T>) {
    let text = fs::read_to_string(fixture(&format!("{name}.json"))).expect("the fixture is there");
    let values = serde_json::from_str(&text).expect("the fixture is JSON");
    let records = serde_json::from_str(&text).expect("today's records hold what was written then");
    (values, records)
}

/// A copy that may be changed, in a directory that must be kept.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("log");
    fs::copy(fixture(&format!("{name}.log")), &path).expect("a copy");
    (directory, path)
}

/// Reads it, and appends to a copy of it.
fn must_be_read_and_go_on<T>(name: &str, kind: Kind, first: u64) -> RecoveredLog<T>
where
    T: Serialize + DeserializeOwned + Debug + PartialEq,
{
    let path = fixture(&format!("{name}.log"));
    let (values, records) = expected::<T>(name);
    let raw = log::read::<Value>(&path, kind).expect("the log is whole");
    assert_eq!(raw.records, values, "{name}");
    let read = log::read::<T>(&path, kind).expect("the log is understood");
    assert_eq!(read.records, records, "{name}");
    assert_eq!(read.first_sequence, first, "{name}");

    let (_directory, path) = copy(name);
    let (mut log, recovered) = Log::open::<T>(&path, kind).expect("the log opens");
    assert_eq!(recovered, read, "{name}");
    let last = log.append(&records[..1]).expect("an append");
    assert_eq!(last, first + records.len() as u64, "{name}");
    let longer = log::read::<T>(&path, kind).expect("the log is whole");
    assert_eq!(longer.records[..records.len()], records, "{name}");
    assert_eq!(longer.records[records.len()..], records[..1], "{name}");
    read
}

#[test]
fn the_fixtures_are_as_they_were_when_the_format_was_made() {
    for (name, crc) in FROZEN {
        let bytes = fs::read(fixture(name)).expect("the fixture is there");
        assert_eq!(
            crc32c::crc32c(&bytes),
            crc,
            "{name} was changed; fixtures of old formats are never regenerated: put it back"
        );
    }
}

#[test]
fn a_runners_log_is_read() {
    let read = must_be_read_and_go_on::<RunnerRecord>("runner", Kind::Runner, 1);
    assert_eq!((read.records.len(), read.torn_bytes), (43, 0));
    let RunnerRecord::Begun(header) = &read.records[0] else {
        panic!("a log begins with its header");
    };
    assert_eq!(header.spec.name, "nightly-report");
    assert_eq!(header.spec.processes.len(), 4);
    assert_eq!(header.mark, "3f0c9a52d1e84b77");
}

/// By their names in the file, so that a fixture with less than everything is noticed.
#[test]
fn a_runners_log_shows_every_change_of_a_plan() {
    let text = fs::read_to_string(fixture("runner.json")).expect("the fixture is there");
    for name in [
        "run-ordered",
        "run-started",
        "run-ready",
        "run-stopping",
        "run-ended",
        "cleaning-begun",
        "deadline-moved",
        "budget-marked",
        "kill-begun",
        "finalizing-begun",
        "finalizers-stopping",
        "attempt-ended",
        "attempt-lost",
        "resumed",
    ] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn a_compacted_log_is_read() {
    let read = must_be_read_and_go_on::<RunnerRecord>("runner-compacted", Kind::Runner, 9);
    assert!(matches!(read.records[1], RunnerRecord::Snapshot(_)));
    assert_eq!((read.records.len(), read.torn_bytes), (8, 0));
}

#[test]
fn a_coordinators_log_is_read() {
    let read = must_be_read_and_go_on::<CoordinatorRecord>("coordinator", Kind::Coordinator, 1);
    assert_eq!((read.records.len(), read.torn_bytes), (15, 0));
}

#[test]
fn a_torn_log_is_read_up_to_the_tear() {
    let read = must_be_read_and_go_on::<RunnerRecord>("runner-torn", Kind::Runner, 1);
    assert_eq!((read.records.len(), read.torn_bytes), (9, 131));
}

#[test]
fn a_damaged_log_is_set_aside_and_read_up_to_the_damage() {
    let (_, records) = expected::<RunnerRecord>("runner-damaged");
    let (directory, path) = copy("runner-damaged");
    let Err(LogError::Damaged(damage)) = Log::open::<RunnerRecord>(&path, Kind::Runner) else {
        panic!("a damaged log does not open");
    };
    assert_eq!((damage.offset, damage.sequence), (3334, 7));
    assert_eq!((damage.records_before, damage.records_after), (6, 36));
    let aside = directory.path().join("log.damaged-1");
    assert!(matches!(&damage.quarantine, Quarantine::Moved(to) if *to == aside));

    let (before, report) =
        log::salvage::<RunnerRecord>(&aside, Kind::Runner).expect("what comes before");
    assert_eq!(before.records, records);
    assert_eq!(report.expect("a report").sequence, 7);
}
