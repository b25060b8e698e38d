//! The connection to the runner: one at a time, and the replies that are not on it yet.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};

use baton_model::time::{Millis, Mono};
use rustix::event::PollFlags;

use crate::channel::Channel;
use crate::stderr::log_line;
use crate::sys::{clock, inherit};
use crate::wire::{Reply, Request};

/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Millis = Millis::from_secs(1);

#[derive(Default)]
pub(super) struct Connection {
    channel: Option<Channel>,
    /// Replies that are not on it yet.
    replies: Vec<Reply>,
    /// Connections are accepted from this time on.
    accept_at: Mono,
}

/// A runner that has connected and has not been greeted.
pub(super) struct Caller {
    stream: UnixStream,
    pub(super) pid: u32,
}

impl Connection {
    pub(super) const fn is_up(&self) -> bool {
        self.channel.is_some()
    }

    /// The channel to poll, and for what; `reads` is false while no request is handled.
    pub(super) fn interest(&self, reads: bool) -> Option<(&Channel, PollFlags)> {
        let channel = self.channel.as_ref()?;
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads);
        flags.set(PollFlags::OUT, channel.wants_write());
        Some((channel, flags))
    }

    pub(super) fn accepts(&self) -> bool {
        clock::now().mono >= self.accept_at
    }

    /// When connections are accepted again.
    pub(super) fn next_due(&self) -> Option<Mono> {
        Some(self.accept_at).filter(|at| *at > clock::now().mono)
    }

    /// The next runner that connects, if one waits.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> Option<Caller> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // The client went away before we accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Most likely no descriptors are left. The client waits; we continue, and
                    // accept again when something may have changed.
                    log_line!("coordinator: cannot accept a connection: {error}");
                    self.accept_at = clock::now().mono + ACCEPT_RETRY;
                    return None;
                }
            };
            match inherit::trusted_peer(stream.as_fd()) {
                Ok(Some(pid)) => return Some(Caller { stream, pid }),
                Ok(None) => {}
                Err(error) => log_line!("coordinator: cannot identify a peer: {error}"),
            }
        }
    }

    /// Replaces the connected runner. Replies to the one before are dropped.
    pub(super) fn replace(&mut self, caller: Caller) -> io::Result<()> {
        self.replies.clear();
        self.channel = Some(Channel::new(caller.stream)?);
        Ok(())
    }

    /// Continues sending, and reads what has arrived. False once the runner is gone.
    pub(super) fn fill(&mut self) -> bool {
        let Some(channel) = &mut self.channel else {
            return true;
        };
        let alive = channel.flush().and_then(|()| channel.fill());
        matches!(alive, Ok(true))
    }

    /// The next request that has been read.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        match &mut self.channel {
            Some(channel) => channel.next(),
            None => Ok(None),
        }
    }

    /// Queues a reply.
    pub(super) fn push(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// Sends the queued replies. False once the runner is gone.
    pub(super) fn flush(&mut self) -> bool {
        let mut replies = self.replies.drain(..);
        let Some(channel) = &mut self.channel else {
            return true;
        };
        let put = replies.try_for_each(|reply| channel.put(&reply));
        put.and_then(|()| channel.flush()).is_ok()
    }

    pub(super) fn close(&mut self) {
        self.channel = None;
    }
}
