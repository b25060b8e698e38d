//! Files written by older versions, and runs in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_core::workflow::ItemState;
use baton_model::backfill::{BackfillHalt, BackfillState};
use baton_model::conditions::{Dependency, DependencyRule, Subject};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Epoch, InstanceId, RunId, StoreId, TokenId};
use baton_model::library::{Cause, Created, Execution, TaskName, TriggerSource};
use baton_model::principal::Principal;
use baton_model::state::UniversalState as S;
use baton_model::time::Wall;
use baton_model::workflow::Plan;
use baton_store::facts::FactQuery;
use baton_store::view::{BackfillQuery, RecordedFact, RunQuery, TickQuery};
use baton_store::{FactLog as _, Retention, SqliteStore, Views as _};

use crate::file::{open, place};
use crate::leading::{Leader, halted};

#[test]
fn a_store_of_schema_version_3_can_still_be_read_and_led() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v3.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    assert_eq!(store.read_row().map(|row| row.epoch), Ok(Epoch(2)));
    let runs = store.runs(&RunQuery {
        limit: 10,
        ..RunQuery::default()
    });
    let runs: Vec<_> = runs.expect("readable").items;
    let stands: Vec<_> = runs
        .iter()
        .map(|it| (it.head.id.0, it.head.state, it.head.generation.0))
        .collect();
    let expected = [
        (5, S::Failed, 1),
        (4, S::Registering, 1),
        (3, S::Running, 2),
        (2, S::Done, 1),
    ];
    assert_eq!(stands, expected);
    let done = store.stored_run(RunId(2)).expect("readable").expect("kept");
    let names: Vec<_> = done.plan.tasks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["list", "each"]);
    assert_eq!(done.ended.len(), 3);
    assert_eq!(
        done.ended[0].outputs.as_deref(),
        Some(r#"{"files":["x","y"]}"#)
    );
    let failures = store.run_errors(RunId(3)).expect("readable");
    assert_eq!((failures.len(), failures[0].count), (1, 1));
    let mut leader = Leader::elect(&store);
    assert_eq!(leader.ledger.runs().last(), RunId(5));
    let run = leader.ledger.runs().run(RunId(3)).expect("it lives");
    assert_eq!((run.head.plan.0, run.leased(1)), (2, 1));
    let live: Vec<_> = run.progress.live().map(|it| (it.0, it.1)).collect();
    assert_eq!(live, [(1, 1), (1, 2), (1, 3)]);
    assert_eq!(run.progress.state(1, 0), Some(ItemState::Done));
    assert_eq!(run.progress.state(1, 4), Some(ItemState::Failed));
    let defined = Fact::RunDefined {
        run: RunId(4),
        at: Wall(9),
    };
    leader.commit(&store, vec![defined]);
    assert_eq!(store.check(), Ok(()));
    drop(store);
    assert_eq!(Leader::elect(&open(&path)).ledger, leader.left());
}

#[test]
fn the_keys_of_schema_version_4_can_still_be_read() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v4.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let leader = Leader::elect(&store);
    let keys: Vec<_> = leader.ledger.keys().iter().map(|it| (it.0, it.2)).collect();
    let instances = |first, last| {
        let (first, last) = (InstanceId(first), InstanceId(last));
        (None, Created::Instances { first, last })
    };
    let run = (None, Created::Run(RunId(1)));
    assert_eq!(keys, [instances(1, 1), instances(2, 6), run]);
    assert_eq!(store.check(), Ok(()));
}

#[test]
fn stores_of_older_versions_take_runs() {
    for older in ["schema-v1.db", "schema-v2.db"] {
        let (_dir, path) = place();
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        fs::copy(frozen.join(older), &path).expect("the fixture is there");
        let store = open(&path);
        let mut leader = Leader::elect(&store);
        assert_eq!(leader.ledger.runs().last(), RunId(0), "{older}");
        let plan = Arc::new(Plan {
            name: "etl".to_owned(),
            ..Plan::default()
        });
        let registered = Fact::RunRegistered {
            run: RunId(1),
            at: Wall(9),
            plan: Arc::clone(&plan),
            open: true,
            origin: None,
        };
        leader.commit(&store, vec![registered]);
        drop(store);
        let store = open(&path);
        assert_eq!(store.plan(RunId(1)), Ok(Some(plan)), "{older}");
        assert_eq!(store.check(), Ok(()), "{older}");
        assert_eq!(Leader::elect(&store).ledger, leader.left(), "{older}");
    }
}

#[test]
fn the_launches_in_the_history_of_schema_version_2_are_known() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v2.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let name = TaskName {
        owner: "lab".to_owned(),
        name: "tick".to_owned(),
    };
    let task = store.task(&name, None).expect("readable").expect("stored");
    let query = TickQuery {
        task: Some(task.number),
        before: None,
        limit: 100,
    };
    let ticks = store.ticks(&query).expect("readable").items;
    let launched = |fact: &Fact| match fact {
        Fact::Launched {
            cause: Cause::Due { first, .. },
            execution: Some(_),
            ..
        } => Some(*first),
        _ => None,
    };
    let mut expected: Vec<Wall> = ticks.iter().filter_map(|it| launched(&it.fact)).collect();
    expected.sort_unstable();
    let all = store.known_launches(task.number, Wall(0), Wall(u64::MAX));
    let all = all.expect("readable");
    assert!(!expected.is_empty());
    assert_eq!((all.times, all.since), (expected, Wall(0)));
}

#[test]
fn the_identity_of_schema_version_6_can_still_be_read() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v6.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let last = store.read_row().expect("readable").epoch;
    assert_eq!(last.number(), 2);
    let identity = Leader::elect(&store).identity;
    assert_ne!(identity.store, StoreId(0));
    assert!(identity.generation == last && identity.unsettled);
    assert!(identity.knows(last) && !identity.knows(Epoch::new(1, 0)));
    assert_eq!(store.check(), Ok(()));
}

#[test]
fn the_library_of_schema_version_9_can_still_be_read_and_backfilled() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v9.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let backfills = store.backfills(&BackfillQuery {
        limit: 10,
        ..BackfillQuery::default()
    });
    let backfills = backfills.expect("readable").items;
    let heads: Vec<_> = backfills
        .iter()
        .map(|it| (it.head.id.0, it.head.state, it.head.launched))
        .collect();
    let halted = BackfillState::Halted(BackfillHalt::Requested);
    let expected = [
        (3, halted, 1),
        (2, BackfillState::Done, 3),
        (1, BackfillState::Done, 3),
    ];
    assert_eq!(heads, expected);
    let mut leader = Leader::elect(&store);
    let library = leader.ledger.library();
    let nightly = TaskName {
        owner: "lab".to_owned(),
        name: "nightly".to_owned(),
    };
    assert!(library.find(&nightly).expect("stored").pause.is_some());
    let open_backfill = library.backfills().get(BackfillId(3)).expect("it is open");
    let (task, range) = (open_backfill.head.task, open_backfill.head.range.clone());
    let known = store.known_launches(task, range.from, range.to);
    assert_eq!(known.expect("readable").times.len(), 1);
    let resumed = Fact::BackfillResumed {
        backfill: BackfillId(3),
        task,
        at: range.to,
        remaining: 20,
        taken: Vec::new(),
    };
    leader.commit(&store, vec![resumed]);
    let runs = store.runs(&RunQuery {
        limit: 10,
        ..RunQuery::default()
    });
    let runs = runs.expect("readable").items;
    assert!(runs.len() == 3 && runs.iter().all(|run| run.head.state == S::Failed));
    assert_eq!(store.check(), Ok(()));
    drop(store);
    assert_eq!(Leader::elect(&open(&path)).ledger, leader.left());
}

#[test]
fn the_limits_conditions_and_last_lines_of_schema_version_11_can_still_be_read() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v11.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let failed = store.instance(InstanceId(1)).expect("readable");
    let failed = failed.expect("kept");
    assert_eq!(failed.instance.state, S::Failed);
    let tail = failed.last.and_then(|end| end.stderr_tail);
    assert_eq!(tail.as_deref(), Some("first\nno such table"));
    let counts = store.tally(InstanceId(2), InstanceId(21));
    let counts: Vec<_> = counts.expect("readable").into_iter().collect();
    assert_eq!(counts, [(S::Failed, 2), (S::Halted, 18)]);
    let mut leader = Leader::elect(&store);
    let limits: Vec<_> = leader.ledger.limits().iter().collect();
    assert_eq!(limits, [(&"db/orders".to_owned(), &3.into())]);
    let waiting = leader.ledger.find(InstanceId(23)).expect("it waits");
    let after = Dependency {
        upstream: Subject::Instances {
            first: InstanceId(22),
            last: InstanceId(22),
        },
        rule: DependencyRule::Any,
    };
    assert_eq!(waiting.spec.conditions.after, [after]);
    let element = store.instance(InstanceId(2)).expect("readable");
    let conditions = &element.expect("kept").instance.spec.conditions;
    assert_eq!(
        (conditions.concurrent_max, conditions.failed_max),
        (Some(2), Some(2))
    );
    let run = store.run(RunId(1)).expect("readable").expect("kept");
    assert_eq!(run.submitted_by, None, "an earlier version recorded none");
    let plan = store.plan(RunId(1)).expect("readable").expect("kept");
    assert_eq!(plan.params["days"], r#"["mon","tue"]"#);
    let set = Fact::LimitSet {
        name: "db/orders".to_owned(),
        total: None,
        rate: None,
    };
    leader.commit(&store, vec![set]);
    assert_eq!(store.check(), Ok(()));
    drop(store);
    assert_eq!(Leader::elect(&open(&path)).ledger, leader.left());
}

#[test]
fn a_store_of_an_older_version_gets_an_identity_and_knows_its_terms() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v3.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let identity = Leader::elect(&store).identity;
    assert_ne!(identity.store, StoreId(0));
    assert!(identity.knows(Epoch(1)) && identity.knows(Epoch(2)) && !identity.knows(Epoch(3)));
    assert!(!identity.unsettled);
}

#[test]
fn the_submitters_of_schema_version_12_can_still_be_read() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v12.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let name = |text: &str| text.to_owned();
    let ann = Principal::Unauthenticated { name: name("ann") };
    let ci = Principal::Token {
        id: TokenId(1),
        name: name("ci"),
    };
    for (id, expected) in [(1, Some(&ann)), (2, None), (3, Some(&ci)), (5, Some(&ci))] {
        let timeline = store.timeline(InstanceId(id), None, 1).expect("readable");
        let requested_by = timeline.items[0].requested_by.as_deref();
        assert_eq!(requested_by, expected, "i{id}");
    }
    let leader = Leader::elect(&store);
    for (id, expected) in [(1, &ann), (2, &ci)] {
        let run = store.run(RunId(id)).expect("readable").expect("kept");
        assert_eq!(run.submitted_by.as_deref(), Some(expected));
        let head = leader.ledger.runs().head(RunId(id)).expect("it lives");
        assert_eq!(*head, run.head);
    }
    assert_eq!(store.check(), Ok(()));
}

/// The facts of a store whose clients schema version 13 kept in the facts themselves.
fn facts_of_version_13(store: &SqliteStore) -> Vec<RecordedFact> {
    let page = store.facts(&FactQuery::default()).expect("readable");
    assert_eq!((page.items.len(), page.more), (309, false));
    page.items
}

#[test]
fn schema_version_13_keeps_who_has_asked_for_what() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v13.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let facts = facts_of_version_13(&store);
    let mut asked: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for entry in &facts {
        if let Some(by) = &entry.requested_by {
            let (kind, name) = (entry.fact.kind().name(), by.name().expect("a name"));
            *asked.entry((kind, name)).or_default() += 1;
        }
    }
    let expected = [
        (("attempt-kill-requested", "ann"), 1),
        (("backfill-cancelled", "ann"), 1),
        (("backfill-halted", "ann"), 1),
        (("backfill-registered", "ann"), 3),
        (("backfill-resumed", "ann"), 1),
        (("instance-retried", "ann"), 1),
        (("instance-retried", "ci"), 1),
        (("instances-halted", "ann"), 2),
        (("instances-halted", "ci"), 2),
        (("instances-submitted", "ann"), 4),
        (("instances-submitted", "ci"), 2),
        (("limit-set", "ann"), 1),
        (("limit-set", "ci"), 1),
        (("run-halting", "ann"), 2),
        (("run-registered", "ann"), 2),
        (("run-registered", "ci"), 1),
        (("run-resumed", "ann"), 1),
        (("stop-requested", "ann"), 1),
        (("task-defined", "ann"), 7),
        (("task-defined", "ci"), 1),
        (("task-paused", "ann"), 3),
        (("task-paused", "ci"), 1),
        (("task-removed", "ann"), 3),
        (("task-unpaused", "ann"), 1),
        (("worker-drained", "ann"), 1),
    ];
    assert_eq!(asked, BTreeMap::from(expected));
    let sentences = |id| {
        let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
        let items = timeline.items.iter();
        let items = items.map(|it| it.fact.sentence(it.requested_by.as_deref()));
        items.collect::<Vec<_>>()
    };
    let expected = [
        "accepted, submitted by ci (token t1)",
        "halted while it waited, requested by ci (token t1)",
        "retry requested by ci (token t1)",
        "halted while it waited, requested by ci (token t1)",
    ];
    assert_eq!(sentences(44), expected);
    assert_eq!(sentences(2)[3], "stop requested by ann (not authenticated)");
    for (id, expected) in [(5, Some("ann")), (6, None), (12, Some("ci"))] {
        let run = store.run(RunId(id)).expect("readable").expect("kept");
        let name = run.submitted_by.as_deref().and_then(Principal::name);
        assert_eq!(name, expected, "r{id}");
    }
    let mut replayed = Ledger::default();
    for entry in &facts {
        let applied = replayed.apply(&entry.fact);
        assert_eq!(applied, Ok(()), "{entry:?}");
    }
    assert_eq!(store.check(), Ok(()));
}

#[test]
fn a_migrated_history_of_schema_version_13_can_be_removed_to_the_last_byte() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v13.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![halted(0, u64::MAX)]);
    let none = Retention {
        history_age: None,
        history_bytes: Some(0),
        terminal_instances_max: Some(0),
    };
    let bytes = || store.counts().expect("readable").history_bytes;
    while bytes() > 0 {
        let pruned = store.prune(leader.epoch, Wall(u64::MAX), &none, usize::MAX);
        assert!(pruned.expect("prunable").facts > 0, "{} left", bytes());
    }
    let left = store.facts(&FactQuery::default()).expect("readable").items;
    assert_eq!(left, []);
}

#[test]
fn schema_version_13_keeps_every_launch() {
    let (_dir, path) = place();
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v13.db");
    fs::copy(frozen, &path).expect("the fixture is there");
    let store = open(&path);
    let mut launches: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for entry in facts_of_version_13(&store) {
        let Fact::Launched {
            cause,
            execution,
            revision,
            ..
        } = entry.fact
        else {
            continue;
        };
        let kind = |execution: Execution| match execution {
            Execution::Instance(_) => "instance",
            Execution::Run(_) => "run",
        };
        let cause = match cause {
            Cause::Due { .. } => "due",
            Cause::Upstream { execution, .. } => match execution {
                Execution::Instance(_) => "after an instance",
                Execution::Run(_) => "after a run",
            },
            Cause::Request { key: Some(_), .. } => "keyed",
            Cause::Request {
                source: TriggerSource::Remote,
                ..
            } => "remote",
            Cause::Request { .. } => "by hand",
            Cause::Backfill { .. } => "backfill",
        };
        let launched = execution.map_or("nothing", kind);
        assert!((1..=2).contains(&revision.0), "{revision}");
        *launches.entry((cause, launched)).or_default() += 1;
    }
    let expected = [
        (("after a run", "instance"), 6),
        (("after an instance", "instance"), 7),
        (("backfill", "instance"), 6),
        (("backfill", "run"), 5),
        (("by hand", "instance"), 2),
        (("by hand", "run"), 1),
        (("due", "instance"), 4),
        (("due", "nothing"), 15),
        (("due", "run"), 4),
        (("keyed", "instance"), 1),
        (("remote", "instance"), 1),
    ];
    assert_eq!(launches, BTreeMap::from(expected));
    let timeline = store.timeline(InstanceId(18), None, 2).expect("readable");
    let texts = timeline.items.iter();
    let texts = texts.map(|it| it.fact.sentence(it.requested_by.as_deref()));
    let expected = [
        "accepted, submitted by ann (not authenticated)",
        "triggered by hand",
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}
