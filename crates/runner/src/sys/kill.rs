//! Killing process groups and whole trees.
//!
//! A tree is killed by freezing it first: everything found is stopped, until a scan of
//! `/proc` finds nothing that was not stopped before, and only then is it killed. What is
//! stopped does not fork, so a fork bomb comes to a rest. Then it is scanned again until
//! nothing is left, since a scan may miss a child whose parent was quick to die.
//!
//! Nobody is reaped here. A tree is known by its parents, so that orphans must have come
//! to the root: it is a subreaper, or they carry a mark. A process that forks and exits
//! faster than `/proc` can be read is caught by chance alone; only a
//! [`Cgroup`](super::cgroup::Cgroup) is sure of those.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;

use baton_model::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags, poll};

use super::clock;
use super::identity::{hold, send};
use super::proc::{Reader, Stat, Tree};
use super::raw;

/// How long the end of a killed process is waited for before looking again.
const PAUSE: Millis = Millis(10);

/// Sends a signal to a process group; false if there is none.
///
/// Only while its leader has not been reaped: from then on the number may be anybody's.
///
/// # Errors
/// If nobody in it may be signalled, there is no such signal, or the number is not that
/// of a group: 0 and 1 would mean ourselves and everybody.
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

/// Which processes are meant. The caller itself never is.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// Everything that descends from these processes; not they themselves.
    pub roots: &'a [u32],
    /// Those that are left alone. What descends from them is not.
    pub spare: &'a dyn Fn(&Stat) -> bool,
    /// Also everything that carries such a mark, anywhere, with what descends from it.
    /// Where an environment may not be read there is no mark.
    pub mark: Option<&'a dyn Fn(&str) -> bool>,
}

#[derive(Default)]
struct SweepScan {
    /// Those that are meant and live.
    live: Vec<Stat>,
    /// Those that are meant and wait for their parent to reap them. As long as their
    /// number changes something goes on, even if nothing of it was seen alive.
    over: usize,
}

impl Sweep<'_> {
    /// Who is there now, zombies apart; parents before their children.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn find(&self) -> io::Result<Vec<Stat>> {
        Ok(self.scan(&mut Reader::new()?)?.live)
    }

    /// Sends a signal once to everybody who is there now. Gives how many were reached;
    /// those that may not be signalled are not among them.
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

    /// Kills everybody, and gives how many are left at the deadline: stuck in the kernel,
    /// or not ours to kill. One round is made even if the deadline has passed.
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

    /// Stops everybody until nobody new is found; gives what was found last.
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
        let mut meant = Vec::new();
        for root in self.roots {
            let more = tree.descendants(*root).into_iter();
            meant.extend(more.filter(|pid| known.insert(*pid)));
        }
        if let Some(mark) = self.mark {
            for stat in tree.iter() {
                if known.contains(&stat.pid) || stat.is_over() || (self.spare)(stat) {
                    continue;
                }
                if reader.has_mark(stat.pid, mark) {
                    let more = std::iter::once(stat.pid).chain(tree.descendants(stat.pid));
                    meant.extend(more.filter(|pid| known.insert(*pid)));
                }
            }
        }
        let me = std::process::id();
        let mut found = SweepScan::default();
        for pid in meant {
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
    fn groups_that_would_mean_everybody_are_refused() {
        for pid in [0, 1, u32::MAX] {
            let error = group(pid, 0).expect_err("not a group");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_stranger_with_the_same_pid_is_not_signalled() {
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
