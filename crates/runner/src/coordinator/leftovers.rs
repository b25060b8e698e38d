//! What an attempt leaves behind, and the wait for the end of all of it.
//!
//! The first process of an attempt with a home has ended; is anything left? We are the
//! subreaper, so whatever lives on has become our child, or is below one that has. A child
//! that was not launched by us is such an orphan. The kernel lists our children with one
//! call ([`Children`]), so where there are no orphans that call is all it costs.
//!
//! Whose an orphan is, is asked once, when it is first seen: its mark says so, or its
//! session or group. One that has shed all three belongs to the attempt that could have
//! begotten it, if there is only one left that could; among several that run it is nobody's
//! until the last of them ends. (Only a control group of its own would tell.) One that is
//! just being taken down has lost its mark with its memory: it could be anybody's, and is
//! waited for by all who end meanwhile.
//!
//! What is left gets SIGTERM and [`LEFTOVER_GRACE`], then SIGKILL; the attempt is over, with
//! the status of its first process, when all is gone. What cannot be killed is reported,
//! and does not hold its place for ever.
//!
//! On a kernel without that list everything is swept for the attempt's mark, session and
//! group at each end. That is slow and as sure as a sweep is.

use std::collections::BTreeMap;
use std::io;

use baton_model::time::Millis;

use super::kill::KILL_MAX;
use super::runs::{ProcessRun, Role, RootProcess, Timer, parse_mark};
use super::serve::Coordinator;
use super::termination::POLL_EVERY;
use crate::sys::children::Children;
use crate::sys::identity::ExitStatus;
use crate::sys::proc::{Reader, Stat};
use crate::sys::{clock, reap};
use crate::wire::RunKey;

/// What is left of an attempt that has ended by itself has so long to end, too.
pub(super) const LEFTOVER_GRACE: Millis = Millis::from_secs(2);
/// How often the list of children is read again because somebody in it has just ended.
const SCANS_MAX: usize = 100;

/// A child that we did not launch.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    /// Whose it is, if that is known.
    run: Option<RunKey>,
    start_ticks: u64,
    /// It was not to be known whose it is, because it was just being taken down.
    dying: bool,
}

impl Orphan {
    /// Attempts have process numbers of their own, whichever run of them it is.
    fn is_of(&self, key: RunKey) -> bool {
        self.run.is_some_and(|run| run.process == key.process)
    }
}

/// All children that we did not launch. Their numbers are theirs until we reap them.
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

    /// One has been reaped.
    pub(super) fn reaped(&mut self, pid: u32) {
        self.seen.remove(&pid);
    }

    /// True if this process is one, and of this run.
    pub(super) fn is_of(&self, pid: u32, key: RunKey) -> bool {
        self.seen.get(&pid).is_some_and(|it| it.is_of(key))
    }
}

impl Coordinator {
    /// The first process of these has just been reaped, and how it ended.
    pub(super) fn handle_root_exits(&mut self, gone: Vec<(RunKey, ExitStatus)>) {
        for (key, status) in &gone {
            if let Some(run) = self.table.runs.get_mut(key) {
                run.root = RootProcess::Gone(*status);
                self.table.lingering.insert(*key);
            }
        }
        self.scan_orphans();
        for (key, _) in gone {
            self.settle(key);
        }
    }

    /// Looks again whether those are over of which something was left.
    pub(super) fn settle_lingering(&mut self) {
        self.scan_orphans();
        let lingering: Vec<RunKey> = self.table.lingering.iter().copied().collect();
        for key in lingering {
            self.settle(key);
        }
    }

    /// Ends a run whose first process is gone, if nothing is left of it. To be called when
    /// the orphans have just been looked for.
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
                eprintln!("coordinator: {key} has left what cannot be killed");
                return self.end_run(key, status);
            }
            // It was killed, and more has come of it.
            Some(at) if now >= at => self.table.schedule(now + POLL_EVERY, Timer::Kill(key)),
            Some(_) => {}
        }
        self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
    }

    /// What a run that is gone has left empty is for others, if it is certain that nobody holds
    /// it open: an orphan of which is not known whose it is may be this one's.
    fn recycle_paths(&mut self, key: RunKey) {
        let certain = self.orphans.list.is_some() && self.orphans.seen.is_empty();
        let run = self.table.runs.get_mut(&key).filter(|_| certain);
        // Those who wait for its place come first: see `fill_free_capacity`.
        self.recyclable.extend(run.and_then(|run| run.paths.take()));
    }

    /// The grace of what is left is over.
    pub(super) fn kill_leftovers(&mut self, key: RunKey) -> io::Result<()> {
        self.kill_members(key);
        self.reap_children()?;
        // Below what was killed there may be what nobody has seen yet.
        self.settle_lingering();
        Ok(())
    }

    fn has_leftovers(&mut self, key: RunKey) -> bool {
        let Some(run) = self.table.runs.get(&key) else {
            return false;
        };
        if let Some(group) = &run.group {
            // One that is gone has nobody in it.
            return group.populated().unwrap_or(false);
        }
        if self.orphans.list.is_none() {
            let pid = run.pid().unwrap_or_default();
            // What cannot be looked for may be there.
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

    /// The one run that can have begotten an orphan, if there is only one: it was there
    /// before it, and is not over. What has no home is never over in this sense.
    fn only_possible_parent(&self, orphan: &Orphan) -> Option<RunKey> {
        let mut able = self.table.runs.iter().filter(|(_, run)| {
            let older = |identity: u64| identity <= orphan.start_ticks;
            let begun = run.started.map(|(_, identity)| identity.start_ticks);
            begun.is_some_and(older) && (run.is_live() || !run.awaits_descendants)
        });
        let first = able.next().map(|(key, _)| *key);
        first.filter(|_| able.next().is_none())
    }

    /// Takes notice of every child that we did not launch.
    fn scan_orphans(&mut self) {
        for _ in 0..SCANS_MAX {
            match self.scan_orphans_once() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    eprintln!("coordinator: cannot list its children: {error}");
                    // From now on they are sweep_at_end for.
                    self.orphans.list = None;
                    return;
                }
            }
        }
    }

    /// True if somebody new had just ended, whose children are ours since then and may be
    /// missing in the list.
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
                    // Asked after its mark was looked for, not before.
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
        found.set(parse_mark(mark, text));
        found.get().is_some()
    });
    found.get()
}
