//! The queue of launches that claim more than is free, or need a device that is in use.
//!
//! Strictly first come first served among launches with a claim: small launches cannot overtake a
//! large one for ever, and the order is the requested one. A launch without a claim never waits.
//! Each operation costs the logarithm of the queue's length; peeking costs nothing.

use std::collections::BTreeMap;

use baton_model::coordinator::{KnownRun, Launch};
use baton_model::task::{ProcessNo, RunKey};

use super::devices::runs_of;

/// The waiting launches, and the capacity in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    /// `None` until it is set; until then no launch waits.
    capacity: Option<Vec<u64>>,
    used: Vec<u64>,
    /// The number of runs with a claim.
    claimants: usize,
    /// In order of arrival.
    waiting: BTreeMap<u64, (RunKey, Box<Launch>)>,
    positions: BTreeMap<RunKey, u64>,
    next_position: u64,
}

impl Queue {
    pub(super) fn set_capacity(&mut self, amounts: Vec<u64>) {
        self.capacity = Some(amounts);
    }

    /// True if a launch that comes now has to wait.
    pub(super) fn must_wait(&self, claim: &[u64]) -> bool {
        !claim.is_empty() && (!self.waiting.is_empty() || !self.fits(claim))
    }

    /// True if a run of this process waits.
    pub(super) fn has_process(&self, process: ProcessNo) -> bool {
        self.positions.range(runs_of(process)).next().is_some()
    }

    fn fits(&self, claim: &[u64]) -> bool {
        let Some(capacity) = &self.capacity else {
            return true;
        };
        let of = |amounts: &[u64], at: usize| amounts.get(at).copied().unwrap_or(0);
        let mut claimed = claim.iter().enumerate();
        if claimed.any(|(at, amount)| *amount > of(capacity, at)) {
            // It can never fit; so it runs alone, rather than never.
            return self.claimants == 0;
        }
        let mut claimed = claim.iter().enumerate();
        claimed.all(|(at, amount)| of(&self.used, at).saturating_add(*amount) <= of(capacity, at))
    }

    /// Adds the claim of a run that has started.
    pub(super) fn occupy(&mut self, claim: &[u64]) {
        if claim.is_empty() {
            return;
        }
        self.claimants += 1;
        if self.used.len() < claim.len() {
            self.used.resize(claim.len(), 0);
        }
        for (used, amount) in self.used.iter_mut().zip(claim) {
            *used = used.saturating_add(*amount);
        }
    }

    /// Releases the claim of a run that is over.
    pub(super) fn release(&mut self, claim: &[u64]) {
        if claim.is_empty() {
            return;
        }
        assert!(self.claimants > 0, "a claim is released that no run had");
        self.claimants -= 1;
        for (used, amount) in self.used.iter_mut().zip(claim) {
            *used = used.saturating_sub(*amount);
        }
    }

    pub(super) fn push(&mut self, run: RunKey, launch: Box<Launch>) {
        assert!(!self.contains(run), "{run} waits already");
        self.positions.insert(run, self.next_position);
        self.waiting.insert(self.next_position, (run, launch));
        self.next_position += 1;
    }

    pub(super) fn contains(&self, run: RunKey) -> bool {
        self.positions.contains_key(&run)
    }

    /// Removes a launch from any position.
    pub(super) fn remove(&mut self, run: RunKey) -> Option<Box<Launch>> {
        let position = self.positions.remove(&run)?;
        self.waiting.remove(&position).map(|(_, launch)| launch)
    }

    /// Removes the first launch, if it fits and is ready otherwise.
    pub(super) fn next_fitting(
        &mut self,
        is_ready: impl FnOnce(&Launch) -> bool,
    ) -> Option<(RunKey, Box<Launch>)> {
        let (_, (_, launch)) = self.waiting.first_key_value()?;
        if !self.fits(&launch.claim) || !is_ready(launch) {
            return None;
        }
        self.next()
    }

    /// Removes the first launch.
    pub(super) fn next(&mut self) -> Option<(RunKey, Box<Launch>)> {
        let (_, (run, launch)) = self.waiting.pop_first()?;
        self.positions.remove(&run);
        Some((run, launch))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// For the greeting, and for a compacted log.
    pub(super) fn known(&self) -> impl Iterator<Item = KnownRun> + '_ {
        let waiting = self.waiting.values();
        waiting.map(|(run, launch)| KnownRun::waiting(*run, launch.tag.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::task::RunNo;

    fn key(number: u64) -> RunKey {
        RunKey {
            process: ProcessNo(0),
            run: RunNo(number),
        }
    }

    fn push(queue: &mut Queue, number: u64, claim: &[u64]) {
        let launch = Launch {
            claim: claim.to_vec(),
            ..Launch::default()
        };
        queue.push(key(number), Box::new(launch));
    }

    fn next(queue: &mut Queue) -> Option<u64> {
        let (run, launch) = queue.next_fitting(|_| true)?;
        queue.occupy(&launch.claim);
        Some(run.run.0)
    }

    #[test]
    fn no_launch_waits_before_a_capacity_is_set() {
        let mut queue = Queue::default();
        queue.occupy(&[u64::MAX]);
        assert!(!queue.must_wait(&[u64::MAX]));
        queue.set_capacity(vec![1]);
        assert!(queue.must_wait(&[1]), "what runs already counts");
        assert!(!queue.must_wait(&[]));
    }

    #[test]
    fn a_small_one_does_not_overtake_a_large_one() {
        let mut queue = Queue::default();
        queue.set_capacity(vec![4, 10]);
        queue.occupy(&[3, 1]);
        push(&mut queue, 0, &[2, 1]);
        assert!(queue.must_wait(&[1, 0]), "it would fit, but one waits");
        push(&mut queue, 1, &[1, 0]);
        assert_eq!(next(&mut queue), None);
        queue.release(&[3, 1]);
        assert_eq!(next(&mut queue), Some(0));
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn what_can_never_fit_runs_alone() {
        let mut queue = Queue::default();
        queue.set_capacity(vec![2]);
        queue.occupy(&[1]);
        push(&mut queue, 0, &[3]);
        push(&mut queue, 1, &[0, 1]);
        push(&mut queue, 2, &[1]);
        assert_eq!(next(&mut queue), None);
        queue.release(&[1]);
        assert_eq!(next(&mut queue), Some(0));
        assert_eq!(next(&mut queue), None, "nothing beside it");
        queue.release(&[3]);
        assert_eq!(next(&mut queue), Some(1), "nothing is known of the second");
        assert_eq!(next(&mut queue), Some(2), "which takes none of the first");
    }

    #[test]
    fn a_removed_launch_blocks_no_other() {
        let mut queue = Queue::default();
        queue.set_capacity(vec![1]);
        queue.occupy(&[1]);
        push(&mut queue, 0, &[1]);
        push(&mut queue, 1, &[0]);
        assert!(queue.remove(key(0)).is_some());
        assert!(queue.remove(key(0)).is_none());
        assert!(!queue.contains(key(0)));
        assert_eq!(next(&mut queue), Some(1));
    }
}
