//! All roots of this host.
//!
//! A root is found if it is the default one of a user, or if a coordinator runs for it: the one of a
//! task names its checkpoint on its command line, the one of a worker names the state directory,
//! whose attempts have a root each. Root finds those of all users, any other user its own.
//!
//! A command line proves nothing, and directories of other users may hold anything, so everything
//! found here is read as [`GuardedView`](super::GuardedView) reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, fstat};

use super::{CHECKPOINTS, Entry, Phase, Root, TASKS, TaskId};
use crate::logs::open_dir;
use crate::sys::proc;

/// The argument of a coordinator's process; the next one is its checkpoint.
const COORDINATOR: &[u8] = b"__coordinator";
/// The checkpoint and the attempts of a worker, and the root of an attempt.
const WORKER_CHECKPOINT: &str = "checkpoint";
const WORKER_ATTEMPTS: &str = "work";
const ATTEMPT_ROOT: &str = ".baton";
/// Where the default root is, below a home directory.
const BELOW_HOME: &str = ".local/state/baton";
/// Entries of one directory that are listed.
const ENTRIES_MAX: usize = 100_000;

/// Finds the roots of this host, in order of their paths. `own` is the root of the caller; as root,
/// those of all users are found as well.
#[must_use]
pub fn find_roots(own: Option<&Root>, is_root: bool) -> Vec<Root> {
    let mut paths: BTreeSet<PathBuf> = own.map(|root| root.path().to_owned()).into_iter().collect();
    if is_root {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        paths.extend(homes(&users).map(|home| home.join(BELOW_HOME)));
    }
    for found in coordinators() {
        paths.extend(roots_of(found));
    }
    let is_there = |path: &PathBuf| matches!(open_dir(CWD, &**path), Ok(Some(_)));
    let found = paths.into_iter().filter(is_there);
    found.filter_map(|path| Root::new(path).ok()).collect()
}

/// Finds the state directories of the workers that run on this host, in order of their paths. Single
/// commands of a worker have no roots.
#[must_use]
pub fn find_workers() -> Vec<PathBuf> {
    let states = coordinators().into_iter().filter_map(|found| match found {
        Coordinator::OfWorker(state) => Some(state),
        Coordinator::OfTask(_) => None,
    });
    states.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The directory that a coordinator runs for.
#[derive(Debug, PartialEq, Eq)]
enum Coordinator {
    /// The root of its task.
    OfTask(PathBuf),
    /// The state directory of its worker.
    OfWorker(PathBuf),
}

/// The coordinators that run on this host, by their command lines.
fn coordinators() -> Vec<Coordinator> {
    let processes = proc::all().unwrap_or_default().into_iter();
    let lines = processes.filter_map(|it| fs::read(format!("/proc/{}/cmdline", it.pid)).ok());
    lines.filter_map(|line| coordinator(&line)).collect()
}

/// The home directories in a password file.
fn homes(users: &str) -> impl Iterator<Item = PathBuf> {
    let homes = users.lines().filter_map(|line| line.split(':').nth(5));
    homes
        .filter(|home| home.len() > 1 && home.starts_with('/'))
        .map(PathBuf::from)
}

/// The coordinator with this command line, if it is one.
fn coordinator(line: &[u8]) -> Option<Coordinator> {
    let mut words = line.split(|byte| *byte == 0).skip(1);
    if words.next() != Some(COORDINATOR) {
        return None;
    }
    let checkpoint = words.next().unwrap_or_default().to_vec();
    let checkpoint = PathBuf::from(std::ffi::OsString::from_vec(checkpoint));
    let parent = checkpoint.parent().filter(|_| checkpoint.is_absolute())?;
    if checkpoint.ends_with(WORKER_CHECKPOINT) {
        return Some(Coordinator::OfWorker(parent.to_owned()));
    }
    let root = parent.parent().filter(|_| parent.ends_with(CHECKPOINTS))?;
    Some(Coordinator::OfTask(root.to_owned()))
}

/// The roots that a coordinator leads to.
fn roots_of(coordinator: Coordinator) -> Vec<PathBuf> {
    match coordinator {
        Coordinator::OfTask(root) => vec![root],
        Coordinator::OfWorker(state) => {
            let attempts = state.join(WORKER_ATTEMPTS);
            let names = names(&attempts).into_iter();
            let roots = names.map(|name| attempts.join(name).join(ATTEMPT_ROOT));
            roots.collect()
        }
    }
}

/// The names in a directory that is not a link.
fn names(path: &Path) -> Vec<String> {
    match open_dir(CWD, path) {
        Ok(Some(dir)) => names_in(dir),
        Ok(None) | Err(_) => Vec::new(),
    }
}

/// The names in an open directory.
fn names_in(dir: OwnedFd) -> Vec<String> {
    let Ok(entries) = Dir::read_from(dir) else {
        return Vec::new();
    };
    let names =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    names
        .filter(|name| !matches!(&**name, "." | ".."))
        .take(ENTRIES_MAX)
        .collect()
}

/// True for the root of a worker's attempt: `STATE/work/ATTEMPT/.baton`.
fn is_attempt_root(path: &Path) -> bool {
    let attempts = path.parent().and_then(Path::parent);
    path.ends_with(ATTEMPT_ROOT) && attempts.is_some_and(|it| it.ends_with(WORKER_ATTEMPTS))
}

impl Root {
    /// The name of the attempt that a worker made it for. Only that worker may drive, end or remove
    /// what is in it: a lease and a dead-man timer guard it.
    #[must_use]
    pub fn attempt(&self) -> Option<String> {
        // The worker's own path of it, if this one leads through a link.
        let path = fs::canonicalize(self.path()).unwrap_or_else(|_| self.path().to_owned());
        let name = path
            .parent()
            .filter(|_| is_attempt_root(&path))?
            .file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// Its tasks, ordered by id, if it may belong to another user. What cannot be read is left out.
    #[must_use]
    pub fn list_guarded(&self) -> Vec<Entry> {
        let mut found = BTreeMap::new();
        // In this order: a task with both entries has ended.
        for phase in [Phase::Active, Phase::Finished] {
            let names = self.entry_names(phase).unwrap_or_default();
            let ids = names.iter().filter_map(|name| TaskId::new(name).ok());
            found.extend(ids.map(|id| (id, phase)));
        }
        let entries = found.into_iter();
        entries.map(|(id, phase)| Entry { id, phase }).collect()
    }

    /// The user that its directory belongs to.
    ///
    /// # Errors
    /// If it cannot be read, or is a link.
    pub fn owner(&self) -> io::Result<u32> {
        match open_dir(CWD, self.path())? {
            Some(dir) => Ok(fstat(dir)?.st_uid),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The names of its entries, without following a link below it.
    fn entry_names(&self, phase: Phase) -> Option<Vec<String>> {
        let root = open_dir(CWD, self.path()).ok()??;
        let tasks = open_dir(root, TASKS).ok()??;
        let entries = open_dir(tasks, phase.into_str()).ok()??;
        Some(names_in(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<u8> {
        let mut line = words.join("\0").into_bytes();
        line.push(0);
        line
    }

    #[test]
    fn the_coordinator_of_a_task_names_its_root_and_that_of_a_worker_its_attempts() {
        let task = line(&[
            "baton",
            "__coordinator",
            "/r/checkpoints/a-1",
            "/r/sandboxes/a-1",
        ]);
        let roots_of = |line: &[u8]| coordinator(line).map_or_else(Vec::new, roots_of);
        assert_eq!(roots_of(&task), [Path::new("/r")]);
        let state = tempfile::tempdir().expect("a directory");
        let attempts = state.path().join(WORKER_ATTEMPTS);
        fs::create_dir_all(attempts.join("i1.1.e1/.baton")).expect("made");
        let checkpoint = state.path().join(WORKER_CHECKPOINT);
        let checkpoint = checkpoint.to_str().expect("text");
        let worker = line(&["baton", "__coordinator", checkpoint]);
        assert_eq!(roots_of(&worker), [attempts.join("i1.1.e1/.baton")]);
        for other in [
            &["baton", "worker"][..],
            &["baton", "__coordinator"],
            &["baton", "__coordinator", "relative/checkpoints/a"],
            &["baton", "__coordinator", "/elsewhere/a"],
            &["__coordinator", "/r/checkpoints/a"],
        ] {
            assert_eq!(roots_of(&line(other)), Vec::<PathBuf>::new(), "{other:?}");
        }
    }

    #[test]
    fn the_root_of_an_attempt_belongs_to_its_worker() {
        let state = tempfile::tempdir().expect("a directory");
        let path = state.path().join("work/i1.1.e1/.baton");
        fs::create_dir_all(&path).expect("made");
        let attempt = |path: PathBuf| Root::new(path).expect("a path").attempt();
        assert_eq!(attempt(path.clone()).as_deref(), Some("i1.1.e1"));
        let link = state.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(attempt(link).as_deref(), Some("i1.1.e1"));
        // A process of an attempt may have a root of its own in its sandbox.
        assert_eq!(attempt(state.path().join("work/i1.1.e1/own")), None);
        assert_eq!(attempt(state.path().join("other/.baton")), None);
    }

    #[test]
    fn homes_are_absolute_and_not_the_file_system_itself() {
        let users =
            "root:x:0:0::/root:/bin/sh\nnobody:x:1:1::/:/x\nodd:x\nann:x:2:2::/homes/ann:\n";
        let found: Vec<PathBuf> = homes(users).collect();
        assert_eq!(found, [Path::new("/root"), Path::new("/homes/ann")]);
    }

    #[test]
    fn a_directory_that_is_a_link_is_not_listed() {
        let (dir, root) = super::super::testing::temp_root();
        super::super::testing::started_task(&root, "a", super::super::testing::BOOT);
        assert_eq!(root.list_guarded().len(), 1);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(root.path().join("tasks/active"), &link).expect("linked");
        assert_eq!(names(&link), Vec::<String>::new());
        let tasks = root.path().join(TASKS);
        fs::rename(&tasks, dir.path().join("elsewhere")).expect("moved");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &tasks).expect("linked");
        assert_eq!(root.list_guarded(), []);
    }
}
