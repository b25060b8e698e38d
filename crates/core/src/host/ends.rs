//! Exits of processes, and the ends of runs.
//!
//! A run that was asked to stop is over when all its processes are gone, not when its first process
//! is: a shell that dies at once must not cost its children their grace. The same holds for every
//! attempt of a worker, however it ends: see `orphans`.

use baton_model::coordinator::{CoordinatorRecord, Reply, RunEnd, Usage};
use baton_model::outcome::{ExitStatus, KillCause, Outcome};
use baton_model::task::{Moment, RunKey};
use baton_model::time::{Millis, Mono};

use super::kernel::{HeldExit, SIGKILL};
use super::runs::{Role, Root, Timer};
use super::{Awaited, Host, Turn};

/// Polling interval for what sends no notification.
pub(super) const POLL_EVERY: Millis = Millis(20);
/// The time that the parent of an adopted process may take to reap it.
const EXIT_NOTICE_MAX: Millis = Millis::from_secs(10);

impl Host {
    /// Takes the exit of a child. The group of a run is killed while its first process is not yet
    /// reaped, so that its pid cannot be reused.
    pub(super) fn exited(&mut self, turn: &mut Turn<'_>, pid: u32, status: ExitStatus) {
        match self.table.children.remove(&pid) {
            Some(Role::Run(run)) => self.root_exited(turn, run, pid, status),
            Some(Role::Probe(id)) => {
                turn.kernel.signal_group(pid, SIGKILL);
                turn.kernel.reap(pid);
                self.probe_exited(turn, id, status);
            }
            // It only had to be reaped: it ends by itself when its pipe closes.
            Some(Role::Rotator(run)) => {
                turn.kernel.reap(pid);
                self.rotator_exited(run);
            }
            // An orphan of some run.
            None => {
                turn.kernel.reap(pid);
                self.orphans.reaped(pid);
                self.orphans_ended = true;
            }
        }
    }

    fn rotator_exited(&mut self, key: RunKey) {
        if let Some(run) = self.table.runs.get_mut(&key) {
            run.rotators = run.rotators.saturating_sub(1);
            self.orphans_ended |= self.table.lingering.contains(&key);
        }
    }

    fn root_exited(&mut self, turn: &mut Turn<'_>, key: RunKey, pid: u32, status: ExitStatus) {
        if status == ExitStatus::Signal(SIGKILL) {
            self.attribute_kill(turn, key);
        }
        if self.never_started(key, status) {
            turn.kernel
                .log(format_args!("{key} was killed before its program began"));
            turn.record(CoordinatorRecord::Forgotten { run: key });
            self.awaited = Some(Awaited::Retraction(key, pid));
            return turn.reap(pid);
        }
        let run = self.table.runs.get(&key);
        if run.is_some_and(|run| run.awaits_descendants) {
            // Recorded before it is reaped: if we die in between, it becomes a zombie of our
            // parent, which then learns its exit status.
            if let Some(exited) = self.exit_record(turn, key, status) {
                turn.record(exited);
            }
            self.awaited = Some(Awaited::Exit(key, pid, status));
            return turn.reap(pid);
        }
        self.process_exited(turn, key, pid, status);
    }

    pub(super) fn reaped(&mut self, turn: &mut Turn<'_>, pid: u32, usage: Option<Usage>) {
        match self.awaited.take() {
            Some(Awaited::Exit(run, of, status)) => {
                assert_eq!(of, pid, "another child was reaped than that of {run}");
                self.note_usage(run, usage);
                if self.will_resume(run, status) {
                    self.end_run(turn, run, status);
                } else {
                    self.gone.push((run, status));
                }
            }
            Some(Awaited::Retraction(run, of)) => {
                assert_eq!(of, pid, "another child was reaped than that of {run}");
                self.take_back(turn, run);
            }
            Some(Awaited::Spawn(run, _)) => {
                panic!("a launch of {run} was answered by a reaped child")
            }
            None => panic!("pid {pid} was reaped, and that was not asked for"),
        }
    }

    /// Follows up on the exits of one turn.
    pub(super) fn settle_exits(&mut self, turn: &mut Turn<'_>) {
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            self.settle_gone(turn, gone);
        }
        if std::mem::take(&mut self.orphans_ended) && !self.table.lingering.is_empty() {
            self.settle_lingering(turn);
        }
    }

    /// A run that was killed while the host ran out of memory was killed for that. The runner of a
    /// task is excepted: it is resumed.
    fn attribute_kill(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let run = self.table.runs.get_mut(&key);
        if let Some(run) = run.filter(|run| run.signalled.is_none() && !run.resumes)
            && turn.kernel.has_run_out_of_memory()
        {
            run.signalled = Some(KillCause::OutOfMemory);
        }
    }

    /// True if the process of a run was killed before it called exec, and not by us. The runner of
    /// a task is excepted: it is resumed like one that dies later.
    fn never_started(&self, key: RunKey, status: ExitStatus) -> bool {
        let run = self.table.runs.get(&key);
        let foreign = run.is_some_and(|run| !run.resumes && run.signalled.is_none());
        matches!(status, ExitStatus::Unexecuted(_)) && foreign && self.killing.is_none()
    }

    /// Takes back the start of a run whose program has not begun: the run may be tried again, here
    /// or elsewhere, and has cost nothing. If we die before the zombie is reaped, it becomes one of
    /// our parent, which concludes the same.
    fn take_back(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        self.recycle_paths(key);
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let is_attempt = run.awaits_descendants;
        turn.kernel.remove_cgroup(key, false);
        self.release(key);
        self.devices.free(key.process);
        turn.reply(if is_attempt {
            Reply::Refused { run: key }
        } else {
            Reply::Unknown { run: key }
        });
    }

    /// True if another run continues with what this one leaves behind.
    fn will_resume(&self, key: RunKey, status: ExitStatus) -> bool {
        let died = status.signal().is_some();
        let run = self.table.runs.get(&key);
        let alone = run.is_some_and(|run| run.resumes && run.signalled.is_none());
        died && alone && self.killing.is_none()
    }

    /// The record of a run whose first process has ended with this status.
    fn exit_record(
        &self,
        turn: &Turn<'_>,
        key: RunKey,
        status: ExitStatus,
    ) -> Option<CoordinatorRecord> {
        let run = self.table.runs.get(&key)?;
        Some(CoordinatorRecord::Exited(RunEnd {
            run: key,
            at: turn.kernel.now().into(),
            outcome: run.outcome(status),
            started: run.started.map(|(at, _)| at),
            usage: None,
        }))
    }

    fn note_usage(&mut self, key: RunKey, used: Option<Usage>) {
        if let Some(run) = self.table.runs.get_mut(&key) {
            run.used = used;
        }
    }

    /// The first process of a run that is no attempt has ended.
    fn process_exited(&mut self, turn: &mut Turn<'_>, key: RunKey, pid: u32, status: ExitStatus) {
        let now = turn.now();
        let run = self.table.runs.get(&key);
        let in_grace = run.is_some_and(|run| run.kill_at.is_some_and(|at| now < at));
        if in_grace && self.has_members(turn, key, pid) == Some(true) {
            let used = turn.kernel.reap(pid);
            self.note_usage(key, used);
            return self.await_members(key, status, now + POLL_EVERY);
        }
        // We may lack the right to kill group members that run as another user; the run has ended
        // nevertheless.
        turn.kernel.signal_group(pid, SIGKILL);
        let used = turn.kernel.reap(pid);
        self.note_usage(key, used);
        self.end_run(turn, key, status);
    }

    /// Waits for other processes of a run whose first one is gone.
    fn await_members(&mut self, key: RunKey, status: ExitStatus, poll_at: Mono) {
        if let Some(run) = self.table.runs.get_mut(&key) {
            run.root = Root::Gone(status);
        }
        self.table.schedule(poll_at, Timer::Poll(key));
    }

    /// Checks whether a run is over whose first process is gone, or that was adopted.
    pub(super) fn poll_run(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let Some(run) = self.table.runs.get(&key).filter(|run| run.is_live()) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        match run.root {
            Root::Gone(_) if run.awaits_descendants => self.settle_lingering(turn),
            Root::Gone(status) => {
                if self.has_members(turn, key, pid) == Some(false) {
                    self.end_run(turn, key, status);
                } else {
                    let next = turn.now() + POLL_EVERY;
                    self.table.schedule(next, Timer::Poll(key));
                }
            }
            Root::Ending(_) => self.poll_held(turn, key),
            Root::Child | Root::Held | Root::Lost => {}
        }
    }

    /// Takes the exit status of a held process, once it can be known.
    pub(super) fn poll_held(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let now = turn.now();
        let Some(run) = self.table.runs.get_mut(&key) else {
            return;
        };
        let until = match run.root {
            Root::Held => now + EXIT_NOTICE_MAX,
            Root::Ending(until) => until,
            Root::Child | Root::Gone(_) | Root::Lost => return,
        };
        run.root = Root::Ending(until);
        match turn.kernel.held_exit(key) {
            HeldExit::Status(status) => self.held_exited(turn, key, status),
            HeldExit::Pending if now < until => {
                self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
            }
            HeldExit::Pending | HeldExit::Unknowable => {
                // The next runner of a task goes on with what this one leaves, if it was killed; that
                // is for the agent to find out.
                if !self.table.runs.get(&key).is_some_and(|run| run.resumes) {
                    self.kill_members(turn, key);
                }
                turn.kernel.release(key);
                self.lose(key);
                turn.reply(Reply::Unknown { run: key });
            }
        }
    }

    /// Ends a run whose status cannot be known. That of an attempt stays on record: the next agent
    /// must learn that it has run.
    fn lose(&mut self, key: RunKey) {
        if self.settings.guarded {
            let claim = self.table.lose(key);
            self.queue.release(&claim);
        } else {
            self.release(key);
        }
        self.unwatch_absent(key.process);
    }

    /// Ends an adopted run like that of a child: its group is killed unless it has grace left, and
    /// processes outside the group survive unless it is an attempt.
    fn held_exited(&mut self, turn: &mut Turn<'_>, key: RunKey, status: ExitStatus) {
        let now = turn.now();
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let (pid, kill_at, sweep_at_end) =
            (run.pid().unwrap_or_default(), run.kill_at, run.sweep_at_end);
        // A runner has ended its task before it exits.
        let in_grace = !run.is_runner && kill_at.is_some_and(|at| now < at);
        if self.will_resume(key, status) {
            return self.end_run(turn, key, status);
        }
        if in_grace && self.has_members(turn, key, pid) == Some(true) {
            turn.kernel.release(key);
            return self.await_members(key, status, now + POLL_EVERY);
        }
        if sweep_at_end {
            self.kill_members(turn, key);
        } else {
            self.kill_rest_of_group(turn, key);
        }
        self.end_run(turn, key, status);
    }

    /// Ends a run of which nothing is left that matters.
    pub(super) fn end_run(&mut self, turn: &mut Turn<'_>, key: RunKey, status: ExitStatus) {
        let Some(run) = self.table.runs.get(&key).filter(|run| run.is_live()) else {
            return;
        };
        let outcome = run.outcome(status);
        let is_killed = matches!(outcome, Outcome::Signaled(_));
        let outcome = if turn.kernel.remove_cgroup(key, is_killed) {
            Outcome::Killed(KillCause::OutOfMemory)
        } else {
            outcome
        };
        let ended = RunEnd {
            run: key,
            at: turn.kernel.now().into(),
            outcome,
            started: run.started.map(|(at, _)| at),
            usage: run.used,
        };
        if run.is_held() {
            turn.kernel.release(key);
        }
        self.finish(turn, ended);
    }

    /// Records and reports the end of a run.
    pub(super) fn finish(&mut self, turn: &mut Turn<'_>, ended: RunEnd) {
        let claim = self.table.end(ended.clone());
        let run = self.table.runs.get(&ended.run);
        let is_kept = !ended.outcome.is_success();
        if !(is_kept && seeded!(self.settings.bugs, ClaimKept)) {
            self.queue.release(&claim);
        }
        // What a runner leaves behind is watched, and keeps its devices, until the next one is over.
        let is_resumable = matches!(ended.outcome, Outcome::Signaled(_));
        let is_over = !(is_resumable && run.is_some_and(|run| run.resumes));
        if is_over {
            self.guard.unwatch(ended.run.process);
        }
        if is_over || seeded!(self.settings.bugs, DeviceFreedTwice) {
            self.devices.free(ended.run.process);
        }
        turn.record(CoordinatorRecord::Ended(ended.clone()));
        turn.reply(Reply::Ended(ended));
        self.idle_since = turn.now();
    }

    /// Records of attempts whose exit status is known, and which are not over.
    pub(super) fn known_exits(&self, at: Moment) -> impl Iterator<Item = CoordinatorRecord> + '_ {
        let awaited = match self.in_flight() {
            Some(Awaited::Exit(key, _, status)) => Some((*key, *status)),
            Some(Awaited::Spawn(..) | Awaited::Retraction(..)) | None => None,
        };
        let lingering = self.table.lingering.iter().filter_map(|key| {
            let root = self.table.runs.get(key)?.root;
            let Root::Gone(status) = root else {
                return None;
            };
            Some((*key, status))
        });
        let exits = lingering.chain(self.gone.iter().copied()).chain(awaited);
        exits.filter_map(move |(key, status)| {
            let run = self.table.runs.get(&key).filter(|run| run.is_live())?;
            Some(CoordinatorRecord::Exited(RunEnd {
                run: key,
                at,
                outcome: run.outcome(status),
                started: run.started.map(|(at, _)| at),
                usage: None,
            }))
        })
    }
}
