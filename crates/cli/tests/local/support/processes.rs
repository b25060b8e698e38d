//! Processes of this machine, as tests see them.

use std::path::Path;

use baton_runner::sys::proc;

/// Every live process that carries this mark.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let all = proc::all().unwrap_or_default().into_iter();
    let live = all.filter(|stat| !stat.is_over()).map(|stat| stat.pid);
    let carries = |pid: &u32| proc::has_mark(*pid, &|text| text.starts_with(mark));
    live.filter(carries).collect()
}

/// Every live coordinator of a task below this root.
pub(super) fn coordinators(root: &Path) -> Vec<u32> {
    let root = root.display().to_string();
    let all = proc::all().unwrap_or_default().into_iter();
    let live = all.filter(|stat| !stat.is_over()).map(|stat| stat.pid);
    live.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("\0__coordinator\0") && line.contains(&root)
    })
    .collect()
}

/// True if the kernel reports the exit code of a process to every holder of a pidfd, and not only to its
/// parent: from 6.15 on. Elsewhere the end of an orphan is lost.
pub(crate) fn ends_of_orphans_are_known() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next()?.parse::<u32>().ok();
    (next(), next()) >= (Some(6), Some(15))
}
