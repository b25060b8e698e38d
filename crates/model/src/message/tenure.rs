//! How long a worker stays, and what it says of itself when it joins.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Wall};

/// How long a worker stays in its seat, as it reports it with every heartbeat.
///
/// A duration and no time: the clocks of two hosts are never compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tenure {
    /// The time for work that is left at sending, until it begins to end by itself; none if it does
    /// not.
    pub left: Option<Millis>,
    /// It is ending, and takes no more work.
    pub leaving: bool,
}

/// Between the version of a binary and its build id, as in `1.2.3+9f86d081`.
pub const BUILD_SIGN: char = '+';

/// What a worker says of itself when it asks for an association.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of its binary, and after [`BUILD_SIGN`] its build id, if it has one. At most
    /// [`crate::limits::VERSION_BYTES_MAX`].
    pub version: Arc<str>,
    /// Its wall clock at sending, for display only.
    pub wall: Wall,
    /// What it may use of its host, whatever it offers.
    pub host: HostSize,
    /// The scheduler as it has dialled it, with the proxy. At most
    /// [`crate::limits::DIALLED_BYTES_MAX`].
    pub dialled: Option<Arc<str>>,
}

/// What a worker's processes may use of its host: by the machine, its control group and its affinity. Zero is unknown.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct HostSize {
    pub cpu_milli: u64,
    pub memory: u64,
}

/// The cause for which a worker ends in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LeaveCause {
    /// Its lifetime is over.
    Lifetime,
    /// It had no work for as long as it waits for some.
    Idle,
    /// It was told to end, and drains: SIGTERM.
    Terminated,
    /// It was told to end at once: SIGINT.
    Interrupted,
}

impl fmt::Display for LeaveCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lifetime => "its lifetime is over",
            Self::Idle => "it was idle",
            Self::Terminated => "it was terminated",
            Self::Interrupted => "it was interrupted",
        })
    }
}
