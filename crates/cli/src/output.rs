//! What a command prints, and how it ends.
//!
//! Answers go to standard output, everything about them to standard error. Whoever
//! closes our output (`| head`) has seen enough: the command ends, quietly and well.
//! Text that was written by others passes [`clean`], so that no name or message can
//! drive a terminal.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::ExitCode;

use baton_model::state::{AttemptState, ProcessState};
use baton_runner::root::RootError;
use serde::Serialize;

/// Failed, or nothing found.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage, or a file with errors; the code of the argument parser too.
pub(crate) const USAGE: u8 = 2;
/// An error of Baton itself.
const INTERNAL: u8 = 5;

/// How a command ends when it has something to say beyond its answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// With this code and message.
    Message(u8, String),
    /// With this code; what there is to say has been said.
    Silent(u8),
    /// Nobody reads any more.
    Closed,
}

/// How a command ends.
pub(crate) type CommandResult = Result<(), Failure>;

impl Failure {
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::Message(FAILED, message.to_string())
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Message(USAGE, message.to_string())
    }
}

impl From<io::Error> for Failure {
    /// Only for what a command writes; errors of reading have a place to name.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Message(INTERNAL, format!("cannot write the answer: {error}")),
        }
    }
}

impl From<RootError> for Failure {
    fn from(error: RootError) -> Self {
        match error {
            RootError::NoDefaultRoot | RootError::BadId { .. } => Self::usage(error),
            _ => Self::failed(error),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

/// Says what is to be said, and gives the code to exit with.
pub(crate) fn exit_code(ended: CommandResult) -> ExitCode {
    match ended {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Silent(code)) => code.into(),
        Err(Failure::Message(code, message)) => {
            note(&message);
            code.into()
        }
    }
}

/// Says something about the answer.
pub(crate) fn note(message: &str) {
    // Without anybody to tell there is nothing else to do about it.
    let _ = writeln!(io::stderr(), "baton: {message}");
}

/// Standard output, with what we know about it.
#[derive(Debug)]
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    /// A person reads along.
    pub(crate) terminal: bool,
    /// Styles are shown.
    pub(crate) colours: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Self {
            out: BufWriter::new(out),
            terminal,
            colours: terminal && !dumb && set("NO_COLOR").is_none(),
        }
    }

    /// The text in a style, if this output shows any.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        style.paint(text, self.colours)
    }

    /// One value for programs, over several lines.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> CommandResult {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// To be called at the end: what is still held back may not be writable.
    pub(crate) fn done(mut self) -> CommandResult {
        Ok(self.out.flush()?)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Busy,
    Odd,
}

impl Style {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Busy => Some("36"),
            Self::Odd => Some("33"),
        }
    }

    /// The text in this style, or as it is without colours.
    pub(crate) fn paint(self, text: &str, colours: bool) -> String {
        match self.code() {
            Some(code) if colours => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    pub(crate) const fn of_attempt(state: AttemptState) -> Self {
        match state {
            AttemptState::Active | AttemptState::Cleaning | AttemptState::Finalizing => Self::Busy,
            AttemptState::Success => Self::Good,
            AttemptState::Failed => Self::Bad,
            AttemptState::Killed | AttemptState::Lost => Self::Odd,
        }
    }

    pub(crate) const fn of_process(state: ProcessState) -> Self {
        match state {
            ProcessState::Waiting => Self::Faint,
            ProcessState::Forked | ProcessState::Running => Self::Busy,
            ProcessState::Success => Self::Good,
            ProcessState::Failed => Self::Bad,
            ProcessState::Killed | ProcessState::Lost => Self::Odd,
        }
    }
}

/// Somebody's text on one line, without anything that a terminal acts upon.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            clean.extend(c.escape_default())
        } else {
            clean.push(c)
        }
    }
    clean
}

/// Controls, and the invisible characters that reorder a line.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_output_is_a_quiet_end_and_a_full_disk_is_not() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::Closed));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Message(INTERNAL, _)));
        let json = serde_json::Error::io(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(Failure::from(json), Failure::Closed));
    }

    #[test]
    fn names_cannot_drive_a_terminal() {
        assert_eq!(clean("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
        assert_eq!(clean("grün"), "grün");
    }
}
