//! The protocol between the runner and its coordinator.
//!
//! One unix stream socket, full duplex; each [frame](baton_core::framing) is a message in JSON. The
//! coordinator speaks first: [`Reply::Hello`] with its full state. A later connection replaces the
//! earlier one, whose sender is considered dead: its requests are carried out before the greeting
//! or never, and its successor repeats what matters.
//!
//! Every request about a run is idempotent: (process, run) identifies it. Replies may be lost with
//! a connection; the next Hello repeats their contents until [`Request::Forget`].

use std::io;

use baton_core::framing;
use baton_core::protocol::worker::io::GuardOrder;
use baton_model::ids::Epoch;
use baton_model::json;
use baton_model::outcome::{KillCause, Outcome};
pub use baton_model::task::RunKey;
use baton_model::task::{Identity, Moment};
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::timeouts::LeaseTerm;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The protocol version. A coordinator outlives the runner that started it, and so may meet a later
/// version of it.
pub const VERSION: u32 = 1;

/// The longest frame. A command line and an environment may be about 2 MiB each.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// The destination of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    #[default]
    Null,
    /// To the end of the run's log file.
    File,
    /// To the run's log file through a process that rotates it.
    Rotate {
        /// Bytes in one file.
        size: u64,
        /// Old files kept.
        backups: u32,
    },
}

/// The user that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A limit of the kernel, with the kernel's number of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The kernel's `RLIMIT_…` number.
    pub resource: u32,
    /// The soft limit; `u64::MAX` for none.
    pub soft: u64,
    /// The hard limit; `u64::MAX` for none.
    pub hard: u64,
}

/// Directory and logs of a worker's attempt in the coordinator's sandbox. Each is a single path
/// component: a launch with any other name fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPaths {
    /// Its working directory, below `work`; it belongs to the attempt's user.
    pub dir: String,
    /// The file below `logs` that standard output goes to, where that is [`Sink::File`].
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
}

/// Everything that a launch needs. Names are resolved: users, signals and limits are numbers, the
/// program is a path or is searched along `PATH` of its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    /// The working directory. Empty for the directory of `paths`.
    pub cwd: String,
    /// Set for another user than the coordinator's own.
    pub credentials: Option<Credentials>,
    pub umask: Option<u32>,
    pub nice: Option<i32>,
    /// Limits of the kernel.
    pub limits: Vec<Limit>,
    /// The name of the process' log directory, below the sandbox's `.logs`.
    pub log: String,
    pub stdout: Sink,
    pub stderr: Sink,
    /// The file that standard output goes to instead, relative to the working directory. The
    /// process creates or empties it as its own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<String>,
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    /// Stored with the run and returned with it; opaque to the coordinator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The capacity that it occupies while it runs, for each resource of [`Request::Capacity`]. An
    /// empty claim never waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<u64>,
    /// The maximum run time; then it is stopped with SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// From that SIGTERM to SIGKILL.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeout_grace: Millis,
    /// Set for a worker's attempt. The end of such a run means that none of its processes is left.
    #[serde(rename = "home", default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<AttemptPaths>,
    /// The memory limit, in bytes; 0 for none. Not enforced where the coordinator has no control
    /// group with a memory controller.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub memory_max: u64,
    /// How long a worker's attempt outlives the last answer of a scheduler.
    #[serde(default, skip_serializing_if = "is_lease")]
    pub term: LeaseTerm,
    /// If it dies of a signal that did not come from here, another run of the same process
    /// continues with what it leaves behind, so its leftovers are not touched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// It is the runner of a task, which stops the processes of the task itself: a stop signals
    /// the runner alone, and everything only when its grace is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runner: bool,
    /// It is the health check of a worker: it runs in a directory, with logs, that are created for
    /// it as for an attempt, and removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_check: bool,
}

fn is_zero(span: &Millis) -> bool {
    *span == Millis(0)
}

fn is_lease(term: &LeaseTerm) -> bool {
    *term == LeaseTerm::Lease
}

fn is_unlimited(amount: &u64) -> bool {
    *amount == 0
}

/// The dead-man timer's order on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// That of attempts without a term of their own.
    pub deadline: Mono,
    /// From SIGTERM to SIGKILL.
    pub grace: Millis,
    /// From SIGTERM until everything is certainly dead.
    #[serde(default)]
    pub kill_max: Millis,
    /// The epoch of the leader that gave it.
    pub epoch: Epoch,
    /// The heartbeat that it answers.
    pub stamp: Stamp,
}

impl From<Guard> for GuardOrder {
    fn from(guard: Guard) -> Self {
        Self {
            deadline: guard.deadline,
            grace: guard.grace,
            kill_max: guard.kill_max,
            epoch: guard.epoch,
            stamp: guard.stamp,
        }
    }
}

impl From<GuardOrder> for Guard {
    fn from(order: GuardOrder) -> Self {
        Self {
            deadline: order.deadline,
            grace: order.grace,
            kill_max: order.kill_max,
            epoch: order.epoch,
            stamp: order.stamp,
        }
    }
}

/// The part of a worker's attempt that another coordinator takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// As in [`Launch::tag`].
    pub tag: String,
    /// As in [`Launch::claim`].
    pub claim: Vec<u64>,
    /// As in [`Launch::timeout`], from the time of the launch.
    pub timeout: Option<Millis>,
    /// As in [`Launch::timeout_grace`].
    pub timeout_grace: Millis,
    /// As in [`Launch::term`].
    #[serde(default, skip_serializing_if = "is_lease")]
    pub term: LeaseTerm,
    /// As in [`Launch::resumes`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// As in [`Launch::is_runner`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runner: bool,
}

/// A request of the runner, or of a worker's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Sent first: the children that the runner had before it began the task. After a coordinator
    /// has died, its processes may have become children of the runner too, and these must be told
    /// apart.
    Attach {
        /// These, with all their descendants, do not belong to the task.
        spared: Vec<Identity>,
        /// The reaper of a worker: what is below it belongs to the worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reaper: Option<Identity>,
    },
    /// Sets the capacity of each resource that launches claim; replaces an earlier one. From the
    /// first of these on, a launch whose claim does not fit beside what runs waits, first come
    /// first served: behind a waiting launch every launch with a claim waits. One that claims more
    /// than the total capacity runs when nothing else with a claim does.
    Capacity { amounts: Vec<u64> },
    /// Start a run. Answered by `Started` or `Ended`; by `Accepted` first if it has to wait, by
    /// `Refused` if it may not start, and by `HostFault` if this host cannot start it.
    Launch { run: RunKey, launch: Box<Launch> },
    /// Withdraw a waiting run. Answered by `Refused` if it waits; otherwise not at all, since other
    /// replies report its state.
    Withdraw { run: RunKey },
    /// Stop a run, and kill all of it after the grace. Answered by `Ended`, or by `Unknown`. A
    /// waiting run ends at once, without being started.
    Stop {
        run: RunKey,
        /// The first signal.
        signal: i32,
        /// From it to SIGKILL.
        grace: Millis,
        /// The cause; it becomes the outcome if the run dies of it.
        #[serde(default = "requested", skip_serializing_if = "is_requested")]
        cause: KillCause,
    },
    /// Kill what is left of a run that counts as over. Not answered, but completed before any later
    /// request. A waiting run ends at once, as by `Stop`.
    KillRun { run: RunKey },
    /// Kill every process that carries the mark of a run that is neither known here nor was
    /// adopted: those that an earlier coordinator launched and did not record. Completed before any
    /// later request, and answered by `StraysKilled`.
    KillStrays,
    /// Kill every process of the task: with a grace SIGTERM first, and SIGKILL after it. Answered
    /// by `Ended` for each run, then by `EverythingKilled`.
    KillEverything {
        /// Not 0; returned with the answer.
        id: u64,
        grace: Millis,
    },
    /// Run a command as a check. Answered by `Probed`.
    Probe {
        /// Chosen by the runner.
        id: u64,
        run: RunKey,
        /// Its output is discarded.
        launch: Box<Launch>,
        /// After this time it counts as failed, and is killed.
        timeout: Millis,
    },
    /// Take over a run that was launched by a dead coordinator. Answered by `Ended` in the end, or
    /// by `Unknown` if it is gone and its status cannot be known.
    Adopt {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// The attributes of its launch, for a worker's attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Box<Attempt>>,
    },
    /// The end of this run is durable in the runner's log.
    Forget { run: RunKey },
    /// Move the deadlines of the dead-man timer.
    Guard(Guard),
    /// Terminate the coordinator.
    Exit,
}

fn requested() -> KillCause {
    KillCause::Requested
}

fn is_requested(cause: &KillCause) -> bool {
    *cause == KillCause::Requested
}

/// Resources used by a run, as counted by the kernel: its first process, with all descendants that
/// were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// User and system processor time.
    pub cpu: Millis,
    /// The peak memory of one of its processes, in bytes.
    pub memory_peak: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub run: RunKey,
    pub at: Moment,
    pub outcome: Outcome,
    /// `None` if it was never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl RunEnd {
    /// The end of a run that was never started.
    #[must_use]
    pub fn unstarted(run: RunKey, at: Moment, outcome: Outcome) -> Self {
        Self {
            run,
            at,
            outcome,
            started: None,
            usage: None,
        }
    }
}

/// The state of a run, as the coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRun {
    pub run: RunKey,
    /// Its process, unless it could not be launched.
    pub started: Option<(Moment, Identity)>,
    /// Its end, if it is over.
    pub ended: Option<RunEnd>,
    /// It was accepted and is not started yet. In the log of a dead coordinator: its start was not
    /// recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// [`Launch::tag`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
}

/// A reply of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Sent first: the full state, without runs that were forgotten.
    Hello {
        /// [`VERSION`] of the coordinator.
        version: u32,
        mark: String,
        pid: u32,
        runs: Vec<KnownRun>,
        /// The order of the dead-man timer that is in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<Guard>,
    },
    /// A run waits for capacity.
    Accepted { run: RunKey },
    /// A run's process was started.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
    },
    /// A run is over, or could not be launched.
    Ended(RunEnd),
    /// There is no such run here, or its exit status cannot be known.
    Unknown { run: RunKey },
    /// It was not launched and will not be: the dead-man timer is not set or has run out, or it
    /// waited and was withdrawn, or everything was killed meanwhile.
    Refused { run: RunKey },
    /// It was not launched because of a fault of this host, and is not on record: an attempt of a
    /// worker, or its health check.
    HostFault { run: RunKey, reason: String },
    /// Every process of the task is gone, except this many that could not be killed.
    EverythingKilled {
        id: u64,
        /// Stuck in the kernel, or owned by another user.
        left: u32,
    },
    /// Every process of an unknown run is gone, except this many that could not be killed.
    StraysKilled { left: u32 },
    /// The result of a check.
    Probed {
        id: u64,
        /// It exited with 0 in time.
        well: bool,
    },
}

/// Appends a message as a frame.
///
/// # Errors
/// If it is longer than a frame may be.
pub fn encode(message: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    framing::append(out, FRAME_BYTES_MAX, |out| {
        serde_json::to_writer(out, message).map_err(io::Error::from)
    })
}

/// Decodes the first complete frame of `read`; `None` if there is none yet.
///
/// # Errors
/// If it is too long, or not a message.
pub fn decode<T: DeserializeOwned>(read: &[u8]) -> io::Result<Option<(T, usize)>> {
    let Some((body, taken)) = framing::first(read, FRAME_BYTES_MAX)? else {
        return Ok(None);
    };
    Ok(Some((json::from_slice(body)?, taken)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a standalone task's coordinator have not changed.
    #[test]
    fn defaults_are_not_sent() {
        let launch = serde_json::to_value(Launch::default()).expect("JSON");
        let fields = launch.as_object().expect("an object");
        assert_eq!(fields.len(), 10, "{fields:?}");
        assert_eq!(
            json::from_value::<Launch>(&launch).expect("a launch"),
            Launch::default()
        );
        let with_paths = Launch {
            paths: Some(AttemptPaths {
                dir: "1".to_owned(),
                stdout: "1.out".to_owned(),
                stderr: "1.err".to_owned(),
            }),
            ..Launch::default()
        };
        let with_paths = serde_json::to_value(with_paths).expect("JSON");
        let home = serde_json::json!({"dir": "1", "stdout": "1.out", "stderr": "1.err"});
        assert_eq!(with_paths["home"], home);
        let old = r#"{"stop":{"run":{"process":3,"run":1},"signal":15,"grace":5}}"#;
        let stop: Request = serde_json::from_str(old).expect("a request");
        assert!(matches!(
            stop,
            Request::Stop {
                cause: KillCause::Requested,
                ..
            }
        ));
        assert_eq!(serde_json::to_string(&stop).expect("JSON"), old);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_waited_for() {
        let error = decode::<Request>(&u32::MAX.to_le_bytes()).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        let mut bytes = Vec::new();
        encode(&"nonsense", &mut bytes).expect("short enough");
        assert!(decode::<Request>(&bytes).is_err());
    }
}
