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

use crate::local::StreamPrinter;
use crate::output::{Output, clean, note};
use crate::remote::waiting::ProgressLine;

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
        let skipped = if begun {
            outputs.skip(LINES_BEFORE)
        } else {
            Ok(())
        };
        let mut live = Self {
            outputs: Some(outputs),
            printer: Printer::new(several),
        };
        if let Err(error) = skipped {
            live.stop_showing(&error);
        }
        live
    }

    /// Shows what has come. True if there is more already.
    pub(super) fn print_new(&mut self, progress: &mut ProgressLine) -> bool {
        let Some(outputs) = &mut self.outputs else {
            return false;
        };
        let printer = &mut self.printer;
        let mut hidden = false;
        let read = outputs.read(|piece| {
            if !std::mem::replace(&mut hidden, true) {
                progress.hide();
            }
            printer.print(piece)
        });
        let read = read.and_then(|more| printer.out.flush().map(|()| more));
        if hidden {
            progress.show();
        }
        read.unwrap_or_else(|error| {
            self.stop_showing(&error);
            false
        })
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, progress: &mut ProgressLine) {
        progress.clear();
        if self.outputs.take().is_some()
            && let Err(error) = self.printer.finish()
        {
            self.stop_showing(&error);
        }
    }

    fn stop_showing(&mut self, error: &io::Error) {
        self.outputs = None;
        if error.kind() != io::ErrorKind::BrokenPipe {
            note(&format!("what it prints cannot be shown: {error}"));
        }
    }
}

/// A printer for each output.
#[derive(Debug)]
struct Printer {
    out: Output,
    err: Stderr,
    several: bool,
    streams: BTreeMap<(Option<String>, LogStream), StreamPrinter>,
}

impl Printer {
    fn new(several: bool) -> Self {
        Self {
            out: Output::new(),
            err: io::stderr(),
            several,
            streams: BTreeMap::new(),
        }
    }

    fn print(&mut self, piece: &FollowedChunk<'_>) -> io::Result<()> {
        let terminal = match piece.stream {
            LogStream::Stdout => self.out.terminal,
            LogStream::Stderr => self.err.is_terminal(),
        };
        let key = (piece.process.map(str::to_owned), piece.stream);
        let stream_printer = self.streams.entry(key).or_insert_with(|| {
            let name = piece.process.filter(|_| self.several);
            let prefix = name.map(|name| format!("{} | ", clean(name)));
            // An empty one makes whole lines, too.
            let prefix = prefix.or_else(|| terminal.then(String::new));
            StreamPrinter::new(prefix, terminal)
        });
        match piece.stream {
            LogStream::Stdout => stream_printer.print(piece.bytes, &mut self.out),
            LogStream::Stderr => stream_printer.print(piece.bytes, &mut self.err),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        for ((_, stream), mut stream_printer) in std::mem::take(&mut self.streams) {
            match stream {
                LogStream::Stdout => stream_printer.finish(&mut self.out)?,
                LogStream::Stderr => stream_printer.finish(&mut self.err)?,
            }
        }
        self.out.flush()
    }
}
