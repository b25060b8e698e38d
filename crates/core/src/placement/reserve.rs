//! Reservations: how a large request gets its turn among small ones.
//!
//! A class that finds no room does not hold up those behind it. But each time one
//! of them takes what it waits for, it is *passed over*: an instance behind it in the
//! order of service was placed on a worker that could hold it, and took of what is
//! short there; or took of a limit that it is short of. After
//! [`PASSED_OVER_MAX`](super::limits::PASSED_OVER_MAX) times it reserves:
//! - the worker where the fewest instances have to end before it fits, counted
//!   with the largest ending first; a gang all its members; or
//! - the cluster-wide limit that it is short of.
//!
//! A reserved resource goes to no other class, with two exceptions: to those of a higher
//! priority, since a reservation is a position in the order and no way around it; and
//! to classes with an *older* reservation, so that two of them can never wait for
//! each other. The oldest is thus held up by no other, and each ends by being
//! served, so no class starves except behind a higher priority.
//!
//! A class has one reservation at a time, and a worker is reserved once, except for gangs, which may come
//! after others. It ends
//! when one of the class is placed, anywhere; when nothing of the class waits any
//! more; and when one of the workers or the limit can no longer hold it at all.

use super::Placement;
use super::class::Class;
use super::fleet::Worker;
use super::gang::Place;
use super::limits::{PASSED_OVER_MAX, RESERVATIONS_MAX};
use super::need::{KINDS, Need, Room};
use crate::limits::LimitKey;
use crate::wait::ClassId;

/// One reservation. They are kept in their order of age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reservation {
    pub(super) class: usize,
    /// One, or all members of a gang.
    pub(super) workers: Vec<usize>,
    pub(super) limit: Option<LimitKey>,
}

/// True if reservation `at` keeps `class` at `priority` from what it covers.
pub(super) fn binds(this: &Placement, at: usize, class: usize, priority: i32) -> bool {
    let mut older = this.reservations[..=at].iter();
    let theirs = this.classes.all[this.reservations[at].class].priority();
    older.all(|other| other.class != class) && theirs.is_none_or(|theirs| priority <= theirs)
}

impl Placement {
    /// The first limit of `class` that another class has reserved.
    pub(super) fn limit_reserved(&self, class: usize, priority: i32) -> Option<(usize, &LimitKey)> {
        let limited = &self.classes.all[class].limited;
        let mut held = self.reservations.iter().enumerate();
        held.find_map(|(at, reservation)| {
            let limit = reservation.limit.as_ref()?;
            let asked = limited.iter().any(|(key, _)| key == limit);
            (asked && binds(self, at, class, priority)).then_some((at, limit))
        })
    }

    /// The first reservation that keeps `class` from worker `at`.
    pub(super) fn kept_from(&self, at: usize, class: usize, priority: i32) -> Option<usize> {
        if !self.fleet.workers[at].is_reserved() {
            return None;
        }
        let mut held = self.reservations.iter().enumerate();
        held.find_map(|(by, reservation)| {
            let is_held = reservation.workers.contains(&at);
            (is_held && binds(self, by, class, priority)).then_some(by)
        })
    }

    /// The reserved worker with the least left over on which `class` may go.
    pub(super) fn reserved_spot(&self, class: usize, priority: i32) -> Option<usize> {
        let kind = &self.classes.all[class];
        let workers = &self.fleet.workers;
        let mut best: Option<usize> = None;
        let reserved = self.reservations.iter().flat_map(|it| &it.workers);
        for worker in reserved.copied() {
            let better = best.is_none_or(|best| workers[worker].before(&workers[best]));
            if better
                && kind.fits(&workers[worker], worker)
                && self.kept_from(worker, class, priority).is_none()
            {
                best = Some(worker);
            }
        }
        best
    }

    /// Counts that `passed` were found without room before one of `winner` was
    /// placed here.
    pub(super) fn pass_over(&mut self, passed: &[usize], winner: usize, place: &Place) {
        for class in passed {
            let mut workers = place.workers();
            if !workers.any(|at| self.competes(*class, winner, at)) {
                continue;
            }
            let class_passed = &mut self.classes.all[*class].passed;
            *class_passed = class_passed.saturating_add(1);
            if *class_passed >= PASSED_OVER_MAX {
                self.reserve(*class);
            }
        }
    }

    /// True if one of `winner`, just placed on worker `at`, has taken what `class`
    /// waits for.
    fn competes(&self, class: usize, winner: usize, at: usize) -> bool {
        let class = &self.classes.all[class];
        let winner = &self.classes.all[winner];
        if !self.limits.could_hold(&class.limited) {
            return false;
        }
        if let Some(limit) = self.limits.short_of(&class.limited) {
            return winner.limited.iter().any(|(key, _)| key == limit);
        }
        let worker = &self.fleet.workers[at];
        if !class.could_fit(worker, at) {
            return false;
        }
        if class.need.is_gang() {
            // Also a place, of which placement does not know: its members must be free at the same time.
            return self.fleet.group_len(at) >= class.nodes();
        }
        took_what_is_short(class, &winner.need, worker)
    }

    fn reserve(&mut self, class: usize) {
        let known = self.reservations.iter().position(|r| r.class == class);
        if known.is_none() && self.reservations.len() >= RESERVATIONS_MAX {
            return;
        }
        let held = known.map(|at| self.reservations[at].clone());
        let mut reservation = held.unwrap_or_default();
        reservation.class = class;
        let kind = &self.classes.all[class];
        if let Some(limit) = self.limits.short_of(&kind.limited) {
            reservation.limit = Some(limit.clone());
        } else if !reservation.workers.is_empty() {
            return;
        } else if kind.need.is_gang() {
            reservation.workers = self.soonest_members(kind).unwrap_or_default();
        } else {
            reservation.workers.extend(self.soonest(kind));
        }
        if reservation.workers.is_empty() && reservation.limit.is_none() {
            return;
        }
        let held_before = known.map_or(0, |at| self.reservations[at].workers.len());
        let workers = reservation.workers.clone();
        match known {
            Some(at) => self.reservations[at] = reservation,
            None => self.reservations.push(reservation),
        }
        for worker in workers.into_iter().skip(held_before) {
            self.fleet.workers[worker].reservations += 1;
            self.refresh(worker);
        }
    }

    /// The worker where the fewest have to end before `class` fits; of these the
    /// first by name. O(workers, and what is placed on them).
    fn soonest(&self, class: &Class) -> Option<usize> {
        let mut best: Option<(usize, &Worker, usize)> = None;
        for (at, worker) in self.fleet.workers.iter() {
            if worker.is_reserved() || !class.could_fit(worker, at) {
                continue;
            }
            let most = best.map_or(usize::MAX, |(count, _, _)| count);
            let Some(count) = self.ends_before_fit(class, worker, most) else {
                continue;
            };
            if best.is_none_or(|(least, other, _)| (count, &worker.name) < (least, &other.name)) {
                best = Some((count, worker, at));
            }
        }
        best.map(|(_, _, at)| at)
    }

    /// How many of those on `worker` have to end before `class` fits, if the one
    /// that helps most ends first; none if it is more than `most`.
    pub(super) fn ends_before_fit(
        &self,
        class: &Class,
        worker: &Worker,
        most: usize,
    ) -> Option<usize> {
        let mut missing = Missing::of(class, worker);
        let needs = worker.placed.iter().filter_map(|instance| {
            let placed = self.placed.get(instance)?;
            Some(&*self.classes.all[placed.class].need)
        });
        let mut left: Vec<&Need> = needs.collect();
        let mut count = 0;
        while !missing.is_nothing() {
            let helps = |need: &Need| missing.help(need, &self.fleet.units);
            let (at, _) = left
                .iter()
                .enumerate()
                .max_by_key(|(at, need)| (helps(need), std::cmp::Reverse(*at)))?;
            missing.give(left.swap_remove(at));
            count += 1;
            if count > most {
                return None;
            }
        }
        Some(count)
    }

    /// Ends the reservation of `class`, if it has one.
    pub(super) fn end_reservation(&mut self, class: usize) {
        if let Some(at) = self.reservations.iter().position(|r| r.class == class) {
            let ended = self.reservations.remove(at);
            for worker in ended.workers {
                self.fleet.workers[worker].reservations -= 1;
                self.refresh(worker);
            }
        }
    }

    /// Ends the reservations that can no longer lead to anything.
    pub(super) fn end_vain_reservations(&mut self) {
        let vain = |reservation: &&Reservation| {
            let class = &self.classes.all[reservation.class];
            let lost = |at: &usize| !class.could_fit(&self.fleet.workers[*at], *at);
            reservation.workers.iter().any(lost) || !self.limits.could_hold(&class.limited)
        };
        let ended: Vec<usize> = self
            .reservations
            .iter()
            .filter(vain)
            .map(|r| r.class)
            .collect();
        for class in ended {
            self.end_reservation(class);
        }
    }
}

/// True if `took` is part of why `class` does not fit on `worker`.
fn took_what_is_short(class: &Class, took: &Need, worker: &Worker) -> bool {
    let need = &class.need.room;
    let mut kinds = 0..KINDS;
    let took_named = |name: &String| took.named.iter().any(|(taken, _)| taken == name);
    kinds.any(|kind| took.room.0[kind] > 0 && worker.free.0[kind] < need.0[kind])
        || class
            .local
            .iter()
            .any(|(name, amount)| took_named(name) && worker.free_named(name) < *amount)
}

/// What a worker is short of for a class.
struct Missing {
    room: Room,
    named: Vec<(String, u64)>,
}

impl Missing {
    fn of(class: &Class, worker: &Worker) -> Self {
        let short = |kind: usize| class.need.room.0[kind].saturating_sub(worker.free.0[kind]);
        let named = class
            .local
            .iter()
            .map(|(name, amount)| (name.clone(), amount.saturating_sub(worker.free_named(name))));
        Self {
            room: Room(std::array::from_fn(short)),
            named: named.filter(|(_, amount)| *amount > 0).collect(),
        }
    }

    fn is_nothing(&self) -> bool {
        self.room == Room::default() && self.named.is_empty()
    }

    /// How much of it the end of one with this need would give, in shares.
    fn help(&self, need: &Need, units: &super::need::Units) -> u64 {
        let plain = (0..KINDS).map(|kind| {
            let given = need.room.0[kind].min(self.room.0[kind]);
            units.share(kind, given)
        });
        let named = self.named.iter().map(|(name, amount)| {
            let mut given = need.named.iter().filter(|(given, _)| given == name);
            let given = given.next().map_or(0, |(_, given)| *given);
            units.share_named(name, given.min(*amount))
        });
        plain.chain(named).fold(0, u64::saturating_add)
    }

    fn give(&mut self, need: &Need) {
        for kind in 0..KINDS {
            self.room.0[kind] = self.room.0[kind].saturating_sub(need.room.0[kind]);
        }
        for (name, amount) in &mut self.named {
            let given = need.named.iter().find(|(given, _)| given == name);
            *amount = amount.saturating_sub(given.map_or(0, |(_, given)| *given));
        }
        self.named.retain(|(_, amount)| *amount > 0);
    }
}

/// A reservation, for a person to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationView {
    pub class: ClassId,
    /// One, or all members of a gang.
    pub workers: Vec<baton_model::ids::WorkerName>,
    pub limit: Option<LimitKey>,
}
