//! The connection to the runner: one at a time, and the replies that are not on it yet.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};

use baton_model::task::Identity;
use baton_model::time::{Millis, Mono};
use rustix::event::PollFlags;

use super::reply_buffer::ReplyBuffer;
use crate::channel::Channel;
use crate::stderr::log_line;
use crate::sys::{clock, inherit};
use crate::wire::{Reply, Request};

/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Millis = Millis::from_secs(1);

/// The connected runner.
struct Client {
    channel: Channel,
    /// Its pid: its children belong to the task too, where we succeed another coordinator.
    pid: u32,
    /// Except these.
    spared: Vec<Identity>,
}

#[derive(Default)]
pub(super) struct Connection {
    client: Option<Client>,
    /// The reaper of a worker, which outlives its agents.
    reaper: Option<Identity>,
    replies: ReplyBuffer,
    /// Connections are accepted from this time on.
    accept_at: Mono,
}

/// A runner that has connected and has not been greeted.
pub(super) struct Caller {
    stream: UnixStream,
    pid: u32,
}

impl Connection {
    pub(super) const fn is_up(&self) -> bool {
        self.client.is_some()
    }

    /// The pid of the connected runner, and its children that do not belong to the task.
    pub(super) fn client(&self) -> Option<(u32, &[Identity])> {
        let client = self.client.as_ref()?;
        Some((client.pid, &client.spared))
    }

    pub(super) const fn reaper(&self) -> Option<Identity> {
        self.reaper
    }

    pub(super) fn attach(&mut self, spared: Vec<Identity>, reaper: Option<Identity>) {
        self.reaper = reaper;
        if let Some(client) = &mut self.client {
            client.spared = spared;
        }
    }

    /// The channel to poll, and for what; `reads` is false while no request is handled.
    pub(super) fn interest(&self, reads: bool) -> Option<(&Channel, PollFlags)> {
        let channel = &self.client.as_ref()?.channel;
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
    pub(super) fn greet(&mut self, caller: Caller, hello: &Reply) -> io::Result<()> {
        self.replies.clear();
        let mut channel = Channel::new(caller.stream)?;
        channel.send(hello)?;
        self.client = Some(Client {
            channel,
            pid: caller.pid,
            spared: Vec::new(),
        });
        Ok(())
    }

    /// Continues sending, and reads what has arrived. False once the runner is gone.
    pub(super) fn fill(&mut self) -> bool {
        let Some(client) = &mut self.client else {
            return true;
        };
        let alive = client.channel.flush().and_then(|()| client.channel.fill());
        matches!(alive, Ok(true))
    }

    /// The next request that has been read.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        match &mut self.client {
            Some(client) => client.channel.next(),
            None => Ok(None),
        }
    }

    /// Queues a reply.
    pub(super) fn push(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// When the queued replies are to be sent. `waiting`: launches wait.
    pub(super) fn replies_due(&self, waiting: bool) -> Option<Mono> {
        self.replies.due(waiting)
    }

    /// Sends the queued replies. False once the runner is gone.
    pub(super) fn flush(&mut self, now: Mono) -> bool {
        let replies = self.replies.take(now);
        let Some(client) = &mut self.client else {
            return true;
        };
        let put = replies
            .iter()
            .try_for_each(|reply| client.channel.put(reply));
        put.and_then(|()| client.channel.flush()).is_ok()
    }

    pub(super) fn drop_client(&mut self) {
        self.client = None;
    }
}
