//! Wait reasons: everything that an instance, or a task of a run, can wait for.
//!
//! One type for all of them. Each part of the scheduler that holds work back answers with a variant of
//! [`WaitReason`]; `Scheduler::explain` and `Scheduler::run_view` ask them in order. The words for
//! machines, the sentences and the hints are here as well, so `explain`, the bullpen, `status`, runs
//! and pages tell the same.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the reasons, and the word for each |
//! | `exclusion` | reasons for which a worker does not take an instance |
//! | `fleets` | what fleets do about a wait, and why one requests no more jobs |
//! | `messages` | sentences and hints |

mod exclusion;
mod fleets;
mod messages;

use baton_model::conditions::Dependency;
use baton_model::ids::WorkerName;
use baton_model::rate::Rate;
use baton_model::state::WorkerState;
use baton_model::time::Millis;

use crate::limits::{Limit, LimitKey};

pub use exclusion::{Exclusion, WorkerGroup};
pub(crate) use fleets::Failed;
pub use fleets::{FleetWait, Hold, Prospect};
pub(crate) use messages::{KIND_NAMES, SOCKET_NAME, TIME_NAME, amount, duration};

/// Names a class, for as long as something of it waits or runs. Afterwards the
/// number may come to mean another class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub usize);

impl std::fmt::Display for ClassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "k{}", self.0)
    }
}

/// The explanation of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Of an instance in placement, the reason for which the first of its class waits.
    pub reason: WaitReason,
    /// Its class, and how many of it wait; none if it is not in placement.
    pub class: Option<(ClassId, u64)>,
    /// How many of the same class come first; 0 if no worker takes any of it.
    pub ahead: u64,
    /// Of an instance in placement all workers, each in one group, those nearest to a start first.
    pub workers: Vec<WorkerGroup>,
    /// The directory outside of its sandbox in which it runs.
    pub directory: Option<String>,
    /// What each fleet does for it.
    pub fleets: Vec<FleetWait>,
    /// The requests that have grown since its first attempt, if no worker is large enough, as a clause.
    pub grown: Option<String>,
}

impl From<WaitReason> for Wait {
    fn from(reason: WaitReason) -> Self {
        Self {
            reason,
            class: None,
            ahead: 0,
            workers: Vec::new(),
            directory: None,
            fleets: Vec::new(),
            grown: None,
        }
    }
}

/// A reason for which an instance, or a task of a run, does not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// It is in backoff after a failure, for so long.
    Backoff { left: Millis },
    /// It starts after other work, which has not ended.
    After(Dependency),
    /// This task of its run is not settled.
    Upstream { task: String },
    /// A limit has no room for it.
    Limit(LimitReached),
    /// This scheduler has no store, and waits for the workers of the one before.
    InitialWait,
    /// The store is a copy, whose original may have placed it.
    StoreCopied,
    /// Placement has no room for more that waits.
    Overflow,
    /// There is no worker.
    NoWorker,
    /// No worker takes it, and the end of other work does not change that. This is the reason of
    /// those that come nearest.
    Excluded(Exclusion),
    /// Too little is free.
    Room {
        resource: String,
        /// The worker that comes nearest, or is reserved.
        worker: WorkerName,
        /// How much is missing there.
        short: u64,
        /// True if the class has reserved that worker.
        reserved: bool,
    },
    /// Too few workers of one group are free at the same time.
    Gang {
        /// Members of the gang.
        nodes: u32,
        /// The group that comes nearest, and how many workers of it are free.
        nearest: Option<(String, usize)>,
        /// True if the class has reserved members.
        reserved: bool,
    },
    /// A worker would have room, and has no free place at this moment.
    Busy { worker: WorkerName },
    /// The only worker with room, or a limit, is reserved for a class that has
    /// waited longer.
    Reserved {
        /// The worker, or the limit.
        what: String,
        class: ClassId,
    },
    /// For nothing: the next decisions will place it.
    Nothing,
    /// It is leased to a worker that has not started it yet.
    Confirmation { worker: WorkerName },
    /// It may or may not be running.
    Unsure(Unsure),
}

/// A limit that has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    pub key: LimitKey,
    /// Its name for people, such as that of the entry or the task.
    pub name: String,
    pub limit: Limit,
    /// How much is asked for.
    pub asked: u64,
    /// If the limit is a rate.
    pub rate: Option<RateWait>,
}

/// A rate that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWait {
    pub rate: Rate,
    /// How long until it has room for the first that waits, if nothing else starts; none if it never has.
    pub left: Option<Millis>,
}

/// A lease of which it is not known whether its attempt runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsure {
    pub worker: WorkerName,
    /// Health of that worker; none if it has not come back.
    pub health: Option<WorkerState>,
    /// Remaining time of the lease; none if only a proof can end it.
    pub left: Option<Millis>,
}

impl WaitReason {
    /// The word for machines.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Backoff { .. } => "resting",
            Self::After(_) => "after",
            Self::Upstream { .. } => "upstream",
            Self::Limit(LimitReached {
                key: LimitKey::Entry(_),
                ..
            }) => "turn",
            Self::Limit(_) => "limit",
            Self::InitialWait => "initial-wait",
            Self::StoreCopied => "store-copied",
            Self::Overflow => "overflow",
            Self::Excluded(Exclusion::TooSmall { .. }) => "never-fits",
            Self::Excluded(Exclusion::Directory | Exclusion::Constraint(_)) => "no-match",
            Self::NoWorker | Self::Excluded(_) => "no-worker",
            Self::Room { .. } => "room",
            Self::Gang { .. } => "gang",
            Self::Busy { .. } => "worker-busy",
            Self::Reserved { .. } => "reserved",
            Self::Nothing => "next",
            Self::Confirmation { .. } => "confirmation",
            Self::Unsure(_) => "unsure",
        }
    }

    /// The worker concerned, if there is one.
    #[must_use]
    pub const fn worker(&self) -> Option<&WorkerName> {
        match self {
            Self::Room { worker, .. }
            | Self::Busy { worker }
            | Self::Confirmation { worker }
            | Self::Unsure(Unsure { worker, .. }) => Some(worker),
            _ => None,
        }
    }

    /// The resource or limit concerned, if there is one.
    #[must_use]
    pub fn resource(&self) -> Option<String> {
        match self {
            Self::Excluded(Exclusion::TooSmall { resource, .. }) | Self::Room { resource, .. } => {
                Some(resource.clone())
            }
            Self::Limit(reached) => match reached.key {
                LimitKey::Named(_) | LimitKey::Array(_) => Some(reached.key.to_string()),
                LimitKey::Entry(_) | LimitKey::Backfill(_) | LimitKey::Run(..) => None,
            },
            Self::Reserved { what, .. } => Some(what.clone()),
            _ => None,
        }
    }

    /// How much of that resource is missing.
    #[must_use]
    pub fn short(&self) -> Option<u64> {
        match self {
            Self::Excluded(Exclusion::TooSmall { asked, has, .. }) => {
                Some(asked.saturating_sub(*has))
            }
            Self::Room { short, .. } => Some(*short),
            Self::Limit(it) if self.resource().is_some() => {
                Some(it.asked.saturating_sub(it.limit.free()))
            }
            _ => None,
        }
    }

    /// When time alone ends the wait, how much of it is left.
    #[must_use]
    pub const fn left(&self) -> Option<Millis> {
        match self {
            Self::Backoff { left } => Some(*left),
            Self::Unsure(unsure) => unsure.left,
            Self::Limit(LimitReached {
                rate: Some(rate), ..
            }) => rate.left,
            _ => None,
        }
    }

    /// True if it waits for a rate, which lets it start when it is its turn: a slow rate is no trouble.
    pub(crate) const fn is_for_rate(&self) -> bool {
        matches!(
            self,
            Self::Limit(LimitReached {
                rate: Some(RateWait { left: Some(_), .. }),
                ..
            })
        )
    }

    /// The same wait so much later, as far as time alone ends it.
    pub(crate) const fn pass(&mut self, span: Millis) {
        if let Self::Limit(LimitReached {
            rate: Some(RateWait {
                left: Some(left), ..
            }),
            ..
        }) = self
        {
            *left = left.saturating_sub(span);
        }
    }
}

impl Wait {
    /// The word for machines.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.ahead > 0 {
            "behind"
        } else {
            self.reason.word()
        }
    }

    /// The worker concerned, if there is one.
    #[must_use]
    pub fn worker(&self) -> Option<&WorkerName> {
        let nearest = match self.reason {
            WaitReason::Excluded(_) => self.workers.first(),
            _ => None,
        };
        self.reason
            .worker()
            .or_else(|| nearest.map(|group| &group.example))
    }

    /// Whether it is in placement, or about to leave it.
    #[must_use]
    pub const fn is_for_worker(&self) -> bool {
        self.class.is_some() || matches!(self.reason, WaitReason::Nothing)
    }
}

#[cfg(test)]
mod tests;
