//! Logging of server processes to standard error.
//!
//! A thread of its own writes the lines. Standard error may be closed, full, or a pipe that is not
//! read: that costs lines, which are counted, and neither ends nor blocks the process.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use baton_runner::FORMAT_VARIABLE;
use baton_runner::sys::signals;
use baton_server::LOG_LINES_DROPPED;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::Failure;

/// Lines that wait to be written.
const LINES_MAX: usize = 4_096;

/// How long the last lines may take when the process ends.
const LAST_LINES_WAIT: Duration = Duration::from_secs(1);

/// An item of the queue.
enum Item {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// Writes the last lines when it is dropped.
#[must_use]
pub(crate) struct Logging(Option<SyncSender<Item>>);

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// For people.
    Text,
    /// An object in each line, with `timestamp`, `level`, `target` and `message`.
    Json,
}

/// Starts logging. `BATON_LOG` sets the level or the level of each target
/// (`warn,baton_server=debug`); the default is `info`. `BATON_LOG_FORMAT` is `text` or `json`. Colours are for a
/// terminal only.
pub(crate) fn init(may_colour: bool) -> Result<Logging, Failure> {
    let filter = filter(variable("BATON_LOG").as_deref())?;
    let format = format(variable(FORMAT_VARIABLE).as_deref())?;
    Ok(start(filter, format, may_colour))
}

/// The value of a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn filter(text: Option<&str>) -> Result<Targets, Failure> {
    let Some(text) = text else {
        return Ok(Targets::new().with_default(LevelFilter::INFO));
    };
    text.parse().map_err(|_| {
        Failure::usage(format!(
            "BATON_LOG: {text:?} is no level; write error, warn, info, debug or trace, or levels by target, such as \
             warn,baton_server=debug"
        ))
    })
}

fn format(text: Option<&str>) -> Result<Format, Failure> {
    match text {
        None | Some("text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        Some(other) => Err(Failure::usage(format!(
            "{FORMAT_VARIABLE}: {other:?} is no format; write text or json"
        ))),
    }
}

fn start(filter: Targets, format: Format, may_colour: bool) -> Logging {
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    let spawned = signals::with_all_blocked(|| {
        let thread = thread::Builder::new().name("log".to_owned());
        thread.spawn(move || write_lines(&lines, format))
    });
    if spawned.is_err() {
        // Without a thread there are no lines; the process itself may still do its work.
        return Logging(None);
    }
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(LineQueue(sender.clone()))
        .log_internal_errors(false);
    let layer = match format {
        Format::Text => layer
            .with_ansi(may_colour && io::stderr().is_terminal())
            .with_target(false)
            .boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    // Fails only if a subscriber is installed already.
    let _ = tracing_subscriber::registry()
        .with(layer)
        .with(filter)
        .try_init();
    Logging(Some(sender))
}

fn write_lines(lines: &Receiver<Item>, format: Format) {
    let mut reported = 0;
    for item in lines {
        match item {
            Item::Line(line) => {
                let dropped = LOG_LINES_DROPPED.load(Ordering::Relaxed);
                let mut text = Vec::new();
                if dropped > reported {
                    let gap = dropped - reported;
                    let gap = format!("{gap} log lines were dropped");
                    let gap = match format {
                        Format::Text => format!("{gap}\n"),
                        Format::Json => format!("{{\"level\":\"WARN\",\"message\":\"{gap}\"}}\n"),
                    };
                    text.extend_from_slice(gap.as_bytes());
                }
                text.extend_from_slice(&line);
                if io::stderr().write_all(&text).is_ok() {
                    reported = dropped;
                } else {
                    LOG_LINES_DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
            Item::Flush(done) => {
                // The waiting side may have given up.
                let _ = done.send(());
            }
        }
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let Some(lines) = &self.0 else { return };
        let (done, written) = mpsc::sync_channel(1);
        if lines.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES_WAIT);
        }
    }
}

/// Makes a writer for each event.
struct LineQueue(SyncSender<Item>);

/// Queues one line; drops it if the queue is full.
struct LineWriter<'a>(&'a SyncSender<Item>);

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(&self.0)
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.0.try_send(Item::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                LOG_LINES_DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_formats_are_words_that_exist() {
        assert!(filter(None).is_ok() && filter(Some("warn,baton_server=debug")).is_ok());
        assert!(filter(Some("loud=very")).is_err());
        assert_eq!(format(None).expect("the default"), Format::Text);
        assert_eq!(format(Some("json")).expect("a format"), Format::Json);
        assert!(format(Some("xml")).is_err());
    }
}
