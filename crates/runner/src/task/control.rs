//! The control socket of a running task, for kill requests.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use baton_model::state::AttemptState;
use baton_model::time::Millis;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::sys::{clock, inherit, socket};

/// The maximum number of concurrent clients; later ones wait.
const CLIENTS_MAX: usize = 64;

/// A request on the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Kill the task: with its final processes, or at once.
    Kill { now: bool },
}

/// The reply, sent when the task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    Ended(AttemptState),
}

/// The pause after a client could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The interval at which a waiting client is notified.
const NOTICE_INTERVAL: Millis = Millis::from_secs(5);

/// The runner's side.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
    clients: Vec<Channel>,
    /// Clients are accepted from this time on.
    accept_at: Option<Instant>,
}

impl Control {
    /// Opens the socket. Only called by the one runner of a task.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let listener = socket::listen(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            clients: Vec::new(),
            accept_at: None,
        })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> + '_ {
        let room = self.clients.len() < CLIENTS_MAX && self.is_open();
        let listener = room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let clients = self.clients.iter();
        listener
            .into_iter()
            .chain(clients.map(|client| PollFd::new(client, PollFlags::IN)))
    }

    /// The kill requests since the last call: each true for a kill at once.
    pub(super) fn take_kill_requests(&mut self) -> Vec<bool> {
        self.accept();
        let mut kills = Vec::new();
        self.clients.retain_mut(|client| {
            let alive = client.fill().unwrap_or(false);
            loop {
                match client.next::<ControlRequest>() {
                    Ok(Some(ControlRequest::Kill { now })) => kills.push(now),
                    Ok(None) => return alive,
                    Err(_) => return false,
                }
            }
        });
        kills
    }

    fn is_open(&self) -> bool {
        self.accept_at.is_none_or(|at| Instant::now() >= at)
    }

    fn accept(&mut self) {
        while self.clients.len() < CLIENTS_MAX && self.is_open() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Most likely no descriptors are left: without a pause we would retry in a busy
                    // loop.
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY);
                    return;
                }
            };
            let trusted = inherit::trusted_peer(stream.as_fd());
            if let (Ok(Some(_)), Ok(client)) = (trusted, Channel::new(stream)) {
                self.clients.push(client);
            }
        }
    }

    /// Tells all waiting clients that the task is over.
    pub(super) fn answer_all(&mut self, state: AttemptState) {
        for client in &mut self.clients {
            // A client that is gone needs no answer.
            let _ = client.send(&ControlReply::Ended(state));
        }
    }
}

/// Sends a request to the runner of a task, and waits until the task has ended. `None` if no runner
/// listens, or it went away before the end. While there is no answer, `waiting` is called with the
/// runner's pid every few seconds.
///
/// # Errors
/// If the socket cannot be used.
pub fn send_control_request(
    path: &Path,
    request: ControlRequest,
    waiting: &mut dyn FnMut(u32),
) -> io::Result<Option<ControlReply>> {
    let stream: UnixStream = match socket::connect(path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let runner = inherit::trusted_peer(stream.as_fd())?;
    let mut channel = Channel::new(stream)?;
    if channel.send(&request).is_err() {
        return Ok(None);
    }
    let interval = clock::timeout(NOTICE_INTERVAL);
    loop {
        let ready = poll(&mut [PollFd::new(&channel, PollFlags::IN)], Some(&interval))?;
        if let (0, Some(runner)) = (ready, runner) {
            waiting(runner);
        }
        let alive = channel.fill()?;
        if let Some(reply) = channel.next()? {
            return Ok(Some(reply));
        }
        if !alive {
            return Ok(None);
        }
    }
}
