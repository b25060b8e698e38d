//! Reading a log without changing it, also while somebody appends to it.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::damage::Damage;
use super::error::LogError;
use super::format::Kind;
use super::scan::{Tail, scan};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLog<T> {
    /// The records, in order.
    pub records: Vec<T>,
    /// The number of the first; the others follow without a gap.
    pub first_sequence: u64,
    /// Bytes after the last record that are none: written in part when somebody died,
    /// or, while somebody appends, about to become one.
    pub torn_bytes: u64,
}

/// Reads a log, up to a torn tail if it has one. For commands that only look.
///
/// # Errors
/// If it cannot be read, is no log of this kind, or is damaged.
pub fn read<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<RecoveredLog<T>, LogError> {
    match salvage(path, kind)? {
        (recovered, None) => Ok(recovered),
        (_, Some(damage)) => Err(LogError::Damaged(Box::new(damage))),
    }
}

/// Like [`read()`], but of a damaged log it gives what comes before the damage, and the
/// report. For looking at a log that was set aside; nothing may act on it.
///
/// # Errors
/// If it cannot be read or is no log of this kind.
pub fn salvage<T: DeserializeOwned>(
    path: &Path,
    kind: Kind,
) -> Result<(RecoveredLog<T>, Option<Damage>), LogError> {
    let load = || fs::read(path).map_err(|error| LogError::io(path, "read", error));
    salvage_from(load, path, kind)
}

/// [`salvage`], with whatever `load` gives for the file.
pub(super) fn salvage_from<T: DeserializeOwned>(
    mut load: impl FnMut() -> Result<Vec<u8>, LogError>,
    path: &Path,
    kind: Kind,
) -> Result<(RecoveredLog<T>, Option<Damage>), LogError> {
    let mut bytes = load()?;
    // Whoever opens the log to append may cut a torn tail and write over its place
    // between two of our reads. The mixture looks like damage, but only once.
    if let Tail::Damaged(_) = scan(path, &bytes, kind)?.tail {
        bytes = load()?;
    }
    let scan = scan(path, &bytes, kind)?;
    let recovered = scan.decode(path)?;
    Ok(match scan.tail {
        Tail::Damaged(damage) => (recovered, Some(*damage)),
        Tail::Clean | Tail::Torn(_) => (recovered, None),
    })
}
