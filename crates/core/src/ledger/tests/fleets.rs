//! Fleets and their jobs.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::fleet::{
    Backend, CancelCause, FleetName, FleetSpec, JobEnd, JobState, Removal, Shape,
};
use baton_model::ids::JobId;
use baton_model::limits::JOB_STABLE;
use baton_model::time::{Millis, Wall};

use super::*;

fn name() -> FleetName {
    "gpu".parse().expect("a name")
}

fn defined() -> Ledger {
    let spec = FleetSpec {
        backend: Backend::Local,
        shape: Shape::default(),
        workers_per_job: 1,
        min: 0,
        max: 4,
        backlog: 2,
        time_limit: None,
        idle_timeout: Millis::from_secs(60),
        before: None,
        after: None,
        worker_args: Vec::new(),
    };
    let mut ledger = Ledger::default();
    let fleet = name();
    let spec = Arc::new(spec);
    apply(
        &mut ledger,
        Fact::FleetDefined {
            fleet,
            spec,
            file: None,
        },
    );
    ledger
}

fn apply(ledger: &mut Ledger, fact: Fact) {
    ledger.apply(&fact).expect("a fact that follows");
}

fn request(ledger: &mut Ledger, job: u64) {
    let fact = Fact::JobRequested {
        job: JobId(job),
        fleet: name(),
        name: format!("baton-1-gpu-p{job}"),
        workers: 1,
        at: Wall(1_000),
    };
    apply(ledger, fact);
}

fn observe(ledger: &mut Ledger, job: u64, state: JobState, at: u64) {
    let fact = Fact::JobObserved {
        job: JobId(job),
        fleet: name(),
        state,
        detail: None,
        nodes: vec!["n1".to_owned()],
        at: Wall(at),
    };
    apply(ledger, fact);
}

fn arrive(ledger: &mut Ledger, job: u64, at: u64) {
    let (job, fleet, at) = (JobId(job), name(), Wall(at));
    apply(ledger, Fact::JobArrived { job, fleet, at });
}

fn end(ledger: &mut Ledger, job: u64, end: JobEnd, at: u64) {
    let fact = Fact::JobEnded {
        job: JobId(job),
        fleet: name(),
        end,
        detail: Some("exit 1".to_owned()),
        at: Wall(at),
    };
    apply(ledger, fact);
}

fn failures(ledger: &Ledger) -> u32 {
    let fleet = ledger.fleets().get(&name()).expect("the fleet");
    fleet.trouble.failures
}

#[test]
fn a_restored_ledger_has_fleets_and_open_jobs() {
    let mut ledger = defined();
    request(&mut ledger, 1);
    request(&mut ledger, 2);
    observe(&mut ledger, 1, JobState::Running, 2_000);
    arrive(&mut ledger, 1, 3_000);
    end(&mut ledger, 2, JobEnd::Refused, 2_000);
    let restored = Ledger::restore(parts(&ledger)).expect("valid parts");
    assert_eq!(restored.fleets(), ledger.fleets());
    let job = restored.fleets().job(JobId(1)).expect("an open job");
    assert_eq!(job.started_at, Some(Wall(2_000)));
    assert_eq!(restored.fleets().last(), JobId(2), "never used again");
    assert!(restored.fleets().job(JobId(2)).is_none());
}

#[test]
fn an_id_of_a_job_is_never_used_again() {
    let mut ledger = defined();
    request(&mut ledger, 3);
    end(&mut ledger, 3, JobEnd::Refused, 2_000);
    let again = Fact::JobRequested {
        job: JobId(3),
        fleet: name(),
        name: String::new(),
        workers: 1,
        at: Wall(0),
    };
    assert!(matches!(ledger.apply(&again), Err(LedgerError::Job(..))));
}

#[test]
fn a_removed_fleet_is_known_until_its_jobs_have_ended() {
    let mut ledger = defined();
    request(&mut ledger, 1);
    let (fleet, removal) = (name(), Removal::Cancel);
    apply(&mut ledger, Fact::FleetRemoved { fleet, removal });
    let fleet = ledger.fleets().get(&name()).expect("it has a job");
    assert_eq!(fleet.removed, Some(Removal::Cancel));
    end(&mut ledger, 1, JobEnd::Ended, 2_000);
    assert!(ledger.fleets().is_empty());
}

#[test]
fn failures_count_until_a_success() {
    let mut ledger = defined();
    (1..=6).for_each(|job| request(&mut ledger, job));
    (1..=6).for_each(|job| observe(&mut ledger, job, JobState::Running, 2_000));
    end(&mut ledger, 1, JobEnd::Failed, 3_000);
    end(&mut ledger, 2, JobEnd::Ended, 3_000);
    assert_eq!(failures(&ledger), 2, "one failed, of one no pilot came");
    let nodes = |it: &Ledger| it.fleets().get(&name()).expect("it").trouble.nodes.clone();
    assert_eq!(nodes(&ledger)["n1"].failures, 2);
    let mut refused = ledger.clone();
    request(&mut refused, 7);
    end(&mut refused, 7, JobEnd::Refused, 3_000);
    assert_eq!(
        (failures(&refused), nodes(&refused).len()),
        (3, 0),
        "all were avoided, perhaps"
    );
    end(&mut ledger, 3, JobEnd::Preempted, 3_000);
    assert_eq!(failures(&ledger), 2, "a preemption is no failure");
    arrive(&mut ledger, 4, 3_000);
    end(&mut ledger, 4, JobEnd::Failed, 4_000);
    assert_eq!(failures(&ledger), 3, "its pilots failed at once");
    arrive(&mut ledger, 5, 3_000);
    end(&mut ledger, 5, JobEnd::Failed, 3_000 + JOB_STABLE.0);
    assert_eq!(failures(&ledger), 0, "its pilots have worked");
    let cancel = Fact::JobCancelRequested {
        job: JobId(6),
        fleet: name(),
        cause: CancelCause::NoDemand,
        surplus: None,
    };
    apply(&mut ledger, cancel);
    end(&mut ledger, 6, JobEnd::Ended, 4_000);
    assert_eq!(failures(&ledger), 0, "it was cancelled");
}
