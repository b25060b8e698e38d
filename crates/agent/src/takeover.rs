//! Finding or starting a coordinator, and taking over its attempts.
//!
//! `baton_core::supervision::takeover` decides; this collects the evidence. The log of a coordinator
//! is replaced by its successor's first record, so its content is saved to the handover file before.

use std::time::Duration;

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::Supervisor;
use baton_core::supervision::attempts::Assignment;
use baton_core::supervision::io::{Event, Sighting};
use baton_core::supervision::takeover::{
    CoordinatorState, Inventory, KnownAttempt, Remnant, ReportedRun,
};
use baton_model::outcome::KillCause;
use baton_model::task::{Identity, Moment};
use baton_model::timeouts::LeaseTerm;
use baton_runner::coordinator::{is_gone, outlive_deaths};
use baton_runner::sys::clock;
use baton_runner::wire::{Guard, KnownRun};

use crate::coordinator::{Coordinator, Discovered, DiscoveredState};
use crate::drive::Agent;
use crate::error::Error;
use crate::incarnation::executor_of;
use crate::launch::Launcher;
use crate::state::Handover;

/// The pause after a coordinator could not be replaced.
const REPLACE_RETRY: Duration = Duration::from_millis(500);

impl Agent {
    /// Starts or resumes an incarnation.
    pub(crate) fn start_or_resume(&mut self) -> Result<(), Error> {
        let worker_state = self.dir.worker_state;
        let handover = self.dir.handover();
        let existed = worker_state.incarnation.0 > 0;
        let dying = worker_state.dying.then_some(KillCause::Suicide);
        let found = self.coordinator.find()?;
        let owned = found.owned();
        let guard = found.guard.or(handover.guard);
        let known = handover.attempts;
        let runs = self.reported(found.runs, &known);
        let inventory = Inventory::new(known, runs, dying);
        let remnant = Remnant {
            is_of_this_boot: existed && worker_state.boot == self.host.boot,
            is_dying: worker_state.dying,
            coordinator: match &found.state {
                DiscoveredState::Running => CoordinatorState::Running,
                DiscoveredState::Dead { readable: true, .. } => CoordinatorState::Dead {
                    has_order: guard.is_some(),
                },
                DiscoveredState::Dead { .. } => CoordinatorState::Unknown,
            },
        };
        let resumes = remnant.is_resumable();
        let has_predecessor = existed || remnant.coordinator != CoordinatorState::Unknown;
        if let DiscoveredState::Dead { permit, .. } = found.state {
            self.save_handover_of(&inventory, guard)?;
            self.coordinator.start(permit, has_predecessor)?;
        }
        if !resumes {
            if has_predecessor {
                self.coordinator.kill_leftovers()?;
            }
            return self.begin_incarnation(inventory.into_ended());
        }
        self.coordinator.set_guard(guard);
        self.attach();
        let identity = self.identity();
        let (coordinator, launcher) = (&mut self.coordinator, &mut self.launcher);
        let (supervisor, actions) = Supervisor::resume(
            &identity,
            inventory,
            &owned,
            dying,
            |attempt| sight(coordinator, launcher, &attempt.assignment, attempt.started),
            clock::now().mono,
        );
        self.supervisor = supervisor;
        let attempts = self.supervisor.attempts();
        let is_open = |lease| attempts.of(lease).is_some_and(|attempt| !attempt.is_over());
        self.end_filer.add_all(is_open);
        self.resume_protocol();
        self.carry_out(actions);
        if dying.is_some() {
            self.handle(Event::GiveUp);
        }
        Ok(())
    }

    /// Restores the protocol's view of the time before this agent.
    fn resume_protocol(&mut self) {
        let epoch = self.dir.worker_state.epoch;
        let worker = self.supervisor.worker_mut();
        match self.coordinator.guard() {
            Some(guard) => worker.resume(GuardOrder {
                epoch: guard.epoch.max(epoch),
                ..guard.into()
            }),
            None => worker.obeyed(epoch),
        }
        let incarnation = worker.me().incarnation;
        let executor = executor_of(&self.dir);
        tracing::info!("resuming incarnation {incarnation} as {executor}");
    }

    /// The coordinator has died while the agent runs: starts another, in the same incarnation.
    pub(crate) fn replace_coordinator(&mut self) -> Result<(), Error> {
        tracing::warn!("the coordinator is gone");
        // The record of the first one exists nowhere else once the second has started its log.
        let mut collected: Option<Inventory> = None;
        let is_gone = |error: &Error| matches!(error, Error::Io { error, .. } if is_gone(error));
        loop {
            match outlive_deaths(is_gone, || self.try_replace_coordinator(&mut collected)) {
                // A full disk may have room again. Until its deadlines the work may go on.
                Err(error) if self.is_leased() => {
                    tracing::error!("{error}; trying again");
                    std::thread::sleep(REPLACE_RETRY);
                }
                other => return other,
            }
        }
    }

    /// True if an attempt may go on without an answer of a scheduler, or none is held.
    fn is_leased(&self) -> bool {
        let Some(guard) = self.coordinator.guard() else {
            return false;
        };
        let (now, order) = (clock::now().mono, GuardOrder::from(guard));
        let is_ahead = |term| {
            order
                .deadline_of(term)
                .is_none_or(|deadline| now < deadline)
        };
        let mut attempts = self.supervisor.attempts().iter();
        let has_time = attempts.any(|it| !it.is_over() && is_ahead(it.assignment.term()));
        has_time || is_ahead(LeaseTerm::Lease)
    }

    fn try_replace_coordinator(&mut self, collected: &mut Option<Inventory>) -> Result<(), Error> {
        let found = self.coordinator.find()?;
        let owned = found.owned();
        let Discovered { runs, state, .. } = found;
        let inventory = match collected.take() {
            Some(before) => {
                let known: Vec<KnownAttempt> = before.attempts().cloned().collect();
                let runs = self.reported(runs, &known);
                Inventory::new(known, runs, self.supervisor.dying())
            }
            None => {
                let runs = self.reported(runs, &[]);
                self.supervisor.inventory(runs)
            }
        };
        if let DiscoveredState::Dead { permit, .. } = state {
            *collected = Some(inventory.clone());
            self.save_handover_of(&inventory, self.coordinator.guard())?;
            self.coordinator.start(permit, true)?;
        }
        self.attach();
        let (coordinator, launcher) = (&mut self.coordinator, &mut self.launcher);
        let actions = self
            .supervisor
            .take_over(clock::now().mono, inventory, &owned, |attempt| {
                sight(coordinator, launcher, &attempt.assignment, attempt.started)
            });
        self.carry_out(actions);
        Ok(())
    }

    /// Decodes the runs that a coordinator has on record. Ends come with their outputs.
    fn reported(&mut self, runs: Vec<KnownRun>, known: &[KnownAttempt]) -> Vec<ReportedRun> {
        let runs = runs.into_iter().map(|known_run| {
            let assignment = self.launcher.read_tag(&known_run.tag);
            let handed_over = || known.iter().find(|known| known.run == known_run.run);
            let known_assignment = assignment.as_ref();
            let known_assignment =
                known_assignment.or_else(|| handed_over().map(|it| &it.assignment));
            let ended = known_run.ended;
            let ended = ended.map(|end| self.launcher.ending(&end, known_assignment));
            ReportedRun {
                run: known_run.run,
                assignment,
                started: known_run.started,
                waiting: known_run.waiting,
                ended,
                devices: known_run.devices,
            }
        });
        runs.collect()
    }

    fn save_handover_of(&self, inventory: &Inventory, guard: Option<Guard>) -> Result<(), Error> {
        let attempts = inventory.attempts().cloned().collect();
        self.dir.set_handover(&Handover { guard, attempts })
    }

    /// Queues the first requests to a coordinator.
    pub(crate) fn attach(&mut self) {
        let amounts = self.launcher.amounts(&self.config);
        let offer = &self.config.offer;
        let (devices, core_nodes) = (offer.devices.clone(), offer.core_nodes.clone());
        self.coordinator.attach(amounts, devices, core_nodes);
    }

    /// Saves the remaining handover, if an attempt of it was settled.
    pub(crate) fn save_handover(&mut self) {
        if !self.supervisor.take_handover_changed() {
            return;
        }
        let attempts = self.supervisor.attempts().iter();
        let left = attempts.filter(|attempt| attempt.is_inherited());
        let attempts: Vec<KnownAttempt> = left.map(KnownAttempt::from).collect();
        let guard = self.coordinator.guard().filter(|_| !attempts.is_empty());
        // An attempt that stays in it too long is only reported twice.
        if let Err(error) = self.dir.set_handover(&Handover { guard, attempts }) {
            tracing::warn!("{error}");
        }
    }
}

/// What is known of an attempt's run that no coordinator watches.
pub(crate) fn sight(
    coordinator: &mut Coordinator,
    launcher: &Launcher,
    assignment: &Assignment,
    started: Option<(Moment, Identity)>,
) -> Sighting {
    match coordinator.sight(started) {
        Sighting::Ended(ending) => Sighting::Ended(launcher.with_texts(assignment, ending)),
        Sighting::Unknown => {
            let lease = assignment.lease;
            tracing::warn!("nothing tells how {lease} has ended, or whether it had started");
            Sighting::Unknown
        }
        other => other,
    }
}
