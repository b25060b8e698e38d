//! The messages between the agent and its reaper, each as one packet of JSON.
//!
//! The reaper speaks first: [`Reply::Hello`]. A later connection replaces the earlier one.

use serde::{Deserialize, Serialize};

use crate::sys::identity::ExitStatus;
use crate::wire::Guard;

/// The protocol version. A reaper outlives the agent that started it, and so may meet a later
/// version of it.
pub(super) const VERSION: u32 = 1;

/// The longest message: a command line and an environment, which are those of a coordinator.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The maximum number of exits in one reply; the next request continues.
pub(super) const EXITS_AT_ONCE: usize = 256;

/// A request of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// Start a coordinator. The first descriptor is its standard error; the others get these
    /// numbers. Answered by `Spawned` or `Failed`.
    Spawn {
        argv: Vec<String>,
        env: Vec<(String, String)>,
        cwd: String,
        numbers: Vec<i32>,
    },
    /// The order of the dead-man timer that is in force; `None` if no work is left.
    Guard(Option<Guard>),
    /// Answered by `Exits`: those after this number.
    Exits { after: u64 },
}

/// A reply of the reaper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Hello {
        version: u32,
        pid: u32,
    },
    Spawned {
        pid: u32,
    },
    Failed {
        reason: String,
    },
    Exits {
        exits: Vec<ChildExit>,
        /// The number of the last of them.
        last: u64,
        /// There are more.
        has_more: bool,
    },
}

/// The end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChildExit {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    pub(super) status: ExitStatus,
}
