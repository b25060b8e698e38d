//! Random fleets, faults and work.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fleet::{Backend, FleetName, FleetSpec, Shape, SlurmOptions};
use baton_model::placement::{Capacity, ResourceRequest};
use baton_model::spec::{InstanceSpec, RetryBudget};
use baton_model::task::Resources;
use baton_model::time::Millis;

use crate::rng::Rng;

pub(super) const MINUTE: u64 = 60_000;

/// What may go wrong, each in thousandths.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Of submissions: the answer is lost, and the job exists.
    pub(super) lost_answer: u64,
    /// Of submissions: unclear, and the job does not exist.
    pub(super) lost_call: u64,
    pub(super) refused: u64,
    /// Of submissions: the manager makes two jobs.
    pub(super) doubled: u64,
    /// Of lists: it fails, has nothing, or lacks some jobs.
    pub(super) list_failed: u64,
    pub(super) list_empty: u64,
    pub(super) list_partial: u64,
    /// Of states in lists: unknown words.
    pub(super) unknown_state: u64,
    pub(super) cancel_failed: u64,
    /// Of jobs that start: pilots never come.
    pub(super) no_pilot: u64,
    /// Of nodes that are bad: jobs fail there at once.
    pub(super) bad_nodes: u64,
    /// In a minute: a running job is preempted.
    pub(super) preempted: u64,
    /// In a minute: the leader is replaced.
    pub(super) leader: u64,
}

impl Faults {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut some = |most: u64| if rng.chance(500) { rng.below(most) } else { 0 };
        Self {
            lost_answer: some(400),
            lost_call: some(200),
            refused: some(150),
            doubled: some(100),
            list_failed: some(300),
            list_empty: some(200),
            list_partial: some(300),
            unknown_state: some(200),
            cancel_failed: some(300),
            no_pilot: some(200),
            bad_nodes: some(500),
            preempted: some(60),
            leader: some(150),
        }
    }
}

/// One fleet.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: FleetName,
    pub(super) spec: Arc<FleetSpec>,
    /// Lists do not show jobs that have ended.
    pub(super) forgets: bool,
    /// How long a job waits in the queue, at most.
    pub(super) queue_ms: u64,
    /// Processes end with their job.
    pub(super) contained: bool,
}

/// The fleets: one that runs everything, and perhaps one for small work.
pub(super) fn fleets(rng: &mut Rng) -> Vec<Plan> {
    let count = rng.within(1, 2);
    (0..count).map(|at| fleet(rng, at)).collect()
}

fn fleet(rng: &mut Rng, at: u64) -> Plan {
    let per_job = rng.pick(&[1, 1, 1, 2, 3]);
    let max = rng.within(u64::from(per_job), 8) as u32;
    let cores = if at == 0 { 4 } else { 2 };
    let spec = FleetSpec {
        backend: Backend::Slurm(SlurmOptions::default()),
        shape: Shape {
            capacity: Capacity {
                cpu_milli: cores * 1_000,
                memory: 8 << 30,
                ..Capacity::default()
            },
            labels: BTreeMap::new(),
        },
        workers_per_job: per_job,
        min: if rng.chance(150) { 1 } else { 0 },
        max,
        backlog: rng.within(1, 4) as u32,
        time_limit: rng.chance(600).then(|| Millis(rng.within(20, 60) * MINUTE)),
        idle_timeout: Millis(rng.within(1, 5) * MINUTE),
        before: None,
        after: None,
        worker_args: Vec::new(),
    };
    let name = if at == 0 { "all" } else { "small" };
    Plan {
        name: name.parse().expect("a name"),
        spec: Arc::new(spec),
        forgets: rng.chance(300),
        queue_ms: rng.pick(&[2_000, 30_000, 5 * MINUTE]),
        contained: rng.chance(700),
    }
}

/// A kind of work: small or large, never more than the first fleet has.
pub(super) fn spec(rng: &mut Rng) -> Arc<InstanceSpec> {
    let cpu_milli = rng.pick(&[500, 1_000, 2_000, 4_000]);
    let name = format!("cpu{cpu_milli}");
    Arc::new(InstanceSpec {
        name,
        owner: "lab".to_owned(),
        request: ResourceRequest {
            resources: Resources {
                cpu_milli,
                ..Resources::default()
            },
            ..ResourceRequest::default()
        },
        retry: RetryBudget {
            losses_max: 1_000,
            ..RetryBudget::default()
        },
        ..InstanceSpec::default()
    })
}
