//! Live output of a task: its standard output and standard error, copied to ours.
//!
//! On a terminal complete lines are printed, above the progress line; with several processes each
//! line has the name of its process. If the reader closes our output, the task continues without
//! it.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Stderr, Write};
use std::path::Path;

use baton_agent::{FollowedChunk, LogFollower};
use baton_model::ids::InstanceId;
use baton_model::message::LogStream;

use crate::local::StreamPrinter;
use crate::output::{Output, clean, note};
use crate::painter::Progress;

/// Copies the output of an instance.
#[derive(Debug)]
pub(super) struct Live {
    /// `None` if output is not shown, or no longer.
    outputs: Option<LogFollower>,
    printer: Printer,
}

impl Live {
    /// A copier that shows nothing.
    pub(super) fn quiet() -> Self {
        Self {
            outputs: None,
            printer: Printer::new(false),
        }
    }

    /// Follows an instance on the worker with this state directory. Of the output of an earlier
    /// command, `earlier` lines of each stream are shown.
    pub(super) fn new(state: &Path, id: InstanceId, several: bool, earlier: Option<usize>) -> Self {
        let mut outputs = LogFollower::new(state, id);
        let skipped = match earlier {
            Some(lines) => outputs.skip(lines),
            None => Ok(()),
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

    /// Prints new output. Returns true if there is more already.
    pub(super) fn print_new(&mut self, progress: &mut Progress) -> bool {
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

    /// Prints what is held back; the instance has ended.
    pub(super) fn finish(&mut self, progress: &mut Progress) {
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
            note(&format!("cannot show the output: {error}"));
        }
    }
}

/// A printer for each stream of each process.
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
            // An empty prefix makes it print complete lines.
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
