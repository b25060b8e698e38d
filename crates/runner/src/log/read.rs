//! Reading a log without changing it, also while a runner appends to it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
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
    /// Bytes after the last record that are no record: a partial write of a process that died, or,
    /// while a writer appends, a record in progress.
    pub torn_bytes: u64,
}

/// Reads a log, up to a torn tail if it has one. For read-only commands.
///
/// # Errors
/// If it cannot be read, is no log of this kind, or is damaged.
pub fn read<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<RecoveredLog<T>, LogError> {
    match salvage(path, kind)? {
        (recovered, None) => Ok(recovered),
        (_, Some(damage)) => Err(LogError::Damaged(Box::new(damage))),
    }
}

/// Like [`read()`], from a file that is open already, and only if it has at most `bytes_max` bytes;
/// `path` names it in errors. For a log that another user may have replaced by anything.
///
/// # Errors
/// If it cannot be read, is too long, is no log of this kind, or is damaged.
pub fn read_open<T: DeserializeOwned>(
    file: &File,
    path: &Path,
    bytes_max: u64,
    kind: Kind,
) -> Result<RecoveredLog<T>, LogError> {
    let load = || load_open(file, bytes_max).map_err(|error| LogError::io(path, "read", error));
    match salvage_from(load, path, kind)? {
        (recovered, None) => Ok(recovered),
        (_, Some(damage)) => Err(LogError::Damaged(Box::new(damage))),
    }
}

fn load_open(mut file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = file.metadata()?.len();
    if bytes > bytes_max {
        let text = format!("it has {bytes} bytes, and at most {bytes_max} are read");
        return Err(io::Error::other(text));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut read = Vec::new();
    file.take(bytes_max).read_to_end(&mut read)?;
    Ok(read)
}

/// Like [`read()`], but returns the records before the damage of a damaged log, and the report. For
/// inspecting a log that was set aside; nothing may act on it.
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

/// [`salvage`], with the bytes that `load` returns for the file.
pub(super) fn salvage_from<T: DeserializeOwned>(
    mut load: impl FnMut() -> Result<Vec<u8>, LogError>,
    path: &Path,
    kind: Kind,
) -> Result<(RecoveredLog<T>, Option<Damage>), LogError> {
    let mut bytes = load()?;
    // A writer that opens the log may truncate a torn tail and overwrite it between two of our
    // reads. The mixture looks like damage, but only once.
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
