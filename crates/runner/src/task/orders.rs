//! Executing the plan's orders.

use std::io;

use baton_core::plan::{Input, Order};
use baton_model::outcome::KillCause;
use baton_model::state::AttemptState;
use baton_model::task::{LogDestination, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};

use super::launch_limit::PULSE;
use super::{Task, TaskError, Watcher};
use crate::checks::{ProbeRequest, Verdict};
use crate::sys::cgroup::{self, Cgroup};
use crate::sys::clock;
use crate::wire::{Reply, Request, RunKey};

/// The number of runs of a process whose output is kept.
const LOG_RUNS_KEPT: u64 = 100;

impl Task {
    /// Executes orders: none while everything is being killed. The loop notices a coordinator that
    /// is gone, and all orders are repeated.
    pub(super) fn execute_orders(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        while self.killing.is_none() && self.link.is_some() {
            let Some(order) = self.orders.pop_front() else {
                return Ok(());
            };
            match order {
                Order::Finish(state) => self.finish(state, watcher)?,
                order => {
                    if self.execute(order).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Launch { process, run } => {
                let run = RunKey { process, run };
                let spec = &self.spec.processes[process.index()];
                let launch = Box::new(self.launch_builder.launch(&self.spec, spec, run));
                self.send(&Request::Launch { run, launch })
            }
            Order::Stop {
                process,
                run,
                signal,
                grace,
            } => self.send(&Request::Stop {
                run: RunKey { process, run },
                signal,
                grace,
                cause: KillCause::Requested,
            }),
            Order::KillRun { process, run } => self.send(&Request::KillRun {
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
        self.send(&Request::KillEverything { id, grace })
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

    /// Sends the checks that are due.
    pub(super) fn send_due_checks(&mut self) {
        let due = self.checks.due(clock::now().mono);
        for verdict in due.verdicts {
            self.apply_verdict(verdict);
        }
        for request in due.requests {
            let ProbeRequest {
                id,
                run,
                probe,
                timeout,
                ..
            } = request;
            let spec = &self.spec.processes[run.process.index()];
            let launch = self
                .launch_builder
                .probe(&self.spec, spec, run, &probe, timeout);
            let request = Request::Probe {
                id,
                run,
                launch: Box::new(launch),
                timeout,
            };
            // The loop notices a coordinator that is gone.
            let _ = self.send(&request);
        }
    }

    /// Handles a reply of the coordinator.
    pub(super) fn handle_reply(&mut self, reply: Reply, watcher: &mut dyn Watcher) {
        match reply {
            Reply::Started {
                run, at, identity, ..
            } => self.report_started(run, at, identity),
            Reply::Ended(ended) => self.report_ended(&ended),
            Reply::Unknown { run: PULSE } => self.launch_limit.answered(clock::now().mono),
            Reply::Unknown { run } => {
                let live = self.plan.process(run.process).and_then(|p| p.live);
                let identity = live.filter(|live| live.run == run.run);
                let identity = identity.and_then(|live| live.identity);
                self.end_unwatched_run(run, identity.as_ref());
            }
            Reply::EverythingKilled { id, left } => self.everything_killed(id, left, watcher),
            Reply::Probed { id, well } => {
                if let Some(verdict) = self.checks.result(clock::now().mono, id, well) {
                    self.apply_verdict(verdict);
                }
            }
            // A standalone task has no dead-man timer, no queue and no other host, and gets one greeting.
            Reply::Accepted { .. }
            | Reply::Refused { .. }
            | Reply::HostFault { .. }
            | Reply::StraysKilled { .. }
            | Reply::Hello { .. } => {
                watcher.note(&format!("unexpected reply from the coordinator: {reply:?}"));
            }
        }
    }

    fn apply_verdict(&mut self, verdict: Verdict) {
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
            "{left} processes cannot be killed: stuck in the kernel, or owned by another user"
        ));
        if self.plan.live().next().is_some() {
            self.feed(Input::GiveUp);
        }
    }

    fn finish(&mut self, state: AttemptState, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        // If this is lost, it exits by itself when it is idle.
        let _ = self.send(&Request::Exit);
        if let Some(Err(error)) = self
            .coordinator
            .cgroup
            .as_deref()
            .and_then(cgroup::open)
            .map(Cgroup::remove)
        {
            watcher.note(&format!("cannot remove the cgroup of the task: {error}"));
        }
        self.root.finish(&self.id)?;
        self.control.answer_all(state);
        self.finished = true;
        Ok(())
    }

    /// Gives up runs that were killed and whose end was never reported: nothing may be stuck for
    /// ever.
    pub(super) fn give_up_unreported_runs(&mut self, now: Mono, watcher: &mut dyn Watcher) {
        if self.plan.live().next().is_none() {
            self.killed_at = None;
        }
        if self
            .killed_at
            .is_some_and(|at| now >= at + super::drive::REPORT_MAX)
        {
            self.killed_at = None;
            watcher.note("the outcome of the killed processes is unknown");
            self.feed(Input::GiveUp);
        }
    }

    /// Removes output that was only to be shown, and of a repeatedly run process that of all but
    /// its last runs.
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
            // On failure it is removed with the sandbox.
            let _ = crate::root::remove_run_logs(sandbox, &spec.name, gone);
        }
    }

    pub(super) fn send(&mut self, request: &Request) -> io::Result<()> {
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
