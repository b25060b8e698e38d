//! The reason for which an instance waits.

use std::cmp::Reverse;

use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::Constraint;

use super::class::{Class, ClassId};
use super::fleet::Worker;
use super::need::{KIND_NAMES, KINDS, holds};
use super::queue::{ClassQueue, Entry};
use super::reserve::binds;
use super::{PlacedInstance, Placement};

/// The reason for which an instance, or the first of a class, waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// No worker takes anything.
    NoWorker {
        /// How many there are that are drained or unhealthy.
        closed: usize,
        /// How many of them are drained. Placement does not know: the scheduler adds it.
        drained: usize,
    },
    /// No worker meets the constraints.
    NoMatch {
        /// The one that rules out most.
        constraint: Constraint,
        /// How many workers it rules out.
        excludes: usize,
        /// Of how many.
        workers: usize,
    },
    /// No worker is large enough, even when empty.
    NeverFits {
        /// Of which resource there is too little.
        resource: String,
        /// How much is asked for.
        asked: u64,
        /// The worker that comes nearest.
        worker: WorkerName,
        /// How much that has in all.
        has: u64,
    },
    /// Too little is free.
    Room {
        resource: String,
        /// The worker that comes nearest, or is reserved.
        worker: WorkerName,
        /// How much is missing there.
        short: u64,
        /// True if the class has reserved that worker.
        reserved: bool,
    },
    /// A worker would have room, and has no free place at this moment.
    Busy { worker: WorkerName },
    /// A cluster-wide limit is used up.
    Limit {
        name: String,
        /// How much of it is in use.
        used: u128,
        total: u64,
        /// How much is asked for.
        asked: u64,
    },
    /// The only worker with room, or a limit, is reserved for a class that has
    /// waited longer.
    Reserved {
        /// The worker, or the limit.
        what: String,
        class: ClassId,
    },
    /// Others of the same class come first.
    Behind { before: u64 },
    /// For nothing: the next decisions will place it.
    Nothing,
}

impl Placement {
    /// The reason for which `instance` waits; none if it does not wait.
    #[must_use]
    pub fn explain(&self, instance: InstanceId) -> Option<WaitReason> {
        let (end, entry) = self.queue.find(instance)?;
        let class_queue = &self.queue.class_queues[entry.class_queue];
        let class = &self.classes.all[class_queue.class];
        if let Some(hopeless) = self.hopeless(class) {
            return Some(hopeless);
        }
        let before = self.before(instance, end, entry);
        if before > 0 {
            return Some(WaitReason::Behind { before });
        }
        Some(self.head(class_queue.class, class, class_queue.priority))
    }

    /// The reason for which the first of a class waits; none if none of it waits.
    #[must_use]
    pub fn explain_class(&self, class: ClassId) -> Option<WaitReason> {
        let kind = self.classes.all.get(class.0)?;
        let priority = kind.priority()?;
        let hopeless = self.hopeless(kind);
        Some(hopeless.unwrap_or_else(|| self.head(class.0, kind, priority)))
    }

    /// A reason that waiting does not end.
    fn hopeless(&self, class: &Class) -> Option<WaitReason> {
        let workers = || self.fleet.workers.iter();
        let open = workers()
            .filter(|(_, worker)| worker.is_in_service())
            .count();
        if open == 0 {
            let closed = workers().filter(|(_, worker)| worker.present).count();
            let drained = 0;
            return Some(WaitReason::NoWorker { closed, drained });
        }
        let in_service = || workers().filter(|(_, worker)| worker.is_in_service());
        if !in_service().any(|(at, _)| class.allows(at)) {
            return self.no_match(class, open);
        }
        if !in_service().any(|(at, worker)| class.is_within(worker, at)) {
            let (worker, lack) = self.nearest(class, Worker::has, |_, _| true)?;
            return Some(WaitReason::NeverFits {
                asked: lack.asked,
                has: lack.asked - lack.short,
                resource: lack.resource,
                worker: worker.name.clone(),
            });
        }
        None
    }

    fn no_match(&self, class: &Class, workers: usize) -> Option<WaitReason> {
        let excluded = |constraint: &Constraint| {
            let workers = self.fleet.workers.iter();
            let in_service = workers.filter(|(_, worker)| worker.is_in_service());
            in_service
                .filter(|(_, worker)| !holds(constraint, &worker.labels))
                .count()
        };
        let constraints = class.need.constraints.iter();
        let (excludes, Reverse(_), constraint) = constraints
            .enumerate()
            .map(|(at, constraint)| (excluded(constraint), Reverse(at), constraint))
            .max()?;
        Some(WaitReason::NoMatch {
            constraint: constraint.clone(),
            excludes,
            workers,
        })
    }

    /// What the first of a class waits for, which could be placed.
    fn head(&self, id: usize, class: &Class, priority: i32) -> WaitReason {
        if let Some(name) = self.pools.short_of(&class.limited) {
            let pool = self.pools.0.get(name).copied().unwrap_or_default();
            let asked = class.limited.iter().find(|(limit, _)| limit == name);
            return WaitReason::Limit {
                name: name.to_owned(),
                used: pool.used,
                total: pool.total,
                asked: asked.map_or(0, |(_, amount)| *amount),
            };
        }
        if let Some((at, limit)) = self.limit_reserved(id, priority) {
            return WaitReason::Reserved {
                what: limit.to_owned(),
                class: ClassId(self.reservations[at].class),
            };
        }
        self.room(id, class, priority)
    }

    /// What the first of a class waits for, on a worker.
    fn room(&self, id: usize, class: &Class, priority: i32) -> WaitReason {
        let open = |at: usize| {
            let by = self.reservations.iter().position(|r| r.worker == Some(at));
            by.is_none_or(|by| !binds(self, by, id, priority))
        };
        let fitting = || {
            let workers = self.fleet.workers.iter();
            workers.filter(|(at, worker)| class.fits(worker, *at))
        };
        if fitting().any(|(at, _)| open(at)) {
            return WaitReason::Nothing;
        }
        if let Some((at, worker)) = fitting().min_by_key(|(_, worker)| &worker.name)
            && let Some(by) = self.reservations.iter().find(|r| r.worker == Some(at))
        {
            return WaitReason::Reserved {
                what: worker.name.to_string(),
                class: ClassId(by.class),
            };
        }
        let mut workers = self.fleet.workers.iter();
        let busy = |(at, worker): &(usize, &Worker)| worker.busy && class.has_room(worker, *at);
        if let Some((_, worker)) = workers.find(busy) {
            return WaitReason::Busy {
                worker: worker.name.clone(),
            };
        }
        let own = self.reservations.iter().find(|r| r.class == id);
        let own = own.and_then(|reservation| reservation.worker);
        let wanted = |at: usize, worker: &Worker| match own {
            Some(own) => at == own,
            None => class.is_within(worker, at),
        };
        match self.nearest(class, Worker::spare, wanted) {
            Some((worker, lack)) => WaitReason::Room {
                resource: lack.resource,
                worker: worker.name.clone(),
                short: lack.short,
                reserved: own.is_some(),
            },
            None => WaitReason::Nothing,
        }
    }

    /// Of the workers that meet the constraints, the one that is short of the
    /// least, by its largest shortage in shares; then by name.
    fn nearest(
        &self,
        class: &Class,
        amount: impl Fn(&Worker, Resource<'_>) -> u64,
        wanted: impl Fn(usize, &Worker) -> bool,
    ) -> Option<(&Worker, Lack)> {
        let workers = self.fleet.workers.iter();
        let candidates = workers
            .filter(|(at, worker)| worker.is_in_service() && class.allows(*at))
            .filter(|(at, worker)| wanted(*at, worker))
            .filter_map(|(_, worker)| Some((worker, self.lack(class, worker, &amount)?)));
        candidates.min_by(|(a, x), (b, y)| (x.share, &a.name).cmp(&(y.share, &b.name)))
    }

    /// The largest shortage of one worker.
    fn lack(
        &self,
        class: &Class,
        worker: &Worker,
        amount: &impl Fn(&Worker, Resource<'_>) -> u64,
    ) -> Option<Lack> {
        let units = &self.fleet.units;
        let plain = (0..KINDS).map(|kind| {
            let asked = class.need.room.0[kind];
            let short = asked.saturating_sub(amount(worker, Resource::Kind(kind)));
            (KIND_NAMES[kind], asked, short, units.share(kind, short))
        });
        let named = class.local.iter().map(|(name, asked)| {
            let short = asked.saturating_sub(amount(worker, Resource::Named(name)));
            // A resource that no worker has is short in any amount.
            let share = units.share_named(name, short).max(u64::from(short > 0));
            (name.as_str(), *asked, short, share)
        });
        let lacks = plain.chain(named).filter(|(_, _, short, _)| *short > 0);
        let (resource, asked, short, share) = lacks
            .enumerate()
            .max_by_key(|(at, (_, _, _, share))| (*share, Reverse(*at)))?
            .1;
        Some(Lack {
            resource: resource.to_owned(),
            asked,
            short,
            share,
        })
    }

    /// How many of the same class are served before `instance`, if nothing else
    /// comes: those of a higher priority, those ahead of it in its own class queue, and of
    /// each other owner as many as it has turns until then.
    fn before(&self, instance: InstanceId, end: InstanceId, entry: Entry) -> u64 {
        let own = &self.queue.class_queues[entry.class_queue];
        let ahead = own.order.range(..(entry.sequence, end));
        let ahead = ahead.filter_map(|(_, last)| self.queue.find(*last));
        let ahead: u64 = ahead.map(|(_, entry)| u64::from(entry.len)).sum();
        let ahead = ahead + (instance.0 - entry.first(end).0);
        let turn = |class_queue: &ClassQueue| {
            (
                self.queue.owners.stamp(class_queue.owner),
                class_queue.owner,
            )
        };
        let class_queues = self.classes.all[own.class].class_queues.iter();
        let others = class_queues
            .map(|(_, _, at)| &self.queue.class_queues[*at])
            .filter(|class_queue| {
                class_queue.owner != own.owner || class_queue.priority != own.priority
            });
        let before = others.map(
            |class_queue| match class_queue.priority.cmp(&own.priority) {
                std::cmp::Ordering::Greater => class_queue.waiting,
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => {
                    let turns = ahead + u64::from(turn(class_queue) < turn(own));
                    class_queue.waiting.min(turns)
                }
            },
        );
        ahead + before.sum::<u64>()
    }

    /// The worker on which an instance is placed.
    #[must_use]
    pub fn worker_of(&self, instance: InstanceId) -> Option<&WorkerName> {
        let PlacedInstance { worker, .. } = self.placed.get(&instance)?;
        Some(&self.fleet.workers[*worker].name)
    }
}

/// A resource of a worker.
#[derive(Clone, Copy)]
enum Resource<'a> {
    Kind(usize),
    Named(&'a str),
}

/// A shortage.
struct Lack {
    resource: String,
    asked: u64,
    short: u64,
    share: u64,
}

impl Worker {
    fn has(&self, resource: Resource<'_>) -> u64 {
        match resource {
            Resource::Kind(kind) => self.capacity.0[kind],
            Resource::Named(name) => self.has_named(name),
        }
    }

    fn spare(&self, resource: Resource<'_>) -> u64 {
        match resource {
            Resource::Kind(kind) => self.free.0[kind],
            Resource::Named(name) => self.free_named(name),
        }
    }
}
