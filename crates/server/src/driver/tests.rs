//! A leader whose store fails, and its recovery.

use std::collections::VecDeque;

use baton_model::ids::WorkerName;
use baton_testing::until;

use super::*;
use crate::faulty::{Fault, Faulty};
use crate::leadership;

/// A leader whose store has just failed to commit.
fn failed(store: Faulty, takes: &[Fault]) -> (Handle, Epoch) {
    let store = Arc::new(store);
    let (epoch, ledger) = leadership::take(&*store, Epoch(0)).expect("free");
    *store.commits.lock().expect("sound") = VecDeque::from([Fault::Closed]);
    *store.takes.lock().expect("sound") = takes.iter().copied().collect();
    let setup = Setup {
        store,
        config: Config::default(),
        limits: Vec::new(),
        epochs: None,
        metrics: Arc::default(),
    };
    let handle = start(setup, epoch, ledger).expect("a thread");
    // A command that needs a commit.
    let worker = WorkerName::new("w");
    let drained = true;
    drop(handle.inbox.command(Command::Drain { worker, drained }));
    (handle, epoch)
}

#[test]
fn a_store_that_could_not_be_taken_is_taken_later_even_after_a_panic() {
    let (handle, first) = failed(Faulty::default(), &[Fault::Panics, Fault::Fails]);
    // The reason changes with each try, and the last one works.
    let mut seen = Vec::new();
    until("it leads again", || {
        let status = handle.status.borrow().clone();
        if seen.last() != Some(&status) {
            seen.push(status.clone());
        }
        matches!(status, Status::Leading(epoch) if epoch > first)
    });
    let seen = format!("{seen:?}");
    assert!(seen.contains("panicked"), "{seen}");
    handle.inbox.send(Event::Stop);
    assert_eq!(handle.ended.blocking_recv(), Ok(None), "a good end");
}

#[test]
fn a_store_that_has_died_ends_the_server_with_its_error() {
    let (handle, _) = failed(Faulty::default(), &[Fault::Closed]);
    let dead = handle.ended.blocking_recv().expect("no panic");
    assert_eq!(dead, Some(StoreError::Closed.to_string()));
}
