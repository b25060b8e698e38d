//! Jobs between two answers: pilots that arrive, and jobs that are given up.

use std::collections::BTreeSet;

use baton_model::fact::Fact;
use baton_model::fleet::{CancelCause, Fleet, FleetJob, JobEnd, JobState, Removal};
use baton_model::ids::JobId;
use baton_model::time::{Millis, Mono};

use super::answers::ended;
use super::limits::{
    ABSENT_LIMIT, ARRIVAL_LIMIT, CALL_LIMIT, GONE_AFTER, IDLE_GRACE, LATE_WATCH, LIST_EVERY,
    SIGHT_LIMIT, SIGHT_LISTS,
};
use super::watch::{Controller, JobWatch, Submission};
use super::{Output, Scene};

impl Controller {
    /// Looks after all open jobs.
    pub(crate) fn upkeep(&mut self, scene: &Scene<'_>) -> Vec<Output> {
        self.looked(scene.now.mono);
        let open: BTreeSet<JobId> = scene.fleets.jobs().map(|job| job.id).collect();
        self.jobs.retain(|id, _| open.contains(id));
        self.fleets
            .retain(|name, _| scene.fleets.get(name).is_some());
        let mut out = Vec::new();
        for fleet in scene.fleets.iter() {
            self.note_trouble(scene, fleet);
            let open = scene.fleets.jobs_of(&fleet.name);
            let open = open.filter(|it| it.cancel.is_none());
            let mut workers = open.map(|it| it.workers).fold(0, u32::saturating_add);
            for job in scene.fleets.jobs_of(&fleet.name) {
                self.adopt(scene, job);
                self.arrivals(scene, job, &mut out);
                if let Some(end) = self.end_of(scene, fleet, job) {
                    let until = scene.now.mono + LATE_WATCH;
                    self.fleet(&fleet.name).watch_until = until;
                    out.push(ended(scene, job.id, &fleet.name, end, None));
                } else if job.cancel.is_none()
                    && let Some(cause) = self.cancel_of(scene, fleet, job, workers)
                {
                    workers = workers.saturating_sub(job.workers);
                    out.push(cancel(job, cause));
                }
            }
        }
        out
    }

    /// Begins to watch a job of an earlier leader.
    fn adopt(&mut self, scene: &Scene<'_>, job: &FleetJob) {
        let began = self.began;
        let watch = self.jobs.entry(job.id).or_insert_with(|| {
            let mut watch = JobWatch::inherited(began);
            if job.native.is_none() {
                watch.doubt = Some("an earlier leader has requested it".to_owned());
            }
            if job.state == Some(JobState::Running) {
                watch.running = Some(began);
            }
            if job.cancel.is_some() && seeded!(scene.bugs, CancelForgotten) {
                watch.cancel_called = Some(Mono(u64::MAX));
            }
            watch
        });
        if watch.submission == Submission::Open && scene.now.mono.since(watch.since) >= CALL_LIMIT {
            watch.submission = Submission::Settled(scene.now.mono);
            watch.doubt = Some("its submission was not answered".to_owned());
        }
    }

    /// Notes the pilots that have come; the first one proves the job.
    fn arrivals(&mut self, scene: &Scene<'_>, job: &FleetJob, out: &mut Vec<Output>) {
        let pilots = scene.pilots_of(job.id);
        let Some(watch) = self.jobs.get_mut(&job.id).filter(|_| !pilots.is_empty()) else {
            return;
        };
        let now = scene.now;
        let is_busy = pilots.iter().any(|it| it.is_busy);
        watch.idle = (!is_busy).then(|| watch.idle.unwrap_or(now.mono));
        watch.came.extend(pilots.iter().map(|it| it.number));
        watch.first_came.get_or_insert(now.mono);
        watch.last_here = Some(now.mono);
        watch.doubt = None;
        if job.arrived_at.is_some() {
            return;
        }
        let took = (!watch.inherited).then(|| now.mono.since(watch.since));
        out.push(Output::Record(Fact::JobArrived {
            job: job.id,
            fleet: job.fleet.clone(),
            at: now.wall,
        }));
        if let Some(took) = took {
            let watch = self.fleet(&job.fleet);
            let known = watch.start_cost.unwrap_or(took);
            watch.start_cost = Some(Millis(known.0 / 4 * 3 + took.0 / 4));
        }
    }

    /// The end of a job that the lists miss, if it is proved by time.
    fn end_of(&self, scene: &Scene<'_>, fleet: &Fleet, job: &FleetJob) -> Option<JobEnd> {
        let watch = self.jobs.get(&job.id)?;
        let (since, _) = watch.missing?;
        if !scene.pilots_of(job.id).is_empty() {
            return None;
        }
        let now = scene.now.mono;
        let listed = self.fleets.get(&fleet.name).and_then(|it| it.listed);
        let taken = watch.cancel_taken.filter(|taken| *taken >= since);
        // The manager has taken the order, and still does not show it.
        let is_gone = taken.is_some_and(|taken| {
            now.since(taken) >= GONE_AFTER && listed.is_some_and(|listed| listed > taken)
        });
        let ran = job.state == Some(JobState::Running);
        let limit = fleet.spec.time_limit.filter(|_| ran);
        let is_over = limit.is_some_and(|limit| now.since(since) >= limit + LIST_EVERY);
        (is_gone || is_over).then_some(match job.native {
            None if job.arrived_at.is_none() => JobEnd::NeverSeen,
            _ => JobEnd::Vanished,
        })
    }

    /// The reason to cancel a job, apart from the demand.
    fn cancel_of(
        &self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        job: &FleetJob,
        workers: u32,
    ) -> Option<CancelCause> {
        let watch = self.jobs.get(&job.id)?;
        let now = scene.now.mono;
        let is_here = !scene.pilots_of(job.id).is_empty();
        let queued = !is_here && job.state != Some(JobState::Running);
        match fleet.removed {
            Some(Removal::Cancel) => return Some(CancelCause::FleetRemoved),
            Some(Removal::Drain) if queued => return Some(CancelCause::FleetRemoved),
            _ => {}
        }
        if is_here {
            // Pilots end by themselves when they are idle, except those that were kept for `min`.
            let limit = fleet.spec.idle_timeout + IDLE_GRACE;
            let is_idle = watch.idle.is_some_and(|since| now.since(since) >= limit);
            let is_spare = workers.saturating_sub(job.workers) >= fleet.spec.min;
            return match fleet.removed {
                Some(_) if is_idle => Some(CancelCause::FleetRemoved),
                None if is_idle && is_spare => Some(CancelCause::NoDemand),
                _ => None,
            };
        }
        // A worker that may hold a lease keeps its seat, however long it is silent: nothing is lost here.
        let alone = watch.running.max(watch.last_here);
        if watch.running.is_some() && alone.is_some_and(|since| now.since(since) >= ARRIVAL_LIMIT) {
            return Some(CancelCause::NoPilot);
        }
        let (since, lists) = watch.missing?;
        let Submission::Settled(settled) = watch.submission else {
            return None;
        };
        if job.native.is_none() && job.arrived_at.is_none() {
            let long = now.since(settled) >= SIGHT_LIMIT && lists >= SIGHT_LISTS;
            return long.then_some(CancelCause::NeverSeen);
        }
        (now.since(since) >= ABSENT_LIMIT).then_some(CancelCause::Absent)
    }
}

pub(super) fn cancel(job: &FleetJob, cause: CancelCause) -> Output {
    Output::Record(Fact::JobCancelRequested {
        job: job.id,
        fleet: job.fleet.clone(),
        cause,
        surplus: None,
    })
}
