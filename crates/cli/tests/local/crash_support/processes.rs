//! The processes of a rig, found in `/proc`.
//!
//! Every one of them has the directory of its rig in its command line or its environment,
//! and no other process does. They are found without the library, which is under test.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The role of a process in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Runner,
    Coordinator,
    /// One of the task's, with its mark.
    Process,
    /// The tracer of the others.
    Tracer,
}

/// A process that was there a moment ago.
#[derive(Debug)]
pub(crate) struct LiveProcess {
    pub(crate) pid: u32,
    pub(crate) role: Role,
    /// Of a process: whose, and which run.
    pub(crate) mark: Option<String>,
    handle: OwnedFd,
}

impl LiveProcess {
    /// Kills it; false if it was gone.
    pub(crate) fn kill(&self) -> bool {
        self.signal(Signal::KILL)
    }

    /// Signals it; false if it was gone.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.handle, signal).is_ok()
    }
}

/// All live processes of the rig in this directory.
pub(crate) fn of_rig(dir: &Path) -> Vec<LiveProcess> {
    let dir = dir.to_str().expect("a name in UTF-8").as_bytes();
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    let others = pids.filter(|pid| *pid != own);
    others.filter_map(|pid| live_process(pid, dir)).collect()
}

/// Those of one role. The child of a runner that has not called exec yet looks like a runner, and is
/// none: it is about to be the coordinator.
pub(crate) fn with_role(dir: &Path, role: Role) -> Vec<LiveProcess> {
    let mut all = of_rig(dir);
    all.retain(|process| process.role == role);
    let pids: Vec<u32> = all.iter().map(|process| process.pid).collect();
    let is_child = |pid: u32| parent(pid).is_some_and(|parent| pids.contains(&parent));
    all.retain(|process| role != Role::Runner || !is_child(process.pid));
    all
}

/// The letter of its state; none if it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    stat(pid, 0)?.chars().next()
}

/// Its parent.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid, 1)?.parse().ok()
}

/// When it started, in ticks since boot.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid, 19)?.parse().ok()
}

/// A word of its line of state, counted behind its name.
fn stat(pid: u32, word: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.rsplit_once(") ")?.1;
    behind_name.split(' ').nth(word).map(str::to_owned)
}

fn live_process(pid: u32, dir: &[u8]) -> Option<LiveProcess> {
    // Opened first, then inspected: the inspected process is the one that is held.
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let handle = pidfd_open(raw, PidfdFlags::empty()).ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !contains(&command, dir) && !contains(&environment, dir) {
        return None;
    }
    if matches!(state(pid), None | Some('Z' | 'X')) {
        return None;
    }
    let mut variables = environment.split(|byte| *byte == 0);
    let mark = variables.find_map(|variable| variable.strip_prefix(b"BATON_MARK="));
    let mark = mark.map(|mark| String::from_utf8_lossy(mark).into_owned());
    let role = if mark.is_some() {
        Role::Process
    } else if contains(&command, b"__coordinator") {
        Role::Coordinator
    } else if command.starts_with(b"strace") {
        Role::Tracer
    } else {
        Role::Runner
    };
    Some(LiveProcess {
        pid,
        role,
        mark,
        handle,
    })
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
