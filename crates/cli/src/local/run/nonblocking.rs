//! Standard output of a command that must not wait for its reader.
//!
//! A pager that is not scrolled, or a terminal that was stopped with ^S, takes nothing for
//! hours; the task must go on all the same. So a piece is written only when the kernel says
//! that it takes one, what it does not take is kept, and what is too much to keep is dropped
//! and counted. Standard output itself cannot be made non-blocking: it is shared with
//! whoever started us.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::output::{Output, Style};

/// What a pipe takes at once, if it takes anything.
const PIPE_PIECE: usize = 4_096;
/// What a terminal takes at once, if it takes anything.
const TERMINAL_PIECE: usize = 256;
/// So much is kept for a reader that does not read.
const PENDING_BYTES_MAX: usize = 256 << 10;

/// Standard output that never blocks, but at the end.
#[derive(Debug)]
pub(super) struct NonblockingOutput {
    out: Output,
    pending: Vec<u8>,
    dropped: u64,
    /// How it is said that so much was dropped.
    dropped_notice: fn(u64) -> String,
    /// Nobody reads any more.
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

    /// The text in a style, if this output shows any.
    pub(super) fn paint(&self, style: Style, text: &str) -> String {
        self.out.paint(style, text)
    }

    /// What it is painted for.
    pub(super) fn output(&self) -> &Output {
        &self.out
    }

    /// Says something, now or later.
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

    /// True if something waits to be taken.
    pub(super) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes as much as is taken without waiting.
    pub(super) fn flush_ready(&mut self) {
        let no_time = Timespec::default();
        self.write(Some(&no_time));
    }

    /// Writes everything, however long it takes: the work is over.
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
                // Nobody who reads is no reason to stop.
                Err(_) => self.closed = true,
            }
        }
        self.pending.drain(..written);
        if self.closed {
            self.pending.clear();
        }
    }
}

/// For people.
pub(super) fn dropped_notice(lines: u64) -> String {
    format!("baton: {lines} messages were not shown, because nobody took them")
}
