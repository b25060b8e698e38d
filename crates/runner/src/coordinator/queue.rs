//! Who has to wait: launches that claim more than is free.
//!
//! Strictly first come first served among launches with a claim. A large one is not
//! overtaken by small ones for ever, and the order is the one that was asked for. What
//! claims nothing never waits. Each operation costs the logarithm of the queue's length,
//! and asking who is next costs nothing.

use std::collections::BTreeMap;

use crate::wire::{KnownRun, Launch, RunKey};

/// Who waits, and what is in use.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// `None` until it was said; then nobody waits.
    capacity: Option<Vec<u64>>,
    used: Vec<u64>,
    /// How many run with a claim.
    claimants: usize,
    /// In the order in which they came.
    waiting: BTreeMap<u64, (RunKey, Box<Launch>)>,
    places: BTreeMap<RunKey, u64>,
    next_place: u64,
}

impl Queue {
    pub(super) fn set_capacity(&mut self, amounts: Vec<u64>) {
        self.capacity = Some(amounts);
    }

    /// True if a launch that comes now has to wait.
    pub(super) fn must_wait(&self, claim: &[u64]) -> bool {
        !claim.is_empty() && (!self.waiting.is_empty() || !self.fits(claim))
    }

    fn fits(&self, claim: &[u64]) -> bool {
        let Some(capacity) = &self.capacity else {
            return true;
        };
        let of = |amounts: &[u64], at: usize| amounts.get(at).copied().unwrap_or(0);
        let mut claimed = claim.iter().enumerate();
        if claimed.any(|(at, amount)| *amount > of(capacity, at)) {
            // It never will; so it runs alone, rather than never.
            return self.claimants == 0;
        }
        let mut claimed = claim.iter().enumerate();
        claimed.all(|(at, amount)| of(&self.used, at).saturating_add(*amount) <= of(capacity, at))
    }

    /// A run with this claim has started.
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

    /// It is over.
    pub(super) fn release(&mut self, claim: &[u64]) {
        if claim.is_empty() {
            return;
        }
        self.claimants = self.claimants.saturating_sub(1);
        for (used, amount) in self.used.iter_mut().zip(claim) {
            *used = used.saturating_sub(*amount);
        }
    }

    pub(super) fn push(&mut self, run: RunKey, launch: Box<Launch>) {
        self.places.insert(run, self.next_place);
        self.waiting.insert(self.next_place, (run, launch));
        self.next_place += 1;
    }

    pub(super) fn contains(&self, run: RunKey) -> bool {
        self.places.contains_key(&run)
    }

    /// Takes one out, wherever it stands.
    pub(super) fn remove(&mut self, run: RunKey) -> Option<Box<Launch>> {
        let place = self.places.remove(&run)?;
        self.waiting.remove(&place).map(|(_, launch)| launch)
    }

    /// Takes the first one out, if it fits.
    pub(super) fn next_fitting(&mut self) -> Option<(RunKey, Box<Launch>)> {
        let (_, (_, launch)) = self.waiting.first_key_value()?;
        if !self.fits(&launch.claim) {
            return None;
        }
        self.next()
    }

    /// Takes the first one out.
    pub(super) fn next(&mut self) -> Option<(RunKey, Box<Launch>)> {
        let (_, (run, launch)) = self.waiting.pop_first()?;
        self.places.remove(&run);
        Some((run, launch))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// For the greeting, and for a compacted log.
    pub(super) fn known(&self) -> impl Iterator<Item = KnownRun> + '_ {
        self.waiting.values().map(|(run, launch)| KnownRun {
            run: *run,
            started: None,
            ended: None,
            waiting: true,
            tag: launch.tag.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::task::{ProcessNo, RunNo};

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
        let (run, launch) = queue.next_fitting()?;
        queue.occupy(&launch.claim);
        Some(run.run.0)
    }

    #[test]
    fn nobody_waits_before_there_is_a_capacity() {
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
    fn one_that_is_taken_out_holds_nobody_up() {
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
