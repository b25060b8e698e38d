//! Fleets, and the jobs that were requested of them.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::fleet::{
    Backend, CancelCause, FleetName, FleetSpec, JobEnd, JobState, Removal, Shape,
};
use baton_model::ids::JobId;
use baton_model::limits::FLEET_JOBS_ENDED_MAX;
use baton_model::time::{Millis, Wall};
use baton_model::token::{NewToken, Role, SecretHash};
use baton_store::StoreError;

use crate::Open;
use crate::leading::Leader;

fn name(text: &str) -> FleetName {
    text.parse().expect("a valid name")
}

fn defined(fleet: &str, max: u32) -> Fact {
    Fact::FleetDefined {
        fleet: name(fleet),
        spec: Arc::new(FleetSpec {
            backend: Backend::Local,
            shape: Shape::default(),
            workers_per_job: 1,
            min: 0,
            max,
            backlog: 1,
            time_limit: Some(Millis(60_000)),
            idle_timeout: Millis(300_000),
            before: Some("module load \u{0}x".to_owned()),
            after: None,
            worker_args: vec!["--label".to_owned(), "a=b".to_owned()],
        }),
        file: (max == 2).then(|| "/etc/baton/fleets.yaml".to_owned()),
    }
}

fn requested(job: u64, fleet: &str) -> Fact {
    Fact::JobRequested {
        job: JobId(job),
        fleet: name(fleet),
        name: format!("baton-{fleet}-{job}"),
        workers: 1,
        at: Wall(job),
    }
}

fn ended(job: u64, fleet: &str, end: JobEnd) -> Fact {
    Fact::JobEnded {
        job: JobId(job),
        fleet: name(fleet),
        end,
        detail: Some("node down".to_owned()),
        at: Wall(100 + job),
    }
}

/// Every fact about a job, and then some of a second fleet.
fn life() -> Vec<Fact> {
    let (fleet, job) = (name("gpu"), JobId(1));
    vec![
        defined("gpu", 4),
        requested(1, "gpu"),
        Fact::JobSubmitted {
            job,
            fleet: fleet.clone(),
            native: "77".to_owned(),
        },
        Fact::JobObserved {
            job,
            fleet: fleet.clone(),
            state: JobState::Running,
            detail: None,
            nodes: vec!["n1".to_owned()],
            at: Wall(20),
        },
        Fact::JobArrived {
            job,
            fleet: fleet.clone(),
            at: Wall(21),
        },
        Fact::JobCancelRequested {
            job,
            fleet: fleet.clone(),
            cause: CancelCause::NoDemand,
            surplus: None,
        },
        Fact::FleetPaused {
            fleet,
            paused: true,
        },
        defined("cpu", 2),
        requested(2, "cpu"),
    ]
}

pub(crate) fn fleets_and_open_jobs_are_restored(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    // One by one: what a fact changes is fetched.
    for fact in life() {
        leader.ledger.apply(&fact).expect("it fits");
        leader.try_commit(&*store, vec![fact]).expect("lands");
        assert_eq!(Leader::elect(&*open()).ledger, leader.left());
        leader = Leader::elect(&*store);
    }
    let job = leader.ledger.fleets().job(JobId(1)).expect("it is open");
    assert_eq!(job.native.as_deref(), Some("77"));
    assert_eq!(
        (job.arrived_at, job.cancel),
        (Some(Wall(21)), Some(CancelCause::NoDemand))
    );
    assert!(
        leader
            .ledger
            .fleets()
            .get(&name("gpu"))
            .is_some_and(|it| it.paused)
    );
}

pub(crate) fn a_removed_fleet_is_gone_with_its_last_job(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let mut facts = life();
    facts.push(Fact::FleetRemoved {
        fleet: name("gpu"),
        removal: Removal::Cancel,
    });
    facts.push(ended(1, "gpu", JobEnd::Failed));
    for fact in &facts {
        leader.ledger.apply(fact).expect("it fits");
    }
    leader.try_commit(&*store, facts).expect("lands");
    let next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left());
    assert!(next.ledger.fleets().get(&name("gpu")).is_none());
    let page = store.fleet_jobs(&name("gpu"), None, 10).expect("readable");
    let [job] = &page.items[..] else {
        panic!("one job was requested: {page:?}");
    };
    assert_eq!(
        (job.end, job.ended_at),
        (Some(JobEnd::Failed), Some(Wall(101)))
    );
    assert_eq!(job.detail.as_deref(), Some("node down"));
}

pub(crate) fn jobs_are_listed_by_page_and_old_ones_are_forgotten(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let far = FLEET_JOBS_ENDED_MAX + 3;
    let jobs = [1, 2, 3, far];
    let mut facts = vec![defined("gpu", 4)];
    for job in jobs {
        facts.extend([requested(job, "gpu"), ended(job, "gpu", JobEnd::Ended)]);
    }
    facts.push(requested(far + 1, "gpu"));
    for fact in facts {
        leader.ledger.apply(&fact).expect("it fits");
        leader.try_commit(&*store, vec![fact]).expect("lands");
    }
    let page = |before: Option<u64>| {
        let page = store.fleet_jobs(&name("gpu"), before.map(JobId), 2);
        let page = page.expect("readable");
        let ids = page.items.iter().map(|job| job.id.0).collect::<Vec<_>>();
        (ids, page.next.map(|id| id.0))
    };
    assert_eq!(page(None), (vec![far + 1, far], None));
    let next = Leader::elect(&*open());
    assert_eq!(next.ledger.fleets().last(), JobId(far + 1), "never reused");
}

pub(crate) fn tokens_of_a_fleet_end_with_it(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let issue = |number: u8, fleet: &str, at| {
        store.create_token(&NewToken {
            name: format!("pilots of {fleet}"),
            role: Role::Worker,
            owner: None,
            fleet: Some(name(fleet)),
            hash: SecretHash([number; 32]),
            created_at: Wall(at),
            expires_at: Some(Wall(at + 100)),
        })
    };
    assert_eq!(issue(0, "gpu", 1), Err(StoreError::NoFleet(name("gpu"))));
    for fact in [defined("gpu", 4), defined("cpu", 4), requested(1, "gpu")] {
        leader.ledger.apply(&fact).expect("it fits");
        leader.try_commit(&*store, vec![fact]).expect("lands");
    }
    let [first, second] = [(1, "gpu"), (2, "cpu")]
        .map(|(number, fleet)| issue(number, fleet, 10).expect("the fleet is there"));
    let valid = || {
        let tokens = store.tokens().expect("readable").into_iter();
        let valid = tokens.filter(|it| !it.revoked);
        valid.map(|it| (it.id, it.fleet)).collect::<Vec<_>>()
    };
    let (gpu, cpu) = (Some(name("gpu")), Some(name("cpu")));
    assert_eq!(valid(), [(first, gpu.clone()), (second, cpu.clone())]);
    let third = issue(3, "gpu", 50).expect("a successor");
    assert_eq!(valid().len(), 3, "the first one is valid still");
    let fourth = issue(4, "gpu", 120).expect("another");
    let left = [(second, cpu.clone()), (third, gpu.clone()), (fourth, gpu)];
    assert_eq!(valid(), left, "the expired one is removed");

    let removed = Fact::FleetRemoved {
        fleet: name("gpu"),
        removal: Removal::Cancel,
    };
    leader.ledger.apply(&removed).expect("it fits");
    leader.try_commit(&*store, vec![removed]).expect("lands");
    assert_eq!(valid(), left, "a job of it has not ended");
    let last = ended(1, "gpu", JobEnd::Ended);
    leader.ledger.apply(&last).expect("it fits");
    leader.try_commit(&*store, vec![last]).expect("lands");
    assert_eq!(valid(), [(second, cpu)]);
    let gone = issue(5, "gpu", 130);
    assert_eq!(gone, Err(StoreError::NoFleet(name("gpu"))));
}
