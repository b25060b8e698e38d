//! The socket by which others ask for the end of a task that somebody drives.

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

/// So many may ask at once; who comes later waits for its turn.
const CALLERS_MAX: usize = 64;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// The end: with final processes, or at once.
    Kill {
        /// At once.
        now: bool,
    },
}

/// What is answered, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    /// The task has ended in this state.
    Ended(AttemptState),
}

/// How long callers wait after one could not be taken.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// How long an answer is waited for before the caller is told that it is.
const NOTICE_INTERVAL: Millis = Millis::from_secs(5);

/// The runner's end.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
    callers: Vec<Channel>,
    /// Callers are taken from then on.
    accept_at: Option<Instant>,
}

impl Control {
    /// Opens the socket. Only the one runner of a task does.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let listener = socket::listen(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            callers: Vec::new(),
            accept_at: None,
        })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> + '_ {
        let room = self.callers.len() < CALLERS_MAX && self.is_open();
        let listener = room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let callers = self.callers.iter();
        listener
            .into_iter()
            .chain(callers.map(|caller| PollFd::new(caller, PollFlags::IN)))
    }

    /// What was asked since the last time: each a kill, at once or not.
    pub(super) fn take_kill_requests(&mut self) -> Vec<bool> {
        self.accept();
        let mut kills = Vec::new();
        self.callers.retain_mut(|caller| {
            let alive = caller.fill().unwrap_or(false);
            loop {
                match caller.next::<ControlRequest>() {
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
        while self.callers.len() < CALLERS_MAX && self.is_open() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptors left, most likely: without a pause we would do nothing
                    // else than try.
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY);
                    return;
                }
            };
            let trusted = inherit::trusted_peer(stream.as_fd());
            if let (Ok(Some(_)), Ok(caller)) = (trusted, Channel::new(stream)) {
                self.callers.push(caller);
            }
        }
    }

    /// Tells everybody who has asked that it is over.
    pub(super) fn answer_all(&mut self, state: AttemptState) {
        for caller in &mut self.callers {
            // Whoever is gone does not want to know.
            let _ = caller.send(&ControlReply::Ended(state));
        }
    }
}

/// Asks the runner of a task, and waits until the task has ended. `None` if no runner
/// listens, or it went away before the end. While it does not answer, `waiting` is told its
/// number every few seconds.
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
        if let Some(told) = channel.next()? {
            return Ok(Some(told));
        }
        if !alive {
            return Ok(None);
        }
    }
}
