//! The ledger applies facts that fit, and refuses others without a change.

use std::sync::Arc;

use baton_model::fact::{Condemnation, Fact, Holder};
use baton_model::ids::{BootId, HostId, WorkerName};
use baton_model::outcome::AttemptEnd;
use baton_model::outcome::{LossProof, Outcome, Synthetic};
use baton_model::principal::NameOwner;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::*;

mod fleets;
mod library;
mod ranges;

const I1: InstanceId = InstanceId(1);

fn holder() -> Holder {
    Holder {
        worker: WorkerName::new("w"),
        incarnation: Incarnation {
            lineage: Lineage(7),
            number: IncarnationNo(1),
        },
        host: HostId(1),
        boot: BootId(1),
    }
}

fn submit(first: u64, last: u64) -> Fact {
    Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::default(),
    }
}

fn halt(first: u64, last: u64) -> Fact {
    Fact::InstancesHalted {
        first: InstanceId(first),
        last: InstanceId(last),
        reason: None,
    }
}

fn of(facts: &[Fact]) -> Ledger {
    let mut ledger = Ledger::default();
    for fact in facts {
        ledger.apply(fact).expect("fits");
    }
    ledger
}

fn submitted() -> Ledger {
    of(&[submit(1, 1)])
}

fn waiting(ledger: &Ledger) -> Vec<(u64, u64)> {
    let ranges = ledger.waiting();
    ranges.map(|it| (it.first.0, it.last.0)).collect()
}

fn state(ledger: &Ledger, id: u64) -> Option<UniversalState> {
    ledger.find(InstanceId(id)).map(|it| it.state)
}

fn parts(ledger: &Ledger) -> LedgerParts {
    LedgerParts {
        instances: ledger.instances().map(|(_, it)| it.clone()).collect(),
        waiting: ledger.waiting().collect(),
        known: ledger.known().ranges().collect(),
        condemned: ledger.condemned().collect(),
        drained: ledger.drained().iter().cloned().collect(),
        name_owners: ledger.name_owners().clone().into_iter().collect(),
        lease_time: ledger.lease_time(),
        tasks: ledger.library().tasks().cloned().collect(),
        keys: Vec::new(),
        fleets: ledger.fleets().iter().cloned().collect(),
        jobs: ledger.fleets().jobs().cloned().collect(),
        last_job: ledger.fleets().last(),
        ..LedgerParts::default()
    }
}

fn leased() -> (Ledger, LeaseId) {
    let mut ledger = submitted();
    let lease = ledger.next_lease(I1, Epoch(1));
    ledger
        .apply(&Fact::LeaseGranted {
            lease,
            holder: holder(),
            executor: None,
            others: Vec::new(),
        })
        .expect("a queued instance can be leased");
    (ledger, lease)
}

fn ended(lease: LeaseId, end: AttemptEnd, verdict: Verdict) -> Fact {
    Fact::AttemptEnded {
        lease,
        end,
        verdict,
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

#[test]
fn a_submission_is_ready_and_a_lease_takes_it_out_of_the_bullpen() {
    let mut ledger = submitted();
    assert_eq!(waiting(&ledger), [(1, 1)]);
    let lease = ledger.next_lease(I1, Epoch(3));
    ledger
        .apply(&Fact::LeaseGranted {
            lease,
            holder: holder(),
            executor: None,
            others: Vec::new(),
        })
        .expect("fits");
    assert_eq!(waiting(&ledger), []);
    assert_eq!(ledger.open_lease(lease).map(|it| it.id), Some(lease));
    assert_eq!(
        ledger.instance(I1).map(|it| it.state),
        Some(UniversalState::Launched)
    );
}

#[test]
fn a_second_lease_is_refused_while_one_is_open() {
    let (mut ledger, lease) = leased();
    let second = ledger.next_lease(I1, Epoch(1));
    let before = ledger.clone();
    let error = ledger.apply(&Fact::LeaseGranted {
        lease: second,
        holder: holder(),
        executor: None,
        others: Vec::new(),
    });
    assert_eq!(
        error,
        Err(LedgerError::NotTheOpenLease(second, Some(lease)))
    );
    assert_eq!(ledger, before);
}

#[test]
fn a_success_whose_confirmation_was_lost_is_done() {
    let (mut ledger, lease) = leased();
    let end = AttemptEnd::Real(Outcome::Exited(0));
    ledger
        .apply(&ended(lease, end, Verdict::Done))
        .expect("fits");
    assert_eq!(
        ledger.instance(I1).map(|it| it.state),
        Some(UniversalState::Done)
    );
    assert!(ledger.is_settled());
}

#[test]
fn a_closed_lease_stays_closed() {
    let (mut ledger, lease) = leased();
    let lost = AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::LeaseRanOut));
    ledger
        .apply(&ended(lease, lost, Verdict::Requeued))
        .expect("fits");
    assert_eq!(ledger.requeued(I1, I1).count(), 1);
    let late = ended(lease, AttemptEnd::Real(Outcome::Exited(0)), Verdict::Done);
    assert_eq!(
        ledger.apply(&late),
        Err(LedgerError::NotTheOpenLease(lease, None))
    );
    assert_eq!(ledger.requeued(I1, I1).count(), 1);
}

#[test]
fn the_same_attempt_of_another_epoch_is_another_lease() {
    let (ledger, lease) = leased();
    let other = LeaseId {
        epoch: Epoch(9),
        ..lease
    };
    assert!(ledger.open_lease(other).is_none());
}

#[test]
fn condemning_a_life_condemns_the_ones_before_it_and_none_after() {
    let mut ledger = Ledger::default();
    let incarnation = |number| Incarnation {
        lineage: Lineage(7),
        number: IncarnationNo(number),
    };
    ledger
        .apply(&Fact::WorkerCondemned {
            worker: WorkerName::new("w"),
            incarnation: incarnation(2),
            reason: Condemnation::Unhealthy,
        })
        .expect("fits");
    assert!(ledger.is_condemned(incarnation(1)));
    assert!(ledger.is_condemned(incarnation(2)));
    assert!(!ledger.is_condemned(incarnation(3)));
}

#[test]
fn an_adopted_attempt_brings_its_instance_along() {
    let mut ledger = Ledger::default();
    let lease = LeaseId {
        attempt: AttemptId {
            instance: I1,
            number: AttemptNo(4),
        },
        epoch: Epoch(1),
    };
    ledger
        .apply(&Fact::AttemptAdopted {
            lease,
            holder: holder(),
            spec: Arc::default(),
        })
        .expect("fits");
    assert_eq!(
        ledger.instance(I1).map(|it| it.state),
        Some(UniversalState::Running)
    );
    assert_eq!(ledger.next_lease(I1, Epoch(2)).attempt.number, AttemptNo(5));
}

#[test]
fn facts_about_the_unknown_are_refused_by_name() {
    let mut ledger = Ledger::default();
    let error = ledger.apply(&halt(1, 1));
    assert_eq!(error, Err(LedgerError::UnknownInstance(I1)));
    assert!(error.expect_err("refused").to_string().contains("i1"));
}

#[test]
fn a_leased_instance_is_not_halted_over_its_lease() {
    let (mut ledger, _) = leased();
    let before = ledger.clone();
    let error = ledger.apply(&halt(1, 1));
    assert!(matches!(error, Err(LedgerError::Impossible(I1, _))));
    assert_eq!(ledger, before);
}

#[test]
fn a_ledger_restored_from_its_parts_is_the_same_ledger() {
    let (mut ledger, lease) = leased();
    let incarnation = holder().incarnation;
    for fact in [
        Fact::AttemptConfirmed { lease },
        Fact::LeaseTimeSet { lease: Millis(9) },
        Fact::WorkerCondemned {
            worker: WorkerName::new("w"),
            incarnation,
            reason: Condemnation::Unhealthy,
        },
        Fact::WorkerDrained {
            worker: WorkerName::new("w"),
            drained: true,
        },
        Fact::WorkerNameAssigned {
            worker: WorkerName::new("w"),
            owner: Some(NameOwner::LocalWorker),
        },
        submit(2, 2),
        submit(5, 9),
    ] {
        ledger.apply(&fact).expect("fits");
    }
    assert_eq!(Ledger::restore(parts(&ledger)), Ok(ledger));
}

#[test]
fn an_instance_in_an_impossible_state_is_refused() {
    let (ledger, _) = leased();
    let good = ledger.instance(I1).expect("is there").clone();
    let spoilt: [fn(&mut Instance); 6] = [
        |it| it.state = UniversalState::Triaging,
        |it| it.state = UniversalState::Queued,
        |it| it.state = UniversalState::Running,
        |it| it.lease = None,
        |it| it.attempts = AttemptNo(0),
        |it| it.id = InstanceId(2),
    ];
    for (index, spoil) in spoilt.into_iter().enumerate() {
        let mut bad = good.clone();
        spoil(&mut bad);
        let refused = Ledger::default().admit(bad);
        assert!(
            matches!(refused, Err(LedgerError::Impossible(..))),
            "flaw {index} was taken in: {refused:?}"
        );
    }
}

#[test]
fn an_instance_is_admitted_once() {
    let mut ledger = submitted();
    let again = ledger.find(I1).expect("is there");
    assert_eq!(ledger.admit(again), Err(LedgerError::AlreadySubmitted(I1)));
}

#[test]
fn ledgers_with_different_pending_work_are_equal_only_without_it() {
    let live = of(&[Fact::RunRegistered {
        run: RunId(1),
        at: Wall(1),
        plan: Arc::default(),
        open: false,
        origin: None,
    }]);
    let mut processed = live.clone();
    assert_eq!(processed.runs_mut().next_dirty(), Some(RunId(1)));
    assert_ne!(processed, live);
    let mut restored = live.clone();
    restored.forget_transient();
    assert_eq!(processed, restored);
}
