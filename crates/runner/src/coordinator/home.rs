//! The homes of a worker's attempts: below its sandbox, a directory in `work` and two files
//! in `logs`.
//!
//! Both directories are the coordinator's own and are held open: nobody else can put a
//! link into them, and an attempt costs two or three calls and no walk along a path. If
//! one was removed meanwhile it is made anew.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, mkdirat, open, openat, statat,
};
use rustix::io::Errno;

use crate::wire::{Credentials, Home};

const WORK: &str = "work";
const LOGS: &str = "logs";

/// Where homes are made.
#[derive(Debug)]
pub(super) struct Homes {
    sandbox: PathBuf,
    work: Option<OwnedFd>,
    logs: Option<OwnedFd>,
}

impl Homes {
    pub(super) fn new(sandbox: &Path) -> Self {
        Self {
            sandbox: sandbox.to_owned(),
            work: None,
            logs: None,
        }
    }

    /// Makes the working directory, unless it is there, and gives its path.
    pub(super) fn enter(&mut self, home: &Home, owner: Option<&Credentials>) -> io::Result<String> {
        for name in [&home.dir, &home.stdout, &home.stderr] {
            check(name)?;
        }
        let dir = home.dir.as_str();
        within(&mut self.work, &self.sandbox, WORK, |work| {
            match mkdirat(work, dir, Mode::from_raw_mode(0o700)) {
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
        Ok(format!("{}/{WORK}/{dir}", self.sandbox.display()))
    }

    /// Opens a log file, of a name that was checked, to append to it.
    pub(super) fn log(&mut self, name: &str, owner: Option<&Credentials>) -> io::Result<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = within(&mut self.logs, &self.sandbox, LOGS, |logs| {
            openat(logs, name, flags, Mode::from_raw_mode(0o600))
        })?;
        give_to(&file, owner)?;
        Ok(file)
    }
}

/// Does something in one of the two directories. It is opened if it is not held, or is
/// held but was removed.
fn within<T>(
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
    let sandbox = directory(sandbox)?;
    let directory = held.insert(subdirectory(sandbox, name, None)?);
    Ok(act(directory)?)
}

/// One name, which leads nowhere else.
fn check(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        let text = format!("`{}` cannot be a name in a sandbox", name.escape_debug());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

pub(super) fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    })
}

pub(super) fn subdirectory(
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
        give_to(&fd, owner)?;
    }
    Ok(fd)
}

pub(super) fn give_to(fd: &OwnedFd, owner: Option<&Credentials>) -> io::Result<()> {
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

    fn home(dir: &str) -> Home {
        Home {
            dir: dir.to_owned(),
            stdout: "out".to_owned(),
            stderr: "err".to_owned(),
        }
    }

    #[test]
    fn a_home_is_for_its_owner_alone_and_is_made_once() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut homes = Homes::new(sandbox.path());
        let path = homes.enter(&home("a"), None).expect("made");
        assert_eq!(Path::new(&path), sandbox.path().join("work/a"));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        homes.enter(&home("a"), None).expect("there");
        homes.log("out", None).expect("made");
        let log = sandbox.path().join("logs/out");
        let mode = fs::metadata(log).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut homes = Homes::new(sandbox.path());
        for name in ["", ".", "..", "a/b", "/a", "../a", "a/", "a\0b"] {
            assert!(homes.enter(&home(name), None).is_err(), "{name:?}");
            let stdout = Home {
                stdout: name.to_owned(),
                ..home("a")
            };
            assert!(homes.enter(&stdout, None).is_err(), "{name:?}");
            let stderr = Home {
                stderr: name.to_owned(),
                ..home("a")
            };
            assert!(homes.enter(&stderr, None).is_err(), "{name:?}");
        }
        assert!(!sandbox.path().join("work").exists(), "nothing was made");
    }

    #[test]
    fn links_are_not_followed() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut homes = Homes::new(sandbox.path());
        homes.enter(&home("a"), None).expect("made");
        homes.log("out", None).expect("made");
        symlink("/", sandbox.path().join("work/b")).expect("made");
        symlink("out", sandbox.path().join("logs/link")).expect("made");
        assert!(homes.enter(&home("b"), None).is_err());
        assert!(homes.log("link", None).is_err());
    }

    #[test]
    fn what_was_removed_is_made_anew() {
        let sandbox = tempfile::tempdir().expect("a directory");
        let mut homes = Homes::new(sandbox.path());
        for _ in 0..2 {
            homes.enter(&home("a"), None).expect("made");
            homes.log("out", None).expect("made");
            fs::remove_dir_all(sandbox.path().join("work")).expect("removed");
            fs::remove_dir_all(sandbox.path().join("logs")).expect("removed");
        }
    }
}
