//! The time limits of a coordinator.
//!
//! It reports a launch within milliseconds, and answers any request at once. One that has not done so
//! within the limit hangs: it is stopped, or the program is on a file system that does not answer. It
//! is killed, which leaves its processes alone: another coordinator takes them over, and a launch of
//! which nothing is known then is LOST, by proof, and tried again.
//!
//! While processes run and nothing is to be requested, the runner asks for a run that never exists:
//! the end of a process would otherwise be waited for without end.

use std::os::fd::OwnedFd;

use baton_model::outcome::KillCause;
use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Task, Watcher};
use crate::coordinator::Link;
use crate::wire::{Request, RunKey};

/// How long a launch or an answer may take, unless an option says otherwise.
pub const LAUNCH_TIMEOUT: Millis = Millis::from_secs(60);

/// A run that never exists: every coordinator answers that it does not know it.
pub(super) const PULSE: RunKey = RunKey {
    process: ProcessNo::MAX,
    run: RunNo(u64::MAX),
};
/// The limit is this many times the interval from an answer to the next question.
const PULSES_PER_LIMIT: u64 = 4;

/// The limit, and the coordinator that it applies to.
#[derive(Debug)]
pub(super) struct LaunchLimit {
    timeout: Millis,
    /// The coordinator's process.
    process: Option<OwnedFd>,
    /// The connection to it: a launch that was ordered before was ordered from another one, or is
    /// ordered again.
    since: Mono,
    pulse: Pulse,
}

/// The question whether the coordinator answers.
#[derive(Clone, Copy, Debug)]
enum Pulse {
    /// To be asked then.
    Due(Mono),
    /// Asked then, and not answered.
    Asked(Mono),
}

impl LaunchLimit {
    pub(super) const fn new(timeout: Millis) -> Self {
        Self {
            timeout,
            process: None,
            since: Mono(0),
            pulse: Pulse::Due(Mono(0)),
        }
    }

    /// Applies to this coordinator from now on.
    pub(super) fn attach(&mut self, link: &Link, now: Mono) {
        let pid = i32::try_from(link.pid()).ok().and_then(Pid::from_raw);
        self.process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.since = now;
        self.answered(now);
    }

    /// The coordinator has answered.
    pub(super) fn answered(&mut self, now: Mono) {
        self.pulse = Pulse::Due(now + Millis(self.timeout.0 / PULSES_PER_LIMIT));
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

    /// When the coordinator is to be asked, or exceeds the limit for its answer. While it kills
    /// everything it answers nothing else.
    pub(super) fn pulse_due(&self) -> Option<Mono> {
        let limit = &self.launch_limit;
        limit.process.as_ref()?;
        if self.killing.is_some() {
            return None;
        }
        self.plan.live().next()?;
        Some(match limit.pulse {
            Pulse::Due(at) => at,
            Pulse::Asked(at) => at + limit.timeout,
        })
    }

    /// Kills a coordinator that exceeds a limit. The end of its connection does the rest.
    pub(super) fn kill_hanging_coordinator(&mut self, now: Mono, watcher: &mut dyn Watcher) {
        let timeout = self.launch_limit.timeout;
        if self.launch_due().is_some_and(|due| now >= due) {
            let what = format!("the coordinator has not started a process for {timeout}");
            return self.kill_coordinator(&what, watcher);
        }
        match self.pulse_due() {
            None => self.launch_limit.answered(now),
            Some(due) if now < due => {}
            Some(_) => match self.launch_limit.pulse {
                Pulse::Due(_) => self.ask_pulse(now),
                Pulse::Asked(_) => {
                    let what = format!("the coordinator has not answered for {timeout}");
                    self.kill_coordinator(&what, watcher);
                }
            },
        }
    }

    fn ask_pulse(&mut self, now: Mono) {
        self.launch_limit.pulse = Pulse::Asked(now);
        // The loop notices a coordinator that is gone.
        let _ = self.send(&Request::Stop {
            run: PULSE,
            signal: libc::SIGTERM,
            grace: Millis(0),
            cause: KillCause::Requested,
        });
    }

    fn kill_coordinator(&mut self, what: &str, watcher: &mut dyn Watcher) {
        if let Some(process) = self.launch_limit.process.take() {
            watcher.note(&format!("{what}; it is killed"));
            // If it is gone, so much the better.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}
