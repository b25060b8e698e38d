//! How long workers stay: the end of each on the leader's own clock, and goodbyes.
//!
//! A heartbeat reports the time that is left as a duration. From its receipt on, the worker has at most
//! that: the delay of the message is not counted. So the earliest end that the heartbeats of a session
//! allow counts, less a slack for the delay of the launch.

use std::sync::Arc;

use baton_model::fact::{Condemnation, Fact};
use baton_model::ids::Association;
use baton_model::limits::{DIALLED_BYTES_MAX, VERSION_BYTES_MAX};
use baton_model::message::{Heartbeat, LeaveCause, Tenure, ToWorker};
use baton_model::outcome::MemberLoss;
use baton_model::time::{Millis, Mono, Now, Wall};

use super::context::Cx;
use super::seat::Seat;
use super::{Protocol, address};

/// An estimated end is moved only if it is earlier by more than this: every change of an offer costs.
/// The estimate is earlier than what was reported by as much.
const END_SLACK: Millis = Millis::from_secs(1);

/// A worker's wall clock beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockReading {
    /// Its clock when it sent its greeting.
    pub worker: Wall,
    /// Ours when we received it.
    pub received: Wall,
    /// The time from our first call to its answer: the greeting took no longer. None until then.
    pub round_trip: Option<Millis>,
}

impl ClockReading {
    /// How far the worker's clock is ahead of ours in milliseconds, nearest to zero of what the
    /// round trip allows; none before that is known.
    #[must_use]
    pub fn offset_ms(&self) -> Option<i64> {
        let delay = i64::try_from(self.round_trip?.0).unwrap_or(i64::MAX);
        let signed = |wall: Wall| i64::try_from(wall.0).unwrap_or(i64::MAX);
        // The message took between nothing and the round trip.
        let least = signed(self.worker).saturating_sub(signed(self.received));
        let most = least.saturating_add(delay);
        Some(if least > 0 { least } else { most.min(0) })
    }
}

/// A text of a worker, as far as it is kept.
fn shortened(text: &Arc<str>, bytes_max: usize) -> Arc<str> {
    match text.floor_char_boundary(bytes_max) {
        end if end < text.len() => Arc::from(&text[..end]),
        _ => Arc::clone(text),
    }
}

impl Seat {
    /// Takes in what a heartbeat says of the worker's end, and of itself.
    pub(super) fn take_tenure(&mut self, heartbeat: &Heartbeat, now: Now) {
        let Tenure { left, leaving } = heartbeat.tenure;
        self.leaving = leaving;
        let reported = left.map(|left| now.mono + left.saturating_sub(END_SLACK));
        self.ends_at = match (self.ends_at, reported) {
            (Some(known), Some(reported)) if known <= reported + END_SLACK => Some(known),
            (_, reported) => reported,
        };
        if let Some(greeting) = &heartbeat.greeting {
            self.version = Some(shortened(&greeting.version, VERSION_BYTES_MAX));
            let dialled = greeting.dialled.as_ref();
            self.dialled = dialled.map(|it| shortened(it, DIALLED_BYTES_MAX));
            self.host = greeting.host;
            self.clock = Some(ClockReading {
                worker: greeting.wall,
                received: now.wall,
                round_trip: None,
            });
        }
    }

    /// Notes the answer to the first call of a session.
    pub(super) fn note_round_trip(&mut self, now: Mono) {
        if let Some(clock) = &mut self.clock
            && let Some(asked) = self.asked_at.take()
        {
            clock.round_trip.get_or_insert(now.since(asked));
        }
    }

    /// The time for work that it has left; none if it does not end by itself.
    #[must_use]
    pub fn time_left(&self, now: Mono) -> Option<Millis> {
        self.ends_at.map(|ends_at| ends_at.since(now))
    }
}

impl Protocol {
    /// A worker has ended in order. What it was granted and has not reported it has never started, and
    /// no message of it counts any more.
    pub(super) fn goodbye(&mut self, cx: &mut Cx<'_>, association: Association, cause: LeaveCause) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        let seat = &self.seats[&name];
        let (holder, to) = (seat.holder.clone(), address(&name, seat));
        cx.leader.counts().notice(match cause {
            LeaveCause::Lifetime => "worker-left-lifetime",
            LeaveCause::Idle => "worker-left-idle",
            LeaveCause::Terminated => "worker-left-terminated",
            LeaveCause::Interrupted => "worker-left-interrupted",
        });
        // A heartbeat of it that is still in flight must not take the seat again.
        if !cx.ledger().is_condemned(holder.incarnation) {
            cx.commit(Fact::WorkerCondemned {
                worker: name.clone(),
                incarnation: holder.incarnation,
                reason: Condemnation::Left,
            });
        }
        self.vacate(cx, &name);
        self.close_unreported(cx, &holder, &[]);
        self.lose_all_memberships(cx, holder.incarnation, MemberLoss::Left);
        self.forget_incarnation(cx, holder.incarnation);
        cx.send(to, ToWorker::GoodbyeAck { association });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_offset_is_bounded_by_the_round_trip() {
        let reading = |worker, received, round_trip| ClockReading {
            worker: Wall(worker),
            received: Wall(received),
            round_trip: Some(Millis(round_trip)),
        };
        assert_eq!(reading(10_000, 10_040, 50).offset_ms(), Some(0));
        assert_eq!(reading(10_000, 15_000, 50).offset_ms(), Some(-4_950));
        assert_eq!(reading(15_000, 10_000, 50).offset_ms(), Some(5_000));
        let unknown = ClockReading {
            round_trip: None,
            ..reading(1, 2, 3)
        };
        assert_eq!(unknown.offset_ms(), None);
    }
}
