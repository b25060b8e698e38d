//! Actions of the supervisor.

use baton_core::protocol::frame::SecretDelivery;
use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::io::{Action, Event};
use baton_model::ids::RequestId;
use baton_model::message::ProcessQuery;
use baton_model::task::RunKey;
use baton_model::time::Mono;
use baton_runner::launch_error::LaunchError;
use baton_runner::sys::clock;
use baton_runner::wire::Request;

use crate::drive::Agent;
use crate::state::WorkerState;
use crate::{logs, processes, stderr_tail};

impl Agent {
    /// Passes an event to the supervisor, and carries its actions out.
    pub(crate) fn handle(&mut self, event: Event) {
        let now = clock::now();
        let was_leaving = self.supervisor.worker().is_leaving();
        self.supervisor.worker_mut().note_wall(now.wall);
        let actions = self.supervisor.handle(now.mono, event);
        if !was_leaving && self.supervisor.worker().is_leaving() {
            tracing::info!("ending: no more work is taken");
        }
        self.carry_out(actions);
    }

    pub(crate) fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.apply(action);
        }
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Send(message) => self.scheduler.push(message),
            Action::ReadLogs(request, query) => {
                let answer = logs::read(self.dir.path(), &query);
                self.handle(Event::LogsRead(request, answer));
            }
            Action::ReadProcesses(request, query) => self.read_processes(request, query),
            Action::Launch(run) => self.launch(run),
            Action::Forget(_) => {
                self.order(&action);
                self.forget_secrets();
            }
            Action::Check(run) => self.coordinator.push(Request::Launch {
                run,
                launch: Box::new(self.launcher.check()),
            }),
            Action::Adopt(run) => self.adopt(run),
            Action::GiveUp => self.give_up(),
            Action::EndLife => self.life_ended = true,
            order => self.order(&order),
        }
    }

    /// Passes an order on to the coordinator.
    fn order(&mut self, order: &Action) {
        match order {
            Action::Stop { run, cause, .. } => {
                if let Some(attempt) = self.supervisor.attempts().get(*run) {
                    tracing::info!("killing {}: {}", attempt.assignment.lease, cause.word());
                }
            }
            Action::Warn { run, signal } => {
                if let Some(attempt) = self.supervisor.attempts().get(*run) {
                    let lease = attempt.assignment.lease;
                    tracing::info!("warning {lease} with signal {signal}");
                }
            }
            Action::Guard(order) => self.extend_guard(*order),
            _ => {}
        }
        if let Some(request) = order.request() {
            self.coordinator.push(request);
        }
    }

    fn read_processes(&mut self, request: RequestId, query: ProcessQuery) {
        let attempt = self.supervisor.attempts().of(query.lease);
        match attempt.filter(|attempt| !attempt.assignment.is_task()) {
            Some(attempt) => {
                let usage = self.usage_watch.history(query.lease);
                let answer = processes::of_command(attempt, usage, query.samples_max);
                self.handle(Event::ProcessesRead(request, answer));
            }
            None => self.process_reader.begin(request, query),
        }
    }

    fn launch(&mut self, run: RunKey) {
        let Some(attempt) = self.supervisor.attempts().get(run) else {
            return;
        };
        let lease = attempt.assignment.lease;
        if run.run.0 > 0 {
            tracing::warn!("the runner of {lease} has died; starting it again");
        }
        match self.launcher.launch(attempt, clock::now().mono) {
            Ok(launch) => self.coordinator.push(Request::Launch {
                run,
                launch: Box::new(launch),
            }),
            Err(LaunchError::Host(reason)) => {
                let fault = self.host_fault(run, &reason);
                self.handle(fault);
            }
            Err(LaunchError::Work(reason)) => {
                self.launcher.append_reason(lease, &reason);
                let reason = stderr_tail::text(format!("baton: {reason}").as_bytes());
                self.handle(Event::LaunchImpossible(run, reason));
            }
        }
    }

    /// Keeps the secrets of an attempt that waits for them, and starts it.
    pub(crate) fn take_secrets(&mut self, now: Mono, delivery: SecretDelivery) {
        let SecretDelivery { lease, values } = delivery;
        if !self.supervisor.awaits_secrets(lease) {
            return;
        }
        let Some(attempt) = self.supervisor.attempts().of(lease) else {
            return;
        };
        let launcher = &mut self.launcher;
        let kept =
            values.and_then(|values| launcher.keep_secrets(&attempt.assignment, &values, now));
        let event = match kept {
            Ok(()) => Event::SecretsHere(lease),
            Err(reason) => {
                self.launcher.append_reason(lease, &reason);
                let reason = stderr_tail::text(format!("baton: {reason}").as_bytes());
                Event::SecretsMissing(lease, reason.unwrap_or_default())
            }
        };
        self.handle(event);
    }

    /// Removes the secrets of attempts that are over.
    pub(crate) fn forget_secrets(&mut self) {
        let attempts = self.supervisor.attempts();
        self.launcher
            .secrets
            .retain(|lease| attempts.contains(lease));
    }

    fn adopt(&mut self, run: RunKey) {
        let Some(attempt) = self.supervisor.attempts().get(run) else {
            return;
        };
        if let Some(request) = self.launcher.adoption(attempt, clock::now().mono) {
            self.coordinator.push(request);
        }
    }

    /// The next agent must end this incarnation, too.
    fn give_up(&mut self) {
        tracing::warn!("giving up the incarnation: killing everything");
        let worker_state = WorkerState {
            dying: true,
            ..self.dir.worker_state
        };
        // If this cannot be written, the killing still matters most.
        if let Err(error) = self.dir.set_worker_state(worker_state) {
            tracing::error!("{error}");
        }
    }

    fn extend_guard(&mut self, order: GuardOrder) {
        if order.epoch > self.dir.worker_state.epoch {
            let worker_state = WorkerState {
                epoch: order.epoch,
                ..self.dir.worker_state
            };
            if let Err(error) = self.dir.set_worker_state(worker_state) {
                tracing::error!("{error}");
            }
        }
        self.coordinator.set_guard(Some(order.into()));
    }
}
