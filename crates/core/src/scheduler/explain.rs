//! Explaining the state of an instance or a task of a run: the one thing it waits for.
//!
//! The order of the questions is that of the obstacles: only what has passed one comes to the next.

use baton_model::ids::{InstanceId, LeaseId, TaskNo, WorkerName};
use baton_model::placement::Suspicion;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Now};

use super::bullpen::time_needed;
use super::{Scheduler, StoreMode, fleets, runs};
use crate::fleet::labelled;
use crate::ledger::{Instance, Run, RunHead};
use crate::limits::{LimitKey, RunLimit};
use crate::placement::JobShape;
use crate::wait::{self, Exclusion, FleetWait, LimitReached, TIME_NAME, Wait, WaitReason};
use crate::workflow::ItemState;

/// Instances of a task among which one that waits is searched.
const LOOKED_AT_MAX: usize = 64;

/// The state of an instance that is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Waiting(Box<Wait>),
    Running {
        worker: WorkerName,
        lease: LeaseId,
        /// A stop was requested.
        stopping: bool,
    },
}

impl Standing {
    /// What it waits for; none if it runs.
    #[must_use]
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Self::Waiting(wait) => Some(wait),
            Self::Running { .. } => None,
        }
    }
}

impl Scheduler {
    /// Whether an instance waits, and what for; none if it is over or unknown.
    #[must_use]
    pub fn explain(&self, id: InstanceId, now: Now) -> Option<Standing> {
        let instance = self.ledger.find(id)?;
        let reason = match instance.state {
            UniversalState::Queued => {
                return Some(Standing::Waiting(self.queued(&instance, now).into()));
            }
            UniversalState::Launched | UniversalState::Running => {
                let lease = instance.lease.as_ref()?;
                let worker = lease.holder.worker.clone();
                if let Some(unsure) = self.protocol.unsure(&self.ledger, lease, now.mono) {
                    WaitReason::Unsure(unsure)
                } else if lease.confirmed {
                    return Some(Standing::Running {
                        worker,
                        lease: lease.id,
                        stopping: instance.stop_requested,
                    });
                } else {
                    WaitReason::Confirmation { worker }
                }
            }
            _ => return None,
        };
        Some(Standing::Waiting(Box::new(reason.into())))
    }

    /// How long an attempt of an instance's task usually takes, if some have ended; none if the instance is over or
    /// unknown.
    #[must_use]
    pub fn estimate(&self, id: InstanceId) -> Option<Millis> {
        let instance = self.ledger.find(id)?;
        let path = self.ledger.task_path(&instance.spec)?;
        self.ledger.run_times().estimate(&path)
    }

    /// What the items of a task of a run wait for, if some do: an instance without a lease, then items
    /// without an instance.
    pub(super) fn explain_task(&self, run: &Run, task: u32, now: Now) -> Option<Wait> {
        let progress = &run.progress;
        let unleased = progress.live_of(task).take(LOOKED_AT_MAX).find(|id| {
            let instance = self.ledger.instance(*id);
            instance.is_none_or(|instance| instance.lease.is_none())
        });
        if let Some(id) = unleased {
            return self.explain(id, now)?.wait().cloned();
        }
        let tally = progress.tally(task);
        let (ready, waiting) = (tally.of(ItemState::Ready), tally.of(ItemState::Waiting));
        if ready + waiting == 0 {
            return None;
        }
        self.explain_run(&run.head)
            .or_else(|| self.held_back(run, task).filter(|_| ready > 0))
            .or_else(|| upstream(run, task).filter(|_| waiting > 0))
            .map(Wait::from)
    }

    /// What a run waits for before anything of it starts.
    fn explain_run(&self, head: &RunHead) -> Option<WaitReason> {
        let origin = head.origin?;
        runs::waits_for_turn(&self.ledger, &self.bullpen, head).then(|| self.turn(origin.task))
    }

    /// The workers that cannot launch anything or are suspicious, with the reason as a clause.
    pub fn troubles(&self) -> impl Iterator<Item = (&WorkerName, String)> {
        let seats = self.seats().iter();
        seats.filter_map(|(name, seat)| {
            let fault = seat.fault.as_deref();
            let trouble = fault.map(|fault| format!("cannot launch anything: {fault}"));
            let suspicion = || Some(format!("is suspicious: {}", self.suspicion(name)?));
            Some((name, trouble.or_else(suspicion)?))
        })
    }

    /// Why a worker is suspicious, if it is.
    #[must_use]
    pub fn suspicion(&self, worker: &WorkerName) -> Option<Suspicion> {
        self.protocol.suspicion(worker)
    }

    fn queued(&self, instance: &Instance, now: Now) -> Wait {
        let id = instance.id;
        if let Some(until) = self.bullpen.backoff_until(id) {
            let left = until.since(now.mono);
            return WaitReason::Backoff { left }.into();
        }
        if let Some(dependency) = self.dependencies.unmet(&self.ledger, id) {
            return WaitReason::After(dependency).into();
        }
        let entry = instance.spec.origin.map(|origin| origin.task);
        if let Some(task) = entry.filter(|task| self.bullpen.held(*task).contains(&id)) {
            return self.turn(task).into();
        }
        if self.is_waiting() {
            let reason = match self.config.store {
                StoreMode::Memory => WaitReason::InitialWait,
                StoreMode::Durable => WaitReason::StoreCopied,
            };
            return reason.into();
        }
        let wait = self.bullpen.explain(id, now.mono);
        let wait = wait.unwrap_or_else(|| WaitReason::Nothing.into());
        Wait {
            directory: instance.spec.paths.cwd.clone(),
            fleets: self.fleets_for(id, &wait, now),
            grown: grown(instance, &wait.reason),
            ..wait
        }
    }

    /// What each fleet does for an instance that waits for a worker.
    fn fleets_for(&self, id: InstanceId, wait: &Wait, now: Now) -> Vec<FleetWait> {
        let lacks_worker = matches!(
            wait.reason,
            WaitReason::NoWorker
                | WaitReason::Excluded(_)
                | WaitReason::Room { .. }
                | WaitReason::Gang { .. }
                | WaitReason::Busy { .. }
                | WaitReason::Reserved { .. }
        );
        if !lacks_worker || self.ledger.fleets().is_empty() {
            return Vec::new();
        }
        let pilots = fleets::pilots(&self.ledger, self.seats());
        let scene = fleets::scene(&self.config, &self.ledger, &pilots, now);
        let fleets = self.ledger.fleets().iter().map(|fleet| {
            let shape = labelled(&fleet.name, &fleet.spec.shape);
            let job = JobShape {
                worker: &shape,
                workers: fleet.spec.workers_per_job,
                time_limit: fleet.spec.time_limit,
            };
            let misfit = self.bullpen.misfit(id, job);
            self.fleets.explain(&scene, fleet, misfit)
        });
        fleets.collect()
    }

    /// An execution of an entry waits for its turn.
    fn turn(&self, task: TaskNo) -> WaitReason {
        let entry = self.ledger.library().task(task);
        let name = entry.map(|it| it.name.to_string()).unwrap_or_default();
        self.limit_reached(LimitKey::Entry(task), name)
    }

    /// The limit of a run for which a ready item of a task has no instance yet.
    fn held_back(&self, run: &Run, task: u32) -> Option<WaitReason> {
        let part = run.progress.short_of(&run.dag, task)?;
        let plan = &run.dag.plan;
        let name = match part {
            RunLimit::Run => "the run".to_owned(),
            RunLimit::Template(at) => format!("template {}", plan.pools[at as usize].name),
            RunLimit::Task(at) => format!("task {}", plan.tasks[at as usize].name),
        };
        Some(self.limit_reached(LimitKey::Run(run.head.id, part), name))
    }

    fn limit_reached(&self, key: LimitKey, name: String) -> WaitReason {
        WaitReason::Limit(LimitReached {
            limit: self.limit(&key).unwrap_or_default(),
            key,
            name,
            asked: 1,
            rate: None,
        })
    }
}

/// The requests of an instance that have grown, if no worker has as much.
fn grown(instance: &Instance, reason: &WaitReason) -> Option<String> {
    let is_unfit = matches!(
        reason,
        WaitReason::NoWorker
            | WaitReason::Excluded(
                Exclusion::TooSmall { .. } | Exclusion::EndsSoon { .. } | Exclusion::Constraint(_)
            )
    );
    if !is_unfit {
        return None;
    }
    let spec = &instance.spec;
    let (first, now) = (spec.allowance(), instance.allowance());
    let (had, has) = (
        spec.resources(&first.requests),
        spec.resources(&now.requests),
    );
    let time = |allowance| time_needed(spec, allowance).map_or(0, |span| span.0);
    let amounts = [
        ("cpu", had.cpu_milli, has.cpu_milli),
        ("memory", first.memory_min, now.memory_min),
        ("disk", had.disk, has.disk),
        ("gpu", had.gpu.milli(), has.gpu.milli()),
        (TIME_NAME, time(&first), time(&now)),
    ];
    let grown = amounts.iter().filter(|(_, had, has)| has > had);
    let clauses = grown.map(|(name, had, has)| {
        let (had, has) = (wait::amount(name, *had), wait::amount(name, *has));
        format!("{had}, now {has}")
    });
    let clauses: Vec<String> = clauses.collect();
    (!clauses.is_empty()).then(|| clauses.join("; "))
}

/// The first upstream task of a task that is not settled.
fn upstream(run: &Run, task: u32) -> Option<WaitReason> {
    let tasks = &run.dag.plan.tasks;
    let mut after = tasks.get(task as usize)?.after.iter();
    let unsettled = after.find(|it| {
        let tally = run.progress.tally(it.task);
        tally.settled() < tally.all()
    })?;
    let task = tasks.get(unsettled.task as usize)?.name.clone();
    Some(WaitReason::Upstream { task })
}
