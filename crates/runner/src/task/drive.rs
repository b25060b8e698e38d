//! The event loop, and the commit of decisions.

use std::io;

use baton_core::host::kernel::RUNNER_WARNING;
use baton_core::plan::{Input, Plan};
use baton_model::state::AttemptState;
use baton_model::task::{PlanChange, PlanEvent};
use baton_model::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags};

use super::{Task, TaskError, Watcher, kill_input};
use crate::record::RunnerRecord;
use crate::sys::clock::{self, Alarm};
use crate::sys::signals::{self, Signals};
use crate::wire::{Request, RunKey};

/// The minimum interval between two samples of resource usage.
const SAMPLE_EVERY: Millis = Millis::from_secs(1);
/// A slow sample is taken less often: it may use one part in this many of the time.
const SAMPLE_SHARE: u64 = 50;

/// The log is replaced by a snapshot when it has this many records, and more than several for each
/// process: so the cost of a replay stays proportional to the size of the task.
const LOG_RECORDS_MAX: u64 = 8_192;
const LOG_RECORDS_PER_PROCESS: u64 = 16;

/// The time that ends of runs may be missing after everything was killed. The parent of an adopted
/// process may reap it late.
pub(super) const REPORT_MAX: Millis = Millis::from_secs(20);

impl Task {
    /// Drives the task to its end.
    ///
    /// SIGINT or SIGTERM requests the end; a second one kills, unless it only repeats the request.
    ///
    /// # Errors
    /// [`TaskError`] if it cannot be driven further. Its processes continue then, under their
    /// coordinator, and the task can be resumed.
    pub fn drive(&mut self, watcher: &mut dyn Watcher) -> Result<AttemptState, TaskError> {
        if let (true, Some(state)) = (self.finished, self.plan.outcome()) {
            watcher.finished(&self.plan);
            return Ok(state);
        }
        let mut signals =
            listen(self.warning.is_some()).map_err(TaskError::io("listen for signals"))?;
        let alarm = Alarm::new().map_err(TaskError::io("create a timer"))?;
        let mut kills = 0_u32;
        loop {
            if self.link.is_none() {
                self.attach(watcher)?;
            }
            self.commit(watcher)?;
            self.execute_orders(watcher)?;
            if let (true, Some(state)) = (self.finished, self.plan.outcome()) {
                watcher.finished(&self.plan);
                return Ok(state);
            }
            self.wait(&signals, &alarm, watcher.refresh_every())
                .map_err(TaskError::io("wait"))?;
            for signal in signals.take().map_err(TaskError::io("read signals"))? {
                if signal == libc::SIGCHLD {
                    self.exits.take(self.boot);
                    continue;
                }
                if signal == RUNNER_WARNING {
                    self.warn_processes();
                    continue;
                }
                // A terminal that closes may send SIGHUP twice; that is not a second request.
                if signal == libc::SIGHUP && kills > 0 {
                    continue;
                }
                kills += 1;
                let at_once = kills > 1 && self.second_signal_kills;
                watcher.note(if at_once {
                    "killing"
                } else {
                    "stopping; interrupt again to kill at once"
                });
                self.feed(kill_input(at_once));
            }
            self.receive_replies(watcher)?;
            for now in self.control.take_kill_requests() {
                self.feed(kill_input(now));
            }
            self.handle_timers(watcher);
        }
    }

    /// Passes a warning of its worker on to the processes that run.
    fn warn_processes(&mut self) {
        let Some(signal) = self.warning else {
            return;
        };
        for (run, _) in live_roots(&self.plan) {
            // The loop notices a coordinator that is gone; a warning is not repeated.
            let _ = self.send(&Request::Signal { run, signal });
        }
    }

    fn wait(&self, signals: &Signals, alarm: &Alarm, refresh: Option<Millis>) -> io::Result<()> {
        let now = clock::now().mono;
        let due = [
            self.plan.next_due(),
            self.checks.next_due(),
            refresh.map(|every| now + every),
            self.has_samples_due().then_some(self.sample_at),
            self.killed_at.map(|at| at + REPORT_MAX),
            self.launch_due(),
            self.pulse_due(),
        ];
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if let Some(link) = &self.link {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, link.wants_write());
            fds.push(PollFd::new(link, flags));
        }
        fds.extend(self.control.fds());
        alarm.poll(&mut fds, due.into_iter().flatten().min())
    }

    /// Receives replies of the coordinator. If it is gone, the next turn connects again, or starts
    /// another.
    fn receive_replies(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let alive = match link.receive() {
            Ok((replies, alive)) => {
                for reply in replies {
                    self.handle_reply(reply, watcher);
                }
                alive
            }
            Err(error) => {
                watcher.note(&format!("invalid reply from the coordinator: {error}"));
                false
            }
        };
        if alive || self.finished {
            return Ok(());
        }
        self.commit(watcher)?;
        self.reset_coordinator_state()
    }

    fn handle_timers(&mut self, watcher: &mut dyn Watcher) {
        let now = clock::now();
        if self.plan.next_due().is_some_and(|due| due <= now.mono) {
            self.feed(Input::Tick);
        }
        self.give_up_unreported_runs(now.mono, watcher);
        self.kill_hanging_coordinator(now.mono, watcher);
        self.send_due_checks();
        if self.has_samples_due() && now.mono >= self.sample_at {
            self.sample(watcher);
        }
        watcher.refresh(&self.plan, now);
    }

    /// Feeds an input to the plan. Its decisions are logged with the next commit.
    pub(super) fn feed(&mut self, input: Input) {
        let step = self.plan.handle(clock::now(), input);
        if let Some(batch) = self.outbox.accept(step) {
            self.batches.push(batch);
        }
    }

    /// Commits all decisions with one write and at most one sync, and releases the orders that
    /// follow from them.
    pub(super) fn commit(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        let batches = std::mem::take(&mut self.batches);
        let events: Vec<PlanEvent> = batches
            .iter()
            .flat_map(|batch| batch.facts().iter().cloned())
            .collect();
        if !events.is_empty() {
            let records: Vec<RunnerRecord> =
                events.iter().cloned().map(RunnerRecord::Event).collect();
            self.log.append(&records)?;
            if events.iter().any(needs_sync) {
                self.log.sync()?;
            }
        }
        for batch in batches {
            self.outbox.release(batch.durable());
        }
        self.orders.extend(self.outbox.drain());
        for event in &events {
            watcher.event(event, &self.plan);
            if let PlanChange::RunEnded { process, run, .. } = event.change {
                self.drop_logs(process, run);
                self.to_forget.push(RunKey { process, run });
            }
        }
        // Only now: what the coordinator forgets must be in our log. If this request is lost, the
        // coordinator reports the run again at the next connection.
        if self.link.is_some() {
            for run in std::mem::take(&mut self.to_forget) {
                let _ = self.send(&Request::Forget { run });
            }
        }
        if self.log.records() > self.log_limit() {
            self.compact()?;
        }
        Ok(())
    }

    fn log_limit(&self) -> u64 {
        let processes = self.spec.processes.len() as u64;
        LOG_RECORDS_MAX.max(LOG_RECORDS_PER_PROCESS * processes)
    }

    /// Replaces the log by a snapshot.
    fn compact(&mut self) -> Result<(), TaskError> {
        let first = [
            RunnerRecord::Begun(Box::new(self.header.clone())),
            RunnerRecord::Snapshot(self.plan.snapshot()),
            RunnerRecord::RunnerStarted(self.runner_start),
        ];
        Ok(self.log.replace(&first)?)
    }

    fn has_samples_due(&self) -> bool {
        self.samples.is_some() && self.plan.live().next().is_some()
    }

    fn sample(&mut self, watcher: &mut dyn Watcher) {
        let begun = clock::now();
        let roots: Vec<(RunKey, u32)> = live_roots(&self.plan);
        let Some((ring, sampler)) = &mut self.samples else {
            return;
        };
        let taken = sampler
            .sample(begun.wall, &roots)
            .and_then(|samples| ring.push(&samples));
        if let Err(error) = taken {
            watcher.note(&format!("resource usage is no longer sampled: {error}"));
            self.samples = None;
        }
        let ended = clock::now().mono;
        let took = ended.since(begun.mono);
        self.sample_at = Mono(ended.0) + SAMPLE_EVERY.max(took.scaled(SAMPLE_SHARE, 1));
    }
}

/// Signals that our parent wants ignored, as `nohup` does, stay ignored: a signalfd would receive
/// them even so.
fn listen(warnings: bool) -> std::io::Result<Signals> {
    signals::restore(libc::SIGCHLD);
    let mut wanted = vec![libc::SIGCHLD];
    wanted.extend(warnings.then_some(RUNNER_WARNING));
    let requests = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    wanted.extend(
        requests
            .into_iter()
            .filter(|signal| !signals::is_ignored(*signal)),
    );
    Signals::listen(&wanted)
}

fn live_roots(plan: &Plan) -> Vec<(RunKey, u32)> {
    let live = plan.live();
    live.filter_map(|(process, live)| {
        let run = RunKey {
            process,
            run: live.run,
        };
        Some((run, live.identity?.pid))
    })
    .collect()
}

/// True if other effects depend on the event. That a process has started or is ready does not
/// matter after a power failure.
const fn needs_sync(event: &PlanEvent) -> bool {
    !matches!(
        event.change,
        PlanChange::RunStarted { .. } | PlanChange::RunReady { .. } | PlanChange::BudgetMarked
    )
}
