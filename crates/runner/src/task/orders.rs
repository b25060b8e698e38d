//! Carrying out what the plan orders.

use std::io;

use baton_core::plan::{Input, Order};
use baton_model::outcome::KillCause;
use baton_model::state::AttemptState;
use baton_model::task::{LogDestination, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};

use super::{Task, TaskError, Watcher};
use crate::checks::{Try, Verdict};
use crate::sys::cgroup::{self, Cgroup};
use crate::sys::clock;
use crate::wire::{Reply, Request, RunKey};

/// The output of so many runs of a process is kept.
const LOG_RUNS_KEPT: u64 = 100;

impl Task {
    /// Carries out what may be carried out: nothing while everything is being killed. A
    /// coordinator that is gone is noticed by the loop, and everything is said again.
    pub(super) fn obey(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        while self.killing.is_none() && self.link.is_some() {
            let Some(order) = self.orders.pop_front() else {
                return Ok(());
            };
            match order {
                Order::Finish(state) => self.finish(state, watcher)?,
                order => {
                    if self.carry_out(order).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Launch { process, run } => {
                let run = RunKey { process, run };
                let spec = &self.spec.processes[process.index()];
                let launch = Box::new(self.launches.launch(&self.spec, spec, run));
                self.say(&Request::Launch { run, launch })
            }
            Order::Stop {
                process,
                run,
                signal,
                grace,
            } => self.say(&Request::Stop {
                run: RunKey { process, run },
                signal,
                grace,
                cause: KillCause::Requested,
            }),
            Order::KillRun { process, run } => self.say(&Request::KillRun {
                run: RunKey { process, run },
            }),
            Order::KillEverything => self.kill_everything(Millis(0)),
            Order::KillLeftovers { grace } => self.kill_everything(grace),
            Order::StartChecks { process, run } => {
                self.start_checks(process, run);
                Ok(())
            }
            Order::StopChecks { process, run } => {
                self.checks.stop(RunKey { process, run });
                Ok(())
            }
            Order::Finish(_) => Ok(()),
        }
    }

    fn kill_everything(&mut self, grace: Millis) -> io::Result<()> {
        let id = self.next_id();
        self.killing = Some(id);
        self.say(&Request::KillEverything { id, grace })
    }

    fn start_checks(&mut self, process: ProcessNo, run: RunNo) {
        let live = self.plan.process(process).and_then(|p| p.live);
        let Some(live) = live.filter(|live| live.run == run) else {
            return;
        };
        let now = clock::now().mono;
        let started = live.started.map_or(now, |at| at.mono);
        let spec = &self.spec.processes[process.index()];
        let run = RunKey { process, run };
        self.checks.start(now, run, spec, started, live.ready);
    }

    /// Tries the checks that are due.
    pub(super) fn try_checks(&mut self) {
        let due = self.checks.due(clock::now().mono);
        for verdict in due.verdicts {
            self.judged(verdict);
        }
        for tried in due.tries {
            let Try {
                id,
                run,
                probe,
                timeout,
                ..
            } = tried;
            let spec = &self.spec.processes[run.process.index()];
            let launch = self.launches.probe(&self.spec, spec, run, &probe, timeout);
            let request = Request::Probe {
                id,
                run,
                launch: Box::new(launch),
                timeout,
            };
            // A coordinator that is gone is noticed by the loop.
            let _ = self.say(&request);
        }
    }

    /// Takes what the coordinator says.
    pub(super) fn hear(&mut self, reply: Reply, watcher: &mut dyn Watcher) {
        match reply {
            Reply::Started { run, at, identity } => self.started(run, at, identity),
            Reply::Ended(ended) => self.ended(&ended),
            Reply::Unknown { run } => {
                let live = self.plan.process(run.process).and_then(|p| p.live);
                let identity = live.filter(|live| live.run == run.run);
                let identity = identity.and_then(|live| live.identity);
                self.lost_unless_seen(run, identity.as_ref());
            }
            Reply::EverythingKilled { id, left } => self.everything_killed(id, left, watcher),
            Reply::Probed { id, well } => {
                if let Some(verdict) = self.checks.result(clock::now().mono, id, well) {
                    self.judged(verdict);
                }
            }
            // A task of its own has no dead-man timer and no queue, and is greeted once.
            Reply::Accepted { .. }
            | Reply::Refused { .. }
            | Reply::GuardFired
            | Reply::Hello { .. } => {
                watcher.note(&format!(
                    "the coordinator says what nobody asked: {reply:?}"
                ));
            }
        }
    }

    fn judged(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Ready(run) => self.feed(Input::Ready {
                process: run.process,
                run: run.run,
            }),
            Verdict::Unhealthy(run) => self.feed(Input::Unhealthy {
                process: run.process,
                run: run.run,
            }),
        }
    }

    fn everything_killed(&mut self, id: u64, left: u32, watcher: &mut dyn Watcher) {
        if self.killing != Some(id) {
            return;
        }
        self.killing = None;
        self.killed_at = self.plan.live().next().map(|_| clock::now().mono);
        if left == 0 {
            return;
        }
        watcher.note(&format!(
            "{left} processes cannot be killed: stuck in the kernel, or beyond our rights"
        ));
        if self.plan.live().next().is_some() {
            self.feed(Input::GiveUp);
        }
    }

    fn finish(&mut self, state: AttemptState, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        // If it does not hear this, it ends by itself when it is idle.
        let _ = self.say(&Request::Exit);
        if let Some(Err(error)) = self
            .start
            .cgroup
            .as_deref()
            .and_then(cgroup::open)
            .map(Cgroup::remove)
        {
            watcher.note(&format!("the cgroup of the task stays behind: {error}"));
        }
        self.root.finish(&self.id)?;
        self.control.answer_all(state);
        self.finished = true;
        Ok(())
    }

    /// Nothing may be stuck for ever: what was killed and never told of is given up.
    pub(super) fn give_up_the_unkillable(&mut self, now: Mono, watcher: &mut dyn Watcher) {
        if self.plan.live().next().is_none() {
            self.killed_at = None;
        }
        if self
            .killed_at
            .is_some_and(|at| now >= at + super::drive::TELL_MAX)
        {
            self.killed_at = None;
            watcher.note("what became of the processes that were killed cannot be told");
            self.feed(Input::GiveUp);
        }
    }

    /// Output that was only to be shown is not kept, and of a process that runs again and
    /// again only that of its last runs.
    pub(super) fn drop_logs(&self, process: ProcessNo, run: RunNo) {
        let spec = &self.spec.processes[process.index()];
        let destination = spec.logger.unwrap_or_default().destination;
        let gone = if destination == LogDestination::Console {
            Some(run)
        } else {
            run.0.checked_sub(LOG_RUNS_KEPT).map(RunNo)
        };
        if let Some(gone) = gone {
            let sandbox = std::path::Path::new(&self.header.sandbox);
            // Left behind, it is cleared away with the sandbox.
            let _ = crate::root::remove_run_logs(sandbox, &spec.name, gone);
        }
    }

    pub(super) fn say(&mut self, request: &Request) -> io::Result<()> {
        match &mut self.link {
            Some(link) => link.send(request),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}
