//! Directories and logs of a worker's attempts: below its sandbox, one directory in `work` and two
//! files in `logs` per attempt.
//!
//! `work` and `logs` belong to the coordinator and are held open: no other user can put a link into
//! them, and an attempt costs two or three calls and no path walk. If one was removed meanwhile it
//! is created again.
//!
//! Empty directories and logs are reused under the name of a later attempt: most attempts print
//! nothing and leave no file, and creating and deleting three files for each costs more than
//! running many of them. (A file system such as ext4 does not reuse an inode number that was freed
//! within the last half minute, but checks it each time.) So a missing log means that nothing was
//! written to it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, Uid, chownat, mkdirat, open, openat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::launch_error::LaunchError;
use crate::wire::{AttemptPaths, Credentials};

const WORK: &str = "work";
const LOGS: &str = "logs";

const DIR_MODE: u32 = 0o700;
const LOG_MODE: u32 = 0o600;

/// The directory of a health check in `work`, and the file in it.
const CHECK: &str = ".check";
/// The logs of a health check.
const CHECK_OUT: &str = ".check.out";
const CHECK_ERR: &str = ".check.err";

/// Bytes in the file of a check: a disk on which less is free has no room for the files of a launch.
const CHECK_BYTES: usize = 64 << 10;

/// The maximum number of spare directories, and of spare log files.
const SPARES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct AttemptDirs {
    sandbox: PathBuf,
    /// The path of `work`, as text.
    work_path: String,
    work: Option<OwnedFd>,
    logs: Option<OwnedFd>,
    /// Names of empty directories of our own user in `work`.
    spare_dirs: Vec<String>,
    /// Names of empty files of our own user in `logs`.
    spare_logs: Vec<String>,
}

impl AttemptDirs {
    pub(super) fn new(sandbox: &Path) -> Self {
        Self {
            sandbox: sandbox.to_owned(),
            work_path: format!("{}/{WORK}", sandbox.display()),
            work: None,
            logs: None,
            spare_dirs: Vec::new(),
            spare_logs: Vec::new(),
        }
    }

    /// Creates the working directory if it does not exist; returns its path.
    pub(super) fn prepare(
        &mut self,
        paths: &AttemptPaths,
        owner: Option<&Credentials>,
    ) -> io::Result<String> {
        for name in [&paths.dir, &paths.stdout, &paths.stderr] {
            check_name(name)?;
        }
        let dir = paths.dir.as_str();
        let spare = owner.is_none().then(|| self.spare_dirs.pop()).flatten();
        with_directory(&mut self.work, &self.sandbox, WORK, |work| {
            if reuse(work, spare.as_deref(), dir) {
                return Ok(());
            }
            match mkdirat(work, dir, Mode::from_raw_mode(DIR_MODE)) {
                Ok(()) => owner.map_or(Ok(()), |owner| {
                    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
                    chownat(work, dir, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                }),
                Err(Errno::EXIST) => {
                    let there = statat(work, dir, AtFlags::SYMLINK_NOFOLLOW)?;
                    let is_directory = FileType::from_raw_mode(there.st_mode).is_dir();
                    if is_directory {
                        Ok(())
                    } else {
                        Err(Errno::NOTDIR)
                    }
                }
                Err(error) => Err(error),
            }
        })?;
        Ok([&*self.work_path, "/", dir].concat())
    }

    /// Opens a log file, of a name that was checked, to append to it.
    pub(super) fn open_log(
        &mut self,
        name: &str,
        owner: Option<&Credentials>,
    ) -> io::Result<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let spare = owner.is_none().then(|| self.spare_logs.pop()).flatten();
        let file = with_directory(&mut self.logs, &self.sandbox, LOGS, |logs| {
            // Opened by its name in any case: an existing log is appended to.
            reuse(logs, spare.as_deref(), name);
            openat(logs, name, flags, Mode::from_raw_mode(LOG_MODE))
        })?;
        chown_to(&file, owner)?;
        Ok(file)
    }

    /// Creates what a launch needs that finds no spares: a directory with a file in it, and two logs.
    /// Returns the path of the directory and the logs. Of all that only the directory is left, for
    /// [`Self::remove_check`].
    pub(super) fn create_check(&mut self) -> Result<(String, [OwnedFd; 2]), LaunchError> {
        // One of a check that was interrupted.
        self.remove_check();
        let path = format!("{}/{CHECK}", self.work_path);
        let created = with_directory(&mut self.work, &self.sandbox, WORK, |work| {
            mkdirat(work, CHECK, Mode::from_raw_mode(DIR_MODE))?;
            let file = format!("{CHECK}/{CHECK}");
            write_all(&create_new(work, &file)?)?;
            unlinkat(work, &file, AtFlags::empty())
        });
        created.map_err(|error| LaunchError::about(&path, &error))?;
        let sandbox = &self.sandbox;
        let mut create_log = |name: &str| {
            let log = with_directory(&mut self.logs, sandbox, LOGS, |logs| {
                let log = create_new(logs, name)?;
                unlinkat(logs, name, AtFlags::empty())?;
                Ok(log)
            });
            let path = sandbox.join(LOGS).join(name);
            log.map_err(|error| LaunchError::about(path.display(), &error))
        };
        Ok((path, [create_log(CHECK_OUT)?, create_log(CHECK_ERR)?]))
    }

    /// Removes what a check may have left. If that fails, so does the next check.
    pub(super) fn remove_check(&mut self) {
        let _ = with_directory(&mut self.work, &self.sandbox, WORK, |work| {
            let _ = unlinkat(work, format!("{CHECK}/{CHECK}"), AtFlags::empty());
            unlinkat(work, CHECK, AtFlags::REMOVEDIR)
        });
        let _ = with_directory(&mut self.logs, &self.sandbox, LOGS, |logs| {
            let _ = unlinkat(logs, CHECK_OUT, AtFlags::empty());
            unlinkat(logs, CHECK_ERR, AtFlags::empty())
        });
    }

    /// Takes back the paths of an attempt that is over and has no process left that could write
    /// there. It ran as our own user. What is empty and unchanged becomes a spare.
    ///
    /// An attempt that has left files keeps its stderr log: the agent may still have to report
    /// there what is wrong with one of the files, and that must not end up in the log of another
    /// attempt.
    pub(super) fn recycle(&mut self, paths: AttemptPaths) {
        if self.spare_dirs.len() >= SPARES_MAX && self.spare_logs.len() >= SPARES_MAX {
            return;
        }
        let work = self.work.as_ref();
        let left_nothing = work.is_some_and(|work| is_unused_dir(work, &paths.dir));
        if let Some(logs) = &self.logs {
            for (name, free) in [(paths.stdout, true), (paths.stderr, left_nothing)] {
                if free && self.spare_logs.len() < SPARES_MAX && is_unused_log(logs, &name) {
                    self.spare_logs.push(name);
                }
            }
        }
        if left_nothing && self.spare_dirs.len() < SPARES_MAX {
            self.spare_dirs.push(paths.dir);
        }
    }
}

/// Renames a spare. False if there is none, the name is taken, or the file system cannot rename
/// without overwriting: then the spare stays until old files are cleared away.
fn reuse(parent: &OwnedFd, spare: Option<&str>, name: &str) -> bool {
    spare.is_some_and(|spare| {
        renameat_with(parent, spare, parent, name, RenameFlags::NOREPLACE).is_ok()
    })
}

fn is_unused_log(logs: &OwnedFd, name: &str) -> bool {
    statat(logs, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|log| {
        let plain = FileType::from_raw_mode(log.st_mode).is_file() && log.st_nlink == 1;
        plain && log.st_size == 0 && log.st_mode & 0o7777 == LOG_MODE
    })
}

fn is_unused_dir(work: &OwnedFd, name: &str) -> bool {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(work, name, flags, Mode::empty());
    dir.and_then(|dir| {
        let made_so = rustix::fs::fstat(&dir)?.st_mode & 0o7777 == DIR_MODE;
        Ok(made_so && is_empty(dir)?)
    })
    .unwrap_or(false)
}

/// The kernel returns as many entries at once as fit, so one call shows whether there is any beside
/// `.` and `..`.
fn is_empty(dir: OwnedFd) -> rustix::io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); 1 << 10];
    let mut entries = RawDir::new(dir, &mut space);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
        if entries.is_buffer_empty() {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Runs `act` in one of the two directories, which is opened first if it is not held, or is held
/// but was removed.
fn with_directory<T>(
    held: &mut Option<OwnedFd>,
    sandbox: &Path,
    name: &str,
    act: impl Fn(&OwnedFd) -> rustix::io::Result<T>,
) -> io::Result<T> {
    if let Some(directory) = held {
        match act(directory) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
    }
    let sandbox = open_directory(sandbox)?;
    let directory = held.insert(open_subdirectory(sandbox, name, None)?);
    Ok(act(directory)?)
}

/// Creates a file that does not exist yet.
fn create_new(parent: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::from_raw_mode(LOG_MODE))
}

/// Writes [`CHECK_BYTES`] to a file. A disk that takes only a part of them is full.
fn write_all(file: &OwnedFd) -> rustix::io::Result<()> {
    let written = rustix::io::write(file, &[0; CHECK_BYTES])?;
    if written < CHECK_BYTES {
        return Err(Errno::NOSPC);
    }
    Ok(())
}

/// Checks that this is a single path component.
fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        let text = format!("`{}` cannot be a name in a sandbox", name.escape_debug());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    })
}

pub(super) fn open_subdirectory(
    parent: impl AsFd,
    name: &str,
    owner: Option<&Credentials>,
) -> io::Result<OwnedFd> {
    let made = match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&parent, name, flags, Mode::empty())?;
    if made {
        chown_to(&fd, owner)?;
    }
    Ok(fd)
}

pub(super) fn chown_to(fd: &OwnedFd, owner: Option<&Credentials>) -> io::Result<()> {
    if let Some(owner) = owner {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        rustix::fs::fchown(fd, Some(uid), Some(gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn paths(dir: &str) -> AttemptPaths {
        AttemptPaths {
            dir: dir.to_owned(),
            stdout: "out".to_owned(),
            stderr: "err".to_owned(),
        }
    }

    #[test]
    fn an_attempt_directory_is_private_and_is_made_once() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let path = attempt_dirs.prepare(&paths("a"), None).expect("made");
        assert_eq!(Path::new(&path), sandbox.path().join("work/a"));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        attempt_dirs.prepare(&paths("a"), None).expect("there");
        attempt_dirs.open_log("out", None).expect("made");
        let log = sandbox.path().join("logs/out");
        let mode = fs::metadata(log).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// Prepares the paths as a launch does; returns the directory and the two logs.
    fn prepare_all(attempt_dirs: &mut AttemptDirs, paths: &AttemptPaths) -> [PathBuf; 3] {
        let dir = attempt_dirs.prepare(paths, None).expect("made");
        for name in [&paths.stdout, &paths.stderr] {
            attempt_dirs.open_log(name, None).expect("made");
        }
        let logs = attempt_dirs.sandbox.join(LOGS);
        [
            dir.into(),
            logs.join(&paths.stdout),
            logs.join(&paths.stderr),
        ]
    }

    fn numbered(number: u32) -> AttemptPaths {
        AttemptPaths {
            dir: number.to_string(),
            stdout: format!("{number}.out"),
            stderr: format!("{number}.err"),
        }
    }

    fn inodes(paths: &[PathBuf; 3]) -> [u64; 3] {
        use std::os::unix::fs::MetadataExt;
        paths
            .each_ref()
            .map(|path| fs::metadata(path).expect("there").ino())
    }

    #[test]
    fn empty_directories_and_logs_are_reused_under_another_name() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let first = prepare_all(&mut attempt_dirs, &numbered(1));
        let mut before = inodes(&first);
        attempt_dirs.recycle(numbered(1));
        let second = prepare_all(&mut attempt_dirs, &numbered(2));
        let mut after = inodes(&second);
        // Which of the two logs becomes which does not matter.
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
        assert!(first.iter().all(|path| !path.exists()), "they were renamed");
    }

    #[test]
    fn written_or_changed_files_stay_where_they_are() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let [dir, out, err] = prepare_all(&mut attempt_dirs, &numbered(1));
        fs::write(dir.join("result"), b"").expect("written");
        fs::write(&out, b"text").expect("written");
        fs::set_permissions(&err, fs::Permissions::from_mode(0o644)).expect("set");
        attempt_dirs.recycle(numbered(1));
        prepare_all(&mut attempt_dirs, &numbered(2));
        assert!(
            [dir.join("result"), out, err]
                .iter()
                .all(|path| path.exists())
        );
        let dir = attempt_dirs.prepare(&numbered(3), None).expect("made");
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("set");
        attempt_dirs.recycle(numbered(3));
        assert!(attempt_dirs.spare_dirs.is_empty());
    }

    #[test]
    fn an_attempt_that_left_a_file_keeps_its_stderr_log() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let [dir, out, err] = prepare_all(&mut attempt_dirs, &numbered(1));
        fs::write(dir.join("result"), b"").expect("written");
        attempt_dirs.recycle(numbered(1));
        prepare_all(&mut attempt_dirs, &numbered(2));
        assert!(!out.exists(), "another has it");
        assert!(err.exists());
    }

    #[test]
    fn an_existing_directory_is_not_replaced_by_a_spare() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let [dir, out, _] = prepare_all(&mut attempt_dirs, &numbered(1));
        fs::write(dir.join("half"), b"").expect("written");
        fs::write(&out, b"text").expect("written");
        prepare_all(&mut attempt_dirs, &numbered(2));
        attempt_dirs.recycle(numbered(2));
        prepare_all(&mut attempt_dirs, &numbered(1));
        assert!(dir.join("half").exists());
        assert_eq!(fs::read(out).expect("there"), b"text");
    }

    #[test]
    fn a_check_creates_and_leaves_nothing() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        let (dir, _logs) = attempt_dirs.create_check().expect("created");
        assert!(Path::new(&dir).is_dir());
        // As after a crash in between.
        attempt_dirs.create_check().expect("created again");
        attempt_dirs.remove_check();
        for name in [WORK, LOGS] {
            let left = fs::read_dir(sandbox.path().join(name)).expect("there");
            assert_eq!(left.count(), 0, "{name}");
        }
    }

    #[test]
    fn a_check_fails_where_a_spare_would_do() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        prepare_all(&mut attempt_dirs, &numbered(1));
        attempt_dirs.recycle(numbered(1));
        fs::write(sandbox.path().join("work/.check"), b"").expect("written");
        let error = attempt_dirs.create_check().expect_err("its name is taken");
        assert!(error.to_string().contains("work/.check"), "{error}");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        for name in ["", ".", "..", "a/b", "/a", "../a", "a/", "a\0b"] {
            assert!(
                attempt_dirs.prepare(&paths(name), None).is_err(),
                "{name:?}"
            );
            let stdout = AttemptPaths {
                stdout: name.to_owned(),
                ..paths("a")
            };
            assert!(attempt_dirs.prepare(&stdout, None).is_err(), "{name:?}");
            let stderr = AttemptPaths {
                stderr: name.to_owned(),
                ..paths("a")
            };
            assert!(attempt_dirs.prepare(&stderr, None).is_err(), "{name:?}");
        }
        assert!(!sandbox.path().join("work").exists(), "nothing was made");
    }

    #[test]
    fn links_are_not_followed() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        attempt_dirs.prepare(&paths("a"), None).expect("made");
        attempt_dirs.open_log("out", None).expect("made");
        symlink("/", sandbox.path().join("work/b")).expect("made");
        symlink("out", sandbox.path().join("logs/link")).expect("made");
        assert!(attempt_dirs.prepare(&paths("b"), None).is_err());
        assert!(attempt_dirs.open_log("link", None).is_err());
    }

    #[test]
    fn what_was_removed_is_made_anew() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut attempt_dirs = AttemptDirs::new(sandbox.path());
        for _ in 0..2 {
            attempt_dirs.prepare(&paths("a"), None).expect("made");
            attempt_dirs.open_log("out", None).expect("made");
            fs::remove_dir_all(sandbox.path().join("work")).expect("removed");
            fs::remove_dir_all(sandbox.path().join("logs")).expect("removed");
        }
    }
}
