//! Changes of secrets. Like tokens they belong to no term, and are no facts: the history never has them.

use baton_model::secret::SecretName;
use baton_model::time::Wall;

/// A change of one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretChange {
    pub owner: String,
    pub name: SecretName,
    pub change: Change,
}

/// A new value, another key, a use, or the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has a new value.
    Set {
        sealed: Vec<u8>,
        /// The key that the value is encrypted with.
        key: String,
        at: Wall,
        by: Option<String>,
    },
    /// The value of this version is encrypted with another key.
    Resealed {
        version: u64,
        sealed: Vec<u8>,
        key: String,
    },
    /// It was sent to a worker.
    Used {
        at: Wall,
    },
    Removed,
}
