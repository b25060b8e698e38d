//! The output of processes that log to the console, line by line.
//!
//! It is read from their files, so that their output never hangs on whoever watches.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_core::plan::Plan;
use baton_model::task::{LogDestination, LogMode, PlanChange, PlanEvent, ProcessNo, RunNo};
use baton_runner::root::{Stream, log_dir};
use baton_runner::task::is_shown;

use super::super::tail::Follower;
use crate::output::clean;

/// A line is shown when it is whole, or this long.
const LINE_BYTES_MAX: usize = 4_096;

/// What is being followed.
#[derive(Debug)]
pub(super) struct ConsoleOutput {
    sandbox: PathBuf,
    tails: BTreeMap<(ProcessNo, RunNo), Vec<StreamTail>>,
}

#[derive(Debug)]
struct StreamTail {
    stream: Stream,
    follower: Follower,
    /// The beginning of a line whose end was not written yet.
    partial: Vec<u8>,
}

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) process: ProcessNo,
    pub(super) run: RunNo,
    pub(super) stream: Stream,
    /// Without its end, and without anything that a terminal acts upon.
    pub(super) text: String,
}

impl ConsoleOutput {
    pub(super) fn new(sandbox: &str) -> Self {
        Self {
            sandbox: PathBuf::from(sandbox),
            tails: BTreeMap::new(),
        }
    }

    /// True if there is something to look at from time to time.
    pub(super) fn is_busy(&self) -> bool {
        !self.tails.is_empty()
    }

    /// Takes notice of a change; answers the lines that were written before it.
    pub(super) fn event(&mut self, event: &PlanEvent, plan: &Plan) -> Vec<Line> {
        match event.change {
            PlanChange::RunStarted { process, run, .. } => {
                let lines = self.close(|key| key.0 == process && key.1 < run);
                self.follow(plan, process, run);
                lines
            }
            PlanChange::RunEnded { process, run, .. } => {
                // One that was started before we came, or so fast that both changes came
                // at once, is read from its beginning all the same.
                self.follow(plan, process, run);
                if is_rotated(plan, process) {
                    // Whoever rotates it may be a moment behind, so it is followed until
                    // the next run, or to the end.
                    return self.lines_of((process, run));
                }
                self.close(|key| *key == (process, run))
            }
            _ => Vec::new(),
        }
    }

    /// Everything that is left, at the end.
    pub(super) fn finish(&mut self) -> Vec<Line> {
        self.close(|_| true)
    }

    /// Looks a last time, and no more.
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

    /// Every whole line since the last time.
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
        let Some(dir) = log_dir(&self.sandbox, &spec.name).filter(|_| is_shown(spec)) else {
            return;
        };
        self.tails.entry((process, run)).or_insert_with(|| {
            let streams = [Stream::Stdout, Stream::Stderr].into_iter();
            let tail = streams.filter_map(|stream| {
                let follower = Follower::begin(dir.clone(), stream, Some(run), usize::MAX).ok()?;
                Some(StreamTail {
                    stream,
                    follower,
                    partial: Vec::new(),
                })
            });
            tail.collect()
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
            // A file that cannot be read shows nothing; its own command says why.
            let _ = tail.follower.read(&mut take);
        }
        lines
    }
}

/// True if the log of a process is written by another one.
fn is_rotated(plan: &Plan, process: ProcessNo) -> bool {
    let spec = plan.spec().processes.get(process.index());
    let logger = spec.and_then(|spec| spec.logger).unwrap_or_default();
    logger.destination == LogDestination::Both && logger.mode != LogMode::Standard
}

/// How much of the buffer is the next line, if it is whole.
fn line_length(buffer: &[u8]) -> Option<usize> {
    let end = buffer.iter().position(|byte| *byte == b'\n');
    match end {
        Some(end) if end < LINE_BYTES_MAX => Some(end + 1),
        _ if buffer.len() >= LINE_BYTES_MAX => Some(LINE_BYTES_MAX),
        _ => None,
    }
}

fn line(process: ProcessNo, run: RunNo, stream: Stream, bytes: &[u8]) -> Line {
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
