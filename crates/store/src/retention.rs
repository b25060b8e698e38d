//! What may go, and when.
//!
//! The unit is an instance that has ended: it goes with its whole timeline, oldest
//! end first, so that what is left can still tell everything about itself. Of a range
//! that was halted as one any part may go. What lives stays, however old. Facts about a
//! range go with the last instance in it, facts about no instance by age, or together
//! with the instances that ended after them. A run that has ended goes by age, with its plans and
//! what became of its items; their instances go by themselves. That an id was used is never
//! forgotten.

use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use crate::draft::length;
use crate::view::Seq;

/// How much history is kept. A limit that is not set does not bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long ago an instance or a run may have ended.
    pub history_age: Option<Millis>,
    /// Bytes of recorded facts, those of living instances included.
    pub history_bytes: Option<u64>,
    /// How many ended instances are kept.
    pub terminal_instances_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Instances that are gone, with their timelines.
    pub instances: u64,
    /// In how many records they were kept: a halted range is one. A run that is gone is one
    /// more, or several if it had many items.
    pub records: u64,
    /// Facts that are gone.
    pub facts: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The number of the last fact of those that are gone.
    pub last: Seq,
    /// Bytes by which the file of the store has become smaller.
    pub returned: u64,
    /// True if the budget ended it, so that there may be more to remove.
    pub more: bool,
}

impl PruneReport {
    /// True if nothing was removed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.records == 0 && self.facts == 0
    }

    /// Adds what one more step has removed.
    pub(crate) fn add(&mut self, step: &Self) {
        self.instances += step.instances;
        self.records += step.records;
        self.facts += step.facts;
        self.bytes += step.bytes;
        self.last = self.last.max(step.last);
    }

    /// A fact is gone.
    pub(crate) fn fact(&mut self, seq: Seq, bytes: u64) {
        self.facts += 1;
        self.bytes += bytes;
        self.last = self.last.max(seq);
    }
}

/// How much there is when a step begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) terminal: u64,
    pub(crate) bytes: u64,
}

/// An ended instance, or a halted range, that may have to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) first: InstanceId,
    pub(crate) last: InstanceId,
    pub(crate) state: UniversalState,
    /// The fact that it came with.
    pub(crate) submitted: Seq,
    pub(crate) ended: Seq,
    pub(crate) at: Wall,
    /// Of the facts that are about it alone.
    pub(crate) bytes: u64,
}

impl Candidate {
    /// How many instances it stands for.
    pub(crate) const fn len(&self) -> u64 {
        length(self.first, self.last)
    }
}

impl Retention {
    /// True if nothing is ever removed.
    pub(crate) const fn keeps_all(&self) -> bool {
        self.history_age.is_none()
            && self.history_bytes.is_none()
            && self.terminal_instances_max.is_none()
    }

    /// Those of the candidates that go; of a range perhaps the first ones only. They come oldest end first; one that is
    /// young by the clock does not protect those behind it, because the clock may
    /// have been wrong when it ended.
    pub(crate) fn doomed(
        &self,
        now: Wall,
        mut held: Held,
        candidates: &[Candidate],
    ) -> Vec<Candidate> {
        let mut doomed = Vec::new();
        for candidate in candidates {
            let surplus = self
                .terminal_instances_max
                .map_or(0, |max| held.terminal.saturating_sub(max));
            let mut goes = *candidate;
            if self.is_large(held.bytes) || self.is_old(now, candidate.at) {
                held.bytes = held.bytes.saturating_sub(candidate.bytes);
            } else if surplus == 0 {
                continue;
            } else if surplus < candidate.len() {
                goes.last = InstanceId(candidate.first.0 + surplus - 1);
            } else {
                held.bytes = held.bytes.saturating_sub(candidate.bytes);
            }
            held.terminal = held.terminal.saturating_sub(goes.len());
            doomed.push(goes);
        }
        doomed
    }

    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        self.history_bytes.is_some_and(|max| bytes > max)
    }

    pub(crate) fn is_old(&self, now: Wall, at: Wall) -> bool {
        self.history_age
            .is_some_and(|age| now.0.saturating_sub(at.0) > age.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(ends: &[u64]) -> Vec<Candidate> {
        let candidate = |(index, at): (usize, &u64)| Candidate {
            first: InstanceId(index as u64),
            last: InstanceId(index as u64),
            state: UniversalState::Halted,
            submitted: Seq(index as u64),
            ended: Seq(index as u64),
            at: Wall(*at),
            bytes: 10,
        };
        ends.iter().enumerate().map(candidate).collect()
    }

    fn gone(retention: Retention, ends: &[u64]) -> Vec<u64> {
        let held = Held {
            terminal: ends.len() as u64,
            bytes: 10 * ends.len() as u64,
        };
        let doomed = retention.doomed(Wall(100), held, &candidates(ends));
        doomed.iter().map(|it| it.first.0).collect()
    }

    #[test]
    fn each_limit_removes_the_oldest_and_no_more_than_it_must() {
        let ends = [10, 20, 30, 40];
        let age = Retention {
            history_age: Some(Millis(75)),
            ..Retention::default()
        };
        assert_eq!(gone(age, &ends), [0, 1]);
        let bytes = Retention {
            history_bytes: Some(25),
            ..Retention::default()
        };
        assert_eq!(gone(bytes, &ends), [0, 1]);
        let count = Retention {
            terminal_instances_max: Some(1),
            ..Retention::default()
        };
        assert_eq!(gone(count, &ends), [0, 1, 2]);
        assert!(gone(Retention::default(), &ends).is_empty());
    }

    #[test]
    fn of_a_range_no_more_goes_than_must() {
        let mut candidates = candidates(&[10, 20]);
        candidates[1].first = InstanceId(10);
        candidates[1].last = InstanceId(109);
        let held = Held {
            terminal: 101,
            bytes: 20,
        };
        let count = Retention {
            terminal_instances_max: Some(30),
            ..Retention::default()
        };
        let doomed = count.doomed(Wall(100), held, &candidates);
        let gone: Vec<_> = doomed.iter().map(|it| (it.first.0, it.last.0)).collect();
        assert_eq!(gone, [(0, 0), (10, 79)]);
        let age = Retention {
            history_age: Some(Millis(50)),
            ..Retention::default()
        };
        let doomed = age.doomed(Wall(100), held, &candidates);
        assert_eq!(doomed.iter().map(Candidate::len).sum::<u64>(), 101);
    }

    #[test]
    fn an_end_in_the_future_does_not_protect_those_after_it() {
        let age = Retention {
            history_age: Some(Millis(50)),
            ..Retention::default()
        };
        assert_eq!(gone(age, &[9_999, 20]), [1]);
    }
}
