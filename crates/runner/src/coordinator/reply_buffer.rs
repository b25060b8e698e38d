//! Replies that are not sent yet, and when to send them.
//!
//! While launches wait, the runner has no use for replies about other runs: the next launch is
//! started without it. And receiving costs the runner, and the scheduler behind it, the same for
//! one reply as for ten. So meanwhile replies about runs are batched and sent [`FLUSH_INTERVAL`]
//! apart. Any other reply is urgent: it is sent at once, together with all replies before it, so
//! the order stays.

use baton_model::time::{Millis, Mono};

use crate::wire::Reply;

/// The minimum interval between two batches while launches wait. A twelfth of the work placed ahead
/// of a worker, so the worker does not run dry meanwhile.
const FLUSH_INTERVAL: Millis = Millis(4);

/// Replies that are not on the socket yet.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    replies: Vec<Reply>,
    /// One of them must be sent at once.
    urgent: bool,
    /// The time of the last batch.
    flushed_at: Mono,
}

impl ReplyBuffer {
    pub(super) fn push(&mut self, reply: Reply) {
        self.urgent |= !matches!(
            reply,
            Reply::Accepted { .. } | Reply::Started { .. } | Reply::Ended(_)
        );
        self.replies.push(reply);
    }

    /// The time at which to send the replies; `None` if there are none. `waiting`: launches wait.
    pub(super) fn due(&self, waiting: bool) -> Option<Mono> {
        if self.replies.is_empty() {
            return None;
        }
        let at_once = self.urgent || !waiting;
        Some(if at_once {
            Mono(0)
        } else {
            self.flushed_at + FLUSH_INTERVAL
        })
    }

    /// Takes all replies, to be sent now.
    pub(super) fn take(&mut self, now: Mono) -> Vec<Reply> {
        self.urgent = false;
        if !self.replies.is_empty() {
            self.flushed_at = now;
        }
        std::mem::take(&mut self.replies)
    }

    /// Discards all replies: no runner is connected.
    pub(super) fn clear(&mut self) {
        self.replies.clear();
        self.urgent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RunKey;
    use baton_model::task::{ProcessNo, RunNo};

    const RUN: RunKey = RunKey {
        process: ProcessNo(1),
        run: RunNo(0),
    };

    #[test]
    fn replies_are_batched_while_launches_wait_and_only_then() {
        let mut buffer = ReplyBuffer::default();
        assert_eq!(buffer.due(true), None, "there is none");
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(buffer.due(false), Some(Mono(0)));
        assert_eq!(buffer.due(true), Some(Mono(0) + FLUSH_INTERVAL));
        assert_eq!(buffer.take(Mono(100)), [Reply::Accepted { run: RUN }]);
        assert_eq!(buffer.due(true), None);
        assert_eq!(buffer.take(Mono(103)), [], "nothing is flushed_at");
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(buffer.due(true), Some(Mono(100) + FLUSH_INTERVAL));
    }

    #[test]
    fn urgent_replies_wait_for_nothing_and_overtake_nothing() {
        let mut buffer = ReplyBuffer::default();
        buffer.push(Reply::Accepted { run: RUN });
        buffer.push(Reply::StraysKilled { left: 0 });
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(buffer.due(true), Some(Mono(0)));
        let accepted = Reply::Accepted { run: RUN };
        let expected = [accepted.clone(), Reply::StraysKilled { left: 0 }, accepted];
        assert_eq!(buffer.take(Mono(100)), expected);
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(
            buffer.due(true),
            Some(Mono(100) + FLUSH_INTERVAL),
            "that was before"
        );
    }
}
