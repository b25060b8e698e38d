//! The reaper of this worker: the parent of its coordinators.
//!
//! An agent whose reaper cannot be reached goes on without one. It misses only what the reaper is
//! for: the death of agent and coordinator at once.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use baton_model::ids::BootId;
use baton_model::task::Identity;
use baton_model::time::{Millis, Mono};
use baton_runner::reaper::{Link, ReaperSpec};
use baton_runner::sys::clock;
use baton_runner::sys::exits::Exits;
use baton_runner::sys::spawn::{Command, Spawner};
use baton_runner::wire::Guard;

/// The pause before another attempt to start a reaper.
const START_RETRY: Millis = Millis::from_secs(30);
/// The second one that is gone within this time has a lasting cause, and is not replaced at once.
const LIFE_MIN: Millis = Millis::from_secs(1);

/// The reaper, and the agent's ways to it.
pub(crate) struct Reaper {
    spec: ReaperSpec,
    boot: BootId,
    link: Option<Link>,
    /// The order of the dead-man timer that is in force.
    guard: Option<Guard>,
    /// The last time that one was gone.
    gone_at: Option<Mono>,
    retry_at: Mono,
}

impl Reaper {
    pub(crate) const fn new(spec: ReaperSpec, boot: BootId) -> Self {
        Self {
            spec,
            boot,
            link: None,
            guard: None,
            gone_at: None,
            retry_at: Mono(0),
        }
    }

    /// Finds or starts the reaper, unless it is connected or an attempt has just failed.
    pub(crate) fn connect(&mut self, spawner: &mut Spawner) {
        if self.link.is_some() || clock::now().mono < self.retry_at {
            return;
        }
        match self.spec.find_or_start(self.boot, self.guard, spawner) {
            Ok(link) => {
                self.link = Some(link);
                // One that was found has the order of an earlier agent.
                if self.guard.is_some() {
                    self.send_guard();
                }
            }
            Err(error) => self.drop_link("reach", &error),
        }
    }

    /// When [`Self::connect`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.link.is_none().then_some(self.retry_at)
    }

    /// The descriptor that becomes readable when the reaper is gone.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(Link::as_fd)
    }

    /// The reaper has disconnected: it is gone, or another agent has connected to it.
    pub(crate) fn disconnected(&mut self) {
        tracing::warn!("the reaper is gone");
        self.link = None;
        let now = clock::now().mono;
        let before = self.gone_at.replace(now);
        if before.is_some_and(|before| now.since(before) < LIFE_MIN) {
            self.retry_at = now + START_RETRY;
        }
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.link.as_ref().map(Link::identity)
    }

    /// Starts a process as a child of the reaper, or of this process where there is none.
    pub(crate) fn spawn(&mut self, spawner: &mut Spawner, command: &Command<'_>) -> io::Result<()> {
        self.connect(spawner);
        if let Some(link) = &self.link {
            match link.spawn(command) {
                Ok(()) => return Ok(()),
                Err(error) => self.drop_link("start a coordinator through", &error),
            }
        }
        spawner.spawn(command).map_err(io::Error::other)?;
        Ok(())
    }

    pub(crate) fn set_guard(&mut self, guard: Option<Guard>) {
        self.guard = guard;
        self.send_guard();
    }

    fn send_guard(&mut self) {
        let (guard, now) = (self.guard, clock::now().mono);
        let sent = self.link.as_mut().map(|link| link.set_guard(guard, now));
        if let Some(Err(error)) = sent {
            self.drop_link("inform", &error);
        }
    }

    /// Adds the exits of its children that are new.
    pub(crate) fn take_exits(&mut self, exits: &mut Exits) {
        let taken = self.link.as_mut().map(|link| link.take_exits(exits));
        if let Some(Err(error)) = taken {
            self.drop_link("ask", &error);
        }
    }

    fn drop_link(&mut self, what: &str, error: &io::Error) {
        tracing::error!("cannot {what} the reaper: {error}");
        self.link = None;
        self.retry_at = clock::now().mono + START_RETRY;
    }
}
