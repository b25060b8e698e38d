//! Surviving descendants of an attempt, and the wait for their end.
//!
//! When the first process of an attempt has ended, is anything left? The coordinator is the
//! subreaper, so each survivor has become its child, or is below one that has. A child that it did
//! not launch is such an orphan. The kernel lists children with one call, so without orphans the cost
//! is that one call.
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
//! What an earlier run of the same attempt has left may be a child of the agent or of the reaper, and
//! on a kernel without that list nothing is known of children: then a sweep for the attempt's mark,
//! session and group is made at its end. That is slow, and as reliable as a sweep is.

use std::collections::BTreeMap;

use baton_model::outcome::ExitStatus;
use baton_model::task::{RunKey, RunNo};
use baton_model::time::{Millis, Mono};

use super::ends::POLL_EVERY;
use super::kernel::{Listing, SIGTERM, StrayChild};
use super::kill_all::{KILL_MAX, ROTATORS_MAX};
use super::runs::{ProcessRun, Role, Root, Timer};
use super::{Host, Turn};

/// The grace for survivors of an attempt that has ended by itself.
pub(super) const LEFTOVER_GRACE: Millis = Millis::from_secs(2);
/// The maximum number of scans because a child in the list has just ended.
const SCANS_MAX: usize = 100;

/// A child that we did not launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Orphans {
    /// Children cannot be listed.
    is_unlisted: bool,
    seen: BTreeMap<u32, Orphan>,
}

impl Orphans {
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

impl Host {
    /// Settles runs whose first process has just been reaped, with its status.
    pub(super) fn settle_gone(&mut self, turn: &mut Turn<'_>, gone: Vec<(RunKey, ExitStatus)>) {
        for (key, status) in &gone {
            if let Some(run) = self.table.runs.get_mut(key) {
                run.root = Root::Gone(*status);
                let has_ended_its_task = run.is_runner && run.signalled.is_none();
                self.table.lingering.insert(*key);
                if has_ended_its_task {
                    // What is left has escaped, and gets no more of the time to stop the task.
                    self.table.cancel_kill(*key);
                }
            }
        }
        self.scan_orphans(turn);
        for (key, _) in gone {
            self.settle(turn, key);
        }
    }

    /// Checks again whether lingering attempts are over.
    pub(super) fn settle_lingering(&mut self, turn: &mut Turn<'_>) {
        self.scan_orphans(turn);
        let lingering: Vec<RunKey> = self.table.lingering.iter().copied().collect();
        for key in lingering {
            self.settle(turn, key);
        }
    }

    /// Ends a run whose first process is gone, if nothing is left of it. Must be called right after
    /// a scan for orphans.
    fn settle(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let Some(run) = self.table.runs.get(&key).filter(|run| run.is_live()) else {
            return;
        };
        let Root::Gone(status) = run.root else {
            return;
        };
        let now = turn.now();
        let (kill_at, killed_at) = (run.kill_at, run.killed_at);
        if !self.has_leftovers(turn, key) {
            if self.awaits_rotators(key, now) {
                return self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
            }
            self.recycle_paths(key);
            return self.end_run(turn, key, status);
        }
        match (kill_at, killed_at) {
            (None, _) => {
                let kill_at = now + LEFTOVER_GRACE;
                if let Some(run) = self.table.runs.get_mut(&key) {
                    run.kill_at = Some(kill_at);
                }
                self.table.schedule(kill_at, Timer::Kill(key));
                self.signal_run(turn, key, SIGTERM);
            }
            (Some(_), Some(at)) if now >= at + KILL_MAX => {
                turn.kernel.log(format_args!(
                    "{key} has left processes that cannot be killed"
                ));
                return self.end_run(turn, key, status);
            }
            // It was killed, but new processes have appeared; or the host has slept meanwhile.
            (Some(at), _) if now >= at => self.table.schedule(now + POLL_EVERY, Timer::Kill(key)),
            (Some(_), _) => {}
        }
        self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
    }

    /// True while the last output of an attempt is being written: who learns of its end reads it.
    fn awaits_rotators(&mut self, key: RunKey, now: Mono) -> bool {
        let Some(run) = self.table.runs.get_mut(&key).filter(|it| it.rotators > 0) else {
            return false;
        };
        now < *run.rotators_until.get_or_insert(now + ROTATORS_MAX)
    }

    /// Offers the paths of a run for reuse, if it is certain that no process holds them open: an
    /// orphan without a known run may belong to this one.
    pub(super) fn recycle_paths(&mut self, key: RunKey) {
        let certain = !self.orphans.is_unlisted && self.orphans.seen.is_empty();
        let run = self.table.runs.get_mut(&key).filter(|_| certain);
        // Waiting launches come first: see `fill`.
        self.recyclable.extend(run.and_then(|run| run.paths.take()));
    }

    fn has_leftovers(&mut self, turn: &mut Turn<'_>, key: RunKey) -> bool {
        let Some(run) = self.table.runs.get(&key) else {
            return false;
        };
        if let Some(populated) = turn.kernel.is_cgroup_populated(key) {
            return populated;
        }
        // What the runner before has left may be a child of another process: it was, if its
        // coordinator had died before it did.
        if self.orphans.is_unlisted || key.run > RunNo(0) {
            let pid = run.pid().unwrap_or_default();
            // If the scan fails, assume that something is left.
            return self.has_members(turn, key, pid) != Some(false);
        }
        let begun = run.started.map_or(0, |(_, identity)| identity.start_ticks);
        self.attribute_orphans(key);
        let may_be_of = |orphan: &Orphan| orphan.dying && orphan.start_ticks >= begun;
        let mut orphans = self.orphans.seen.values();
        orphans.any(|orphan| orphan.is_of(key) || may_be_of(orphan))
    }

    /// Attributes orphans to this run that can be of no other.
    fn attribute_orphans(&mut self, key: RunKey) {
        let unknown = self.orphans.seen.iter();
        let unknown = unknown.filter(|(_, orphan)| orphan.run.is_none());
        let unknown: Vec<(u32, Orphan)> = unknown.map(|(pid, it)| (*pid, *it)).collect();
        for (pid, orphan) in unknown {
            if self.only_possible_parent(&orphan) == Some(key) {
                let run = Some(key);
                self.orphans.seen.insert(pid, Orphan { run, ..orphan });
            }
        }
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
    fn scan_orphans(&mut self, turn: &mut Turn<'_>) {
        if self.orphans.is_unlisted {
            return;
        }
        let mut found = Vec::new();
        for _ in 0..SCANS_MAX {
            let is_known = |pid: u32| {
                self.table.children.contains_key(&pid) || self.orphans.seen.contains_key(&pid)
            };
            let listing = turn.kernel.list_children(&is_known, &mut found);
            for child in found.drain(..) {
                let run = self.owner_of(&child);
                let orphan = Orphan {
                    run,
                    start_ticks: child.start_ticks,
                    dying: run.is_none() && child.is_exiting,
                };
                self.orphans.seen.insert(child.pid, orphan);
            }
            match listing {
                Listing::Complete => return,
                Listing::Changing => {}
                // From now on a sweep finds them.
                Listing::Unavailable => return self.orphans.is_unlisted = true,
            }
        }
    }

    fn owner_of(&self, child: &StrayChild) -> Option<RunKey> {
        if seeded!(self.settings.bugs, OrphanMisattributed) {
            return self.table.lingering.first().copied();
        }
        child.mark.or_else(|| {
            let near = |pid: u32| pid == child.session || pid == child.pgrp;
            let root = [child.session, child.pgrp].into_iter().find_map(|pid| {
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
