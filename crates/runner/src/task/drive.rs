//! The loop, and the commit of what was decided.

use baton_core::plan::{Input, Plan};
use baton_model::state::AttemptState;
use baton_model::task::{PlanChange, PlanEvent};
use baton_model::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Task, TaskError, Watcher, kill_input};
use crate::record::RunnerRecord;
use crate::sys::clock;
use crate::sys::signals::{self, Signals};
use crate::wire::{Request, RunKey};

/// How often what the processes use is sampled, at the most.
const SAMPLE_EVERY: Millis = Millis::from_secs(1);
/// A sample that takes long is taken less often: it may use this part of the time.
const SAMPLE_SHARE: u64 = 50;

/// The log is replaced by a snapshot when it has this many records, and more than several
/// for each process: so a replay costs about as much as the task is large.
const LOG_RECORDS_MAX: u64 = 8_192;
const LOG_RECORDS_PER_PROCESS: u64 = 16;

/// How long after everything was killed the ends of runs may be missing. Whoever is the
/// parent of an adopted process may take its time to notice.
pub(super) const TELL_MAX: Millis = Millis::from_secs(20);

impl Task {
    /// Drives the task to its end.
    ///
    /// An interrupt or a termination asks for the end; a second one kills.
    ///
    /// # Errors
    /// [`TaskError`] if it cannot be driven on. What runs goes on then, under its
    /// coordinator, and the task can be resumed.
    pub fn drive(&mut self, watcher: &mut dyn Watcher) -> Result<AttemptState, TaskError> {
        if let (true, Some(state)) = (self.finished, self.plan.outcome()) {
            watcher.finished(&self.plan);
            return Ok(state);
        }
        let mut signals = listen().map_err(TaskError::io("listen to signals"))?;
        let mut kills = 0_u32;
        loop {
            if self.link.is_none() {
                self.attach(watcher)?;
            }
            self.commit(watcher)?;
            self.obey(watcher)?;
            if let (true, Some(state)) = (self.finished, self.plan.outcome()) {
                watcher.finished(&self.plan);
                return Ok(state);
            }
            self.wait(&signals, watcher.refresh_every())?;
            for signal in signals.take().map_err(TaskError::io("take signals"))? {
                if signal == libc::SIGCHLD {
                    self.exits.take(self.boot);
                    continue;
                }
                // A terminal that closes may hang up twice; that is no impatience.
                if signal == libc::SIGHUP && kills > 0 {
                    continue;
                }
                kills += 1;
                watcher.note(if kills == 1 {
                    "stopping; once more to kill at once"
                } else {
                    "killing"
                });
                self.feed(kill_input(kills > 1));
            }
            self.listen(watcher)?;
            for now in self.control.take_kill_requests() {
                self.feed(kill_input(now));
            }
            self.time_passes(watcher);
        }
    }

    fn wait(&self, signals: &Signals, refresh: Option<Millis>) -> Result<(), TaskError> {
        let now = clock::now().mono;
        let due = [
            self.plan.next_due(),
            self.checks.next_due(),
            refresh.map(|every| now + every),
            self.has_samples_due().then_some(self.sample_at),
            self.killed_at.map(|at| at + TELL_MAX),
        ];
        let due = due.into_iter().flatten().min();
        let timeout = due.map(|due| clock::timeout(due.since(now)));
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if let Some(link) = &self.link {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, link.wants_write());
            fds.push(PollFd::new(link, flags));
        }
        fds.extend(self.control.fds());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(TaskError::io("wait")(error.into())),
        }
    }

    /// Hears the coordinator. If it is gone, the next round finds it again, or begins
    /// another.
    fn listen(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let alive = match link.receive() {
            Ok((replies, alive)) => {
                for reply in replies {
                    self.hear(reply, watcher);
                }
                alive
            }
            Err(error) => {
                watcher.note(&format!("the coordinator makes no sense: {error}"));
                false
            }
        };
        if alive || self.finished {
            return Ok(());
        }
        self.commit(watcher)?;
        self.forget_the_last_one()
    }

    fn time_passes(&mut self, watcher: &mut dyn Watcher) {
        let now = clock::now();
        if self.plan.next_due().is_some_and(|due| due <= now.mono) {
            self.feed(Input::Tick);
        }
        self.give_up_the_unkillable(now.mono, watcher);
        self.try_checks();
        if self.has_samples_due() && now.mono >= self.sample_at {
            self.sample(watcher);
        }
        watcher.refresh(&self.plan, now);
    }

    /// Hands something to the plan. What it decides is kept with the next commit.
    pub(super) fn feed(&mut self, input: Input) {
        let step = self.plan.handle(clock::now(), input);
        if let Some(batch) = self.outbox.accept(step) {
            self.batches.push(batch);
        }
    }

    /// Keeps everything that was decided, with one write and at most one sync, and frees
    /// the orders that follow from it.
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
                self.forgets.push(RunKey { process, run });
            }
        }
        // Only now: what is forgotten there must be in our log. If it does not hear this, it
        // says so again when we meet again.
        if self.link.is_some() {
            for run in std::mem::take(&mut self.forgets) {
                let _ = self.say(&Request::Forget { run });
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

    /// Replaces the log by what it adds up to.
    fn compact(&mut self) -> Result<(), TaskError> {
        let first = [
            RunnerRecord::Begun(Box::new(self.header.clone())),
            RunnerRecord::Snapshot(self.plan.snapshot()),
            RunnerRecord::RunnerStarted(self.life),
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
            watcher.note(&format!("what is used is not sampled any more: {error}"));
            self.samples = None;
        }
        let ended = clock::now().mono;
        let took = ended.since(begun.mono);
        self.sample_at = Mono(ended.0) + SAMPLE_EVERY.max(took.scaled(SAMPLE_SHARE, 1));
    }
}

/// Signals that whoever started us wants ignored, as `nohup` does, stay ignored: a signal
/// that is listened to is told even if it is ignored.
fn listen() -> std::io::Result<Signals> {
    signals::restore(libc::SIGCHLD);
    let mut wanted = vec![libc::SIGCHLD];
    let asked = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    wanted.extend(
        asked
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

/// True if something follows from it that must not follow from nothing. That a process is
/// there or is ready is in nobody's interest once the machine has lost its power.
const fn needs_sync(event: &PlanEvent) -> bool {
    !matches!(
        event.change,
        PlanChange::RunStarted { .. } | PlanChange::RunReady { .. } | PlanChange::BudgetMarked
    )
}
