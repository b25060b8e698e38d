//! Every due time has a record, also when the scheduler is killed with `kill -9` every few
//! seconds: the simulator's checker verifies the facts in the store afterwards,
//! and every launched instance has run once.
//!
//! The tasks are put into the store before the scheduler starts. `BATON_CHRONOS_SECONDS` and
//! `BATON_SEED` choose a longer or another run.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use baton_core::clock::Zone;
use baton_core::scheduler::{
    Command, Config, DefineCommand, Effect, Input, Precondition, RemoveCommand, Scheduler,
};
use baton_core::step::Outbox;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, RequestId};
use baton_model::library::{Cause, Definition, Execution, Schedule, TaskName, Trigger};
use baton_model::mark::{FileId, Mark, StoreState};
use baton_model::schedule::{CatchUp, Dst, TickVerdict};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::{Millis, Mono, Now, Wall};
use baton_sim::chronos::check::{ClockCheck, Entry, History, check};
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::view::{self, Seq, TickQuery};
use baton_store::{SqliteStore, Store, TakeOutcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::postgres::database;
use baton_testing::{Rng, setting, until_some};

/// A task of this test.
struct TestTask {
    name: &'static str,
    schedule: &'static str,
    slack_s: u64,
    catch_up: CatchUp,
    jitter_ms: u64,
    max_instances: Option<u32>,
    /// The command of each instance after it has printed its due time.
    then: &'static str,
}

const PLAIN: TestTask = TestTask {
    name: "all",
    schedule: "every 1s",
    slack_s: 3_600,
    catch_up: CatchUp::All,
    jitter_ms: 0,
    max_instances: None,
    then: "true",
};

const GIVEN: [TestTask; 6] = [
    PLAIN,
    TestTask {
        name: "last",
        schedule: "*/2 * * * * *",
        catch_up: CatchUp::Last,
        ..PLAIN
    },
    TestTask {
        name: "none",
        schedule: "every 3s",
        catch_up: CatchUp::None,
        ..PLAIN
    },
    TestTask {
        name: "brief",
        schedule: "*/3 * * * * *",
        slack_s: 1,
        ..PLAIN
    },
    TestTask {
        name: "jitter",
        schedule: "every 3s",
        jitter_ms: 900,
        ..PLAIN
    },
    TestTask {
        name: "one",
        schedule: "every 2s",
        max_instances: Some(1),
        then: "sleep 3",
        ..PLAIN
    },
];

fn now() -> Now {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let wall = since.expect("after 1970").as_millis() as u64;
    Now {
        mono: Mono(wall),
        wall: Wall(wall),
    }
}

fn definition(given: &TestTask, dir: &Path) -> Definition {
    let script = format!("echo $BATON_NOMINAL_TIME >> {}; {}", given.name, given.then);
    let script = format!("cd '{}' && {{ {script}; }}", dir.display());
    let spec = InstanceSpec {
        name: given.name.to_owned(),
        work: Work::Command(["sh", "-c", &script].map(str::to_owned).to_vec()),
        ..InstanceSpec::default()
    };
    Definition {
        source: "{}".into(),
        spec: Some(Arc::new(spec)),
        trigger: Trigger {
            schedule: Some(Schedule {
                text: given.schedule.to_owned(),
                zone: "Europe/Berlin".to_owned(),
                dst: Dst::default(),
                slack: Millis::from_secs(given.slack_s),
                catch_up: given.catch_up,
                jitter: Millis(given.jitter_ms),
            }),
            max_instances: given.max_instances,
            ..Trigger::default()
        },
        ..Definition::default()
    }
}

/// The store of the cluster.
enum TestStore {
    Sqlite(PathBuf),
    Postgres(String),
}

impl TestStore {
    fn open(&self) -> Box<dyn Store> {
        match self {
            Self::Sqlite(path) => Box::new(SqliteStore::open(path).expect("the store opens")),
            Self::Postgres(url) => {
                let store = PostgresStore::connect(&StoreUrl::from(&**url));
                Box::new(store.expect("the store opens"))
            }
        }
    }

    /// Updates the mark of the store after a term of this test. Without it the scheduler
    /// takes the store for a copy, and waits for the leases of the original.
    fn write_mark(&self, store: &dyn Store) {
        let Self::Sqlite(path) = self else { return };
        let found = store.fingerprint().expect("readable");
        let file = std::fs::metadata(path).expect("there");
        let created = file.created().ok();
        let created = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let mark = Mark {
            seen: StoreState {
                store: found.store,
                file: FileId {
                    inode: file.ino(),
                    created_ns: created.map_or(0, |at| at.as_nanos() as u64),
                },
                epoch: found.epoch,
                last_fact: found.last_fact.0,
            },
            next: found.epoch,
            copied: None,
        };
        let text = serde_json::to_vec(&mark).expect("plain data");
        std::fs::write(path.with_extension("mark"), text).expect("written");
    }
}

/// Puts the tasks into a new store, as a leader of its own; returns the facts.
fn fill(store: &dyn Store, effects: &Path) -> Vec<Entry> {
    let Ok(TakeOutcome::Won(epoch, ledger)) = store.take(Epoch(0), Epoch::new(1, 1)) else {
        panic!("another leader");
    };
    let mut core = Scheduler::new(Config::default(), epoch, *ledger, now());
    let mut outbox: Outbox<Effect> = Outbox::new(epoch);
    let mut entries = Vec::new();
    for (given, batch) in GIVEN.iter().zip(1..) {
        let now = now();
        let command = Box::new(DefineCommand {
            name: TaskName {
                owner: "o".to_owned(),
                name: given.name.to_owned(),
            },
            definition: Arc::new(definition(given, effects)),
            expected: Precondition::Absent,
            by_file: false,
            dry: false,
        });
        let request = RequestId(batch);
        let step = core.handle(now, Input::command(request, Command::Define(command)));
        let facts = step.facts().iter().cloned();
        entries.extend(facts.map(|fact| Entry {
            epoch,
            batch,
            now,
            fact,
        }));
        let batch = outbox.accept(step).expect("a definition is a fact");
        let receipt = store.commit(batch, now.wall).expect("it lands");
        outbox.release(receipt);
    }
    entries
}

/// Every record of due times, the oldest first.
fn ticks(store: &dyn Store) -> Vec<view::RecordedFact> {
    let mut all = Vec::new();
    let mut query = TickQuery {
        task: None,
        before: None,
        limit: 1_000,
    };
    loop {
        let page = store.ticks(&query).expect("readable");
        all.extend(page.items);
        query.before = page.next;
        if query.before.is_none() {
            all.reverse();
            return all;
        }
    }
}

fn launched(fact: &Fact) -> Option<InstanceId> {
    match fact {
        Fact::Launched { execution, .. } => execution.and_then(Execution::instance),
        _ => None,
    }
}

/// The facts about due times and their launches, in commit order.
fn facts_of_ticks(
    store: &dyn Store,
    ticks: Vec<view::RecordedFact>,
) -> BTreeMap<Seq, view::RecordedFact> {
    let mut all = BTreeMap::new();
    for id in ticks.iter().filter_map(|tick| launched(&tick.fact)) {
        let timeline = store.timeline(id, None, 1_000).expect("readable");
        all.extend(timeline.items.into_iter().map(|it| (it.seq, it)));
    }
    all.extend(ticks.into_iter().map(|it| (it.seq, it)));
    all
}

/// When a fact was decided. The store has only its commit time, which may be a little later.
fn decided(entry: &view::RecordedFact) -> Wall {
    match entry.fact {
        Fact::Launched {
            cause: Cause::Due { first, .. },
            verdict,
            ..
        } => match verdict {
            TickVerdict::Launch => entry.at.min(Wall(first.0 + 1_000)),
            TickVerdict::Late { by } => Wall(first.0 + by.0),
            TickVerdict::Skip(_) => entry.at,
        },
        _ => entry.at,
    }
}

fn check_records(store: &dyn Store, mut entries: Vec<Entry>, until: Wall) -> (u64, u64) {
    let mut batch = entries.len() as u64;
    let mut before = None;
    // On a slow host tasks are due while the store is filled; `entries` has these facts already.
    let filled = entries.first().map(|entry| entry.epoch);
    let recorded = facts_of_ticks(store, ticks(store)).into_values();
    for entry in recorded.filter(|entry| Some(entry.epoch) != filled) {
        let place = (entry.epoch, entry.at);
        batch += u64::from(before.replace(place) != Some(place));
        let wall = decided(&entry);
        let mono = Mono(wall.0);
        entries.push(Entry {
            epoch: entry.epoch,
            batch,
            now: Now { mono, wall },
            fact: entry.fact,
        });
    }
    let look = ClockCheck {
        after: entries.len(),
        wall: until,
    };
    let history = History {
        entries: &entries,
        clock_checks: &[look],
    };
    match check(&history) {
        Ok(tally) => {
            eprintln!("{} facts: {tally:?}", entries.len());
            (tally.late, tally.missed)
        }
        Err(violation) => panic!("{}: {}", violation.checker, violation.what),
    }
}

/// Every launch has printed its due time, and no other process has.
fn ran(store: &dyn Store, effects: &Path) {
    let mut expected: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for tick in ticks(store) {
        if let Fact::Launched {
            entry,
            cause: Cause::Due { first, .. },
            ..
        } = tick.fact
            && launched(&tick.fact).is_some()
        {
            let due = Zone::UTC.rfc3339(first);
            expected.entry(entry.0).or_default().push(due);
        }
    }
    for (given, number) in GIVEN.iter().zip(1..) {
        let mut stdout = lines(&effects.join(given.name));
        stdout.sort();
        let expected = expected.remove(&number).unwrap_or_default();
        assert!(!expected.is_empty(), "{} was never launched", given.name);
        assert_eq!(stdout, expected, "{}", given.name);
    }
}

#[test]
fn every_due_time_is_accounted_for_by_a_scheduler_that_is_killed_again_and_again() {
    let cluster = Cluster::idle(&[]);
    let data = cluster.path("data");
    std::fs::create_dir(&data).expect("made");
    let path = data.join("baton.db");
    killed_again_and_again(cluster, 20, &TestStore::Sqlite(path));
}

#[test]
fn every_due_time_is_accounted_for_on_postgresql() {
    let url = database();
    let cluster = Cluster::idle(&["--store", &url]);
    killed_again_and_again(cluster, 12, &TestStore::Postgres(url));
}

/// Kills the scheduler for so many seconds while tasks are due.
fn killed_again_and_again(mut cluster: Cluster, seconds: u64, place: &TestStore) {
    let seconds = setting("BATON_CHRONOS_SECONDS").unwrap_or(seconds);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let effects = cluster.path("effects");
    std::fs::create_dir(&effects).expect("made");
    let store = place.open();
    let entries = fill(&*store, &effects);
    place.write_mark(&*store);
    drop(store);
    cluster.start_scheduler();
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let begun = Instant::now();
    // The first downtime is long enough for late and for missed due times.
    let mut absence = 5_000;
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(rng.below(3_000)));
        cluster.kill_scheduler();
        std::thread::sleep(Duration::from_millis(absence));
        absence = rng.below(2_000);
        cluster.start_scheduler();
    }
    let until = now().wall;
    let store = place.open();
    until_some("everything that was due is recorded", || {
        let mut accounted: BTreeMap<u64, Wall> = BTreeMap::new();
        for tick in ticks(&*store) {
            if let Fact::Launched {
                entry,
                cause: Cause::Due { last, .. },
                ..
            } = tick.fact
            {
                accounted.insert(entry.0, last);
            }
        }
        let ahead = accounted.values().filter(|last| **last > until).count();
        (ahead == GIVEN.len()).then_some(())
    });
    cluster.kill_scheduler();
    let (late, missed) = check_records(&*store, entries, until);
    assert!(late > 0 && missed > 0, "{late} {missed}");
    // The last launches may still wait for their worker.
    drop(store);
    finish(&mut cluster, place, &effects);
}

/// Waits for the launched instances, without new launches, and checks their output.
fn finish(cluster: &mut Cluster, place: &TestStore, effects: &Path) {
    let store = place.open();
    remove_all(&*store);
    place.write_mark(&*store);
    drop(store);
    cluster.start_scheduler();
    let store = place.open();
    until_some("what was launched is done", || {
        let counts = store.counts().expect("readable");
        let all: u64 = counts.states.values().sum();
        (counts.terminal() == all).then_some(())
    });
    ran(&*store, effects);
}

/// Takes the tasks out of the library, as a leader of its own.
fn remove_all(store: &dyn Store) {
    let row = store.read_row().expect("readable");
    let next = row.epoch.successor(1).expect("not the last");
    let Ok(TakeOutcome::Won(epoch, ledger)) = store.take(row.epoch, next) else {
        panic!("another leader");
    };
    let mut core = Scheduler::new(Config::default(), epoch, *ledger, now());
    let mut outbox: Outbox<Effect> = Outbox::new(epoch);
    for given in &GIVEN {
        let command = RemoveCommand {
            name: TaskName {
                owner: "o".to_owned(),
                name: given.name.to_owned(),
            },
            expected: Precondition::Anything,
            by_file: false,
        };
        let request = RequestId(1);
        let step = core.handle(now(), Input::command(request, Command::Remove(command)));
        let batch = outbox.accept(step).expect("a removal is a fact");
        let receipt = store.commit(batch, now().wall).expect("it lands");
        outbox.release(receipt);
    }
}
