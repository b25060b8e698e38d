//! Clients that wait for instances to end.

use std::collections::{HashMap, VecDeque};

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use tokio::sync::oneshot;

/// First and last id, both inclusive.
type Span = (InstanceId, InstanceId);

#[derive(Debug)]
struct Watcher {
    span: Span,
    notify: oneshot::Sender<()>,
}

/// Waiting clients, and ends that are not durable yet.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Waiters for one instance: the common case.
    singles: HashMap<InstanceId, Vec<oneshot::Sender<()>>>,
    ranges: Vec<Watcher>,
    /// Ends decided in this turn.
    decided: Vec<Span>,
    /// Ends of each batch that the store has not committed yet, oldest first.
    unconfirmed: VecDeque<Vec<Span>>,
}

impl Watch {
    /// Records decided ends. The leader has already dropped these instances from memory.
    pub(super) fn decided(&mut self, facts: &[Fact]) {
        let ends = facts.iter().filter_map(|fact| match fact {
            Fact::AttemptEnded { .. } | Fact::InstancesHalted { .. } => fact.instances(),
            _ => None,
        });
        self.decided.extend(ends);
    }

    /// Records that the ends of this turn were submitted as one batch.
    pub(super) fn submitted(&mut self) {
        let ends = std::mem::take(&mut self.decided);
        self.unconfirmed.push_back(ends);
    }

    /// Records that the oldest batch is durable, and notifies its waiters.
    pub(super) fn confirmed(&mut self, ledger: &Ledger) {
        let ends = self.unconfirmed.pop_front().unwrap_or_default();
        if self.singles.is_empty() && self.ranges.is_empty() {
            return;
        }
        for (first, last) in ends {
            if first == last {
                self.settle_single(ledger, first);
            } else {
                let ids: Vec<_> = self.singles.keys().copied().collect();
                let within = ids.into_iter().filter(|id| (first..=last).contains(id));
                within.for_each(|id| self.settle_single(ledger, id));
            }
            self.settle_ranges(ledger, (first, last));
        }
    }

    /// Drops everything that was not durable, with the leader.
    pub(super) fn dropped(&mut self) {
        self.decided.clear();
        self.unconfirmed.clear();
    }

    /// Settles all waits against the state of a new leader.
    pub(super) fn begun(&mut self, ledger: &Ledger) {
        let ids: Vec<_> = self.singles.keys().copied().collect();
        ids.into_iter()
            .for_each(|id| self.settle_single(ledger, id));
        self.settle_ranges(ledger, (InstanceId(0), InstanceId(u64::MAX)));
    }

    /// Adds a waiter for the end of all of `span`; without a leader it waits for the next one.
    pub(super) fn add(&mut self, ledger: Option<&Ledger>, span: Span, notify: oneshot::Sender<()>) {
        if ledger.is_some_and(|ledger| self.is_over(ledger, span)) {
            // The client may be gone.
            let _ = notify.send(());
        } else if span.0 == span.1 {
            let waiters = self.singles.entry(span.0).or_default();
            waiters.retain(|notify| !notify.is_closed());
            waiters.push(notify);
        } else {
            self.ranges.retain(|watcher| !watcher.notify.is_closed());
            self.ranges.push(Watcher { span, notify });
        }
    }

    /// Removes waiters that have given up.
    pub(super) fn sweep(&mut self) {
        self.ranges.retain(|watcher| !watcher.notify.is_closed());
        self.singles.retain(|_, waiters| {
            waiters.retain(|notify| !notify.is_closed());
            !waiters.is_empty()
        });
    }

    fn settle_single(&mut self, ledger: &Ledger, id: InstanceId) {
        if self.singles.contains_key(&id) && self.is_over(ledger, (id, id)) {
            for notify in self.singles.remove(&id).unwrap_or_default() {
                let _ = notify.send(());
            }
        }
    }

    fn settle_ranges(&mut self, ledger: &Ledger, ended: Span) {
        let touched = |span: Span| span.0 <= ended.1 && ended.0 <= span.1;
        for watcher in std::mem::take(&mut self.ranges) {
            if touched(watcher.span) && self.is_over(ledger, watcher.span) {
                let _ = watcher.notify.send(());
            } else {
                self.ranges.push(watcher);
            }
        }
    }

    /// True if all of them have ended, and that is durable.
    fn is_over(&self, ledger: &Ledger, (first, last): Span) -> bool {
        let is_live = ledger.waiting_within(first, last).next().is_some()
            || ledger.requeued(first, last).next().is_some()
            || ledger.leased(first, last).next().is_some();
        let in_flight = || {
            let mut ends = self.unconfirmed.iter().flatten().chain(&self.decided);
            ends.any(|end| end.0 <= last && first <= end.1)
        };
        !is_live && !in_flight()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn submitted(first: u64, last: u64) -> Ledger {
        let mut ledger = Ledger::default();
        let fact = Fact::InstancesSubmitted {
            first: InstanceId(first),
            last: InstanceId(last),
            spec: Arc::default(),
        };
        ledger.apply(&fact).expect("fits");
        ledger
    }

    fn halt(ledger: &mut Ledger, watch: &mut Watch, first: u64, last: u64) {
        let fact = Fact::InstancesHalted {
            first: InstanceId(first),
            last: InstanceId(last),
            reason: None,
        };
        ledger.apply(&fact).expect("fits");
        ledger.drop_all_ended();
        watch.decided(&[fact]);
        watch.submitted();
    }

    fn wait(watch: &mut Watch, ledger: &Ledger, first: u64, last: u64) -> oneshot::Receiver<()> {
        let (notify, notified) = oneshot::channel();
        watch.add(Some(ledger), (InstanceId(first), InstanceId(last)), notify);
        notified
    }

    #[test]
    fn one_and_a_range_hear_of_the_end_when_it_is_durable_and_not_before() {
        let mut ledger = submitted(1, 9);
        let mut watch = Watch::default();
        let mut one = wait(&mut watch, &ledger, 3, 3);
        let mut all = wait(&mut watch, &ledger, 1, 9);
        halt(&mut ledger, &mut watch, 1, 4);
        assert!(one.try_recv().is_err());
        let mut late = wait(&mut watch, &ledger, 2, 2);
        assert!(late.try_recv().is_err());
        watch.confirmed(&ledger);
        assert!(one.try_recv().is_ok());
        assert!(late.try_recv().is_ok());
        assert!(all.try_recv().is_err());
        halt(&mut ledger, &mut watch, 5, 9);
        watch.confirmed(&ledger);
        assert!(all.try_recv().is_ok());
    }

    #[test]
    fn what_is_over_or_unknown_is_told_at_once() {
        let ledger = submitted(1, 2);
        let mut watch = Watch::default();
        assert!(wait(&mut watch, &ledger, 7, 7).try_recv().is_ok());
        assert!(wait(&mut watch, &ledger, 2, 7).try_recv().is_err());
    }

    #[test]
    fn a_new_leader_settles_what_the_one_before_left_open() {
        let mut ledger = submitted(1, 1);
        let mut watch = Watch::default();
        let mut one = wait(&mut watch, &ledger, 1, 1);
        halt(&mut ledger, &mut watch, 1, 1);
        watch.dropped();
        watch.begun(&submitted(1, 1));
        assert!(one.try_recv().is_err());
        watch.begun(&ledger);
        assert!(one.try_recv().is_ok());
    }
}
