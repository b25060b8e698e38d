//! The time limit of FORKED.
//!
//! A coordinator reports a launch within milliseconds. One that has not done so within the limit hangs:
//! it is stopped, or the program is on a file system that does not answer. It is killed, which leaves
//! its processes alone: another coordinator takes them over, and a launch of which nothing is known
//! then is LOST, by proof, and tried again.

use std::os::fd::OwnedFd;

use baton_model::time::{Millis, Mono};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Task, Watcher};
use crate::coordinator::Link;

/// How long a launch may take, unless an option says otherwise.
pub const LAUNCH_TIMEOUT: Millis = Millis::from_secs(60);

/// The limit, and the coordinator that it applies to.
#[derive(Debug)]
pub(super) struct LaunchLimit {
    timeout: Millis,
    /// The coordinator's process.
    process: Option<OwnedFd>,
    /// The connection to it: a launch that was ordered before was ordered from another one, or is
    /// ordered again.
    since: Mono,
}

impl LaunchLimit {
    pub(super) const fn new(timeout: Millis) -> Self {
        Self {
            timeout,
            process: None,
            since: Mono(0),
        }
    }

    /// Applies to this coordinator from now on.
    pub(super) fn attach(&mut self, link: &Link, now: Mono) {
        let pid = i32::try_from(link.pid()).ok().and_then(Pid::from_raw);
        self.process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.since = now;
    }
}

impl Task {
    /// When the oldest launch in flight exceeds the limit.
    pub(super) fn launch_due(&self) -> Option<Mono> {
        let limit = &self.launch_limit;
        limit.process.as_ref()?;
        let in_flight = self.plan.live().filter(|(_, live)| live.started.is_none());
        let ordered = in_flight.map(|(_, live)| live.ordered.mono).min()?;
        Some(ordered.max(limit.since) + limit.timeout)
    }

    /// Kills a coordinator that exceeds the limit. The end of its connection does the rest.
    pub(super) fn kill_hanging_coordinator(&mut self, now: Mono, watcher: &mut dyn Watcher) {
        if self.launch_due().is_none_or(|due| now < due) {
            return;
        }
        if let Some(process) = self.launch_limit.process.take() {
            let timeout = self.launch_limit.timeout;
            watcher.note(&format!(
                "the coordinator has not started a process for {timeout}; it is killed"
            ));
            // If it is gone, so much the better.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}
