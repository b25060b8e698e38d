//! The ledger takes facts that fit and refuses those that do not, unchanged.

use baton_model::fact::Condemnation;
use baton_model::ids::{BootId, HostId, WorkerName};
use baton_model::outcome::AttemptEnd;
use baton_model::outcome::{LossProof, Outcome, Synthetic};

use super::*;

const I1: InstanceId = InstanceId(1);

fn holder() -> Holder {
    Holder {
        worker: WorkerName::new("w"),
        incarnation: Incarnation {
            lineage: Lineage(7),
            life: Life(1),
        },
        host: HostId(1),
        boot: BootId(1),
    }
}

fn submitted() -> Ledger {
    let mut ledger = Ledger::default();
    let fact = Fact::InstanceSubmitted {
        instance: I1,
        spec: Arc::default(),
    };
    ledger.apply(&fact).expect("a first submission fits");
    ledger
}

fn leased() -> (Ledger, LeaseId) {
    let mut ledger = submitted();
    let lease = ledger.next_lease(I1, Epoch(1));
    ledger
        .apply(&Fact::LeaseGranted {
            lease,
            holder: holder(),
        })
        .expect("a queued instance can be leased");
    (ledger, lease)
}

fn ended(lease: LeaseId, end: AttemptEnd, verdict: Verdict) -> Fact {
    Fact::AttemptEnded {
        lease,
        end,
        verdict,
    }
}

#[test]
fn a_submission_is_ready_and_a_lease_takes_it_out_of_the_bullpen() {
    let mut ledger = submitted();
    assert_eq!(ledger.next_ready(), Some(I1));
    let lease = ledger.next_lease(I1, Epoch(3));
    ledger
        .apply(&Fact::LeaseGranted {
            lease,
            holder: holder(),
        })
        .expect("fits");
    assert_eq!(ledger.next_ready(), None);
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
    assert_eq!(ledger.next_ready(), Some(I1));
    let late = ended(lease, AttemptEnd::Real(Outcome::Exited(0)), Verdict::Done);
    assert_eq!(
        ledger.apply(&late),
        Err(LedgerError::NotTheOpenLease(lease, None))
    );
    assert_eq!(ledger.next_ready(), Some(I1));
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
    let life = |life| Incarnation {
        lineage: Lineage(7),
        life: Life(life),
    };
    ledger
        .apply(&Fact::WorkerCondemned {
            worker: WorkerName::new("w"),
            incarnation: life(2),
            why: Condemnation::Unhealthy,
        })
        .expect("fits");
    assert!(ledger.is_condemned(life(1)));
    assert!(ledger.is_condemned(life(2)));
    assert!(!ledger.is_condemned(life(3)));
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
    let error = ledger.apply(&Fact::InstanceHalted { instance: I1 });
    assert_eq!(error, Err(LedgerError::UnknownInstance(I1)));
    assert!(error.expect_err("refused").to_string().contains("i1"));
}

#[test]
fn a_leased_instance_is_not_halted_over_its_lease() {
    let (mut ledger, _) = leased();
    let before = ledger.clone();
    let error = ledger.apply(&Fact::InstanceHalted { instance: I1 });
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
            why: Condemnation::Unhealthy,
        },
        Fact::InstanceSubmitted {
            instance: InstanceId(2),
            spec: Arc::default(),
        },
    ] {
        ledger.apply(&fact).expect("fits");
    }
    let instances = ledger.instances().map(|(_, instance)| instance.clone());
    let restored = Ledger::restore(instances, ledger.condemned(), ledger.lease_time());
    assert_eq!(restored, Ok(ledger));
}

#[test]
fn an_instance_that_no_facts_could_have_left_so_is_refused() {
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
    let again = ledger.instance(I1).expect("is there").clone();
    assert_eq!(ledger.admit(again), Err(LedgerError::AlreadySubmitted(I1)));
}
