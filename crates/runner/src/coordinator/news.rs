//! What is to be said to the runner, and when.
//!
//! While launches wait here the runner has nothing to do with what it would hear of others: the
//! next one is started without it. And to hear costs it, and the scheduler behind it, the same
//! for one piece of news as for ten. So meanwhile news is gathered, and said [`PACE`] apart.
//! What is more than news is said at once, with all that came before it: the order stays.

use baton_model::time::{Millis, Mono};

use crate::wire::Reply;

/// While launches wait, news is said no closer together than this. A twelfth of what is placed
/// ahead of a worker, so it does not run dry meanwhile.
const PACE: Millis = Millis(4);

/// Replies that are not on the socket yet.
#[derive(Debug, Default)]
pub(super) struct News {
    replies: Vec<Reply>,
    /// One of them is more than news.
    urgent: bool,
    /// When something was last said.
    said: Mono,
}

impl News {
    pub(super) fn add(&mut self, reply: Reply) {
        self.urgent |= !matches!(
            reply,
            Reply::Accepted { .. } | Reply::Started { .. } | Reply::Ended(_)
        );
        self.replies.push(reply);
    }

    /// From when on it is to be said, if there is any. `waiting`: launches wait.
    pub(super) fn due(&self, waiting: bool) -> Option<Mono> {
        if self.replies.is_empty() {
            return None;
        }
        let at_once = self.urgent || !waiting;
        Some(if at_once { Mono(0) } else { self.said + PACE })
    }

    /// Takes all of it, to be said now.
    pub(super) fn take(&mut self, now: Mono) -> Vec<Reply> {
        self.urgent = false;
        if !self.replies.is_empty() {
            self.said = now;
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
        let mut news = News::default();
        assert_eq!(news.due(true), None, "there is none");
        news.add(Reply::Accepted { run: RUN });
        assert_eq!(news.due(false), Some(Mono(0)));
        assert_eq!(news.due(true), Some(Mono(0) + PACE));
        assert_eq!(news.take(Mono(100)), [Reply::Accepted { run: RUN }]);
        assert_eq!(news.due(true), None);
        assert_eq!(news.take(Mono(103)), [], "nothing is said");
        news.add(Reply::Accepted { run: RUN });
        assert_eq!(news.due(true), Some(Mono(100) + PACE));
    }

    #[test]
    fn what_is_more_than_news_waits_for_nothing_and_overtakes_nothing() {
        let mut news = News::default();
        news.add(Reply::Accepted { run: RUN });
        news.add(Reply::GuardFired);
        news.add(Reply::Accepted { run: RUN });
        assert_eq!(news.due(true), Some(Mono(0)));
        let accepted = Reply::Accepted { run: RUN };
        let told = [accepted.clone(), Reply::GuardFired, accepted];
        assert_eq!(news.take(Mono(100)), told);
        news.add(Reply::Accepted { run: RUN });
        assert_eq!(news.due(true), Some(Mono(100) + PACE), "that was before");
    }
}
