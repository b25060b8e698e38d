//! Ids. Each is a type of its own, so that they cannot be confused.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Declares a numeric id, with the letter that it is displayed with.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl $name {
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

number! {
    /// One requested execution of one task.
    InstanceId, u64, "i"
}
number! {
    /// Counts the attempts of one instance, from 1.
    AttemptNo, u32, "#"
}
number! {
    /// The term of a scheduler leader. Every write and every message carries it;
    /// it only ever grows.
    Epoch, u64, "e"
}
number! {
    /// Numbers the associations that one leader grants, so that messages of an earlier association
    /// of the same worker can be recognised.
    SessionId, u64, "s"
}
number! {
    /// Counts `notifyIfTasksNotRunning` calls within one association.
    NotifySeq, u64, "n"
}
number! {
    /// One health check.
    CheckId, u64, "c"
}
number! {
    /// One request of a client or of the HTTP layer; the driver chooses the id.
    RequestId, u64, "r"
}
number! {
    /// A credential.
    TokenId, u64, "t"
}
number! {
    /// A task of the library, in all its revisions; never reused.
    TaskNo, u64, "k"
}
number! {
    /// Counts the revisions of one task, from 1.
    Revision, u32, "r"
}
number! {
    /// One execution of a workflow, in all its generations; never reused.
    RunId, u64, "r"
}
number! {
    /// Counts the generations of a run, from 1: each resume starts the next.
    Generation, u32, "g"
}
number! {
    /// The identity of a worker's state directory: a random number drawn when it was created.
    Lineage, u64, "l"
}
number! {
    /// Counts the incarnations of one state directory, from 1.
    IncarnationNo, u64, "."
}
number! {
    /// A machine, by its stable machine id.
    HostId, u64, "h"
}
number! {
    /// One boot of a machine. Boots are only ever compared for equality.
    BootId, u64, "b"
}

/// One incarnation of a worker.
///
/// The counter is kept in the worker's state directory. It is raised before a new incarnation
/// starts, *after* every process of the earlier ones has been killed. So the order of two
/// incarnations never depends on a clock, and the mere existence of incarnation `n + 1` proves that
/// no process of incarnation `n` runs, now or ever again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incarnation {
    pub lineage: Lineage,
    #[serde(rename = "life")]
    pub number: IncarnationNo,
}

impl Incarnation {
    /// True if the existence of `self` proves that `other` has ended.
    #[must_use]
    pub fn supersedes(self, other: Self) -> bool {
        self.lineage == other.lineage && self.number > other.number
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lineage, self.number)
    }
}

/// Ties a message to one leader, one incarnation of a worker and one handshake between them. A
/// message of any other association is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Association {
    pub epoch: Epoch,
    pub incarnation: Incarnation,
    /// The handshake.
    pub session: SessionId,
}

impl fmt::Display for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.epoch, self.incarnation, self.session)
    }
}

/// One try of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptId {
    pub instance: InstanceId,
    pub number: AttemptNo,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.instance, self.number)
    }
}

/// The identity of one lease, and so of one execution: without a store, attempt
/// numbers start again with each leader, and only the epoch tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseId {
    /// The attempt that is leased.
    pub attempt: AttemptId,
    /// The leader that granted it: the task's fencing token.
    pub epoch: Epoch,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.attempt, self.epoch)
    }
}

/// The name of a seat: the name of a worker across all its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct WorkerName(pub Arc<str>);

impl WorkerName {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
