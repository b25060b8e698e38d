//! Reading the output of processes.
//!
//! A process of a task writes `SANDBOX/.logs/PROCESS/RUN/{stdout,stderr}[.N]`. The file without a
//! number is the one being written. Where files are rotated, `.1` was written before it, `.2`
//! before that.
//!
//! A sandbox belongs to the user of its task, who may put links and pipes there, and the reader may
//! be root. So every name below the sandbox is opened relative to the directory before it, no link
//! is followed, and only regular files are read. Anything else counts as missing.
//!
//! | file | holds |
//! |---|---|
//! | `cut` | removing the middle of a long log |
//! | `follow` | one stream, across rotations, truncations and runs |
//! | `holes` | reading over what `cut` has removed |
//! | `last` | the position of the last lines |
//! | `piece` | one piece, for a reader that keeps nothing open |
//!
//! Elsewhere: writing and rotating (`helpers::rotate`), removing (`root`).

mod cut;
mod follow;
mod holes;
mod last;
mod piece;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use baton_model::message::LogStream;
use baton_model::task::RunNo;
use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::root::LOGS_DIR;
pub use cut::{CUT_MARK, LOG_LIMIT_MIN};
pub use follow::{Follower, LogSource, Take};
pub use piece::{Piece, Tail};

/// Both streams of a process.
pub const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// The logs of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLogs {
    sandbox: PathBuf,
    process: String,
    /// The owner of the directory of all logs, if it is restricted.
    owner: Option<u32>,
}

impl ProcessLogs {
    /// `None` if the name cannot be that of a directory, which only a damaged definition has.
    #[must_use]
    pub fn new(sandbox: &Path, process: &str) -> Option<Self> {
        let plain = !process.is_empty() && !process.starts_with('.') && !process.contains('/');
        plain.then(|| Self {
            sandbox: sandbox.to_owned(),
            process: process.to_owned(),
            owner: None,
        })
    }

    /// The same, if the directory of all logs belongs to this user. A path that another user has
    /// recorded may name the sandbox of a third one.
    #[must_use]
    pub const fn owned_by(mut self, uid: u32) -> Self {
        self.owner = Some(uid);
        self
    }

    /// All processes in a sandbox that have logs, in order of their names.
    pub fn all(sandbox: &Path) -> io::Result<Vec<String>> {
        let mut names = match logs_dir(sandbox)? {
            Some(dir) => entries(&dir)?,
            None => Vec::new(),
        };
        names.retain(|name| Self::new(sandbox, name).is_some());
        names.sort_unstable();
        Ok(names)
    }

    /// The runs that have a directory, in order.
    pub fn runs(&self) -> io::Result<Vec<RunNo>> {
        let Some(dir) = self.dir()? else {
            return Ok(Vec::new());
        };
        let names = entries(&dir)?;
        let numbers = names.iter().filter_map(|name| name.parse().ok());
        let mut runs: Vec<RunNo> = numbers.map(RunNo).collect();
        runs.sort_unstable();
        Ok(runs)
    }

    fn run_dir(&self, run: RunNo) -> io::Result<Option<OwnedFd>> {
        match self.dir()? {
            Some(dir) => open_dir(dir, run.0.to_string()),
            None => Ok(None),
        }
    }

    fn dir(&self) -> io::Result<Option<OwnedFd>> {
        match logs_dir(&self.sandbox)? {
            Some(dir) if self.is_owned(&dir)? => open_dir(dir, &self.process),
            Some(_) | None => Ok(None),
        }
    }

    fn is_owned(&self, dir: &OwnedFd) -> io::Result<bool> {
        match self.owner {
            Some(owner) => Ok(fstat(dir)?.st_uid == owner),
            None => Ok(true),
        }
    }
}

/// The name of a stream's file.
const fn file_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

/// The directory of all logs in a sandbox, whose own path may contain links.
fn logs_dir(sandbox: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, sandbox, flags, Mode::empty()) {
        Ok(sandbox) => open_dir(sandbox, LOGS_DIR),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory that is not a link; see the module.
pub fn open_dir(parent: impl AsFd, name: impl Arg) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file; see the module.
pub fn open_file(parent: impl AsFd, name: impl Arg) -> io::Result<Option<File>> {
    // Opening a pipe must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(found) => {
            let file = File::from(found);
            Ok(file.metadata()?.is_file().then_some(file))
        }
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads from the offset, as much as there is and fits.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An offset beyond the maximum of a file.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn entries(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        names.extend(entry.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn runs_and_processes_are_listed_in_order() {
        let sandbox = tempfile::tempdir().expect("a temporary directory");
        let logs = ProcessLogs::new(sandbox.path(), "p").expect("a good name");
        assert_eq!(logs.runs().expect("not there yet"), []);
        for run in ["p/0", "p/10", "p/9", "p/x", "a", ".hidden"] {
            fs::create_dir_all(sandbox.path().join(LOGS_DIR).join(run)).expect("made");
        }
        let runs = logs.runs().expect("read");
        assert_eq!(runs, [RunNo(0), RunNo(9), RunNo(10)]);
        let all = ProcessLogs::all(sandbox.path()).expect("read");
        assert_eq!(all, ["a", "p"]);
    }

    #[test]
    fn logs_of_another_user_count_as_missing() {
        let sandbox = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir_all(sandbox.path().join(LOGS_DIR).join("p/0")).expect("made");
        let logs = ProcessLogs::new(sandbox.path(), "p").expect("a good name");
        let own = crate::sys::users::effective_uid();
        let runs = |uid| logs.clone().owned_by(uid).runs().expect("read");
        assert_eq!(runs(own), [RunNo(0)]);
        assert_eq!(runs(own + 1), []);
    }

    #[test]
    fn only_a_plain_file_below_plain_directories_is_opened() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| temp.path().join(name);
        let dir = fs::File::open(temp.path()).expect("opened");
        fs::write(path("plain"), "x").expect("written");
        let is_opened = |name| open_file(&dir, name).expect("no error").is_some();
        assert!(is_opened("plain"));
        symlink(path("plain"), path("link")).expect("linked");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, path("pipe"), kind, Mode::RWXU, 0).expect("made");
        fs::create_dir(path("folder")).expect("made");
        for strange in ["link", "pipe", "folder", "missing"] {
            assert!(!is_opened(strange), "{strange}");
        }
        symlink(path("folder"), path("folder-link")).expect("linked");
        let is_entered = |name| open_dir(&dir, name).expect("no error").is_some();
        assert!(is_entered("folder"));
        assert!(!is_entered("folder-link") && !is_entered("plain"));
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_sandbox() {
        for name in ["", "..", ".", "a/b", "/etc"] {
            assert_eq!(ProcessLogs::new(Path::new("/s"), name), None);
        }
    }
}
