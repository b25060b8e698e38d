//! Fair turns between owners: weighted round robin by the last decision.
//!
//! When an owner has had as many decisions as its weight, it gets the latest stamp, and of those who wait the
//! one with the earliest stamp is next. With weight 1 that is plain round robin. There is no credit for having
//! been away: who comes back has the rest of one turn. So while two owners wait, the decisions of each, divided
//! by its weight, differ by at most one; and no owner waits for more decisions than the weights of all others. A stamp outlives the wait, so that an owner who submits one instance
//! at a time does not come first each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slab::Slab;

use super::limits::OWNERS_MAX;

/// The turn that all owners beyond the limit share.
const SHARED_TURN: usize = 0;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    name: Arc<str>,
    /// The decision that served it last; 0 for none yet.
    pub(super) stamp: u64,
    /// Its decisions since it has that stamp.
    taken: u32,
    /// The number of its class queues, by priority.
    pub(super) class_queues: BTreeMap<i32, usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Owners {
    all: Slab<Owner>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Those with nothing waiting, the longest unserved first.
    idle: BTreeSet<(u64, usize)>,
    /// Weights other than 1, also of owners that are not known.
    weights: BTreeMap<Arc<str>, u32>,
}

impl Default for Owners {
    fn default() -> Self {
        let mut all = Slab::default();
        // Not registered by name: no owner has it.
        all.insert(Owner::default());
        Self {
            all,
            by_name: BTreeMap::new(),
            idle: BTreeSet::new(),
            weights: BTreeMap::new(),
        }
    }
}

impl Owners {
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn find_or_add(&mut self, name: &str) -> usize {
        if let Some(at) = self.find(name) {
            return at;
        }
        if self.all.len() > OWNERS_MAX {
            let Some((_, at)) = self.idle.pop_first() else {
                return SHARED_TURN;
            };
            let owner = self.all.remove(at);
            self.by_name.remove(&owner.name);
        }
        let owner = Owner {
            name: name.into(),
            ..Owner::default()
        };
        let name = Arc::clone(&owner.name);
        let at = self.all.insert(owner);
        self.by_name.insert(name, at);
        self.idle.insert((0, at));
        at
    }

    pub(super) fn set_weight(&mut self, name: &str, weight: u32) {
        if weight == 1 {
            self.weights.remove(name);
        } else {
            self.weights.insert(name.into(), weight);
        }
    }

    /// Decisions in one turn.
    pub(super) fn weight(&self, at: usize) -> u64 {
        let weight = self.weights.get(&self.all[at].name);
        weight.map_or(1, |weight| u64::from(*weight).max(1))
    }

    /// What is left of its turn; at least 1.
    pub(super) fn left(&self, at: usize) -> u64 {
        let taken = u64::from(self.all[at].taken);
        self.weight(at).saturating_sub(taken).max(1)
    }

    /// Counts a decision; true if its turn is over with it.
    pub(super) fn take(&mut self, at: usize) -> bool {
        let is_over = self.left(at) == 1;
        let owner = &mut self.all[at];
        owner.taken = if is_over { 0 } else { owner.taken + 1 };
        is_over
    }

    pub(super) fn stamp(&self, at: usize) -> u64 {
        self.all[at].stamp
    }

    pub(super) fn set_stamp(&mut self, at: usize, stamp: u64) {
        self.all[at].stamp = stamp;
    }

    /// The priorities at which it has something waiting.
    pub(super) fn priorities(&self, at: usize) -> impl Iterator<Item = i32> {
        self.all[at].class_queues.keys().copied()
    }

    pub(super) fn add_class_queue(&mut self, at: usize, priority: i32) {
        let owner = &mut self.all[at];
        *owner.class_queues.entry(priority).or_default() += 1;
        self.idle.remove(&(owner.stamp, at));
    }

    pub(super) fn remove_class_queue(&mut self, at: usize, priority: i32) {
        let owner = &mut self.all[at];
        if let Some(count) = owner.class_queues.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                owner.class_queues.remove(&priority);
            }
        }
        if owner.class_queues.is_empty() && at != SHARED_TURN {
            self.idle.insert((owner.stamp, at));
        }
    }
}
