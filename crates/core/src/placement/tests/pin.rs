//! Pinned instances: placement counts cores as the host does.

use baton_model::cpu::{CORE, Pin};
use baton_model::fleet::Shape;
use baton_model::ids::InstanceId;

use super::*;
use crate::placement::JobShape;
use crate::wait::{Exclusion, WaitReason};

/// A worker with two threads for each core.
fn cores(nodes: &[u32]) -> Offer {
    let count: u32 = nodes.iter().sum();
    let mut offer = offer(u64::from(2 * count), 64, 0);
    let ids = (0..count).map(|core| format!("{core},{}", core + count));
    offer.devices.insert(CORE.to_owned(), ids.collect());
    offer.core_nodes = nodes.to_vec();
    offer
}

fn pinned(cpu: u64, pin: Pin) -> ResourceRequest {
    let mut request = request(cpu, 1);
    request.resources.pin = Some(pin);
    request
}

#[test]
fn no_more_is_pinned_than_there_are_cores() {
    let mut p = Placement::default();
    join(&mut p, "w", cores(&[2, 2]));
    wait_range(&mut p, (1, 3), &pinned(2, Pin::Cores), "me", 0, 1);
    assert_eq!(placed(&mut p), [1, 2]);
    let wait = p.explain(InstanceId(3)).expect("it waits");
    let text = wait.text();
    assert!(text.contains("lacks 2 cores to pin to"), "{text}");
    // What is not pinned uses the other threads.
    wait_range(&mut p, (4, 9), &request(1, 1), "me", 0, 4);
    assert_eq!(placed(&mut p), [4, 5, 6, 7]);
    release(&mut p, "w", 1);
    assert_eq!(placed(&mut p), [3]);
}

#[test]
fn a_socket_needs_a_node_that_is_large_enough() {
    let mut p = Placement::default();
    join(&mut p, "small", cores(&[2, 2]));
    wait_range(&mut p, (1, 2), &pinned(3, Pin::Socket), "me", 0, 1);
    assert_eq!(placed(&mut p), Vec::<u64>::new());
    let wait = p.explain(InstanceId(1)).expect("it waits");
    let text = wait.text();
    assert!(
        text.contains("it requests 3 cores of one socket, and small has 2"),
        "{text}"
    );
    join(&mut p, "large", cores(&[4, 4]));
    assert_eq!(
        drain(&mut p),
        [(1, "large".to_owned()), (2, "large".to_owned())]
    );
}

#[test]
fn a_worker_that_does_not_know_its_cores_takes_nothing_pinned() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 64, 0));
    wait(&mut p, 1, &pinned(1, Pin::Cores));
    assert_eq!(placed(&mut p), Vec::<u64>::new());
    let wait = p.explain(InstanceId(1)).expect("it waits");
    assert!(
        matches!(&wait.reason, WaitReason::Excluded(Exclusion::TooSmall { resource, has: 0, .. }) if resource == CORE)
    );
    let text = wait.text();
    assert!(text.contains("w does not know its cores"), "{text}");
    join(&mut p, "v", cores(&[1]));
    assert_eq!(drain(&mut p), [(1, "v".to_owned())]);
}

#[test]
fn cores_do_not_change_the_order_of_workers() {
    let mut p = Placement::default();
    let mut many = cores(&[32]);
    many.capacity.cpu_milli = 2_000;
    join(&mut p, "many-cores", many);
    join(&mut p, "more-cpu", cores(&[2]));
    wait(&mut p, 1, &request(1, 1));
    assert_eq!(drain(&mut p), [(1, "many-cores".to_owned())]);
}

#[test]
fn a_worker_of_a_fleet_has_as_many_cores_as_cpus() {
    let mut p = Placement::default();
    wait(&mut p, 1, &pinned(4, Pin::Cores));
    let shape = |cpu| Shape {
        capacity: offer(cpu, 64, 0).capacity,
        ..Shape::default()
    };
    let misfit = |cpu| {
        let job = JobShape {
            worker: &shape(cpu),
            workers: 1,
            time_limit: None,
        };
        p.misfit(InstanceId(1), job)
    };
    assert_eq!(misfit(4), None);
    assert!(misfit(3).is_some());
    let mut backlog = p.backlog();
    let mut vacancy = crate::placement::Vacancy::new(&shape(4));
    assert!(vacancy.fill(&mut backlog[0]));
}
