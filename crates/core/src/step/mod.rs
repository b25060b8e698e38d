//! Write-ahead rule, enforced by types: no effect leaves before its facts are durable.
//!
//! A state machine answers each input with a [`Step`]: *facts* that must be stored and
//! *effects* (messages, replies) for others. The effects of a step are private.
//! The only way to them leads through the [`Outbox`]:
//!
//! ```text
//!   machine ──Step──▶ Outbox::accept ──Batch──▶ store ──Batch::durable──▶ Receipt
//!                        │                                                   │
//!                        └────────── effects ◀── Outbox::release ◀───────────┘
//! ```
//!
//! * A [`Receipt`] can be made only by consuming the [`Batch`] that it is for.
//! * Effects leave in the order in which they were decided. A step without facts
//!   still waits for the facts before it: its effects may depend on them.
//! * A step may be *fenced*: it has no facts to keep, but its effects promise
//!   something in the leader's name (a heartbeat reply extends a lease), so they
//!   too wait for a commit that the store has accepted under the leader's epoch.
//!
//! ```compile_fail
//! use baton_core::step::Step;
//! fn impatient(step: Step<u8, String>) -> Vec<String> {
//!     step.effects // private: there is no way around the outbox
//! }
//! ```
//!
//! ```compile_fail
//! use baton_core::step::{Batch, Receipt};
//! fn forger(batch: &Batch<u8>) -> Receipt {
//!     batch.durable() // takes the batch by value: one batch, one receipt
//! }
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use baton_model::ids::Epoch;
use baton_model::principal::Principal;

/// Orders the batches of one leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitSeq(u64);

/// The decision of a state machine about one input: facts and effects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a step that is dropped is a decision that never happened"]
pub struct Step<F, E> {
    facts: Vec<F>,
    by: Requesters,
    effects: Vec<E>,
    fenced: bool,
    #[cfg(feature = "seeded-bugs")]
    leaked: Vec<E>,
}

impl<F, E> Default for Step<F, E> {
    fn default() -> Self {
        Self {
            facts: Vec::new(),
            by: Requesters::default(),
            effects: Vec::new(),
            fenced: false,
            #[cfg(feature = "seeded-bugs")]
            leaked: Vec::new(),
        }
    }
}

impl<F, E> Step<F, E> {
    /// Adds something to keep.
    pub(crate) fn record(&mut self, fact: F) {
        self.facts.push(fact);
    }

    /// Adds something to keep that a client has asked for, if it is known.
    pub(crate) fn record_by(&mut self, fact: F, by: Option<&Arc<Principal>>) {
        if let Some(by) = by {
            self.by.add(self.facts.len(), by);
        }
        self.facts.push(fact);
    }

    /// Adds an effect, released once all facts recorded so far are durable.
    pub(crate) fn emit(&mut self, effect: E) {
        self.effects.push(effect);
    }

    /// Demands that the store confirms the epoch before the effects leave.
    pub(crate) fn fence(&mut self) {
        self.fenced = true;
    }

    /// Appends the next step: the facts of both are stored atomically, and no
    /// effect is released before. For a driver that takes many inputs at once.
    pub fn append(&mut self, mut next: Self) {
        self.by.append(next.by, self.facts.len());
        self.facts.append(&mut next.facts);
        self.effects.append(&mut next.effects);
        self.fenced |= next.fenced;
        seeded! { self.leaked.append(&mut next.leaked); }
    }

    /// Releases an effect early: a seeded bug that the simulator must find.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn leak(&mut self, effect: E) {
        self.leaked.push(effect);
    }

    /// A step without effects: facts to commit, or, without any, a fence. Tests of stores
    /// use it. It cannot send anything before its time, because it has nothing to send.
    pub fn keeping(facts: Vec<F>) -> Self {
        Self {
            facts,
            fenced: true,
            ..Self::default()
        }
    }

    /// The same facts, all of which a client has asked for, if it is known.
    pub fn requested_by(mut self, by: Option<Arc<Principal>>) -> Self {
        let all = 0..self.facts.len();
        let by = by.filter(|_| !all.is_empty());
        self.by = Requesters(by.map(|by| (all, by)).into_iter().collect());
        self
    }

    /// True if it has neither facts nor effects.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.effects.is_empty() && !self.fenced
    }

    /// The facts; for tests and transcripts.
    pub fn facts(&self) -> &[F] {
        &self.facts
    }

    /// The facts, each with the client that has asked for it, if it is known.
    pub fn requests(&self) -> impl Iterator<Item = (&F, Option<&Arc<Principal>>)> {
        self.by.of(&self.facts)
    }
}

/// The clients that have asked for facts: each for a range of them, by position.
///
/// A client is recorded with its step and not in the facts: no decision depends on it, so replay does not need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Requesters(Vec<(Range<usize>, Arc<Principal>)>);

impl Requesters {
    /// Adds the next fact, at this position.
    fn add(&mut self, at: usize, by: &Arc<Principal>) {
        match self.0.last_mut() {
            Some((range, last)) if range.end == at && last == by => range.end += 1,
            _ => self.0.push((at..at + 1, Arc::clone(by))),
        }
    }

    /// Adds those of a step whose facts begin at this position.
    fn append(&mut self, next: Self, at: usize) {
        let next = next.0.into_iter();
        let next = next.map(|(range, by)| (range.start + at..range.end + at, by));
        self.0.extend(next);
    }

    /// The facts with their clients.
    fn of<'a, F>(
        &'a self,
        facts: &'a [F],
    ) -> impl Iterator<Item = (&'a F, Option<&'a Arc<Principal>>)> {
        let mut ranges = self.0.iter().peekable();
        facts.iter().enumerate().map(move |(at, fact)| {
            while ranges.next_if(|(range, _)| range.end <= at).is_some() {}
            let by = ranges.peek().filter(|(range, _)| range.contains(&at));
            (fact, by.map(|(_, by)| by))
        })
    }
}

/// Facts for the store, to be written as one atomic unit, and only
/// if the store's epoch still equals [`Batch::epoch`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch<F> {
    epoch: Epoch,
    seq: CommitSeq,
    facts: Vec<F>,
    by: Requesters,
}

impl<F> Batch<F> {
    /// The leader in whose name the facts are written.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The facts to write; empty for a batch that is only a fence.
    pub fn facts(&self) -> &[F] {
        &self.facts
    }

    /// The facts to write, each with the client that has asked for it, if it is known.
    pub fn requests(&self) -> impl Iterator<Item = (&F, Option<&Arc<Principal>>)> {
        self.by.of(&self.facts)
    }

    /// Turns the batch into its receipt. To be called by a store, after it has
    /// checked the epoch and made the facts durable, in the order of acceptance.
    pub fn durable(self) -> Receipt {
        Receipt {
            epoch: self.epoch,
            seq: self.seq,
        }
    }
}

/// The store's confirmation that a batch, and every batch before it, is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "without its receipt the outbox keeps the effects for ever"]
pub struct Receipt {
    epoch: Epoch,
    seq: CommitSeq,
}

/// Holds back the effects of one leader until the store has confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox<E> {
    epoch: Epoch,
    last: CommitSeq,
    durable: CommitSeq,
    waiting: VecDeque<(CommitSeq, Vec<E>)>,
    ready: VecDeque<E>,
}

impl<E> Outbox<E> {
    /// An empty outbox for the leader of `epoch`.
    pub const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            last: CommitSeq(0),
            durable: CommitSeq(0),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Takes a step. Hand the batch, if there is one, to the store.
    pub fn accept<F>(&mut self, step: Step<F, E>) -> Option<Batch<F>> {
        seeded! { self.ready.extend(step.leaked); }
        let needs_receipt = !step.facts.is_empty() || step.fenced;
        if needs_receipt {
            self.last = CommitSeq(self.last.0 + 1);
        }
        if self.last == self.durable {
            self.ready.extend(step.effects);
        } else if !step.effects.is_empty() {
            self.waiting.push_back((self.last, step.effects));
        }
        needs_receipt.then_some(Batch {
            epoch: self.epoch,
            seq: self.last,
            facts: step.facts,
            by: step.by,
        })
    }

    /// Releases every effect that waited for this receipt or an earlier one. A
    /// receipt of another epoch releases nothing.
    pub fn release(&mut self, receipt: Receipt) {
        if receipt.epoch != self.epoch {
            return;
        }
        assert!(
            receipt.seq <= self.last,
            "a receipt for a batch that was never accepted: {receipt:?}"
        );
        self.durable = self.durable.max(receipt.seq);
        let first = self.waiting.front().map(|(seq, _)| *seq);
        assert!(
            first.is_none_or(|seq| seq <= self.last),
            "effects wait for a batch that was never accepted"
        );
        while let Some((seq, _)) = self.waiting.front() {
            if *seq > self.durable {
                break;
            }
            if let Some((_, effects)) = self.waiting.pop_front() {
                self.ready.extend(effects);
            }
        }
    }

    /// The effects that may leave now, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = E> + '_ {
        self.ready.drain(..)
    }

    /// True if nothing waits for a receipt.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.last == self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(facts: &[u8], effects: &[&'static str], fenced: bool) -> Step<u8, &'static str> {
        let mut step = Step::default();
        facts.iter().for_each(|fact| step.record(*fact));
        effects.iter().for_each(|effect| step.emit(*effect));
        if fenced {
            step.fence();
        }
        step
    }

    fn left(outbox: &mut Outbox<&'static str>) -> Vec<&'static str> {
        outbox.drain().collect()
    }

    #[test]
    fn effects_wait_for_the_receipt_of_their_facts() {
        let mut outbox = Outbox::new(Epoch(1));
        let batch = outbox
            .accept(step(&[1], &["told"], false))
            .expect("facts make a batch");
        assert!(left(&mut outbox).is_empty());
        outbox.release(batch.durable());
        assert_eq!(left(&mut outbox), ["told"]);
        assert!(outbox.is_idle());
    }

    #[test]
    fn a_step_without_facts_waits_for_those_before_it() {
        let mut outbox = Outbox::new(Epoch(1));
        let batch = outbox
            .accept(step(&[1], &[], false))
            .expect("facts make a batch");
        assert_eq!(outbox.accept(step(&[], &["rests on 1"], false)), None);
        assert!(left(&mut outbox).is_empty());
        outbox.release(batch.durable());
        assert_eq!(left(&mut outbox), ["rests on 1"]);
    }

    #[test]
    fn with_nothing_pending_a_step_without_facts_leaves_at_once() {
        let mut outbox = Outbox::new(Epoch(1));
        assert_eq!(outbox.accept(step(&[], &["hello"], false)), None);
        assert_eq!(left(&mut outbox), ["hello"]);
    }

    #[test]
    fn a_fence_needs_a_receipt_although_it_keeps_nothing() {
        let mut outbox = Outbox::new(Epoch(1));
        let batch = outbox
            .accept(step(&[], &["promise"], true))
            .expect("a fence is a batch");
        assert!(batch.facts().is_empty());
        assert!(left(&mut outbox).is_empty());
        outbox.release(batch.durable());
        assert_eq!(left(&mut outbox), ["promise"]);
    }

    #[test]
    fn a_step_that_only_keeps_is_a_batch_with_and_without_facts() {
        let mut outbox: Outbox<()> = Outbox::new(Epoch(1));
        let batch = outbox.accept(Step::keeping(vec![1, 2]));
        assert_eq!(batch.expect("facts make a batch").facts(), [1, 2]);
        let fence = outbox.accept(Step::<u8, ()>::keeping(Vec::new()));
        assert!(fence.expect("a fence is a batch").facts().is_empty());
    }

    #[test]
    fn two_steps_in_one_are_one_batch_and_speak_together() {
        let mut outbox = Outbox::new(Epoch(1));
        let mut both = step(&[1], &["first"], false);
        both.append(step(&[2], &["second"], false));
        let batch = outbox.accept(both).expect("facts make a batch");
        assert_eq!(batch.facts(), [1, 2]);
        assert!(left(&mut outbox).is_empty());
        outbox.release(batch.durable());
        assert_eq!(left(&mut outbox), ["first", "second"]);
        let mut fenced = step(&[], &["a"], false);
        fenced.append(step(&[], &["b"], true));
        assert!(outbox.accept(fenced).is_some(), "a fence stays one");
    }

    #[test]
    fn each_fact_of_a_batch_has_the_client_of_its_own_step() {
        let client = |name: &str| {
            let name = name.to_owned();
            Arc::new(Principal::Certificate { name })
        };
        let (ann, ben) = (client("ann"), client("ben"));
        let mut all = step(&[1], &[], false);
        let mut next: Step<u8, &'static str> = Step::default();
        next.record_by(2, Some(&ann));
        next.record_by(3, Some(&ann));
        next.record(4);
        all.append(next);
        all.append(Step::keeping(vec![5]).requested_by(Some(Arc::clone(&ben))));
        all.append(step(&[6], &[], false));
        let expected = [
            (1, None),
            (2, Some(&ann)),
            (3, Some(&ann)),
            (4, None),
            (5, Some(&ben)),
            (6, None),
        ];
        let requests: Vec<_> = all.requests().map(|(fact, by)| (*fact, by)).collect();
        assert_eq!(requests, expected);
        let batch = Outbox::new(Epoch(1)).accept(all).expect("a batch");
        let requests: Vec<_> = batch.requests().map(|(fact, by)| (*fact, by)).collect();
        assert_eq!(requests, expected);
    }

    #[test]
    fn a_later_receipt_covers_earlier_batches_in_order() {
        let mut outbox = Outbox::new(Epoch(1));
        let _first = outbox.accept(step(&[1], &["a"], false));
        let second = outbox
            .accept(step(&[2], &["b"], false))
            .expect("facts make a batch");
        outbox.release(second.durable());
        assert_eq!(left(&mut outbox), ["a", "b"]);
    }

    #[test]
    fn a_receipt_of_another_epoch_frees_nothing() {
        let mut before = Outbox::new(Epoch(1));
        let old = before
            .accept(step(&[1], &["old"], false))
            .expect("facts make a batch");
        let mut after = Outbox::new(Epoch(2));
        let _new = after.accept(step(&[1], &["new"], false));
        after.release(old.durable());
        assert!(left(&mut after).is_empty());
    }
}
