//! Calls of the coordinator: actions as requests, and replies as events.
//!
//! A driver adds what only its host knows: the command line and the files of a launch, and the
//! outputs of an end.

use baton_model::coordinator::{self, DeviceClaim, Launch, Reply, Request, RunEnd};
use baton_model::outcome::{AttemptStats, Outcome, Report};
use baton_model::task::Moment;
use baton_model::time::{Millis, Mono, Now};

use super::attempts::Attempt;
use super::backoff::RUNNER_RESTARTS_MAX;
use super::io::{Action, Ending, Event};
use crate::host::kernel::{SIGKILL, SIGTERM};

impl Action {
    /// The request that carries this out; `None` if the driver has to form it, or it is not for the
    /// coordinator.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        Some(match *self {
            Self::Withdraw(run) => Request::Withdraw { run },
            Self::Stop { run, grace, cause } => {
                let signal = if grace == Millis(0) { SIGKILL } else { SIGTERM };
                Request::Stop {
                    run,
                    signal,
                    grace,
                    cause,
                }
            }
            Self::Warn { run, signal } => Request::Signal { run, signal },
            Self::KillRun(run) => Request::KillRun { run },
            Self::KillStrays => Request::KillStrays,
            Self::KillEverything { id, grace } => Request::KillEverything { id, grace },
            Self::Forget(run) => Request::Forget { run },
            Self::HoldDevices { run, ref devices } => Request::HoldDevices {
                run,
                devices: devices.clone(),
            },
            Self::Guard(order) => Request::Guard(order.into()),
            Self::Send(_)
            | Self::ReadLogs(..)
            | Self::ReadProcesses(..)
            | Self::Launch(_)
            | Self::Check(_)
            | Self::Adopt(_)
            | Self::GiveUp
            | Self::EndLife => return None,
        })
    }
}

impl Event {
    /// A reply that needs nothing of the host; `None` for any other.
    #[must_use]
    pub fn of_reply(reply: &Reply) -> Option<Self> {
        Some(match *reply {
            Reply::Accepted { run } => Self::Accepted(run),
            Reply::Started {
                run,
                at,
                identity,
                ref devices,
            } => Self::Started {
                run,
                at,
                identity,
                devices: devices.clone(),
            },
            Reply::Refused { run } => Self::Refused(run),
            Reply::EverythingKilled { id, left } => Self::EverythingKilled { id, left },
            Reply::StraysKilled { left } => Self::StraysKilled { left },
            Reply::Ended(_)
            | Reply::HostFault { .. }
            | Reply::Unknown { .. }
            // A greeting only comes first, and a worker probes nothing.
            | Reply::Hello { .. }
            | Reply::Probed { .. } => return None,
        })
    }
}

impl Attempt {
    /// The launch of its run, as far as its supervision is concerned.
    #[must_use]
    pub fn launch(&self, tag: String, claim: Vec<u64>, devices: DeviceClaim, now: Mono) -> Launch {
        let assignment = &self.assignment;
        Launch {
            tag,
            claim,
            devices: DeviceClaim {
                held: self.devices.clone(),
                ..devices
            },
            timeout: assignment.time_left(now),
            timeout_grace: assignment.timeout_grace(now, now),
            memory_max: assignment.memory_max,
            term: assignment.term(),
            resumes: self.resumes(),
            is_runner: assignment.is_task(),
            ..Launch::default()
        }
    }

    /// The request to watch its run, which another coordinator has started; `None` if it has not
    /// started.
    #[must_use]
    pub fn adoption(&self, tag: String, claim: Vec<u64>, now: Mono) -> Option<Request> {
        let assignment = &self.assignment;
        let (at, identity) = self.started?;
        let attempt = coordinator::Attempt {
            tag,
            claim,
            devices: self.devices.clone(),
            timeout: assignment.time_left(at.mono),
            timeout_grace: assignment.timeout_grace(at.mono, now),
            term: assignment.term(),
            resumes: self.resumes(),
            is_runner: assignment.is_task(),
        };
        Some(Request::Adopt {
            run: self.run,
            at,
            identity,
            attempt: Some(Box::new(attempt)),
        })
    }

    /// True if another run continues with what its run leaves behind.
    fn resumes(&self) -> bool {
        self.assignment.is_task() && self.run.run.0 < RUNNER_RESTARTS_MAX
    }
}

impl Ending {
    /// The end that a coordinator has on record.
    #[must_use]
    pub fn recorded(end: &RunEnd) -> Self {
        let stats = end.started.map(|started| AttemptStats {
            started: started.wall,
            ended: end.at.wall,
            elapsed: end.at.mono.since(started.mono),
            cpu: end.usage.map_or(Millis(0), |usage| usage.cpu),
            memory_peak: end.usage.map_or(0, |usage| usage.memory_peak),
        });
        Self::new(end.at.mono, end.outcome, stats)
    }

    /// The end of a run that no coordinator has watched, found now.
    #[must_use]
    pub fn found(outcome: Outcome, started: Moment, now: Now) -> Self {
        let stats = AttemptStats {
            started: started.wall,
            ended: now.wall,
            elapsed: now.mono.since(started.mono),
            cpu: Millis(0),
            memory_peak: 0,
        };
        Self::new(now.mono, outcome, Some(stats))
    }

    fn new(at: Mono, outcome: Outcome, stats: Option<AttemptStats>) -> Self {
        Self {
            at,
            report: Report {
                outcome,
                stats,
                outputs: None,
                stderr_tail: None,
                progress: None,
            },
            has_bad_outputs: false,
        }
    }
}
