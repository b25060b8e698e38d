//! The lines of one block, and how much of what happens is written down.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: Vec<String>,
    /// Messages are not written while a convenience command exchanges them.
    pub(crate) quiet: bool,
    /// Nothing is written at all.
    pub(crate) silent: bool,
    /// When something happens by itself, its time stands in front.
    pub(crate) time: Option<String>,
    lost: BTreeMap<String, u32>,
}

impl Transcript {
    /// Writes what a machine decided.
    pub(crate) fn line(&mut self, line: &str) {
        if self.silent {
            return;
        }
        self.lines.push(match &self.time {
            Some(time) => format!("{time} {line}"),
            None => line.to_owned(),
        });
    }

    /// Writes a message that left.
    pub(crate) fn message(&mut self, line: &str) {
        if !self.quiet {
            self.line(line);
        }
    }

    /// Counts a message that a rule of the network swallowed: a silence of a
    /// minute would otherwise be a page of repeats.
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
