//! The workers: what each has, what is placed on it, what is left over.
//!
//! A worker stays known while something is placed on it, also when it is not
//! there, since what may still run counts against the cluster's limits. Only one
//! that is there, open and not reserved stands on the shelf.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_model::cpu::CORE;
use baton_model::device::{DeviceAmount, WHOLE};
use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Capacity, GROUP_LABEL, Offer};
use baton_model::time::Mono;
use slab::Slab;

use super::class::Class;
use super::limits::WORKERS_MAX;
use super::need::{GPU, KINDS, Need, Room, Units};
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
    /// How many classes wait for it to become free enough.
    pub(super) reservations: u32,
    pub(super) capacity: Room,
    pub(super) named: BTreeMap<String, u64>,
    /// The cores of its largest NUMA node.
    pub(super) socket: u64,
    pub(super) labels: BTreeMap<String, String>,
    /// Workers with the same can be members of one gang.
    pub(super) group: Option<String>,
    /// When it stops taking work, if it ends by itself.
    pub(super) ends_at: Option<Mono>,
    /// What is placed, in sum. May exceed the capacity after a change of it, or
    /// by adoption; never by a decision.
    used: [u128; KINDS],
    used_named: BTreeMap<String, u128>,
    /// The parts of devices among them, in thousandths, with the number of each.
    gpu_parts: BTreeMap<u64, u64>,
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
            reservations: 0,
            capacity: Room::default(),
            named: BTreeMap::new(),
            socket: 0,
            labels: BTreeMap::new(),
            group: None,
            ends_at: None,
            used: [0; KINDS],
            gpu_parts: BTreeMap::new(),
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
        let named = self.named.keys().filter(|name| *name != CORE);
        let named = named.map(|name| {
            let used = self.used_named.get(name).copied().unwrap_or(0);
            (name.clone(), amount(used))
        });
        Capacity {
            cpu_milli,
            memory,
            disk,
            gpu: DeviceAmount::from_milli(gpu),
            named: named.collect(),
        }
    }

    /// True if some class waits for it to become free enough.
    pub(super) const fn is_reserved(&self) -> bool {
        self.reservations > 0
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
        if let Some(part) = need.gpu_part() {
            *self.gpu_parts.entry(part).or_default() += 1;
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
        if let Some(part) = need.gpu_part()
            && let Some(count) = self.gpu_parts.get_mut(&part)
        {
            *count -= 1;
            self.gpu_parts.retain(|_, count| *count > 0);
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

    /// The free amount of a plain kind: what fits goes into it, and nothing else.
    fn free_of(&self, kind: usize) -> u64 {
        let free = u128::from(self.capacity.0[kind]).saturating_sub(self.used[kind]);
        let free = u64::try_from(free).unwrap_or(0);
        if kind != GPU || self.gpu_parts.is_empty() {
            return free;
        }
        let parts: u128 = self
            .gpu_parts
            .iter()
            .map(|(part, n)| u128::from(part * n))
            .sum();
        let whole = self.used[GPU].saturating_sub(parts);
        let left = u128::from(self.capacity.0[GPU]).saturating_sub(whole);
        free.min(free_devices(
            u64::try_from(left).unwrap_or(0),
            &self.gpu_parts,
        ))
    }

    fn weigh(&mut self, units: &Units) {
        for kind in 0..KINDS {
            self.free.0[kind] = self.free_of(kind);
        }
        let names = self.named.keys();
        let named = names.map(|name| (name.as_str(), self.free_named(name)));
        self.leftover = units.leftover(&self.free, named);
    }
}

/// The free amount of devices beside parts of devices, which are packed: the largest first, each on
/// the first device with room. A whole device is free for anything, and without one the largest gap
/// is.
fn free_devices(capacity: u64, parts: &BTreeMap<u64, u64>) -> u64 {
    let devices = capacity / WHOLE;
    let mut gaps: Vec<u64> = Vec::new();
    for (part, count) in parts.iter().rev() {
        let mut left = *count;
        for gap in &mut gaps {
            let fitting = left.min(*gap / part);
            *gap -= fitting * part;
            left -= fitting;
        }
        while left > 0 && (gaps.len() as u64) < devices {
            let fitting = left.min(WHOLE / part);
            gaps.push(WHOLE - fitting * part);
            left -= fitting;
        }
        if left > 0 {
            return 0;
        }
    }
    match devices - gaps.len() as u64 {
        0 => gaps.into_iter().max().unwrap_or(0),
        whole => whole * WHOLE,
    }
}

/// All workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    pub(super) workers: Slab<Worker>,
    by_name: BTreeMap<WorkerName, usize>,
    /// The workers that are there, by group.
    groups: BTreeMap<String, BTreeSet<usize>>,
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

    pub(super) fn set_offer(&mut self, at: usize, offer: Offer, ends_at: Option<Mono>) {
        self.set_group(at, offer.labels.get(GROUP_LABEL));
        let worker = &mut self.workers[at];
        worker.present = true;
        worker.open = offer.open;
        worker.closed = (!offer.open).then_some(Exclusion::Unhealthy);
        worker.capacity = Room::of(&offer.capacity);
        worker.named = offer.capacity.named;
        // The cores that it can assign, as a resource.
        let cores = offer.devices.get(CORE).map_or(0, Vec::len) as u64;
        worker.named.insert(CORE.to_owned(), cores);
        let largest = offer.core_nodes.iter().copied().max();
        worker.socket = largest.map_or(cores, u64::from).min(cores);
        worker.labels = offer.labels;
        worker.ends_at = ends_at;
    }

    fn set_group(&mut self, at: usize, group: Option<&String>) {
        let known = &mut self.workers[at].group;
        if known.as_ref() == group {
            return;
        }
        if let Some(old) = known.take()
            && let Some(members) = self.groups.get_mut(&old)
        {
            members.remove(&at);
            if members.is_empty() {
                self.groups.remove(&old);
            }
        }
        if let Some(group) = group {
            self.groups.entry(group.clone()).or_default().insert(at);
            self.workers[at].group = Some(group.clone());
        }
    }

    /// The groups with their workers, by name.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&str, &BTreeSet<usize>)> {
        self.groups
            .iter()
            .map(|(name, members)| (name.as_str(), members))
    }

    /// How many workers are in the group of this one, itself included.
    pub(super) fn group_len(&self, at: usize) -> usize {
        let group = self.workers[at].group.as_ref();
        let members = group.and_then(|group| self.groups.get(group));
        members.map_or(1, BTreeSet::len)
    }

    /// Ends its offer; what is placed on it stays.
    pub(super) fn clear_offer(&mut self, at: usize) {
        self.set_offer(at, Offer::default(), None);
        self.workers[at].present = false;
    }

    /// Forgets a worker that is neither there nor holds anything.
    pub(super) fn forget_if_gone(&mut self, at: usize) {
        let worker = &self.workers[at];
        let empty = worker.placed.is_empty() && worker.ahead.is_empty();
        if worker.present || !empty || worker.is_reserved() {
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
        worker.shelved = worker.open && !worker.is_reserved();
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
        // What is pinned counts as cpu already; and cores are not scarce, as every worker has some.
        units.ignore(CORE);
        if units == self.units {
            return false;
        }
        self.units = units;
        self.shelf = Shelf::default();
        self.by_ahead.clear();
        for (at, worker) in self.workers.iter_mut() {
            worker.weigh(&self.units);
            worker.shelved = worker.open && !worker.is_reserved();
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
        let kinds = (0..KINDS).all(|kind| worker.free_of(kind) >= class.room.0[kind]);
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
