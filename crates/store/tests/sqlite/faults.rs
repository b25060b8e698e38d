//! Disks that are full, damaged or read-only.

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_model::ids::InstanceId;
use baton_model::time::Wall;
use baton_store::{FactLog as _, SqliteStore, StoreError, Views as _};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::file::{open, place, refusal};
use crate::leading::{Leader, NOW, granted, next, submitted, take_identity};

/// A file system of its own, unmounted at the end.
struct Disk(TempDir);

impl Disk {
    /// `None`, with a printed reason, where mounting is not allowed.
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let disk = Self(dir);
        if mount(&["-t", "tmpfs", "-o", options, "tmpfs"], disk.path()) {
            Some(disk)
        } else {
            println!("skipped: mounting a file system needs root");
            None
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails if nothing was mounted; if it is busy, the temporary directory stays behind, which
        // cannot be helped here.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let run = Command::new("mount").args(arguments).arg(at).output();
    run.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_loses_nothing_and_a_new_term_goes_on_when_there_is_space() {
    let Some(disk) = Disk::new("size=4m") else {
        return;
    };
    let path = disk.path().join("baton.db");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 2 << 20]).expect("there is space");
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    let mut acknowledged = leader.ledger.clone();
    let mut id = 0;
    let error = loop {
        id += 1;
        assert!(id < 100_000, "the disk never got full");
        let batch = leader.batch((0..100).map(|n| submitted(id * 100 + n)).collect());
        match store.commit(batch, NOW) {
            Ok(_) => acknowledged = leader.ledger.clone(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::DiskFull(_)), "{error}");
    assert!(error.to_string().contains("no space left"), "{error}");
    // The term is over, but reads still work.
    assert_eq!(
        leader.try_commit(&store, vec![submitted(u64::MAX)]),
        Err(StoreError::TermBroken)
    );
    let row = store.read_row().expect("still readable");
    assert_eq!(row.epoch, leader.epoch);
    assert!(store.instance(InstanceId(100)).expect("readable").is_some());

    fs::remove_file(&ballast).expect("removable");
    let mut next = Leader::elect(&store);
    assert_eq!(next.ledger, acknowledged);
    next.commit(&store, vec![submitted(u64::MAX)]);
    assert_eq!(store.check(), Ok(()));
    drop(store);
    assert_eq!(Leader::elect(&open(&path)).ledger, next.ledger);
}

#[test]
fn a_file_system_that_cannot_be_written_is_refused_by_name() {
    let Some(disk) = Disk::new("size=4m") else {
        return;
    };
    let old = disk.path().join("baton.db");
    drop(open(&old));
    assert!(mount(&["-o", "remount,ro"], disk.path()), "it was mounted");
    for name in ["baton.db", "new.db"] {
        let error = refusal(&disk.path().join(name));
        assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let (dir, _) = place();
    let error = refusal(&dir.path().join("missing/baton.db"));
    assert!(error.to_string().contains("missing/baton.db"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let (_dir, path) = place();
    let text = "not a database, but its owner may still need it\n".repeat(100);
    fs::write(&path, &text).expect("writable");
    let error = refusal(&path);
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("readable"), text);
}

#[test]
fn damaged_pages_are_an_error_and_never_a_wrong_answer() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    for id in 0..50 {
        let mut facts = Vec::new();
        (0..40).for_each(|n| facts.extend(leader.done(id * 40 + n)));
        leader.commit_at(&store, Wall(id), facts);
    }
    drop(store);
    let whole = fs::read(&path).expect("readable");
    let pages = (1..whole.len() / 4_096).step_by(3);
    let (mut noticed, tried) = (0, pages.len());
    for page in pages {
        let mut bytes = whole.clone();
        bytes[page * 4_096..page * 4_096 + 64].fill(0xa5);
        fs::write(&path, bytes).expect("writable");
        let Ok(store) = SqliteStore::open(&path) else {
            noticed += 1;
            continue;
        };
        let row = store.read_row();
        let taken = row.and_then(|row| store.take(row.epoch, next(row.epoch)));
        match taken {
            // The damage is in the history, an index or a free page.
            Ok(baton_store::TakeOutcome::Won(_, mut ledger)) => {
                take_identity(&mut ledger);
                assert_eq!(*ledger, leader.left());
            }
            Ok(baton_store::TakeOutcome::Overtaken) => panic!("no other leader takes the row"),
            Err(error) => assert!(matches!(error, StoreError::Corrupt(_)), "{error}"),
        }
        if matches!(store.check(), Err(StoreError::Corrupt(_))) {
            noticed += 1;
        }
    }
    assert!(noticed > tried / 2, "{noticed} of {tried} noticed");
}

#[test]
fn a_row_that_no_facts_could_have_left_so_is_not_led_on() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1), submitted(2)]);
    let lease = leader.ledger.next_lease(InstanceId(1), leader.epoch);
    leader.commit(&store, vec![granted(lease)]);
    let db = Connection::open(&path).expect("opens");
    let spec: String = db
        .query_row("SELECT body FROM spec WHERE id = 1", [], |row| row.get(0))
        .expect("readable");
    let undo = [
        "UPDATE instance SET state = 'LAUNCHED'",
        "UPDATE span SET state = 'QUEUED', first = 2",
    ];
    for damage in [
        "UPDATE instance SET state = 'RUNNING'",
        "UPDATE instance SET state = 'TRIAGING'",
        "UPDATE instance SET state = 'NAPPING'",
        "UPDATE span SET state = 'LAUNCHED'",
        "UPDATE span SET state = 'NAPPING'",
        "UPDATE span SET first = 1",
        "UPDATE span SET first = 3",
        "UPDATE spec SET body = '{'",
    ] {
        db.execute(damage, []).expect("writable");
        let row = store.read_row().expect("readable");
        let error = store
            .take(row.epoch, next(row.epoch))
            .expect_err("not to be led on");
        assert!(matches!(error, StoreError::Corrupt(_)), "{damage}: {error}");
        for undo in undo {
            db.execute(undo, []).expect("writable");
        }
        db.execute("UPDATE spec SET body = ?1", [&spec])
            .expect("writable");
    }
    db.execute("DELETE FROM spec", []).expect("writable");
    let row = store.read_row().expect("readable");
    let error = store
        .take(row.epoch, next(row.epoch))
        .expect_err("not to be led on");
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}
