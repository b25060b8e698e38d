//! Membership of processes in runs, and killing them.
//!
//! A process is found in three ways, each of which finds what another misses: it descends from the
//! coordinator (which is the subreaper, so this finds daemonised processes), or from the runner or
//! the reaper (which inherit the children of a dead coordinator); it carries the task's mark in its
//! environment (which finds processes without a parent of ours); it is in the task's cgroup, where
//! there is one. A process that was just being launched when its coordinator died is found by none
//! of them; the next coordinator kills it first.

use std::collections::BTreeSet;
use std::io;

use baton_model::outcome::KillCause;
use baton_model::task::{Identity, ProcessNo};
use baton_model::time::{Millis, Mono};

use super::mark::marked_run;
use super::runs::{ProcessRun, Role, RootProcess};
use super::serve::Coordinator;
use super::{COMMAND, Config};
use crate::helpers;
use crate::stderr::log_line;
use crate::sys::cgroup::Cgroup;
use crate::sys::identity::{self, Handle};
use crate::sys::kill::{self, Sweep};
use crate::sys::proc::{self, Stat};
use crate::sys::{clock, reap};
use crate::wire::{Reply, RunKey};

/// Delay before killing again what could not be killed when the lease ended.
const KILL_RETRY: Millis = Millis::from_secs(1);

/// The time limit of a kill; survivors are then reported.
pub(super) const KILL_MAX: Millis = Millis::from_secs(5);
/// The same for one attempt of a worker, which blocks others meanwhile: it is polled again.
const KILL_ATTEMPT_MAX: Millis = Millis(200);
/// The time that rotators get to write what is in their pipes.
const ROTATORS_MAX: Millis = Millis::from_secs(1);
/// The maximum number of ancestors followed: a tree that changes during the walk may seem endless.
const ANCESTORS_MAX: usize = 1_000;
/// The polling interval while everything is being killed.
const POLL_EVERY: Millis = Millis(10);

/// An order to kill everything, in progress. No other request is handled meanwhile.
#[derive(Debug)]
pub(super) struct KillAll {
    id: u64,
    stage: KillStage,
    deadline: Mono,
    next_poll_at: Mono,
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillStage {
    /// Everything was asked to stop.
    Terminating,
    /// Everything is gone but the rotators, which end by themselves.
    Rotators,
}

impl KillAll {
    pub(super) fn next_poll_at(&self) -> Mono {
        self.next_poll_at
    }

    /// Drops the answer: the runner that requested it is gone.
    pub(super) fn drop_requester(&mut self) {
        self.id = 0;
    }
}

impl Coordinator {
    /// Starts killing every process of the task.
    pub(super) fn kill_everything(&mut self, now: Mono, grace: Millis, id: u64) {
        let killing = KillAll {
            id,
            stage: KillStage::Terminating,
            deadline: now + grace,
            next_poll_at: now,
            left: 0,
        };
        self.killing = Some(killing);
        self.refuse_waiting();
        if grace > Millis(0) && !self.has_no_processes() {
            self.signal_everything(libc::SIGTERM, KillCause::Requested);
        }
        self.continue_killing(now);
    }

    /// Continues killing everything, until it is done.
    pub(super) fn continue_killing(&mut self, now: Mono) {
        let Some(mut killing) = self.killing.take() else {
            return;
        };
        killing.next_poll_at = now + POLL_EVERY;
        if killing.stage == KillStage::Terminating {
            let gone = self.has_no_processes() || self.is_everything_gone();
            if !gone && now < killing.deadline {
                self.killing = Some(killing);
                return;
            }
            if !gone {
                killing.left = self.kill_all(KillCause::Requested);
            }
            killing.stage = KillStage::Rotators;
            killing.deadline = now + ROTATORS_MAX;
        }
        // Reap what was just killed before reporting it.
        if let Err(error) = self.reap_children() {
            log_line!("coordinator: {error}");
        }
        self.end_lingering();
        let rotators = self.rotators();
        if !rotators.is_empty() && now < killing.deadline {
            self.killing = Some(killing);
            return;
        }
        for pid in rotators {
            self.log_failure(kill::group(pid, libc::SIGKILL));
        }
        if killing.id != 0 {
            let left = u32::try_from(killing.left).unwrap_or(u32::MAX);
            self.reply(Reply::EverythingKilled {
                id: killing.id,
                left,
            });
        }
    }

    /// Sends SIGTERM to attempts whose deadline has passed; those that wait are not started.
    pub(super) fn terminate_for_guard(&mut self, attempts: &BTreeSet<ProcessNo>) {
        let waiting: Vec<RunKey> = self.queue.known().map(|known| known.run).collect();
        for run in waiting {
            if attempts.contains(&run.process) {
                self.withdraw(run);
            }
        }
        self.signal_for_guard(attempts, libc::SIGTERM);
        let result = self.with_attempts(attempts, |sweep| sweep.signal(libc::SIGTERM));
        self.log_failure(result);
    }

    /// Kills them, and again what could not be killed.
    pub(super) fn kill_for_guard(&mut self, attempts: BTreeSet<ProcessNo>) {
        self.signal_for_guard(&attempts, libc::SIGKILL);
        let groups = self.table.runs_of(&attempts);
        let groups = groups.filter_map(|(_, run)| run.group.as_ref());
        for killed in groups.map(Cgroup::kill).collect::<Vec<_>>() {
            self.log_failure(killed);
        }
        let deadline = clock::now().mono + KILL_MAX;
        let left = match self.with_attempts(&attempts, |sweep| sweep.kill(deadline)) {
            Ok(left) => left,
            Err(error) => {
                log_line!("coordinator: cannot scan for remaining processes: {error}");
                1
            }
        };
        if left > 0 {
            log_line!("coordinator: {left} processes could not be killed; retrying");
            let mut again = self
                .guard_retry
                .take()
                .map(|(_, again)| again)
                .unwrap_or_default();
            again.extend(attempts);
            self.guard_retry = Some((clock::now().mono + KILL_RETRY, again));
        }
    }

    /// Signals the first processes of attempts with their groups. That needs no descriptor, so it
    /// works when there are none left.
    fn signal_for_guard(&mut self, attempts: &BTreeSet<ProcessNo>, signal: i32) {
        let runs: Vec<RunKey> = self.table.runs_of(attempts).map(|(key, _)| key).collect();
        for key in runs {
            let Some(run) = self.table.runs.get_mut(&key) else {
                continue;
            };
            run.signalled.get_or_insert(KillCause::LeaseLapsed);
            let pid = run.pid().unwrap_or_default();
            let group = matches!(run.root, RootProcess::Child).then(|| kill::group(pid, signal));
            let held = run.handle().map(|handle| handle.signal(signal));
            self.log_failure(group.transpose());
            self.log_failure(held.transpose());
        }
    }

    /// Signals every process of one run.
    pub(super) fn signal_run(&mut self, key: RunKey, signal: i32) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        // In one call for the group, where its number cannot be reused; one by one for the others.
        let whole_group = matches!(run.root, RootProcess::Child);
        if whole_group {
            self.log_failure(kill::group(pid, signal));
        }
        // It may have neither mark nor parent of ours, but we hold its pidfd.
        let held = run.handle().map(|handle| handle.signal(signal));
        let is_held = held.is_some();
        self.log_failure(held.transpose());
        let done = |stat: &Stat| (whole_group && stat.pgrp == pid) || (is_held && stat.pid == pid);
        let result = self.with_run_processes(key, pid, &done, |sweep| sweep.signal(signal));
        self.log_failure(result);
    }

    /// Signals the runner of a task, which is alone in its process group.
    pub(super) fn signal_runner(&mut self, key: RunKey, signal: i32) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        match &run.root {
            RootProcess::Child => {
                self.log_failure(kill::group(run.pid().unwrap_or_default(), signal));
            }
            RootProcess::Adopted(handle) | RootProcess::Ending(handle, _) => {
                self.log_failure(handle.signal(signal));
            }
            RootProcess::Gone(_) => {}
        }
    }

    /// Kills every process of one run.
    pub(super) fn kill_members(&mut self, key: RunKey) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        if matches!(run.root, RootProcess::Child) {
            self.log_failure(kill::group(pid, libc::SIGKILL));
        }
        self.log_failure(run.group.as_ref().map(Cgroup::kill).transpose());
        self.log_failure(
            run.handle()
                .map(|handle| handle.signal(libc::SIGKILL))
                .transpose(),
        );
        let span = if run.awaits_descendants {
            KILL_ATTEMPT_MAX
        } else {
            KILL_MAX
        };
        let deadline = clock::now().mono + span;
        let result = self.with_run_processes(key, pid, &|_| false, |sweep| sweep.kill(deadline));
        self.log_failure(result);
    }

    /// Kills the rest of the process group of a run whose first process is gone. The group number
    /// may be reused by now, so only processes known to belong to the run are killed.
    pub(super) fn kill_rest_of_group(&mut self, key: RunKey) {
        let Some(pid) = self.table.runs.get(&key).and_then(ProcessRun::pid) else {
            return;
        };
        let deadline = clock::now().mono + KILL_MAX;
        let elsewhere = |stat: &Stat| stat.pgrp != pid;
        let result = self.with_run_processes(key, pid, &elsewhere, |sweep| sweep.kill(deadline));
        self.log_failure(result);
    }

    /// The live processes of one run.
    pub(super) fn members(&self, key: RunKey, pid: u32) -> io::Result<Vec<Stat>> {
        self.with_run_processes(key, pid, &|_| false, |sweep| sweep.find())
    }

    /// Kills the remaining processes of a run that counts as over.
    pub(super) fn kill_run(&mut self, key: RunKey) {
        if self.end_waiting(key, KillCause::Requested) {
            return;
        }
        if self.table.runs.get(&key).is_some_and(ProcessRun::is_live) {
            // It was alive after all; its end is reported, late.
            return self.kill_members(key);
        }
        self.kill_marked(|run| run == key);
    }

    /// Kills strays, and answers.
    pub(super) fn kill_strays_for_agent(&mut self) {
        let left = self.kill_strays();
        self.reply(Reply::StraysKilled { left });
    }

    /// Kills processes that an earlier coordinator may have launched and did not record.
    /// Returns how many are left.
    pub(super) fn kill_strays(&mut self) -> u32 {
        self.strays_killed = true;
        let known: BTreeSet<ProcessNo> = self.table.live().map(|(key, _)| key.process).collect();
        self.kill_marked(|run| !known.contains(&run.process))
    }

    /// Kills what earlier runs of the same process have left behind, and processes that an earlier
    /// coordinator may have launched as this run.
    pub(super) fn kill_predecessors(&mut self, key: RunKey) {
        self.kill_marked(|run| run.process == key.process && run.run <= key.run);
    }

    /// Kills children that an earlier coordinator was launching when it died. Such a child carries
    /// no mark yet, but still has the command line of its parent; and we are the only coordinator
    /// of this task. Must be called before anything is launched.
    pub(super) fn kill_unstarted_children(&self) -> io::Result<()> {
        let me = std::process::id();
        for stat in proc::all()? {
            if stat.pid == me || !self.is_unstarted_child(stat.pid) {
                continue;
            }
            let identity = Identity {
                boot: self.boot,
                pid: stat.pid,
                start_ticks: stat.start_ticks,
            };
            // If it has called exec meanwhile, it is found by its mark.
            if let Some(child) = Handle::open(&identity, self.boot)?
                && self.is_unstarted_child(stat.pid)
            {
                child.signal(libc::SIGKILL)?;
            }
        }
        Ok(())
    }

    fn is_unstarted_child(&self, pid: u32) -> bool {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.trim_end_matches('\0').split('\0').skip(1);
        if words.next() != Some(COMMAND) {
            return false;
        }
        let args: Vec<String> = words.map(str::to_owned).collect();
        Config::from_args(&args).is_some_and(|config| config.mark == self.config.mark)
    }

    /// Kills processes by their mark; returns how many are left, at least one if that is unknown.
    fn kill_marked(&mut self, wanted: impl Fn(RunKey) -> bool) -> u32 {
        let mark = &self.config.mark;
        let sweep = Sweep {
            roots: &[],
            spare: &|_| false,
            mark: Some(&|text| marked_run(mark, text).is_some_and(&wanted)),
        };
        match sweep.kill(clock::now().mono + KILL_MAX) {
            Ok(left) => u32::try_from(left).unwrap_or(u32::MAX),
            Err(error) => {
                log_line!("coordinator: {error}");
                1
            }
        }
    }

    /// Applies `act` to the processes of one run: those that carry its mark, and descendants of
    /// ours in its session or group.
    fn with_run_processes<T>(
        &self,
        key: RunKey,
        pid: u32,
        done: &dyn Fn(&Stat) -> bool,
        act: impl FnOnce(&Sweep<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mark = &self.config.mark;
        // An attempt of a worker has a process number of its own, whichever run this is.
        let is_of = |run: RunKey| {
            if self.config.guarded {
                run.process == key.process
            } else {
                run == key
            }
        };
        let is_marked = |text: &str| marked_run(mark, text).is_some_and(is_of);
        // Once its first process is reaped, the pid may be that of another run.
        let is_anothers = match self.table.children.get(&pid) {
            Some(Role::Run(other)) => *other != key,
            Some(Role::Probe(_) | Role::Rotator) => true,
            None => false,
        };
        let is_member = |stat: &Stat| {
            let near = !is_anothers && (stat.session == pid || stat.pgrp == pid);
            near || self.orphans.is_of(stat.pid, key) || proc::has_mark(stat.pid, &is_marked)
        };
        act(&Sweep {
            roots: &self.roots(),
            spare: &|stat| done(stat) || !is_member(stat) || self.is_spared(stat),
            mark: Some(&is_marked),
        })
    }

    /// Applies `act` to the processes of attempts, in one walk over all of them.
    fn with_attempts<T>(
        &self,
        attempts: &BTreeSet<ProcessNo>,
        act: impl FnOnce(&Sweep<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mark = &self.config.mark;
        let is_of = |run: RunKey| attempts.contains(&run.process);
        let is_marked = |text: &str| marked_run(mark, text).is_some_and(is_of);
        // Once a first process is reaped, its pid may be that of another run.
        let is_anothers = |pid: &u32| match self.table.children.get(pid) {
            Some(Role::Run(other)) => !is_of(*other),
            Some(Role::Probe(_) | Role::Rotator) => true,
            None => false,
        };
        let runs = self.table.runs_of(attempts);
        let roots = runs.filter_map(|(_, run)| run.pid());
        let roots: BTreeSet<u32> = roots.filter(|pid| !is_anothers(pid)).collect();
        let is_member = |stat: &Stat| {
            roots.contains(&stat.session)
                || roots.contains(&stat.pgrp)
                || self.orphans.owner(stat.pid).is_some_and(is_of)
                || proc::has_mark(stat.pid, &is_marked)
        };
        act(&Sweep {
            roots: &self.roots(),
            spare: &|stat| !is_member(stat) || self.is_spared(stat),
            mark: Some(&is_marked),
        })
    }

    /// True if no process of the task is left. The cgroup may know of more than a walk finds: of
    /// processes with neither a parent of ours nor the mark.
    fn is_everything_gone(&self) -> bool {
        let held = self.table.held();
        let mut held = held.filter(|held| identity::is_alive(held.identity(), self.boot));
        let found = self.find_everything();
        found.is_ok_and(|left| left.is_empty())
            && held.next().is_none()
            && !self.launcher.is_cgroup_populated()
    }

    fn find_everything(&self) -> io::Result<Vec<Stat>> {
        self.with_all_processes(|sweep| sweep.find())
    }

    fn signal_everything(&mut self, signal: i32, cause: KillCause) {
        self.mark_signalled(cause);
        for held in self.table.held() {
            self.log_failure(held.signal(signal));
        }
        let result = self.with_all_processes(|sweep| sweep.signal(signal));
        self.log_failure(result);
    }

    fn kill_all(&mut self, cause: KillCause) -> usize {
        self.mark_signalled(cause);
        self.launcher.kill_cgroup();
        // Needs no descriptor, so it works when there are none left.
        let children = self.table.live().map(|(_, run)| run);
        let children = children.filter(|run| matches!(run.root, RootProcess::Child));
        for pid in children.filter_map(ProcessRun::pid) {
            self.log_failure(kill::group(pid, libc::SIGKILL));
        }
        for held in self.table.held() {
            self.log_failure(held.signal(libc::SIGKILL));
        }
        let deadline = clock::now().mono + KILL_MAX;
        match self.with_all_processes(|sweep| sweep.kill(deadline)) {
            Ok(left) => left,
            Err(error) => {
                log_line!("coordinator: cannot scan for remaining processes: {error}");
                1
            }
        }
    }

    /// Applies `act` to every process of the task.
    fn with_all_processes<T>(
        &self,
        act: impl FnOnce(&Sweep<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let me = std::process::id();
        let mark = &self.config.mark;
        let is_marked = |text: &str| marked_run(mark, text).is_some();
        // Descendants are found without the mark, and reading every environment on the machine is
        // expensive.
        let marked: Option<&dyn Fn(&str) -> bool> = Some(&is_marked);
        act(&Sweep {
            roots: &self.roots(),
            spare: &|stat| stat.pid == me || self.is_a_rotator(stat.pid) || self.is_spared(stat),
            mark: marked.filter(|_| self.config.successor),
        })
    }

    /// The processes whose descendants belong to the task: ourselves, those that we hold, and the
    /// runner or the reaper, which inherited the children of an earlier coordinator.
    fn roots(&self) -> Vec<u32> {
        let heirs = [self.client().map(|(pid, _)| pid), self.reaper()];
        let heirs = heirs
            .into_iter()
            .flatten()
            .filter(|_| self.config.successor);
        let held = self.table.held().map(|handle| handle.identity().pid);
        heirs.chain(held).chain([std::process::id()]).collect()
    }

    /// True for the reaper itself, and for descendants of children that the runner had before it
    /// began the task.
    fn is_spared(&self, stat: &Stat) -> bool {
        if self.is_reaper(stat) {
            return true;
        }
        let Some((client, spared)) = self.client().filter(|(_, spared)| !spared.is_empty()) else {
            return false;
        };
        let mut next = Some(*stat);
        for _ in 0..ANCESTORS_MAX {
            let Some(stat) = next.filter(|stat| stat.pid != client && stat.pid > 1) else {
                return false;
            };
            let is_it = |spared: &Identity| {
                spared.pid == stat.pid && spared.start_ticks == stat.start_ticks
            };
            if spared.iter().any(is_it) {
                return true;
            }
            next = proc::stat(stat.ppid).ok().flatten();
        }
        false
    }

    /// True for a rotator. Rotators do not belong to the task: they end when their pipe closes.
    /// Those of an earlier coordinator are known by their command line.
    fn is_a_rotator(&self, pid: u32) -> bool {
        self.is_rotator(pid) || (self.config.successor && helpers::is_rotator(pid))
    }

    fn mark_signalled(&mut self, cause: KillCause) {
        let runs = self.table.runs.values_mut();
        for run in runs.filter(|run| run.is_live()) {
            run.signalled.get_or_insert(cause);
        }
    }

    /// Ends the runs whose first process is gone and of which nothing lingers any more.
    fn end_lingering(&mut self) {
        let live: Vec<RunKey> = self.table.live().map(|(key, _)| key).collect();
        for key in live {
            self.poll_run(key);
        }
    }

    /// True if no process can be left: we have no child, and there was no earlier coordinator.
    fn has_no_processes(&self) -> bool {
        !self.config.successor && !reap::has_children().unwrap_or(true)
    }

    fn rotators(&self) -> Vec<u32> {
        let children = self.table.children.keys().copied();
        children.filter(|pid| self.is_rotator(*pid)).collect()
    }

    /// Logs a signal that could not be sent. That is not the end of the task: the kill polls again
    /// and reports what is left.
    pub(super) fn log_failure<T>(&self, result: io::Result<T>) {
        if let Err(error) = result {
            log_line!("coordinator: {error}");
        }
    }
}
