//! Inputs and effects of the host.

use baton_model::coordinator::{CoordinatorRecord, Launch, Reply, Request, Usage};
use baton_model::outcome::ExitStatus;
use baton_model::task::{Identity, Moment, RunKey};

use crate::bugs::Bugs;
use crate::step::Step;

/// The decision about one input, or about several in a row.
pub type HostStep = Step<CoordinatorRecord, Effect>;

/// The properties of a host for as long as its process lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The mark of the task or of the worker.
    pub mark: String,
    /// The pid of the coordinator.
    pub pid: u32,
    /// An earlier coordinator may have left processes behind.
    pub successor: bool,
    /// Nothing is launched without a deadline of the dead-man timer.
    pub guarded: bool,
    pub bugs: Bugs,
}

/// Why a run has no process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// A fault of this host.
    Host(String),
    /// A fault of the work, which it has on every host.
    Work(String),
    /// It was started and killed, because its process cannot be identified.
    Unidentified,
}

/// An input of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// First in each turn of the loop: deadlines of the dead-man timer may have passed.
    Deadlines,
    /// A child has ended and is not reaped.
    Exited {
        pid: u32,
        status: ExitStatus,
    },
    /// A child was reaped, as the host has asked.
    Reaped {
        pid: u32,
        usage: Option<Usage>,
    },
    /// All children were passed that have ended.
    ExitsTaken,
    /// A process that is held may have ended.
    HeldEnded(RunKey),
    /// Time has passed.
    Tick,
    /// Capacity may be free.
    Fill,
    Request(Request),
    /// The launch that the host has asked for was made, or has failed.
    Spawned {
        run: RunKey,
        launch: Box<Launch>,
        at: Moment,
        /// The processes that rotate its logs.
        rotators: Vec<u32>,
        result: Result<Identity, StartFault>,
    },
    /// A runner or an agent has connected; the one before is considered dead.
    Connected,
    /// It is gone.
    Disconnected,
}

/// An effect of the host. It leaves when the records before it are in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start a process, and answer with [`Input::Spawned`] before any other input.
    Spawn { run: RunKey, launch: Box<Launch> },
    /// Reap a child, and answer with [`Input::Reaped`] before any other input. Until then it is a
    /// zombie, whose status is not lost with this process.
    Reap { pid: u32 },
    /// Reply to the runner.
    Reply(Reply),
}

/// When a step must be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an effect may be waited for"]
pub enum Urgency {
    /// It has an effect that the host waits for.
    Now,
    /// It has replies at most: see [`Host::replies_due`](super::Host::replies_due).
    WithReplies,
}
