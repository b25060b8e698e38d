//! The workers: what each has, what is placed on it, what is left over.
//!
//! A worker stays known while something is placed on it, also when it is not
//! there, since what may still run counts against the cluster's limits. Only one
//! that is there, open and not reserved stands on the shelf.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Capacity, Offer};
use slab::Slab;

use super::class::Class;
use super::limits::WORKERS_MAX;
use super::need::{KINDS, Need, Room, Units};
use super::shelf::{Key, Shelf};
use crate::limits::{LimitKey, Limits};
use crate::wait::Exclusion;

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) name: WorkerName,
    /// It has joined and not left.
    pub(super) present: bool,
    /// It takes new instances.
    pub(super) open: bool,
    /// The reason for which it does not.
    pub(super) closed: Option<Exclusion>,
    /// A class waits for it to become free enough.
    pub(super) reserved: bool,
    pub(super) capacity: Room,
    pub(super) named: BTreeMap<String, u64>,
    pub(super) labels: BTreeMap<String, String>,
    /// What is placed, in sum. May exceed the capacity after a change of it, or
    /// by adoption; never by a decision.
    used: [u128; KINDS],
    used_named: BTreeMap<String, u128>,
    pub(super) placed: BTreeSet<InstanceId>,
    /// How many of each class these are.
    pub(super) of_class: BTreeMap<usize, u64>,
    /// One that was placed ahead has left without its turn, and nothing has ended since:
    /// what runs here takes longer than others of its class did.
    pub(super) stalled: bool,
    /// What it begins by itself as room becomes free, in this order.
    pub(super) ahead: VecDeque<InstanceId>,
    /// Derived: what it has beyond what is placed.
    pub(super) free: Room,
    /// Derived: its place on the shelf.
    pub(super) leftover: u64,
    shelved: bool,
}

impl Worker {
    fn new(name: WorkerName) -> Self {
        Self {
            name,
            present: false,
            open: false,
            closed: None,
            reserved: false,
            capacity: Room::default(),
            named: BTreeMap::new(),
            labels: BTreeMap::new(),
            used: [0; KINDS],
            used_named: BTreeMap::new(),
            placed: BTreeSet::new(),
            of_class: BTreeMap::new(),
            stalled: false,
            ahead: VecDeque::new(),
            free: Room::default(),
            leftover: 0,
            shelved: false,
        }
    }

    /// How much of a named resource is free.
    pub(super) fn free_named(&self, name: &str) -> u64 {
        let has = self.named.get(name).copied().unwrap_or(0);
        let used = self.used_named.get(name).copied().unwrap_or(0);
        u64::try_from(u128::from(has).saturating_sub(used)).unwrap_or(0)
    }

    /// How much of a named resource it has.
    pub(super) fn has_named(&self, name: &str) -> u64 {
        self.named.get(name).copied().unwrap_or(0)
    }

    /// What is placed, in sum; of named resources those that it has.
    pub(super) fn used(&self) -> Capacity {
        let amount = |used: u128| u64::try_from(used).unwrap_or(u64::MAX);
        let [cpu_milli, memory, disk, gpu] = self.used.map(amount);
        let named = self.named.keys().map(|name| {
            let used = self.used_named.get(name).copied().unwrap_or(0);
            (name.clone(), amount(used))
        });
        Capacity {
            cpu_milli,
            memory,
            disk,
            gpu: u32::try_from(gpu).unwrap_or(u32::MAX),
            named: named.collect(),
        }
    }

    /// True if it takes new instances, now or as soon as it has a place.
    pub(super) const fn is_in_service(&self) -> bool {
        self.open || matches!(self.closed, Some(Exclusion::Busy))
    }

    pub(super) fn key(&self) -> Key {
        Key {
            leftover: self.leftover,
            name: self.name.clone(),
        }
    }

    /// True if it comes before `other` in the order of best fit.
    pub(super) fn before(&self, other: &Self) -> bool {
        (self.leftover, &self.name) < (other.leftover, &other.name)
    }

    fn charge(&mut self, instance: InstanceId, class: usize, need: &Need) {
        self.placed.insert(instance);
        *self.of_class.entry(class).or_default() += 1;
        for kind in 0..KINDS {
            self.used[kind] += u128::from(need.room.0[kind]);
        }
        for (name, amount) in &need.named {
            *self.used_named.entry(name.clone()).or_default() += u128::from(*amount);
        }
    }

    fn discharge(&mut self, instance: InstanceId, class: usize, need: &Need) {
        self.placed.remove(&instance);
        if let Some(count) = self.of_class.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.of_class.remove(&class);
            }
        }
        for kind in 0..KINDS {
            self.used[kind] -= u128::from(need.room.0[kind]);
        }
        for (name, amount) in &need.named {
            if let Some(used) = self.used_named.get_mut(name) {
                *used -= u128::from(*amount);
                if *used == 0 {
                    self.used_named.remove(name);
                }
            }
        }
    }

    fn weigh(&mut self, units: &Units) {
        for kind in 0..KINDS {
            let free = u128::from(self.capacity.0[kind]).saturating_sub(self.used[kind]);
            self.free.0[kind] = u64::try_from(free).unwrap_or(0);
        }
        let names = self.named.keys();
        let named = names.map(|name| (name.as_str(), self.free_named(name)));
        self.leftover = units.leftover(&self.free, named);
    }
}

/// All workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    pub(super) workers: Slab<Worker>,
    by_name: BTreeMap<WorkerName, usize>,
    shelf: Shelf,
    /// Those on the shelf, by how many they have ahead.
    pub(super) by_ahead: BTreeSet<(usize, usize)>,
    pub(super) units: Units,
}

impl Fleet {
    pub(super) fn find(&self, name: &WorkerName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The worker of this name, made if need be; none beyond the limit.
    pub(super) fn find_or_add(&mut self, name: &WorkerName) -> Option<usize> {
        if let Some(at) = self.find(name) {
            return Some(at);
        }
        if self.workers.len() >= WORKERS_MAX {
            return None;
        }
        let at = self.workers.insert(Worker::new(name.clone()));
        self.by_name.insert(name.clone(), at);
        Some(at)
    }

    pub(super) fn set_offer(&mut self, at: usize, offer: Offer) {
        let worker = &mut self.workers[at];
        worker.present = true;
        worker.open = offer.open;
        worker.closed = (!offer.open).then_some(Exclusion::Unhealthy);
        worker.capacity = Room::of(&offer.capacity);
        worker.named = offer.capacity.named;
        worker.labels = offer.labels;
    }

    /// Ends its offer; what is placed on it stays.
    pub(super) fn clear_offer(&mut self, at: usize) {
        self.set_offer(at, Offer::default());
        self.workers[at].present = false;
    }

    /// Forgets a worker that is neither there nor holds anything.
    pub(super) fn forget_if_gone(&mut self, at: usize) {
        let worker = &self.workers[at];
        let empty = worker.placed.is_empty() && worker.ahead.is_empty();
        if worker.present || !empty || worker.reserved {
            return;
        }
        debug_assert!(!worker.shelved, "an absent worker on the shelf: {worker:?}");
        self.by_name.remove(&worker.name);
        self.workers.remove(at);
    }

    pub(super) fn charge(&mut self, at: usize, instance: InstanceId, class: usize, need: &Need) {
        self.workers[at].charge(instance, class, need);
    }

    pub(super) fn discharge(&mut self, at: usize, instance: InstanceId, class: usize, need: &Need) {
        self.workers[at].discharge(instance, class, need);
    }

    /// Brings what is derived of one worker up to date; true if more is left over
    /// than before. O(log workers).
    pub(super) fn reshelve(&mut self, at: usize) -> bool {
        let worker = &mut self.workers[at];
        let before = worker.leftover;
        if worker.shelved {
            self.shelf.remove(&worker.key());
            self.by_ahead.remove(&(worker.ahead.len(), at));
        }
        worker.weigh(&self.units);
        worker.shelved = worker.open && !worker.reserved;
        if worker.shelved {
            self.shelf.put(worker.key(), at, worker.free);
            self.by_ahead.insert((worker.ahead.len(), at));
        }
        worker.leftover > before
    }

    /// Makes the units anew after workers or limits have changed; true if they
    /// have changed, and with them the whole order. O(workers).
    pub(super) fn reweigh(&mut self, limits: &Limits<LimitKey>) -> bool {
        let mut units = Units::default();
        for (_, worker) in self.workers.iter().filter(|(_, worker)| worker.present) {
            units.raise(&worker.capacity, &worker.named);
        }
        for (key, _) in limits.iter() {
            if let LimitKey::Named(name) = key {
                units.ignore(name);
            }
        }
        if units == self.units {
            return false;
        }
        self.units = units;
        self.shelf = Shelf::default();
        self.by_ahead.clear();
        for (at, worker) in self.workers.iter_mut() {
            worker.weigh(&self.units);
            worker.shelved = worker.open && !worker.reserved;
            if worker.shelved {
                self.shelf.put(worker.key(), at, worker.free);
                self.by_ahead.insert((worker.ahead.len(), at));
            }
        }
        true
    }

    /// Notes that an instance waits on a worker.
    pub(super) fn add_ahead(&mut self, at: usize, instance: InstanceId) {
        self.change_ahead(at, |ahead| ahead.push_back(instance));
    }

    /// Notes that an instance no longer waits on a worker; usually it is the first.
    pub(super) fn remove_ahead(&mut self, at: usize, instance: InstanceId) {
        self.change_ahead(at, |ahead| {
            if let Some(place) = ahead.iter().position(|it| *it == instance) {
                ahead.remove(place);
            }
        });
    }

    fn change_ahead(&mut self, at: usize, change: impl FnOnce(&mut VecDeque<InstanceId>)) {
        let worker = &mut self.workers[at];
        let before = worker.ahead.len();
        change(&mut worker.ahead);
        if worker.shelved {
            self.by_ahead.remove(&(before, at));
            self.by_ahead.insert((worker.ahead.len(), at));
        }
    }

    /// True if a worker has room for one of a class beside what is charged to it,
    /// whether it takes anything new or not.
    pub(super) fn would_fit(&self, at: usize, class: &Class) -> bool {
        let worker = &self.workers[at];
        let kinds = (0..KINDS).all(|kind| {
            let free = u128::from(worker.capacity.0[kind]).saturating_sub(worker.used[kind]);
            free >= u128::from(class.room.0[kind])
        });
        let mut local = class.local.iter();
        kinds && local.all(|(name, amount)| worker.free_named(name) >= *amount)
    }

    /// The worker on the shelf with the least left over that has `need` and is
    /// accepted.
    pub(super) fn best(
        &self,
        need: &Room,
        accept: impl Fn(&Worker, usize) -> bool,
    ) -> Option<usize> {
        self.shelf.first(need, |at| accept(&self.workers[at], at))
    }

    /// Asserts that a decision for a class has not gone beyond what the worker has.
    pub(super) fn assert_within(&self, at: usize, class: &Class) {
        let worker = &self.workers[at];
        for kind in (0..KINDS).filter(|kind| class.need.room.0[*kind] > 0) {
            assert!(
                worker.used[kind] <= u128::from(worker.capacity.0[kind]),
                "oversubscribed: {worker:?}"
            );
        }
        for (name, _) in &class.local {
            let used = worker.used_named.get(name).copied().unwrap_or(0);
            assert!(
                used <= u128::from(worker.has_named(name)),
                "oversubscribed: {name} of {worker:?}"
            );
        }
    }
}
