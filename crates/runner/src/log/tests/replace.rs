//! Creating a log and compacting it: the old one or the new one, never neither.

use libc::EIO;

use super::failing::{FailingDisk, Fault, Op};
use super::*;

/// Every operation of creating a log, in order: synced before it gets its name.
const CREATION: [Op; 6] = [
    Op::Remove,
    Op::Create,
    Op::Write,
    Op::Sync,
    Op::Rename,
    Op::SyncDirectory,
];

/// Every way to stop at one of [`CREATION`]: before it has done anything, and for the
/// write after each byte.
fn stops(write_bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    CREATION.iter().enumerate().flat_map(move |(at, &op)| {
        let kept_max = if op == Op::Write { write_bytes } else { 0 };
        (0..=kept_max).map(move |kept| (at, kept))
    })
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn a_new_log_is_synced_before_it_gets_its_name_and_the_name_after() {
    let dir = LogDir::new();
    let disk = FailingDisk::new();
    Log::create_on(disk.boxed(), &dir.path(), Kind::Runner, &notes(3)).expect("a new log");
    assert_eq!(disk.done(), CREATION);
    assert_eq!(dir.names(), ["runner"]);
}

#[test]
fn a_crash_anywhere_in_making_the_first_log_leaves_all_of_it_or_none() {
    let notes = notes(2);
    let length = boundaries(&notes)[2];
    for (at, kept) in stops(length) {
        for dead in [true, false] {
            let dir = LogDir::new();
            let disk = FailingDisk::with(Fault {
                at,
                kept,
                errno: EIO,
                dead,
            });
            error_of(Log::create_on(
                disk.boxed(),
                &dir.path(),
                Kind::Runner,
                &notes,
            ));
            if at == CREATION.len() - 1 {
                assert_eq!(must_read(&dir.path()).records, notes);
            } else {
                assert!(error_of(dir.open()).is_missing(), "stopped at {at}, {kept}");
            }
            // A leftover temporary file is no obstacle.
            dir.log_of(&notes);
            assert_eq!(dir.names(), ["runner"]);
            dir.must_go_on_after(&notes);
        }
    }
}

#[test]
fn a_crash_anywhere_in_making_a_log_anew_leaves_the_old_or_the_new_one() {
    let (old, new) = (texts(&["old"]), texts(&["new", "newer"]));
    for (at, kept) in stops(boundaries(&new)[2]) {
        let dir = LogDir::new();
        dir.log_of(&old);
        let disk = FailingDisk::with(Fault {
            at,
            kept,
            errno: EIO,
            dead: true,
        });
        error_of(Log::create_on(
            disk.boxed(),
            &dir.path(),
            Kind::Runner,
            &new,
        ));
        let renamed = at == CREATION.len() - 1;
        dir.must_go_on_after(if renamed { &new } else { &old });
    }
}

#[test]
fn a_replaced_log_begins_with_the_new_records_and_goes_on_counting() {
    let dir = LogDir::new();
    let mut log = Log::create(&dir.path(), Kind::Runner, &notes(9)).expect("a new log");
    let long = log.bytes();
    log.replace(&texts(&["snapshot", "rest"]))
        .expect("replaced");
    assert!(log.bytes() < long);
    assert_eq!((log.records(), log.last_sequence()), (2, 11));
    assert_eq!(log.append(&texts(&["next"])).expect("an append"), 12);
    assert_eq!(log.bytes(), dir.bytes().len() as u64);
    assert_eq!(dir.names(), ["runner"]);

    let (mut log, recovered) = dir.open().expect("the log opens");
    assert_eq!(recovered.records, ["snapshot", "rest", "next"]);
    assert_eq!(recovered.first_sequence, 10);
    assert_eq!((log.records(), log.last_sequence()), (3, 12));
    assert_eq!(log.append(&texts(&["after"])).expect("an append"), 13);
}

#[test]
fn a_log_replaced_by_nothing_goes_on_counting() {
    let dir = LogDir::new();
    let mut log = Log::create(&dir.path(), Kind::Runner, &notes(4)).expect("a new log");
    log.replace::<String>(&[]).expect("replaced");
    drop(log);
    let (mut log, recovered) = dir.open().expect("the log opens");
    assert!(recovered.records.is_empty());
    assert_eq!(recovered.first_sequence, 5);
    assert_eq!(log.append(&notes(1)).expect("an append"), 5);
}

#[test]
fn a_replaced_log_without_its_first_record_is_damaged() {
    let dir = LogDir::new();
    let mut log = Log::create(&dir.path(), Kind::Runner, &notes(4)).expect("a new log");
    let new = texts(&["snapshot", "rest"]);
    log.replace(&new).expect("replaced");
    let boundaries = boundaries(&new);
    let mut bytes = dir.bytes();
    bytes.drain(boundaries[0]..boundaries[1]);
    dir.put(&bytes);
    let damage = damage_of(dir.open());
    assert_eq!(damage.kind, DamageKind::OutOfOrder { found: 6 });
    assert_eq!(damage.sequence, 5);
}

#[test]
fn a_replacement_that_fails_before_the_exchange_leaves_a_log_that_can_be_used() {
    let (old, new) = (notes(3), texts(&["snapshot"]));
    for (at, kept) in stops(boundaries(&new)[1]) {
        if at == CREATION.len() - 1 {
            continue;
        }
        let dir = LogDir::new();
        let disk = FailingDisk::with(Fault {
            at: CREATION.len() + at,
            kept,
            errno: EIO,
            dead: false,
        });
        let mut log =
            Log::create_on(disk.boxed(), &dir.path(), Kind::Runner, &old).expect("a new log");
        error_of(log.replace(&new));
        assert!(log.failure().is_none());
        assert_eq!(dir.names(), ["runner"], "stopped at {at}, {kept}");
        assert_eq!(log.append(&new).expect("the old log is intact"), 4);
        log.sync().expect("a sync");
        let all = [&old[..], &new[..]].concat();
        assert_eq!(must_read(&dir.path()).records, all);
        log.replace(&new).expect("it works the next time");
        assert_eq!(must_read(&dir.path()).records, new);
    }
}

#[test]
fn a_replacement_that_fails_after_the_exchange_stops_the_log() {
    let dir = LogDir::new();
    let disk = FailingDisk::with(Fault {
        at: 2 * CREATION.len() - 1,
        kept: 0,
        errno: EIO,
        dead: false,
    });
    let new = texts(&["snapshot"]);
    let mut log =
        Log::create_on(disk.boxed(), &dir.path(), Kind::Runner, &notes(3)).expect("a new log");
    let first = error_of(log.replace(&new)).to_string();
    assert_eq!(error_of(log.append(&new)).to_string(), first);
    assert_eq!(error_of(log.sync()).to_string(), first);
    assert_eq!(must_read(&dir.path()).records, new);
}

#[test]
fn a_crash_anywhere_in_a_replacement_leaves_the_old_or_the_new_log() {
    let (old, new) = (notes(3), texts(&["snapshot", "rest"]));
    for (at, kept) in stops(boundaries(&new)[2]) {
        let dir = LogDir::new();
        let disk = FailingDisk::with(Fault {
            at: CREATION.len() + at,
            kept,
            errno: EIO,
            dead: true,
        });
        let mut log =
            Log::create_on(disk.boxed(), &dir.path(), Kind::Runner, &old).expect("a new log");
        error_of(log.replace(&new));
        drop(log);
        let (mut log, recovered) = dir.open().expect("one of the two");
        let renamed = at == CREATION.len() - 1;
        let (records, last) = if renamed { (&new, 5) } else { (&old, 3) };
        assert_eq!(recovered.records, *records, "stopped at {at}, {kept}");
        assert_eq!(log.last_sequence(), last);
        // A leftover temporary file is no obstacle to the next replacement.
        log.replace(&new).expect("replaced");
        assert_eq!(dir.names(), ["runner"]);
    }
}

#[test]
fn a_file_left_beside_the_log_is_never_taken_for_it() {
    let dir = LogDir::new();
    let notes = notes(2);
    dir.log_of(&notes);
    let beside = dir.directory.path().join("runner.new");
    fs::write(&beside, b"half a log").expect("writing beside the log");
    dir.must_go_on_after(&notes);
    fs::remove_file(dir.path()).expect("the log is there");
    assert!(error_of(dir.open()).is_missing());
}
