//! Surviving descendants of an attempt, and the wait for their end.
//!
//! When the first process of an attempt has ended, is anything left? We are the subreaper, so each
//! survivor has become our child, or is below one that has. A child that we did not launch is such
//! an orphan. The kernel lists our children with one call ([`Children`]), so without orphans the
//! cost is that one call.
//!
//! The run of an orphan is determined once, when it is first seen: by its mark, its session or its
//! group. An orphan without mark, session or group is attributed to the only running attempt that
//! can be its ancestor; with several, to none until the last of them ends. (Only a control group
//! per attempt would tell.) An orphan that is just exiting has lost its mark with its memory: it
//! could belong to any attempt, and every attempt that ends meanwhile waits for it.
//!
//! Survivors get SIGTERM and [`LEFTOVER_GRACE`], then SIGKILL. The attempt is over, with the status
//! of its first process, when all are gone. Processes that cannot be killed are reported, and do
//! not hold their capacity for ever.
//!
//! On a kernel without that list a sweep for the attempt's mark, session and group is made at each
//! end. That is slow, and as reliable as a sweep is.

use std::collections::BTreeMap;
use std::io;

use baton_model::time::Millis;

use super::kill::KILL_MAX;
use super::mark::marked_run;
use super::runs::{ProcessRun, Role, RootProcess, Timer};
use super::serve::Coordinator;
use super::termination::POLL_EVERY;
use crate::stderr::log_line;
use crate::sys::children::Children;
use crate::sys::identity::ExitStatus;
use crate::sys::proc::{Reader, Stat};
use crate::sys::{clock, reap};
use crate::wire::RunKey;

/// The grace for survivors of an attempt that has ended by itself.
pub(super) const LEFTOVER_GRACE: Millis = Millis::from_secs(2);
/// The maximum number of scans because a child in the list has just ended.
const SCANS_MAX: usize = 100;

/// A child that we did not launch.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    /// Its run, if known.
    run: Option<RunKey>,
    start_ticks: u64,
    /// It was exiting, so its run could not be determined.
    dying: bool,
}

impl Orphan {
    /// Attempts have process numbers of their own, whichever run this is.
    fn is_of(&self, key: RunKey) -> bool {
        self.run.is_some_and(|run| run.process == key.process)
    }
}

/// All children that we did not launch. Their pids cannot be reused until we reap them.
#[derive(Debug)]
pub(super) struct Orphans {
    list: Option<Children>,
    seen: BTreeMap<u32, Orphan>,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self {
            list: Children::open(),
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn reaped(&mut self, pid: u32) {
        self.seen.remove(&pid);
    }

    /// The run of which this process is an orphan.
    pub(super) fn owner(&self, pid: u32) -> Option<RunKey> {
        self.seen.get(&pid)?.run
    }

    /// True if this process is an orphan of this run.
    pub(super) fn is_of(&self, pid: u32, key: RunKey) -> bool {
        self.seen.get(&pid).is_some_and(|it| it.is_of(key))
    }
}

impl Coordinator {
    /// Handles runs whose first process has just been reaped, with its status.
    pub(super) fn handle_root_exits(&mut self, gone: Vec<(RunKey, ExitStatus)>) {
        for (key, status) in &gone {
            if let Some(run) = self.table.runs.get_mut(key) {
                run.root = RootProcess::Gone(*status);
                let has_ended_its_task = run.is_runner && run.signalled.is_none();
                self.table.lingering.insert(*key);
                if has_ended_its_task {
                    // What is left has escaped, and gets no more of the time to stop the task.
                    self.table.cancel_kill(*key);
                }
            }
        }
        self.scan_orphans();
        for (key, _) in gone {
            self.settle(key);
        }
    }

    /// Checks again whether lingering attempts are over.
    pub(super) fn settle_lingering(&mut self) {
        self.scan_orphans();
        let lingering: Vec<RunKey> = self.table.lingering.iter().copied().collect();
        for key in lingering {
            self.settle(key);
        }
    }

    /// Ends a run whose first process is gone, if nothing is left of it. Must be called right after
    /// a scan for orphans.
    fn settle(&mut self, key: RunKey) {
        let Some(run) = self.table.runs.get(&key).filter(|run| run.is_live()) else {
            return;
        };
        let RootProcess::Gone(status) = run.root else {
            return;
        };
        let now = clock::now().mono;
        let kill_at = run.kill_at;
        if !self.has_leftovers(key) {
            self.recycle_paths(key);
            return self.end_run(key, status);
        }
        match kill_at {
            None => {
                let kill_at = now + LEFTOVER_GRACE;
                if let Some(run) = self.table.runs.get_mut(&key) {
                    run.kill_at = Some(kill_at);
                }
                self.table.schedule(kill_at, Timer::Kill(key));
                self.signal_run(key, libc::SIGTERM);
            }
            Some(at) if now >= at + KILL_MAX => {
                log_line!("coordinator: {key} has left processes that cannot be killed");
                return self.end_run(key, status);
            }
            // It was killed, but new processes have appeared.
            Some(at) if now >= at => self.table.schedule(now + POLL_EVERY, Timer::Kill(key)),
            Some(_) => {}
        }
        self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
    }

    /// Offers the paths of a run for reuse, if it is certain that no process holds them open: an
    /// orphan without a known run may belong to this one.
    pub(super) fn recycle_paths(&mut self, key: RunKey) {
        let certain = self.orphans.list.is_some() && self.orphans.seen.is_empty();
        let run = self.table.runs.get_mut(&key).filter(|_| certain);
        // Waiting launches come first: see `fill_free_capacity`.
        self.recyclable.extend(run.and_then(|run| run.paths.take()));
    }

    /// Kills the survivors of an attempt whose grace is over.
    pub(super) fn kill_leftovers(&mut self, key: RunKey) -> io::Result<()> {
        self.kill_members(key);
        self.reap_children()?;
        // The killed processes may have had children that no scan has seen yet.
        self.settle_lingering();
        Ok(())
    }

    fn has_leftovers(&mut self, key: RunKey) -> bool {
        let Some(run) = self.table.runs.get(&key) else {
            return false;
        };
        if let Some(group) = &run.group {
            // A group that is gone is empty.
            return group.populated().unwrap_or(false);
        }
        if self.orphans.list.is_none() {
            let pid = run.pid().unwrap_or_default();
            // If the scan fails, assume that something is left.
            return self.members(key, pid).map_or(true, |left| !left.is_empty());
        }
        let unknown: Vec<(u32, Orphan)> = self
            .orphans
            .seen
            .iter()
            .filter(|(_, orphan)| orphan.run.is_none())
            .map(|(pid, orphan)| (*pid, *orphan))
            .collect();
        for (pid, orphan) in unknown {
            if self.only_possible_parent(&orphan) == Some(key) {
                let run = Some(key);
                self.orphans.seen.insert(pid, Orphan { run, ..orphan });
            }
        }
        let begun = self.table.runs.get(&key).and_then(|run| run.started);
        let begun = begun.map_or(0, |(_, identity)| identity.start_ticks);
        let may_be_of = |orphan: &Orphan| orphan.dying && orphan.start_ticks >= begun;
        let mut orphans = self.orphans.seen.values();
        orphans.any(|orphan| orphan.is_of(key) || may_be_of(orphan))
    }

    /// The only run that can be the ancestor of an orphan, if there is only one: it started before
    /// the orphan, and is not over. A run that is not an attempt is never over in this sense.
    fn only_possible_parent(&self, orphan: &Orphan) -> Option<RunKey> {
        let mut able = self.table.runs.iter().filter(|(_, run)| {
            let older = |identity: u64| identity <= orphan.start_ticks;
            let begun = run.started.map(|(_, identity)| identity.start_ticks);
            begun.is_some_and(older) && (run.is_live() || !run.awaits_descendants)
        });
        let first = able.next().map(|(key, _)| *key);
        first.filter(|_| able.next().is_none())
    }

    /// Registers every child that we did not launch.
    fn scan_orphans(&mut self) {
        for _ in 0..SCANS_MAX {
            match self.scan_orphans_once() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    log_line!("coordinator: cannot list its children: {error}");
                    // From now on a sweep finds them.
                    self.orphans.list = None;
                    return;
                }
            }
        }
    }

    /// Scans once. True if a new child had just ended: its children are ours since then, and may be
    /// missing from the list.
    fn scan_orphans_once(&mut self) -> io::Result<bool> {
        let Some(list) = &mut self.orphans.list else {
            return Ok(false);
        };
        let known = |pid: &u32| {
            self.table.children.contains_key(pid) || self.orphans.seen.contains_key(pid)
        };
        let new: Vec<u32> = list.read()?.filter(|pid| !known(pid)).collect();
        let mut again = false;
        for pid in new {
            match self.launcher.reader.stat(pid)? {
                Some(stat) if !stat.is_over() => {
                    let run = self.owner_of(&stat);
                    // Read after its mark was looked for, not before.
                    let dying = run.is_none()
                        && (self.launcher.reader.stat(pid)?)
                            .is_none_or(|now| now.is_exiting || now.is_over());
                    let start_ticks = stat.start_ticks;
                    let orphan = Orphan {
                        run,
                        start_ticks,
                        dying,
                    };
                    self.orphans.seen.insert(pid, orphan);
                }
                _ => {
                    reap::reap(pid)?;
                    again = true;
                }
            }
        }
        Ok(again)
    }

    fn owner_of(&mut self, stat: &Stat) -> Option<RunKey> {
        read_run_mark(&mut self.launcher.reader, &self.config.mark, stat.pid).or_else(|| {
            let near = |pid: u32| pid == stat.session || pid == stat.pgrp;
            let root = [stat.session, stat.pgrp].into_iter().find_map(|pid| {
                match self.table.children.get(&pid) {
                    Some(Role::Run(key)) => Some(*key),
                    _ => None,
                }
            });
            root.or_else(|| {
                let mut gone = self.table.lingering.iter();
                let pid_of = |key| self.table.runs.get(key).and_then(ProcessRun::pid);
                gone.find(|key| pid_of(key).is_some_and(near)).copied()
            })
        })
    }
}

fn read_run_mark(reader: &mut Reader, mark: &str, pid: u32) -> Option<RunKey> {
    let found = std::cell::Cell::new(None);
    reader.has_mark(pid, &|text| {
        found.set(marked_run(mark, text));
        found.get().is_some()
    });
    found.get()
}
