//! What a task prints, shown as it comes: its output as ours, its errors as ours.
//!
//! On a terminal whole lines are shown, so that the line about how it goes can stay below
//! them; with several processes each line says whose it is. Whoever closes our output has
//! seen enough of it, but the work goes on: it has more ends than to be looked at.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Stderr, Write};
use std::path::Path;

use baton_agent::{FollowedChunk, LogFollower};
use baton_model::ids::InstanceId;
use baton_model::message::LogStream;

use crate::local::Lane;
use crate::output::{Output, clean, note};
use crate::remote::waiting::Told;

/// Of what was printed before we came, of each output.
const LINES_BEFORE: usize = 20;

/// The output of an instance, on its way to ours.
#[derive(Debug)]
pub(super) struct Live {
    /// `None` if it is not shown, or not any more.
    outputs: Option<LogFollower>,
    printer: Printer,
}

impl Live {
    /// Shows nothing.
    pub(super) fn quiet() -> Self {
        Self {
            outputs: None,
            printer: Printer::new(false),
        }
    }

    /// Of an instance on the worker with this state directory. Of one that was `begun` before
    /// only the end of what it has printed so far.
    pub(super) fn new(state: &Path, id: InstanceId, several: bool, begun: bool) -> Self {
        let mut outputs = LogFollower::new(state, id);
        let looked = match begun {
            true => outputs.skip(LINES_BEFORE),
            false => Ok(()),
        };
        let mut live = Self {
            outputs: Some(outputs),
            printer: Printer::new(several),
        };
        if let Err(error) = looked {
            live.give_up(&error);
        }
        live
    }

    /// Shows what has come. True if there is more already.
    pub(super) fn turn(&mut self, told: &mut Told) -> bool {
        let Some(outputs) = &mut self.outputs else {
            return false;
        };
        let printer = &mut self.printer;
        let mut wiped = false;
        let read = outputs.read(|piece| {
            if !std::mem::replace(&mut wiped, true) {
                told.hide();
            }
            printer.print(piece)
        });
        let read = read.and_then(|more| printer.out.flush().map(|()| more));
        if wiped {
            told.show();
        }
        read.unwrap_or_else(|error| {
            self.give_up(&error);
            false
        })
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, told: &mut Told) {
        told.clear();
        if self.outputs.take().is_some()
            && let Err(error) = self.printer.finish()
        {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.outputs = None;
        if error.kind() != io::ErrorKind::BrokenPipe {
            note(&format!("what it prints cannot be shown: {error}"));
        }
    }
}

/// A lane for each output.
#[derive(Debug)]
struct Printer {
    out: Output,
    err: Stderr,
    several: bool,
    lanes: BTreeMap<(Option<String>, LogStream), Lane>,
}

impl Printer {
    fn new(several: bool) -> Self {
        Self {
            out: Output::new(),
            err: io::stderr(),
            several,
            lanes: BTreeMap::new(),
        }
    }

    fn print(&mut self, piece: &FollowedChunk<'_>) -> io::Result<()> {
        let terminal = match piece.stream {
            LogStream::Stdout => self.out.terminal,
            LogStream::Stderr => self.err.is_terminal(),
        };
        let key = (piece.process.map(str::to_owned), piece.stream);
        let lane = self.lanes.entry(key).or_insert_with(|| {
            let name = piece.process.filter(|_| self.several);
            let prefix = name.map(|name| format!("{} | ", clean(name)));
            // An empty one makes whole lines, too.
            let prefix = prefix.or_else(|| terminal.then(String::new));
            Lane::new(prefix, terminal)
        });
        match piece.stream {
            LogStream::Stdout => lane.print(piece.bytes, &mut self.out),
            LogStream::Stderr => lane.print(piece.bytes, &mut self.err),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        for ((_, stream), mut lane) in std::mem::take(&mut self.lanes) {
            match stream {
                LogStream::Stdout => lane.finish(&mut self.out)?,
                LogStream::Stderr => lane.finish(&mut self.err)?,
            }
        }
        self.out.flush()
    }
}
