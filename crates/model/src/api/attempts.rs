//! The attempts of an instance as text.

use super::{Event, Instance};
use crate::fact::Fact;

impl Instance {
    /// How many attempts it has had, and how many of them have failed or were lost: `3, 2 failed`.
    /// A retry by hand starts these counts anew, and the timeline tells whether there was one.
    #[must_use]
    pub fn attempts_text(&self, timeline: &[Event]) -> String {
        let counts = [(self.failures, "failed"), (self.losses, "lost")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let retried = |event: &Event| matches!(event.fact, Fact::InstanceRetried { .. });
        let attempts = self.attempts;
        match (counts.is_empty(), timeline.iter().any(retried)) {
            (true, _) => attempts.to_string(),
            (false, false) => format!("{attempts}, {}", counts.join(", ")),
            (false, true) => {
                let counts = counts.join(" and ");
                format!("{attempts}, {counts} since the last retry")
            }
        }
    }
}
