//! Fair turns between owners: round robin by the last decision.
//!
//! Each decision gives its owner the latest stamp, and of those who wait the one
//! with the earliest stamp is next: plain round robin, with no credit for having
//! been away. A stamp outlives the wait, so that an owner who submits one instance
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
    /// The number of its class queues, by priority.
    pub(super) class_queues: BTreeMap<i32, usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Owners {
    all: Slab<Owner>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Those with nothing waiting, the longest unserved first.
    idle: BTreeSet<(u64, usize)>,
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
