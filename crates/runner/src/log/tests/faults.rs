//! Disks that fill up, fail, or stop in the middle of an append.

use libc::{EINTR, EIO, ENOSPC};

use super::failing::{FailingDisk, Fault, Op};
use super::*;

/// A log of two records on a disk that the test controls.
fn log_on(disk: &FailingDisk, dir: &LogDir) -> Log {
    Log::create_on(disk.boxed(), &dir.path(), Kind::Runner, &notes(2)).expect("a new log")
}

#[test]
fn a_disk_that_fills_up_after_any_byte_leaves_the_records_before() {
    let notes = notes(3);
    let length = boundaries(&notes)[3] - boundaries(&notes)[2];
    for kept in 0..length {
        let dir = LogDir::new();
        let disk = FailingDisk::new();
        let mut log = log_on(&disk, &dir);
        disk.fail_next(kept, ENOSPC);
        let error = error_of(log.append(&notes[2..]));
        assert!(error.is_full(), "{error}");
        assert!(error.to_string().contains("make room"), "{error}");

        let asked = disk.done().len();
        for _ in 0..3 {
            assert_eq!(
                error_of(log.append(&notes[2..])).to_string(),
                error.to_string()
            );
            assert!(error_of(log.sync()).is_full());
            assert!(error_of(log.replace(&notes)).is_full());
        }
        assert_eq!(
            disk.done().len(),
            asked,
            "a failed log touches the disk no more"
        );
        assert!(log.failure().is_some_and(LogError::is_full));
        assert_eq!(log.last_sequence(), 2);
        drop(log);

        let (_, recovered) = dir.open().expect("a torn tail is no damage");
        assert_eq!(recovered.records, notes[..2]);
        assert_eq!(recovered.torn_bytes, kept as u64);
        dir.must_go_on_after(&notes[..2]);
    }
}

#[test]
fn a_batch_that_fails_after_any_byte_leaves_a_whole_beginning_of_it() {
    let notes = notes(6);
    let boundaries = boundaries(&notes);
    for kept in 0..boundaries[6] - boundaries[2] {
        let dir = LogDir::new();
        let disk = FailingDisk::new();
        let mut log = log_on(&disk, &dir);
        disk.fail_next(kept, EIO);
        error_of(log.append(&notes[2..]));
        drop(log);
        let reached = boundaries[2] + kept;
        let whole = boundaries[1..]
            .iter()
            .filter(|&&end| end <= reached)
            .count();
        dir.must_recover_and_go_on(&notes[..whole]);
    }
}

#[test]
fn a_failed_sync_stops_the_log_for_ever() {
    let dir = LogDir::new();
    let disk = FailingDisk::new();
    let mut log = log_on(&disk, &dir);
    log.append(&["unsure".to_owned()]).expect("an append");
    disk.fail_next(0, EIO);
    let first = error_of(log.sync()).to_string();
    // The disk works again, and a second sync would falsely succeed.
    let asked = disk.done().len();
    for _ in 0..3 {
        assert_eq!(error_of(log.sync()).to_string(), first);
        assert_eq!(error_of(log.append(&["no".to_owned()])).to_string(), first);
        assert_eq!(error_of(log.replace(&["no".to_owned()])).to_string(), first);
    }
    assert_eq!(disk.done().len(), asked);
}

#[test]
fn appending_is_one_write_whatever_the_number_of_records() {
    let dir = LogDir::new();
    let disk = FailingDisk::new();
    let mut log = log_on(&disk, &dir);
    let before = disk.done().len();
    log.append(&notes(500)).expect("an append");
    assert_eq!(disk.done()[before..], [Op::Write]);
    log.sync().expect("a sync");
    assert_eq!(disk.done()[before..], [Op::Write, Op::Sync]);
}

#[test]
fn a_write_that_was_interrupted_before_it_began_is_no_failure() {
    let dir = LogDir::new();
    let disk = FailingDisk::new();
    let notes = notes(3);
    let mut log = log_on(&disk, &dir);
    disk.fail_next(0, EINTR);
    assert_eq!(log.append(&notes[2..]).expect("an append"), 3);
    assert_eq!(must_read(&dir.path()).records, notes);
}

#[test]
fn opening_syncs_what_an_earlier_runner_may_not_have_synced() {
    let dir = LogDir::new();
    let whole = dir.log_of(&notes(2));
    let disk = FailingDisk::new();
    Log::open_on::<String>(disk.boxed(), &dir.path(), Kind::Runner).expect("the log opens");
    assert_eq!(disk.done(), [Op::Open, Op::Sync]);

    dir.put(&[&whole[..], b"torn"].concat());
    let disk = FailingDisk::new();
    Log::open_on::<String>(disk.boxed(), &dir.path(), Kind::Runner).expect("the log opens");
    assert_eq!(disk.done(), [Op::Open, Op::Truncate, Op::Sync]);
}

#[test]
fn a_log_that_cannot_be_repaired_durably_does_not_open() {
    let dir = LogDir::new();
    let notes = notes(2);
    let torn = [&dir.log_of(&notes)[..], b"torn"].concat();
    for operations_before in 0..3 {
        dir.put(&torn);
        let disk = FailingDisk::with(Fault {
            at: operations_before,
            kept: 0,
            errno: EIO,
            dead: true,
        });
        let error = error_of(Log::open_on::<String>(
            disk.boxed(),
            &dir.path(),
            Kind::Runner,
        ));
        assert!(matches!(error, LogError::Io { .. }), "{error}");
        dir.must_recover_and_go_on(&notes);
    }
}

#[test]
fn a_damaged_log_that_cannot_be_set_aside_is_still_refused() {
    let dir = LogDir::new();
    let mut bytes = dir.log_of(&notes(3));
    bytes[40] ^= 1;
    dir.put(&bytes);
    let disk = FailingDisk::with(Fault {
        at: 1,
        kept: 0,
        errno: EIO,
        dead: false,
    });
    let damage = damage_of(Log::open_on::<String>(
        disk.boxed(),
        &dir.path(),
        Kind::Runner,
    ));
    assert!(matches!(damage.quarantine, Quarantine::Failed(_)));
    assert!(damage.to_string().contains("could not be set aside"));
    assert_eq!(dir.bytes(), bytes);
    assert_eq!(damage.file(), dir.path());
}
