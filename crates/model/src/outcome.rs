//! The end of an attempt, and the evidence for it.
//!
//! An [`Outcome`] was observed by a worker; a [`Synthetic`] end was concluded by the scheduler
//! without an observation. They are different types, so that a conclusion can never be mistaken
//! for an observation, or overwrite one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::time::{Millis, Wall};

/// The reason for which Baton itself killed an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KillCause {
    /// The scheduler requested it through `killTask`.
    Requested,
    /// The dead-man timer fired: the worker had lost its scheduler for too long.
    LeaseLapsed,
    /// The worker was ordered to die, or gave up.
    Suicide,
    /// It ran for longer than its task allows.
    TimedOut,
    /// It used more memory than its task allows.
    OutOfMemory,
    /// An operator killed this attempt, not its instance. Workers report it as `Requested`: only
    /// the scheduler knows who requested the kill.
    Operator,
    /// Its worker ended in order: it was killed then, or failed after it was warned of that.
    WorkerEnded,
    /// A member of its gang was lost: it was killed for that, or failed after it. Workers report it as
    /// `Requested`, or by its own end: only the scheduler knows of the loss.
    MemberLost,
}

/// How an attempt is killed. A later request may be harder than an earlier one, never gentler.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KillMode {
    /// A task stops its processes and runs its final ones, within its own `finalization_wait`. A
    /// single command gets SIGTERM, and SIGKILL after a grace.
    #[default]
    Graceful,
    /// SIGKILL to all processes at once.
    Now,
}

impl KillMode {
    /// True for the mode of requests that name none.
    #[must_use]
    pub const fn is_graceful(&self) -> bool {
        matches!(self, Self::Graceful)
    }
}

impl KillCause {
    /// The text in history and on the terminal.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Requested => "killed on request",
            Self::LeaseLapsed => "killed, lease lapsed",
            Self::Suicide => "killed with its worker",
            Self::TimedOut => "killed, timed out",
            Self::OutOfMemory => "killed, out of memory",
            Self::Operator => "killed by an operator",
            Self::WorkerEnded => "lost, its worker ended",
            Self::MemberLost => "lost, a member of its gang was lost",
        }
    }
}

/// The end of an attempt as its worker observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It exited by itself.
    Exited(i32),
    /// It died of a signal that Baton did not send.
    Signaled(i32),
    /// Baton killed it.
    Killed(KillCause),
    /// It could not be launched.
    LaunchFailed,
    /// It exited with 0, but its outputs cannot be read. Downstream tasks depend on them, so this is
    /// a failure of the work.
    BadOutput,
}

impl Outcome {
    /// True for the one outcome that makes an instance DONE.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// True if the end is due to the worker or to a person, and not to the work; it then counts as a
    /// loss, not as a failure.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        self.is_outside_kill()
            || matches!(
                self,
                Self::Killed(
                    KillCause::LeaseLapsed
                        | KillCause::Suicide
                        | KillCause::WorkerEnded
                        | KillCause::MemberLost
                )
            )
    }

    /// True for the signals with which people and service managers end a process. A program that
    /// crashes dies of others.
    #[must_use]
    pub const fn is_outside_kill(self) -> bool {
        const HUP: i32 = 1;
        const INT: i32 = 2;
        const QUIT: i32 = 3;
        const KILL: i32 = 9;
        const TERM: i32 = 15;
        matches!(self, Self::Signaled(HUP | INT | QUIT | KILL | TERM))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signaled(signal) => write!(f, "signal {signal}"),
            Self::Killed(cause) => f.write_str(cause.word()),
            Self::LaunchFailed => f.write_str("launch failed"),
            Self::BadOutput => f.write_str("outputs cannot be read"),
        }
    }
}

/// Times and resource usage of an attempt, as its worker measured them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptStats {
    /// The start of its first process.
    pub started: Wall,
    pub ended: Wall,
    /// By the monotonic clock.
    pub elapsed: Millis,
    /// CPU time of all processes that were waited for.
    pub cpu: Millis,
    /// The largest resident memory of one of its processes, in bytes.
    pub memory_peak: u64,
}

/// The end of an attempt, as a worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Report {
    pub outcome: Outcome,
    /// None if it never started.
    pub stats: Option<AttemptStats>,
    /// Its outputs: the text of a JSON object. Only a success has any.
    #[serde(default)]
    pub outputs: Option<Arc<str>>,
    /// The last lines of its standard error, escaped. Only a failure has any.
    #[serde(default)]
    pub stderr_tail: Option<Arc<str>>,
    /// How far it came, in its own words.
    #[serde(default)]
    pub progress: Option<Progress>,
}

impl Report {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let message = self.progress.as_ref().map(|it| &it.message);
        let texts = [self.outputs.as_ref(), self.stderr_tail.as_ref(), message];
        texts.into_iter().flatten().map(|text| text.len()).sum()
    }
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            stats: None,
            outputs: None,
            stderr_tail: None,
            progress: None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outcome.fmt(f)
    }
}

/// The proof that allows the scheduler to treat a silent attempt as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LossProof {
    /// The lease has run out, and with it the dead-man timer on the worker's
    /// host. Enough for `exclusive: timed`, never for `strict`.
    LeaseRanOut,
    /// A later incarnation of the same state directory exists.
    #[serde(alias = "newer-life")]
    NewerIncarnation,
    /// The host has booted again since.
    HostRebooted,
    /// An operator vouches that the worker is gone.
    Forgotten,
    /// The store is a copy: the worker does not have the attempt, and its end is part of a lost
    /// future.
    StoreCopied,
    /// The cluster manager that ran the worker as a job has ended the job, with all its processes.
    JobOver,
}

/// The way in which a member of a gang was lost, other than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemberLoss {
    /// An attempt on it would be lost, with this proof.
    Proved(LossProof),
    /// It has ended in order.
    Left,
    /// It was not healthy when the attempt failed.
    Unhealthy,
}

impl fmt::Display for MemberLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proved(proof) => Synthetic::WorkerLost(*proof).fmt(f),
            Self::Left => f.write_str("it has left"),
            Self::Unhealthy => f.write_str("it was not healthy when the attempt failed"),
        }
    }
}

/// An end without an observation: the scheduler's conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Synthetic {
    /// The worker refused the launch, and will always refuse it.
    NeverStarted,
    /// The worker does not know the attempt and will never start it.
    WasNotRunning,
    /// The worker is gone, with this proof.
    WorkerLost(LossProof),
    /// The worker could not start it because of a fault of its host, and never will.
    HostFault,
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverStarted => "never started",
            Self::WasNotRunning => "was not running",
            Self::WorkerLost(LossProof::LeaseRanOut) => "worker lost, lease ran out",
            Self::WorkerLost(LossProof::NewerIncarnation) => "worker lost, newer incarnation",
            Self::WorkerLost(LossProof::HostRebooted) => "worker lost, host rebooted",
            Self::WorkerLost(LossProof::Forgotten) => "worker lost, forgotten by operator",
            Self::WorkerLost(LossProof::StoreCopied) => "lost with the future of a copied store",
            Self::WorkerLost(LossProof::JobOver) => "worker lost, its job is over",
            Self::HostFault => "not started, fault of the host",
        })
    }
}

/// The one recorded end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AttemptEnd {
    /// Observed by the worker.
    Real(Outcome),
    /// Concluded by the scheduler.
    Synthetic(Synthetic),
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(outcome) => outcome.fmt(f),
            Self::Synthetic(synthetic) => synthetic.fmt(f),
        }
    }
}

/// The exit status of a process, as its parent learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It was killed by this signal between clone and exec: its program has not started. Only the
    /// parent can know, before it reaps.
    Unexecuted(i32),
}

impl ExitStatus {
    /// The signal that killed it.
    #[must_use]
    pub const fn signal(self) -> Option<i32> {
        match self {
            Self::Code(_) => None,
            Self::Signal(signal) | Self::Unexecuted(signal) => Some(signal),
        }
    }
}

impl From<ExitStatus> for Outcome {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => Self::Exited(code),
            ExitStatus::Signal(signal) | ExitStatus::Unexecuted(signal) => Self::Signaled(signal),
        }
    }
}
