//! The clients that have submitted instances and runs, or asked for other facts.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::{Cause, TaskName};
use baton_model::principal::Principal;
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;
use baton_store::Retention;
use baton_store::facts::FactQuery;
use baton_store::view::TickQuery;

use crate::Open;
use crate::leading::{Leader, array, condemned, halted, submitted};
use crate::running::{plan, task};

fn submitters() -> [Option<Arc<Principal>>; 5] {
    let name = || "ünn \"q\"".to_owned();
    let id = TokenId(3);
    [
        None,
        Some(Arc::new(Principal::Token { id, name: name() })),
        Some(Arc::new(Principal::Certificate { name: name() })),
        Some(Arc::new(Principal::TriggerSecret)),
        Some(Arc::new(Principal::Unauthenticated { name: name() })),
    ]
}

pub(crate) fn the_submitter_of_instances_is_in_the_timeline_of_each(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    // One spec for all, alone and as an array: it is stored once, the submitters with each submission.
    let submitted = |first, last| Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(InstanceSpec::default()),
    };
    for (number, by) in (1..).zip(submitters()) {
        let first = number * 10;
        let facts = vec![submitted(first, first), submitted(first + 1, first + 4)];
        leader.by = by;
        leader.commit(&*store, facts);
    }
    drop(store);
    let store = open();
    for (number, expected) in (1..).zip(submitters()) {
        for id in [number * 10, number * 10 + 1, number * 10 + 3] {
            let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
            assert_eq!(timeline.items[0].requested_by, expected, "{id}");
        }
    }
    let all = store.facts(&FactQuery::default()).expect("readable").items;
    let all: Vec<_> = all.into_iter().map(|it| it.requested_by).collect();
    let expected = submitters().into_iter().flat_map(|by| [by.clone(), by]);
    assert_eq!(all, expected.collect::<Vec<_>>());
}

pub(crate) fn the_requester_of_facts_about_an_entry_is_in_its_ticks(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let defined = Fact::TaskDefined {
        task: TaskNo(1),
        name: TaskName::default(),
        revision: Revision(1),
        from: Wall(0),
        definition: Arc::default(),
    };
    let skipped = Fact::Launched {
        entry: TaskNo(1),
        revision: Revision(1),
        cause: Cause::Due {
            first: Wall(5),
            last: Wall(5),
            count: 1,
        },
        verdict: TickVerdict::Skip(SkipReason::Paused),
        execution: None,
    };
    let ann = submitters()[1].clone();
    leader.by = ann.clone();
    leader.commit(&*store, vec![defined, skipped]);
    for task in [None, Some(TaskNo(1))] {
        let query = TickQuery {
            task,
            before: None,
            limit: 10,
        };
        let ticks = store.ticks(&query).expect("readable").items;
        let by: Vec<_> = ticks.into_iter().map(|it| it.requested_by).collect();
        assert_eq!(by, std::slice::from_ref(&ann), "{task:?}");
    }
}

pub(crate) fn the_bytes_of_requesters_are_counted_and_released(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let by = || submitters()[1].clone();
    let bytes = || store.counts().expect("readable").history_bytes;
    leader.commit(&*store, vec![submitted(1), array(10, 19)]);
    let without = bytes();
    leader.by = by();
    leader.commit(&*store, vec![submitted(2), array(20, 29)]);
    let name = serde_json::to_string(&by()).expect("JSON").len() as u64;
    assert_eq!(bytes() - without, without + 2 * name);
    leader.commit(&*store, vec![halted(1, 100), condemned(5, 1)]);
    let none = Retention {
        history_age: None,
        history_bytes: Some(0),
        terminal_instances_max: Some(0),
    };
    while bytes() > 0 {
        let pruned = store.prune(leader.epoch, Wall(u64::MAX), &none, usize::MAX);
        assert!(pruned.expect("prunable").facts > 0, "{}", bytes());
    }
}

pub(crate) fn the_submitter_of_a_run_stays_with_it(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let plan = Arc::new(plan(vec![task("a", &[])]));
    for (run, submitted_by) in (1..).zip(submitters()) {
        let registered = Fact::RunRegistered {
            run: RunId(run),
            at: Wall(5),
            plan: Arc::clone(&plan),
            open: true,
            origin: None,
        };
        leader.by = submitted_by;
        leader.commit(&*store, vec![registered]);
        // A later change of the row keeps it, also if another client asks for that.
        let defined = Fact::RunDefined {
            run: RunId(run),
            at: Wall(6),
        };
        leader.by = Some(Arc::new(Principal::TriggerSecret));
        leader.commit(&*store, vec![defined]);
    }
    drop(store);
    let store = open();
    for (run, expected) in (1..).zip(submitters()) {
        let record = store.run(RunId(run)).expect("readable").expect("is there");
        assert_eq!(record.submitted_by, expected, "{run}");
    }
    assert_eq!(Leader::elect(&*store).ledger, leader.left());
}
