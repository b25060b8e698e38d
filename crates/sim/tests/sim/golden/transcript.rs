//! The lines of one block, and their verbosity.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: Vec<String>,
    /// Omit messages, for convenience commands.
    pub(crate) quiet: bool,
    /// Omit everything.
    pub(crate) silent: bool,
    /// The time to prefix to events of a timer.
    pub(crate) time: Option<String>,
    lost: BTreeMap<String, u32>,
}

impl Transcript {
    /// Writes a decision of a state machine.
    pub(crate) fn line(&mut self, line: &str) {
        if self.silent {
            return;
        }
        self.lines.push(match &self.time {
            Some(time) => format!("{time} {line}"),
            None => line.to_owned(),
        });
    }

    /// Writes a sent message.
    pub(crate) fn message(&mut self, line: &str) {
        if !self.quiet {
            self.line(line);
        }
    }

    /// Counts a message that a rule of the network dropped: a silence of a minute would otherwise
    /// fill a page with repeats.
    pub(crate) fn lost(&mut self, what: String) {
        if !self.silent {
            *self.lost.entry(what).or_default() += 1;
        }
    }

    /// Ends the transcript of one command.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        for (what, times) in std::mem::take(&mut self.lost) {
            lines.push(match times {
                1 => format!("lost: {what}"),
                _ => format!("lost: {what} x{times}"),
            });
        }
        lines
    }
}
