//! Ranges: how instances leave them, and what stays known of what has ended.

use baton_model::fact::NextAttempt;
use baton_model::outcome::KillMode;
use baton_model::spec::Allowance;
use baton_model::time::Wall;

use super::*;

#[test]
fn an_instance_leaves_its_range_with_its_first_fact() {
    let mut ledger = of(&[submit(10, 19)]);
    assert_eq!(ledger.instances().count(), 0);
    let stop = Fact::StopRequested {
        instance: InstanceId(15),
        mode: KillMode::Graceful,
        reason: None,
    };
    ledger.apply(&stop).expect("fits");
    assert_eq!(waiting(&ledger), [(10, 14), (16, 19)]);
    let alone = ledger.instance(InstanceId(15)).expect("has a story");
    assert!(alone.stop_requested);
    assert_eq!(state(&ledger, 16), Some(UniversalState::Queued));
    assert!(ledger.instance(InstanceId(16)).is_none());
}

#[test]
fn a_waiting_instance_is_in_the_state_that_the_table_gives_a_submission() {
    let mut fresh = Instance::new(I1, Arc::default());
    fresh.step(UniversalEvent::Defined).expect("a row");
    assert_eq!(submitted().find(I1), Some(fresh));
}

#[test]
fn ids_are_submitted_once_whatever_their_outcome() {
    let mut ledger = of(&[submit(10, 19), halt(10, 12)]);
    let before = ledger.clone();
    for (fact, id) in [
        (submit(19, 25), 19),
        (submit(5, 30), 10),
        (submit(11, 11), 11),
    ] {
        let refused = ledger.apply(&fact);
        assert_eq!(refused, Err(LedgerError::AlreadySubmitted(InstanceId(id))));
    }
    let none = ledger.apply(&submit(9, 8));
    assert!(matches!(none, Err(LedgerError::Impossible(..))));
    assert_eq!(ledger, before);
    ledger.apply(&submit(20, 25)).expect("fits");
    ledger.apply(&submit(0, 9)).expect("fits");
    assert!(ledger.known().covers(InstanceId(0), InstanceId(25)));
}

#[test]
fn halting_a_range_stops_what_waits_and_nothing_else() {
    let (mut ledger, lease) = leased();
    ledger.apply(&submit(2, 9)).expect("fits");
    let second = ledger.next_lease(InstanceId(4), Epoch(1));
    let lost = AttemptEnd::Synthetic(Synthetic::WasNotRunning);
    let granted = Fact::LeaseGranted {
        lease: second,
        holder: holder(),
        executor: None,
        others: Vec::new(),
    };
    ledger.apply(&granted).expect("fits");
    let requeued = ended(second, lost, Verdict::Requeued);
    ledger.apply(&requeued).expect("fits");
    ledger.apply(&halt(0, 6)).expect("fits");
    assert_eq!(waiting(&ledger), [(7, 9)]);
    assert_eq!(state(&ledger, 4), Some(UniversalState::Halted));
    assert!(ledger.open_lease(lease).is_some());
    // Instances without other facts are in the store only from now on.
    assert_eq!(state(&ledger, 5), None);
    assert!(ledger.known().contains(InstanceId(5)));
    ledger.apply(&halt(0, 6)).expect("nothing waits any more");
}

#[test]
fn a_retry_begins_anew_but_for_the_number_of_attempts() {
    let (mut ledger, lease) = leased();
    let bad = AttemptEnd::Real(Outcome::Exited(1));
    for fact in [
        Fact::StopRequested {
            instance: I1,
            mode: KillMode::Graceful,
            reason: None,
        },
        ended(lease, bad, Verdict::GaveUp),
        Fact::InstanceRetried { instance: I1 },
    ] {
        ledger.apply(&fact).expect("fits");
    }
    let again = ledger.instance(I1).expect("is there");
    assert_eq!(again.state, UniversalState::Queued);
    assert_eq!((again.failures, again.stop_requested), (0, false));
    assert_eq!(again.attempts, AttemptNo(1));
    let twice = ledger.apply(&Fact::InstanceRetried { instance: I1 });
    assert!(matches!(twice, Err(LedgerError::Illegal(I1, _))));
}

#[test]
fn one_of_a_halted_range_can_be_retried_when_its_record_is_brought_back() {
    let mut ledger = of(&[submit(1, 9), halt(1, 9)]);
    let retried = Fact::InstanceRetried { instance: I1 };
    assert_eq!(
        ledger.apply(&retried),
        Err(LedgerError::UnknownInstance(I1))
    );
    let mut record = Instance::queued(I1, Arc::default());
    record.state = UniversalState::Halted;
    ledger.admit(record).expect("it was away");
    ledger.apply(&retried).expect("fits");
    assert_eq!(state(&ledger, 1), Some(UniversalState::Queued));
}

#[test]
fn the_settings_of_the_next_attempt_are_kept_until_it_starts() {
    let (mut ledger, lease) = leased();
    let fact = Fact::AttemptEnded {
        lease,
        end: AttemptEnd::Real(Outcome::Exited(1)),
        verdict: Verdict::Requeued,
        stats: None,
        next_attempt: Some(Box::new(NextAttempt {
            not_before: Some(Wall(99)),
            allowance: Some(Allowance {
                memory_max: 7,
                ..Allowance::default()
            }),
        })),
        outputs: None,
        stderr_tail: None,
        progress: None,
    };
    ledger.apply(&fact).expect("fits");
    let rests = ledger.instance(I1).expect("is there");
    assert_eq!(rests.not_before().map(|wall| wall.0), Some(99));
    let next = ledger.next_lease(I1, Epoch(1));
    let granted = Fact::LeaseGranted {
        lease: next,
        holder: holder(),
        executor: None,
        others: Vec::new(),
    };
    ledger.apply(&granted).expect("fits");
    let runs = ledger.instance(I1).expect("is there");
    assert_eq!((runs.not_before(), runs.allowance().memory_max), (None, 7));
}

#[test]
fn what_has_ended_is_dropped_and_its_id_stays_known() {
    let (mut ledger, lease) = leased();
    ledger.drop_ended(I1);
    assert!(ledger.instance(I1).is_some(), "it has not ended");
    let good = AttemptEnd::Real(Outcome::Exited(0));
    ledger
        .apply(&ended(lease, good, Verdict::Done))
        .expect("fits");
    let mut other = ledger.clone();
    ledger.drop_ended(I1);
    other.drop_all_ended();
    assert_eq!(ledger, other);
    assert!(ledger.find(I1).is_none());
    let again = ledger.apply(&submit(1, 1));
    assert_eq!(again, Err(LedgerError::AlreadySubmitted(I1)));
}

#[test]
fn a_drained_worker_stays_so_until_it_is_not() {
    let drained = |drained| Fact::WorkerDrained {
        worker: WorkerName::new("w"),
        drained,
    };
    let mut ledger = of(&[drained(true), drained(true)]);
    assert!(ledger.drained().contains(&WorkerName::new("w")));
    ledger.apply(&drained(false)).expect("fits");
    assert!(ledger.drained().is_empty());
}

#[test]
fn parts_that_overlap_are_refused() {
    let good = parts(&of(&[submit(10, 19)]));
    let one = Instance::queued(InstanceId(15), Arc::default());
    let range = |first, last| Range {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::default(),
    };
    let mut both = good.clone();
    both.instances.push(one.clone());
    let mut twice = good.clone();
    twice.waiting.push(range(5, 10));
    let instances = LedgerParts {
        instances: vec![one.clone(), one],
        ..LedgerParts::default()
    };
    let taken = |id| Err(LedgerError::AlreadySubmitted(InstanceId(id)));
    assert_eq!(Ledger::restore(both), taken(15));
    assert_eq!(Ledger::restore(twice), taken(10));
    assert_eq!(Ledger::restore(instances), taken(15));
    let mut none = good;
    none.waiting.push(range(31, 30));
    let refused = Ledger::restore(none);
    assert!(matches!(refused, Err(LedgerError::Impossible(..))));
}
