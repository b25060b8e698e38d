//! Killing process groups and process trees.
//!
//! A tree is killed by freezing it first: every process found is stopped, until a scan of `/proc`
//! finds none that was not stopped before, and only then all are killed. A stopped process does not
//! fork, so this ends a fork bomb. Then the scan is repeated until nothing is left, since a scan
//! may miss a child whose parent died quickly.
//!
//! Nothing is reaped here. A tree is defined by parents, so orphans must have come to the root: it
//! is a subreaper, or they carry a mark. A process that forks and exits faster than `/proc` can be
//! read is caught by chance alone; only a [`Cgroup`](super::cgroup::Cgroup) catches those for
//! certain.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;

use baton_model::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags, poll};

use super::clock;
use super::identity::{hold, send};
use super::proc::{Reader, Stat, Tree};
use super::raw;

/// The wait for the end of a killed process before the next scan.
const PAUSE: Millis = Millis(10);

/// Sends a signal to a process group; false if there is none.
///
/// Only while its leader has not been reaped: from then on the number may be reused.
///
/// # Errors
/// If no member may be signalled, there is no such signal, or the number is not that of a group: 0
/// and 1 would mean our own group and all processes.
pub fn group(pid: u32, signal: i32) -> io::Result<bool> {
    let pgrp = i32::try_from(pid).ok().filter(|pid| *pid > 1);
    let Some(pgrp) = pgrp else {
        let text = format!("{pid} is not a process group");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    match raw::kill_group(pgrp, signal) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A selection of processes to signal. The caller itself is never selected.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// All descendants of these processes; not the processes themselves.
    pub roots: &'a [u32],
    /// Processes to leave out. Their descendants are still selected.
    pub spare: &'a dyn Fn(&Stat) -> bool,
    /// Also every process with such a mark, anywhere, with its descendants. An environment that may
    /// not be read has no mark.
    pub mark: Option<&'a dyn Fn(&str) -> bool>,
}

#[derive(Default)]
struct SweepScan {
    /// Selected processes that are alive.
    live: Vec<Stat>,
    /// The number of selected zombies. While it changes something is still going on, even if
    /// nothing was seen alive.
    over: usize,
}

impl Sweep<'_> {
    /// The selected processes without zombies; parents before their children.
    pub fn find(&self) -> io::Result<Vec<Stat>> {
        Ok(self.scan(&mut Reader::new()?)?.live)
    }

    /// Sends a signal once to every selected process. Returns how many were reached; processes that
    /// may not be signalled do not count.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or there is no such signal.
    pub fn signal(&self, signal: i32) -> io::Result<usize> {
        let mut reader = Reader::new()?;
        let mut reached = 0;
        for stat in self.scan(&mut reader)?.live {
            reached += usize::from(deliver(&mut reader, &stat, signal)?);
        }
        Ok(reached)
    }

    /// Kills all selected processes, and returns how many are left at the deadline: stuck in the
    /// kernel, or not ours to kill. One round is made even if the deadline has passed.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or there are no descriptors left.
    pub fn kill(&self, deadline: Mono) -> io::Result<usize> {
        let mut reader = Reader::new()?;
        let mut over_before = None;
        loop {
            let found = self.freeze(&mut reader, deadline)?;
            if found.live.is_empty() && over_before == Some(found.over) {
                return Ok(0);
            }
            over_before = Some(found.over);
            for stat in &found.live {
                deliver(&mut reader, stat, libc::SIGKILL)?;
            }
            if let Some(last) = found.live.last() {
                wait_for_end(&mut reader, last, deadline)?;
            }
            if clock::now().mono >= deadline {
                return Ok(self.scan(&mut reader)?.live.len());
            }
        }
    }

    /// Stops the selected processes until a scan finds no new one; returns the last scan.
    fn freeze(&self, reader: &mut Reader, deadline: Mono) -> io::Result<SweepScan> {
        let mut stopped = HashSet::new();
        loop {
            let found = self.scan(reader)?;
            let mut calm = true;
            for stat in &found.live {
                if stopped.insert((stat.pid, stat.start_ticks)) {
                    calm = false;
                    deliver(reader, stat, libc::SIGSTOP)?;
                }
            }
            if calm || clock::now().mono >= deadline {
                return Ok(found);
            }
        }
    }

    fn scan(&self, reader: &mut Reader) -> io::Result<SweepScan> {
        let tree = Tree::new(reader.all()?);
        let mut known = HashSet::new();
        let mut selected = Vec::new();
        for root in self.roots {
            let more = tree.descendants(*root).into_iter();
            selected.extend(more.filter(|pid| known.insert(*pid)));
        }
        if let Some(mark) = self.mark {
            for stat in tree.iter() {
                if known.contains(&stat.pid) || stat.is_over() || (self.spare)(stat) {
                    continue;
                }
                if reader.has_mark(stat.pid, mark) {
                    let more = std::iter::once(stat.pid).chain(tree.descendants(stat.pid));
                    selected.extend(more.filter(|pid| known.insert(*pid)));
                }
            }
        }
        let me = std::process::id();
        let mut found = SweepScan::default();
        for pid in selected {
            let Some(stat) = tree.get(pid) else {
                continue;
            };
            if stat.is_over() {
                found.over += 1;
            } else if pid != me && !self.roots.contains(&pid) && !(self.spare)(stat) {
                found.live.push(*stat);
            }
        }
        Ok(found)
    }
}

/// Sends a signal to a process that a scan has found, if it is still the same one. False
/// if it is gone, or may not be signalled.
fn deliver(reader: &mut Reader, stat: &Stat, signal: i32) -> io::Result<bool> {
    let Some(pidfd) = hold(stat.pid)? else {
        return Ok(false);
    };
    let there = reader.stat(stat.pid)?;
    if there.is_none_or(|there| there.start_ticks != stat.start_ticks) {
        return Ok(false);
    }
    match send(pidfd.as_fd(), signal) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        other => other,
    }
}

/// Waits until a process has ended, for a little while.
fn wait_for_end(reader: &mut Reader, stat: &Stat, deadline: Mono) -> io::Result<()> {
    let Some(pidfd) = hold(stat.pid)? else {
        return Ok(());
    };
    let there = reader.stat(stat.pid)?;
    if there.is_none_or(|there| there.start_ticks != stat.start_ticks) {
        return Ok(());
    }
    let span = deadline.since(clock::now().mono).min(PAUSE);
    let timeout = clock::timeout(span);
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_would_mean_all_processes_are_refused() {
        for pid in [0, 1, u32::MAX] {
            let error = group(pid, 0).expect_err("not a group");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn();
        let child = child.as_mut().expect("sleep is there");
        let mut reader = Reader::new().expect("/proc is there");
        let mut stat = reader.stat(child.id()).expect("readable").expect("alive");
        stat.start_ticks += 1;
        assert!(!deliver(&mut reader, &stat, libc::SIGKILL).expect("no error"));
        stat.start_ticks -= 1;
        assert!(deliver(&mut reader, &stat, libc::SIGKILL).expect("no error"));
        let status = child.wait().expect("our child");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}
