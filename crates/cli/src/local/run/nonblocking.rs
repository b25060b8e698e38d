//! Standard output that never waits for its reader.
//!
//! A pager that is not scrolled, or a terminal stopped with ^S, may read nothing for hours; the
//! task must not wait for it. So bytes are written only when poll(2) reports that the descriptor
//! is writable, the others are buffered, and messages beyond the buffer's limit are dropped and
//! counted. The descriptor itself cannot be set to O_NONBLOCK: it is shared with the parent
//! process.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::output::{Output, Style};

/// Bytes that a writable pipe accepts without blocking.
const PIPE_PIECE: usize = 4_096;
/// Bytes that a writable terminal accepts without blocking.
const TERMINAL_PIECE: usize = 256;
/// Limit of the buffer.
const PENDING_BYTES_MAX: usize = 256 << 10;

/// Buffered standard output; only [`finish`](Self::finish) may block.
#[derive(Debug)]
pub(super) struct NonblockingOutput {
    out: Output,
    pending: Vec<u8>,
    dropped: u64,
    /// Formats the notice that so many messages were dropped.
    dropped_notice: fn(u64) -> String,
    /// The reader has closed the output.
    closed: bool,
}

impl NonblockingOutput {
    pub(super) fn new(out: Output, dropped_notice: fn(u64) -> String) -> Self {
        Self {
            out,
            pending: Vec::new(),
            dropped: 0,
            dropped_notice,
            closed: false,
        }
    }

    /// Applies a style, if this output shows styles.
    pub(super) fn paint(&self, style: Style, text: &str) -> String {
        self.out.paint(style, text)
    }

    /// The underlying output, for its capabilities.
    pub(super) fn output(&self) -> &Output {
        &self.out
    }

    /// Writes the text now, or buffers it.
    pub(super) fn print(&mut self, text: &str) {
        if self.pending.len() + text.len() > PENDING_BYTES_MAX {
            self.dropped += 1;
        } else {
            if self.dropped > 0 {
                let notice = (self.dropped_notice)(self.dropped);
                self.pending.extend_from_slice(notice.as_bytes());
                self.pending.push(b'\n');
                self.dropped = 0;
            }
            self.pending.extend_from_slice(text.as_bytes());
        }
        self.flush_ready();
    }

    /// True if there are buffered bytes.
    pub(super) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes as much as possible without blocking.
    pub(super) fn flush_ready(&mut self) {
        let no_time = Timespec::default();
        self.write(Some(&no_time));
    }

    /// Writes everything, and blocks if necessary: the task has ended.
    pub(super) fn finish(&mut self) {
        self.write(None);
    }

    fn write(&mut self, timeout: Option<&Timespec>) {
        let stdout = io::stdout();
        let piece = if self.out.terminal {
            TERMINAL_PIECE
        } else {
            PIPE_PIECE
        };
        let mut written = 0;
        while written < self.pending.len() && !self.closed {
            let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
            match poll(&mut fds, timeout) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => self.closed = true,
            }
            let end = self.pending.len().min(written + piece);
            match rustix::io::write(&stdout, &self.pending[written..end]) {
                Ok(bytes) => written += bytes,
                Err(Errno::INTR | Errno::AGAIN) => {}
                // A closed output does not end the task.
                Err(_) => self.closed = true,
            }
        }
        self.pending.drain(..written);
        if self.closed {
            self.pending.clear();
        }
    }
}

/// The notice for people.
pub(super) fn dropped_notice(lines: u64) -> String {
    format!("baton: {lines} messages were dropped, because the output was not read")
}
