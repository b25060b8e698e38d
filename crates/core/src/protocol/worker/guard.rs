//! The dead-man timer.
//!
//! It runs in the coordinator, not in the agent: an agent that is stopped, hung
//! or gone cannot keep work alive past its lease. The agent only moves the
//! deadline, each time a leader answers one of its heartbeats. Once the timer has
//! fired it stays fired for this incarnation, so that an order in flight
//! cannot start anything after the killing has begun.
//!
//! A coordinator may be killed together with its agent, or be stopped. For that there is
//! a second timer, the [`Backstop`], in the reaper: the parent of coordinators.

use baton_model::time::{Millis, Mono};

use super::io::GuardOrder;

/// An action for the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardAction {
    /// SIGTERM to everything, and tell the agent.
    Terminate,
    /// SIGKILL to everything.
    Kill,
}

/// The timer of one incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeadMan {
    order: Option<GuardOrder>,
    fired: Option<Fired>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fired {
    kill_at: Mono,
    killed: bool,
}

impl DeadMan {
    /// Takes the order that answers the later heartbeat; not once the timer has
    /// fired. A new leader may allow less time than the one before, and counts
    /// from the same heartbeat, so its deadline may well be the earlier one.
    pub fn extend(&mut self, order: GuardOrder) {
        let later = self.order.is_none_or(|held| order.stamp > held.stamp);
        if self.fired.is_none() && later {
            self.order = Some(order);
        }
    }

    /// The order in force, for an agent that starts again.
    #[must_use]
    pub const fn order(&self) -> Option<GuardOrder> {
        self.order
    }

    /// Begins the killing now, by order of the agent; at the latest after `grace`
    /// everything is killed, and never later than by the order in force.
    pub fn fire(&mut self, now: Mono, grace: Millis) {
        let last = self.order.map(|order| order.deadline + order.grace);
        let kill_at = last.map_or(now + grace, |last| last.min(now + grace));
        match &mut self.fired {
            None => {
                self.fired = Some(Fired {
                    kill_at,
                    killed: false,
                })
            }
            Some(fired) => fired.kill_at = fired.kill_at.min(kill_at),
        }
    }

    /// True if a launch may go ahead: the timer is set, and has not run out.
    #[must_use]
    pub fn admits(&self, now: Mono) -> bool {
        self.fired.is_none() && self.order.is_some_and(|order| now < order.deadline)
    }

    /// True once the killing has begun. An agent that starts again must be told.
    #[must_use]
    pub const fn has_fired(&self) -> bool {
        self.fired.is_some()
    }

    pub fn poll(&mut self, now: Mono) -> Option<GuardAction> {
        match &mut self.fired {
            None => {
                let order = self.order.filter(|order| now >= order.deadline)?;
                // A timer that is late, because the host slept, shortens the grace.
                self.fired = Some(Fired {
                    kill_at: order.deadline + order.grace,
                    killed: false,
                });
                Some(GuardAction::Terminate)
            }
            Some(fired) if !fired.killed && now >= fired.kill_at => {
                fired.killed = true;
                Some(GuardAction::Kill)
            }
            Some(_) => None,
        }
    }

    /// When [`Self::poll`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        match self.fired {
            None => self.order.map(|order| order.deadline),
            Some(fired) if !fired.killed => Some(fired.kill_at),
            Some(_) => None,
        }
    }
}

/// The pause before the backstop kills again what it could not kill.
const BACKSTOP_RETRY: Millis = Millis::from_secs(1);

/// The second timer, of the reaper. It fires when the first must have killed everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backstop {
    kill_at: Option<Mono>,
}

impl Backstop {
    /// Takes the order in force; `None` if there is no work left.
    ///
    /// The coordinator gets half the grace to do the same, and knows how everything has ended.
    /// The time budget of a lease (`kill_slack`) leaves room for it.
    pub fn set(&mut self, order: Option<GuardOrder>) {
        let kill_at = |order: GuardOrder| order.deadline + order.grace + order.grace.scaled(1, 2);
        self.kill_at = order.map(kill_at);
    }

    /// True if everything is to be killed now. The caller reports with [`Self::killed`].
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.kill_at.is_some_and(|at| now >= at)
    }

    /// Everything was killed, except so many processes.
    pub fn killed(&mut self, now: Mono, left: usize) {
        self.kill_at = (left > 0).then(|| now + BACKSTOP_RETRY);
    }

    /// When everything is to be killed; `None` while there is no order, or once all is dead.
    #[must_use]
    pub const fn next_due(&self) -> Option<Mono> {
        self.kill_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::Epoch;
    use baton_model::time::Stamp;
    use baton_model::timeouts::Timeouts;

    fn order(deadline: u64) -> GuardOrder {
        GuardOrder {
            deadline: Mono(deadline),
            grace: Millis(5),
            epoch: Epoch(1),
            stamp: Stamp(Mono(deadline)),
        }
    }

    #[test]
    fn terminates_at_the_deadline_and_kills_after_the_grace() {
        let mut guard = DeadMan::default();
        guard.extend(order(100));
        assert_eq!(guard.poll(Mono(99)), None);
        assert_eq!(guard.poll(Mono(100)), Some(GuardAction::Terminate));
        assert_eq!(guard.poll(Mono(104)), None);
        assert_eq!(guard.poll(Mono(105)), Some(GuardAction::Kill));
        assert_eq!(guard.poll(Mono(999)), None);
    }

    #[test]
    fn a_late_timer_leaves_no_grace() {
        let mut guard = DeadMan::default();
        guard.extend(order(100));
        assert_eq!(guard.poll(Mono(900)), Some(GuardAction::Terminate));
        assert_eq!(guard.poll(Mono(900)), Some(GuardAction::Kill));
        let mut ordered = DeadMan::default();
        ordered.extend(order(100));
        ordered.fire(Mono(900), Millis(5));
        assert_eq!(ordered.poll(Mono(900)), Some(GuardAction::Kill));
    }

    #[test]
    fn a_later_answer_may_allow_less_time() {
        let mut guard = DeadMan::default();
        guard.extend(order(100));
        let shorter = GuardOrder {
            deadline: Mono(90),
            ..order(101)
        };
        guard.extend(shorter);
        assert_eq!(guard.next_due(), Some(Mono(90)));
    }

    #[test]
    fn an_answer_to_an_earlier_heartbeat_changes_nothing() {
        let mut guard = DeadMan::default();
        guard.extend(order(100));
        guard.extend(order(200));
        guard.extend(order(150));
        assert_eq!(guard.next_due(), Some(Mono(200)));
    }

    #[test]
    fn once_fired_nothing_revives_it() {
        let mut guard = DeadMan::default();
        guard.extend(order(100));
        assert_eq!(guard.poll(Mono(100)), Some(GuardAction::Terminate));
        guard.extend(order(900));
        assert!(!guard.admits(Mono(101)));
        assert_eq!(guard.poll(Mono(105)), Some(GuardAction::Kill));
    }

    #[test]
    fn nothing_is_admitted_before_the_first_order_or_at_the_deadline() {
        let mut guard = DeadMan::default();
        assert!(!guard.admits(Mono(0)));
        guard.extend(order(100));
        assert!(guard.admits(Mono(99)));
        assert!(!guard.admits(Mono(100)));
    }

    #[test]
    fn the_backstop_fires_after_the_first_timer_and_within_the_budget() {
        let timeouts = Timeouts::default();
        let order = GuardOrder {
            grace: timeouts.kill_grace,
            ..order(100)
        };
        let mut first = DeadMan::default();
        first.extend(order);
        let mut backstop = Backstop::default();
        assert!(!backstop.is_due(Mono(u64::MAX)), "no order");
        backstop.set(Some(order));
        let at = backstop.next_due().expect("is set");
        assert_eq!(first.poll(at), Some(GuardAction::Terminate));
        assert_eq!(first.poll(at), Some(GuardAction::Kill));
        let last = order.deadline + order.grace + timeouts.kill_slack;
        assert!(at + timeouts.kill_slack.scaled(1, 2) < last, "time to kill");
        assert!(!backstop.is_due(Mono(at.0 - 1)) && backstop.is_due(at));
        backstop.killed(at, 3);
        assert!(!backstop.is_due(at) && backstop.is_due(at + BACKSTOP_RETRY));
        backstop.killed(at + BACKSTOP_RETRY, 0);
        assert_eq!(backstop.next_due(), None);
    }
}
