//! The clients that have submitted instances and runs.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId, TokenId};
use baton_model::principal::Principal;
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;

use crate::Open;
use crate::leading::Leader;
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
    let submitted = |first, last, submitted_by: &Option<Arc<Principal>>| Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(InstanceSpec::default()),
        submitted_by: submitted_by.clone(),
    };
    let facts = (1..).zip(submitters()).flat_map(|(number, by)| {
        let (first, by) = (number * 10, &by);
        [
            submitted(first, first, by),
            submitted(first + 1, first + 4, by),
        ]
    });
    leader.commit(&*store, facts.collect());
    drop(store);
    let store = open();
    for (number, expected) in (1..).zip(submitters()) {
        for id in [number * 10, number * 10 + 1, number * 10 + 3] {
            let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
            let Fact::InstancesSubmitted { submitted_by, .. } = &timeline.items[0].fact else {
                panic!("{timeline:?}");
            };
            assert_eq!(*submitted_by, expected, "{id}");
        }
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
            submitted_by,
        };
        leader.commit(&*store, vec![registered]);
        // A later change of the row keeps it.
        let defined = Fact::RunDefined {
            run: RunId(run),
            at: Wall(6),
        };
        leader.commit(&*store, vec![defined]);
    }
    drop(store);
    let store = open();
    let next = Leader::elect(&*store);
    for (run, expected) in (1..).zip(submitters()) {
        let record = store.run(RunId(run)).expect("readable").expect("is there");
        assert_eq!(record.head.submitted_by, expected, "{run}");
        let head = next.ledger.runs().head(RunId(run));
        let head = head.expect("it lives");
        assert_eq!(head.submitted_by, expected, "{run}");
    }
}
