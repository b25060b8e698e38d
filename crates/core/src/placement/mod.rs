//! Placement: which waiting instance runs on which worker.
//!
//! ```text
//!   enqueue, withdraw ───────────────▶ ┌───────────┐
//!   set_offer, close, remove_worker ──▶│ Placement │──▶ next: instance, worker, class
//!   release, adopt ───────────────────▶│           │──▶ explain: the reason for the wait
//!   set_limit, set_estimate, avoid ───▶└───────────┘──▶ next_start: when time alone lets something start
//! ```
//!
//! **The calling contract.**
//! 1. After a start: [`Placement::set_limit`] for each limit, [`Placement::adopt`]
//!    for everything that may be running, also on workers that are not back yet,
//!    [`Placement::set_offer`] for each healthy worker, [`Placement::enqueue`] for
//!    what may start now. In any order, but before the first decision, or limits
//!    are overdrawn.
//! 2. After any change: [`Placement::next`] until it returns none. Each decision is
//!    final and counted at once.
//!    [`Placement::set_now`] before, if workers end by themselves or limits are rates; again at
//!    [`Placement::next_start`].
//! 3. [`Placement::release`] exactly when an attempt can no longer run: at its
//!    end, or when it is lost; not when its worker leaves. If the instance is to be
//!    tried again, [`Placement::enqueue`] once it may start, with its original
//!    sequence: it then comes before everything submitted later.
//!
//! **The order of service.** Priority, the highest first; then fair turns between
//! owners, by their weights (see `owners`); then the longest waiting, by sequence; then the shortest
//! history of run times, a task without one first; then the lowest id.
//! The order is one for all classes, since turns within each class alone would let
//! an owner with a million instances starve the other classes. The first entry that fits is placed. One that does not fit blocks no other;
//! reservations prevent starvation (see `reserve`).
//!
//! **Best fit.** The worker with the least left over, as `need` defines it; ties
//! by name. An instance that is tried again goes to another worker than the one that had it, if another
//! one fits now; it does not wait for one. An instance of several nodes takes workers of one group at the same time
//! (see `gang`), each with its whole request; of a limit it takes once.
//!
//! **Invariants.** No decision takes more than a worker has or a limit allows;
//! more may be in use only by adoption, or after a worker or a limit has shrunk,
//! and then no more of it is allocated. After `next` has returned none, no waiting
//! instance could be placed, except on reserved resources. Equal calls give equal
//! decisions.
//!
//! **Costs**, with n entries waiting, W workers, C classes that have something
//! waiting, L class queues (class, priority and owner) of those:
//!
//! | call | cost |
//! |---|---|
//! | `next`, nothing changed | O(1) |
//! | `next`, gangs wait | the same, and O(workers of groups) for each of their classes after a change |
//! | `next` | O(log n + log W + C), and one step for each class queue without room ahead of the one that is placed, at most L; where the best worker of a class was used up while others may be left, a search of O(W/64), at worst O(W) |
//! | `release` | O(log W + C) |
//! | `enqueue`, `withdraw` | O(log n) for each entry; O(W) for a new class with constraints |
//! | `set_offer`, `close`, `remove_worker` | O(W + C), and O(W log W) if it changes which worker is largest |
//! | `adopt` | O(log n + log W + C) |
//! | `set_limit` | O(1) for a new total; O(placed + W log W + C) for a new name |
//! | `set_now` | O(C) |
//! | `record_run_time` | O(1) |
//! | `set_estimate` | O(log n) for each class queue in which the task has something |
//! | `avoid` | O(log n), and a search for another worker when it is placed on the one to avoid |
//! | `explain` | O(W, entries of the same class queue that are ahead) |
//!
//! The C is a comparison of a few numbers: some nanoseconds for each class, so tens
//! of classes do not show, and ten thousand cost about two hundred microseconds a
//! decision. A waiting instance takes about 90 bytes; a range takes as much as one. A task with something waiting takes
//! about 300 more.
//!
//! | file | holds |
//! |---|---|
//! | `limits` | every bound, and what happens beyond it |
//! | `limiting` | cluster-wide limits and rates, and those of arrays |
//! | `need` | amounts, and the leftover |
//! | `class` | classes, and the best worker for each |
//! | `queue`, `owners`, `tasks` | waiting entries, and the order of service |
//! | `fleet`, `shelf` | workers, and the order of best fit |
//! | `decide`, `error` | one decision; errors |
//! | `ahead` | short instances that queue on a worker |
//! | `reserve` | reservations |
//! | `gang` | several workers at the same time |
//! | `explain` | the reason for which an instance waits |
//! | `inventory` | whether a definition fits any worker or fleet |
//! | `dry` | how many workers of a shape would help |
//!
//! Requests, constraints and offers are plain data in `baton_model::placement`.
//! Elsewhere: the reasons and their words (`wait`), health of workers (the protocol), when a retry may start (the caller),
//! leases and their records (the ledger).

mod ahead;
mod class;
mod decide;
mod dry;
mod error;
mod explain;
mod fleet;
mod gang;
mod inventory;
mod limiting;
pub mod limits;
mod need;
mod owners;
mod queue;
mod reserve;
mod shelf;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Capacity, Offer, ResourceRequest};
use baton_model::rate::Rate;
use baton_model::time::{Millis, Mono};

use crate::limits::{Limit, LimitKey, Limits};
use crate::wait::{ClassId, Exclusion};
use class::Classes;
use fleet::Fleet;
use gang::Place;
use limits::{ENTRIES_MAX, RANGE_LEN_MAX};
use need::Need;
use queue::{Entry, Queue};
use reserve::Reservation;

pub(crate) use dry::misfit_of;
pub use dry::{Backlog, JobShape, Vacancy};
pub use error::PlacementError;
pub use inventory::Inventory;
pub use need::Demand;
pub use reserve::ReservationView;
pub use tasks::TaskHistory;

/// For how long ahead the starts of a rate count as demand: about as long as a further worker takes to come.
const RATE_SPAN: Millis = Millis(60_000);

/// Instances that may start as soon as there is room.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The first of a range of ids with the same demand.
    pub first: InstanceId,
    /// Equal to `first` for a single instance.
    pub last: InstanceId,
    pub demand: Demand<'a>,
    pub owner: &'a str,
    /// Higher goes first.
    pub priority: i32,
    /// Their position in the order of submission; equal if they have waited equally long. A retry
    /// keeps the one it had.
    pub sequence: u64,
    /// Their task, if it may have a history.
    pub task: Option<TaskHistory<'a>>,
}

/// One instance goes to one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// It no longer waits.
    pub instance: InstanceId,
    pub worker: WorkerName,
    /// The other members, if it is a gang.
    pub others: Vec<WorkerName>,
    /// Its class, for [`Placement::record_run_time`].
    pub class: ClassId,
}

/// A limit on what is placed, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse<'a> {
    pub key: &'a LimitKey,
    pub limit: Limit,
    /// If it is a rate.
    pub rate: Option<Rate>,
    /// Of a rate that has no room for one more: when it has.
    pub next_at: Option<Mono>,
    /// Instances that wait and request it.
    pub waiting: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PlacedInstance {
    worker: usize,
    /// The other members of a gang.
    others: Vec<usize>,
    class: usize,
    /// It queues on its worker, and is not charged to it.
    ahead: bool,
}

/// Whether a worker takes new instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Availability {
    Open,
    /// It takes none, for this reason.
    Closed(Exclusion),
}

/// See the module for the calling contract.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    fleet: Fleet,
    classes: Classes,
    queue: Queue,
    limits: Limits<LimitKey>,
    reservations: Vec<Reservation>,
    placed: BTreeMap<InstanceId, PlacedInstance>,
    /// The worker that each of these was given back by or has failed on, until it is placed.
    avoided: BTreeMap<InstanceId, WorkerName>,
    /// Nothing has changed since `next` returned none.
    settled: bool,
    /// When a rate has room again for something that waits, if `next` has returned none.
    next_start: Option<Mono>,
    rounds: u64,
}

impl Placement {
    /// Adds instances that may start.
    ///
    /// # Errors
    /// [`PlacementError`] if one of them waits or is placed already, or beyond a limit.
    pub fn enqueue(&mut self, arrival: Arrival<'_>) -> Result<ClassId, PlacementError> {
        let Arrival { first, last, .. } = arrival;
        if first > last {
            return Err(PlacementError::Empty);
        }
        if last.0 - first.0 >= RANGE_LEN_MAX {
            return Err(PlacementError::TooLong);
        }
        let len = (last.0 - first.0) as u32 + 1;
        if let Some((end, entry)) = self.queue.overlap(first, last) {
            return Err(PlacementError::Waits(entry.first(end).max(first)));
        }
        if let Some((instance, _)) = self.placed.range(first..=last).next() {
            return Err(PlacementError::Placed(*instance));
        }
        if self.queue.len() >= ENTRIES_MAX {
            return Err(PlacementError::TooManyWaiting);
        }
        let need = Need::of(&arrival.demand);
        let class = self
            .classes
            .find_or_add(need, &self.fleet, &self.limits, false)
            .ok_or(PlacementError::TooManyClasses)?;
        let (class_queue, key) = self
            .queue
            .class_queue(class, arrival.priority, arrival.owner);
        let sequence = arrival.sequence;
        let task_queue = self.queue.task_queue(class_queue, arrival.task);
        self.queue.push(
            last,
            Entry {
                sequence,
                len,
                task_queue,
            },
        );
        self.classes.all[class].class_queues.insert(key);
        self.classes.add_waiting(class, u64::from(len));
        self.settled = false;
        Ok(ClassId(class))
    }

    /// The first in line of each owner, priority and class.
    pub fn heads(&self) -> impl Iterator<Item = InstanceId> + '_ {
        let queues = self.queue.class_queues.iter();
        queues.filter_map(|(at, _)| Some(self.queue.head(at)?.1))
    }

    /// The queues of each class, owner and priority: how many wait in it, and the first of them.
    pub fn queues(&self) -> impl Iterator<Item = (ClassId, u64, InstanceId)> + '_ {
        let queues = self.queue.class_queues.iter();
        queues.filter_map(|(at, it)| Some((ClassId(it.class), it.waiting, self.queue.head(at)?.1)))
    }

    /// The next decision about an instance prefers any other worker to this one.
    pub fn avoid(&mut self, instance: InstanceId, worker: &WorkerName) {
        self.avoided.insert(instance, worker.clone());
    }

    /// Removes the waiting instances of `first` to `last`, and returns their number.
    pub fn withdraw(&mut self, first: InstanceId, last: InstanceId) -> u64 {
        let ranges = self.withdraw_ranges(first, last).into_iter();
        ranges.map(|(from, to)| to.0 - from.0 + 1).sum()
    }

    /// The same, and returns them as ranges.
    pub fn withdraw_ranges(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Vec<(InstanceId, InstanceId)> {
        let mut ranges = Vec::new();
        let avoided = self.avoided.range(first..=last);
        for instance in avoided.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.avoided.remove(&instance);
        }
        while first <= last
            && let Some((end, entry)) = self.queue.overlap(first, last)
        {
            let (from, to) = (entry.first(end).max(first), end.min(last));
            let class_queue = self.queue.class_queue_of(&entry);
            let class = self.queue.class_queues[class_queue].class;
            self.queue.cut(end, from, to);
            self.leave_class_queue(class_queue, class, to.0 - from.0 + 1);
            ranges.push((from, to));
        }
        ranges
    }

    /// Sets the offer of a worker that has joined or changed.
    ///
    /// # Errors
    /// [`PlacementError::TooManyWorkers`].
    pub fn set_offer(&mut self, name: &WorkerName, offer: Offer) -> Result<(), PlacementError> {
        self.set_offer_until(name, offer, None)
    }

    /// The same, of a worker that ends by itself: nothing is placed on it that needs more time than
    /// it has left.
    ///
    /// # Errors
    /// [`PlacementError::TooManyWorkers`].
    pub fn set_offer_until(
        &mut self,
        name: &WorkerName,
        offer: Offer,
        ends_at: Option<Mono>,
    ) -> Result<(), PlacementError> {
        let at = self
            .fleet
            .find_or_add(name)
            .ok_or(PlacementError::TooManyWorkers)?;
        self.fleet.set_offer(at, offer, ends_at);
        self.classes.relabel(&self.fleet, at);
        self.promote(at);
        self.worker_changed(at);
        Ok(())
    }

    /// Takes in the time, which only grows: workers that end have less of it left.
    pub fn set_now(&mut self, now: Mono) {
        if now > self.classes.now() {
            self.classes.set_now(now, &self.fleet);
            self.limits.set_now(now);
            if self.next_start.is_some_and(|at| at <= now) {
                self.settled = false;
            }
            if !self.reservations.is_empty() {
                self.end_vain_reservations();
            }
        }
    }

    /// Places nothing more on a worker until its next offer; its instances stay.
    pub fn close(&mut self, name: &WorkerName, reason: Exclusion) {
        if let Some(at) = self.fleet.find(name) {
            let worker = &mut self.fleet.workers[at];
            worker.closed = Some(reason);
            if std::mem::replace(&mut worker.open, false) {
                self.worker_changed(at);
            }
        }
    }

    /// Removes a worker. Its instances count against the limits until they are
    /// released.
    pub fn remove_worker(&mut self, name: &WorkerName) {
        if let Some(at) = self.fleet.find(name) {
            self.fleet.clear_offer(at);
            self.worker_changed(at);
            self.fleet.forget_if_gone(at);
        }
    }

    /// Releases an instance whose attempt can no longer run; false if it was not placed there.
    pub fn release(&mut self, worker: &WorkerName, instance: InstanceId) -> bool {
        let at = self.fleet.find(worker);
        let placed = self.placed.get(&instance);
        if placed.is_none_or(|placed| at != Some(placed.worker)) {
            return false;
        }
        let Some(placed) = self.placed.remove(&instance) else {
            return false;
        };
        let mut place = Place::from(placed.worker);
        place.others = placed.others;
        if placed.ahead {
            self.fleet.remove_ahead(placed.worker, instance);
        } else {
            let class = &self.classes.all[placed.class];
            for at in place.workers() {
                self.fleet
                    .discharge(at, instance, placed.class, &class.need);
            }
            self.limits.discharge(&class.limited);
        }
        self.classes.remove_placed(placed.class);
        for at in place.workers() {
            self.fleet.workers[at].stalled = placed.ahead;
            // Also if it was ahead: the next in line may have room.
            self.promote(at);
            self.refresh(at);
            self.fleet.forget_if_gone(at);
        }
        true
    }

    /// Accounts for an instance that may be running there already, whether there is room or
    /// not. If it waits, it is removed from the queue.
    ///
    /// # Errors
    /// [`PlacementError::Placed`] if it is known to be somewhere else, or
    /// [`PlacementError::TooManyWorkers`].
    pub fn adopt<'a>(
        &mut self,
        worker: &WorkerName,
        instance: InstanceId,
        demand: impl Into<Demand<'a>>,
    ) -> Result<(), PlacementError> {
        self.adopt_gang(worker, &[], instance, demand)
    }

    /// The same, of an instance that may also take these other workers.
    ///
    /// # Errors
    /// As [`Self::adopt`].
    pub fn adopt_gang<'a>(
        &mut self,
        worker: &WorkerName,
        others: &[&WorkerName],
        instance: InstanceId,
        demand: impl Into<Demand<'a>>,
    ) -> Result<(), PlacementError> {
        if let Some(placed) = self.placed.get(&instance) {
            if self.fleet.workers[placed.worker].name == *worker {
                return Ok(());
            }
            return Err(PlacementError::Placed(instance));
        }
        let mut find = |worker: &WorkerName| {
            let at = self.fleet.find_or_add(worker);
            at.ok_or(PlacementError::TooManyWorkers)
        };
        let mut place = Place::from(find(worker)?);
        for other in others {
            place.others.push(find(other)?);
        }
        self.withdraw(instance, instance);
        let need = Need::of(&demand.into());
        let class = self
            .classes
            .find_or_add(need, &self.fleet, &self.limits, true)
            .ok_or(PlacementError::TooManyClasses)?;
        self.charge(instance, class, &place, Limits::inherit);
        place.workers().for_each(|at| self.refresh(at));
        Ok(())
    }

    /// True if an instance is placed, and not ahead.
    #[must_use]
    pub fn is_charged(&self, instance: InstanceId) -> bool {
        self.placed.get(&instance).is_some_and(|it| !it.ahead)
    }

    /// What is placed on a worker, in sum; none if the worker is unknown.
    #[must_use]
    pub fn used(&self, worker: &WorkerName) -> Option<Capacity> {
        let at = self.fleet.find(worker)?;
        Some(self.fleet.workers[at].used())
    }

    /// The class of a request, if an instance of it waits or runs, or did recently.
    #[must_use]
    pub fn class(&self, request: &ResourceRequest) -> Option<ClassId> {
        self.classes.find(&Need::of(&request.into())).map(ClassId)
    }

    /// The number of waiting instances of a class.
    #[must_use]
    pub fn waiting_in(&self, class: ClassId) -> u64 {
        self.classes
            .all
            .get(class.0)
            .map_or(0, |class| class.waiting)
    }

    /// The reservations, the oldest first.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> {
        self.reservations.iter().map(|reservation| ReservationView {
            class: ClassId(reservation.class),
            workers: reservation
                .workers
                .iter()
                .map(|at| self.fleet.workers[*at].name.clone())
                .collect(),
            limit: reservation.limit.clone(),
        })
    }

    fn charge(
        &mut self,
        instance: InstanceId,
        class: usize,
        place: &Place,
        count: fn(&mut Limits<LimitKey>, &[(LimitKey, u64)]),
    ) {
        let needed = &self.classes.all[class];
        for at in place.workers() {
            self.fleet.charge(at, instance, class, &needed.need);
        }
        count(&mut self.limits, &needed.limited);
        self.placed.insert(
            instance,
            PlacedInstance {
                worker: place.worker,
                others: place.others.clone(),
                class,
                ahead: false,
            },
        );
        self.classes.add_placed(class);
    }

    /// Accounts for `count` instances that have left a class queue.
    fn leave_class_queue(&mut self, class_queue: usize, class: usize, count: u64) {
        if let Some(key) = self.queue.close_if_empty(class_queue) {
            self.classes.all[class].class_queues.remove(&key);
        }
        self.classes.remove_waiting(class, count);
        if self.classes.all[class].waiting == 0 {
            self.end_reservation(class);
        }
        self.settled = false;
    }

    /// Updates derived state after a placement on a worker or a release.
    fn refresh(&mut self, at: usize) {
        let grown = self.fleet.reshelve(at);
        self.classes.adjust(&self.fleet, at, grown);
        self.settled = false;
    }

    /// Updates derived state after a change of a worker.
    fn worker_changed(&mut self, at: usize) {
        // The units first: what follows measures the worker by them.
        if self.fleet.reweigh(&self.limits) {
            self.classes.unsettle();
        }
        self.end_vain_reservations();
        self.refresh(at);
    }
}
