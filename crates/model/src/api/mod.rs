//! The representations of the HTTP API, as plain data: the server writes them, clients read them.
//!
//! Names are camelCase, times are milliseconds since 1970 (`…At`) or seconds with a
//! fraction (`…Seconds`), ids are written as people read them (`i12`), and numbers that may be
//! above 2⁵³ are texts ([`crate::large`]). Every
//! representation carries its own links, by relation; clients follow them instead of
//! putting paths together.

mod alarms;
mod attempts;
mod backfills;
mod cores;
mod details;
mod filters;
mod fleets;
mod library;
mod limits;
mod notifications;
mod once;
mod owners;
mod processes;
mod progress;
mod ranges;
mod representation;
mod runs;
mod secrets;
mod sizing;
mod submitter;
mod waits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::device::DeviceAmount;
use crate::fact::Fact;
use crate::outcome::AttemptEnd;
use crate::placement::{Capacity, MeasuredUse, Suspicion};
use crate::state::{UniversalState, WorkerState};
use crate::token::Role;

pub use backfills::{Backfill, BackfillLaunch, BackfillReply, BackfillRequest};
pub use details::{InstanceDetails, InstanceOrigin, OriginKind, ProcessCommand};
pub use filters::{InstanceFilter, ItemFilter, RunFilter, query_pairs};
pub use fleets::{
    Fleet, FleetJob, FleetJobLog, FleetPage, FleetState, FleetUsage, PauseFleet, RemoveFleet,
};
pub use library::{
    DefineReply, DueTimes, FileProblem, LibraryPage, PauseRequest, Task, Tick, TriggerReply,
    TriggerTask,
};

pub use alarms::Alarm;
pub use limits::{
    ArrayLimit, Limit, LimitOrigin, LimitRemoval, SetArrayLimit, SetLimit, SetShare, Share,
};
pub use notifications::{ChannelTest, Notification, NotificationChannel, NotificationFilter};
pub use owners::Owner;
pub use processes::{AttemptProcesses, Process, UsageSample};
pub use progress::Progress;
pub use ranges::{RangePart, RangeSummary};
pub use representation::{Representation, profile};
pub use runs::{
    ErrorGroup, HaltRun, ItemCounts, ResumePreview, ResumeRun, ResumeTask, RetryRun, Run, RunEdge,
    RunItem, RunProblem, RunReply, RunTask, SubmitRun,
};
pub use secrets::{Rekeyed, Secret, SecretEncoding, SetSecret};
pub use sizing::{Percentiles, Suggestion, TaskRequests, TaskUsage};
pub use submitter::{Submitter, SubmitterKind};
pub use waits::WaitGroup;

/// The media type of every representation.
pub const MEDIA_TYPE: &str = "application/vnd.baton.v1+json";

/// Links by relation. A relation that changes something has its method before the path, as in
/// `DELETE /instances/i12`; one that only reads has the path alone.
pub type Links = BTreeMap<String, String>;

/// `GET /`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Root {
    /// Product name.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Build id of its binary: a hash of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Time zone data by which schedules are due.
    pub tzdata: Tzdata,
    /// The worker that the server has started itself, if it runs work outside of sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_worker: Option<LocalWorker>,
    /// All resources, by relation.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The worker of a server on the same host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LocalWorker {
    /// An opaque key of its host, mount namespace and user: a client with the same one sees the
    /// same directories with the same permissions.
    pub host: String,
    /// Directories in which, and below which, it runs work.
    pub directories: Vec<String>,
}

/// Version and source of time zone data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tzdata {
    /// Version of the IANA database, such as `2026a`; absent if the data do not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A directory of the server's host, or `built-in`.
    pub source: String,
}

/// Body of `POST /instances/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit<F> {
    /// The task, in the schema of task files.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub file: F,
    /// Parameter values.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// For an array: the indices, one instance each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
    /// For an array with other indices than one range: `0-9:2`, `1,3,5`, `1-10:3,20`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indices: Option<String>,
    /// For an array with an item for each instance, in `BATON_ITEM` and as `{{ item }}` in the task. Texts
    /// stay as they are, other values become JSON. The indices count from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub items: Option<Vec<F>>,
    /// Work that must have ended before: instances, ranges and runs, such as `i12`, `i1..i9:any` or
    /// `r3:fail`. Without a word they must be DONE (`ok`). If one can never be met any more, what
    /// waits for it is HALTED.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Of an array: the number of elements that may run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Of an array: the number of FAILED elements with which the others are cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
}

/// Indices of an array, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Indices {
    /// First index.
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991_u64))]
    pub from: u64,
    /// Last index.
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991_u64))]
    pub to: u64,
}

/// Response to a submission, sent once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmitReply {
    /// Id of the first instance.
    pub first: String,
    /// Id of the last instance; equals `first` for a single one.
    pub last: String,
    /// Number of instances.
    pub count: u64,
    /// `control`: the instance, or the whole range.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An instance, or a range of instances with identical history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Id of the instance, or the first id of the range.
    pub id: String,
    /// Last id of the range; absent for a single instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Number of instances.
    pub count: u64,
    /// Name of the task.
    pub name: String,
    /// Owner of the task.
    pub owner: String,
    /// Current state.
    pub state: UniversalState,
    /// Index within the array, for an element of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_index: Option<u64>,
    /// Item of an array of items, or of a workflow: the text in `BATON_ITEM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Id of the workflow run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Attempts so far, including a running one.
    pub attempts: u32,
    /// Attempts that failed, since the last retry by hand.
    pub failures: u32,
    /// Attempts that were lost with their worker, since the last retry by hand.
    pub losses: u32,
    /// Whether a stop was requested.
    pub stopping: bool,
    /// Worker that holds it, or held it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The agent of that worker which holds its last attempt, or held it: `HOST:PID:SHORT-ID`, as that of
    /// the worker; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// How its last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
    /// The same as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// The last lines of standard error of its last attempt, if that has failed: at most 20 lines
    /// and 4 KiB, with control characters escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// How far its attempt has come, as the attempt itself has last said; of an ended one, when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Due time, if a schedule launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_at: Option<u64>,
    /// Latest permitted launch time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_until: Option<u64>,
    /// Time of submission.
    pub submitted_at: u64,
    /// When its last fact was recorded.
    pub changed_at: u64,
    /// Why it waits, as a sentence: of a single instance, and in the bullpen with `reasons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it runs, where, with what and why; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<InstanceDetails>>,
    /// Start of its last attempt, by the clock of the worker; while the attempt runs, when it was
    /// assigned to its worker, by the clock of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// Wall-clock duration of its last attempt, so far if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<f64>,
    /// CPU time of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Peak memory of any one of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// `self`, `task`, `run`, `timeline`, `explain`, `processes`, `stdout`, `stderr`, `cancel`, `retry`: those
    /// that apply to its current state.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// Entries of the page.
    pub items: Vec<T>,
    /// Number of entries on all pages, where it is cheap to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// `self`, and `next` if more entries follow. A list of instances whose filters match few has looked at a bounded number of them, so its page
    /// may not be full although more follow: then `last` is the last instance that it has looked at.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// One entry of a timeline or of the event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Sequence number in the whole history.
    pub seq: u64,
    /// Time of recording.
    pub at: u64,
    /// Epoch of the leader that recorded it.
    pub epoch: u64,
    /// The event as one line of text.
    pub text: String,
    /// The event in machine-readable form. Numbers that may be above 2^53 are texts.
    #[serde(with = "crate::large::texts")]
    pub fact: Fact,
    /// The client that has asked for it, if it is known; none for what follows by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<Submitter>,
    /// In the event stream: `instance`, if it concerns an instance or a range; `run`, if it
    /// concerns a run or submits an instance of one; `fleet`, if it concerns a fleet or one of its jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Tells a client of the event stream that events are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventGap {
    /// Last event that the client has received.
    pub after: u64,
    /// No events are missing after this one. Those up to it that are left still follow.
    pub through: u64,
    /// The same as text.
    pub text: String,
}

/// Resource usage of one owner in one hour. Each quantity counts in the hour in which it was
/// recorded: an attempt when it ended, waiting time when a lease was granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Start of the hour.
    pub hour_at: u64,
    /// Owner of the instances.
    pub owner: String,
    /// Instances that ended DONE. An instance that is retried on request ends again.
    pub done: u64,
    /// Instances that ended FAILED.
    pub failed: u64,
    /// Instances that ended HALTED.
    pub halted: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// CPUs reserved for the attempts, times their duration.
    pub cpu_claimed_seconds: f64,
    /// CPU time, as measured by the workers.
    pub cpu_used_seconds: f64,
    /// Memory reserved for the attempts in MiB, times their duration.
    pub memory_claimed_mib_seconds: f64,
    /// Time from ready to leased.
    pub waited_seconds: f64,
}

/// Why an instance is in its current state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Id of the instance.
    pub id: String,
    /// Current state.
    pub state: UniversalState,
    /// Machine-readable reason: `resting` (backoff), `after`, `turn` (`max_instances` is reached),
    /// `initial-wait`, `store-copied`, `overflow` (too many wait already),
    /// `no-worker` (those that would do take no work), `no-match`,
    /// `never-fits`, `room`, `worker-busy`, `limit`, `reserved`, `behind`, `next`, `confirmation`, `unsure`,
    /// `running`, `ended`.
    pub reason: String,
    /// What it waits for, as a sentence, with a hint; then the workers that are excluded.
    pub text: String,
    /// Its class while it waits to be placed: instances with equal requests and constraints, which
    /// wait for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// How many of that class wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_waiting: Option<u64>,
    /// Instances of the same class that come first, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// What the first of those waits for: `text` without the place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_waits_for: Option<String>,
    /// While it waits to be placed: all workers, each in one group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerGroup>,
    /// While it waits for a worker: what each fleet does for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fleets: Vec<FleetWait>,
    /// The worker concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The resource or limit concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The missing amount of that resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<u64>,
    /// When the wait ends, if time alone ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// How long an attempt of its task usually takes, in milliseconds: a moving mean of those that ended by
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<u64>,
    /// `self`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Workers that do not take an instance for the same reason, or that would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerGroup {
    /// Machine-readable reason, such as `drained`, `directory` or `full`; `none` if they would.
    pub reason: String,
    /// How many they are. The sum over all groups is the number of workers.
    pub workers: u64,
    /// One of them: the one that comes nearest.
    pub example: String,
    /// The reason as a sentence.
    pub text: String,
    /// What to do about it; absent if they take work again by themselves when other work ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What a fleet does for an instance that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetWait {
    pub fleet: String,
    /// Machine-readable: `misfit` (none of its workers can run it), `queued`, `starting`, `requesting`, `idle`; or why it
    /// requests nothing: `paused`, `removed`, `max`, `backlog`, `starts`, `takeover`, `cancelled`, `silent`, `failing`.
    pub reason: String,
    /// The same as a sentence.
    pub text: String,
    /// Since when its first job is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// Result of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// Number of instances that were waiting and are now HALTED.
    pub halted: u64,
    /// Number of instances that run and are being killed.
    pub stopping: u64,
}

/// Result of retrying ranges of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RetryCounts {
    /// Number of instances that are queued again.
    pub retried: u64,
    /// Number of the others: in another state, or part of a run.
    pub skipped: u64,
}

/// Result of killing the attempts of ranges of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KillCounts {
    /// Number of attempts that are being killed.
    pub killed: u64,
    /// Number of instances without an attempt that runs, or that are being cancelled.
    pub skipped: u64,
}

/// The kill of one attempt, accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KillReply {
    /// The instance.
    pub id: String,
    /// The attempt that is killed.
    pub attempt: u32,
    /// `instance`, `timeline`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An accepted request whose effect follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AcceptReply {
    /// Where to follow the effect.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Name of the worker (its seat).
    pub name: String,
    /// Health of the worker.
    pub state: WorkerState,
    /// Whether it gets no new work.
    pub drained: bool,
    /// Why it cannot launch anything: then it gets no new work until its health check passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// If unrelated work fails there and succeeds elsewhere: how much. Then it gets one attempt at a
    /// time, after growing pauses, until several have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspicion: Option<Suspicion>,
    /// Id of its state directory: what `forget` vouches for.
    pub lineage: String,
    /// Number of its incarnation.
    pub incarnation: u64,
    /// Its agent: `HOST:PID:SHORT-ID`, where the short id is that of its state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Attempts that it may be running.
    pub attempts: u32,
    /// Maximum number of attempts it may hold.
    pub slots: u32,
    /// Total resources.
    pub capacity: Capacity,
    /// Resources that its attempts have claimed, in sum; `measured` is what they use.
    #[serde(default)]
    pub used: Capacity,
    /// What its attempts use, in sum, as the worker has measured it within the last seconds;
    /// absent if it has not, or is of a version that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredUse>,
    /// Its devices, with their holders, by resource and in the order in which they are assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<WorkerDevice>,
    /// Labels for placement constraints. Its name is the label `worker`, which is not listed.
    pub labels: BTreeMap<String, String>,
    /// Whether it is ending in order, and takes no more work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// When it stops taking work by itself, at the latest; milliseconds since 1970. Absent if it does
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<u64>,
    /// Version of its binary, as it was when it last connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Build id of that binary: a hash of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// The address by which it has reached the scheduler when it last connected, and its proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialled: Option<String>,
    /// Seconds by which its wall clock was ahead of the scheduler's when it connected, nearest to zero
    /// of what the delay of the message allows; negative if it was behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<f64>,
    /// Seconds since its last message.
    pub heard_seconds: f64,
    /// If it is not HEALTHY: when the first of its attempts is given up and retried elsewhere, unless
    /// it is heard before; milliseconds since 1970. None if it has none that time ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_at: Option<u64>,
    /// `self`, `drain`, `undrain`, `forget`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A device of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerDevice {
    /// The resource, such as `gpu`.
    pub resource: String,
    /// Its id: a UUID, an index, or a word of `--resources`.
    pub id: String,
    /// The part of it that no attempt holds: 1 for all of it.
    pub free: DeviceAmount,
    /// The attempts that hold it, as the worker has reported them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<DeviceHolder>,
}

/// An attempt that holds a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceHolder {
    /// Id of the instance.
    pub instance: String,
    /// Number of its attempt.
    pub attempt: u32,
    /// The part of the device that it holds: 1 for all of it.
    pub amount: DeviceAmount,
}

/// The part of a scheduler among those that share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SchedulerRole {
    /// It makes all decisions.
    Leader,
    /// It answers reads, forwards the rest to the leader, and can take over.
    Follower,
    /// It was not heard for some time: it has died, or cannot reach the store.
    Silent,
}

impl SchedulerRole {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Silent => "silent",
        }
    }
}

/// A scheduler of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scheduler {
    /// Its name, another one after each start.
    pub name: String,
    /// URL of its client port.
    pub url: String,
    /// Address of its worker port.
    pub workers: String,
    pub role: SchedulerRole,
    /// Whether it is the one that answers.
    pub answers: bool,
    /// The last term that it has led; of the leader, the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Seconds since it was last heard, by the clock of the store.
    pub heard_seconds: f64,
    /// Seconds since it has started, likewise.
    pub started_seconds: f64,
}

/// Body of `PUT /workers/{name}/drained`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// `true`: give the worker no new work; `false`: undrain it.
    pub drained: bool,
}

/// Body of `POST /tokens/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// Role of the holder.
    pub role: Role,
    /// Limits the token to objects of this owner; default: no limit. Only for viewers and
    /// operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name for display; default: the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Validity period; default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_seconds: Option<u64>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Token id, such as `t7`.
    pub id: String,
    /// Name for display.
    pub name: String,
    /// Role of the holder.
    pub role: Role,
    /// Owner that the token is limited to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Fleet whose pilots it is limited to, if any: the scheduler issues such tokens itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<String>,
    /// Time of creation.
    pub created_at: u64,
    /// When it expires, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether it was revoked.
    pub revoked: bool,
    /// `revoke`, unless it is revoked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl From<crate::token::Token> for Token {
    fn from(token: crate::token::Token) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name,
            role: token.role,
            owner: token.owner,
            fleet: token.fleet.map(String::from),
            created_at: token.created_at.0,
            expires_at: token.expires_at.map(|end| end.0),
            revoked: token.revoked,
            links: Links::new(),
        }
    }
}

/// Response to `POST /tokens/`: the only one that contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The secret that the holder presents.
    pub secret: String,
}

/// `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Whether the server leads and its store accepts writes, or follows a leader.
    pub ready: bool,
    /// Whether it leads or follows; absent while its store fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<SchedulerRole>,
    /// Epoch of the leader, if it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An error as defined by RFC 9457 (`application/problem+json`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Machine-readable kind of the error.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short description of the status.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// What is wrong in this case, with a hint.
    pub detail: String,
    /// Every problem of the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// One problem of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    /// Path of the field.
    pub field: String,
    /// Description of the problem.
    pub message: String,
    /// Suggested correction.
    pub hint: String,
}
