//! Retention: which history is removed, and when.
//!
//! The unit is an ended instance: it is removed with its whole timeline, oldest end first, so that
//! everything that remains is complete. Of a range that was halted as one, any part may be removed.
//! Instances that have not ended stay, however old. Facts about a range are removed with its last
//! instance; facts about no instance by age, or together with the instances that ended after them.
//! An ended run is removed by age, with its plans and the outcomes of its items; the instances of
//! those items expire separately. Used ids are never forgotten.

use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use crate::change_set::length;
use crate::view::Seq;

/// Limits on the history. A limit that is not set does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age of the end of an instance or a run.
    pub history_age: Option<Millis>,
    /// Maximum bytes of recorded facts, including those of instances that have not ended.
    pub history_bytes: Option<u64>,
    /// Maximum number of ended instances.
    pub terminal_instances_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Removed instances, with their timelines.
    pub instances: u64,
    /// Removed records: a halted range counts as one. A removed run counts as one more, or several
    /// if it had many items.
    pub records: u64,
    /// Removed facts.
    pub facts: u64,
    /// Bytes of the removed facts.
    pub bytes: u64,
    /// The highest number among the removed facts.
    pub last: Seq,
    /// Bytes by which the store's file has shrunk.
    pub returned: u64,
    /// True if the budget ended the pruning, so that there may be more to remove.
    pub more: bool,
}

impl PruneReport {
    /// True if nothing was removed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.records == 0 && self.facts == 0
    }

    /// Adds the counts of one more step.
    pub(crate) fn add(&mut self, step: &Self) {
        self.instances += step.instances;
        self.records += step.records;
        self.facts += step.facts;
        self.bytes += step.bytes;
        self.last = self.last.max(step.last);
    }

    /// Counts one removed fact.
    pub(crate) fn count_fact(&mut self, seq: Seq, bytes: u64) {
        self.facts += 1;
        self.bytes += bytes;
        self.last = self.last.max(seq);
    }
}

/// Size of the history at the start of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistorySize {
    pub(crate) terminal: u64,
    pub(crate) bytes: u64,
}

/// An ended instance or a halted range that may expire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) first: InstanceId,
    pub(crate) last: InstanceId,
    pub(crate) state: UniversalState,
    /// The fact that submitted it.
    pub(crate) submitted: Seq,
    pub(crate) ended: Seq,
    pub(crate) at: Wall,
    /// Bytes of the facts about it alone.
    pub(crate) bytes: u64,
}

impl Candidate {
    /// The number of instances in it.
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

    /// The candidates that expire; of a range perhaps only the first instances. Candidates come
    /// oldest end first. One that is young by the clock does not protect the ones after it, because
    /// the clock may have been wrong when it ended.
    pub(crate) fn expired(
        &self,
        now: Wall,
        mut size: HistorySize,
        candidates: &[Candidate],
    ) -> Vec<Candidate> {
        let mut expired = Vec::new();
        for candidate in candidates {
            let surplus = self
                .terminal_instances_max
                .map_or(0, |max| size.terminal.saturating_sub(max));
            let mut removed = *candidate;
            if self.is_large(size.bytes) || self.is_old(now, candidate.at) {
                size.bytes = size.bytes.saturating_sub(candidate.bytes);
            } else if surplus == 0 {
                continue;
            } else if surplus < candidate.len() {
                removed.last = InstanceId(candidate.first.0 + surplus - 1);
            } else {
                size.bytes = size.bytes.saturating_sub(candidate.bytes);
            }
            size.terminal = size.terminal.saturating_sub(removed.len());
            expired.push(removed);
        }
        expired
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
        let size = HistorySize {
            terminal: ends.len() as u64,
            bytes: 10 * ends.len() as u64,
        };
        let expired = retention.expired(Wall(100), size, &candidates(ends));
        expired.iter().map(|it| it.first.0).collect()
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
        let size = HistorySize {
            terminal: 101,
            bytes: 20,
        };
        let count = Retention {
            terminal_instances_max: Some(30),
            ..Retention::default()
        };
        let expired = count.expired(Wall(100), size, &candidates);
        let gone: Vec<_> = expired.iter().map(|it| (it.first.0, it.last.0)).collect();
        assert_eq!(gone, [(0, 0), (10, 79)]);
        let age = Retention {
            history_age: Some(Millis(50)),
            ..Retention::default()
        };
        let expired = age.expired(Wall(100), size, &candidates);
        assert_eq!(expired.iter().map(Candidate::len).sum::<u64>(), 101);
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
