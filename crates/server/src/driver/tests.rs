//! A leader whose store fails, and its recovery.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use baton_core::ledger::{Ledger, LedgerParts, RunHead, StoredRun};
use baton_model::ids::{RunId, WorkerName};
use baton_model::time::Wall;
use baton_testing::until;

use super::*;
use crate::faulty::{Fault, Faulty};
use crate::leadership;
use crate::mark::MarkFile;

fn setup(store: Arc<Faulty>) -> Setup {
    Setup {
        fleets: None,
        pilot_tokens: None,
        secrets: Secrets::for_tests(Arc::clone(&store) as _),
        store,
        config: Config::default(),
        limits: Vec::new(),
        mark: Arc::new(MarkFile::temporary()),
        metrics: Arc::default(),
        election: ElectionTimeouts::default(),
    }
}

/// A leader whose store has just failed to commit.
fn failed(store: Faulty, takes: &[Fault]) -> (Handle, Epoch) {
    let store = Arc::new(store);
    let taken = leadership::take(&*store, &MarkFile::temporary(), Epoch(0), None).expect("free");
    let epoch = taken.epoch;
    *store.commits.lock().expect("sound") = VecDeque::from([Fault::Closed]);
    *store.takes.lock().expect("sound") = takes.iter().copied().collect();
    let handle = start(setup(store), taken).expect("a thread");
    // A command that needs a commit.
    let worker = WorkerName::new("w");
    let drained = true;
    drop(
        handle
            .inbox
            .command(None, Command::Drain { worker, drained }),
    );
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

/// The panic of the driver, as an operator reads it on standard error.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

#[test]
fn a_broken_invariant_ends_the_leader_with_its_state() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name() == Some("driver") {
            *PANIC.lock().expect("sound") = Some(panic.to_string());
        }
        before(panic);
    }));
    let registered = Fact::RunRegistered {
        run: RunId(7),
        at: Wall(1),
        plan: Arc::default(),
        open: false,
        origin: None,
    };
    let head = RunHead::registered(&registered).expect("a run");
    let stored = StoredRun {
        head: head.expect("allowed"),
        plan: Arc::default(),
        ended: Vec::new(),
    };
    // The progress of its run is never computed.
    let broken = Ledger::restore(LedgerParts {
        runs: vec![stored],
        ..LedgerParts::default()
    });
    let store = Arc::new(Faulty::default());
    let mut taken =
        leadership::take(&*store, &MarkFile::temporary(), Epoch(0), None).expect("free");
    *taken.ledger = broken.expect("restored");
    let handle = start(setup(store), taken).expect("a thread");
    handle.inbox.send(Event::Due);
    let ended = handle.ended.blocking_recv();
    assert!(ended.is_err(), "it goes on: {ended:?}");
    let text = PANIC.lock().expect("sound").take();
    let text = text.expect("it says why");
    assert!(text.contains("progress of restored runs"), "{text}");
    assert!(text.contains("RunHead { id: RunId(7)"), "{text}");
}
