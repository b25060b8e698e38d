//! The rate of each channel: what is beyond it comes as one digest when the minute is over.

use baton_model::notify::{Notice, NoticeKind};
use baton_model::time::{Millis, Wall};

use super::state::{Held, State, Window};
use super::{Notifier, Raised, Recipient, text};

/// The span that a rate counts in.
const MINUTE: Millis = Millis::from_secs(60);

/// Titles that a digest lists.
const LINES_MAX: usize = 20;

impl Window {
    /// True if the minute is over, or the clock was set back.
    fn is_over(&self, now: Wall) -> bool {
        now < self.since || now.since(self.since) >= MINUTE
    }
}

/// When the next digest is due.
pub(super) fn next_due(state: &State) -> Option<Wall> {
    let held = state.windows().filter(|(_, window)| window.held.is_some());
    held.map(|(_, window)| Wall(window.since.0.saturating_add(MINUTE.0)))
        .min()
}

impl Notifier {
    /// Counts a notice for a channel, and decides whether it is sent by itself.
    pub(super) fn admit(&mut self, channel: &str, notice: &Notice) -> Recipient {
        let Some(rate) = self.rules.rates.get(channel).copied() else {
            return Recipient::Unknown;
        };
        self.flush_if_over(channel, notice.at);
        let window = self.state.window(channel);
        if window.sent < rate {
            window.sent += 1;
            return Recipient::Deliver;
        }
        let held = window.held.get_or_insert_with(|| Held {
            first: notice.key.clone(),
            ..Held::default()
        });
        *held.kinds.entry(notice.kind).or_default() += 1;
        if held.examples.len() < LINES_MAX {
            held.examples.push(notice.title.clone());
        }
        Recipient::Digest
    }

    pub(super) fn flush_due(&mut self, now: Wall) {
        let due = self.state.windows();
        let due = due.filter(|(_, window)| window.held.is_some() && window.is_over(now));
        let due: Vec<String> = due.map(|(channel, _)| channel.clone()).collect();
        for channel in due {
            self.flush_if_over(&channel, now);
        }
    }

    /// Begins the next minute, with the digest of the one before.
    fn flush_if_over(&mut self, channel: &str, now: Wall) {
        let window = self.state.window(channel);
        if !window.is_over(now) {
            return;
        }
        window.since = now;
        window.sent = 0;
        let Some(held) = window.held.take() else {
            return;
        };
        window.sent = 1;
        let notice = digest(channel, &held, now);
        self.raised.push(Raised {
            notice,
            recipients: [(channel.to_owned(), Recipient::Deliver)].into(),
        });
    }
}

fn digest(channel: &str, held: &Held, at: Wall) -> Notice {
    let count: u64 = held.kinds.values().sum();
    let kinds = held.kinds.iter();
    let kinds = kinds.map(|(kind, count)| format!("{} {kind}", text::number(*count)));
    let kinds: Vec<String> = kinds.collect();
    let plural = if count == 1 { "" } else { "s" };
    Notice {
        key: format!("digest-{channel}-{}", held.first),
        kind: NoticeKind::Digest,
        at,
        series: format!("digest:{channel}"),
        title: format!(
            "{} more notification{plural}: {}",
            text::number(count),
            kinds.join(", ")
        ),
        subject: channel.to_owned(),
        owner: None,
        entry: None,
        tags: Vec::new(),
        reason: None,
        failures: None,
        counts: None,
        examples: held.examples.clone(),
        stderr: None,
        command: Some("baton notifications".to_owned()),
        path: None,
    }
}
