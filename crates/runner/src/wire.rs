//! What the runner and its coordinator say to each other.
//!
//! One unix stream socket, full duplex. A frame is a length of four bytes, little
//! endian, and that many bytes of JSON. The coordinator speaks first: [`Reply::Hello`]
//! with everything that it knows. A later connection replaces the earlier one, whose sender
//! is taken for dead: what it had asked for is carried out before the greeting or never,
//! and its successor repeats what matters.
//!
//! Every request about a run may come twice: (process, run) says whether it was
//! carried out. Replies may be lost with a connection; the next Hello repeats what they
//! said until [`Request::Forget`].

use std::fmt;
use std::io;

use baton_core::protocol::worker::io::GuardOrder;
use baton_model::ids::Epoch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono, Stamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of this protocol. A coordinator outlives the runner that started it,
/// and so may meet a later version of it.
pub const VERSION: u32 = 1;

/// The longest frame. A command line and an environment may be about 2 MiB each.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// One run of one process of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    pub process: ProcessNo,
    pub run: RunNo,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.process, self.run)
    }
}

/// Where one stream of output goes.
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

/// Who a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// All other groups.
    pub groups: Vec<u32>,
}

/// A limit of the kernel, with the kernel's number of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Which: `RLIMIT_…`.
    pub resource: u32,
    /// The soft limit; `u64::MAX` for none.
    pub soft: u64,
    /// The hard limit; `u64::MAX` for none.
    pub hard: u64,
}

/// The place of a worker's attempt in the coordinator's sandbox. Each is one name, not a
/// path: a launch with a name that leads elsewhere fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPaths {
    /// Its working directory, below `work`; it belongs to the attempt's user.
    pub dir: String,
    /// The file below `logs` that standard output goes to, where that is [`Sink::File`].
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
}

/// Everything that a launch needs. Names are resolved: users, signals and limits are
/// numbers, the program is a path or is looked for along `PATH` of its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory: the sandbox, or one below it. That of its home, where it has
    /// one and this is empty.
    pub cwd: String,
    /// Somebody else than the coordinator's own user.
    pub credentials: Option<Credentials>,
    /// The mask of file modes.
    pub umask: Option<u32>,
    /// The priority.
    pub nice: Option<i32>,
    /// Limits of the kernel.
    pub limits: Vec<Limit>,
    /// The directory of the process' logs, below the sandbox's `.logs`: its name.
    pub log: String,
    /// Standard output.
    pub stdout: Sink,
    /// Standard error.
    pub stderr: Sink,
    /// Kept with the run and said again with it; means something to whoever sent it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// How much it occupies while it runs, of each thing that [`Request::Capacity`] counts.
    /// With none it never waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<u64>,
    /// How long it may run; then it is stopped with SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// From that SIGTERM to SIGKILL.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeout_grace: Millis,
    /// Its place, if it is a worker's attempt. The end of a run with a home means that nothing
    /// of it is left.
    #[serde(rename = "home", default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<AttemptPaths>,
    /// The memory that it may use, in bytes; 0 for no limit. Where the coordinator has no
    /// control group with a memory controller nothing comes of it.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub memory_max: u64,
    /// If it dies of a signal that nobody here has sent, another run of the same process goes
    /// on with what it leaves behind. So that is left alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
}

fn is_zero(span: &Millis) -> bool {
    *span == Millis(0)
}

fn is_unlimited(amount: &u64) -> bool {
    *amount == 0
}

/// The dead-man timer's order, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub deadline: Mono,
    /// From SIGTERM to SIGKILL.
    pub grace: Millis,
    /// The leader that is obeyed.
    pub epoch: Epoch,
    /// The heartbeat that was answered.
    pub stamp: Stamp,
}

impl From<Guard> for GuardOrder {
    fn from(guard: Guard) -> Self {
        Self {
            deadline: guard.deadline,
            grace: guard.grace,
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
            epoch: order.epoch,
            stamp: order.stamp,
        }
    }
}

/// What is kept of a worker's attempt when another coordinator takes it over.
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
}

/// From the runner, or from a worker's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// First of all: which children the runner had before it was one. Where a coordinator has
    /// died, what it ran may have become the runner's children too, and these are not of
    /// the task.
    Attach {
        /// They, with everything that descends from them.
        spared: Vec<Identity>,
    },
    /// How much there is of each thing that launches claim; replaces what was said before.
    /// From the first of these on, a launch whose claim does not fit beside what runs waits,
    /// first come first served: behind one that waits everything with a claim does. One
    /// that claims more than there is at all runs when nothing else with a claim does.
    Capacity {
        /// Of each.
        amounts: Vec<u64>,
    },
    /// Start a run. Answered by `Started` or `Ended`; by `Accepted` first if it has to wait,
    /// and by `Refused` if it may not start.
    Launch { run: RunKey, launch: Box<Launch> },
    /// Give a run up that waits. Answered by `Refused` if it does; otherwise not at all, and
    /// what else is said of it tells.
    Withdraw { run: RunKey },
    /// Ask a run to stop, and kill all of it after the grace. Answered by `Ended`, or by
    /// `Unknown`. One that waits is over at once, and was never started.
    Stop {
        run: RunKey,
        /// The first signal.
        signal: i32,
        /// From it to SIGKILL.
        grace: Millis,
        /// Why; its end says so if it dies of it.
        #[serde(default = "requested", skip_serializing_if = "is_requested")]
        cause: KillCause,
    },
    /// Kill whatever is left of a run that counts as over. Not answered, but nothing
    /// after it is carried out before. One that waits is over at once, as by `Stop`.
    KillRun { run: RunKey },
    /// Kill whatever carries the mark of a run that is neither known here nor was adopted:
    /// what a coordinator before launched and did not live to record. Not answered, but
    /// nothing after it is carried out before.
    KillStrays,
    /// End every process of the task: SIGTERM first where there is a grace, and SIGKILL
    /// after it. Answered by `Ended` for each run, then by `EverythingKilled`.
    KillEverything {
        /// Not 0; comes back with the answer.
        id: u64,
        /// For what is not yet gone.
        grace: Millis,
    },
    /// Try a command, as a check. Answered by `Probed`.
    Probe {
        /// Chosen by the runner.
        id: u64,
        run: RunKey,
        /// How; its output goes nowhere.
        launch: Box<Launch>,
        /// When it counts as failed, and is killed.
        timeout: Millis,
    },
    /// Take a run over that was launched by a coordinator which is dead. Answered by
    /// `Ended` in the end, or by `Unknown` if it is gone and nobody knows how.
    Adopt {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// What its launch said of it, where it is a worker's attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Box<Attempt>>,
    },
    /// The end of this run is in the runner's log.
    Forget { run: RunKey },
    /// Move the deadline of the dead-man timer.
    Guard(Guard),
    /// End, once everything is gone.
    Exit,
}

fn requested() -> KillCause {
    KillCause::Requested
}

fn is_requested(cause: &KillCause) -> bool {
    *cause == KillCause::Requested
}

/// What a run has used, as the kernel counts it: its first process, with all that it and
/// they have waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time, of the user and of the kernel.
    pub cpu: Millis,
    /// The most memory that one of its processes had in use, in bytes.
    pub memory_peak: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub run: RunKey,
    pub at: Moment,
    pub outcome: Outcome,
    /// When it was started, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// What it used, if anybody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl RunEnd {
    /// The end of a run that never was started.
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

/// A run as the coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRun {
    pub run: RunKey,
    /// Its process, unless it could not be launched.
    pub started: Option<(Moment, Identity)>,
    /// Its end, if it is over.
    pub ended: Option<RunEnd>,
    /// It was accepted and is not started yet. From the log of a coordinator that is dead,
    /// this says that nobody has seen it start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// [`Launch::tag`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
}

/// From the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// First of all: everything that it knows and was not told to forget.
    Hello {
        /// [`VERSION`] of the coordinator.
        version: u32,
        mark: String,
        /// Its number.
        pid: u32,
        /// The dead-man timer has fired: nothing is launched any more.
        fired: bool,
        /// The runs.
        runs: Vec<KnownRun>,
        /// The order of the dead-man timer that is in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<Guard>,
    },
    /// A run waits for what it claims.
    Accepted { run: RunKey },
    /// A run's process is there.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
    },
    /// A run is over, or could not be launched.
    Ended(RunEnd),
    /// There is no such run here, or nobody knows how it ended.
    Unknown { run: RunKey },
    /// It was not launched and will not be: the dead-man timer is not set or has run out, or
    /// it waited and was withdrawn, or everything was killed meanwhile.
    Refused { run: RunKey },
    /// The dead-man timer has run out; the killing has begun.
    GuardFired,
    /// No process of the task is left, or these many could not be killed.
    EverythingKilled {
        id: u64,
        /// Still there: stuck in the kernel, or somebody else's.
        left: u32,
    },
    /// A check was tried.
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
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut *out, message)?;
    let length = out.len() - start - 4;
    if length > FRAME_BYTES_MAX {
        out.truncate(start);
        let text = format!("a message of {length} bytes; the most is {FRAME_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let prefix = u32::try_from(length).map_err(io::Error::other)?;
    out[start..start + 4].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

/// Takes the first whole frame out of what was read; `None` if there is none yet.
///
/// # Errors
/// If it is too long, or not a message.
pub fn decode<T: DeserializeOwned>(read: &[u8]) -> io::Result<Option<(T, usize)>> {
    let Some(prefix) = read.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > FRAME_BYTES_MAX {
        let text = format!("a frame of {length} bytes; the most is {FRAME_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let Some(body) = read.get(4..4 + length) else {
        return Ok(None);
    };
    Ok(Some((serde_json::from_slice(body)?, 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forget(run: u64) -> Request {
        Request::Forget {
            run: RunKey {
                process: ProcessNo(3),
                run: RunNo(run),
            },
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = Vec::new();
        for run in 0..3 {
            encode(&forget(run), &mut bytes).expect("short enough");
        }
        for cut in 0..=bytes.len() {
            let (mut left, mut taken) = (&bytes[..cut], Vec::new());
            while let Some((message, length)) = decode::<Request>(left).expect("well formed") {
                taken.push(message);
                left = &left[length..];
            }
            let whole: Vec<Request> = (0..taken.len() as u64).map(forget).collect();
            assert_eq!(taken, whole);
            assert!(cut < bytes.len() || taken.len() == 3);
        }
    }

    /// What a coordinator of today's standalone tasks reads and says has not changed.
    #[test]
    fn what_is_not_said_is_not_sent() {
        let launch = serde_json::to_value(Launch::default()).expect("JSON");
        let fields = launch.as_object().expect("an object");
        assert_eq!(fields.len(), 10, "{fields:?}");
        assert_eq!(
            serde_json::from_value::<Launch>(launch).expect("a launch"),
            Launch::default()
        );
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
