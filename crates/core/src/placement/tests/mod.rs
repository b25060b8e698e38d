//! What each rule of placement promises, one test each; and at random, against a
//! model that keeps nothing and recomputes everything.

mod bounds;
mod explain;
mod fit;
mod gang;
mod inventory;
mod limits;
mod naive;
mod order;
mod pin;
mod random;
mod reserve;
mod workers;
mod world;

use baton_model::device::DeviceAmount;
use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Capacity, Constraint, Offer, ResourceRequest, Rule};
use baton_model::task::Resources;

use super::{Arrival, ClassId, Placement};

const GIB: u64 = 1 << 30;

/// An ask for whole cores and GiB.
fn request(cpu: u64, gib: u64) -> ResourceRequest {
    ResourceRequest {
        resources: Resources {
            cpu_milli: cpu * 1_000,
            memory_min: gib * GIB,
            ..Resources::default()
        },
        constraints: Vec::new(),
    }
}

fn with_named(mut request: ResourceRequest, name: &str, amount: u64) -> ResourceRequest {
    request.resources.named.insert(name.to_owned(), amount);
    request
}

fn with_label(mut request: ResourceRequest, label: &str, value: &str) -> ResourceRequest {
    request.constraints.push(Constraint {
        label: label.to_owned(),
        rule: Rule::OneOf([value.to_owned()].into()),
    });
    request
}

/// An open worker with whole cores, GiB and devices.
fn offer(cpu: u64, gib: u64, gpu: u32) -> Offer {
    Offer {
        capacity: Capacity {
            cpu_milli: cpu * 1_000,
            memory: gib * GIB,
            disk: 100 * GIB,
            gpu: DeviceAmount::whole(gpu.into()),
            ..Capacity::default()
        },
        open: true,
        ..Offer::default()
    }
}

fn name(name: &str) -> WorkerName {
    WorkerName::new(name)
}

fn join(placement: &mut Placement, worker: &str, offer: Offer) {
    placement
        .set_offer(&name(worker), offer)
        .expect("few workers");
}

/// A single instance of the owner `me`, whose id is its sequence.
fn wait(placement: &mut Placement, id: u64, request: &ResourceRequest) -> ClassId {
    wait_as(placement, id, request, "me", 0)
}

fn wait_as(
    placement: &mut Placement,
    id: u64,
    request: &ResourceRequest,
    owner: &str,
    priority: i32,
) -> ClassId {
    wait_range(placement, (id, id), request, owner, priority, id)
}

fn wait_range(
    placement: &mut Placement,
    (first, last): (u64, u64),
    request: &ResourceRequest,
    owner: &str,
    priority: i32,
    sequence: u64,
) -> ClassId {
    let arrival = Arrival {
        first: InstanceId(first),
        last: InstanceId(last),
        demand: request.into(),
        owner,
        priority,
        sequence,
        task: None,
    };
    placement.enqueue(arrival).expect("new and within limits")
}

fn release(placement: &mut Placement, worker: &str, id: u64) {
    assert!(placement.release(&name(worker), InstanceId(id)));
}

/// All decisions until there is none, as (instance, worker).
fn drain(placement: &mut Placement) -> Vec<(u64, String)> {
    let decisions = std::iter::from_fn(|| placement.next());
    decisions
        .map(|decision| (decision.instance.0, decision.worker.to_string()))
        .collect()
}

/// The instances of all decisions until there is none.
fn placed(placement: &mut Placement) -> Vec<u64> {
    drain(placement).into_iter().map(|(id, _)| id).collect()
}

/// The order in which everything is served by one worker with room for one.
fn one_by_one(placement: &mut Placement, worker: &str) -> Vec<u64> {
    let mut served = Vec::new();
    while let Some(decision) = placement.next() {
        served.push(decision.instance.0);
        assert_eq!(placement.next(), None, "there was room for one only");
        release(placement, worker, decision.instance.0);
    }
    served
}
