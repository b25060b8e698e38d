//! The processes of this host.

use std::path::Path;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::until;

/// Sends a signal; false if there is no such process.
pub fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The live processes whose command line and environment, as text, are wanted.
pub fn processes(wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    let me = std::process::id();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|pid| *pid != me) else {
            continue;
        };
        if description(pid).is_some_and(|text| wanted(&text)) && !is_zombie(pid) {
            found.push(pid);
        }
    }
    found
}

/// Kills the processes that are wanted; returns how many. Each is stopped first and looked at again:
/// one that was between clone and exec when it was found may be running another program by now.
pub fn kill_all(wanted: impl Fn(&str) -> bool) -> usize {
    let mut killed = 0;
    for pid in processes(&wanted) {
        send(pid, Signal::STOP);
        // A parent in vfork sleeps, and cannot be stopped before its child has called exec.
        until("a process is stopped", || {
            matches!(stat(pid).chars().next(), None | Some('T' | 'D' | 'Z' | 'X'))
        });
        if description(pid).is_some_and(|text| wanted(&text)) {
            killed += usize::from(send(pid, Signal::KILL));
        } else {
            send(pid, Signal::CONT);
        }
    }
    killed
}

/// The command line and the environment of a process, as text.
fn description(pid: u32) -> Option<String> {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mut text = read("cmdline");
    if text.is_empty() {
        return None;
    }
    text.push(0);
    text.extend(read("environ"));
    Some(String::from_utf8_lossy(&text).replace('\0', " "))
}

/// True while a process is there, and has not ended.
pub fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

/// The parent of a process that is there.
pub fn parent(pid: u32) -> Option<u32> {
    let state_and_more = stat(pid);
    state_and_more.split(' ').nth(1)?.parse().ok()
}

fn is_zombie(pid: u32) -> bool {
    stat(pid).starts_with('Z')
}

/// The kernel's line about a process from its state on; nothing if it is gone.
fn stat(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().to_owned()
}

/// True if this process may do everything.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// True, with a note, if the test needs root for this and does not have it.
pub fn lacks_root(what: &str) -> bool {
    let lacks = !is_root();
    if lacks {
        eprintln!("skipped: only root can {what}");
    }
    lacks
}
