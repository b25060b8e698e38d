//! What waits, and the order of service.
//!
//! ```text
//! turns: priority, then who was served longest ago
//!   └─ lanes of that owner and priority, one per class: the longest waiting first
//!        └─ entries: single instances and ranges, by sequence
//! ```
//!
//! An entry is known by the *last* of its ids: taking from the front of a range
//! then changes one number in place, and the entries of one submission, whole,
//! split or returned, keep their order. Everything here is O(log entries).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::InstanceId;

use super::owners::Owners;
use super::slab::Slab;

/// One entry: `len` ids, of which the last is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) len: u32,
    pub(super) lane: u32,
}

impl Entry {
    /// The first id of the entry that ends with `last`.
    pub(super) const fn first(&self, last: InstanceId) -> InstanceId {
        InstanceId(last.0 - (self.len as u64 - 1))
    }
}

/// What one owner has waiting in one class at one priority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) class: u32,
    pub(super) priority: i32,
    pub(super) owner: u32,
    /// Its entries: sequence and last id.
    pub(super) order: BTreeSet<(u64, InstanceId)>,
    /// Instances, not entries.
    pub(super) waiting: u64,
    /// The sequence it stands under in its turn.
    head: Option<u64>,
}

/// The place of an owner at one priority: priority, stamp, owner.
pub(super) type Turn = (Reverse<i32>, u64, u32);

/// The lanes of a turn: sequence of the head, class, lane.
pub(super) type Lanes = BTreeSet<(u64, u32, u32)>;

/// Everything that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    by_last: BTreeMap<InstanceId, Entry>,
    pub(super) lanes: Slab<Lane>,
    by_kind: BTreeMap<(u32, i32, u32), u32>,
    /// In the order of service. None of them is empty.
    pub(super) turns: BTreeMap<Turn, Lanes>,
    pub(super) owners: Owners,
    served: u64,
}

/// A lane that an operation has emptied, or filled for the first time, for the
/// class to take note of.
pub(super) type LaneKey = (Reverse<i32>, u32, u32);

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

    /// The lane of this kind, made if need be, and its key.
    pub(super) fn lane(&mut self, class: u32, priority: i32, owner: &str) -> (u32, LaneKey) {
        let owner = self.owners.find_or_add(owner);
        let kind = (class, priority, owner);
        let at = match self.by_kind.get(&kind) {
            Some(at) => *at,
            None => {
                let at = self.lanes.insert(Lane {
                    class,
                    priority,
                    owner,
                    order: BTreeSet::new(),
                    waiting: 0,
                    head: None,
                });
                self.by_kind.insert(kind, at);
                self.owners.add_lane(owner, priority);
                at
            }
        };
        (at, (Reverse(priority), owner, at))
    }

    /// Adds an entry that overlaps no other.
    pub(super) fn push(&mut self, last: InstanceId, entry: Entry) {
        let lane = &mut self.lanes[entry.lane];
        lane.order.insert((entry.sequence, last));
        lane.waiting += u64::from(entry.len);
        self.by_last.insert(last, entry);
        self.rehead(entry.lane);
    }

    /// Takes the next instance of a lane; its owner has had its turn.
    pub(super) fn take(&mut self, at: u32) -> Option<InstanceId> {
        let lane = &mut self.lanes[at];
        let owner = lane.owner;
        let (sequence, last) = *lane.order.first()?;
        let entry = self.by_last.get_mut(&last)?;
        let taken = entry.first(last);
        lane.waiting -= 1;
        entry.len -= 1;
        if entry.len == 0 {
            lane.order.remove(&(sequence, last));
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
        let lane = &mut self.lanes[entry.lane];
        lane.order.remove(&(entry.sequence, end));
        lane.waiting -= last.0 - first.0 + 1;
        let before = first.0 - entry.first(end).0;
        let after = end.0 - last.0;
        // Parts of an entry are no longer than it was, so they fit.
        if before > 0 {
            let part = InstanceId(first.0 - 1);
            lane.order.insert((entry.sequence, part));
            let len = before as u32;
            self.by_last.insert(part, Entry { len, ..entry });
        }
        if after > 0 {
            lane.order.insert((entry.sequence, end));
            let len = after as u32;
            self.by_last.insert(end, Entry { len, ..entry });
        }
        self.rehead(entry.lane);
    }

    /// Forgets a lane in which nothing waits any more, and says which it was.
    pub(super) fn close_if_empty(&mut self, at: u32) -> Option<LaneKey> {
        if !self.lanes[at].order.is_empty() {
            return None;
        }
        let lane = self.lanes.remove(at)?;
        self.by_kind
            .remove(&(lane.class, lane.priority, lane.owner));
        self.owners.remove_lane(lane.owner, lane.priority);
        Some((Reverse(lane.priority), lane.owner, at))
    }

    /// Keeps a lane's place among the lanes of its turn right.
    fn rehead(&mut self, at: u32) {
        let lane = &mut self.lanes[at];
        let head = lane.order.first().map(|(sequence, _)| *sequence);
        if head == lane.head {
            return;
        }
        let turn = (
            Reverse(lane.priority),
            self.owners.stamp(lane.owner),
            lane.owner,
        );
        let lanes = self.turns.entry(turn).or_default();
        if let Some(old) = lane.head {
            lanes.remove(&(old, lane.class, at));
        }
        if let Some(new) = head {
            lanes.insert((new, lane.class, at));
        }
        if lanes.is_empty() {
            self.turns.remove(&turn);
        }
        lane.head = head;
    }

    /// Sends an owner to the end of each of its queues.
    fn serve(&mut self, owner: u32) {
        self.served += 1;
        let old = self.owners.stamp(owner);
        for priority in self.owners.priorities(owner) {
            if let Some(lanes) = self.turns.remove(&(Reverse(priority), old, owner)) {
                let turn = (Reverse(priority), self.served, owner);
                self.turns.insert(turn, lanes);
            }
        }
        self.owners.set_stamp(owner, self.served);
    }
}
