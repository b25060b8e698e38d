//! One stream, across rotations, truncations and runs.
//!
//! A file is identified by its inode, not by its name: a rotation renames it, and reading continues
//! with the file written after it. So unread output survives rotations for as long as its file
//! does; an open file is read to its end even if it was removed. The follower moves on to a later
//! run only if that run existed before the end of the current one was read.
//!
//! A file that was truncated is read from its beginning. If it has grown beyond the position again,
//! that cannot be noticed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use baton_model::message::{LogFileId, LogStream};
use baton_model::task::RunNo;
use rustix::fs::CWD;

use super::holes::read_data;
use super::{ProcessLogs, entries, file_name, last, open_file};

/// Bytes read at a time.
pub(super) const BLOCK: usize = 64 * 1_024;

/// Listings before reading is put off until the next call, because the files are rotated too fast.
const LISTINGS_MAX: u32 = 8;

/// The files to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// One stream of a process, in all its runs.
    Process(ProcessLogs, LogStream),
    /// A single file, written by one run. While it is empty it may be renamed and given to another
    /// writer.
    File(PathBuf),
}

/// Read position in a source.
#[derive(Debug)]
pub struct Follower {
    source: LogSource,
    /// Do not move on to a later run.
    is_bound: bool,
    /// `None` before the first run.
    run: Option<RunNo>,
    /// `None` before the first file of the run.
    at: Option<Position>,
}

#[derive(Debug)]
pub(super) struct Position {
    pub(super) id: LogFileId,
    offset: u64,
    /// `None` after [`Follower::release`].
    pub(super) file: Option<File>,
}

/// Receives the bytes read; returns false to stop.
pub type Take<'a> = dyn FnMut(&[u8]) -> bool + 'a;

impl Follower {
    /// Starts at the beginning of the first run.
    #[must_use]
    pub const fn new(source: LogSource) -> Self {
        Self {
            source,
            is_bound: false,
            run: None,
            at: None,
        }
    }

    /// Starts at the beginning of this run, and stays with it.
    #[must_use]
    pub fn of_run(source: LogSource, run: RunNo) -> Self {
        Self {
            is_bound: true,
            run: Some(run),
            ..Self::new(source)
        }
    }

    /// Moves to the last `lines` lines of the newest run, or of the only one.
    pub fn skip(&mut self, lines: usize) -> io::Result<()> {
        if !self.is_bound {
            self.run = self.source.runs()?.last().copied();
        }
        let mut files = self.files()?.unwrap_or_default();
        let open: Vec<&File> = files.iter().filter_map(|it| it.file.as_ref()).collect();
        if let Some((index, offset)) = last::start_of_last_lines(&open, lines)? {
            let mut at = files.swap_remove(index);
            at.offset = offset;
            self.at = Some(at);
        }
        Ok(())
    }

    /// True if there is no file to read yet.
    #[must_use]
    pub const fn has_no_file(&self) -> bool {
        self.at.is_none()
    }

    /// Passes on everything written since the last call. False if the receiver has stopped it; the
    /// next call continues there.
    pub fn read(&mut self, take: &mut Take<'_>) -> io::Result<bool> {
        loop {
            // Listed before reading, so that the end of the current run is not missed.
            let later = self.later_run()?;
            if !self.read_run(take)? {
                return Ok(false);
            }
            let Some(later) = later else {
                return Ok(true);
            };
            self.run = Some(later);
            self.at = None;
        }
    }

    /// Closes the file until the next read, for a reader of more files than it may open. If the
    /// file is removed meanwhile, its unread output is lost.
    pub fn release(&mut self) {
        if let Some(at) = &mut self.at {
            at.file = None;
        }
    }

    fn later_run(&self) -> io::Result<Option<RunNo>> {
        if self.is_bound {
            return Ok(None);
        }
        let runs = self.source.runs()?;
        Ok(runs.into_iter().find(|run| Some(*run) > self.run))
    }

    fn read_run(&mut self, take: &mut Take<'_>) -> io::Result<bool> {
        loop {
            // Listed before reading: a file with a successor does not grow.
            let Some(mut files) = self.files()? else {
                return Ok(true);
            };
            // A file that is gone is followed by the oldest that is left.
            let mut next = 0;
            if let Some(at) = &mut self.at
                && let Some(index) = files.iter().position(|file| file.id == at.id)
            {
                next = index + 1;
                at.file = at.file.take().or_else(|| files[index].file.take());
            }
            if !self.read_file(take)? {
                return Ok(false);
            }
            if next >= files.len() {
                return Ok(true);
            }
            self.at = Some(files.swap_remove(next));
        }
    }

    fn read_file(&mut self, take: &mut Take<'_>) -> io::Result<bool> {
        let Some((at, file)) = self.at.as_mut().and_then(Position::open) else {
            return Ok(true);
        };
        let length = file.metadata()?.len();
        if length < *at {
            // The file was truncated; its content is new.
            *at = 0;
        }
        if length == *at {
            return Ok(true);
        }
        let mut block = vec![0; BLOCK];
        loop {
            let mut behind = *at;
            let read = read_data(file, &mut block, &mut behind)?;
            if read == 0 {
                return Ok(true);
            }
            if *at == 0 && !self.source.is_named(file)? {
                self.at = None;
                return Ok(true);
            }
            *at = behind;
            if !take(&block[..read]) {
                return Ok(false);
            }
        }
    }

    fn files(&self) -> io::Result<Option<Vec<Position>>> {
        match self.run {
            Some(run) => self.source.files(run),
            None => Ok(Some(Vec::new())),
        }
    }
}

impl LogSource {
    fn runs(&self) -> io::Result<Vec<RunNo>> {
        match self {
            Self::Process(logs, _) => logs.runs(),
            Self::File(_) => Ok(vec![RunNo(0)]),
        }
    }

    /// The files of a run, oldest first; `None` if they are rotated too fast to be listed.
    pub(super) fn files(&self, run: RunNo) -> io::Result<Option<Vec<Position>>> {
        let (logs, stream) = match self {
            Self::Process(logs, stream) => (logs, *stream),
            Self::File(path) => {
                let file = open_file(CWD, path)?.map(Position::new).transpose()?;
                return Ok(Some(file.into_iter().collect()));
            }
        };
        match logs.run_dir(run)? {
            Some(dir) => rotated(&dir, file_name(stream)),
            None => Ok(Some(Vec::new())),
        }
    }

    /// False if the bytes read from a file that was empty before belong to another writer.
    pub(super) fn is_named(&self, file: &File) -> io::Result<bool> {
        match self {
            Self::Process(..) => Ok(true),
            Self::File(path) => match open_file(CWD, path)? {
                Some(named) => Ok(file_id(&named)? == file_id(file)?),
                None => Ok(false),
            },
        }
    }
}

impl Position {
    fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            id: file_id(&file)?,
            offset: 0,
            file: Some(file),
        })
    }

    fn open(&mut self) -> Option<(&mut u64, &File)> {
        Some((&mut self.offset, self.file.as_ref()?))
    }
}

/// The files of one log, oldest first. A rotation during a listing can hide a file or change the
/// order, so only two successive listings that agree are believed. They must agree on the age of
/// each file, too: rotations during both listings can hide the same file from both, but not leave
/// the others as old as they were.
fn rotated(dir: &OwnedFd, name: &str) -> io::Result<Option<Vec<Position>>> {
    let mut before = list(dir, name)?;
    for _ in 0..LISTINGS_MAX {
        let files = list(dir, name)?;
        let aged = |files: &[(u32, Position)]| -> Vec<(u32, LogFileId)> {
            files.iter().map(|(age, file)| (*age, file.id)).collect()
        };
        if aged(&files) == aged(&before) {
            return Ok(Some(files.into_iter().map(|(_, file)| file).collect()));
        }
        before = files;
    }
    Ok(None)
}

/// The files by age, oldest first.
fn list(dir: &OwnedFd, name: &str) -> io::Result<Vec<(u32, Position)>> {
    let mut numbered = Vec::new();
    for entry in entries(dir)? {
        let age = match entry.strip_prefix(name) {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix('.').and_then(|n| n.parse::<u32>().ok()),
            None => None,
        };
        numbered.extend(age.map(|age| (age, entry)));
    }
    numbered.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
    let mut files = Vec::new();
    for (age, name) in numbered {
        let file = open_file(dir, name)?.map(Position::new).transpose()?;
        files.extend(file.map(|file| (age, file)));
    }
    // The owner of the directory can give a file several names, and the reader must not go round in
    // circles.
    let mut ids = BTreeSet::new();
    files.retain(|(_, file): &(u32, Position)| ids.insert(file.id));
    Ok(files)
}

fn file_id(file: &File) -> io::Result<LogFileId> {
    let metadata = file.metadata()?;
    let created = metadata.created().ok();
    let created = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let created_ns = created.and_then(|age| u64::try_from(age.as_nanos()).ok());
    Ok(LogFileId {
        inode: metadata.ino(),
        created_ns: created_ns.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
