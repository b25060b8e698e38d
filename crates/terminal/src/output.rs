//! Standard output, exit codes and styles of commands.
//!
//! Results go to standard output, messages about them to standard error. If the reader closes
//! standard output (`| head`), the command exits quietly with 0. Text from other sources passes
//! [`clean`], so that no name or message can control the terminal.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::ExitCode;

use baton_fs::private::DirError;
use baton_model::state::{AttemptState, ProcessState};
use baton_runner::root::RootError;
pub use baton_web::text::{clean, is_unsafe};
use serde::Serialize;

/// Failed, or nothing found.
pub const FAILED: u8 = 1;
/// Wrong usage, or a file with errors; the argument parser uses the same code.
pub const USAGE: u8 = 2;
/// An internal error of Baton.
pub const INTERNAL: u8 = 5;

/// Cancelled, or ended with ^C.
pub const CANCELLED: u8 = 130;
/// Another scheduler uses the data directory: EX_TEMPFAIL of sysexits.h.
pub const STORE_IN_USE: u8 = 75;

/// Why a command does not simply succeed.
#[derive(Debug)]
pub enum Failure {
    /// Exit with this code, and print this message.
    Message(u8, String),
    /// Exit with this code; the message has been printed already.
    Silent(u8),
    /// The reader has closed standard output.
    Closed,
}

/// The result of a command.
pub type CommandResult = Result<(), Failure>;

impl Failure {
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Message(FAILED, message.to_string())
    }

    /// For a data directory that is not safe to use.
    pub fn data_dir(error: DirError) -> Self {
        Self::failed(format!("{error}, or choose another directory with --data"))
    }

    pub fn usage(message: impl fmt::Display) -> Self {
        Self::Message(USAGE, message.to_string())
    }
}

impl From<io::Error> for Failure {
    /// For errors of writing the result only; read errors name their file.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Message(
                INTERNAL,
                format!("cannot write to standard output: {error}"),
            ),
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

/// Prints the message of a failure, and returns the exit code.
pub fn exit_code(ended: CommandResult) -> ExitCode {
    match ended {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Silent(code)) => code.into(),
        Err(Failure::Message(code, message)) => {
            note(&message);
            code.into()
        }
    }
}

/// Prints a message to standard error.
pub fn note(message: &str) {
    // A closed standard error is ignored.
    let _ = writeln!(io::stderr(), "baton: {message}");
}

/// Buffered standard output with its capabilities.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<Stdout>,
    /// It is a terminal.
    pub terminal: bool,
    /// It shows styles.
    pub colours: bool,
}

impl Output {
    pub fn new() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        Self {
            out: BufWriter::new(out),
            terminal,
            colours: colours(terminal),
        }
    }

    /// Applies a style, if this output shows styles.
    pub fn paint(&self, style: Style, text: &str) -> String {
        style.paint(text, self.colours)
    }

    /// Prints a value as indented JSON.
    pub fn json(&mut self, value: &impl Serialize) -> CommandResult {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints a value as one line of JSON.
    pub fn json_line(&mut self, value: &impl Serialize) -> CommandResult {
        serde_json::to_writer(&mut self.out, value)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Flushes at the end of a command, and reports write errors.
    pub fn done(mut self) -> CommandResult {
        Ok(self.out.flush()?)
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
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

/// Decides whether styles are shown on an output that is a terminal or not.
pub fn colours(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_some_and(|term| term == "dumb");
    terminal && !dumb && set("NO_COLOR").is_none()
}

/// Emphasis of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
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

    /// Applies this style, or returns the text unchanged without colours.
    pub fn paint(self, text: &str, colours: bool) -> String {
        match self.code() {
            Some(code) if colours => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    pub const fn of_attempt(state: AttemptState) -> Self {
        match state {
            AttemptState::Active | AttemptState::Cleaning | AttemptState::Finalizing => Self::Busy,
            AttemptState::Success => Self::Good,
            AttemptState::Failed => Self::Bad,
            AttemptState::Killed | AttemptState::Lost => Self::Odd,
        }
    }

    pub const fn of_process(state: ProcessState) -> Self {
        match state {
            ProcessState::Waiting => Self::Faint,
            ProcessState::Forked | ProcessState::Running => Self::Busy,
            ProcessState::Success => Self::Good,
            ProcessState::Failed => Self::Bad,
            ProcessState::Killed | ProcessState::Lost => Self::Odd,
        }
    }
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
}
