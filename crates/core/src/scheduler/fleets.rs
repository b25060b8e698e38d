//! The leader's part in fleets: commands, answers of backends, and one look at a time.
//!
//! The decisions are those of [`crate::fleet`]. Here their facts are committed, their calls are emitted behind these
//! facts, and what a cluster manager proves about a job ends the leases of its workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::fleet::{
    CancelCause, Fleet, FleetAnswer, FleetJob, FleetName, FleetSpec, JobState, Removal,
};
use baton_model::ids::{JobId, WorkerName};
use baton_model::state::WorkerState;
use baton_model::time::Now;

use super::context::{Cx, Effect};
use crate::config::{Config, StoreMode};
use crate::fleet::{Controller, FleetError, Output, Pilot, Scene, check};
use crate::ledger::Ledger;
use crate::placement::Availability;
use crate::protocol::scheduler::Protocol;
use crate::protocol::scheduler::seat::Seat;
use crate::wait::Exclusion;

/// A command about a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetCommand {
    /// Defines a fleet, or changes it. Queued jobs of another shape are cancelled.
    Define {
        name: FleetName,
        spec: Arc<FleetSpec>,
        /// The file that defines it; none if a client does. Neither changes a fleet of the other.
        file: Option<String>,
    },
    /// Removes a fleet, and cancels its jobs. With `drain`, its running jobs end when they have no more work.
    Remove {
        name: FleetName,
        drain: bool,
        /// The file that has defined it no longer does.
        by_file: bool,
    },
    /// Requests no more jobs until it is resumed.
    Pause {
        name: FleetName,
    },
    Resume {
        name: FleetName,
    },
}

/// Carries out a command.
pub(super) fn execute(
    cx: &mut Cx<'_>,
    controller: &mut Controller,
    command: FleetCommand,
) -> Result<(), FleetError> {
    if cx.config.store == StoreMode::Memory {
        return Err(FleetError::NoStore);
    }
    controller.look_soon();
    match command {
        FleetCommand::Define { name, spec, file } => {
            if cx.ledger.fleets().get(&name).is_none() {
                controller.forget(&name);
            }
            define(cx, &name, spec, file)
        }
        FleetCommand::Remove {
            name,
            drain,
            by_file,
        } => {
            match (&known(cx, &name)?.file, by_file) {
                (Some(file), false) => return Err(FleetError::FromFile(name, file.clone())),
                (None, true) => return Err(FleetError::FromCommand(name)),
                _ => {}
            }
            let removal = if drain {
                Removal::Drain
            } else {
                Removal::Cancel
            };
            let fleet = name;
            cx.commit(Fact::FleetRemoved { fleet, removal });
            Ok(())
        }
        FleetCommand::Pause { name } => pause(cx, name, true),
        FleetCommand::Resume { name } => pause(cx, name, false),
    }
}

fn define(
    cx: &mut Cx<'_>,
    name: &FleetName,
    spec: Arc<FleetSpec>,
    file: Option<String>,
) -> Result<(), FleetError> {
    check(cx.ledger.fleets(), name, &spec)?;
    let before = cx.ledger.fleets().get(name).cloned();
    if let Some(defined) = before.as_ref().filter(|it| it.removed.is_none()) {
        match (&defined.file, &file) {
            (Some(by), None) => return Err(FleetError::FromFile(name.clone(), by.clone())),
            (None, Some(_)) => return Err(FleetError::FromCommand(name.clone())),
            _ => {}
        }
    }
    let same = |it: &FleetSpec| {
        it.shape == spec.shape
            && it.backend == spec.backend
            && it.workers_per_job == spec.workers_per_job
            && it.time_limit == spec.time_limit
    };
    let keeps_jobs = before.as_ref().is_none_or(|it| same(&it.spec));
    if before.is_some_and(|it| it.spec == spec && it.file == file && it.removed.is_none()) {
        return Ok(());
    }
    cx.commit(Fact::FleetDefined {
        fleet: name.clone(),
        spec,
        file,
    });
    if keeps_jobs {
        return Ok(());
    }
    let jobs = cx.ledger.fleets().jobs_of(name);
    let queued = jobs.filter(|it| it.cancel.is_none() && it.arrived_at.is_none());
    let queued = queued.filter(|it| it.state != Some(JobState::Running));
    for job in queued.map(|it| it.id).collect::<Vec<_>>() {
        cx.commit(Fact::JobCancelRequested {
            job,
            fleet: name.clone(),
            cause: CancelCause::FleetRemoved,
            surplus: None,
        });
    }
    Ok(())
}

fn pause(cx: &mut Cx<'_>, fleet: FleetName, paused: bool) -> Result<(), FleetError> {
    if known(cx, &fleet)?.paused != paused {
        cx.commit(Fact::FleetPaused { fleet, paused });
    }
    Ok(())
}

/// A fleet that is not removed.
fn known<'a>(cx: &'a Cx<'_>, name: &FleetName) -> Result<&'a Fleet, FleetError> {
    let fleet = cx.ledger.fleets().get(name);
    let fleet = fleet.filter(|it| it.removed.is_none());
    fleet.ok_or_else(|| FleetError::Unknown(name.clone()))
}

/// Takes the answer of a backend.
pub(super) fn answered(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    controller: &mut Controller,
    answer: FleetAnswer,
) {
    let pilots = pilots(cx.ledger, protocol.seats());
    let scene = scene(cx.config, cx.ledger, &pilots, cx.now);
    let outputs = controller.answer(&scene, answer);
    commit(cx, protocol, outputs);
}

/// Looks at all fleets, if that is due.
pub(super) fn advance(cx: &mut Cx<'_>, protocol: &mut Protocol, controller: &mut Controller) {
    if cx.ledger.fleets().is_empty() || protocol.is_waiting() || !controller.is_due(cx.now.mono) {
        return;
    }
    let pilots = pilots(cx.ledger, protocol.seats());
    let outputs = controller.upkeep(&scene(cx.config, cx.ledger, &pilots, cx.now));
    commit(cx, protocol, outputs);
    let backlog = cx.bullpen.backlog();
    let outputs = controller.size(&scene(cx.config, cx.ledger, &pilots, cx.now), backlog);
    commit(cx, protocol, outputs);
    let calls = controller.calls(&scene(cx.config, cx.ledger, &pilots, cx.now));
    for call in calls {
        cx.step.emit(Effect::Fleet(call));
    }
}

fn commit(cx: &mut Cx<'_>, protocol: &mut Protocol, outputs: Vec<Output>) {
    for output in outputs {
        match output {
            Output::Record(fact) => cx.commit(fact),
            Output::Proved(job, proof) => {
                for number in 0..job.workers {
                    let worker = job.fleet.pilot(job.id, number);
                    protocol.job_over(&mut cx.protocol(), &worker, proof);
                }
            }
        }
    }
}

pub(super) fn scene<'a>(
    config: &Config,
    ledger: &'a Ledger,
    pilots: &'a BTreeMap<JobId, Vec<Pilot>>,
    now: Now,
) -> Scene<'a> {
    Scene {
        now,
        fleets: ledger.fleets(),
        pilots,
        identity: (ledger.identity().store, ledger.identity().generation),
        bugs: config.bugs,
    }
}

/// The workers of all open jobs that have a seat.
pub(super) fn pilots(
    ledger: &Ledger,
    seats: &BTreeMap<WorkerName, Seat>,
) -> BTreeMap<JobId, Vec<Pilot>> {
    let jobs = ledger.fleets().jobs();
    let jobs = jobs.map(|job| (job.id, pilots_of(job, seats)));
    jobs.filter(|(_, pilots)| !pilots.is_empty()).collect()
}

fn pilots_of(job: &FleetJob, seats: &BTreeMap<WorkerName, Seat>) -> Vec<Pilot> {
    let pilots = (0..job.workers).filter_map(|number| {
        let name = job.fleet.pilot(job.id, number);
        let seat = seats.get(&name)?;
        if seat.state == WorkerState::MustDie {
            return None;
        }
        Some(Pilot {
            number,
            name,
            heard: seat.heard(),
            is_busy: seat.load > 0,
            is_new: seat.availability() == Availability::Closed(Exclusion::New),
            offer: Arc::clone(&seat.offer),
            host: seat.host,
        })
    });
    pilots.collect()
}
