//! The database file: its versions, its permissions, and its size.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, Revision, TaskNo};
use baton_model::library::{Cause, Definition, Execution, TaskName};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_store::facts::FactQuery;
use baton_store::limits::{WAL_BYTES_KEPT, WAL_PAGES_HARD};
use baton_store::sqlite::SCHEMA_VERSION;
use baton_store::view::{Query, Seq, TickQuery, View};
use baton_store::{FactLog as _, Retention, SqliteStore, StoreError, Views as _};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::leading::{Leader, array, condemned, halted, submitted};

pub(crate) fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("baton.db");
    (dir, path)
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).expect("the store opens")
}

pub(crate) fn refusal(path: &Path) -> StoreError {
    match SqliteStore::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

#[test]
fn a_newer_schema_is_refused_by_both_versions_and_left_as_it_is() {
    let (_dir, path) = place();
    drop(open(&path));
    let newer = SCHEMA_VERSION + 3;
    let db = Connection::open(&path).expect("opens");
    db.pragma_update(None, "user_version", newer)
        .expect("writable");
    drop(db);
    let before = fs::read(&path).expect("readable");
    let error = refusal(&path);
    let text = error.to_string();
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{text}");
    for part in [
        "baton.db",
        &newer.to_string(),
        &SCHEMA_VERSION.to_string(),
        "newer baton",
    ] {
        assert!(text.contains(part), "no {part} in: {text}");
    }
    assert_eq!(fs::read(&path).expect("readable"), before);
}

#[test]
fn a_schema_that_a_newer_baton_moved_on_is_not_written_by_a_running_one() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1)]);
    let db = Connection::open(&path).expect("opens");
    db.pragma_update(None, "user_version", SCHEMA_VERSION + 1)
        .expect("writable");
    let newer = leader.try_commit(&store, vec![submitted(2)]);
    assert!(matches!(newer, Err(StoreError::NewerSchema { .. })));
    let newer = store.instance(InstanceId(1));
    assert!(matches!(newer, Err(StoreError::NewerSchema { .. })));
    let count = "SELECT count(*) FROM history";
    assert_eq!(db.query_row(count, [], |row| row.get::<_, i64>(0)), Ok(1));
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let (_dir, path) = place();
    let db = Connection::open(&path).expect("opens");
    db.execute_batch("CREATE TABLE recipes (name TEXT)")
        .expect("writable");
    drop(db);
    let before = fs::read(&path).expect("readable");
    assert!(matches!(refusal(&path), StoreError::Foreign(_)));
    assert_eq!(fs::read(&path).expect("readable"), before);
}

#[test]
fn a_store_of_schema_version_1_can_still_be_read_and_written() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v1.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    assert_eq!(store.read_row().map(|row| row.epoch), Ok(Epoch(2)));
    let mut leader = Leader::elect(&store);
    let waiting = leader.ledger.waiting();
    let waiting: Vec<_> = waiting.map(|it| (it.first.0, it.last.0)).collect();
    assert_eq!(waiting, [(3, 3), (101, 1_000), (u64::MAX, u64::MAX)]);
    let state = |id| {
        let record = store.instance(InstanceId(id)).expect("readable");
        record.map(|it| it.instance.state)
    };
    assert_eq!(state(1), Some(UniversalState::Done));
    assert_eq!(state(2), Some(UniversalState::Launched));
    assert_eq!(state(50), Some(UniversalState::Halted));
    assert_eq!(state(4), Some(UniversalState::Queued));
    let requeued = leader.ledger.instance(InstanceId(4)).expect("requeued");
    assert_eq!(requeued.not_before(), Some(Wall(7_000)));
    assert_eq!(leader.ledger.drained().len(), 1);
    assert_eq!(leader.ledger.known().ranges().count(), 3);
    assert_eq!(leader.ledger.lease_time(), Millis(45_000));
    assert_eq!(leader.ledger.condemned().count(), 1);
    let timeline = store.timeline(InstanceId(1), None, 10).expect("readable");
    assert_eq!(timeline.items.len(), 4);
    assert_eq!(timeline.items[0].fact, submitted(1));
    let facts = store.facts(&FactQuery::default()).expect("readable");
    let numbers: Vec<u64> = facts.items.iter().map(|entry| entry.seq.0).collect();
    assert_eq!(numbers, (1..=facts.last.0).collect::<Vec<_>>());
    assert_eq!(facts.pruned, Seq(0));
    assert_eq!(store.tokens(), Ok(Vec::new()));
    leader.commit(&store, leader.done(5));
    leader.commit(&store, vec![condemned(7, 3)]);
    assert_eq!(store.check(), Ok(()));
    drop(store);
    assert_eq!(Leader::elect(&open(&path)).ledger, leader.left());
}

#[test]
fn a_store_of_schema_version_1_takes_a_library_and_is_not_read_as_version_1_again() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v1.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let version = || {
        let db = Connection::open(&path).expect("opens");
        db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))
    };
    assert_eq!(version(), Ok(1));
    let store = open(&path);
    assert_eq!(version(), Ok(SCHEMA_VERSION));
    let mut leader = Leader::elect(&store);
    assert_eq!(leader.ledger.library().tasks().count(), 0);
    let query = TickQuery {
        limit: 10,
        ..TickQuery::default()
    };
    let ticks = store.ticks(&query).expect("readable");
    assert!(
        ticks.items.is_empty(),
        "older facts are not taken for due times"
    );
    let name = TaskName {
        owner: "o".to_owned(),
        name: "a".to_owned(),
    };
    let tick = Fact::Launched {
        entry: TaskNo(1),
        revision: Revision(1),
        cause: Cause::Due {
            first: Wall(5),
            last: Wall(9),
            count: 3,
        },
        verdict: TickVerdict::Skip(SkipReason::Missed),
        execution: None,
    };
    let defined = Fact::TaskDefined {
        task: TaskNo(1),
        name: name.clone(),
        revision: Revision(1),
        from: Wall(1),
        definition: Arc::new(Definition {
            source: "{}".into(),
            spec: Some(Arc::default()),
            ..Definition::default()
        }),
    };
    leader.commit(&store, vec![defined, tick.clone()]);
    drop(store);
    let store = open(&path);
    assert_eq!(Leader::elect(&store).ledger, leader.left());
    let ticks = store.ticks(&query).expect("readable").items;
    assert_eq!(
        ticks.into_iter().map(|it| it.fact).collect::<Vec<_>>(),
        [tick]
    );
    assert!(store.task(&name, None).is_ok_and(|it| it.is_some()));
    assert_eq!(store.check(), Ok(()));
}

#[test]
fn only_the_owner_can_read_the_store() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1)]);
    for file in [path.clone(), log_of(&path)] {
        let mode = fs::metadata(&file).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn pruning_makes_the_file_smaller() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    for some in 0..20 {
        let mut facts = Vec::new();
        (0..500).for_each(|n| facts.extend(leader.done(some * 500 + n)));
        leader.commit_at(&store, Wall(some), facts);
    }
    let few = Retention {
        terminal_instances_max: Some(100),
        ..Retention::default()
    };
    // Closing checkpoints the WAL, so that the file has its full size.
    drop(store);
    let store = open(&path);
    let before = size(&path);
    let pruned = store
        .prune(leader.epoch, Wall(99), &few, usize::MAX)
        .expect("prunable");
    let after = size(&path);
    assert_eq!(pruned.instances, 9_900);
    assert_eq!(pruned.returned, before - after);
    assert!(after < before / 5, "{before} bytes became {after}");
    assert_eq!(size(&log_of(&path)), 0);
    assert_eq!(store.check(), Ok(()));
    // The same leader continues.
    leader.commit(&store, vec![submitted(1_000_000)]);
}

#[test]
fn equal_specs_are_stored_once_and_removed_with_their_last_instance() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    let db = Connection::open(&path).expect("opens");
    let specs = || {
        let count = "SELECT count(*) FROM spec";
        db.query_row(count, [], |row| row.get::<_, i64>(0))
    };
    let same = |id: u64| Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::default(),
    };
    leader.commit(&store, vec![same(1), array(2, 900), same(1_000)]);
    leader.commit(&store, vec![same(1_001)]);
    assert_eq!(specs(), Ok(2));
    let ledger = Leader::elect(&store).ledger;
    let of = |id| ledger.find(InstanceId(id)).expect("waits").spec;
    assert_eq!(of(1), of(1_001));
    assert!(Arc::ptr_eq(&of(2), &of(900)), "an array shares it");
    let mut leader = Leader::elect(&store);
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    for (halted, left) in [(halted(2, 1_000), 1), (halted(0, 2_000), 0)] {
        leader.commit(&store, vec![halted]);
        store
            .prune(leader.epoch, Wall(9), &none, usize::MAX)
            .expect("prunable");
        assert_eq!(specs(), Ok(left));
    }
    // A spec that was pruned from the cache is not referenced.
    leader.commit(&store, vec![same(2_001)]);
    assert_eq!(specs(), Ok(1));
}

#[test]
fn a_million_instances_are_accepted_in_one_small_row() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![array(1, 1_000_000)]);
    leader.commit(&store, vec![halted(1, 500_000)]);
    let rows = "SELECT (SELECT count(*) FROM span) + (SELECT count(*) FROM instance)";
    let db = Connection::open(&path).expect("opens");
    assert_eq!(db.query_row(rows, [], |row| row.get::<_, i64>(0)), Ok(2));
}

#[test]
fn a_reader_that_stays_does_not_stop_the_writer_and_the_log_shrinks_after_it() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, leader.done(0));
    let reader = Connection::open(&path).expect("opens");
    reader.execute_batch("BEGIN").expect("begins");
    let count = "SELECT count(*) FROM instance";
    let seen = || reader.query_row(count, [], |row| row.get::<_, i64>(0));
    assert_eq!(seen(), Ok(1));
    let mut id = 0;
    let mut write = || {
        let mut facts = Vec::new();
        (0..500).for_each(|n| facts.extend(leader.done(id + 1 + n)));
        leader.commit(&store, facts);
        id += 500;
    };
    // The reader pins the WAL, so it grows beyond the size at which it would be truncated.
    while size(&log_of(&path)) <= WAL_PAGES_HARD * 4_096 {
        write();
    }
    assert_eq!(seen(), Ok(1));
    drop(reader);
    // Whatever the writer has counted since its last check of the WAL, the next check comes soon.
    (0..10).for_each(|_| write());
    assert!(size(&log_of(&path)) <= WAL_BYTES_KEPT);
    let page = store
        .page(&Query::first(View::History, 1))
        .expect("readable");
    assert_eq!(page.items.len(), 1);
}

#[test]
fn a_store_of_schema_version_2_can_still_be_read_and_led() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v2.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let leader = Leader::elect(&store);
    let library = leader.ledger.library();
    let named = |name: &str| TaskName {
        owner: "lab".to_owned(),
        name: name.to_owned(),
    };
    let tick = library.find(&named("tick")).expect("it is there");
    let trigger = tick.trigger().expect("it is defined");
    assert_eq!(trigger.max_instances, Some(3));
    assert!(tick.accounted > Wall(0) && tick.payload(Wall(0)).is_some());
    let then = library.find(&named("then")).expect("it is there");
    assert_eq!(then.trigger().expect("defined").after, [named("tick")]);
    let gone = library.find(&named("gone")).expect("its name is taken");
    assert!(!gone.is_defined());
    let old = store.task(&named("gone"), Some(Revision(1)));
    assert!(old.expect("readable").is_some_and(|task| !task.current));
    let query = TickQuery {
        limit: 100,
        ..TickQuery::default()
    };
    let ticks = store.ticks(&query).expect("readable").items;
    let launched = ticks.iter().filter_map(|entry| match entry.fact {
        Fact::Launched { execution, .. } => execution.and_then(Execution::instance),
        _ => None,
    });
    assert_eq!(launched.count(), 9, "one of ten was triggered");
    let tokens = store.tokens().expect("readable");
    assert_eq!(tokens[0].owner.as_deref(), Some("lab"));
    let facts = store.facts(&FactQuery::default()).expect("readable");
    assert_eq!((facts.last, facts.pruned), (Seq(55), Seq(0)));
    assert_eq!(store.check(), Ok(()));
}

#[test]
fn a_range_of_most_instances_is_counted_by_what_is_outside() {
    let (_dir, path) = place();
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    let facts = (1..=10).map(submitted).collect();
    leader.commit(&store, facts);
    // The counters and the rows differ now, so the result tells which of them was read.
    let db = Connection::open(&path).expect("opens");
    db.execute("UPDATE tally SET instances = 1000 + instances", ())
        .expect("writable");
    let count = |first, last| {
        let tally = store.tally(InstanceId(first), InstanceId(last));
        tally.expect("readable").into_iter().collect::<Vec<_>>()
    };
    let queued = UniversalState::Queued;
    for (first, last, expected) in [
        (1, 10, 1_010),
        (0, u64::MAX, 1_010),
        (3, 10, 1_008),
        (2, 9, 1_008),
        (3, 6, 4),
        (10, u64::MAX, 1),
    ] {
        assert_eq!(
            count(first, last),
            [(queued, expected)],
            "{first} to {last}"
        );
    }
    assert_eq!(count(11, 20), []);
}
