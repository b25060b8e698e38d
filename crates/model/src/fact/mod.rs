//! Facts: the records of the store. Past tense, append-only, applied by one function both live
//! and in replay (`baton-core`'s `ledger`). Their text is in `fact/text.rs`.

mod text;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, IntoStaticStr, VariantNames};

use crate::alarm::{Alarm, AlarmKey};
use crate::backfill::{BackfillHalt, BackfillRange};
use crate::conditions::HaltReason;
use crate::fleet::{CancelCause, FleetName, FleetSpec, JobEnd, JobState, Removal};
use crate::ids::{
    BackfillId, BootId, Epoch, ExecutorId, Generation, HostId, Incarnation, InstanceId, JobId,
    LeaseId, Revision, RunId, TaskNo, WorkerName,
};
use crate::library::{Cause, Created, Definition, Execution, IdempotencyKey, RunOrigin, TaskName};
use crate::outcome::{AttemptEnd, AttemptStats, KillMode, MemberLoss};
use crate::placement::Suspicion;
use crate::principal::NameOwner;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::schedule;
use crate::spec::{Allowance, InstanceSpec};
use crate::state::UniversalState;
use crate::time::{Millis, Wall};
use crate::workflow::{CarriedItems, HaltCause, HaltMode, ItemSpan, Plan};

/// The worker that holds a lease, with all identities that can later prove it gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The seat.
    pub worker: WorkerName,
    pub incarnation: Incarnation,
    pub host: HostId,
    /// The boot of the host.
    pub boot: BootId,
}

/// Triage's decision about an instance after one of its attempts has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The work is done.
    Done,
    /// Another attempt will follow.
    Requeued,
    /// The retry budget is spent: the instance is FAILED.
    GaveUp,
    /// A stop had been requested.
    Stopped,
}

impl Verdict {
    /// The spelling in transcripts and history.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Requeued => "requeued",
            Self::GaveUp => "failed for good",
            Self::Stopped => "stopped",
        }
    }
}

/// Changes for the next attempt: its backoff and its allowance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextAttempt {
    /// The end of its backoff.
    pub not_before: Option<Wall>,
    /// Its allowance, if that differs from the one before.
    pub allowance: Option<Allowance>,
}

/// The reason for which an incarnation was condemned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condemnation {
    /// UNHEALTHY for longer than `lose_after`.
    Unhealthy,
    /// Another worker has taken its seat.
    Displaced,
    /// It claimed a seat that another worker holds.
    SeatTaken,
    /// An operator vouched that it is gone (`baton workers forget`).
    Forgotten,
    /// It reported that it has given up.
    GaveItselfUp,
    /// It has said goodbye: it has ended in order, and nothing of it runs.
    Left,
}

/// The evidence that a store is a copy: a restored backup, a clone, or a file moved back in time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CopyEvidence {
    /// The file beside the database, which names it, is missing or damaged.
    MarkMissing,
    /// The file beside the database names another one.
    OtherFile,
    /// The file beside the database has seen a later state of it.
    OlderThanMark,
    /// The database does not continue the one in which the last term was led: a standby was promoted,
    /// or a backup was restored.
    OtherHistory,
    /// A worker has obeyed a term of this store that the store does not know.
    LaterTermObeyed { worker: WorkerName, epoch: Epoch },
}

/// One durable record of something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, EnumDiscriminants)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[strum_discriminants(
    name(FactKind),
    doc = "The kind of a fact.",
    derive(IntoStaticStr, VariantNames),
    strum(serialize_all = "kebab-case")
)]
pub enum Fact {
    /// Instances were accepted: one, or a range of ids with the same specification.
    InstancesSubmitted {
        first: InstanceId,
        /// Equal to `first` for a single instance.
        last: InstanceId,
        spec: Arc<InstanceSpec>,
    },
    /// A lease of one attempt was granted to one incarnation.
    LeaseGranted {
        /// The attempt and the granting epoch.
        lease: LeaseId,
        holder: Holder,
        /// The agent of the holder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executor: Option<ExecutorId>,
        /// The other members of a gang, which are held for the attempt until its end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Holder>,
    },
    /// A member of a gang was lost, other than the first: the attempt is killed, and counts as lost.
    MemberLost {
        lease: LeaseId,
        worker: WorkerName,
        loss: MemberLoss,
    },
    /// Without a store only: a worker reported an attempt that it held already.
    AttemptAdopted {
        /// The attempt and the epoch that once granted it.
        lease: LeaseId,
        holder: Holder,
        /// The specification as the worker reported it.
        spec: Arc<InstanceSpec>,
    },
    /// The worker confirmed that it holds the attempt.
    AttemptConfirmed { lease: LeaseId },
    /// An attempt has ended; its lease is closed.
    AttemptEnded {
        lease: LeaseId,
        end: AttemptEnd,
        verdict: Verdict,
        #[serde(alias = "ran")]
        stats: Option<AttemptStats>,
        /// Changes for the next attempt, where there is one.
        #[serde(alias = "again")]
        next_attempt: Option<Box<NextAttempt>>,
        /// Its outputs: the text of a JSON object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<Arc<str>>,
        /// The last lines of its standard error, if it has failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr_tail: Option<Arc<str>>,
        /// How far it came, in its own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Box<Progress>>,
    },
    /// A client requested to stop an instance that has a lease, or it is stopped for a reason.
    StopRequested {
        instance: InstanceId,
        #[serde(alias = "how", default, skip_serializing_if = "KillMode::is_graceful")]
        mode: KillMode,
        /// The reason, if no client asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<HaltReason>,
    },
    /// An operator requested to kill one attempt, as if it had ended by itself: retries follow.
    AttemptKillRequested {
        lease: LeaseId,
        #[serde(alias = "how", default, skip_serializing_if = "KillMode::is_graceful")]
        mode: KillMode,
    },
    /// All waiting instances of a range were stopped.
    InstancesHalted {
        first: InstanceId,
        last: InstanceId,
        /// The reason, if no client asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<HaltReason>,
    },
    /// A client requested a retry of a FAILED or HALTED instance; its retry budgets start anew.
    InstanceRetried { instance: InstanceId },
    /// A worker was drained or undrained, in whichever incarnation.
    WorkerDrained {
        /// The seat.
        worker: WorkerName,
        /// True if no more work is placed on it.
        drained: bool,
    },
    /// The name of a worker belongs to a credential from now on, or was released.
    WorkerNameAssigned {
        worker: WorkerName,
        /// None if it was released.
        owner: Option<NameOwner>,
    },
    /// An operator has set a cluster-wide limit, or removed the value that was set: then the one of
    /// the configuration is in force again, if there is one.
    LimitSet {
        name: String,
        /// None if it was removed. Of a rate, its burst.
        total: Option<u64>,
        /// If it is a rate of starts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
    },
    /// A client has changed the concurrency limit of an array.
    ArrayLimitSet {
        first: InstanceId,
        last: InstanceId,
        /// None if there is no limit any more.
        total: Option<u32>,
    },
    /// An operator has set how many turns an owner gets for each one of an owner with weight 1.
    ShareSet {
        owner: String,
        /// 1 if it was removed.
        weight: u32,
    },
    /// The lease time in force from now on. A later leader with a shorter one must still wait for
    /// the leases that were extended by this one.
    LeaseTimeSet {
        /// For how long after its last answered heartbeat a worker may still be running attempts.
        lease: Millis,
    },
    /// An incarnation was condemned.
    WorkerCondemned {
        /// The seat that it held or claimed.
        worker: WorkerName,
        incarnation: Incarnation,
        #[serde(alias = "why")]
        reason: Condemnation,
    },
    /// The store was found to be a copy: a new generation of it begins with this term. Nothing is
    /// placed for a lease time, because the original may have placed everything that waits here.
    CopyOpened {
        epoch: Epoch,
        evidence: CopyEvidence,
    },
    /// A lease time has passed since then: no attempt that the copy does not know is alive.
    CopySettled {
        /// The first term of the generation.
        epoch: Epoch,
    },
    /// A worker holds attempts that no term of this store has started. Their results and logs are
    /// refused, and they are killed.
    AttemptsDisowned {
        worker: WorkerName,
        incarnation: Incarnation,
        /// Counted in one list of the worker.
        attempts: u32,
        /// One of them.
        example: LeaseId,
    },
    /// A worker cannot launch anything, or can again. It keeps what it runs.
    WorkerFaulted {
        worker: WorkerName,
        incarnation: Incarnation,
        /// The fault of its host; none if it has passed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Arc<str>>,
    },
    /// Unrelated work fails on a worker and succeeds elsewhere, or no longer does.
    WorkerSuspected {
        worker: WorkerName,
        incarnation: Incarnation,
        /// None if it is trusted again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspicion: Option<Suspicion>,
    },
    /// A task or a workflow of the library has a new revision.
    TaskDefined {
        task: TaskNo,
        name: TaskName,
        revision: Revision,
        /// Due times up to and including this one do not count for it.
        from: Wall,
        definition: Arc<Definition>,
    },
    /// A task or a workflow was removed from the library.
    TaskRemoved {
        task: TaskNo,
        /// Its last revision.
        revision: Revision,
    },
    /// An operator has paused an entry: due times and ends of upstream entries are skipped.
    TaskPaused {
        task: TaskNo,
        at: Wall,
        /// The operator's reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An operator has ended the pause of an entry. What was skipped stays skipped.
    TaskUnpaused { task: TaskNo },
    /// An entry of the library was launched, or its launch was skipped.
    Launched {
        entry: TaskNo,
        revision: Revision,
        cause: Cause,
        verdict: schedule::TickVerdict,
        /// The instance or the run that was launched; none if it was skipped.
        execution: Option<Execution>,
    },
    /// A backfill was accepted.
    BackfillRegistered {
        backfill: BackfillId,
        task: TaskNo,
        at: Wall,
        range: BackfillRange,
        max_concurrent: u32,
        /// The number of due times of the range.
        due: u64,
        /// The due times of the range that have a launch already.
        taken: Vec<Wall>,
    },
    /// A backfill launches nothing until it is resumed.
    BackfillHalted {
        backfill: BackfillId,
        task: TaskNo,
        at: Wall,
        cause: BackfillHalt,
    },
    /// A backfill continues with the due times that it has not passed.
    BackfillResumed {
        backfill: BackfillId,
        task: TaskNo,
        at: Wall,
        /// The number of due times that it has still to launch.
        remaining: u64,
        /// Those that it has not passed and that have a launch already.
        taken: Vec<Wall>,
    },
    /// Every due time of a backfill has a launch, and all launches have ended.
    BackfillEnded {
        backfill: BackfillId,
        task: TaskNo,
        at: Wall,
    },
    /// A backfill has ended before all its due times had a launch. Its launches continue.
    BackfillCancelled {
        backfill: BackfillId,
        task: TaskNo,
        at: Wall,
    },
    /// The idempotency key of a submission, with what it has created by the fact before.
    KeyRecorded {
        key: IdempotencyKey,
        created: Created,
    },
    /// A run was accepted, with its plan or the first part of it.
    RunRegistered {
        run: RunId,
        at: Wall,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        plan: Arc<Plan>,
        /// True if more parts of the plan follow.
        open: bool,
        /// The library workflow of which it is a run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<RunOrigin>,
    },
    /// A further part of a plan was accepted: its tasks are appended.
    RunExtended {
        run: RunId,
        at: Wall,
        /// Only its tasks count.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        plan: Arc<Plan>,
    },
    /// A plan that was sent in parts is complete.
    RunDefined { run: RunId, at: Wall },
    /// A run has advanced: its first instance was created, or runs.
    RunAdvanced {
        run: RunId,
        /// LAUNCHED or RUNNING.
        to: UniversalState,
        /// When it started, if it had to wait for its turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Wall>,
    },
    /// A run is being halted: no further items start.
    RunHalting {
        run: RunId,
        #[serde(alias = "how")]
        mode: HaltMode,
        cause: HaltCause,
    },
    /// The current generation of a run has ended.
    RunEnded {
        run: RunId,
        generation: Generation,
        /// DONE, FAILED, HALTED; ABORTED if its plan was never completed.
        state: UniversalState,
    },
    /// A run was resumed: the next generation executes the items that are not DONE.
    RunResumed {
        run: RunId,
        /// The new generation.
        generation: Generation,
        at: Wall,
        /// The plan, if it was changed.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        plan: Option<Arc<Plan>>,
        /// With a changed plan: the DONE items that stay DONE.
        carried: Vec<CarriedItems>,
        /// DONE items that are invalidated and run again.
        #[serde(alias = "again")]
        rerun: Vec<ItemSpan>,
    },
    /// A fleet was defined, or its definition changed.
    FleetDefined {
        fleet: FleetName,
        spec: Arc<FleetSpec>,
        /// The file that defines it; none if a command has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// An operator has paused or resumed a fleet: a paused one requests no jobs.
    FleetPaused { fleet: FleetName, paused: bool },
    /// An operator has removed a fleet. It stays known until its jobs have ended.
    FleetRemoved { fleet: FleetName, removal: Removal },
    /// A job is going to be submitted to a fleet: recorded before the first call of its cluster manager.
    JobRequested {
        job: JobId,
        fleet: FleetName,
        /// Its name in the lists of the cluster manager.
        name: String,
        /// Workers that it starts.
        workers: u32,
        at: Wall,
    },
    /// The cluster manager has the job.
    JobSubmitted {
        job: JobId,
        fleet: FleetName,
        /// Its id there.
        native: String,
    },
    /// The cluster manager reports a job in another state, with another reason or on other nodes than before.
    JobObserved {
        job: JobId,
        fleet: FleetName,
        state: JobState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<String>,
        at: Wall,
    },
    /// The first pilot of a job has taken its seat.
    JobArrived {
        job: JobId,
        fleet: FleetName,
        at: Wall,
    },
    /// A job is going to be cancelled.
    JobCancelRequested {
        job: JobId,
        fleet: FleetName,
        cause: CancelCause,
        /// The native id of a surplus job, if it is not the job of the request itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        surplus: Option<String>,
    },
    /// A job is over.
    JobEnded {
        job: JobId,
        fleet: FleetName,
        end: JobEnd,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        at: Wall,
    },
    /// A channel of notifications cannot deliver, or can again.
    ChannelFaulted {
        channel: String,
        /// What it reported; none if it works again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Arc<str>>,
    },
    /// Work is late, slow, short or stuck.
    AlarmRaised(Box<Alarm>),
    /// An alarm has ended: its work has ended or, if it was stuck, was placed.
    AlarmCleared { alarm: AlarmKey, at: Wall },
}

impl FactKind {
    /// The names of all kinds, in the order of their numbers.
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// The name of the kind, as on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Fact {
    /// Decodes a fact from JSON. Not generic, so that it is compiled in this crate, where the others find it.
    ///
    /// # Errors
    /// If the text is not JSON, or not a fact.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The kind of the fact.
    #[must_use]
    pub fn kind(&self) -> FactKind {
        self.into()
    }

    /// The run of a fact about a run; none for facts about its instances. A request that has launched a run is
    /// about the run, any other launch is about its entry.
    #[must_use]
    pub const fn run(&self) -> Option<RunId> {
        match self {
            Self::RunRegistered { run, .. }
            | Self::RunExtended { run, .. }
            | Self::RunDefined { run, .. }
            | Self::RunAdvanced { run, .. }
            | Self::RunHalting { run, .. }
            | Self::RunEnded { run, .. }
            | Self::RunResumed { run, .. }
            | Self::Launched {
                cause: Cause::Request { .. },
                execution: Some(Execution::Run(run)),
                ..
            } => Some(*run),
            Self::AlarmRaised(alarm) => alarm.subject.run(),
            Self::AlarmCleared { alarm, .. } => alarm.subject.run(),
            _ => None,
        }
    }

    /// The library entry of a fact about an entry; none for facts about its instances and runs.
    #[must_use]
    pub const fn task(&self) -> Option<TaskNo> {
        match self {
            Self::TaskDefined { task, .. }
            | Self::TaskRemoved { task, .. }
            | Self::TaskPaused { task, .. }
            | Self::TaskUnpaused { task, .. }
            | Self::BackfillRegistered { task, .. }
            | Self::BackfillHalted { task, .. }
            | Self::BackfillResumed { task, .. }
            | Self::BackfillEnded { task, .. }
            | Self::BackfillCancelled { task, .. } => Some(*task),
            Self::Launched { entry, cause, .. } if !matches!(cause, Cause::Request { .. }) => {
                Some(*entry)
            }
            _ => None,
        }
    }

    /// The backfill of a fact about a backfill.
    #[must_use]
    pub const fn backfill(&self) -> Option<BackfillId> {
        match self {
            Self::BackfillRegistered { backfill, .. }
            | Self::Launched {
                cause: Cause::Backfill { backfill, .. },
                ..
            }
            | Self::BackfillHalted { backfill, .. }
            | Self::BackfillResumed { backfill, .. }
            | Self::BackfillEnded { backfill, .. }
            | Self::BackfillCancelled { backfill, .. } => Some(*backfill),
            _ => None,
        }
    }

    /// The first and last instance whose timelines show the fact, if any.
    #[must_use]
    pub const fn instances(&self) -> Option<(InstanceId, InstanceId)> {
        match self {
            Self::InstancesSubmitted { first, last, .. }
            | Self::InstancesHalted { first, last, .. }
            | Self::ArrayLimitSet { first, last, .. } => Some((*first, *last)),
            Self::StopRequested { instance, .. }
            | Self::InstanceRetried { instance, .. }
            | Self::Launched {
                cause: Cause::Request { .. },
                execution: Some(Execution::Instance(instance)),
                ..
            } => Some((*instance, *instance)),
            Self::LeaseGranted { lease, .. }
            | Self::AttemptAdopted { lease, .. }
            | Self::AttemptConfirmed { lease }
            | Self::AttemptKillRequested { lease, .. }
            | Self::MemberLost { lease, .. }
            | Self::AttemptEnded { lease, .. } => {
                Some((lease.attempt.instance, lease.attempt.instance))
            }
            Self::LeaseTimeSet { .. }
            | Self::WorkerCondemned { .. }
            | Self::WorkerDrained { .. }
            | Self::WorkerNameAssigned { .. }
            | Self::LimitSet { .. }
            | Self::ShareSet { .. }
            | Self::CopyOpened { .. }
            | Self::CopySettled { .. }
            | Self::AttemptsDisowned { .. }
            | Self::WorkerFaulted { .. }
            | Self::WorkerSuspected { .. }
            | Self::TaskDefined { .. }
            | Self::TaskRemoved { .. }
            | Self::TaskPaused { .. }
            | Self::TaskUnpaused { .. }
            | Self::Launched { .. }
            | Self::BackfillRegistered { .. }
            | Self::BackfillHalted { .. }
            | Self::BackfillResumed { .. }
            | Self::BackfillEnded { .. }
            | Self::BackfillCancelled { .. }
            | Self::KeyRecorded { .. }
            | Self::RunRegistered { .. }
            | Self::RunExtended { .. }
            | Self::RunDefined { .. }
            | Self::RunAdvanced { .. }
            | Self::RunHalting { .. }
            | Self::RunEnded { .. }
            | Self::RunResumed { .. }
            | Self::FleetDefined { .. }
            | Self::FleetPaused { .. }
            | Self::FleetRemoved { .. }
            | Self::JobRequested { .. }
            | Self::JobSubmitted { .. }
            | Self::JobObserved { .. }
            | Self::JobArrived { .. }
            | Self::JobCancelRequested { .. }
            | Self::JobEnded { .. }
            | Self::ChannelFaulted { .. } => None,
            Self::AlarmRaised(alarm) => alarm.subject.instances(),
            Self::AlarmCleared { alarm, .. } => alarm.subject.instances(),
        }
    }

    /// The fleet of a fact about a fleet or one of its jobs.
    #[must_use]
    pub const fn fleet(&self) -> Option<&FleetName> {
        match self {
            Self::FleetDefined { fleet, .. }
            | Self::FleetPaused { fleet, .. }
            | Self::FleetRemoved { fleet, .. }
            | Self::JobRequested { fleet, .. }
            | Self::JobSubmitted { fleet, .. }
            | Self::JobObserved { fleet, .. }
            | Self::JobArrived { fleet, .. }
            | Self::JobCancelRequested { fleet, .. }
            | Self::JobEnded { fleet, .. } => Some(fleet),
            _ => None,
        }
    }

    /// The job of a fact about a job of a fleet.
    #[must_use]
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::JobRequested { job, .. }
            | Self::JobSubmitted { job, .. }
            | Self::JobObserved { job, .. }
            | Self::JobArrived { job, .. }
            | Self::JobCancelRequested { job, .. }
            | Self::JobEnded { job, .. } => Some(*job),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
