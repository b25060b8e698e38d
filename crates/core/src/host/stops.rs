//! Stops on request or by timeout, the kill after the grace, and checks.

use baton_model::coordinator::{Launch, Reply};
use baton_model::outcome::{ExitStatus, KillCause};
use baton_model::task::RunKey;
use baton_model::time::Mono;

use super::kernel::{RUNNER_WARNING, SIGKILL, SIGTERM};
use super::runs::{Probe, ProcessRun, Role, Root, Timer};
use super::sweeps::kill_marked;
use super::{Host, Turn};

impl Host {
    /// Asks a run to stop.
    pub(super) fn stop(
        &mut self,
        turn: &mut Turn<'_>,
        key: RunKey,
        signal: i32,
        kill_at: Mono,
        cause: KillCause,
    ) {
        if self.end_waiting(turn, key, cause) {
            return;
        }
        let Some(run) = self.table.runs.get_mut(&key) else {
            return turn.reply(Reply::Unknown { run: key });
        };
        if let Some(ended) = run.ended.clone() {
            return turn.reply(Reply::Ended(ended));
        }
        if run.is_lost() {
            return turn.reply(Reply::Unknown { run: key });
        }
        // Repeated after a recovery of the runner: the signal was sent already, and many programs
        // treat a second one as a demand to exit at once.
        let first = run.kill_at.is_none();
        let is_skipped = seeded!(self.settings.bugs, GraceSkipped);
        let kill_at = if is_skipped { turn.now() } else { kill_at };
        let kill_at = run.kill_at.map_or(kill_at, |at| at.min(kill_at));
        run.kill_at = Some(kill_at);
        let cause = *run.stop_cause.get_or_insert(cause);
        let by_runner = run.is_runner && signal != SIGKILL;
        if !by_runner && !run.is_root_gone() {
            run.signalled.get_or_insert(cause);
        }
        self.table.schedule(kill_at, Timer::Kill(key));
        match (first, by_runner) {
            (true, true) => self.signal_runner(turn, key, signal),
            (true, false) => self.signal_run(turn, key, signal),
            (false, _) => {}
        }
    }

    /// Signals a run that goes on. The runner of a task gets a signal of its own, which it passes on.
    pub(super) fn pass_signal(&mut self, turn: &mut Turn<'_>, key: RunKey, signal: i32) {
        let live = self.table.runs.get(&key).filter(|run| run.is_live());
        match live.map(|run| run.is_runner) {
            Some(true) => self.signal_runner(turn, key, RUNNER_WARNING),
            Some(false) => self.signal_run(turn, key, signal),
            None => {}
        }
    }

    /// Stops a run that has reached its timeout.
    pub(super) fn reach_timeout(&mut self, turn: &mut Turn<'_>, key: RunKey, now: Mono) {
        let live = self.table.runs.get(&key).filter(|run| run.is_live());
        if let Some((_, grace)) = live.and_then(|run| run.timeout) {
            self.stop(turn, key, SIGTERM, now + grace, KillCause::TimedOut);
        }
    }

    /// Kills a run whose grace is over.
    pub(super) fn kill_after_grace(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        let Some(run) = self.table.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return;
        };
        match run.root {
            Root::Child | Root::Held | Root::Ending(_) => {
                run.signalled = run.signalled.or(run.stop_cause);
                self.kill_members(turn, key);
            }
            // Exits of what is killed here come in the next turn, and what it leaves with them.
            Root::Gone(_) if run.awaits_descendants => {
                run.killed_at.get_or_insert(turn.now());
                self.kill_members(turn, key);
                self.table.schedule(turn.now(), Timer::Poll(key));
            }
            Root::Gone(status) => {
                self.kill_members(turn, key);
                self.end_run(turn, key, status);
            }
            Root::Lost => {}
        }
    }

    /// Kills the remaining processes of a run that counts as over.
    pub(super) fn kill_run(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        if self.end_waiting(turn, key, KillCause::Requested) {
            return;
        }
        if self.table.runs.get(&key).is_some_and(ProcessRun::is_live) {
            // It was alive after all; its end is reported, late.
            return self.kill_members(turn, key);
        }
        kill_marked(turn, &|run| run == key);
    }

    /// Kills strays, and answers.
    pub(super) fn kill_strays_for_agent(&mut self, turn: &mut Turn<'_>) {
        let left = self.kill_strays(turn);
        turn.reply(Reply::StraysKilled { left });
    }

    /// Runs a command as a check.
    pub(super) fn start_probe(
        &mut self,
        turn: &mut Turn<'_>,
        id: u64,
        run: RunKey,
        launch: Launch,
        late_at: Mono,
    ) {
        let watched = self.table.runs.get(&run).is_some_and(ProcessRun::is_live);
        let pid = if watched {
            turn.kernel.start_probe(launch)
        } else {
            None
        };
        let Some(pid) = pid else {
            return turn.reply(Reply::Probed { id, well: false });
        };
        self.table.children.insert(pid, Role::Probe(id));
        self.table.probes.insert(id, Probe { pid, late: false });
        self.table.schedule(late_at, Timer::Probe(id));
    }

    /// Kills a check that has taken too long. It counts as failed, whatever its exit status.
    pub(super) fn kill_late_probe(&mut self, turn: &mut Turn<'_>, id: u64) {
        if let Some(probe) = self.table.probes.get_mut(&id) {
            probe.late = true;
            // Its pid cannot be reused: it is not reaped yet.
            turn.kernel.signal_group(probe.pid, SIGKILL);
        }
    }

    pub(super) fn probe_exited(&mut self, turn: &mut Turn<'_>, id: u64, status: ExitStatus) {
        if let Some(probe) = self.table.probes.remove(&id) {
            let well = !probe.late && status == ExitStatus::Code(0);
            turn.reply(Reply::Probed { id, well });
        }
    }
}
