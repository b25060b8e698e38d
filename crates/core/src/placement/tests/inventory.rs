//! Definitions that fit no worker and no fleet.

use baton_model::fleet::{Backend, FleetName, FleetSpec, Shape};
use baton_model::spec::InstanceSpec;

use super::*;
use crate::placement::Inventory;

fn spec(cpu: u64, gib: u64) -> InstanceSpec {
    InstanceSpec {
        request: request(cpu, gib),
        ..InstanceSpec::default()
    }
}

fn fleet(cpu: u64) -> FleetSpec {
    FleetSpec {
        backend: Backend::Local,
        shape: Shape {
            capacity: offer(cpu, 64, 0).capacity,
            ..Shape::default()
        },
        workers_per_job: 1,
        min: 0,
        max: 1,
        backlog: 1,
        time_limit: None,
        idle_timeout: FleetSpec::IDLE_TIMEOUT,
        before: None,
        after: None,
        worker_args: Vec::new(),
    }
}

fn with_worker() -> Inventory {
    let mut inventory = Inventory::default();
    inventory
        .add_worker(&name("w"), offer(4, 8, 0))
        .expect("one worker");
    inventory
}

#[test]
fn a_definition_that_fits_no_worker_has_a_reason() {
    let mut inventory = with_worker();
    assert_eq!(inventory.misfit(&spec(4, 8)), None);
    let wait = inventory.misfit(&spec(5, 1)).expect("too large");
    assert!(wait.text().contains("5 cores"), "{}", wait.text());
    assert_eq!(
        inventory.misfit(&spec(1, 1)),
        None,
        "nothing is left behind"
    );
    let wait = Inventory::default().misfit(&spec(1, 1));
    assert!(wait.is_some_and(|it| it.text().contains("no worker")));
}

#[test]
fn a_fleet_that_could_run_it_is_enough() {
    let mut inventory = with_worker();
    let name: FleetName = "big".parse().expect("a name");
    inventory.add_fleet(name, fleet(16));
    assert_eq!(inventory.misfit(&spec(16, 1)), None);
    assert!(inventory.misfit(&spec(17, 1)).is_some());
}

#[test]
fn a_limit_is_no_resource_of_a_worker_and_may_be_too_small() {
    let mut inventory = with_worker();
    let licences = |amount| InstanceSpec {
        request: with_named(request(1, 1), "licence", amount),
        ..InstanceSpec::default()
    };
    assert!(inventory.misfit(&licences(2)).is_some(), "no worker has it");
    inventory.add_limit("licence", 2).expect("one limit");
    assert_eq!(inventory.misfit(&licences(2)), None);
    let wait = inventory.misfit(&licences(3)).expect("more than there is");
    assert!(wait.text().contains("whose total is 2"), "{}", wait.text());
}
