//! What is to be flushed_at to the runner, and when.
//!
//! While launches wait here the runner has nothing to do with what it would hear of others: the
//! next one is started without it. And to hear costs it, and the scheduler behind it, the same
//! for one piece of buffer as for ten. So meanwhile news is gathered, and flushed_at [`FLUSH_INTERVAL`] apart.
//! What is more than news is flushed_at at once, with all that came before it: the order stays.

use baton_model::time::{Millis, Mono};

use crate::wire::Reply;

/// While launches wait, news is flushed_at no closer together than this. A twelfth of what is placed
/// ahead of a worker, so it does not run dry meanwhile.
const FLUSH_INTERVAL: Millis = Millis(4);

/// Replies that are not on the socket yet.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    replies: Vec<Reply>,
    /// One of them is more than buffer.
    urgent: bool,
    /// When something was last flushed_at.
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

    /// From when on it is to be flushed_at, if there is any. `waiting`: launches wait.
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

    /// Takes all of it, to be flushed_at now.
    pub(super) fn take(&mut self, now: Mono) -> Vec<Reply> {
        self.urgent = false;
        if !self.replies.is_empty() {
            self.flushed_at = now;
        }
        std::mem::take(&mut self.replies)
    }

    /// Nobody is there to hear it.
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
    fn news_is_gathered_while_launches_wait_and_only_then() {
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
    fn what_is_more_than_news_waits_for_nothing_and_overtakes_nothing() {
        let mut buffer = ReplyBuffer::default();
        buffer.push(Reply::Accepted { run: RUN });
        buffer.push(Reply::GuardFired);
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(buffer.due(true), Some(Mono(0)));
        let accepted = Reply::Accepted { run: RUN };
        let told = [accepted.clone(), Reply::GuardFired, accepted];
        assert_eq!(buffer.take(Mono(100)), told);
        buffer.push(Reply::Accepted { run: RUN });
        assert_eq!(
            buffer.due(true),
            Some(Mono(100) + FLUSH_INTERVAL),
            "that was before"
        );
    }
}
