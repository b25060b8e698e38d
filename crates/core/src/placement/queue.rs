//! Waiting entries, and the order of service.
//!
//! ```text
//! turns: priority, then the owner served longest ago
//!   └─ class queues of that owner and priority, one per class: the longest waiting first
//!        └─ entries: single instances and ranges, by sequence
//! ```
//!
//! An entry is known by the *last* of its ids: taking from the front of a range
//! then changes one number in place, and the entries of one submission, whole,
//! split or returned, keep their order. Everything here is O(log entries).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::InstanceId;
use slab::Slab;

use super::owners::Owners;

/// One entry: `len` ids, of which the last is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) len: u32,
    pub(super) class_queue: usize,
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
    /// Its entries: sequence and last id.
    pub(super) order: BTreeSet<(u64, InstanceId)>,
    /// Instances, not entries.
    pub(super) waiting: u64,
    /// The sequence it stands under in its turn.
    head: Option<u64>,
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

    /// Adds an entry that overlaps no other.
    pub(super) fn push(&mut self, last: InstanceId, entry: Entry) {
        let class_queue = &mut self.class_queues[entry.class_queue];
        class_queue.order.insert((entry.sequence, last));
        class_queue.waiting += u64::from(entry.len);
        self.by_last.insert(last, entry);
        self.rehead(entry.class_queue);
    }

    /// The next instance of a class queue.
    pub(super) fn head(&self, at: usize) -> Option<InstanceId> {
        let (_, last) = self.class_queues[at].order.first()?;
        let entry = self.by_last.get(last)?;
        Some(entry.first(*last))
    }

    /// Takes the next instance of a class queue; its owner has had its turn.
    pub(super) fn take(&mut self, at: usize) -> Option<InstanceId> {
        let class_queue = &mut self.class_queues[at];
        let owner = class_queue.owner;
        let (sequence, last) = *class_queue.order.first()?;
        let entry = self.by_last.get_mut(&last)?;
        let taken = entry.first(last);
        class_queue.waiting -= 1;
        entry.len -= 1;
        if entry.len == 0 {
            class_queue.order.remove(&(sequence, last));
            self.by_last.remove(&last);
            self.rehead(at);
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
        let class_queue = &mut self.class_queues[entry.class_queue];
        class_queue.order.remove(&(entry.sequence, end));
        class_queue.waiting -= last.0 - first.0 + 1;
        let before = first.0 - entry.first(end).0;
        let after = end.0 - last.0;
        // Parts of an entry are no longer than it was, so they fit.
        if before > 0 {
            let part = InstanceId(first.0 - 1);
            class_queue.order.insert((entry.sequence, part));
            let len = before as u32;
            self.by_last.insert(part, Entry { len, ..entry });
        }
        if after > 0 {
            class_queue.order.insert((entry.sequence, end));
            let len = after as u32;
            self.by_last.insert(end, Entry { len, ..entry });
        }
        self.rehead(entry.class_queue);
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
        let head = class_queue.order.first().map(|(sequence, _)| *sequence);
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

    /// Sends an owner to the end of each of its queues.
    fn serve(&mut self, owner: usize) {
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
