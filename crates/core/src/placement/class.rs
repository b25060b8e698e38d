//! Classes: instances with equivalent requests, which are interchangeable.
//!
//! Each class that has something waiting remembers where its next instance would
//! go ([`Spot`]). A change of one worker updates that in one comparison, so no
//! decision looks at all workers unless the remembered one is gone while others
//! may be left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::time::{Millis, Mono};
use slab::Slab;

use super::fleet::{Fleet, Worker};
use super::limits::CLASSES_MAX;
use super::need::{Need, Room, holds};
use crate::limits::{LimitKey, Limits};

/// Where on the shelf the next of a class fits best. Of a gang only whether some group may have enough workers:
/// unknown, or nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Spot {
    /// To be looked for.
    #[default]
    Unknown,
    Nowhere,
    /// Here, and on no other worker.
    Only(usize),
    /// Here; others may do as well.
    Best(usize),
}

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) need: Arc<Need>,
    /// A copy of the need's, as every change of a worker looks at it.
    pub(super) room: Room,
    /// The part of the named resources that workers have.
    pub(super) local: Vec<(String, u64)>,
    /// What it takes of limits across the cluster.
    pub(super) limited: Vec<(LimitKey, u64)>,
    /// Which workers meet the constraints, one bit each; none means all of them.
    allowed: Option<Vec<u64>>,
    /// If it needs time: how long a worker must stay, at least.
    stay_until: Option<Mono>,
    pub(super) spot: Spot,
    /// Its class queues that hold something: priority, owner, class queue.
    pub(super) class_queues: BTreeSet<(Reverse<i32>, usize, usize)>,
    pub(super) waiting: u64,
    placed: u64,
    /// A moving mean of run times.
    pub(super) estimate: Option<Millis>,
    /// How often others took what it waits for.
    pub(super) passed: u32,
    /// The round in which it was last found to have no room.
    pub(super) skipped_in: u64,
    /// Its place among those with something waiting.
    active_at: Option<usize>,
    idle_since: u64,
}

impl Class {
    /// True if worker `at` meets the constraints.
    pub(super) fn allows(&self, at: usize) -> bool {
        self.allowed.as_ref().is_none_or(|bits| {
            bits.get(at / 64)
                .is_some_and(|word| word >> (at % 64) & 1 == 1)
        })
    }

    /// True if the worker stays for as long as it needs.
    pub(super) fn has_time(&self, worker: &Worker) -> bool {
        worker
            .ends_at
            .is_none_or(|end| self.stay_until <= Some(end))
    }

    /// Takes in the time. A worker has less of it left, never more.
    fn set_now(&mut self, now: Mono, fleet: &Fleet) {
        let Some(time) = self.need.time else {
            return;
        };
        self.stay_until = Some(now + time);
        if let Spot::Only(at) | Spot::Best(at) = self.spot
            && !self.has_time(&fleet.workers[at])
        {
            self.spot = Spot::Unknown;
        }
    }

    /// True if the worker has room and time now. Says nothing about who has reserved it.
    pub(super) fn fits(&self, worker: &Worker, at: usize) -> bool {
        worker.open && self.has_time(worker) && self.has_room(worker, at)
    }

    /// True if the worker has room, whether it takes new instances or not.
    pub(super) fn has_room(&self, worker: &Worker, at: usize) -> bool {
        worker.free.holds(&self.room) && self.allows(at) && self.fits_named(worker)
    }

    fn fits_named(&self, worker: &Worker) -> bool {
        let mut local = self.local.iter();
        worker.socket >= self.need.socket
            && local.all(|(name, amount)| worker.free_named(name) >= *amount)
    }

    /// True if the worker would have room if it were empty, and has time. A gang also waits for workers that
    /// have no place at this moment: otherwise they would never have one at the same time.
    pub(super) fn could_fit(&self, worker: &Worker, at: usize) -> bool {
        let serves = worker.open || (self.need.is_gang() && worker.is_in_service());
        serves && self.has_time(worker) && self.is_within(worker, at)
    }

    /// True if the worker would have room, whether it takes new instances or not.
    pub(super) fn is_within(&self, worker: &Worker, at: usize) -> bool {
        let mut local = self.local.iter();
        worker.capacity.holds(&self.room)
            && worker.socket >= self.need.socket
            && self.allows(at)
            && local.all(|(name, amount)| worker.has_named(name) >= *amount)
    }

    /// How many of it are placed.
    pub(super) const fn placed(&self) -> u64 {
        self.placed
    }

    /// Its highest priority with something waiting.
    pub(super) fn priority(&self) -> Option<i32> {
        self.class_queues
            .first()
            .map(|(Reverse(priority), _, _)| *priority)
    }

    fn set_allowed(&mut self, at: usize, worker: &Worker) {
        let need = Arc::clone(&self.need);
        let Some(bits) = &mut self.allowed else {
            return;
        };
        let word = at / 64;
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] &= !(1 << (at % 64));
        if need.constraints.iter().all(|c| holds(c, &worker.labels)) {
            bits[word] |= 1 << (at % 64);
        }
    }

    fn split(&mut self, limits: &Limits<LimitKey>) {
        (self.limited, self.local) = (Vec::new(), Vec::new());
        for (name, amount) in &self.need.named {
            let key = LimitKey::from(name.as_str());
            if limits.contains(&key) {
                self.limited.push((key, *amount));
            } else {
                self.local.push((name.clone(), *amount));
            }
        }
        let implied = self.need.limits.iter();
        let implied = implied.filter(|key| limits.contains(key));
        self.limited.extend(implied.map(|key| (key.clone(), 1)));
        self.spot = Spot::Unknown;
    }

    /// Takes in that worker `at` has changed; `grown` if more is left over on it.
    fn adjust(&mut self, fleet: &Fleet, at: usize, grown: bool) {
        let worker = &fleet.workers[at];
        if self.need.is_gang() {
            // `gang` looks for all members at once, and at reservations.
            if self.fits(worker, at) {
                self.spot = Spot::Unknown;
            }
            return;
        }
        let fits = !worker.is_reserved() && self.fits(worker, at);
        self.spot = match self.spot {
            Spot::Only(best) if best == at && !fits => Spot::Nowhere,
            Spot::Best(best) if best == at && (grown || !fits) => Spot::Unknown,
            Spot::Nowhere if fits => Spot::Only(at),
            Spot::Only(best) | Spot::Best(best) if best != at && fits => {
                if worker.before(&fleet.workers[best]) {
                    Spot::Best(at)
                } else {
                    Spot::Best(best)
                }
            }
            unchanged => unchanged,
        };
    }

    /// Where on the shelf it fits best, looked for if need be.
    pub(super) fn settle(&mut self, fleet: &Fleet) -> Option<usize> {
        if self.spot == Spot::Unknown {
            let accept = |worker: &Worker, at| {
                self.allows(at) && self.has_time(worker) && self.fits_named(worker)
            };
            let found = fleet.best(&self.room, accept);
            self.spot = found.map_or(Spot::Nowhere, Spot::Best);
        }
        match self.spot {
            Spot::Only(at) | Spot::Best(at) => Some(at),
            Spot::Nowhere | Spot::Unknown => None,
        }
    }
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    pub(super) all: Slab<Class>,
    by_need: BTreeMap<Arc<Need>, usize>,
    /// Those with something waiting, in no order that matters.
    pub(super) active: Vec<usize>,
    /// Those with nothing waiting and nothing placed, the longest idle first.
    idle: BTreeSet<(u64, usize)>,
    ticks: u64,
    now: Mono,
}

impl Classes {
    pub(super) fn find(&self, need: &Need) -> Option<usize> {
        self.by_need.get(need).copied()
    }

    /// The class of this need, made if need be. Beyond the limit none is made,
    /// unless what runs must be accounted for. A new one costs O(workers) if it
    /// has constraints.
    pub(super) fn find_or_add(
        &mut self,
        need: Need,
        fleet: &Fleet,
        limits: &Limits<LimitKey>,
        runs: bool,
    ) -> Option<usize> {
        if let Some(at) = self.find(&need) {
            return Some(at);
        }
        if self.all.len() >= CLASSES_MAX {
            match self.idle.pop_first() {
                Some((_, at)) => self.forget(at),
                None if runs => {}
                None => return None,
            }
        }
        let need = Arc::new(need);
        let mut class = Class {
            allowed: (!need.constraints.is_empty()).then(Vec::new),
            room: need.room,
            stay_until: need.time.map(|time| self.now + time),
            need: Arc::clone(&need),
            idle_since: self.ticks,
            ..Class::default()
        };
        class.split(limits);
        if class.allowed.is_some() {
            for (at, worker) in fleet.workers.iter() {
                class.set_allowed(at, worker);
            }
        }
        let at = self.all.insert(class);
        self.by_need.insert(need, at);
        self.idle.insert((self.ticks, at));
        Some(at)
    }

    fn forget(&mut self, at: usize) {
        let class = self.all.remove(at);
        self.by_need.remove(&class.need);
    }

    pub(super) fn add_waiting(&mut self, at: usize, count: u64) {
        let class = &mut self.all[at];
        class.waiting += count;
        if class.active_at.is_none() {
            class.active_at = Some(self.active.len());
            class.spot = Spot::Unknown;
            class.stay_until = class.need.time.map(|time| self.now + time);
            self.active.push(at);
        }
        self.note(at);
    }

    pub(super) fn remove_waiting(&mut self, at: usize, count: u64) {
        let class = &mut self.all[at];
        class.waiting -= count;
        if class.waiting == 0
            && let Some(place) = class.active_at.take()
        {
            class.passed = 0;
            self.active.swap_remove(place);
            if let Some(moved) = self.active.get(place) {
                self.all[*moved].active_at = Some(place);
            }
        }
        self.note(at);
    }

    pub(super) fn add_placed(&mut self, at: usize) {
        self.all[at].placed += 1;
        self.note(at);
    }

    pub(super) fn remove_placed(&mut self, at: usize) {
        self.all[at].placed -= 1;
        self.note(at);
    }

    /// Keeps the list of idle classes right.
    fn note(&mut self, at: usize) {
        let class = &mut self.all[at];
        self.idle.remove(&(class.idle_since, at));
        if class.waiting == 0 && class.placed == 0 {
            self.ticks += 1;
            class.idle_since = self.ticks;
            self.idle.insert((self.ticks, at));
        }
    }

    /// Takes in that a worker has changed. O(classes with something waiting).
    pub(super) fn adjust(&mut self, fleet: &Fleet, at: usize, grown: bool) {
        for class in &self.active {
            self.all[*class].adjust(fleet, at, grown);
        }
    }

    /// Takes in that a worker's labels may have changed. O(classes).
    pub(super) fn relabel(&mut self, fleet: &Fleet, at: usize) {
        for (_, class) in self.all.iter_mut() {
            class.set_allowed(at, &fleet.workers[at]);
        }
    }

    /// Takes in the time. O(classes with something waiting).
    pub(super) fn set_now(&mut self, now: Mono, fleet: &Fleet) {
        self.now = now;
        for class in &self.active {
            self.all[*class].set_now(now, fleet);
        }
    }

    /// The time that was last taken in.
    pub(super) const fn now(&self) -> Mono {
        self.now
    }

    /// Forgets where anything would go: the order of workers has changed.
    pub(super) fn unsettle(&mut self) {
        for class in &self.active {
            self.all[*class].spot = Spot::Unknown;
        }
    }

    /// Takes in that a name has become a limit, or is one no longer. O(classes).
    pub(super) fn split(&mut self, limits: &Limits<LimitKey>) {
        for (_, class) in self.all.iter_mut() {
            class.split(limits);
        }
    }

    /// True if some class may find room on the shelf. O(classes).
    pub(super) fn any_hope(&self) -> bool {
        let mut active = self.active.iter();
        active.any(|class| self.all[*class].spot != Spot::Nowhere)
    }
}
