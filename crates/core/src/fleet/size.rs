//! How many jobs are wanted: a dry placement of what waits, within the bounds of each fleet.
//!
//! First the workers that were requested and are not here yet are filled with what waits. What is left is packed onto
//! new workers of the fleets that can run it, in the order of their names; failing fleets come last. A queued job whose
//! workers would get nothing is cancelled after a while.

use std::collections::BTreeSet;

use baton_model::fact::Fact;
use baton_model::fleet::{CancelCause, Fleet, FleetJob, JobState, Shape};
use baton_model::ids::JobId;
use baton_model::time::Millis;

use super::limits::{
    ARRIVAL_LIMIT, CANCEL_AGE, REQUEST_PAUSE, RETURN_WAIT, START_COST, STARTS_MAX, STARTS_SPAN,
    UNNEEDED_FOR,
};
use super::upkeep::cancel;
use super::watch::{Controller, JobWatch, Request};
use super::{Output, Scene, labelled};
use crate::placement::{Backlog, JobShape, Vacancy};
use crate::wait::Hold;

/// Failed lists in a row after which nothing is requested: the manager does not answer.
const LIST_FAILURES_MAX: u32 = 3;

/// One fleet in a look at the demand.
struct Prospect<'a> {
    fleet: &'a Fleet,
    shape: Shape,
    /// Which classes its workers can run, by position.
    fits: Vec<bool>,
    /// Workers of all jobs that are not proved over.
    alive: u32,
}

impl<'a> Prospect<'a> {
    fn new(scene: &Scene<'_>, fleet: &'a Fleet, backlog: &[Backlog]) -> Self {
        let shape = labelled(&fleet.name, &fleet.spec.shape);
        let job = JobShape {
            worker: &shape,
            workers: fleet.spec.workers_per_job,
            time_limit: fleet.spec.time_limit,
        };
        let fits = backlog.iter();
        let fits = fits.map(|it| it.misfit(job).is_none()).collect();
        let jobs = scene.fleets.jobs_of(&fleet.name);
        let alive = jobs.map(|it| it.workers).fold(0, u32::saturating_add);
        Self {
            fleet,
            shape,
            fits,
            alive,
        }
    }

    /// Fills the workers of one job: those that are coming, and, for gangs alone, those of it that are here. Returns
    /// how many of those coming get something.
    fn fill(&self, coming: u32, here: u32, backlog: &mut [Backlog]) -> u32 {
        let all = coming.saturating_add(here) as usize;
        let mut workers = vec![Vacancy::new(&self.shape); all];
        let first = coming as usize;
        let fitting = backlog.iter_mut().zip(&self.fits);
        for (it, _) in fitting.filter(|(it, fits)| **fits && it.count > 0) {
            if it.is_gang() {
                Vacancy::fill_gangs(&mut workers, it);
            } else {
                for worker in workers[..first].iter_mut() {
                    if it.count == 0 {
                        break;
                    }
                    worker.fill(it);
                }
            }
        }
        let used = workers[..first].iter().filter(|it| it.is_used());
        u32::try_from(used.count()).unwrap_or(u32::MAX)
    }

    /// How many further workers would get something, and how many jobs start them.
    fn open(&self, backlog: &mut [Backlog]) -> (u32, u32) {
        let room = self.fleet.spec.max.saturating_sub(self.alive);
        let each = self.fleet.spec.workers_per_job.max(1);
        let (mut workers, mut jobs) = (0_u32, 0_u32);
        let mut left = room;
        while left > 0 {
            let used = self.fill(each.min(left), 0, backlog);
            if used == 0 {
                break;
            }
            workers = workers.saturating_add(used);
            jobs += 1;
            left = left.saturating_sub(each);
        }
        (workers, jobs)
    }
}

impl Controller {
    /// Requests jobs, and cancels those that no longer help.
    pub(crate) fn size(&mut self, scene: &Scene<'_>, mut backlog: Vec<Backlog>) -> Vec<Output> {
        let span = self.start_cost();
        backlog.iter_mut().for_each(|it| it.leave_to_workers(span));
        let prospects = scene.fleets.iter();
        let prospects = prospects.map(|it| Prospect::new(scene, it, &backlog));
        let mut prospects: Vec<Prospect<'_>> = prospects.collect();
        let mut used = BTreeSet::new();
        if !seeded!(scene.bugs, DemandCountedTwice) {
            for prospect in &prospects {
                self.fill_expected(scene, prospect, &mut backlog, &mut used);
            }
        }
        let mut out = Vec::new();
        for prospect in &prospects {
            self.shrink(scene, prospect, &used, &mut out);
        }
        prospects.sort_by_key(|it| (it.fleet.trouble.failures > 0, it.fleet.name.clone()));
        let mut last = scene.fleets.last();
        for prospect in &prospects {
            let mut wanted = self.wanted(scene, prospect, &mut backlog);
            if wanted.workers > 0 {
                self.bound(scene, prospect, &mut wanted);
            }
            for _ in 0..wanted.jobs {
                last = last.next();
                out.push(self.request(scene, prospect.fleet, last));
            }
            self.fleet(&prospect.fleet.name).wanted = wanted;
        }
        out
    }

    /// What the present workers do within this time is left to them.
    fn start_cost(&self) -> Millis {
        let (least, most) = START_COST;
        let measured = self.fleets.values().filter_map(|it| it.start_cost).min();
        measured.unwrap_or(least).clamp(least, most)
    }

    /// Fills the workers that were requested and are not here yet; notes the jobs that get something.
    fn fill_expected(
        &self,
        scene: &Scene<'_>,
        prospect: &Prospect<'_>,
        backlog: &mut [Backlog],
        used: &mut BTreeSet<JobId>,
    ) {
        let jobs = scene.fleets.jobs_of(&prospect.fleet.name);
        let mut jobs: Vec<&FleetJob> = jobs.filter(|it| it.cancel.is_none()).collect();
        jobs.sort_by_key(|it| (is_queued(scene, it), it.id));
        for job in jobs {
            let coming = u32::try_from(self.expected(scene, job)).unwrap_or(u32::MAX);
            let here = job.workers.saturating_sub(coming);
            if coming > 0 && prospect.fill(coming, here, backlog) > 0 {
                used.insert(job.id);
            }
        }
    }

    /// How many workers of a job are still to come, or about to work.
    pub(super) fn expected(&self, scene: &Scene<'_>, job: &FleetJob) -> usize {
        let pilots = scene.pilots_of(job.id);
        let coming = pilots.iter().filter(|it| it.is_new).count();
        let Some(watch) = self.jobs.get(&job.id) else {
            return coming;
        };
        let now = scene.now.mono;
        let returns = watch.inherited && job.arrived_at.is_some();
        let is_late = match watch.first_came {
            _ if returns => now.since(self.began) >= RETURN_WAIT,
            Some(first) => now.since(first) >= ARRIVAL_LIMIT,
            None => false,
        };
        if is_late {
            return coming;
        }
        coming + (job.workers as usize).saturating_sub(watch.came.len())
    }

    /// Cancels queued jobs that no longer help, or that exceed a lowered maximum.
    fn shrink(
        &mut self,
        scene: &Scene<'_>,
        prospect: &Prospect<'_>,
        used: &BTreeSet<JobId>,
        out: &mut Vec<Output>,
    ) {
        let now = scene.now.mono;
        let fleet = prospect.fleet;
        let settled = now >= self.returns_until;
        let jobs = scene.fleets.jobs_of(&fleet.name);
        let jobs: Vec<&FleetJob> = jobs.filter(|it| it.cancel.is_none()).collect();
        let wanted = jobs.iter().map(|it| it.workers);
        let mut wanted = wanted.fold(0, u32::saturating_add);
        for job in jobs.into_iter().rev() {
            let Some(watch) = self.jobs.get_mut(&job.id) else {
                continue;
            };
            if used.contains(&job.id) || !is_queued(scene, job) || job.native.is_none() || !settled
            {
                watch.unneeded = None;
                continue;
            }
            let since = *watch.unneeded.get_or_insert(now);
            let is_old = now.since(watch.since) >= CANCEL_AGE && now.since(since) >= UNNEEDED_FOR;
            let exceeds = wanted > fleet.spec.max;
            let is_spare = wanted.saturating_sub(job.workers) >= fleet.spec.min;
            if exceeds || (is_old && is_spare) {
                wanted = wanted.saturating_sub(job.workers);
                self.fleet(&fleet.name).shrunk = Some(now);
                let cause = if exceeds {
                    CancelCause::FleetRemoved
                } else {
                    CancelCause::NoDemand
                };
                out.push(cancel(job, cause));
            }
        }
    }

    /// The number of further workers that would help, and the jobs for them, as far as `max` allows.
    fn wanted(
        &self,
        scene: &Scene<'_>,
        prospect: &Prospect<'_>,
        backlog: &mut [Backlog],
    ) -> Request {
        let Fleet {
            spec,
            paused,
            removed,
            name,
            ..
        } = prospect.fleet;
        if *paused || removed.is_some() {
            let hold = if *paused { Hold::Paused } else { Hold::Removed };
            return Request {
                hold: Some(hold),
                ..Request::default()
            };
        }
        let (helping, helping_jobs) = prospect.open(backlog);
        let jobs = scene.fleets.jobs_of(name).filter(|it| it.cancel.is_none());
        let here: u32 = jobs.map(|it| it.workers).fold(0, u32::saturating_add);
        let workers = helping.max(spec.min.saturating_sub(here));
        let room = spec.max.saturating_sub(prospect.alive) / spec.workers_per_job.max(1);
        // Gangs may leave workers of a job without work.
        let jobs = workers.div_ceil(spec.workers_per_job.max(1));
        let jobs = jobs.max(helping_jobs);
        let is_full = room < jobs || room == 0;
        Request {
            workers,
            jobs: jobs.min(room),
            hold: is_full.then_some(Hold::Max {
                workers: prospect.alive,
                max: spec.max,
            }),
        }
    }

    /// Reduces the jobs that are requested now by all bounds except `max`.
    fn bound(&mut self, scene: &Scene<'_>, prospect: &Prospect<'_>, wanted: &mut Request) {
        let now = scene.now.mono;
        let fleet = prospect.fleet;
        let spec = &fleet.spec;
        let jobs = scene.fleets.jobs_of(&fleet.name);
        let queued = jobs.filter(|it| it.cancel.is_none() && is_queued(scene, it));
        let queued = u32::try_from(queued.count()).unwrap_or(u32::MAX);
        let trial = self.next_trial(scene, fleet);
        let returns_until = self.returns_until;
        let has_token = self.has_token(scene, &fleet.name);
        let watch = self.fleet(&fleet.name);
        while watch
            .starts
            .front()
            .is_some_and(|it| now.since(*it) >= STARTS_SPAN)
        {
            watch.starts.pop_front();
        }
        let (each, least) = STARTS_MAX;
        let most = each.saturating_mul(spec.max / spec.workers_per_job.max(1)) + least;
        let starts = u32::try_from(watch.starts.len()).unwrap_or(u32::MAX);
        let mut reduce = |to: u32, hold: Hold| {
            if to < wanted.jobs {
                wanted.jobs = to;
                wanted.hold = Some(hold);
            }
        };
        let max = spec.backlog;
        reduce(max.saturating_sub(queued), Hold::Backlog { queued, max });
        let max = most;
        reduce(max.saturating_sub(starts), Hold::Starts { starts, max });
        if !has_token {
            reduce(0, Hold::NoToken);
        }
        if now < returns_until {
            reduce(0, Hold::Takeover);
        }
        if watch.shrunk.is_some_and(|it| now.since(it) < REQUEST_PAUSE) {
            reduce(0, Hold::Cancelled);
        }
        if watch.list_failures >= LIST_FAILURES_MAX {
            let error = watch.list_error.clone();
            reduce(0, Hold::Silent { error });
        }
        if let Some(trial) = trial {
            let failures = fleet.trouble.failures;
            let left = trial.since(now);
            if left > Millis(0) {
                let detail = fleet.trouble.detail.clone();
                let hold = Hold::Trial {
                    failures,
                    left,
                    detail,
                };
                reduce(0, hold);
            } else {
                reduce(u32::from(queued == 0), Hold::OneTrial { failures });
            }
        }
    }

    fn request(&mut self, scene: &Scene<'_>, fleet: &Fleet, job: JobId) -> Output {
        self.jobs.insert(job, JobWatch::requested(scene.now.mono));
        Output::Record(Fact::JobRequested {
            job,
            fleet: fleet.name.clone(),
            name: scene.name(&fleet.name, job),
            workers: fleet.spec.workers_per_job,
            at: scene.now.wall,
        })
    }
}

/// Whether a job has not started, as far as is known.
pub(super) fn is_queued(scene: &Scene<'_>, job: &FleetJob) -> bool {
    job.state != Some(JobState::Running)
        && job.arrived_at.is_none()
        && scene.pilots_of(job.id).is_empty()
}
