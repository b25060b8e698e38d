//! The reason for which an instance waits to be placed.

use std::cmp::Reverse;

use baton_model::device::WHOLE;
use baton_model::ids::{InstanceId, WorkerName};
use baton_model::paths::DIRECTORY_LABEL;
use baton_model::placement::Constraint;
use baton_model::time::Millis;

use super::class::Class;
use super::fleet::Worker;
use super::need::{KINDS, holds};
use super::queue::{ClassQueue, Entry};
use super::{PlacedInstance, Placement};
use crate::limits::LimitKey;
use crate::wait::{
    ClassId, Exclusion, KIND_NAMES, LimitReached, RateWait, SOCKET_NAME, Wait, WaitReason,
    WorkerGroup,
};

impl Placement {
    /// The reason for which `instance` waits; none if it does not wait.
    #[must_use]
    pub fn explain(&self, instance: InstanceId) -> Option<Wait> {
        let (end, entry) = self.queue.find(instance)?;
        let class = self.queue.class_queues[self.queue.class_queue_of(&entry)].class;
        let wait = self.explain_class(ClassId(class))?;
        let ahead = match wait.reason {
            // Its turn changes nothing.
            WaitReason::NoWorker | WaitReason::Excluded(_) => 0,
            _ => self.before(instance, end, entry),
        };
        Some(Wait { ahead, ..wait })
    }

    /// The reason for which the first of a class waits; none if none of it waits.
    #[must_use]
    pub fn explain_class(&self, class: ClassId) -> Option<Wait> {
        let (id, number) = (class.0, class);
        let class = self.classes.all.get(id)?;
        let priority = class.priority()?;
        let workers = self.group(id, class, priority);
        let reason = match workers.first().map(|nearest| &nearest.exclusion) {
            None => WaitReason::NoWorker,
            Some(Some(lasting)) if lasting.is_lasting() => WaitReason::Excluded(lasting.clone()),
            Some(_) => self.head(id, class, priority),
        };
        Some(Wait {
            class: Some((number, class.waiting)),
            workers,
            ..Wait::from(reason)
        })
    }

    /// All workers by the reason for which they do not take one of a class. O(workers).
    fn group(&self, id: usize, class: &Class, priority: i32) -> Vec<WorkerGroup> {
        let constraints = self.constraints_by_weight(class);
        let present = self.fleet.workers.iter();
        let present = present.filter(|(_, worker)| worker.present);
        let mut groups: Vec<Candidates<'_>> = Vec::new();
        for (at, worker) in present {
            let obstacle = self.obstacle(id, class, priority, (at, worker), &constraints);
            let found = Candidates {
                obstacle,
                worker,
                workers: 1,
            };
            match groups.iter_mut().find(|group| group.is_like(&found)) {
                Some(group) => group.add(found),
                None => groups.push(found),
            }
        }
        let mut groups: Vec<WorkerGroup> = groups.iter().map(Candidates::as_group).collect();
        groups.sort_by(|a, b| a.exclusion.cmp(&b.exclusion));
        groups
    }

    /// The constraints of a class, those first that exclude most workers. Directories come last:
    /// to allow one does not help a worker whose labels are wrong.
    fn constraints_by_weight<'a>(&self, class: &'a Class) -> Vec<&'a Constraint> {
        let excluded = |constraint: &Constraint| {
            let workers = self.fleet.workers.iter();
            let present = workers.filter(|(_, worker)| worker.present);
            present
                .filter(|(_, worker)| !holds(constraint, &worker.labels))
                .count()
        };
        let mut constraints: Vec<&Constraint> = class.need.constraints.iter().collect();
        constraints.sort_by_cached_key(|constraint| {
            let is_directory = constraint.label == DIRECTORY_LABEL;
            (is_directory, Reverse(excluded(constraint)))
        });
        constraints
    }

    /// The obstacle of a worker that is hardest to remove.
    fn obstacle<'a>(
        &'a self,
        id: usize,
        class: &'a Class,
        priority: i32,
        (at, worker): (usize, &'a Worker),
        constraints: &[&'a Constraint],
    ) -> Option<Obstacle<'a>> {
        if !class.allows(at) {
            let mut unmet = constraints.iter();
            let unmet = unmet.find(|constraint| !holds(constraint, &worker.labels));
            return unmet.map(|constraint| Obstacle::Constraint(constraint));
        }
        if !class.is_within(worker, at) {
            return self.lack(class, worker, &Worker::has).map(Obstacle::Size);
        }
        let members = self.fleet.group_len(at);
        if members < class.nodes() {
            return Some(Obstacle::Group(class.need.nodes, members));
        }
        if !class.has_time(worker) {
            let asked = class.need.time.unwrap_or_default();
            let ends_at = worker.ends_at.unwrap_or_default();
            let left = ends_at.since(self.classes.now());
            return Some(Obstacle::Time { asked, left });
        }
        if let Some(closed) = worker.closed.as_ref().filter(|it| it.is_lasting()) {
            return Some(Obstacle::Closed(closed));
        }
        if !class.has_room(worker, at) {
            return self.lack(class, worker, &Worker::spare).map(Obstacle::Room);
        }
        if let Some(closed) = &worker.closed {
            return Some(Obstacle::Closed(closed));
        }
        let by = self.kept_from(at, id, priority)?;
        let class = ClassId(self.reservations[by].class);
        Some(Obstacle::Reserved(class))
    }

    /// What the first of a class waits for, which could be placed.
    fn head(&self, id: usize, class: &Class, priority: i32) -> WaitReason {
        if let Some(key) = self.limits.short_of(&class.limited) {
            return WaitReason::Limit(LimitReached {
                key: key.clone(),
                name: key.to_string(),
                limit: self.limits.get(key).unwrap_or_default(),
                asked: class.need.amount(key),
                rate: self.rate_wait(key, class.need.amount(key)),
            });
        }
        if let Some((at, limit)) = self.limit_reserved(id, priority) {
            return WaitReason::Reserved {
                what: limit.to_string(),
                class: ClassId(self.reservations[at].class),
            };
        }
        if class.need.is_gang() {
            return self.gang_room(id, class, priority);
        }
        self.room(id, class, priority)
    }

    /// The rate of a limit, and how long it takes until that has room.
    fn rate_wait(&self, key: &LimitKey, amount: u64) -> Option<RateWait> {
        let rate = self.limits.rate(key)?;
        let now = self.limits.now();
        let next = self.limits.next_at(key, amount, now);
        let left = next.map(|at| at.since(now));
        Some(RateWait { rate, left })
    }

    /// What the first of a class waits for, on a worker.
    fn room(&self, id: usize, class: &Class, priority: i32) -> WaitReason {
        let open = |at: usize| self.kept_from(at, id, priority).is_none();
        let fitting = || {
            let workers = self.fleet.workers.iter();
            workers.filter(|(at, worker)| class.fits(worker, *at))
        };
        if fitting().any(|(at, _)| open(at)) {
            return WaitReason::Nothing;
        }
        if let Some((at, worker)) = fitting().min_by_key(|(_, worker)| &worker.name)
            && let Some(by) = self.kept_from(at, id, priority)
        {
            return WaitReason::Reserved {
                what: worker.name.to_string(),
                class: ClassId(self.reservations[by].class),
            };
        }
        let mut workers = self.fleet.workers.iter();
        let busy = |(at, worker): &(usize, &Worker)| {
            worker.closed == Some(Exclusion::Busy)
                && class.has_time(worker)
                && class.has_room(worker, *at)
        };
        if let Some((_, worker)) = workers.find(busy) {
            return WaitReason::Busy {
                worker: worker.name.clone(),
            };
        }
        let own = self.reservations.iter().find(|r| r.class == id);
        let own = own.and_then(|reservation| reservation.workers.first().copied());
        let wanted = |at: usize, worker: &Worker| match own {
            Some(own) => at == own,
            None => class.has_time(worker) && class.is_within(worker, at),
        };
        match self.nearest(class, Worker::spare, wanted) {
            Some((worker, lack)) => WaitReason::Room {
                resource: lack.resource.to_owned(),
                worker: worker.name.clone(),
                short: lack.short,
                reserved: own.is_some(),
            },
            None => WaitReason::Nothing,
        }
    }

    /// Of the workers that meet the constraints, the one that is short of the
    /// least, by its largest shortage in shares; then by name.
    fn nearest<'a>(
        &'a self,
        class: &'a Class,
        amount: impl Fn(&Worker, Resource<'_>) -> u64,
        wanted: impl Fn(usize, &Worker) -> bool,
    ) -> Option<(&'a Worker, Lack<'a>)> {
        let workers = self.fleet.workers.iter();
        let candidates = workers
            .filter(|(at, worker)| worker.is_in_service() && class.allows(*at))
            .filter(|(at, worker)| wanted(*at, worker))
            .filter_map(|(_, worker)| Some((worker, self.lack(class, worker, &amount)?)));
        candidates.min_by(|(a, x), (b, y)| (x.share, &a.name).cmp(&(y.share, &b.name)))
    }

    /// The largest shortage of one worker.
    fn lack<'a>(
        &self,
        class: &'a Class,
        worker: &Worker,
        amount: &impl Fn(&Worker, Resource<'_>) -> u64,
    ) -> Option<Lack<'a>> {
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
        let socket = class.need.socket.saturating_sub(worker.socket);
        let share = units.share(0, socket.saturating_mul(WHOLE));
        let socket = (SOCKET_NAME, class.need.socket, socket, share);
        let lacks = plain
            .chain(named)
            .chain([socket])
            .filter(|(_, _, short, _)| *short > 0);
        let (resource, asked, short, share) = lacks
            .enumerate()
            .max_by_key(|(at, (_, _, _, share))| (*share, Reverse(*at)))?
            .1;
        Some(Lack {
            resource,
            asked,
            short,
            share,
        })
    }

    /// How many of the same class are served before `instance`, if nothing else
    /// comes: those of a higher priority, those ahead of it in its own class queue, and of
    /// each other owner as many as its turns have until then.
    fn before(&self, instance: InstanceId, end: InstanceId, entry: Entry) -> u64 {
        let own = &self.queue.class_queues[self.queue.class_queue_of(&entry)];
        let ahead = self.queue.ahead_of(end, &entry) + (instance.0 - entry.first(end).0);
        let turn = |class_queue: &ClassQueue| {
            (
                self.queue.owners.stamp(class_queue.owner),
                class_queue.owner,
            )
        };
        // The turns of its owner that end before it is served.
        let owners = &self.queue.owners;
        let turns = match ahead.checked_sub(owners.left(own.owner)) {
            None => 0,
            Some(more) => 1 + more / owners.weight(own.owner),
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
                    let is_first = turn(class_queue) < turn(own);
                    let owner = class_queue.owner;
                    class_queue
                        .waiting
                        .min(self.turns_of(owner, turns, is_first))
                }
            },
        );
        ahead + before.sum::<u64>()
    }

    /// Decisions of an owner while another one ends so many turns. `is_first`: it is next before that one.
    fn turns_of(&self, owner: usize, turns: u64, is_first: bool) -> u64 {
        let owners = &self.queue.owners;
        match turns + u64::from(is_first) {
            0 => 0,
            turns => owners.left(owner) + (turns - 1).saturating_mul(owners.weight(owner)),
        }
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
#[derive(Clone, Copy)]
struct Lack<'a> {
    resource: &'a str,
    asked: u64,
    short: u64,
    share: u64,
}

/// An [`Exclusion`] that owns nothing, since there is one for each worker.
#[derive(Clone, Copy)]
enum Obstacle<'a> {
    Reserved(ClassId),
    Closed(&'a Exclusion),
    Room(Lack<'a>),
    Size(Lack<'a>),
    Time {
        asked: Millis,
        left: Millis,
    },
    /// How many members a gang needs, and how many workers its group has.
    Group(u32, usize),
    Constraint(&'a Constraint),
}

impl Obstacle<'_> {
    /// How far the worker is from taking the instance, among those of its group.
    fn distance(&self) -> u64 {
        match self {
            Self::Room(lack) | Self::Size(lack) => lack.share,
            Self::Time { asked, left } => asked.saturating_sub(*left).0,
            Self::Group(asked, has) => u64::from(*asked).saturating_sub(*has as u64),
            Self::Reserved(_) | Self::Closed(_) | Self::Constraint(_) => 0,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reserved(_), Self::Reserved(_))
            | (Self::Room(_), Self::Room(_))
            | (Self::Size(_), Self::Size(_))
            | (Self::Group(..), Self::Group(..))
            | (Self::Time { .. }, Self::Time { .. }) => true,
            (Self::Closed(a), Self::Closed(b)) => a == b,
            (Self::Constraint(a), Self::Constraint(b)) => a == b,
            _ => false,
        }
    }

    fn exclusion(&self) -> Exclusion {
        match self {
            Self::Reserved(class) => Exclusion::Reserved { class: *class },
            Self::Closed(closed) => (*closed).clone(),
            Self::Room(lack) => Exclusion::Full {
                resource: lack.resource.to_owned(),
                short: lack.short,
            },
            Self::Size(lack) => Exclusion::TooSmall {
                resource: lack.resource.to_owned(),
                asked: lack.asked,
                has: lack.asked - lack.short,
            },
            Self::Time { asked, left } => Exclusion::EndsSoon {
                asked: *asked,
                left: *left,
            },
            Self::Group(asked, has) => Exclusion::GroupTooSmall {
                asked: *asked,
                has: u32::try_from(*has).unwrap_or(u32::MAX),
            },
            Self::Constraint(it) if it.label == DIRECTORY_LABEL => Exclusion::Directory,
            Self::Constraint(it) => Exclusion::Constraint((*it).clone()),
        }
    }
}

/// Workers with like obstacles, and the nearest of them.
struct Candidates<'a> {
    obstacle: Option<Obstacle<'a>>,
    worker: &'a Worker,
    workers: usize,
}

impl Candidates<'_> {
    fn is_like(&self, other: &Self) -> bool {
        match (&self.obstacle, &other.obstacle) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_like(b),
            _ => false,
        }
    }

    fn add(&mut self, other: Self) {
        self.workers += other.workers;
        if other.distance() < self.distance() {
            (self.obstacle, self.worker) = (other.obstacle, other.worker);
        }
    }

    fn distance(&self) -> (u64, &WorkerName) {
        let distance = self.obstacle.as_ref().map_or(0, Obstacle::distance);
        (distance, &self.worker.name)
    }

    fn as_group(&self) -> WorkerGroup {
        WorkerGroup {
            exclusion: self.obstacle.as_ref().map(Obstacle::exclusion),
            workers: self.workers,
            example: self.worker.name.clone(),
        }
    }
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
