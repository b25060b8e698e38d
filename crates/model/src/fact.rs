//! Facts: what the store keeps. Past tense, append-only, applied by one
//! function both live and in replay (`baton-core`'s `ledger`).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{
    BootId, Generation, HostId, Incarnation, InstanceId, LeaseId, Revision, RunId, TaskNo,
    WorkerName,
};
use crate::library::{Definition, IdempotencyKey, TaskName, TriggerSource};
use crate::outcome::{AttemptEnd, AttemptStats};
use crate::schedule;
use crate::spec::{Allowance, InstanceSpec};
use crate::state::UniversalState;
use crate::time::{Millis, Wall};
use crate::workflow::{CarriedItems, HaltCause, HaltMode, ItemSpan, Plan};

/// The worker that holds a lease, with everything that can later prove it gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The seat.
    pub worker: WorkerName,
    /// Its life.
    pub incarnation: Incarnation,
    /// The machine it lives on.
    pub host: HostId,
    /// Which boot of that machine.
    pub boot: BootId,
}

/// Where an instance goes after one of its attempts has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The work is done.
    Done,
    /// Another attempt will follow.
    Requeued,
    /// The budget is spent.
    GaveUp,
    /// A person had asked to stop it.
    Stopped,
}

impl Verdict {
    /// The word for it in transcripts and history.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Requeued => "requeued",
            Self::GaveUp => "gave up",
            Self::Stopped => "stopped",
        }
    }
}

/// What is different for the next attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextAttempt {
    /// It rests until then.
    pub not_before: Option<Wall>,
    /// What it may use, if not what it used before.
    pub allowance: Option<Allowance>,
}

/// Why an incarnation was given up for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condemnation {
    /// It was unhealthy for too long.
    Unhealthy,
    /// Another worker has taken its seat.
    Displaced,
    /// It asked for a seat that another worker holds.
    SeatTaken,
    /// An operator said that it is gone.
    Forgotten,
    /// It has given itself up and said so.
    GaveItselfUp,
}

/// One thing that happened and must not be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// Instances were accepted: one, or a range of ids that ask for the same.
    InstancesSubmitted {
        /// The first.
        first: InstanceId,
        /// The last; the first again where it is one.
        last: InstanceId,
        /// What each of them asks for.
        spec: Arc<InstanceSpec>,
    },
    /// One incarnation received the right to one attempt.
    LeaseGranted {
        /// The attempt and the granting epoch.
        lease: LeaseId,
        holder: Holder,
    },
    /// Without a store only: a worker reported an attempt that it already held.
    AttemptAdopted {
        /// The attempt and the epoch that once granted it.
        lease: LeaseId,
        holder: Holder,
        /// What it runs, in the worker's words.
        spec: Arc<InstanceSpec>,
    },
    /// The worker confirmed that it holds the attempt.
    AttemptConfirmed { lease: LeaseId },
    /// An attempt is over; its lease is closed.
    AttemptEnded {
        lease: LeaseId,
        end: AttemptEnd,
        /// What follows for the instance.
        verdict: Verdict,
        #[serde(rename = "ran")]
        stats: Option<AttemptStats>,
        /// Where another attempt follows, what is different for it.
        #[serde(rename = "again")]
        next: Option<Box<NextAttempt>>,
        /// What it has put out, as the text of a JSON object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<Arc<str>>,
    },
    /// A person asked to stop an instance that has a lease.
    StopRequested { instance: InstanceId },
    /// All instances of a range that waited were stopped.
    InstancesHalted {
        /// The first.
        first: InstanceId,
        /// The last.
        last: InstanceId,
    },
    /// A person wants an instance tried again that had failed or was stopped; its
    /// budgets begin anew.
    InstanceRetried { instance: InstanceId },
    /// A worker gets no more work, or again does, whichever life it is in.
    WorkerDrained {
        /// The seat.
        worker: WorkerName,
        /// Whether it gets none.
        drained: bool,
    },
    /// From now on leases may be extended by this much at a time. A later leader
    /// with a shorter one must still wait for what this one promised.
    LeaseTimeSet {
        /// How long after its last answered heartbeat a worker may still be at work.
        lease: Millis,
    },
    /// An incarnation was given up for ever.
    WorkerCondemned {
        /// The seat it held or asked for.
        worker: WorkerName,
        incarnation: Incarnation,
        #[serde(rename = "why")]
        reason: Condemnation,
    },
    /// A task of the library has a new revision.
    TaskDefined {
        task: TaskNo,
        name: TaskName,
        /// The number of the revision.
        revision: Revision,
        /// Due times up to and with this are not its business.
        from: Wall,
        /// The revision.
        definition: Arc<Definition>,
    },
    /// A task is no longer in the library.
    TaskRemoved {
        task: TaskNo,
        /// The last revision that it had.
        revision: Revision,
    },
    /// What became of a due time, or of many that were skipped for the same reason; or of an
    /// instance that a task comes after.
    TickRecorded {
        task: TaskNo,
        /// Under which revision.
        revision: Revision,
        /// The nominal time, or the first of many.
        first: Wall,
        /// The nominal time, or the last of many. Everything up to it is accounted for.
        last: Wall,
        /// How many due times it stands for.
        count: u64,
        verdict: schedule::TickVerdict,
        /// The instance that was launched.
        instance: Option<InstanceId>,
        /// The instance whose end it was, if it was not a schedule's time.
        after: Option<InstanceId>,
    },
    /// Somebody triggered a task.
    InstanceTriggered {
        /// The instance that was launched.
        instance: InstanceId,
        task: TaskNo,
        #[serde(rename = "by")]
        source: TriggerSource,
        /// What the request was called.
        key: Option<IdempotencyKey>,
    },
    /// A run was accepted, or the first part of its plan.
    RunRegistered {
        run: RunId,
        at: Wall,
        /// What it carries out, or the beginning of that.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        plan: Arc<Plan>,
        /// More of the plan is to come.
        open: bool,
    },
    /// More of a plan has come: the tasks of this one stand behind those before.
    RunExtended {
        run: RunId,
        at: Wall,
        /// The tasks; the rest of it says nothing.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        plan: Arc<Plan>,
    },
    /// A plan that came in parts is complete.
    RunDefined { run: RunId, at: Wall },
    /// A run has come further: its first instance was made, or runs.
    RunAdvanced {
        run: RunId,
        /// LAUNCHED or RUNNING.
        to: UniversalState,
    },
    /// A run lets nothing more begin.
    RunHalting {
        run: RunId,
        /// What becomes of what has begun.
        #[serde(rename = "how")]
        mode: HaltMode,
        cause: HaltCause,
    },
    /// Nothing more happens in this generation of a run.
    RunEnded {
        run: RunId,
        generation: Generation,
        /// DONE, FAILED, HALTED; ABORTED if its plan was never completed.
        state: UniversalState,
    },
    /// A run goes on with what is not DONE.
    RunResumed {
        run: RunId,
        /// The generation that begins.
        generation: Generation,
        at: Wall,
        /// The plan, if it is another than before.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        plan: Option<Arc<Plan>>,
        /// With another plan: what is DONE and stays it.
        carried: Vec<CarriedItems>,
        /// What was DONE and is to be done again.
        #[serde(rename = "again")]
        rerun: Vec<ItemSpan>,
    },
}

impl Fact {
    /// The run that the fact is about, if it is about one and not about an instance of it.
    #[must_use]
    pub const fn run(&self) -> Option<RunId> {
        match self {
            Self::RunRegistered { run, .. }
            | Self::RunExtended { run, .. }
            | Self::RunDefined { run, .. }
            | Self::RunAdvanced { run, .. }
            | Self::RunHalting { run, .. }
            | Self::RunEnded { run, .. }
            | Self::RunResumed { run, .. } => Some(*run),
            _ => None,
        }
    }

    /// The task of the library that the fact is about, if it is about one and not about an
    /// instance of it.
    #[must_use]
    pub const fn task(&self) -> Option<TaskNo> {
        match self {
            Self::TaskDefined { task, .. }
            | Self::TaskRemoved { task, .. }
            | Self::TickRecorded { task, .. } => Some(*task),
            _ => None,
        }
    }

    /// The instances in whose timelines the fact belongs, first and last, if it is
    /// about any.
    #[must_use]
    pub const fn instances(&self) -> Option<(InstanceId, InstanceId)> {
        match self {
            Self::InstancesSubmitted { first, last, .. }
            | Self::InstancesHalted { first, last } => Some((*first, *last)),
            Self::StopRequested { instance }
            | Self::InstanceRetried { instance }
            | Self::InstanceTriggered { instance, .. } => Some((*instance, *instance)),
            Self::LeaseGranted { lease, .. }
            | Self::AttemptAdopted { lease, .. }
            | Self::AttemptConfirmed { lease }
            | Self::AttemptEnded { lease, .. } => {
                Some((lease.attempt.instance, lease.attempt.instance))
            }
            Self::LeaseTimeSet { .. }
            | Self::WorkerCondemned { .. }
            | Self::WorkerDrained { .. }
            | Self::TaskDefined { .. }
            | Self::TaskRemoved { .. }
            | Self::TickRecorded { .. }
            | Self::RunRegistered { .. }
            | Self::RunExtended { .. }
            | Self::RunDefined { .. }
            | Self::RunAdvanced { .. }
            | Self::RunHalting { .. }
            | Self::RunEnded { .. }
            | Self::RunResumed { .. } => None,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstancesSubmitted { first, last, .. } => {
                write!(f, "InstancesSubmitted {}", InstanceRange(*first, *last))
            }
            Self::LeaseGranted { lease, holder } => {
                write!(
                    f,
                    "LeaseGranted {lease} to {} {}",
                    holder.worker, holder.incarnation
                )
            }
            Self::AttemptAdopted { lease, holder, .. } => {
                write!(
                    f,
                    "AttemptAdopted {lease} from {} {}",
                    holder.worker, holder.incarnation
                )
            }
            Self::AttemptConfirmed { lease } => write!(f, "AttemptConfirmed {lease}"),
            Self::AttemptEnded {
                lease,
                end,
                verdict,
                ..
            } => {
                write!(f, "AttemptEnded {lease} ({end}) -> {}", verdict.word())
            }
            Self::StopRequested { instance } => write!(f, "StopRequested {instance}"),
            Self::InstancesHalted { first, last } => {
                write!(f, "InstancesHalted {}", InstanceRange(*first, *last))
            }
            Self::InstanceRetried { instance } => write!(f, "InstanceRetried {instance}"),
            Self::WorkerDrained { worker, drained } => {
                write!(f, "WorkerDrained {worker}: {drained}")
            }
            Self::LeaseTimeSet { lease } => write!(f, "LeaseTimeSet {lease}"),
            Self::WorkerCondemned {
                worker,
                incarnation,
                reason,
            } => {
                write!(f, "WorkerCondemned {worker} {incarnation} ({reason:?})")
            }
            Self::TaskDefined {
                task,
                name,
                revision,
                ..
            } => write!(f, "TaskDefined {task} {name} {revision}"),
            Self::TaskRemoved { task, revision } => write!(f, "TaskRemoved {task} {revision}"),
            Self::TickRecorded {
                task,
                first,
                last,
                count,
                verdict,
                ..
            } => {
                let word = verdict.word();
                write!(
                    f,
                    "TickRecorded {task} {count} from {} to {}: {word}",
                    first.0, last.0
                )
            }
            Self::InstanceTriggered {
                instance,
                task,
                source,
                ..
            } => write!(f, "InstanceTriggered {instance} of {task} ({source:?})"),
            Self::RunRegistered { run, plan, .. } => {
                write!(
                    f,
                    "RunRegistered {run} {} ({} tasks)",
                    plan.name,
                    plan.tasks.len()
                )
            }
            Self::RunExtended { run, plan, .. } => {
                write!(f, "RunExtended {run} ({} tasks)", plan.tasks.len())
            }
            Self::RunDefined { run, .. } => write!(f, "RunDefined {run}"),
            Self::RunAdvanced { run, to } => write!(f, "RunAdvanced {run} -> {}", to.word()),
            Self::RunHalting { run, mode, cause } => {
                write!(f, "RunHalting {run} ({mode:?}, {cause:?})")
            }
            Self::RunEnded {
                run,
                generation,
                state,
            } => write!(f, "RunEnded {run} {generation} -> {}", state.word()),
            Self::RunResumed {
                run, generation, ..
            } => write!(f, "RunResumed {run} {generation}"),
        }
    }
}

/// A range of instances as people read it.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRange(pub InstanceId, pub InstanceId);

impl fmt::Display for InstanceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            self.0.fmt(f)
        } else {
            write!(f, "{}..{}", self.0, self.1)
        }
    }
}
