//! When replies are sent.
//!
//! While launches wait, the runner has no use for replies about other runs: the next launch is
//! started without it. And receiving costs the runner, and the scheduler behind it, the same for
//! one reply as for ten. So meanwhile replies about runs are batched and sent [`FLUSH_INTERVAL`]
//! apart. Any other reply is urgent: it is sent at once, together with all replies before it, so
//! the order stays.

use baton_model::coordinator::Reply;
use baton_model::time::{Millis, Mono};

/// The minimum interval between two batches while launches wait. A twelfth of the work placed ahead
/// of a worker, so the worker does not run dry meanwhile.
const FLUSH_INTERVAL: Millis = Millis(4);

/// The replies that are not sent yet, as far as their time is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReplyPace {
    is_pending: bool,
    /// One of them must be sent at once.
    is_urgent: bool,
    /// The time of the last batch.
    sent_at: Mono,
}

impl ReplyPace {
    pub(super) fn note(&mut self, reply: &Reply) {
        self.is_pending = true;
        self.is_urgent |= !matches!(
            reply,
            Reply::Accepted { .. } | Reply::Started { .. } | Reply::Ended(_)
        );
    }

    /// Adds the replies of another one.
    pub(super) fn merge(&mut self, other: Self) {
        self.is_pending |= other.is_pending;
        self.is_urgent |= other.is_urgent;
    }

    /// The time at which to send the replies; `None` if there are none. `waiting`: launches wait.
    pub(super) fn due(&self, waiting: bool) -> Option<Mono> {
        let at_once = self.is_urgent || !waiting;
        let due = if at_once {
            Mono(0)
        } else {
            self.sent_at + FLUSH_INTERVAL
        };
        self.is_pending.then_some(due)
    }

    /// All replies were sent, or dropped.
    pub(super) fn sent(&mut self, now: Mono) {
        if self.is_pending {
            self.sent_at = now;
        }
        self.is_pending = false;
        self.is_urgent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::task::{ProcessNo, RunKey, RunNo};

    const ACCEPTED: Reply = Reply::Accepted {
        run: RunKey {
            process: ProcessNo(1),
            run: RunNo(0),
        },
    };

    #[test]
    fn replies_are_batched_while_launches_wait_and_only_then() {
        let mut pace = ReplyPace::default();
        assert_eq!(pace.due(true), None, "there is none");
        pace.note(&ACCEPTED);
        assert_eq!(pace.due(false), Some(Mono(0)));
        assert_eq!(pace.due(true), Some(Mono(0) + FLUSH_INTERVAL));
        pace.sent(Mono(100));
        assert_eq!(pace.due(true), None);
        pace.sent(Mono(103));
        pace.note(&ACCEPTED);
        let due = Some(Mono(100) + FLUSH_INTERVAL);
        assert_eq!(pace.due(true), due, "nothing was sent in between");
    }

    #[test]
    fn urgent_replies_wait_for_nothing() {
        let mut pace = ReplyPace::default();
        pace.note(&ACCEPTED);
        pace.note(&Reply::StraysKilled { left: 0 });
        pace.note(&ACCEPTED);
        assert_eq!(pace.due(true), Some(Mono(0)));
        pace.sent(Mono(100));
        pace.note(&ACCEPTED);
        assert_eq!(pace.due(true), Some(Mono(100) + FLUSH_INTERVAL));
    }
}
