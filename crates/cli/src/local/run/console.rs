//! The output of processes that log to the console, line by line.
//!
//! It is read from their log files, so that a process never blocks on a slow terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_core::plan::Plan;
use baton_model::message::LogStream;
use baton_model::task::{LogDestination, LogMode, PlanChange, PlanEvent, ProcessNo, RunNo};
use baton_runner::logs::{Follower, LogSource, ProcessLogs, STREAMS};
use baton_runner::task::is_shown;

use crate::output::clean;

/// A line is printed when it is complete, or this long.
const LINE_BYTES_MAX: usize = 4_096;

/// Follows the log files of running processes.
#[derive(Debug)]
pub(super) struct ConsoleOutput {
    sandbox: PathBuf,
    tails: BTreeMap<(ProcessNo, RunNo), Vec<StreamTail>>,
}

#[derive(Debug)]
struct StreamTail {
    stream: LogStream,
    follower: Follower,
    /// An incomplete last line.
    partial: Vec<u8>,
}

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) process: ProcessNo,
    pub(super) run: RunNo,
    pub(super) stream: LogStream,
    /// Without line end and control characters.
    pub(super) text: String,
}

impl ConsoleOutput {
    pub(super) fn new(sandbox: &str) -> Self {
        Self {
            sandbox: PathBuf::from(sandbox),
            tails: BTreeMap::new(),
        }
    }

    /// True while at least one file is followed.
    pub(super) fn is_busy(&self) -> bool {
        !self.tails.is_empty()
    }

    /// Handles an event; returns the lines that were written before it.
    pub(super) fn event(&mut self, event: &PlanEvent, plan: &Plan) -> Vec<Line> {
        match event.change {
            PlanChange::RunStarted { process, run, .. } => {
                let lines = self.close(|key| key.0 == process && key.1 < run);
                self.follow(plan, process, run);
                lines
            }
            PlanChange::RunEnded { process, run, .. } => {
                // A run that started before this process, or whose start and end arrive together,
                // is read from its beginning.
                self.follow(plan, process, run);
                if is_rotated(plan, process) {
                    // The log rotation helper may lag behind, so the file is followed until the
                    // next run, or until the task ends.
                    return self.lines_of((process, run));
                }
                self.close(|key| *key == (process, run))
            }
            _ => Vec::new(),
        }
    }

    /// Returns all remaining lines, at the end.
    pub(super) fn finish(&mut self) -> Vec<Line> {
        self.close(|_| true)
    }

    /// Reads the last lines of these runs and stops following them.
    fn close(&mut self, wanted: impl Fn(&(ProcessNo, RunNo)) -> bool) -> Vec<Line> {
        let keys = self.tails.keys().copied().filter(|key| wanted(key));
        let mut lines = Vec::new();
        for key in keys.collect::<Vec<_>>() {
            lines.extend(self.lines_of(key));
            for tail in self.tails.remove(&key).unwrap_or_default() {
                if !tail.partial.is_empty() {
                    lines.push(line(key.0, key.1, tail.stream, &tail.partial));
                }
            }
        }
        lines
    }

    /// Returns every line completed since the last call.
    pub(super) fn lines(&mut self) -> Vec<Line> {
        let keys: Vec<(ProcessNo, RunNo)> = self.tails.keys().copied().collect();
        keys.into_iter()
            .flat_map(|key| self.lines_of(key))
            .collect()
    }

    fn follow(&mut self, plan: &Plan, process: ProcessNo, run: RunNo) {
        let Some(spec) = plan.spec().processes.get(process.index()) else {
            return;
        };
        let logs = ProcessLogs::new(&self.sandbox, &spec.name.0);
        let Some(logs) = logs.filter(|_| is_shown(spec)) else {
            return;
        };
        self.tails.entry((process, run)).or_insert_with(|| {
            let tails = STREAMS.map(|stream| StreamTail {
                stream,
                follower: Follower::of_run(LogSource::Process(logs.clone(), stream), run),
                partial: Vec::new(),
            });
            tails.into()
        });
    }

    fn lines_of(&mut self, (process, run): (ProcessNo, RunNo)) -> Vec<Line> {
        let mut lines = Vec::new();
        for tail in self.tails.get_mut(&(process, run)).into_iter().flatten() {
            let partial = &mut tail.partial;
            let stream = tail.stream;
            let mut take = |bytes: &[u8]| {
                partial.extend_from_slice(bytes);
                while let Some(length) = line_length(partial) {
                    let whole: Vec<u8> = partial.drain(..length).collect();
                    lines.push(line(process, run, stream, &whole));
                }
                true
            };
            // Unreadable files are skipped here; `baton local tail` reports the error.
            let _ = tail.follower.read(&mut take);
        }
        lines
    }
}

/// True if a helper process writes (and rotates) the log of a process.
fn is_rotated(plan: &Plan, process: ProcessNo) -> bool {
    let spec = plan.spec().processes.get(process.index());
    let logger = spec.and_then(|spec| spec.logger).unwrap_or_default();
    logger.destination == LogDestination::Both && logger.mode != LogMode::Standard
}

/// Length of the next line in the buffer, if it is complete or too long.
fn line_length(buffer: &[u8]) -> Option<usize> {
    let end = buffer.iter().position(|byte| *byte == b'\n');
    match end {
        Some(end) if end < LINE_BYTES_MAX => Some(end + 1),
        _ if buffer.len() >= LINE_BYTES_MAX => Some(LINE_BYTES_MAX),
        _ => None,
    }
}

fn line(process: ProcessNo, run: RunNo, stream: LogStream, bytes: &[u8]) -> Line {
    let text = String::from_utf8_lossy(bytes);
    Line {
        process,
        run,
        stream,
        text: clean(text.trim_end_matches(['\n', '\r'])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_whole_or_long() {
        assert_eq!(line_length(b"abc"), None);
        assert_eq!(line_length(b"abc\nd"), Some(4));
        assert_eq!(line_length(&[b'x'; 5_000]), Some(LINE_BYTES_MAX));
    }
}
