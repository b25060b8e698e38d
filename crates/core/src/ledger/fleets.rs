//! Fleets, and their jobs that have not ended.
//!
//! A job that has ended is dropped: the store has its record, and what counts for later requests is in the
//! [`Trouble`] of its fleet. A removed fleet is dropped with the last of its jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::fleet::{
    CancelCause, Fleet, FleetJob, FleetName, FleetSpec, JobEnd, JobState, NodeTrouble, Removal,
    Trouble,
};
use baton_model::ids::JobId;
use baton_model::limits::{FLEET_NODES_MAX, JOB_STABLE};
use baton_model::time::Wall;

use super::LedgerError;

/// All fleets, and their jobs that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fleets {
    fleets: BTreeMap<FleetName, Fleet>,
    jobs: BTreeMap<JobId, FleetJob>,
    /// The highest id ever used.
    last: JobId,
}

impl Fleets {
    /// True if there is neither a fleet nor a job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fleets.is_empty() && self.jobs.is_empty()
    }

    /// The fleet of that name, also if it was removed and has jobs that have not ended.
    #[must_use]
    pub fn get(&self, name: &FleetName) -> Option<&Fleet> {
        self.fleets.get(name)
    }

    /// All fleets, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Fleet> + '_ {
        self.fleets.values()
    }

    /// The job of that id, unless it has ended.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&FleetJob> {
        self.jobs.get(&id)
    }

    /// All jobs that have not ended, by id.
    pub fn jobs(&self) -> impl Iterator<Item = &FleetJob> + '_ {
        self.jobs.values()
    }

    /// Those of one fleet.
    pub fn jobs_of<'a>(&'a self, fleet: &'a FleetName) -> impl Iterator<Item = &'a FleetJob> + 'a {
        self.jobs.values().filter(move |job| job.fleet == *fleet)
    }

    /// The highest id ever used.
    #[must_use]
    pub const fn last(&self) -> JobId {
        self.last
    }

    pub(super) fn restore(
        fleets: Vec<Fleet>,
        jobs: Vec<FleetJob>,
        last: JobId,
    ) -> Result<Self, LedgerError> {
        let fleets = fleets.into_iter().map(|it| (it.name.clone(), it));
        let mut restored = Self {
            fleets: fleets.collect(),
            jobs: BTreeMap::new(),
            last,
        };
        for job in jobs {
            restored.admit(job)?;
        }
        Ok(restored)
    }

    fn admit(&mut self, job: FleetJob) -> Result<(), LedgerError> {
        if job.end.is_some() {
            return Err(LedgerError::Job(job.id, "is stored as open, but has ended"));
        }
        if !self.fleets.contains_key(&job.fleet) {
            return Err(LedgerError::Job(
                job.id,
                "belongs to a fleet that is not stored",
            ));
        }
        self.last = self.last.max(job.id);
        self.jobs.insert(job.id, job);
        Ok(())
    }

    pub(super) fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        match fact {
            Fact::FleetDefined { fleet, spec, file } => {
                self.define(fleet, spec, file.as_ref());
                Ok(())
            }
            Fact::FleetPaused { fleet, paused } => {
                self.change_fleet(fleet, |it| it.paused = *paused)
            }
            Fact::FleetRemoved { fleet, removal } => self.remove(fleet, *removal),
            Fact::JobRequested { .. } => self.request(fact),
            Fact::JobSubmitted { job, native, .. } => self.change_job(*job, |it| {
                it.native = Some(native.clone());
            }),
            Fact::JobObserved {
                job,
                state,
                detail,
                nodes,
                at,
                ..
            } => self.change_job(*job, |it| {
                it.started_at = match state {
                    JobState::Queued => None,
                    JobState::Running => it.started_at.or(Some(*at)),
                    _ => it.started_at,
                };
                it.state = Some(*state);
                it.detail.clone_from(detail);
                if !nodes.is_empty() {
                    it.nodes.clone_from(nodes);
                }
            }),
            Fact::JobArrived { job, at, .. } => self.change_job(*job, |it| {
                it.arrived_at = it.arrived_at.or(Some(*at));
            }),
            Fact::JobCancelRequested {
                job,
                cause,
                surplus: None,
                ..
            } => self.change_job(*job, |it| it.cancel = Some(*cause)),
            Fact::JobEnded {
                job,
                end,
                detail,
                at,
                ..
            } => self.end(*job, *end, detail.as_deref(), *at),
            _ => Ok(()),
        }
    }

    fn define(&mut self, name: &FleetName, spec: &Arc<FleetSpec>, file: Option<&String>) {
        let fleet = self.fleets.entry(name.clone()).or_insert_with(|| Fleet {
            name: name.clone(),
            spec: Arc::clone(spec),
            file: None,
            paused: false,
            removed: None,
            trouble: Trouble::default(),
        });
        fleet.file = file.cloned();
        fleet.spec = Arc::clone(spec);
        fleet.removed = None;
        // What has failed may be mended by the new definition.
        fleet.trouble = Trouble::default();
    }

    fn remove(&mut self, name: &FleetName, removal: Removal) -> Result<(), LedgerError> {
        self.change_fleet(name, |it| it.removed = Some(removal))?;
        self.drop_removed(name);
        Ok(())
    }

    fn request(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        let Fact::JobRequested {
            job,
            fleet,
            name,
            workers,
            at,
        } = fact
        else {
            return Ok(());
        };
        if *job <= self.last {
            return Err(LedgerError::Job(*job, "was requested before"));
        }
        if !self.fleets.contains_key(fleet) {
            return Err(LedgerError::Fleet(fleet.clone(), "is not defined"));
        }
        self.last = *job;
        let requested = FleetJob {
            id: *job,
            fleet: fleet.clone(),
            name: name.clone(),
            requested_at: *at,
            workers: *workers,
            native: None,
            state: None,
            detail: None,
            nodes: Vec::new(),
            started_at: None,
            arrived_at: None,
            cancel: None,
            end: None,
            ended_at: None,
        };
        self.jobs.insert(*job, requested);
        Ok(())
    }

    fn end(
        &mut self,
        id: JobId,
        end: JobEnd,
        detail: Option<&str>,
        at: Wall,
    ) -> Result<(), LedgerError> {
        let Some(job) = self.jobs.remove(&id) else {
            return Err(LedgerError::Job(id, "is not open"));
        };
        if let Some(fleet) = self.fleets.get_mut(&job.fleet) {
            let verdict = Judgement::of(&job, end, at);
            verdict.record(&mut fleet.trouble, &job, detail, at);
            if end == JobEnd::Refused {
                // Perhaps too few nodes were left: a small cluster must not be avoided as a whole.
                fleet.trouble.nodes.clear();
            }
        }
        self.drop_removed(&job.fleet);
        Ok(())
    }

    fn change_fleet(
        &mut self,
        name: &FleetName,
        edit: impl FnOnce(&mut Fleet),
    ) -> Result<(), LedgerError> {
        match self.fleets.get_mut(name) {
            Some(fleet) => {
                edit(fleet);
                Ok(())
            }
            None => Err(LedgerError::Fleet(name.clone(), "is not defined")),
        }
    }

    fn change_job(
        &mut self,
        id: JobId,
        edit: impl FnOnce(&mut FleetJob),
    ) -> Result<(), LedgerError> {
        match self.jobs.get_mut(&id) {
            Some(job) => {
                edit(job);
                Ok(())
            }
            None => Err(LedgerError::Job(id, "is not open")),
        }
    }

    fn drop_removed(&mut self, name: &FleetName) {
        let removed = self.fleets.get(name).is_some_and(|it| it.removed.is_some());
        if removed && self.jobs_of(name).next().is_none() {
            self.fleets.remove(name);
        }
    }
}

/// What the end of a job says about its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// Its workers came, and did not fail at once: the fleet works.
    Success,
    Failure,
    /// Nothing: it was preempted, or cancelled before it ran.
    Neutral,
}

impl Judgement {
    fn of(job: &FleetJob, end: JobEnd, at: Wall) -> Self {
        let never_came = matches!(
            job.cancel,
            Some(CancelCause::NoPilot | CancelCause::NeverSeen | CancelCause::Absent)
        );
        if never_came && job.arrived_at.is_none() {
            return Self::Failure;
        }
        match (end, job.arrived_at) {
            (JobEnd::Preempted, _) => Self::Neutral,
            (JobEnd::Refused, _) => Self::Failure,
            // It failed, but only after its workers had proved that the fleet works.
            (JobEnd::Failed, Some(since)) if at.since(since) >= JOB_STABLE => Self::Success,
            (_, None) if job.cancel.is_some() => Self::Neutral,
            (JobEnd::Failed, _) | (_, None) => Self::Failure,
            (JobEnd::Ended | JobEnd::NeverSeen | JobEnd::Vanished, Some(_)) => Self::Success,
        }
    }

    fn record(self, trouble: &mut Trouble, job: &FleetJob, detail: Option<&str>, at: Wall) {
        match self {
            Self::Neutral => {}
            Self::Success => {
                trouble.failures = 0;
                trouble.last = None;
                trouble.detail = None;
                for node in &job.nodes {
                    trouble.nodes.remove(node);
                }
            }
            Self::Failure => {
                trouble.failures = trouble.failures.saturating_add(1);
                trouble.last = Some(at);
                trouble.detail = detail.map(str::to_owned).or_else(|| job.detail.clone());
                for node in &job.nodes {
                    let known = trouble.nodes.get(node).map_or(0, |it| it.failures);
                    let failures = known.saturating_add(1);
                    let last = at;
                    trouble
                        .nodes
                        .insert(node.clone(), NodeTrouble { failures, last });
                }
                while trouble.nodes.len() > FLEET_NODES_MAX {
                    let oldest = trouble.nodes.iter().min_by_key(|(_, it)| it.last);
                    let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                        break;
                    };
                    trouble.nodes.remove(&oldest);
                }
            }
        }
    }
}
