//! Batches are atomic, and those of a term commit in order or not at all.

use std::sync::{Mutex, mpsc};
use std::thread;

use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::outcome::KillMode;
use baton_store::StoreError;

use crate::Open;
use crate::leading::{Leader, NOW, halted, submitted};

pub(crate) fn stop(instance: InstanceId) -> Fact {
    Fact::StopRequested {
        instance,
        mode: KillMode::Graceful,
        reason: None,
    }
}

pub(crate) fn a_batch_lands_whole_or_not_at_all(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![submitted(1)]);
    let unknown = halted(99, 99);
    let stop = stop(InstanceId(1));
    let outcome = leader.try_commit(&*store, vec![stop, submitted(2), unknown]);
    assert!(
        matches!(outcome, Err(StoreError::Contradiction(_))),
        "{outcome:?}"
    );
    assert_eq!(Leader::elect(&*store).ledger, leader.left());
    let timeline = store.timeline(InstanceId(1), None, 10).expect("readable");
    assert_eq!(timeline.items.len(), 1);
}

pub(crate) fn after_a_failure_nothing_of_the_term_lands_and_the_next_goes_on(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![submitted(1)]);
    let twice = leader.try_commit(&*store, vec![submitted(1)]);
    assert!(twice.is_err());
    for id in 2..5 {
        assert_eq!(
            leader.try_commit(&*store, vec![submitted(id)]),
            Err(StoreError::TermBroken)
        );
    }
    assert_eq!(store.renew(leader.epoch), Err(StoreError::TermBroken));
    let mut next = Leader::elect(&*store);
    assert_eq!(next.ledger, leader.left());
    next.commit(&*store, vec![submitted(2)]);
    store.renew(next.epoch).expect("a new term is sound");
}

pub(crate) fn what_was_queued_behind_a_failure_fails_as_well(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let mut is_ok = leader.ledger.clone();
    let (sender, receiver) = mpsc::channel();
    for id in 0..200 {
        // The hundredth is a second submission of an instance, which cannot commit.
        let fact = submitted(if id == 100 { 0 } else { id });
        let batch = leader.unchecked(vec![fact.clone()]);
        let sender = sender.clone();
        let done = move |outcome: Result<_, _>| {
            sender
                .send((fact, outcome.is_ok()))
                .expect("the test waits");
        };
        store.submit(batch, NOW, Box::new(done));
    }
    drop(sender);
    let outcomes: Vec<_> = receiver.into_iter().collect();
    let committed = outcomes.iter().take_while(|(_, is_ok)| *is_ok).count();
    assert!(committed <= 100, "{committed} committed");
    assert!(outcomes[committed..].iter().all(|(_, is_ok)| !is_ok));
    for (fact, _) in &outcomes[..committed] {
        is_ok.apply(fact).expect("fits");
    }
    assert_eq!(Leader::elect(&*store).ledger, is_ok);
}

pub(crate) fn outcomes_are_reported_in_order(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let (sender, receiver) = mpsc::channel();
    for id in 0..2_000 {
        let facts = match id % 3 {
            0 => Vec::new(),
            _ => vec![submitted(id)],
        };
        let batch = leader.batch(facts);
        let sender = sender.clone();
        let done = move |outcome: Result<_, _>| {
            sender.send((id, outcome.is_ok())).expect("the test waits");
        };
        store.submit(batch, NOW, Box::new(done));
    }
    drop(sender);
    let outcomes: Vec<_> = receiver.into_iter().collect();
    let expected: Vec<_> = (0..2_000).map(|id| (id, true)).collect();
    assert_eq!(outcomes, expected);
}

pub(crate) fn many_submitters_share_one_store(open: Open<'_>) {
    let store = open();
    let leader = Mutex::new(Leader::elect(&*store));
    thread::scope(|scope| {
        for submitter in 0..16_u64 {
            let (store, leader) = (&store, &leader);
            scope.spawn(move || {
                for n in 0..25 {
                    let (sender, receiver) = mpsc::channel();
                    let done = move |outcome| sender.send(outcome).expect("the test waits");
                    // Batches must be submitted in the order in which they were made.
                    let mut leader = leader.lock().expect("no thread panics");
                    let batch = leader.batch(vec![submitted(submitter * 1_000 + n)]);
                    store.submit(batch, NOW, Box::new(done));
                    drop(leader);
                    let outcome = receiver.recv().expect("every outcome is reported");
                    assert!(outcome.is_ok(), "{outcome:?}");
                }
            });
        }
    });
    let leader = leader.into_inner().expect("no thread panics");
    assert_eq!(Leader::elect(&*store).ledger, leader.left());
}

pub(crate) fn what_was_submitted_is_written_before_the_store_closes(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 0..500 {
        let batch = leader.batch(vec![submitted(id)]);
        store.submit(batch, NOW, Box::new(drop));
    }
    drop(store);
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}
