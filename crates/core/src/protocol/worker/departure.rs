//! Ending in order: the remaining time, and the goodbye.
//!
//! A worker that leaves reports it with a heartbeat at once, refuses launches, and lets its work end
//! until its supervisor gives the incarnation up. When nothing runs any more and every end is
//! acknowledged, it says goodbye: the scheduler empties its seat, and knows that it will start
//! nothing. A worker with an end that was not acknowledged says none: that end is reported by the
//! next incarnation, or its lease runs out.

use baton_model::message::{LeaveCause, Tenure, ToScheduler};
use baton_model::outcome::KillCause;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono};

use super::Worker;
use super::io::Effect;

/// How long a worker waits for the answer to its goodbye.
const GOODBYE_MAX: Millis = Millis::from_secs(2);

/// The time between two goodbyes.
const GOODBYE_RETRY: Millis = Millis(500);

/// The end of a worker, in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Departure {
    pub(super) cause: LeaveCause,
    /// The latest time of its exit, reports included.
    by: Mono,
    goodbye: Goodbye,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Goodbye {
    /// Not everything has ended.
    Unsaid,
    Said {
        repeat_at: Mono,
        until: Mono,
    },
    /// It was answered, or nothing waits for an answer.
    Over,
    /// The driver knows.
    Reported,
}

impl Worker {
    /// Takes no more work, and reports that at once. The first cause counts, and the earlier time.
    pub(super) fn leave(&mut self, now: Mono, cause: LeaveCause, by: Mono) {
        match &mut self.departure {
            Some(departure) => departure.by = departure.by.min(by),
            None => {
                self.departure = Some(Departure {
                    cause,
                    by,
                    goodbye: Goodbye::Unsaid,
                });
                self.next_heartbeat = self.next_heartbeat.min(now);
            }
        }
    }

    /// True if it ends in order, and no other incarnation follows.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.departure.is_some()
    }

    /// The time for work that is left; none if it does not end by itself.
    #[must_use]
    pub fn time_left(&self, now: Mono) -> Option<Millis> {
        self.closes_at.map(|closes_at| closes_at.since(now))
    }

    pub(super) fn tenure(&self, now: Mono) -> Tenure {
        Tenure {
            left: self.time_left(now),
            leaving: self.is_leaving(),
        }
    }

    /// How it kills everything: with the cause, and the time from SIGTERM to SIGKILL.
    pub(super) fn final_kill(&self, now: Mono) -> (KillCause, Millis) {
        let grace = self.timeouts.kill_grace;
        match self.departure {
            // What is left after that is for the reports.
            Some(departure) => {
                let left = departure.by.since(now).scaled(2, 3);
                (KillCause::WorkerEnded, grace.min(left))
            }
            None => (KillCause::Suicide, grace),
        }
    }

    /// How long a worker without processes reports the ends that are not acknowledged.
    pub(super) fn report_patience(&self, now: Mono) -> Millis {
        let patience = self.timeouts.heartbeat_period.scaled(2, 1);
        match self.departure {
            Some(departure) => patience.min(departure.by.since(now)),
            None => patience,
        }
    }

    /// Everything is dead: says goodbye, unless that would hide an end.
    pub(super) fn say_goodbye(&mut self, now: Mono, out: &mut Vec<Effect>) {
        let hides_ends = self.has_unsent_statuses();
        let Some(departure) = &mut self.departure else {
            return;
        };
        if departure.goodbye != Goodbye::Unsaid {
            return;
        }
        if self.association.is_none() || hides_ends {
            departure.goodbye = Goodbye::Over;
            return;
        }
        departure.goodbye = Goodbye::Said {
            repeat_at: now + GOODBYE_RETRY,
            until: now + GOODBYE_MAX,
        };
        self.send_goodbye(out);
    }

    pub(super) fn goodbye_acknowledged(&mut self) {
        if let Some(departure) = &mut self.departure
            && matches!(departure.goodbye, Goodbye::Said { .. })
        {
            departure.goodbye = Goodbye::Over;
        }
    }

    /// Repeats the goodbye if it is time to, and reports when nothing more is waited for.
    pub(super) fn finish_goodbye(&mut self, now: Mono, out: &mut Vec<Effect>) {
        let Some(departure) = &mut self.departure else {
            return;
        };
        match departure.goodbye {
            Goodbye::Said { until, .. } if now >= until => departure.goodbye = Goodbye::Over,
            Goodbye::Said { repeat_at, until } if now >= repeat_at => {
                departure.goodbye = Goodbye::Said {
                    repeat_at: now + GOODBYE_RETRY,
                    until,
                };
                self.send_goodbye(out);
            }
            _ => {}
        }
        let departure = self
            .departure
            .as_mut()
            .filter(|it| it.goodbye == Goodbye::Over);
        if let Some(departure) = departure {
            departure.goodbye = Goodbye::Reported;
            out.push(Effect::Left);
        }
    }

    /// When the goodbye is repeated or given up.
    pub(super) fn next_goodbye(&self) -> Option<Mono> {
        match self.departure?.goodbye {
            Goodbye::Said { repeat_at, until } => Some(repeat_at.min(until)),
            Goodbye::Unsaid | Goodbye::Over | Goodbye::Reported => None,
        }
    }

    fn send_goodbye(&self, out: &mut Vec<Effect>) {
        if let (Some(association), Some(departure)) = (self.association, self.departure) {
            assert_eq!(self.state, WorkerState::MustDie, "a goodbye of {self:?}");
            let cause = departure.cause;
            out.push(Effect::Send(ToScheduler::Goodbye { association, cause }));
        }
    }
}
