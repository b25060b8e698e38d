//! Waiting entries, and the order of service.
//!
//! ```text
//! turns: priority, then the owner served longest ago
//!   └─ class queues of that owner and priority, one per class: the longest waiting first
//!        └─ task queues, one per task: the longest waiting first, then the shortest history
//!             └─ entries: single instances and ranges, by sequence
//! ```
//!
//! A task queue has one place in its class queue, that of its first entry, so a change of the task's history
//! moves one place, however many of its instances wait.
//!
//! An entry is known by the *last* of its ids: taking from the front of a range
//! then changes one number in place, and the entries of one submission, whole,
//! split or returned, keep their order. Everything here is O(log entries).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::InstanceId;
use baton_model::measurement::TaskPath;
use baton_model::time::Millis;
use slab::Slab;

use super::owners::Owners;
use super::tasks::{TaskHistory, Tasks};

/// One entry: `len` ids, of which the last is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) len: u32,
    pub(super) task_queue: u32,
}

impl Entry {
    /// The first id of the entry that ends with `last`.
    pub(super) const fn first(&self, last: InstanceId) -> InstanceId {
        InstanceId(last.0 - (self.len as u64 - 1))
    }
}

/// The waiting entries of one owner in one class at one priority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassQueue {
    pub(super) class: usize,
    pub(super) priority: i32,
    pub(super) owner: usize,
    /// Its task queues.
    pub(super) order: BTreeSet<TaskPlace>,
    /// Instances, not entries.
    pub(super) waiting: u64,
    /// The sequence it stands under in its turn.
    head: Option<u64>,
}

/// The place of a task queue in its class queue: sequence of its first entry, history, last id of its first
/// entry, index. A task without a history goes first.
pub(super) type TaskPlace = (u64, Option<Millis>, InstanceId, u32);

/// The waiting entries of one task in one class queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TaskQueue {
    pub(super) class_queue: usize,
    /// None of those without a name, and beyond the limit.
    task: Option<usize>,
    /// Its entries: sequence and last id.
    pub(super) order: BTreeSet<(u64, InstanceId)>,
    place: Option<TaskPlace>,
}

/// The turn of an owner at one priority: priority, stamp, owner.
pub(super) type Turn = (Reverse<i32>, u64, usize);

/// The class queues of a turn: sequence of the head, class, index.
pub(super) type ClassQueues = BTreeSet<(u64, usize, usize)>;

/// Everything that waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    by_last: BTreeMap<InstanceId, Entry>,
    pub(super) class_queues: Slab<ClassQueue>,
    by_kind: BTreeMap<(usize, i32, usize), usize>,
    pub(super) task_queues: Slab<TaskQueue>,
    /// By class queue and task.
    by_task: BTreeMap<(usize, Option<usize>), u32>,
    pub(super) tasks: Tasks,
    /// In the order of service. None of them is empty.
    pub(super) turns: BTreeMap<Turn, ClassQueues>,
    pub(super) owners: Owners,
    served: u64,
}

/// The key of a class queue in its class: priority, owner, index.
pub(super) type ClassQueueKey = (Reverse<i32>, usize, usize);

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.by_last.len()
    }

    /// The entry that holds `id`, with its last id.
    pub(super) fn find(&self, id: InstanceId) -> Option<(InstanceId, Entry)> {
        self.overlap(id, id)
    }

    /// The first entry that has an id from `first` to `last`.
    pub(super) fn overlap(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Option<(InstanceId, Entry)> {
        let (end, entry) = self.by_last.range(first..).next()?;
        (entry.first(*end) <= last).then_some((*end, *entry))
    }

    /// The class queue of this kind, made if need be, and its key.
    pub(super) fn class_queue(
        &mut self,
        class: usize,
        priority: i32,
        owner: &str,
    ) -> (usize, ClassQueueKey) {
        let owner = self.owners.find_or_add(owner);
        let kind = (class, priority, owner);
        let at = match self.by_kind.get(&kind) {
            Some(at) => *at,
            None => {
                let at = self.class_queues.insert(ClassQueue {
                    class,
                    priority,
                    owner,
                    order: BTreeSet::new(),
                    waiting: 0,
                    head: None,
                });
                self.by_kind.insert(kind, at);
                self.owners.add_class_queue(owner, priority);
                at
            }
        };
        (at, (Reverse(priority), owner, at))
    }

    /// The class queue of an entry.
    pub(super) fn class_queue_of(&self, entry: &Entry) -> usize {
        self.task_queues[entry.task_queue as usize].class_queue
    }

    /// The task queue of a task in a class queue, made if need be.
    pub(super) fn task_queue(&mut self, class_queue: usize, task: Option<TaskHistory<'_>>) -> u32 {
        let task = task.and_then(|it| self.tasks.find_or_add(it.path, it.estimate));
        if let Some(at) = self.by_task.get(&(class_queue, task)) {
            return *at;
        }
        // There are no more of them than entries, which are far fewer.
        let at = self.task_queues.insert(TaskQueue {
            class_queue,
            task,
            order: BTreeSet::new(),
            place: None,
        }) as u32;
        self.by_task.insert((class_queue, task), at);
        if let Some(task) = task {
            self.tasks.all[task].queues.insert(at);
        }
        at
    }

    /// Takes in how long a task takes. O(log entries) for each of its task queues.
    pub(super) fn set_estimate(&mut self, path: &TaskPath, estimate: Millis) {
        let Some(task) = self.tasks.find(path) else {
            return;
        };
        self.tasks.all[task].estimate = Some(estimate);
        let queues: Vec<u32> = self.tasks.all[task].queues.iter().copied().collect();
        queues.into_iter().for_each(|at| self.replace(at));
    }

    /// Adds an entry that overlaps no other.
    pub(super) fn push(&mut self, last: InstanceId, entry: Entry) {
        let class_queue = self.class_queue_of(&entry);
        self.insert(last, entry);
        self.class_queues[class_queue].waiting += u64::from(entry.len);
        self.settle(entry.task_queue);
    }

    fn insert(&mut self, last: InstanceId, entry: Entry) {
        let task_queue = &mut self.task_queues[entry.task_queue as usize];
        task_queue.order.insert((entry.sequence, last));
        self.by_last.insert(last, entry);
    }

    /// The next instance of a class queue, with the history of its task.
    pub(super) fn head(&self, at: usize) -> Option<(Option<Millis>, InstanceId)> {
        let (_, estimate, last, _) = self.class_queues[at].order.first()?;
        let entry = self.by_last.get(last)?;
        Some((*estimate, entry.first(*last)))
    }

    /// Takes the next instance of a class queue; it counts for the turn of its owner.
    pub(super) fn take(&mut self, at: usize) -> Option<InstanceId> {
        let class_queue = &mut self.class_queues[at];
        let owner = class_queue.owner;
        let (sequence, _, last, task_queue) = *class_queue.order.first()?;
        let entry = self.by_last.get_mut(&last)?;
        let taken = entry.first(last);
        class_queue.waiting -= 1;
        entry.len -= 1;
        if entry.len == 0 {
            let order = &mut self.task_queues[task_queue as usize].order;
            order.remove(&(sequence, last));
            self.by_last.remove(&last);
            self.settle(task_queue);
        }
        self.serve(owner);
        Some(taken)
    }

    /// Takes the ids from `first` to `last` out of the entry that ends with `end`,
    /// splitting it if need be; the caller has found them there.
    pub(super) fn cut(&mut self, end: InstanceId, first: InstanceId, last: InstanceId) {
        let Some(entry) = self.by_last.remove(&end) else {
            return;
        };
        let class_queue = self.class_queue_of(&entry);
        let task_queue = &mut self.task_queues[entry.task_queue as usize];
        task_queue.order.remove(&(entry.sequence, end));
        self.class_queues[class_queue].waiting -= last.0 - first.0 + 1;
        let before = first.0 - entry.first(end).0;
        let after = end.0 - last.0;
        // Parts of an entry are no longer than it was, so they fit.
        if before > 0 {
            let len = before as u32;
            self.insert(InstanceId(first.0 - 1), Entry { len, ..entry });
        }
        if after > 0 {
            let len = after as u32;
            self.insert(end, Entry { len, ..entry });
        }
        self.settle(entry.task_queue);
    }

    /// Keeps the places of a task queue and of its class queue right, and drops it if it is empty.
    fn settle(&mut self, at: u32) {
        let TaskQueue {
            class_queue,
            task,
            ref order,
            ..
        } = self.task_queues[at as usize];
        let is_empty = order.is_empty();
        self.replace(at);
        if is_empty {
            self.task_queues.remove(at as usize);
            self.by_task.remove(&(class_queue, task));
            if let Some(task) = task {
                self.tasks.remove_queue(task, at);
            }
        }
        self.rehead(class_queue);
    }

    /// Keeps the place of a task queue in its class queue right.
    fn replace(&mut self, at: u32) {
        let task_queue = &mut self.task_queues[at as usize];
        let estimate = task_queue.task.and_then(|it| self.tasks.all[it].estimate);
        let first = task_queue.order.first();
        let place = first.map(|(sequence, last)| (*sequence, estimate, *last, at));
        if place == task_queue.place {
            return;
        }
        let order = &mut self.class_queues[task_queue.class_queue].order;
        if let Some(old) = task_queue.place {
            order.remove(&old);
        }
        order.extend(place);
        task_queue.place = place;
    }

    /// Instances of the same class queue that go before the entry that ends with `end`.
    pub(super) fn ahead_of(&self, end: InstanceId, entry: &Entry) -> u64 {
        let own = &self.task_queues[entry.task_queue as usize];
        let estimate = own.place.and_then(|(_, estimate, ..)| estimate);
        let place = (estimate, end);
        let order = &self.class_queues[own.class_queue].order;
        // Of a task with a longer history only what has waited for longer.
        let tasks = order.iter().flat_map(|(_, estimate, _, at)| {
            let queue = &self.task_queues[*at as usize];
            let estimate = *estimate;
            let older = queue.order.range(..=(entry.sequence, InstanceId(u64::MAX)));
            older.filter(move |(sequence, last)| {
                *sequence < entry.sequence || (estimate, *last) < place
            })
        });
        let lens = tasks.filter_map(|(_, last)| self.by_last.get(last));
        lens.map(|entry| u64::from(entry.len)).sum()
    }

    /// Removes a class queue if it is empty, and returns its key.
    pub(super) fn close_if_empty(&mut self, at: usize) -> Option<ClassQueueKey> {
        if !self.class_queues[at].order.is_empty() {
            return None;
        }
        let class_queue = self.class_queues.remove(at);
        self.by_kind
            .remove(&(class_queue.class, class_queue.priority, class_queue.owner));
        self.owners
            .remove_class_queue(class_queue.owner, class_queue.priority);
        Some((Reverse(class_queue.priority), class_queue.owner, at))
    }

    /// Keeps a class queue's place among the class queues of its turn right.
    fn rehead(&mut self, at: usize) {
        let class_queue = &mut self.class_queues[at];
        let head = class_queue.order.first().map(|(sequence, ..)| *sequence);
        if head == class_queue.head {
            return;
        }
        let turn = (
            Reverse(class_queue.priority),
            self.owners.stamp(class_queue.owner),
            class_queue.owner,
        );
        let class_queues = self.turns.entry(turn).or_default();
        if let Some(old) = class_queue.head {
            class_queues.remove(&(old, class_queue.class, at));
        }
        if let Some(new) = head {
            class_queues.insert((new, class_queue.class, at));
        }
        if class_queues.is_empty() {
            self.turns.remove(&turn);
        }
        class_queue.head = head;
    }

    /// Sends an owner to the end of each of its queues, if its turn is over.
    fn serve(&mut self, owner: usize) {
        if !self.owners.take(owner) {
            return;
        }
        self.served += 1;
        let old = self.owners.stamp(owner);
        for priority in self.owners.priorities(owner) {
            if let Some(class_queues) = self.turns.remove(&(Reverse(priority), old, owner)) {
                let turn = (Reverse(priority), self.served, owner);
                self.turns.insert(turn, class_queues);
            }
        }
        self.owners.set_stamp(owner, self.served);
    }
}
