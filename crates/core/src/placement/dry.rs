//! Dry placement: how many workers of a given shape would help with what waits.
//!
//! It works on a copy of the counts of one moment, so nothing is counted twice: first the workers that were requested
//! and are not here yet are filled ([`Vacancy::fill`]), and only what is left asks for more. A class that the shape can
//! never run fills nothing, however many are requested. Instances that are held back by a limit of the cluster only are
//! not among those that wait: no worker helps them.
//!
//! The cost is O(classes × workers of the fleets): a comparison of a few numbers each.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::cpu::CORE;
use baton_model::device::WHOLE;
use baton_model::fleet::Shape;
use baton_model::ids::InstanceId;
use baton_model::placement::Capacity;
use baton_model::time::Millis;

use super::need::{Demand, KINDS, Need, Room, holds};
use super::{Placement, RATE_SPAN};
use crate::limits::LimitKey;
use crate::wait::{ClassId, Exclusion, KIND_NAMES, TIME_NAME};

/// Attempts that one worker takes at most: the default of `baton worker --slots`.
const SLOTS: u64 = 4_096;

/// The waiting instances of one class that a further worker might run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    pub class: ClassId,
    need: Arc<Need>,
    /// The part of the named resources that workers have.
    local: Vec<(String, u64)>,
    /// How many wait and may start, as far as limits allow.
    pub count: u64,
    /// How many of it run or are assigned.
    pub placed: u64,
    /// The mean run time, if it is known.
    pub estimate: Option<Millis>,
}

impl Backlog {
    /// Leaves out what the workers that run this class will have started within `span`.
    pub fn leave_to_workers(&mut self, span: Millis) {
        let Some(estimate) = self.estimate else {
            return;
        };
        let turns = u128::from(self.placed) * u128::from(span.0) / u128::from(estimate.0.max(1));
        self.count = self
            .count
            .saturating_sub(u64::try_from(turns).unwrap_or(u64::MAX));
    }

    /// The reason for which no worker of such a job can ever run it, if there is one.
    #[must_use]
    pub fn misfit(&self, job: JobShape<'_>) -> Option<Exclusion> {
        misfit(&self.need, &self.local, job)
    }

    /// True if it takes several workers of one job at the same time.
    #[must_use]
    pub fn is_gang(&self) -> bool {
        self.need.is_gang()
    }
}

/// The jobs of a fleet, as far as it matters what they can run.
#[derive(Clone, Copy, Debug)]
pub struct JobShape<'a> {
    /// One of its workers.
    pub worker: &'a Shape,
    /// Workers that one job starts.
    pub workers: u32,
    pub time_limit: Option<Millis>,
}

/// The free part of a worker that is not here yet.
#[derive(Clone, Debug)]
pub struct Vacancy {
    room: Room,
    named: BTreeMap<String, u64>,
    slots: u64,
}

impl Vacancy {
    /// An empty worker of this shape.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        Self {
            room: Room::of(&shape.capacity),
            named: named_of(&shape.capacity),
            slots: SLOTS,
        }
    }

    /// Takes as many of a class as have room; true if it takes one.
    pub fn fill(&mut self, backlog: &mut Backlog) -> bool {
        let taken = self.room_for(backlog).min(backlog.count);
        self.take(backlog, taken);
        backlog.count -= taken;
        taken > 0
    }

    /// Takes as many gangs of a class as have room on the workers of one job, each on as many of them as it needs.
    pub fn fill_gangs(workers: &mut [Self], backlog: &mut Backlog) {
        let nodes = backlog.need.nodes as usize;
        while backlog.count > 0 {
            let free = workers.iter_mut().filter(|it| it.room_for(backlog) > 0);
            let members: Vec<&mut Self> = free.take(nodes).collect();
            if members.len() < nodes {
                return;
            }
            members.into_iter().for_each(|it| it.take(backlog, 1));
            backlog.count -= 1;
        }
    }

    /// True if it has taken something.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.slots < SLOTS
    }

    /// How many of a class have room.
    fn room_for(&self, backlog: &Backlog) -> u64 {
        let share = |has: u64, asked: u64| has.checked_div(asked).unwrap_or(u64::MAX);
        let need = &backlog.need.room;
        let kinds = (0..KINDS).map(|kind| share(self.room.0[kind], need.0[kind]));
        let named = backlog.local.iter().map(|(name, amount)| {
            let has = self.named.get(name).copied().unwrap_or(0);
            share(has, *amount)
        });
        let most = kinds.chain(named).min().unwrap_or(u64::MAX);
        most.min(self.slots)
    }

    fn take(&mut self, backlog: &Backlog, count: u64) {
        for kind in 0..KINDS {
            self.room.0[kind] -= backlog.need.room.0[kind] * count;
        }
        for (name, amount) in &backlog.local {
            if let Some(has) = self.named.get_mut(name) {
                *has -= amount * count;
            }
        }
        self.slots -= count;
    }
}

impl Placement {
    /// What waits and might be run by a further worker, by priority and class.
    #[must_use]
    pub fn backlog(&self) -> Vec<Backlog> {
        let mut active: Vec<usize> = self.classes.active.clone();
        active.sort_by_key(|at| (std::cmp::Reverse(self.classes.all[*at].priority()), *at));
        // What is left of each limit after those before.
        let mut left: BTreeMap<&LimitKey, u64> = BTreeMap::new();
        let mut backlog = Vec::new();
        for at in active {
            let class = &self.classes.all[at];
            let mut count = class.waiting;
            for (key, amount) in &class.limited {
                let free = left
                    .entry(key)
                    .or_insert_with(|| self.limits.prospect(key, RATE_SPAN).unwrap_or(u64::MAX));
                count = count.min(free.checked_div(*amount).unwrap_or(u64::MAX));
            }
            for (key, amount) in &class.limited {
                if let Some(free) = left.get_mut(key) {
                    *free = free.saturating_sub(amount.saturating_mul(count));
                }
            }
            if count > 0 {
                backlog.push(Backlog {
                    class: ClassId(at),
                    need: Arc::clone(&class.need),
                    local: class.local.clone(),
                    count,
                    placed: class.placed(),
                    estimate: class.estimate,
                });
            }
        }
        backlog
    }

    /// True if something waits.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.classes.active.is_empty()
    }

    /// The reason for which no worker of such a job can ever run a waiting instance; none if one can, or if the
    /// instance does not wait.
    #[must_use]
    pub fn misfit(&self, instance: InstanceId, job: JobShape<'_>) -> Option<Exclusion> {
        let (_, entry) = self.queue.overlap(instance, instance)?;
        let class =
            &self.classes.all[self.queue.class_queues[self.queue.class_queue_of(&entry)].class];
        misfit(&class.need, &class.local, job)
    }
}

/// The named resources of a worker of this capacity. Its cores are known only once it is here: it is taken
/// to have as many as CPUs, on one node.
fn named_of(capacity: &Capacity) -> BTreeMap<String, u64> {
    let mut named = capacity.named.clone();
    named.insert(CORE.to_owned(), capacity.cpu_milli / WHOLE);
    named
}

/// The reason for which no worker of this shape can run what demands this; its countable resources are left out,
/// since they may be limits of the cluster.
pub(crate) fn misfit_of(demand: &Demand<'_>, job: JobShape<'_>) -> Option<Exclusion> {
    let need = Need::of(demand);
    let cores = need.named.iter().filter(|(name, _)| name == CORE);
    misfit(&need, &cores.cloned().collect::<Vec<_>>(), job)
}

fn misfit(need: &Need, local: &[(String, u64)], job: JobShape<'_>) -> Option<Exclusion> {
    let shape = job.worker;
    let unmet = need.constraints.iter().find(|it| !holds(it, &shape.labels));
    if let Some(constraint) = unmet {
        return Some(Exclusion::Constraint(constraint.clone()));
    }
    let room = Room::of(&shape.capacity);
    let kinds = (0..KINDS).map(|kind| (KIND_NAMES[kind], need.room.0[kind], room.0[kind]));
    let has_named = named_of(&shape.capacity);
    let named = local.iter().map(|(name, asked)| {
        let has = has_named.get(name).copied().unwrap_or(0);
        (name.as_str(), *asked, has)
    });
    let time = job.time_limit.zip(need.time);
    let time = time.map(|(has, asked)| (TIME_NAME, asked.0, has.0));
    let mut all = kinds.chain(named).chain(time);
    if let Some((resource, asked, has)) = all.find(|(_, asked, has)| asked > has) {
        return Some(Exclusion::TooSmall {
            resource: resource.to_owned(),
            asked,
            has,
        });
    }
    (need.nodes > job.workers).then_some(Exclusion::GroupTooSmall {
        asked: need.nodes,
        has: job.workers,
    })
}
