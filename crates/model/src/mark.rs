//! The mark of a store: what is kept beside it, so that a copy of it can be recognised.

use serde::{Deserialize, Serialize};

use crate::fact::CopyEvidence;
use crate::ids::{Epoch, StoreId};

/// The identity of a file: another one has another, also if its contents are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    pub inode: u64,
    /// When it was created, in nanoseconds; 0 if the file system does not know.
    pub created_ns: u64,
}

/// One state of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreState {
    pub store: StoreId,
    pub file: FileId,
    /// The last term; 0 before the first.
    pub epoch: Epoch,
    /// The number of its last fact.
    pub last_fact: u64,
}

/// The mark of a store. It is written before a term is taken, and again now and then: it never
/// has seen more of the store than is durable, except for the term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The latest state of the store that the mark has seen.
    pub seen: StoreState,
    /// The term that is about to be taken, or was.
    pub next: Epoch,
    /// The evidence that the store is a copy, until the store itself has recorded it.
    pub copied: Option<CopyEvidence>,
}
