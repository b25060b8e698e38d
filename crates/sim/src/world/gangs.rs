//! Instances of several nodes, and groups of workers.
//!
//! Drawn from a stream of its own: they do not change other draws of a seed.

use baton_core::scheduler::StoreMode;
use baton_model::ids::WorkerName;
use baton_model::spec::Nodes;

use super::World;
use crate::checkers::group_of;
use crate::rng::Rng;
use crate::swarm::Mix;

/// Seeds with gangs, of a thousand of those with a store and enough workers.
const GANGS: u64 = 350;

/// Instances of such a seed that are gangs, of a thousand.
const OF_INSTANCES: u64 = 300;

/// One worker of a group may be cut off for good: gangs are smaller than the largest group.
const GROUP_MIN: u32 = 3;

/// The draws about gangs.
#[derive(Debug)]
pub(super) struct Gangs {
    rng: Rng,
    /// Groups of workers; none if there are no gangs.
    pub(super) groups: u32,
}

impl Gangs {
    pub(super) fn new(seed: u64, mix: &Mix) -> Self {
        let mut rng = Rng::new(seed ^ (1 << 56));
        let is_possible = mix.store_mode == StoreMode::Durable && mix.workers >= GROUP_MIN;
        let groups = match mix.workers {
            workers if workers >= 2 * GROUP_MIN => rng.within(1, 2) as u32,
            _ => 1,
        };
        let is_enabled = rng.chance(GANGS) && is_possible;
        Self {
            rng,
            groups: if is_enabled { groups } else { 0 },
        }
    }

    /// The group of a worker.
    pub(super) fn group(&self, worker: &WorkerName) -> Option<String> {
        (self.groups > 0).then(|| group_of(worker, self.groups))
    }
}

impl World {
    /// Lets some instances be gangs.
    pub(super) fn populate_gangs(&mut self) {
        if self.gangs.groups == 0 {
            return;
        }
        let largest = self.mix.workers.div_ceil(self.gangs.groups);
        let rng = &mut self.gangs.rng;
        for spec in self.client.specs_mut() {
            if rng.chance(OF_INSTANCES) {
                let nodes = rng.within(2, u64::from(largest - 1)) as u32;
                spec.nodes = Nodes::new(nodes);
            }
        }
        self.checkers.gangs.groups = self.gangs.groups;
    }
}
