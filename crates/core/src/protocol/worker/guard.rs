//! The dead-man timer.
//!
//! It runs in the coordinator, not in the agent: an agent that is stopped, hung
//! or gone cannot keep work alive past its lease. The agent only moves the
//! deadlines, each time a leader answers one of its heartbeats. Each attempt has a
//! deadline of its own, by its [`LeaseTerm`]; one that was passed stays passed, so that an
//! order in flight cannot save an attempt after its killing has begun.
//!
//! A coordinator may be killed together with its agent, or be stopped. For that there is
//! a second timer, the [`Backstop`], in the reaper: the parent of coordinators.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

use super::io::GuardOrder;

/// An action for the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GuardAction<K> {
    /// SIGTERM to these attempts.
    Terminate(Vec<K>),
    /// SIGKILL to these.
    Kill(Vec<K>),
}

/// The timer of one incarnation, over the attempts that its coordinator watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeadMan<K: Ord> {
    order: Option<GuardOrder>,
    terms: BTreeMap<K, LeaseTerm>,
    /// Attempts before their deadline, by their term.
    watched: BTreeMap<LeaseTerm, BTreeSet<K>>,
    /// Attempts that were terminated, and when they are killed.
    dying: BTreeSet<(Mono, K)>,
}

impl<K: Ord> Default for DeadMan<K> {
    fn default() -> Self {
        Self {
            order: None,
            terms: BTreeMap::new(),
            watched: BTreeMap::new(),
            dying: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy> DeadMan<K> {
    /// Takes the order that answers the later heartbeat. A new leader may allow less time than the
    /// one before, and counts from the same heartbeat, so its deadline may well be the earlier one.
    pub fn extend(&mut self, order: GuardOrder) {
        if self.order.is_none_or(|held| order.stamp > held.stamp) {
            self.order = Some(order);
        }
    }

    /// The order in force, for an agent that starts again.
    #[must_use]
    pub const fn order(&self) -> Option<GuardOrder> {
        self.order
    }

    /// Watches an attempt from now on.
    pub fn watch(&mut self, attempt: K, term: LeaseTerm) {
        self.unwatch(attempt);
        self.terms.insert(attempt, term);
        self.watched.entry(term).or_default().insert(attempt);
    }

    /// The attempt is over.
    pub fn unwatch(&mut self, attempt: K) {
        let Some(term) = self.terms.remove(&attempt) else {
            return;
        };
        if let Some(watched) = self.watched.get_mut(&term) {
            watched.remove(&attempt);
            if watched.is_empty() {
                self.watched.remove(&term);
            }
        }
        self.dying.retain(|(_, dying)| *dying != attempt);
    }

    /// True if an attempt of this term may be launched: the timer is set, and has not run out.
    #[must_use]
    pub fn admits(&self, now: Mono, term: LeaseTerm) -> bool {
        let in_time = |order: GuardOrder| {
            let own = order.deadline_of(term);
            now < order.deadline && own.is_none_or(|own| now < own)
        };
        self.order.is_some_and(in_time)
    }

    /// The next action that is due.
    pub fn poll(&mut self, now: Mono) -> Option<GuardAction<K>> {
        let order = self.order;
        let is_past = |term: &LeaseTerm| {
            let deadline = order.and_then(|order| order.deadline_of(*term));
            deadline.is_some_and(|deadline| now >= deadline)
        };
        let past: Vec<LeaseTerm> = self.watched.keys().copied().filter(is_past).collect();
        if !past.is_empty() {
            let mut terminated = Vec::new();
            for term in past {
                // A timer that is late, because the host slept, shortens the grace.
                let kill_at = self.kill_time(term).unwrap_or(now);
                let attempts = self.watched.remove(&term).unwrap_or_default();
                self.dying.extend(attempts.iter().map(|it| (kill_at, *it)));
                terminated.extend(attempts);
            }
            return Some(GuardAction::Terminate(terminated));
        }
        let mut killed = Vec::new();
        while let Some((at, attempt)) = self.dying.pop_first() {
            if at > now {
                self.dying.insert((at, attempt));
                break;
            }
            killed.push(attempt);
        }
        (!killed.is_empty()).then_some(GuardAction::Kill(killed))
    }

    /// When [`Self::poll`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        let order = self.order;
        let terms = self.watched.keys();
        let deadlines = terms.filter_map(|term| order?.deadline_of(*term));
        let kill = self.dying.first().map(|(at, _)| *at);
        deadlines.chain(kill).min()
    }

    fn kill_time(&self, term: LeaseTerm) -> Option<Mono> {
        let order = self.order?;
        order
            .deadline_of(term)
            .map(|deadline| deadline + order.grace)
    }
}

/// The pause before the backstop kills again what it could not kill.
const BACKSTOP_RETRY: Millis = Millis::from_secs(1);

/// When the backstop looks for the first time which deadlines are ahead, after the heartbeat that
/// was answered last. Shorter than any term, and than the pause that a restart usually takes.
const BACKSTOP_FIRST: Millis = Millis::from_secs(10);

/// The pause between two looks for as long as attempts may still be launched: one with a short term
/// may have come since. Far shorter than the slack of the time budget.
const BACKSTOP_EVERY: Millis = Millis::from_secs(3);

/// The second timer, of the reaper. It fires when the first must have killed an attempt.
///
/// The reaper does not know the attempts: it finds their processes, each of which carries its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backstop {
    order: Option<GuardOrder>,
    look_at: Option<Mono>,
}

impl Backstop {
    /// Takes the order in force; `None` if there is no work left.
    pub fn set(&mut self, order: Option<GuardOrder>) {
        self.order = order;
        self.look_at = order
            .map(|order| Self::last(order, order.deadline).min(order.stamp.0 + BACKSTOP_FIRST));
    }

    /// True if it is time to look for processes whose deadline has passed. The caller kills those
    /// for which [`Self::is_past`], and reports with [`Self::looked`].
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.look_at.is_some_and(|at| now >= at)
    }

    /// True if an attempt of this term must be dead by now.
    #[must_use]
    pub fn is_past(&self, now: Mono, term: LeaseTerm) -> bool {
        self.kill_time(term).is_some_and(|at| now >= at)
    }

    /// When an attempt of this term is killed.
    ///
    /// The coordinator gets half the grace to do the same, and knows how everything has ended.
    /// The time budget of a lease (`kill_slack`) leaves room for it.
    #[must_use]
    pub fn kill_time(&self, term: LeaseTerm) -> Option<Mono> {
        let order = self.order?;
        order
            .deadline_of(term)
            .map(|deadline| Self::last(order, deadline))
    }

    /// Processes past their deadline were killed, except so many; the others have these terms.
    pub fn looked(&mut self, now: Mono, left: usize, terms: impl IntoIterator<Item = LeaseTerm>) {
        let retry = (left > 0).then(|| now + BACKSTOP_RETRY);
        let ahead = terms.into_iter().filter_map(|term| self.kill_time(term));
        let launches_until = self.order.map(|order| order.deadline);
        let may_launch = launches_until.is_some_and(|until| now < until);
        let again = may_launch.then(|| now + BACKSTOP_EVERY);
        self.look_at = ahead.chain(retry).chain(again).min();
    }

    /// When to look; `None` while there is no order, or nothing left with a deadline.
    #[must_use]
    pub const fn next_due(&self) -> Option<Mono> {
        self.look_at
    }

    fn last(order: GuardOrder, deadline: Mono) -> Mono {
        deadline + order.grace + order.grace.scaled(1, 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::Epoch;
    use baton_model::time::Stamp;
    use baton_model::timeouts::Timeouts;

    // The worker's shares of these are 40 and 400 ms.
    const SHORT: LeaseTerm = LeaseTerm::For(Millis(60));
    const LONG: LeaseTerm = LeaseTerm::For(Millis(510));

    /// Answers the heartbeat of this time, with a lease of 100 ms.
    fn order(stamp: u64) -> GuardOrder {
        GuardOrder {
            deadline: Mono(stamp + 100),
            grace: Millis(5),
            kill_max: Millis(8),
            epoch: Epoch(1),
            stamp: Stamp(Mono(stamp)),
        }
    }

    fn guard(terms: &[LeaseTerm]) -> DeadMan<u32> {
        let mut guard = DeadMan::default();
        guard.extend(order(0));
        for (attempt, term) in (1..).zip(terms) {
            guard.watch(attempt, *term);
        }
        guard
    }

    fn terminate(attempts: &[u32]) -> Option<GuardAction<u32>> {
        Some(GuardAction::Terminate(attempts.to_vec()))
    }

    fn kill(attempts: &[u32]) -> Option<GuardAction<u32>> {
        Some(GuardAction::Kill(attempts.to_vec()))
    }

    #[test]
    fn terminates_at_the_deadline_and_kills_after_the_grace() {
        let mut guard = guard(&[LeaseTerm::Lease, LeaseTerm::Lease]);
        assert_eq!(guard.poll(Mono(99)), None);
        assert_eq!(guard.poll(Mono(100)), terminate(&[1, 2]));
        guard.unwatch(2);
        assert_eq!(guard.poll(Mono(104)), None);
        assert_eq!(guard.poll(Mono(105)), kill(&[1]));
        assert_eq!(guard.poll(Mono(999)), None);
    }

    #[test]
    fn each_attempt_has_the_deadline_of_its_own_term() {
        let mut guard = guard(&[LONG, LeaseTerm::Unlimited, SHORT, LeaseTerm::Lease]);
        assert_eq!(guard.next_due(), Some(Mono(40)));
        assert_eq!(guard.poll(Mono(40)), terminate(&[3]));
        assert_eq!(guard.poll(Mono(100)), terminate(&[4]));
        assert_eq!(guard.poll(Mono(105)), kill(&[3, 4]));
        assert_eq!(guard.poll(Mono(400)), terminate(&[1]));
        assert_eq!(guard.poll(Mono(405)), kill(&[1]));
        assert_eq!(guard.next_due(), None, "2 is never killed by time");
    }

    #[test]
    fn an_attempt_past_its_deadline_is_not_revived() {
        let mut guard = guard(&[LeaseTerm::Lease]);
        assert_eq!(guard.poll(Mono(100)), terminate(&[1]));
        guard.extend(order(101));
        assert_eq!(guard.poll(Mono(105)), kill(&[1]));
    }

    #[test]
    fn an_answer_saves_what_is_not_past_its_deadline() {
        let mut guard = guard(&[SHORT, LeaseTerm::Lease]);
        assert_eq!(guard.poll(Mono(40)), terminate(&[1]));
        guard.extend(order(60));
        assert_eq!(guard.poll(Mono(45)), kill(&[1]));
        assert_eq!(guard.poll(Mono(159)), None);
        assert_eq!(guard.poll(Mono(160)), terminate(&[2]));
    }

    #[test]
    fn a_late_timer_leaves_no_grace() {
        let mut guard = guard(&[LeaseTerm::Lease]);
        assert_eq!(guard.poll(Mono(900)), terminate(&[1]));
        assert_eq!(guard.poll(Mono(900)), kill(&[1]));
    }

    #[test]
    fn a_later_answer_may_allow_less_time() {
        let mut guard = guard(&[LeaseTerm::Lease]);
        let shorter = GuardOrder {
            deadline: Mono(90),
            ..order(1)
        };
        guard.extend(shorter);
        assert_eq!(guard.next_due(), Some(Mono(90)));
    }

    #[test]
    fn an_answer_to_an_earlier_heartbeat_changes_nothing() {
        let mut guard = guard(&[LeaseTerm::Lease]);
        guard.extend(order(100));
        guard.extend(order(50));
        assert_eq!(guard.next_due(), Some(Mono(200)));
    }

    #[test]
    fn nothing_is_admitted_before_the_first_order_or_at_the_deadline() {
        let mut guard = DeadMan::<u32>::default();
        assert!(!guard.admits(Mono(0), LeaseTerm::Lease));
        guard.extend(order(0));
        assert!(guard.admits(Mono(99), LeaseTerm::Lease));
        assert!(!guard.admits(Mono(100), LeaseTerm::Lease));
        assert!(!guard.admits(Mono(40), SHORT));
        // The leader that granted it may not lead any more.
        assert!(!guard.admits(Mono(100), LONG) && !guard.admits(Mono(100), LeaseTerm::Unlimited));
    }

    #[test]
    fn the_backstop_fires_after_the_first_timer_and_within_the_budget() {
        let timeouts = Timeouts::default();
        let order = GuardOrder {
            grace: timeouts.kill_grace,
            ..order(0)
        };
        let mut first = DeadMan::default();
        first.extend(order);
        first.watch(1, LeaseTerm::Lease);
        let mut backstop = Backstop::default();
        assert!(!backstop.is_due(Mono(u64::MAX)), "no order");
        backstop.set(Some(order));
        let at = backstop.kill_time(LeaseTerm::Lease).expect("is set");
        assert_eq!(first.poll(at), terminate(&[1]));
        assert_eq!(first.poll(at), kill(&[1]));
        let last = order.deadline + order.grace + timeouts.kill_slack;
        assert!(at + timeouts.kill_slack.scaled(1, 2) < last, "time to kill");
        assert!(!backstop.is_due(Mono(at.0 - 1)) && backstop.is_due(at));
        backstop.looked(at, 3, []);
        assert!(!backstop.is_due(at) && backstop.is_due(at + BACKSTOP_RETRY));
        backstop.looked(at + BACKSTOP_RETRY, 0, []);
        assert_eq!(backstop.next_due(), None);
    }

    #[test]
    fn the_backstop_looks_again_for_the_terms_that_are_left() {
        let mut backstop = Backstop::default();
        backstop.set(Some(order(0)));
        let (short, lease) = (Mono(47), Mono(107));
        assert!(backstop.is_past(short, SHORT) && !backstop.is_past(short, LeaseTerm::Lease));
        backstop.looked(short, 0, [LeaseTerm::Lease, LONG, LeaseTerm::Unlimited]);
        assert_eq!(backstop.next_due(), Some(lease));
        let mut patient = Backstop::default();
        patient.set(Some(GuardOrder {
            deadline: Mono(100_000),
            ..order(0)
        }));
        patient.looked(short, 0, [LeaseTerm::Lease]);
        let again = Some(short + BACKSTOP_EVERY);
        assert_eq!(patient.next_due(), again, "one with a short term may come");
        backstop.looked(lease, 0, [LeaseTerm::Unlimited]);
        assert_eq!(backstop.next_due(), None);
        assert!(!backstop.is_past(Mono(u64::MAX), LeaseTerm::Unlimited));
    }
}
