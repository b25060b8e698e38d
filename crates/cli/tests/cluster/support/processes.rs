//! The processes of this machine.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal; a process that is gone is ignored.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, signal));
}

/// The processes whose command line and environment, as text, are wanted.
pub(crate) fn processes(wanted: impl Fn(&str) -> bool) -> Vec<u32> {
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
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let mut text = read("cmdline");
        if text.is_empty() {
            continue;
        }
        text.push(0);
        text.extend(read("environ"));
        let text = String::from_utf8_lossy(&text).replace('\0', " ");
        if wanted(&text) && !is_zombie(pid) {
            found.push(pid);
        }
    }
    found
}

/// True while a process is there, and has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

/// The parent of a process that is there.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let state_and_more = stat(pid);
    state_and_more.split(' ').nth(1)?.parse().ok()
}

fn is_zombie(pid: u32) -> bool {
    stat(pid).starts_with('Z')
}

/// What the kernel says of a process from its state on; nothing if it is gone.
fn stat(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().to_owned()
}
