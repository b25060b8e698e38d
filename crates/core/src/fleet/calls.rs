//! Calls of backends, and when they are due.

use std::sync::Arc;

use baton_model::fleet::{Fleet, FleetCall, FleetJob, FleetSpec, JobState};
use baton_model::time::{Millis, Mono};

use super::limits::{
    CALL_LIMIT, CANCEL_AGAIN, KEPT_IDLE, LIST_BACKOFF_MAX, LIST_EVERY, LIST_SELDOM,
};
use super::trouble::avoided;
use super::watch::{Controller, Submission};
use super::{Scene, size};
use crate::ledger::Fleets;

/// Lists that a leader tries, at most, if no job of the fleet is open.
const FIRST_LISTS_MAX: u32 = 5;

impl Controller {
    /// The calls that are due. Each leaves when all facts so far are durable.
    pub(crate) fn calls(&mut self, scene: &Scene<'_>) -> Vec<FleetCall> {
        let mut calls = Vec::new();
        for fleet in scene.fleets.iter() {
            self.token(scene, fleet, &mut calls);
            self.submissions(scene, fleet, &mut calls);
            self.cancellations(scene, fleet, &mut calls);
            self.lists(scene, fleet, &mut calls);
        }
        calls
    }

    /// When the next look is due; none while there is nothing to look at.
    pub(crate) fn next_due(&self, fleets: &Fleets, has_waiting: bool) -> Option<Mono> {
        if fleets.is_empty() {
            return None;
        }
        let is_busy = has_waiting || fleets.jobs().next().is_some();
        let is_kept = fleets.iter().any(|it| it.spec.min > 0 && !it.paused);
        let watched = fleets.iter().any(|it| {
            let watch = self.fleets.get(&it.name);
            watch.is_none_or(|watch| {
                watch.watch_until > self.next_look
                    || !watch.surplus.is_empty()
                    || watch.list_called.is_some()
                    || watch.token.called.is_some()
                    || (watch.listed.is_none() && watch.list_failures < FIRST_LISTS_MAX)
            })
        });
        (is_busy || is_kept || watched).then_some(self.next_look())
    }

    fn submissions(&mut self, scene: &Scene<'_>, fleet: &Fleet, calls: &mut Vec<FleetCall>) {
        if !self.has_token(scene, &fleet.name) {
            return;
        }
        let mut workers = 0_u32;
        for job in scene.fleets.jobs_of(&fleet.name) {
            if job.cancel.is_some() {
                continue;
            }
            let is_kept = workers < fleet.spec.min;
            workers = workers.saturating_add(job.workers);
            let Some(watch) = self.jobs.get_mut(&job.id) else {
                continue;
            };
            if watch.submission != Submission::Due {
                continue;
            }
            watch.submission = Submission::Open;
            watch.since = scene.now.mono;
            self.fleet(&fleet.name).starts.push_back(scene.now.mono);
            calls.push(FleetCall::Submit {
                fleet: fleet.name.clone(),
                job: job.id,
                name: job.name.clone(),
                spec: if is_kept {
                    kept(&fleet.spec)
                } else {
                    Arc::clone(&fleet.spec)
                },
                excluded: avoided(fleet, scene.now.wall),
            });
        }
    }

    fn cancellations(&mut self, scene: &Scene<'_>, fleet: &Fleet, calls: &mut Vec<FleetCall>) {
        let now = scene.now.mono;
        let open = self.fleet(&fleet.name).cancel_called.as_ref();
        if open.is_some_and(|(called, _)| now.since(*called) < CALL_LIMIT) {
            return;
        }
        let is_again = |at: Option<Mono>| at.is_none_or(|at| now.since(at) >= CANCEL_AGAIN);
        let mut jobs = Vec::new();
        let mut ids = Vec::new();
        for job in scene.fleets.jobs_of(&fleet.name) {
            let Some(watch) = self.jobs.get_mut(&job.id) else {
                continue;
            };
            let missing = watch.missing.map(|(since, _)| since);
            let is_taken = missing.is_some() && watch.cancel_taken >= missing;
            if job.cancel.is_none()
                || watch.submission == Submission::Open
                || is_taken
                || !is_again(watch.cancel_called)
            {
                continue;
            }
            watch.cancel_called = Some(now);
            ids.push(job.id);
            jobs.push((job.native.clone().unwrap_or_default(), job.name.clone()));
        }
        let watch = self.fleet(&fleet.name);
        for (native, surplus) in &mut watch.surplus {
            if is_again(surplus.cancelled) {
                surplus.cancelled = Some(now);
                jobs.push((native.clone(), surplus.name.clone()));
            }
        }
        if !jobs.is_empty() {
            watch.cancel_called = Some((now, ids));
            calls.push(FleetCall::Cancel {
                fleet: fleet.name.clone(),
                spec: Arc::clone(&fleet.spec),
                jobs,
            });
        }
    }

    fn lists(&mut self, scene: &Scene<'_>, fleet: &Fleet, calls: &mut Vec<FleetCall>) {
        let now = scene.now.mono;
        let jobs = scene.fleets.jobs_of(&fleet.name);
        let jobs: Vec<&FleetJob> = jobs.collect();
        let is_calm = jobs.iter().all(|job| self.is_calm(scene, job));
        let watch = self.fleet(&fleet.name);
        if let Some(called) = watch.list_called
            && now.since(called) >= CALL_LIMIT
        {
            watch.list_called = None;
            watch.list_failures = watch.list_failures.saturating_add(1);
            watch.list_error = Some("no answer".to_owned());
        }
        let is_first = watch.listed.is_none() && watch.list_failures < FIRST_LISTS_MAX;
        let is_needed =
            !jobs.is_empty() || now < watch.watch_until || !watch.surplus.is_empty() || is_first;
        let pause = if is_calm && watch.surplus.is_empty() {
            LIST_SELDOM
        } else {
            LIST_EVERY
        };
        let doubled = pause.0 << watch.list_failures.min(8);
        let pause = Millis(doubled).min(LIST_BACKOFF_MAX);
        let is_due = watch.last_list.is_none_or(|at| now.since(at) >= pause);
        if is_needed && is_due && watch.list_called.is_none() {
            watch.list_called = Some(now);
            watch.last_list = Some(now);
            calls.push(FleetCall::List {
                fleet: fleet.name.clone(),
                spec: Arc::clone(&fleet.spec),
            });
        }
    }

    /// Whether nothing about a job is open: it runs, and its pilots are here.
    fn is_calm(&self, scene: &Scene<'_>, job: &FleetJob) -> bool {
        let watch = self.jobs.get(&job.id);
        job.state == Some(JobState::Running)
            && job.cancel.is_none()
            && !size::is_queued(scene, job)
            && watch.is_some_and(|it| it.doubt.is_none() && it.missing.is_none())
            && !scene.pilots_of(job.id).is_empty()
    }
}

/// The definition for a worker that is kept without demand: it does not end because it is idle.
fn kept(spec: &FleetSpec) -> Arc<FleetSpec> {
    Arc::new(FleetSpec {
        idle_timeout: spec.time_limit.unwrap_or(KEPT_IDLE),
        ..spec.clone()
    })
}
