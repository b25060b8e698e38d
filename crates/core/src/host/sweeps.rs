//! Membership of processes in runs.
//!
//! A process is found in three ways, each of which finds what another misses: it descends from the
//! coordinator (which is the subreaper, so this finds daemonised processes), or from the runner or
//! the reaper (which inherit the children of a dead coordinator); it carries the task's mark in its
//! environment (which finds processes without a parent of ours); it is in the task's control group,
//! where there is one. A process that was just being launched when its coordinator died is found by
//! none of them; the driver of the next coordinator kills it first.

use std::collections::BTreeSet;

use baton_model::task::{ProcessNo, RunKey};
use baton_model::time::Millis;

use super::kernel::{Candidate, SIGKILL, Sweep};
use super::kill_all::KILL_MAX;
use super::runs::{ProcessRun, Role, Root};
use super::{Host, Turn};

/// The time limit of a kill of one attempt of a worker, which blocks others meanwhile: it is polled
/// again.
const KILL_ATTEMPT_MAX: Millis = Millis(200);

impl Host {
    /// Signals every process of one run.
    pub(super) fn signal_run(&mut self, turn: &mut Turn<'_>, key: RunKey, signal: i32) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        // In one call for the group, where its number cannot be reused; one by one for the others.
        let whole_group = run.root == Root::Child;
        if whole_group {
            turn.kernel.signal_group(pid, signal);
        }
        // It may have neither mark nor parent of ours, but it is held.
        let is_held = run.is_held();
        if is_held {
            turn.kernel.signal_held(key, signal);
        }
        let others = |it: &Candidate<'_>| {
            let is_reached = (whole_group && it.pgrp == pid) || (is_held && it.pid == pid);
            !is_reached
        };
        self.with_run(key, pid, &others, |sweep| turn.kernel.signal(sweep, signal));
    }

    /// Signals the runner of a task, which is alone in its process group.
    pub(super) fn signal_runner(&mut self, turn: &mut Turn<'_>, key: RunKey, signal: i32) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        match run.root {
            Root::Child => turn
                .kernel
                .signal_group(run.pid().unwrap_or_default(), signal),
            Root::Held | Root::Ending(_) => turn.kernel.signal_held(key, signal),
            Root::Gone(_) | Root::Lost => {}
        }
    }

    /// Kills every process of one run.
    pub(super) fn kill_members(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        if run.root == Root::Child {
            turn.kernel.signal_group(pid, SIGKILL);
        }
        turn.kernel.kill_cgroup(key);
        if run.is_held() {
            turn.kernel.signal_held(key, SIGKILL);
        }
        let span = if run.awaits_descendants {
            KILL_ATTEMPT_MAX
        } else {
            KILL_MAX
        };
        self.with_run(key, pid, &|_| true, |sweep| turn.kernel.kill(sweep, span));
    }

    /// Kills the rest of the process group of a run whose first process is gone. The group number
    /// may be reused by now, so only processes known to belong to the run are killed.
    pub(super) fn kill_rest_of_group(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let Some(pid) = self.table.runs.get(&key).and_then(ProcessRun::pid) else {
            return;
        };
        let in_group = |it: &Candidate<'_>| it.pgrp == pid;
        self.with_run(key, pid, &in_group, |sweep| {
            turn.kernel.kill(sweep, KILL_MAX)
        });
    }

    /// True if a process of one run lives; `None` if that cannot be found out.
    pub(super) fn has_members(&self, turn: &mut Turn<'_>, key: RunKey, pid: u32) -> Option<bool> {
        self.with_run(key, pid, &|_| true, |sweep| turn.kernel.any(sweep))
    }

    /// Kills processes that an earlier coordinator may have launched and did not record.
    /// Returns how many are left.
    pub(super) fn kill_strays(&mut self, turn: &mut Turn<'_>) -> u32 {
        self.strays_killed = true;
        let known: BTreeSet<ProcessNo> = self.table.live().map(|(key, _)| key.process).collect();
        kill_marked(turn, &|run| !known.contains(&run.process))
    }

    /// Kills what earlier runs of the same process have left behind, and processes that an earlier
    /// coordinator may have launched as this run.
    pub(super) fn kill_predecessors(&self, turn: &mut Turn<'_>, key: RunKey) {
        kill_marked(turn, &|run| {
            run.process == key.process && run.run <= key.run
        });
    }

    /// Applies `act` to the processes of one run, of those that `filter` leaves: processes that
    /// carry its mark, and descendants of ours in its session or group.
    fn with_run<T>(
        &self,
        key: RunKey,
        pid: u32,
        filter: &dyn Fn(&Candidate<'_>) -> bool,
        act: impl FnOnce(&Sweep<'_>) -> T,
    ) -> T {
        // An attempt of a worker has a process number of its own, whichever run this is.
        let is_of = |run: RunKey| {
            if self.settings.guarded {
                run.process == key.process
            } else {
                run == key
            }
        };
        // Once its first process is reaped, the pid may be that of another run.
        let is_anothers = match self.table.children.get(&pid) {
            Some(Role::Run(other)) => *other != key,
            Some(Role::Probe(_) | Role::Rotator(_)) => true,
            None => false,
        };
        let is_member = |it: &Candidate<'_>| {
            let near = !is_anothers && (it.session == pid || it.pgrp == pid);
            let near = near && !has_other_mark(it, &is_of);
            near || self.orphans.is_of(it.pid, key) || (it.has_mark)(&is_of)
        };
        act(&Sweep {
            descendants: true,
            mark: Some(&is_of),
            spares_rotators: false,
            filter: &|it| filter(it) && is_member(it),
        })
    }

    /// Applies `act` to the processes of attempts, in one walk over all of them.
    pub(super) fn with_attempts<T>(
        &self,
        attempts: &BTreeSet<ProcessNo>,
        act: impl FnOnce(&Sweep<'_>) -> T,
    ) -> T {
        let is_of = |run: RunKey| attempts.contains(&run.process);
        // Once a first process is reaped, its pid may be that of another run.
        let is_anothers = |pid: &u32| match self.table.children.get(pid) {
            Some(Role::Run(other)) => !is_of(*other),
            Some(Role::Probe(_) | Role::Rotator(_)) => true,
            None => false,
        };
        let runs = self.table.runs_of(attempts);
        let roots = runs.filter_map(|(_, run)| run.pid());
        let roots: BTreeSet<u32> = roots.filter(|pid| !is_anothers(pid)).collect();
        let is_member = |it: &Candidate<'_>| {
            let near = roots.contains(&it.session) || roots.contains(&it.pgrp);
            let near = near && !has_other_mark(it, &is_of);
            near || self.orphans.owner(it.pid).is_some_and(is_of) || (it.has_mark)(&is_of)
        };
        act(&Sweep {
            descendants: true,
            mark: Some(&is_of),
            spares_rotators: false,
            filter: &is_member,
        })
    }

    /// Applies `act` to every process of the task. Rotators do not belong to it: they end when
    /// their pipe closes.
    pub(super) fn with_everything<T>(&self, act: impl FnOnce(&Sweep<'_>) -> T) -> T {
        let all: &dyn Fn(RunKey) -> bool = &|_| true;
        act(&Sweep {
            descendants: true,
            // Descendants are found without the mark, and reading every environment on the machine
            // is expensive.
            mark: Some(all).filter(|_| self.settings.successor),
            spares_rotators: true,
            filter: &|it| !self.is_rotator(it.pid),
        })
    }
}

/// True if a process carries the mark of a run that is not among these. The number of a first
/// process that was reaped may be that of a session or a group below another run by now.
fn has_other_mark(it: &Candidate<'_>, is_of: &dyn Fn(RunKey) -> bool) -> bool {
    (it.has_mark)(&|run| !is_of(run))
}

/// Kills processes by their mark, wherever they are; returns how many are left.
pub(super) fn kill_marked(turn: &mut Turn<'_>, wanted: &dyn Fn(RunKey) -> bool) -> u32 {
    let sweep = Sweep {
        descendants: false,
        mark: Some(wanted),
        spares_rotators: false,
        filter: &|_| true,
    };
    turn.kernel.kill(&sweep, KILL_MAX)
}
