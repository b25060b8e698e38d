//! Every bound on a queue, list or loop, each with its reason.

use crate::time::Millis;

/// The version of the scheduler-worker protocol; both sides must speak the same.
pub const PROTOCOL_VERSION: u16 = 12;

/// Bytes in one frame on the wire. A list of everything that a full worker holds, specs
/// included, fits; a length beyond it is refused before it is waited for.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes of the address by which a worker says that it reaches its scheduler.
pub const DIALLED_BYTES_MAX: usize = 600;

/// Bytes of a version that a worker reports and a scheduler keeps.
pub const VERSION_BYTES_MAX: usize = 64;

/// Launches in one `runTask` message: enough to amortise a frame, small enough
/// that a worker's reply is never late because of one message.
pub const LAUNCHES_PER_MESSAGE_MAX: usize = 1_024;

/// Statuses in one `updateStatus` message, for the same reason.
pub const STATUSES_PER_MESSAGE_MAX: usize = 1_024;

/// Bytes of outputs in one `updateStatus` message. One more status may be added beyond this, so a
/// frame holds them many times over, and reading one message does not take long.
pub const STATUS_OUTPUTS_BYTES_MAX: usize = 4 << 20;

/// Leases that a worker refused or forgot and must refuse again while a delayed
/// copy of their `runTask` could still be fresh. At a thousand attempts a second
/// a lease time's worth of them is some 60,000; beyond the limit the worker
/// refuses new work instead of forgetting.
pub const TOMBSTONES_MAX: usize = 1_000_000;

/// Requests for logs and processes that one scheduler keeps open towards its workers.
pub const WORKER_QUERIES_MAX: usize = 1_024;

/// Bytes in one piece of a log on the wire.
pub const LOG_CHUNK_BYTES_MAX: u32 = 256 * 1_024;

/// Bytes and lines of standard error that a failure is reported with: enough for the words of a
/// person, few enough to be stored for every failure.
pub const STDERR_TAIL_BYTES_MAX: usize = 4 << 10;
pub const STDERR_TAIL_LINES_MAX: usize = 20;

/// Bytes of the message of a task's progress: one line of a wide terminal.
pub const PROGRESS_BYTES_MAX: usize = 200;

/// Attempts whose progress goes with one heartbeat; that of others goes with the next ones. So a message
/// of it has at most some 60 KiB, however many attempts a worker runs.
pub const PROGRESS_PER_HEARTBEAT_MAX: usize = 250;

/// Bytes in the value of a secret: a chain of certificates or a configuration with keys fits.
pub const SECRET_BYTES_MAX: usize = 64 << 10;

/// Bytes in the name of a secret, which is also a file name.
pub const SECRET_NAME_BYTES_MAX: usize = 128;

/// Secrets of one task: with the largest values they are 2 MiB, in one frame.
pub const SECRETS_PER_TASK_MAX: usize = 32;

/// Processes of an attempt that one answer describes: more than a person reads.
pub const PROCESSES_SHOWN_MAX: usize = 256;

/// Samples of resource usage in one answer, of all processes together: some 400 kB.
pub const SAMPLES_SHOWN_MAX: usize = 4_096;

/// Samples of one process: enough for a curve.
pub const SAMPLES_PER_PROCESS_MAX: u32 = 120;

/// Past `notifyIfTasksNotRunning` calls of one association whose reply may still
/// arrive; older ones are asked again instead of remembered.
pub const NOTIFIES_REMEMBERED_MAX: usize = 16;

/// Lineages whose condemned incarnations are remembered after they left their seat.
/// Forgetting one costs only a slower suicide: such a worker is refused by the
/// rules for a taken seat, or killed by its own deadline.
pub const CONDEMNED_MAX: usize = 10_000;

/// Lease times for which a condemned worker that is silent and holds nothing is still listed: 50 minutes
/// by default, so that operators see which one was lost.
pub const GONE_WORKER_LEASES: u64 = 10;

/// How many departures are remembered at most, so that a storm of dying workers
/// costs a bounded amount of memory and time. Departures that say the same are
/// one entry, and none is needed once the slowest member has echoed something
/// newer, so thousands pile up only if one member stays silent for a whole loss
/// time while thousands of others come, stay for a while and go.
///
/// Beyond it the oldest is forgotten. That is safe: floors stay lower than they
/// could be, and a worker waits for a direct echo.
pub const REMOVED_MAX: usize = 4096;

/// Terms of a store that are remembered, one for each start of a scheduler. An attempt of an earlier
/// one has long lost its lease; it is refused as one of an unknown term.
pub const TERMS_MAX: usize = 10_000;

/// Number of id offsets. A copied store picks one by its epoch's random bits, so that two copies of
/// one state do not use the same ids: with so many, once in a million times.
pub const COPY_ID_STEPS: u64 = 1 << 20;

/// Instance ids that a copy of a store skips, times the number of its term and its random step. Its original may have used as
/// many since the copy was made, and workers may hold them; the epoch of a lease keeps them apart
/// beyond that.
pub const COPY_IDS_SKIPPED: u64 = 1_000_000;

/// The same for the ids of runs, of which there are fewer. Workers do not mind, but people and scripts
/// know a run by its id: they must not halt another one.
pub const COPY_RUNS_SKIPPED: u64 = 1_000;

/// Terms that a copy of a store skips. Its original may have begun as many since the copy was made;
/// beyond that, a worker has to report them first.
pub const COPY_EPOCHS_SKIPPED: u32 = 100;

/// Health checks of one worker whose report may still come; older ones count as
/// failed. At one check every few seconds this covers half a minute.
pub const CHECKS_OPEN_MAX: usize = 8;

/// Launches in a row that a fault of the host prevents before the worker gets no more work, although
/// its check passes. One may be a moment without memory; of a disk or of descriptors that are
/// really gone, the check fails with the first.
pub const HOST_FAULTS_MAX: u32 = 3;

/// Bytes of the reason of a fault: a path, at most 4 KiB, is cut rather than the error behind it.
pub const FAULT_BYTES_MAX: usize = 1_024;

/// Kinds of work, by owner and name, whose last end on a worker is remembered.
pub const SUSPICION_WORKS_MAX: usize = 20;

/// How long an end counts: what failed yesterday says little about the host today.
pub const SUSPICION_MEMORY: Millis = Millis(60 * 60 * 1_000);

/// Kinds of work that must have failed on a worker before it is suspicious: people often submit a
/// few broken commands in a row, rarely five under different names.
pub const SUSPICION_FAILURES_MIN: u32 = 5;

/// How many times as often work fails there than elsewhere.
pub const SUSPICION_RATIO: u64 = 4;

/// How long a worker that has become suspicious gets no work. It doubles with each failed trial.
pub const SUSPICION_PAUSE: Millis = Millis(30_000);

/// The longest pause between two trials of a suspicious worker.
pub const SUSPICION_PAUSE_MAX: Millis = Millis(8 * 60 * 1_000);

/// Trials in a row that must succeed before a worker is trusted again.
pub const SUSPICION_TRIALS: u32 = 3;

/// Characters in the name of a token: a line that people read.
pub const TOKEN_NAME_CHARS_MAX: usize = 100;

/// Tasks that a library may ever have had, removed ones included: a leader keeps all of them in
/// memory.
pub const TASKS_MAX: usize = 2_000_000;

/// Requests with an `Idempotency-Key` that are remembered: some twenty megabytes, and two
/// minutes of two thousand in a second.
pub const IDEMPOTENCY_KEYS_MAX: usize = 250_000;

/// Bytes of the reason of a pause: a sentence, not a report.
pub const PAUSE_REASON_BYTES_MAX: usize = 1_024;

/// Due times of one backfill: an hourly schedule for a year. Each has its instance or run, and those
/// that have a launch already are listed in the fact that registers it.
pub const BACKFILL_DUE_MAX: u64 = 10_000;

/// Instances or runs of one backfill in flight at once.
pub const BACKFILL_CONCURRENT_MAX: u32 = 1_000;

/// Backfills that are not DONE. The leader remembers the launches of each.
pub const BACKFILLS_OPEN_MAX: usize = 100;

/// Launches of backfills in one step, so that other inputs are not delayed.
pub const BACKFILL_STEP_LAUNCHES: usize = 1_000;

/// Jobs of fleets that have ended and are still listed.
pub const FLEET_JOBS_ENDED_MAX: u64 = 10_000;

/// Backfills that are DONE and still listed.
pub const BACKFILLS_DONE_MAX: u64 = 10_000;

/// Launched due times of one entry that are remembered, so that no backfill launches them again: of an
/// hourly schedule those of eleven years. Beyond them a backfill is refused.
pub const LAUNCHES_REMEMBERED_MAX: u64 = 100_000;

/// From SIGTERM to SIGKILL of a command that is cancelled or killed. That of a worker that gives up is
/// part of its lease (`Timeouts`), and ends it all the same.
pub const CANCEL_GRACE: Millis = Millis::from_secs(5);

/// Names of workers that one credential owns. Beyond it, it loses those of workers that are gone: names
/// of short-lived machines are seldom used twice.
pub const WORKER_NAMES_MAX: usize = 10_000;

/// Upstream tasks of one task of the library.
pub const AFTER_MAX: usize = 100;

/// Items that one run may have: twice what it is measured with.
pub const RUN_ITEMS_MAX: u64 = 2_000_000;

/// The largest capacity of a cluster-wide limit: what every program reads from JSON exactly.
pub const LIMIT_CAPACITY_MAX: u64 = (1 << 53) - 1;

/// Bytes of a workflow file that is stored with the run that it was submitted as. A larger one has
/// generated tasks, and the client that generated them can send them again.
pub const WORKFLOW_SOURCE_BYTES_MAX: usize = 4 << 20;

/// Tasks that one plan may have. More of the same kind are items of one task.
pub const PLAN_TASKS_MAX: usize = 200_000;

/// Edges item by item that one plan may have.
pub const PLAN_EDGES_MAX: usize = 20_000_000;

/// Default limit of instances of one task of a run that are in flight at once. More than workers
/// take at a time; the other items are ready and take no memory.
pub const TASK_RELEASED_MAX: u32 = 10_000;

/// The same for all tasks of a run together.
pub const RUN_RELEASED_MAX: u32 = 200_000;

/// Bytes of outputs of one attempt, as it writes them and as JSON text: small values, not data.
pub const OUTPUTS_BYTES_MAX: usize = 64 * 1_024;

/// How long a plan that is sent in parts may wait for its next part.
pub const REGISTERING_MS_MAX: u64 = 10 * 60 * 1_000;

/// Bytes of a `when` condition: more than a person reads.
pub const WHEN_BYTES_MAX: usize = 4 * 1_024;

/// Bytes that upstream outputs may add to the texts of one task's instances, with all of them in
/// flight at once.
pub const TASK_FILLED_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// Instances or runs of a library entry that wait for their turn under `overlap: queue`. More would
/// mean that the entry is launched faster than it ends, for ever.
pub const OVERLAP_QUEUE_MAX: u32 = 1_000;

/// How long the pilots of a job of a fleet must have been here before its failure no longer speaks against the
/// fleet: a broken script or a missing file shows in the first minutes.
pub const JOB_STABLE: Millis = Millis::from_secs(5 * 60);

/// Nodes of a fleet whose failures are remembered; beyond it, those that failed longest ago are forgotten.
pub const FLEET_NODES_MAX: usize = 100;

/// Attempts of one task whose measurements are kept: enough for the 95th percentile of an array, and 8 kB in the store.
pub const TASK_ATTEMPTS_MEASURED: usize = 200;

/// Tasks whose measurements and run times are kept, by owner and name. The leader holds the run times of all of them
/// in memory, some hundred bytes each. Beyond it those that ended longest ago are forgotten.
pub const TASKS_MEASURED_MAX: usize = 10_000;

/// Run times of one task that the leader remembers: enough to tell what is unusual.
pub const RUN_TIMES_REMEMBERED: usize = 32;

/// Arrays whose concurrency limit was changed after their submission. People do so, one by one; the leader
/// keeps them in memory.
pub const ARRAY_LIMITS_MAX: usize = 10_000;

/// The greatest weight of an owner among fair turns: enough for any division that people mean, and a turn of
/// an owner with weight 1 still comes once in so many.
pub const SHARE_WEIGHT_MAX: u32 = 1_000;

/// Owners with a weight other than 1. People set them, and the leader keeps them in memory.
pub const SHARES_MAX: usize = 10_000;
