//! Placing ahead: short instances queue on a worker, not in the bullpen.
//!
//! A worker that gets its next instance only when it has finished one idles for a round
//! trip and a commit. Where instances are short that is most of its time, so a full
//! worker gets some more of them to begin by itself, as room becomes free. They are
//! leased, but not charged: when something is released on the worker they take its
//! place here in the order in which they take it there.
//!
//! How many: as many as free themselves within [`AHEAD_SPAN`], by the estimate of their
//! class, among those of the class that are there: what else runs there may run for days. A
//! class without an estimate, with a limit, or behind a reservation, gets none, nor does a gang. An estimate
//! may be wrong, so a worker that has given one back gets none until something has ended
//! there: or the same ones would come and go for as long as it does not.
//! Only the first in the order of service is placed ahead, so no instance is overtaken by
//! more than that span; and a worker gives back what it could not start soon.

use baton_model::ids::{InstanceId, WorkerName};
use baton_model::time::Millis;

use super::class::Class;
use super::fleet::{Fleet, Worker};
use super::limits::{AHEAD_MAX, AHEAD_SPAN};
use super::{Decision, PlacedInstance, Placement};
use crate::wait::ClassId;

/// How many workers are looked at: the one with the fewest ahead has the most room for more,
/// unless it runs something else.
const LOOKED_AT: usize = 16;

impl Placement {
    /// Places one instance on a worker that is full; none if nothing may be.
    pub fn next_ahead(&mut self) -> Option<Decision> {
        if !self.reservations.is_empty() {
            return None;
        }
        let (_, class_queues) = self.queue.turns.first_key_value()?;
        let (_, class, class_queue) = *class_queues.first()?;
        if self.classes.all[class].need.is_gang() {
            return None;
        }
        let at = self.fleet.hungry(class, &self.classes.all[class])?;
        let settled = self.settled;
        let instance = self.queue.take(class_queue)?;
        self.avoided.remove(&instance);
        self.placed.insert(
            instance,
            PlacedInstance {
                worker: at,
                others: Vec::new(),
                class,
                ahead: true,
            },
        );
        self.classes.add_placed(class);
        self.fleet.add_ahead(at, instance);
        self.leave_class_queue(class_queue, class, 1);
        // Nothing has become free by it.
        self.settled = settled;
        Some(Decision {
            instance,
            worker: self.fleet.workers[at].name.clone(),
            others: Vec::new(),
            class: ClassId(class),
        })
    }

    /// The class of what is placed.
    #[must_use]
    pub fn class_of(&self, instance: InstanceId) -> Option<ClassId> {
        self.placed
            .get(&instance)
            .map(|placed| ClassId(placed.class))
    }

    /// True if some worker has work ahead: a while may pass before it needs more.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        let most = self.fleet.by_ahead.last();
        most.is_some_and(|(ahead, _)| *ahead > 0)
    }

    /// How many are placed ahead on a worker.
    #[must_use]
    pub fn ahead_on(&self, worker: &WorkerName) -> usize {
        self.fleet
            .find(worker)
            .map_or(0, |at| self.fleet.workers[at].ahead.len())
    }

    /// Lets those take their place that were placed ahead, as far as there is room.
    pub(super) fn promote(&mut self, at: usize) {
        while let Some(instance) = self.fleet.workers[at].ahead.front().copied() {
            let Some(placed) = self.placed.get_mut(&instance) else {
                self.fleet.remove_ahead(at, instance);
                continue;
            };
            let class = &self.classes.all[placed.class];
            if !self.fleet.would_fit(at, class) {
                return;
            }
            placed.ahead = false;
            self.fleet.remove_ahead(at, instance);
            self.fleet.charge(at, instance, placed.class, &class.need);
            self.limits.charge(&class.limited);
        }
    }
}

impl Fleet {
    /// A worker that may get one of this class ahead.
    fn hungry(&self, number: usize, class: &Class) -> Option<usize> {
        let mut least = self.by_ahead.iter().take(LOOKED_AT).map(|(_, at)| *at);
        least.find(|at| {
            let worker = &self.workers[*at];
            let beside = worker.of_class.get(&number).copied().unwrap_or(0);
            worker.ahead.len() < allowed(class, worker, *at, beside)
        })
    }
}

/// How many of a class may be ahead on a worker that runs so many of it.
fn allowed(class: &Class, worker: &Worker, at: usize, beside: u64) -> usize {
    let Some(Millis(estimate)) = class.estimate else {
        return 0;
    };
    if worker.stalled || !class.limited.is_empty() || !class.could_fit(worker, at) {
        return 0;
    }
    let expected = beside.saturating_mul(AHEAD_SPAN.0) / estimate.max(1);
    usize::try_from(expected).map_or(AHEAD_MAX, |count| count.min(AHEAD_MAX))
}
