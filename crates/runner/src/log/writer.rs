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

/// How many damaged logs of one name are kept beside it. Each was a person's matter, so
/// nobody gets there by accident.
const DAMAGED_MAX: u32 = 1_000;
/// Room for a record of the usual length.
const RECORD_BYTES_USUAL: usize = 256;

/// A log that is open for appending. After an [`LogError::Io`] of [`Self::append`] or
/// [`Self::sync`] it never writes again: every later call gives that same error.
///
/// A record is safe from `kill -9` once it is appended, and from a loss of power
/// once it is synced.
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
    /// Makes a log that holds these records, in place of a file of that name. It is
    /// durable, as is its name; if this fails, whatever was there is still there, unless
    /// only the last step failed, the sync of the directory.
    ///
    /// # Errors
    /// If it cannot be written, or a record is too long.
    pub fn create<T: Serialize>(path: &Path, kind: Kind, first: &[T]) -> Result<Self, LogError> {
        Self::create_on(Box::new(RealDisk), path, kind, first)
    }

    /// Opens a log and gives what it holds. A torn tail is cut off, and everything
    /// that is left is durable. A damaged file is set aside as `NAME.damaged-N`.
    ///
    /// # Errors
    /// If it cannot be read, is no log of this kind, is damaged, or holds a record that
    /// is no `T`. Only a damaged log is touched then.
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        kind: Kind,
    ) -> Result<(Self, RecoveredLog<T>), LogError> {
        Self::open_on(Box::new(RealDisk), path, kind)
    }

    /// Appends all of these with one write, and gives the number of the last. If that
    /// fails on the way, the next [`Self::open`] finds none or the first few of them.
    ///
    /// # Errors
    /// If the log has failed, or fails now; or if a record is too long or cannot be
    /// JSON, in which case nothing is written and the log is as good as before.
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

    /// Compacts: puts a log that begins with these records in the place of this one. They
    /// are numbered after the last one, and appending goes on behind them. They are
    /// durable.
    ///
    /// # Errors
    /// If the log has failed, or the new one cannot be made; this one is then intact
    /// and can be used, unless the error came after the exchange: that one stays.
    pub fn replace<T: Serialize>(&mut self, first: &[T]) -> Result<(), LogError> {
        self.check()?;
        let new = New {
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

    /// Its length, from which to decide when to compact.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many records this file has.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// The number of the last record; 0 before the first.
    #[must_use]
    pub const fn last_sequence(&self) -> u64 {
        self.last
    }

    /// The error that has stopped it, if one has.
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
        let new = New {
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
        // Also where nothing was torn: the life before may have died between its append
        // and its sync, and whoever reads the records now acts on them.
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

/// A file that is about to take the place of a log, or to become the first one there.
struct New<'a> {
    path: &'a Path,
    kind: Kind,
    last: u64,
    record_bytes_max: usize,
}

impl New<'_> {
    /// Makes the file beside its place and moves it there. If that fails, what is in
    /// its place is as before. The directory is left to the caller, to whom an error
    /// from there on means something else.
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
        let beside = with_suffix(self.path, ".new");
        match disk.remove(&beside) {
            // A creation that was cut short by a crash.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::io(&beside, "remove", error)),
        }
        match self.write(disk, &beside, &bytes) {
            Ok(file) => Ok((file, bytes.len() as u64)),
            Err(error) => {
                // Only to free the room at once. The error above is the one to tell, and
                // a file that stays is removed by the next attempt.
                let _ = disk.remove(&beside);
                Err(error)
            }
        }
    }

    fn write(&self, disk: &mut dyn Disk, beside: &Path, bytes: &[u8]) -> Result<File, LogError> {
        let io_error = |doing| move |error| LogError::io(beside, doing, error);
        let mut file = disk.create(beside).map_err(io_error("create"))?;
        write_all(disk, &mut file, bytes).map_err(io_error("write"))?;
        disk.sync(&file).map_err(io_error("sync"))?;
        disk.rename(beside, self.path).map_err(io_error("rename"))?;
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
            // Nothing was tried yet, so this is no second try.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The last file that was set aside from this place, if one was.
///
/// # Errors
/// If that cannot be told.
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

/// Moves a damaged log out of the way, and says in the report what became of it.
fn quarantine(disk: &mut dyn Disk, mut damage: Box<Damage>) -> Box<Damage> {
    let path = damage.path.clone();
    let moved = free_name(&path).and_then(|to| {
        disk.rename(&path, &to)?;
        Ok(to)
    });
    damage.quarantine = match moved {
        Ok(to) => {
            // If this fails, a loss of power may bring the old name back. Then the
            // damage is found again, and that is all.
            let _ = disk.sync_directory(parent(&path));
            Quarantine::Moved(to)
        }
        Err(error) => Quarantine::Failed(Arc::new(error)),
    };
    damage
}

/// The first that is not taken. Nobody else takes one: the caller holds the lock of
/// the task.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=DAMAGED_MAX {
        let name = with_suffix(path, &format!(".damaged-{number}"));
        match fs::symlink_metadata(&name) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            Err(error) => return Err(error),
        }
    }
    let text = format!("{DAMAGED_MAX} damaged logs are there already; remove some");
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
