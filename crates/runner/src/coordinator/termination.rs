//! Ends of runs and checks: by themselves, on request, or by timeout.
//!
//! A run that was asked to stop is over when all its processes are gone, not when its first process
//! is: a shell that dies at once must not cost its children their grace. The same holds for every
//! attempt of a worker, however it ends: see `leftovers`.

use std::io;

use baton_model::outcome::{KillCause, Outcome};
use baton_model::time::{Millis, Mono};

use super::runs::{Probe, Role, RootProcess, Timer};
use super::serve::Coordinator;
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::cgroup::Cgroup;
use crate::sys::identity::{Exit, ExitStatus};
use crate::sys::{clock, kill, reap};
use crate::wire::{Launch, Reply, RunEnd, RunKey, Usage};

/// Polling interval for what sends no notification.
pub(super) const POLL_EVERY: Millis = Millis(20);
/// The time that the parent of an adopted process may take to reap it.
const EXIT_NOTICE_MAX: Millis = Millis::from_secs(10);

impl Coordinator {
    /// Reaps every child that has ended. The group of a run is killed while its first process is
    /// not yet reaped, so that its pid cannot be reused.
    pub(super) fn reap_children(&mut self) -> io::Result<()> {
        let (mut gone, mut orphans) = (Vec::new(), false);
        while let Some((pid, status)) = reap::next_exited()? {
            let role = self.table.children.remove(&pid);
            if let (Some(Role::Run(run)), ExitStatus::Signal(libc::SIGKILL)) = (&role, status) {
                self.attribute_kill(*run);
            }
            match role {
                Some(Role::Run(run)) if self.never_started(run, status) => {
                    self.take_back(run, pid)?;
                }
                Some(Role::Run(run))
                    if self
                        .table
                        .runs
                        .get(&run)
                        .is_some_and(|run| run.awaits_descendants) =>
                {
                    // Recorded before it is reaped: if we die in between, it becomes a zombie of
                    // our parent, which then learns its exit status.
                    self.record_exit(run, status);
                    self.reap_root(run, pid)?;
                    if self.will_resume(run, status) {
                        self.end_run(run, status);
                    } else {
                        gone.push((run, status));
                    }
                }
                Some(Role::Run(run)) => self.handle_root_exit(run, pid, status)?,
                Some(Role::Probe(id)) => {
                    self.log_failure(kill::group(pid, libc::SIGKILL));
                    reap::reap(pid)?;
                    self.handle_probe_exit(id, status);
                }
                // It only had to be reaped: it ends by itself when its pipe closes.
                Some(Role::Rotator) => reap::reap(pid)?,
                // An orphan of some run.
                None => {
                    reap::reap(pid)?;
                    self.orphans.reaped(pid);
                    orphans = true;
                }
            }
        }
        if !gone.is_empty() {
            self.handle_root_exits(gone);
        }
        if orphans && !self.table.lingering.is_empty() {
            self.settle_lingering();
        }
        Ok(())
    }

    /// A run that was killed while the host ran out of memory was killed for that. The runner of a
    /// task is excepted: it is resumed.
    fn attribute_kill(&mut self, key: RunKey) {
        let run = self.table.runs.get_mut(&key);
        if let Some(run) = run.filter(|run| run.signalled.is_none() && !run.resumes)
            && self.oom_kills.has_grown()
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
    fn take_back(&mut self, key: RunKey, pid: u32) -> io::Result<()> {
        log_line!("coordinator: {key} was killed before its program began");
        self.record(CoordinatorRecord::Forgotten { run: key });
        self.write_records();
        reap::reap(pid)?;
        self.recycle_paths(key);
        let Some(run) = self.table.runs.get_mut(&key) else {
            return Ok(());
        };
        let is_attempt = run.awaits_descendants;
        if let Some(Err(error)) = run.group.take().map(Cgroup::remove) {
            log_line!("coordinator: cannot remove the control group of {key}: {error}");
        }
        let claim = self.table.remove(key);
        self.queue.release(&claim);
        self.reply(if is_attempt {
            Reply::Refused { run: key }
        } else {
            Reply::Unknown { run: key }
        });
        Ok(())
    }

    /// True if another run continues with what this one leaves behind.
    fn will_resume(&self, key: RunKey, status: ExitStatus) -> bool {
        let died = status.signal().is_some();
        let run = self.table.runs.get(&key);
        let alone = run.is_some_and(|run| run.resumes && run.signalled.is_none());
        died && alone && self.killing.is_none()
    }

    fn record_exit(&mut self, key: RunKey, status: ExitStatus) {
        if let Some(exited) = self.exit_record(key, status) {
            self.record(exited);
            self.write_records();
        }
    }

    /// The record of a run whose first process has ended with this status.
    pub(super) fn exit_record(&self, key: RunKey, status: ExitStatus) -> Option<CoordinatorRecord> {
        let run = self.table.runs.get(&key)?;
        Some(CoordinatorRecord::Exited(RunEnd {
            run: key,
            at: clock::now().into(),
            outcome: run.outcome(status),
            started: run.started.map(|(at, _)| at),
            usage: None,
        }))
    }

    fn reap_root(&mut self, key: RunKey, pid: u32) -> io::Result<()> {
        let used = reap::reap_counted(pid)?;
        if let Some(run) = self.table.runs.get_mut(&key) {
            run.used = used;
        }
        Ok(())
    }

    fn handle_root_exit(&mut self, key: RunKey, pid: u32, status: ExitStatus) -> io::Result<()> {
        let now = clock::now();
        let run = self.table.runs.get(&key);
        let in_grace = run.is_some_and(|run| run.kill_at.is_some_and(|at| now.mono < at));
        if in_grace && self.members(key, pid).is_ok_and(|left| !left.is_empty()) {
            self.reap_root(key, pid)?;
            if let Some(run) = self.table.runs.get_mut(&key) {
                run.root = RootProcess::Gone(status);
            }
            self.table.schedule(now.mono + POLL_EVERY, Timer::Poll(key));
            return Ok(());
        }
        // We may lack the right to kill group members that run as another user; the run has ended
        // nevertheless.
        self.log_failure(kill::group(pid, libc::SIGKILL));
        self.reap_root(key, pid)?;
        self.end_run(key, status);
        Ok(())
    }

    /// Asks a run to stop.
    pub(super) fn stop_run(&mut self, key: RunKey, signal: i32, kill_at: Mono, cause: KillCause) {
        if self.end_waiting(key, cause) {
            return;
        }
        let Some(run) = self.table.runs.get_mut(&key) else {
            return self.reply(Reply::Unknown { run: key });
        };
        if let Some(ended) = run.ended.clone() {
            return self.reply(Reply::Ended(ended));
        }
        // Repeated after a recovery of the runner: the signal was sent already, and many programs
        // treat a second one as a demand to exit at once.
        let first = run.kill_at.is_none();
        let kill_at = run.kill_at.map_or(kill_at, |at| at.min(kill_at));
        run.kill_at = Some(kill_at);
        let cause = *run.stop_cause.get_or_insert(cause);
        let by_runner = run.is_runner && signal != libc::SIGKILL;
        if !by_runner && !matches!(run.root, RootProcess::Gone(_)) {
            run.signalled.get_or_insert(cause);
        }
        self.table.schedule(kill_at, Timer::Kill(key));
        match (first, by_runner) {
            (true, true) => self.signal_runner(key, signal),
            (true, false) => self.signal_run(key, signal),
            (false, _) => {}
        }
    }

    /// Stops a run that has reached its timeout.
    pub(super) fn handle_timeout(&mut self, key: RunKey, now: Mono) {
        let live = self.table.runs.get(&key).filter(|run| run.is_live());
        if let Some((_, grace)) = live.and_then(|run| run.timeout) {
            self.stop_run(key, libc::SIGTERM, now + grace, KillCause::TimedOut);
        }
    }

    /// Kills a run whose grace is over.
    pub(super) fn kill_after_grace(&mut self, key: RunKey) {
        let Some(run) = self.table.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return;
        };
        if !matches!(run.root, RootProcess::Gone(_)) {
            run.signalled = run.signalled.or(run.stop_cause);
        }
        if run.awaits_descendants && matches!(run.root, RootProcess::Gone(_)) {
            let killed = self.kill_leftovers(key);
            return self.log_failure(killed);
        }
        let lingering = match run.root {
            RootProcess::Gone(status) => Some(status),
            RootProcess::Child | RootProcess::Adopted(_) | RootProcess::Ending(..) => None,
        };
        self.kill_members(key);
        if let Some(status) = lingering {
            self.end_run(key, status);
        }
    }

    /// Checks whether a run is over whose first process is gone, or that was adopted.
    pub(super) fn poll_run(&mut self, key: RunKey) {
        let Some(run) = self.table.runs.get(&key).filter(|run| run.is_live()) else {
            return;
        };
        let pid = run.pid().unwrap_or_default();
        match run.root {
            RootProcess::Gone(_) if run.awaits_descendants => self.settle_lingering(),
            RootProcess::Gone(status) => {
                let gone = self.members(key, pid).is_ok_and(|left| left.is_empty());
                if gone {
                    self.end_run(key, status);
                } else {
                    let next = clock::now().mono + POLL_EVERY;
                    self.table.schedule(next, Timer::Poll(key));
                }
            }
            RootProcess::Ending(..) => self.poll_adopted(key),
            RootProcess::Child | RootProcess::Adopted(_) => {}
        }
    }

    /// Takes the exit status of an adopted process, once it can be known.
    pub(super) fn poll_adopted(&mut self, key: RunKey) {
        let now = clock::now().mono;
        let Some(run) = self.table.runs.get_mut(&key) else {
            return;
        };
        let root = std::mem::replace(&mut run.root, RootProcess::Child);
        let (handle, until) = match root {
            RootProcess::Adopted(handle) => (handle, now + EXIT_NOTICE_MAX),
            RootProcess::Ending(handle, until) => (handle, until),
            root @ (RootProcess::Child | RootProcess::Gone(_)) => {
                run.root = root;
                return;
            }
        };
        let exit = handle.exit();
        run.root = RootProcess::Ending(handle, until);
        match exit {
            Ok(Exit::Status(status)) => self.handle_adopted_exit(key, status),
            Ok(Exit::Running) if now < until => {
                self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
            }
            Ok(Exit::Running | Exit::Unknowable) | Err(_) => {
                self.kill_members(key);
                self.table.remove(key);
                self.reply(Reply::Unknown { run: key });
            }
        }
    }

    /// Ends an adopted run like that of a child: its group is killed unless it has grace left, and
    /// processes outside the group survive unless it is an attempt.
    fn handle_adopted_exit(&mut self, key: RunKey, status: ExitStatus) {
        let now = clock::now().mono;
        let Some(run) = self.table.runs.get(&key) else {
            return;
        };
        let (pid, kill_at, sweep_at_end) =
            (run.pid().unwrap_or_default(), run.kill_at, run.sweep_at_end);
        if self.will_resume(key, status) {
            return self.end_run(key, status);
        }
        // A runner has ended its task before it exits.
        let in_grace = !run.is_runner && kill_at.is_some_and(|at| now < at);
        if in_grace && self.members(key, pid).is_ok_and(|left| !left.is_empty()) {
            if let Some(run) = self.table.runs.get_mut(&key) {
                run.root = RootProcess::Gone(status);
            }
            return self.table.schedule(now + POLL_EVERY, Timer::Poll(key));
        }
        if sweep_at_end {
            self.kill_members(key);
        } else {
            self.kill_rest_of_group(key);
        }
        self.end_run(key, status);
    }

    /// Ends a run of which nothing is left that matters.
    pub(super) fn end_run(&mut self, key: RunKey, status: ExitStatus) {
        let Some(run) = self.table.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return;
        };
        let mut outcome = run.outcome(status);
        if let Some(group) = run.group.take() {
            if matches!(outcome, Outcome::Signaled(_)) && group.ran_out_of_memory() {
                outcome = Outcome::Killed(KillCause::OutOfMemory);
            }
            if let Err(error) = group.remove() {
                log_line!("coordinator: cannot remove the control group of {key}: {error}");
            }
        }
        let ended = RunEnd {
            run: key,
            at: clock::now().into(),
            outcome,
            started: run.started.map(|(at, _)| at),
            usage: run.used.map(|used| Usage {
                cpu: Millis(used.cpu_us / 1_000),
                memory_peak: used.memory_peak_bytes,
            }),
        };
        self.finish_run(ended);
    }

    /// Runs a command as a check.
    pub(super) fn start_probe(&mut self, id: u64, run: RunKey, mut launch: Launch, late_at: Mono) {
        let watched = self.table.runs.get(&run).is_some_and(|run| run.is_live());
        let pid = if watched {
            self.launcher.start_probe(&mut launch).ok()
        } else {
            None
        };
        let Some(pid) = pid else {
            return self.reply(Reply::Probed { id, well: false });
        };
        self.table.children.insert(pid, Role::Probe(id));
        self.table.probes.insert(id, Probe { pid, late: false });
        self.table.schedule(late_at, Timer::Probe(id));
    }

    /// Kills a check that has taken too long. It counts as failed, whatever its exit status.
    pub(super) fn kill_late_probe(&mut self, id: u64) {
        if let Some(probe) = self.table.probes.get_mut(&id) {
            probe.late = true;
            // Its pid cannot be reused: it is not reaped yet.
            if let Err(error) = kill::group(probe.pid, libc::SIGKILL) {
                log_line!("coordinator: cannot kill a late check: {error}");
            }
        }
    }

    fn handle_probe_exit(&mut self, id: u64, status: ExitStatus) {
        if let Some(probe) = self.table.probes.remove(&id) {
            let well = !probe.late && status == ExitStatus::Code(0);
            self.reply(Reply::Probed { id, well });
        }
    }
}
