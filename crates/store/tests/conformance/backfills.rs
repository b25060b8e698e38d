//! Backfills, and which due times have a launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::backfill::{BackfillHalt, BackfillRange, BackfillState};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, InstanceId, Revision, RunId, TaskNo};
use baton_model::library::{Cause, Execution, Schedule};
use baton_model::schedule::{CatchUp, Dst, SkipReason, TickVerdict};
use baton_model::spec::{Due, InstanceSpec, Origin};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_store::view::BackfillQuery;
use baton_store::{Retention, Store};

use crate::Open;
use crate::leading::{Leader, halted};
use crate::library::{defined, named};

const TASK: TaskNo = TaskNo(1);

fn range(from: u64, to: u64) -> BackfillRange {
    BackfillRange {
        schedule: Schedule {
            text: "every hour".to_owned(),
            zone: "UTC".to_owned(),
            dst: Dst::default(),
            slack: Millis(0),
            catch_up: CatchUp::Last,
            jitter: Millis(0),
        },
        from: Wall(from),
        to: Wall(to),
        reverse: false,
    }
}

fn registered(id: u64, range: BackfillRange, due: u64, taken: &[u64]) -> Fact {
    Fact::BackfillRegistered {
        backfill: BackfillId(id),
        task: TASK,
        at: Wall(5),
        range,
        max_concurrent: 2,
        due,
        taken: taken.iter().copied().map(Wall).collect(),
    }
}

fn submitted(instance: u64, nominal: u64) -> Fact {
    let nominal = Wall(nominal);
    let due = Due {
        nominal,
        latest: nominal,
    };
    let origin = Origin {
        task: TASK,
        revision: Revision(1),
        due: Some(due),
    };
    Fact::InstancesSubmitted {
        first: InstanceId(instance),
        last: InstanceId(instance),
        spec: Arc::new(InstanceSpec {
            origin: Some(origin),
            ..InstanceSpec::default()
        }),
    }
}

/// A launch of a due time by a backfill.
fn launched(id: u64, nominal: u64, instance: u64) -> Vec<Fact> {
    let record = Fact::Launched {
        entry: TASK,
        revision: Revision(1),
        cause: Cause::Backfill {
            backfill: BackfillId(id),
            nominal: Wall(nominal),
        },
        verdict: TickVerdict::Launch,
        execution: Some(Execution::Instance(InstanceId(instance))),
    };
    vec![record, submitted(instance, nominal)]
}

/// A record of the schedule.
fn ticked(nominal: u64, verdict: TickVerdict, instance: Option<u64>, after: Option<u64>) -> Fact {
    let cause = match after {
        Some(run) => Cause::Upstream {
            execution: Execution::Run(RunId(run)),
            at: Wall(nominal),
        },
        None => Cause::Due {
            first: Wall(nominal),
            last: Wall(nominal),
            count: 1,
        },
    };
    Fact::Launched {
        entry: TASK,
        revision: Revision(1),
        cause,
        verdict,
        execution: instance.map(|id| Execution::Instance(InstanceId(id))),
    }
}

fn halt(id: u64) -> Fact {
    Fact::BackfillHalted {
        backfill: BackfillId(id),
        task: TASK,
        at: Wall(6),
        cause: BackfillHalt::Requested,
    }
}

fn resumed(id: u64, remaining: u64, taken: &[u64]) -> Fact {
    Fact::BackfillResumed {
        backfill: BackfillId(id),
        task: TASK,
        at: Wall(7),
        remaining,
        taken: taken.iter().copied().map(Wall).collect(),
    }
}

fn ended(id: u64) -> Fact {
    Fact::BackfillEnded {
        backfill: BackfillId(id),
        task: TASK,
        at: Wall(8),
    }
}

fn cancelled(id: u64) -> Fact {
    Fact::BackfillCancelled {
        backfill: BackfillId(id),
        task: TASK,
        at: Wall(9),
    }
}

fn times(store: &dyn Store, from: u64, to: u64) -> Vec<u64> {
    let known = store.known_launches(TASK, Wall(from), Wall(to));
    let known = known.expect("readable").times;
    known.into_iter().map(|at| at.0).collect()
}

pub(crate) fn a_launched_due_time_is_known_and_a_skipped_one_is_not(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    let skip = TickVerdict::Skip(SkipReason::Paused);
    leader.commit(&*store, vec![ticked(20, skip, None, None)]);
    let late = TickVerdict::Late { by: Millis(9) };
    for (nominal, verdict, instance) in [(30, TickVerdict::Launch, 1), (40, late, 2)] {
        let tick = ticked(nominal, verdict, Some(instance), None);
        leader.commit(&*store, vec![tick, submitted(instance, nominal)]);
    }
    // What `after` launches has no due time.
    let after = ticked(35, TickVerdict::Launch, Some(3), Some(7));
    leader.commit(&*store, vec![after, submitted(3, 35)]);
    let store = open();
    assert_eq!(times(&*store, 0, 99), [30, 40]);
    assert_eq!(times(&*store, 30, 40), [30]);
    let known = store.known_launches(TASK, Wall(0), Wall(1));
    let known = known.expect("readable");
    assert_eq!((known.launches, known.since), (2, Wall(0)));
    let next = Leader::elect(&*store);
    let task = next.ledger.library().task(TASK).map(|task| task.launches);
    assert_eq!(task, Some(2), "a leader counts the same");
    // They stay known when the history goes.
    let none = Retention {
        history_age: Some(Millis(1)),
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let pruned = store.prune(next.epoch, Wall(1 << 40), &none, usize::MAX);
    pruned.expect("prunable");
    assert_eq!(times(&*store, 0, 99), [30, 40]);
}

pub(crate) fn a_backfill_goes_on_where_the_leader_before_has_left_it(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let name = named("o", "a");
    leader.commit(&*store, vec![defined(1, &name, 1, "a")]);
    leader.commit(&*store, vec![registered(1, range(10, 60), 5, &[20, 40])]);
    let mut next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left(), "it is registered");
    next.commit(&*store, launched(1, 10, 1));
    next.commit(&*store, launched(1, 30, 2));
    let refused = |facts: Vec<Fact>| {
        let mut leader = Leader::elect(&*open());
        assert!(leader.try_commit(&*open(), facts).is_err());
    };
    refused(launched(1, 30, 3));
    refused(launched(1, 20, 3));
    refused(launched(1, 60, 3));
    refused(launched(9, 50, 3));
    refused(vec![registered(1, range(10, 20), 1, &[])]);
    let mut next = Leader::elect(&*open());
    let backfill = next.ledger.library().backfills().get(BackfillId(1));
    let backfill = backfill.expect("it is open");
    assert_eq!(backfill.live_count(), 2);
    assert!(!backfill.is_taken(Wall(20)) && backfill.is_taken(Wall(40)));
    next.commit(&*store, vec![halted(1, 1)]);
    assert_eq!(Leader::elect(&*open()).ledger, next.left(), "one has ended");

    let mut next = Leader::elect(&*open());
    next.commit(&*store, vec![halt(1)]);
    refused(launched(1, 50, 3));
    refused(vec![halt(1)]);
    let mut next = Leader::elect(&*open());
    next.commit(&*store, vec![resumed(1, 1, &[40])]);
    assert_eq!(
        Leader::elect(&*open()).ledger,
        next.left(),
        "it was resumed"
    );
    let mut next = Leader::elect(&*open());
    let mut facts = launched(1, 50, 3);
    facts.extend([halted(2, 3), ended(1)]);
    next.commit(&*store, facts);
    let store = open();
    let next = Leader::elect(&*store);
    assert_eq!(next.ledger, Leader::elect(&*open()).ledger);
    let backfills = next.ledger.library().backfills();
    assert_eq!(backfills.last(), BackfillId(1));
    assert!(backfills.get(BackfillId(1)).is_none());
    let record = store.backfill(BackfillId(1)).expect("readable");
    let record = record.expect("it is listed");
    let head = &record.head;
    assert_eq!((record.name, head.state), (name, BackfillState::Done));
    assert_eq!((head.launched, head.remaining, head.due), (3, 0, 5));
    assert_eq!((head.registered_at, head.changed_at), (Wall(5), Wall(8)));
    assert_eq!(times(&*store, 0, 99), [10, 30, 50]);
}

pub(crate) fn a_backfill_that_was_cancelled_is_listed_and_not_continued(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    for id in [1, 2] {
        leader.commit(&*store, vec![registered(id, range(10, 60), 5, &[20])]);
        leader.commit(&*store, launched(id, 20 + 10 * id, id));
        leader.commit(&*store, vec![halt(id)]);
    }
    leader.commit(&*store, vec![cancelled(1)]);
    let mut next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left());
    assert!(next.try_commit(&*open(), vec![cancelled(1)]).is_err());
    let next = Leader::elect(&*open());
    let open_ids: Vec<u64> = next
        .ledger
        .library()
        .backfills()
        .iter()
        .map(|backfill| backfill.head.id.0)
        .collect();
    assert_eq!(open_ids, [2]);
    let record = store.backfill(BackfillId(1)).expect("readable");
    let head = record.expect("it is listed").head;
    assert_eq!(head.state, BackfillState::Cancelled);
    assert_eq!((head.launched, head.remaining), (1, 3));
    assert_eq!(head.changed_at, Wall(9));
}

pub(crate) fn backfills_and_their_launches_come_in_pages(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    leader.commit(&*store, vec![registered(1, range(0, 90), 9, &[])]);
    for at in 0..5 {
        leader.commit(&*store, launched(1, 10 + at, 1 + at));
    }
    leader.commit(&*store, vec![halted(2, 3), halt(1)]);
    leader.commit(&*store, vec![registered(2, range(80, 90), 1, &[])]);
    let query = |owner: Option<&str>, before: Option<u64>, limit| BackfillQuery {
        owner: owner.map(str::to_owned),
        name: None,
        before: before.map(BackfillId),
        limit,
    };
    let page = |query: &BackfillQuery| {
        let page = store.backfills(query).expect("readable");
        let ids: Vec<u64> = page.items.iter().map(|it| it.head.id.0).collect();
        (ids, page.next.map(|it| it.0))
    };
    assert_eq!(page(&query(None, None, 9)), (vec![2, 1], None));
    assert_eq!(page(&query(Some("o"), None, 1)), (vec![2], Some(2)));
    assert_eq!(page(&query(Some("o"), Some(2), 1)), (vec![1], None));
    assert_eq!(page(&query(Some("p"), None, 9)), (vec![], None));
    let first = store.backfill_launches(BackfillId(1), None, 3);
    let first = first.expect("readable");
    assert_eq!(first.next, Some(Wall(12)));
    let last = store.backfill_launches(BackfillId(1), first.next, 3);
    let last = last.expect("readable").items;
    let all: Vec<_> = first.items.into_iter().chain(last).collect();
    let times: Vec<u64> = all.iter().map(|it| it.nominal.0).collect();
    assert_eq!(times, [10, 11, 12, 13, 14]);
    let states: Vec<_> = all.iter().filter_map(|it| it.state).collect();
    use UniversalState::{Halted, Queued};
    assert_eq!(states, [Queued, Halted, Halted, Queued, Queued]);
    let second = all[1].execution;
    assert_eq!(second, Some(Execution::Instance(InstanceId(2))));
    let tally = store.backfill_tally(BackfillId(1)).expect("readable");
    assert_eq!(tally, BTreeMap::from([(Queued, 3), (Halted, 2)]));
}
