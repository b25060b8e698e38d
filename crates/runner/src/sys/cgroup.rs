//! Control groups (version 2), where they exist and are writable.
//!
//! A process that joins a group before exec cannot leave it by any number of forks, and
//! `cgroup.kill` kills all of it at once, forks in progress included. Control groups are optional:
//! without them trees are swept, see [`kill`](super::kill).
//!
//! The processes that use a group hold a lock on its directory, so that [`sweep`] recognises one whose agent
//! and coordinator are gone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, access};

/// How the name of every group begins.
pub const PREFIX: &str = "baton-";

/// Attempts to create a group that another process is removing, and the pause between two.
const CREATE_TRIES_MAX: u32 = 50;
const CREATE_PAUSE: Duration = Duration::from_millis(2);

/// A younger group is not swept: versions without locks create it some time before its coordinator.
const SWEEP_AGE_MIN: Duration = Duration::from_secs(60);

/// A control group created by Baton.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    procs: File,
    /// The lock of a group that is not below another of ours.
    _claim: Option<File>,
}

/// Creates a group of this name below our own, or opens the existing one. `None` where that is not
/// possible: no version 2, not writable, or a kernel that cannot kill groups.
#[must_use]
pub fn create(name: &str) -> Option<Cgroup> {
    let mut parts = Path::new(name).components();
    let plain = matches!(parts.next(), Some(Component::Normal(part)) if part == name);
    if !plain || parts.next().is_some() {
        return None;
    }
    let ours = own_directory(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        &fs::read_to_string("/proc/self/cgroup").ok()?,
    )?;
    // Moving a process needs write access here too, not only at the target.
    access(ours.join("cgroup.procs"), Access::WRITE_OK).ok()?;
    let path = ours.join(name);
    for _ in 0..CREATE_TRIES_MAX {
        let made = match fs::create_dir(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(_) => return None,
        };
        if let Some(group) = open(&path) {
            return Some(group);
        }
        let is_usable = access(path.join("cgroup.kill"), Access::WRITE_OK).is_ok();
        if made && !is_usable {
            // It is empty and harmless; failing to remove it is no error.
            let _ = fs::remove_dir(&path);
            return None;
        }
        thread::sleep(CREATE_PAUSE);
    }
    None
}

/// Opens an existing group; `None` if it is gone, or cannot be used.
#[must_use]
pub fn open(path: &Path) -> Option<Cgroup> {
    let claim = File::open(path).ok()?;
    claim.try_lock_shared().ok()?;
    let group = attach(path)?;
    Some(Cgroup {
        _claim: Some(claim),
        ..group
    })
}

fn attach(path: &Path) -> Option<Cgroup> {
    access(path.join("cgroup.kill"), Access::WRITE_OK).ok()?;
    let procs = OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"))
        .ok()?;
    Some(Cgroup {
        path: path.to_owned(),
        procs,
        _claim: None,
    })
}

/// Removes the groups below our own that no process uses, of agents and coordinators that are gone. A process
/// with the argument `owner` may be a coordinator of a version without locks, whose arguments name its group.
/// Returns how many were removed.
pub fn sweep(owner: &str) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own_directory(&mounts, &groups).map_or(0, |ours| sweep_below(&ours, owner, SWEEP_AGE_MIN))
}

/// The same, of the groups in a directory that are at least so old.
pub fn sweep_below(parent: &Path, owner: &str, age_min: Duration) -> usize {
    let abandoned = abandoned(parent, age_min);
    if abandoned.is_empty() {
        return 0;
    }
    let owners = command_lines(owner);
    let is_named = |path: &Path| {
        let path = path.to_string_lossy();
        owners.iter().any(|line| line.contains(&*path))
    };
    let removed = abandoned.iter().filter(|(path, _lock)| {
        // A process that joins meanwhile makes this fail.
        !is_named(path) && remove(path).is_ok()
    });
    removed.count()
}

/// The groups of ours in a directory without a process and without a lock, which we hold then.
fn abandoned(parent: &Path, age_min: Duration) -> Vec<(PathBuf, File)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
    });
    let paths = ours.map(|entry| entry.path()).filter(|path| {
        let changed = fs::metadata(path).and_then(|it| it.modified());
        let age = changed
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        age.is_some_and(|age| age >= age_min) && is_populated(path).is_ok_and(|it| !it)
    });
    let locked = paths.filter_map(|path| {
        let lock = File::open(&path).ok()?;
        lock.try_lock().ok()?;
        Some((path, lock))
    });
    locked.collect()
}

/// The command lines of all processes with this argument.
fn command_lines(argument: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines
        .filter(|line| line.split('\0').any(|it| it == argument))
        .collect()
}

fn is_populated(path: &Path) -> io::Result<bool> {
    let events = fs::read_to_string(path.join("cgroup.events"))?;
    let mut lines = events.lines();
    let value = lines.find_map(|line| line.strip_prefix("populated "));
    Ok(value != Some("0"))
}

impl Cgroup {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor through which a process joins: see
    /// [`Command::cgroup`](super::spawn::Command::cgroup).
    #[must_use]
    pub fn procs(&self) -> BorrowedFd<'_> {
        self.procs.as_fd()
    }

    /// Kills every process in it and in the groups below it. They end soon after.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn kill(&self) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.kill"))?;
        file.write_all(b"1")
    }

    /// True if there is a process in it, or in a group below it; zombies do not count.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn populated(&self) -> io::Result<bool> {
        is_populated(&self.path)
    }

    /// Enables memory limits for groups below this one. From then on no process can be in this
    /// group itself, only in those below it. False where that is not possible: there is no such
    /// controller here, or the group has processes already.
    #[must_use]
    pub fn limits_memory(&self) -> bool {
        fs::write(self.path.join("cgroup.subtree_control"), "+memory").is_ok()
    }

    /// Creates a group below this one, or opens the existing one, with a memory limit unless that
    /// is 0.
    ///
    /// # Errors
    /// If it cannot be created, or not limited.
    pub fn below(&self, name: &str, memory_max: u64) -> io::Result<Self> {
        let path = self.path.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if memory_max > 0 {
            fs::write(path.join("memory.max"), memory_max.to_string())?;
        }
        attach(&path).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// True if the kernel's OOM killer has killed a process in it.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        let mut lines = events.lines();
        let kills = lines.find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    /// Removes the group, with the empty groups below it.
    ///
    /// # Errors
    /// If there are processes in it.
    pub fn remove(self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// Removes a group and those below it. A group directory only holds groups and the kernel's own
/// files, which go with it.
fn remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// The directory of our own group. The mount may show only a part of all groups, beginning at its
/// root.
fn own_directory(mounts: &str, groups: &str) -> Option<PathBuf> {
    let ours = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    let (root, point) = mounts.lines().find_map(cgroup2_mount)?;
    let below = ours.strip_prefix(root).ok()?;
    let plain = |part| matches!(part, Component::Normal(_));
    if !below.components().all(plain) {
        // Outside of our namespace: not writable.
        return None;
    }
    Some(point.join(below))
}

/// Root and mount point, if a line of mountinfo is of type cgroup2.
fn cgroup2_mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    if right.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = left.split(' ').skip(3);
    Some((unescape(fields.next()?), unescape(fields.next()?)))
}

/// Decodes mountinfo escapes: a backslash and three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                text.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    PathBuf::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn our_group_is_found_where_version_2_is_mounted() {
        let groups = "4:memory:/x\n0::/a.slice/b\n";
        let found = own_directory(HYBRID, groups);
        assert_eq!(
            found.as_deref(),
            Some(Path::new("/sys/fs/cgroup/unified/a.slice/b"))
        );
        let found = own_directory(HYBRID, "0::/\n");
        assert_eq!(found.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn a_mount_of_a_part_begins_at_its_root() {
        let mounts = "1 2 0:3 /pod/x /c\\040g rw - cgroup2 none rw";
        let found = own_directory(mounts, "0::/pod/x/y\n");
        assert_eq!(found.as_deref(), Some(Path::new("/c g/y")));
        assert_eq!(own_directory(mounts, "0::/else\n"), None);
    }

    #[test]
    fn no_version_2_and_a_place_outside_are_nothing() {
        assert_eq!(own_directory("", "0::/\n"), None);
        assert_eq!(own_directory(HYBRID, "1:name=systemd:/\n"), None);
        assert_eq!(own_directory(HYBRID, "0::/../other\n"), None);
    }

    #[test]
    fn only_an_old_empty_group_of_ours_that_nothing_holds_is_abandoned() {
        let parent = tempfile::tempdir().expect("a directory");
        let make = |name: &str, populated: u32| {
            let path = parent.path().join(name);
            fs::create_dir(&path).expect("made");
            let events = format!("populated {populated}\nfrozen 0\n");
            fs::write(path.join("cgroup.events"), events).expect("written");
            path
        };
        let left = make("baton-left", 0);
        make("baton-used", 1);
        make("system.slice", 0);
        let held = File::open(make("baton-held", 0)).expect("there");
        held.try_lock_shared().expect("free");
        let found = |age| -> Vec<PathBuf> {
            let found = abandoned(parent.path(), age).into_iter();
            found.map(|(path, _)| path).collect()
        };
        assert_eq!(found(Duration::ZERO), [left]);
        assert_eq!(found(SWEEP_AGE_MIN), Vec::<PathBuf>::new());
        drop(held);
        assert_eq!(found(Duration::ZERO).len(), 2);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["", ".", "..", "a/b", "/a", "../a", "a/"] {
            assert!(create(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn what_is_not_an_escape_stays() {
        assert_eq!(unescape("a\\z\\04"), Path::new("a\\z\\04"));
        assert_eq!(unescape("a\\134b"), Path::new("a\\b"));
    }
}
