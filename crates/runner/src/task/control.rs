//! The socket by which others ask for the end of a task that somebody drives.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use baton_model::state::AttemptState;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::sys::{inherit, socket};

/// So many may ask at once; who comes later waits for its turn.
const CALLERS_MAX: usize = 64;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// The end: with final processes, or at once.
    Kill {
        /// At once.
        now: bool,
    },
}

/// What is answered, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The task has ended in this state.
    Ended(AttemptState),
}

/// The runner's end.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
    callers: Vec<Channel>,
}

impl Control {
    /// Opens the socket. Only the one runner of a task does.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let listener = socket::listen(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            callers: Vec::new(),
        })
    }

    /// What to wait for.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> + '_ {
        let room = self.callers.len() < CALLERS_MAX;
        let listener = room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let callers = self.callers.iter();
        listener
            .into_iter()
            .chain(callers.map(|caller| PollFd::new(caller, PollFlags::IN)))
    }

    /// What was asked since the last time: each a kill, at once or not.
    pub(super) fn asked(&mut self) -> Vec<bool> {
        self.accept();
        let mut kills = Vec::new();
        self.callers.retain_mut(|caller| {
            let alive = caller.fill().unwrap_or(false);
            loop {
                match caller.next::<Ask>() {
                    Ok(Some(Ask::Kill { now })) => kills.push(now),
                    Ok(None) => return alive,
                    Err(_) => return false,
                }
            }
        });
        kills
    }

    fn accept(&mut self) {
        while self.callers.len() < CALLERS_MAX {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            let trusted = inherit::trusted_peer(stream.as_fd());
            if let (Ok(Some(_)), Ok(caller)) = (trusted, Channel::new(stream)) {
                self.callers.push(caller);
            }
        }
    }

    /// Tells everybody who has asked that it is over.
    pub(super) fn tell_all(&mut self, state: AttemptState) {
        for caller in &mut self.callers {
            // Whoever is gone does not want to know.
            let _ = caller.send(&Told::Ended(state));
        }
    }
}

/// Asks the runner of a task, and waits until the task has ended. `None` if no runner
/// listens, or it went away before the end.
///
/// # Errors
/// If the socket cannot be used.
pub fn ask(path: &Path, ask: Ask) -> io::Result<Option<Told>> {
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
    let mut channel = Channel::new(stream)?;
    if channel.send(&ask).is_err() {
        return Ok(None);
    }
    loop {
        poll(&mut [PollFd::new(&channel, PollFlags::IN)], None)?;
        let alive = channel.fill()?;
        if let Some(told) = channel.next()? {
            return Ok(Some(told));
        }
        if !alive {
            return Ok(None);
        }
    }
}
