//! A log that is open for appending.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::damage::{Damage, Quarantine};
use super::disk::{Disk, RealDisk};
use super::error::LogError;
use super::format::{self, Kind, RECORD_BYTES_MAX};
use super::read::RecoveredLog;
use super::scan::{Tail, scan};

/// The maximum number of damaged logs of one name. An operator handles each, so the limit is not
/// reached by accident.
const DAMAGED_MAX: u32 = 1_000;
/// The expected length of a record.
const RECORD_BYTES_USUAL: usize = 256;

/// A log that is open for appending. After a [`LogError::Io`] of [`Self::append`] or [`Self::sync`]
/// it never writes again: every later call returns that same error.
///
/// A record survives `kill -9` once it is appended, and a power failure once it is synced.
#[derive(Debug)]
pub struct Log {
    disk: Box<dyn Disk>,
    path: PathBuf,
    kind: Kind,
    file: File,
    bytes: u64,
    records: u64,
    last: u64,
    record_bytes_max: usize,
    failed: Option<LogError>,
}

impl Log {
    /// Creates a log with these records, replacing a file of that name. The log and its name are
    /// durable; on failure the earlier file is still there, unless only the last step failed, the
    /// sync of the directory.
    ///
    /// # Errors
    /// If it cannot be written, or a record is too long.
    pub fn create<T: Serialize>(path: &Path, kind: Kind, first: &[T]) -> Result<Self, LogError> {
        Self::create_on(Box::new(RealDisk), path, kind, first)
    }

    /// Opens a log and returns its records. A torn tail is truncated, and everything that is left
    /// is durable. A damaged file is set aside as `NAME.damaged-N`.
    ///
    /// # Errors
    /// If it cannot be read, is no log of this kind, is damaged, or holds a record that is no `T`.
    /// Only a damaged log is renamed then.
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        kind: Kind,
    ) -> Result<(Self, RecoveredLog<T>), LogError> {
        Self::open_on(Box::new(RealDisk), path, kind)
    }

    /// Appends all of these with one write, and returns the number of the last. After a failed
    /// write, the next [`Self::open`] finds none or the first few of them.
    ///
    /// # Errors
    /// If the log has failed, or fails now; or if a record is too long or cannot be JSON, in which
    /// case nothing is written and the log stays usable.
    pub fn append<T: Serialize>(&mut self, records: &[T]) -> Result<u64, LogError> {
        self.check()?;
        let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES_USUAL);
        encode(
            &self.path,
            self.last,
            records,
            self.record_bytes_max,
            &mut bytes,
        )?;
        if let Err(error) = write_all(self.disk.as_mut(), &mut self.file, &bytes) {
            return Err(self.fail(LogError::io(&self.path, "append to", error)));
        }
        self.bytes += bytes.len() as u64;
        self.records += records.len() as u64;
        self.last += records.len() as u64;
        Ok(self.last)
    }

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// If the log has failed, or fails now.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check()?;
        self.disk
            .sync(&self.file)
            .map_err(|error| self.fail(LogError::io(&self.path, "sync", error)))
    }

    /// Compacts: replaces this log by one that starts with these records. They are numbered after
    /// the last one, are durable, and appending continues after them.
    ///
    /// # Errors
    /// If the log has failed, or the new one cannot be created; this one is then intact and usable,
    /// unless the error came after the rename: that error is permanent.
    pub fn replace<T: Serialize>(&mut self, first: &[T]) -> Result<(), LogError> {
        self.check()?;
        let new = NewFile {
            path: &self.path,
            kind: self.kind,
            last: self.last,
            record_bytes_max: self.record_bytes_max,
        };
        let (file, bytes) = new.put(self.disk.as_mut(), first)?;
        self.file = file;
        self.bytes = bytes;
        self.records = first.len() as u64;
        self.last += first.len() as u64;
        sync_parent(self.disk.as_mut(), &self.path).map_err(|error| self.fail(error))
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of records in this file.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// The number of the last record; 0 before the first.
    #[must_use]
    pub const fn last_sequence(&self) -> u64 {
        self.last
    }

    /// The error that has stopped the log.
    #[must_use]
    pub const fn failure(&self) -> Option<&LogError> {
        self.failed.as_ref()
    }

    /// Lowers the limit, so that it can be reached without half a gigabyte.
    #[cfg(test)]
    pub(super) const fn limit_records(&mut self, bytes_max: usize) {
        self.record_bytes_max = bytes_max;
    }

    pub(super) fn create_on<T: Serialize>(
        mut disk: Box<dyn Disk>,
        path: &Path,
        kind: Kind,
        first: &[T],
    ) -> Result<Self, LogError> {
        let new = NewFile {
            path,
            kind,
            last: 0,
            record_bytes_max: RECORD_BYTES_MAX,
        };
        let (file, bytes) = new.put(disk.as_mut(), first)?;
        sync_parent(disk.as_mut(), path)?;
        Ok(Self {
            disk,
            path: path.to_owned(),
            kind,
            file,
            bytes,
            records: first.len() as u64,
            last: first.len() as u64,
            record_bytes_max: RECORD_BYTES_MAX,
            failed: None,
        })
    }

    pub(super) fn open_on<T: DeserializeOwned>(
        mut disk: Box<dyn Disk>,
        path: &Path,
        kind: Kind,
    ) -> Result<(Self, RecoveredLog<T>), LogError> {
        let io_error = |doing| move |error| LogError::io(path, doing, error);
        let mut file = disk.open(path).map_err(io_error("open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io_error("read"))?;
        let scan = scan(path, &bytes, kind)?;
        if let Tail::Damaged(damage) = scan.tail {
            return Err(LogError::Damaged(quarantine(disk.as_mut(), damage)));
        }
        let recovered = scan.decode(path)?;
        let end = scan.end as u64;
        if recovered.torn_bytes > 0 {
            disk.truncate(&file, end).map_err(io_error("truncate"))?;
        }
        // Also without a torn tail: the runner before may have died between its append and its
        // sync, and the reader now acts on the records.
        disk.sync(&file).map_err(io_error("sync"))?;
        let log = Self {
            disk,
            path: path.to_owned(),
            kind,
            file,
            bytes: end,
            records: scan.records.len() as u64,
            last: scan.last(),
            record_bytes_max: RECORD_BYTES_MAX,
            failed: None,
        };
        Ok((log, recovered))
    }

    fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: LogError) -> LogError {
        self.failed = Some(error.clone());
        error
    }
}

/// A new file for the path of a log.
struct NewFile<'a> {
    path: &'a Path,
    kind: Kind,
    last: u64,
    record_bytes_max: usize,
}

impl NewFile<'_> {
    /// Writes the file under a temporary name and renames it. On failure the earlier file is
    /// unchanged. The caller syncs the directory, since an error there has another meaning for it.
    fn put<T: Serialize>(&self, disk: &mut dyn Disk, first: &[T]) -> Result<(File, u64), LogError> {
        let mut bytes = Vec::new();
        format::write_header(self.kind, self.last + 1, &mut bytes);
        encode(
            self.path,
            self.last,
            first,
            self.record_bytes_max,
            &mut bytes,
        )?;
        let temporary = with_suffix(self.path, ".new");
        match disk.remove(&temporary) {
            // Left by a creation that a crash interrupted.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::io(&temporary, "remove", error)),
        }
        match self.write(disk, &temporary, &bytes) {
            Ok(file) => Ok((file, bytes.len() as u64)),
            Err(error) => {
                // Only to free the space at once. The error above is the one to report, and a
                // remaining file is removed by the next attempt.
                let _ = disk.remove(&temporary);
                Err(error)
            }
        }
    }

    fn write(&self, disk: &mut dyn Disk, temporary: &Path, bytes: &[u8]) -> Result<File, LogError> {
        let io_error = |doing| move |error| LogError::io(temporary, doing, error);
        let mut file = disk.create(temporary).map_err(io_error("create"))?;
        write_all(disk, &mut file, bytes).map_err(io_error("write"))?;
        disk.sync(&file).map_err(io_error("sync"))?;
        disk.rename(temporary, self.path)
            .map_err(io_error("rename"))?;
        Ok(file)
    }
}

fn encode<T: Serialize>(
    path: &Path,
    last: u64,
    records: &[T],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), LogError> {
    for (sequence, record) in (last + 1..).zip(records) {
        format::write_record(path, sequence, record, bytes_max, out)?;
    }
    Ok(())
}

/// One write, unless the kernel takes less than all of it.
fn write_all(disk: &mut dyn Disk, file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            // Nothing was written, so this is not a second attempt.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The last file that was set aside for this path, if any.
///
/// # Errors
/// If the directory cannot be read.
pub fn set_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut last = None;
    for number in 1..=DAMAGED_MAX {
        let name = with_suffix(path, &format!(".damaged-{number}"));
        match fs::symlink_metadata(&name) {
            Ok(_) => last = Some(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(last)
}

/// Sets a damaged log aside, and adds the result to the report.
fn quarantine(disk: &mut dyn Disk, mut damage: Box<Damage>) -> Box<Damage> {
    let path = damage.path.clone();
    let moved = free_name(&path).and_then(|to| {
        disk.rename(&path, &to)?;
        Ok(to)
    });
    damage.quarantine = match moved {
        Ok(to) => {
            // If this fails, a power failure may restore the old name. Then the damage is only
            // found again.
            let _ = disk.sync_directory(parent(&path));
            Quarantine::Moved(to)
        }
        Err(error) => Quarantine::Failed(Arc::new(error)),
    };
    damage
}

/// The first free name. There is no race: the caller holds the lock of the task.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=DAMAGED_MAX {
        let name = with_suffix(path, &format!(".damaged-{number}"));
        match fs::symlink_metadata(&name) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            Err(error) => return Err(error),
        }
    }
    let text = format!("{DAMAGED_MAX} damaged logs exist already; remove some");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

fn sync_parent(disk: &mut dyn Disk, path: &Path) -> Result<(), LogError> {
    let directory = parent(path);
    disk.sync_directory(directory)
        .map_err(|error| LogError::io(directory, "sync", error))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
