//! Answers of backends: what they prove, and what they leave open.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::fact::Fact;
use baton_model::fleet::{
    CancelCause, Fleet, FleetAnswer, FleetJob, FleetName, JobEnd, JobSighting, JobState,
};
use baton_model::ids::JobId;
use baton_model::time::Mono;

use super::watch::{Controller, Submission, Surplus};
use super::{Output, Scene, proof};

impl Controller {
    /// Takes the answer to a call.
    pub(crate) fn answer(&mut self, scene: &Scene<'_>, answer: FleetAnswer) -> Vec<Output> {
        let now = scene.now.mono;
        self.look_soon();
        let mut out = Vec::new();
        match answer {
            FleetAnswer::Submitted { fleet, job, native } => {
                self.settle(now, job, None);
                let known = scene.fleets.job(job);
                if known.is_some_and(|it| it.native.is_none()) {
                    out.push(Output::Record(Fact::JobSubmitted { job, fleet, native }));
                }
            }
            FleetAnswer::Refused { fleet, job, reason } => {
                self.settle(now, job, Some(reason.clone()));
                let known = scene.fleets.job(job);
                if known.is_some_and(|it| it.native.is_none() && it.arrived_at.is_none()) {
                    out.push(ended(scene, job, &fleet, JobEnd::Refused, Some(reason)));
                }
            }
            FleetAnswer::Unclear { job, reason, .. } => {
                self.settle(now, job, Some(reason));
                if seeded!(scene.bugs, SubmittedAgain)
                    && let Some(watch) = self.jobs.get_mut(&job)
                {
                    watch.submission = Submission::Due;
                }
            }
            FleetAnswer::Listed { fleet, jobs } => {
                if let Some(known) = scene.fleets.get(&fleet) {
                    self.listed(scene, known, &jobs, &mut out);
                }
            }
            FleetAnswer::ListFailed { fleet, reason } => {
                let watch = self.fleet(&fleet);
                watch.list_called = None;
                watch.list_failures = watch.list_failures.saturating_add(1);
                watch.list_error = Some(reason);
            }
            FleetAnswer::TokenReady { fleet, call, until } => {
                self.token_answered(now, &fleet, call, Ok(until));
            }
            FleetAnswer::TokenFailed {
                fleet,
                call,
                reason,
            } => self.token_answered(now, &fleet, call, Err(reason)),
            FleetAnswer::Cancelled { fleet } => {
                let watch = self.fleet(&fleet);
                watch.cancel_error = None;
                let taken = watch.cancel_called.take();
                for job in taken.into_iter().flat_map(|(_, jobs)| jobs) {
                    if let Some(watch) = self.jobs.get_mut(&job) {
                        watch.cancel_taken = Some(now);
                    }
                }
            }
            FleetAnswer::CancelFailed { fleet, reason } => {
                let watch = self.fleet(&fleet);
                watch.cancel_called = None;
                watch.cancel_error = Some(reason);
            }
        }
        out
    }

    fn settle(&mut self, now: Mono, job: JobId, doubt: Option<String>) {
        if let Some(watch) = self.jobs.get_mut(&job) {
            watch.submission = Submission::Settled(now);
            watch.doubt = doubt;
        }
    }

    fn listed(
        &mut self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        sightings: &[JobSighting],
        out: &mut Vec<Output>,
    ) {
        let watch = self.fleet(&fleet.name);
        let called = watch.list_called.take();
        watch.list_failures = 0;
        watch.list_error = None;
        watch.listed = called.or(watch.listed);
        let mut by_name: BTreeMap<&str, Vec<&JobSighting>> = BTreeMap::new();
        for sighting in sightings {
            by_name.entry(&sighting.name).or_default().push(sighting);
        }
        let mut surplus = BTreeSet::new();
        for job in scene.fleets.jobs_of(&fleet.name) {
            let seen = by_name.remove(job.name.as_str()).unwrap_or_default();
            let claim = self.jobs.get(&job.id).and_then(|it| it.claim.clone());
            let (found, duplicates) = choose(job, &seen, claim.is_some());
            for it in duplicates {
                surplus.insert(it.native.clone());
                self.found_surplus(fleet, job.id, it, CancelCause::Duplicate, out);
            }
            match (found, claim) {
                // Either it has ended meanwhile, or the manager has doubled it and shows the other one only.
                (Some(it), _) if it.state.is_over() && scene.is_heard_since(job.id, called) => {
                    self.missed(scene, fleet, job, called, out);
                    if let Some(watch) = self.jobs.get_mut(&job.id) {
                        watch.claim = Some((it.clone(), scene.now.mono));
                    }
                }
                (Some(it), _) => self.sighted(scene, fleet, job, it, out),
                (None, Some((it, at))) if !scene.is_heard_since(job.id, Some(at)) => {
                    self.sighted(scene, fleet, job, &it, out);
                }
                (None, _) => self.missed(scene, fleet, job, called, out),
            }
        }
        let foreign = self.unowned(scene, fleet, &by_name, &mut surplus, out);
        let watch = self.fleet(&fleet.name);
        watch.foreign = foreign;
        // What the list no longer has is gone, or comes again.
        watch.surplus.retain(|native, _| surplus.contains(native));
    }

    /// Cancels jobs of this store and generation that no open request owns. Returns the number of jobs of another
    /// generation: a copy of this store may want them, so they are only shown.
    fn unowned(
        &mut self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        by_name: &BTreeMap<&str, Vec<&JobSighting>>,
        surplus: &mut BTreeSet<String>,
        out: &mut Vec<Output>,
    ) -> usize {
        let ours = format!("{}{}-p", scene.prefix(), fleet.name);
        let store = format!("baton-{:x}", scene.identity.0.0);
        let mut foreign = 0;
        for (name, seen) in by_name {
            let alive = seen.iter().filter(|it| !it.state.is_over());
            let number = name.strip_prefix(&ours).and_then(|it| it.parse().ok());
            if let Some(number) = number {
                for it in alive {
                    surplus.insert(it.native.clone());
                    self.found_surplus(fleet, JobId(number), it, CancelCause::Unknown, out);
                }
            } else if name.starts_with(&format!("{store}."))
                || (name.starts_with(&format!("{store}-")) && !name.starts_with(&scene.prefix()))
            {
                let owned = scene.fleets.jobs().any(|job| job.name == *name);
                foreign += if owned { 0 } else { alive.count() };
            }
        }
        foreign
    }

    fn found_surplus(
        &mut self,
        fleet: &Fleet,
        job: JobId,
        sighting: &JobSighting,
        cause: CancelCause,
        out: &mut Vec<Output>,
    ) {
        let watch = self.fleet(&fleet.name);
        if watch.surplus.contains_key(&sighting.native) {
            return;
        }
        let name = sighting.name.clone();
        let cancelled = None;
        watch
            .surplus
            .insert(sighting.native.clone(), Surplus { name, cancelled });
        out.push(Output::Record(Fact::JobCancelRequested {
            job,
            fleet: fleet.name.clone(),
            cause,
            surplus: Some(sighting.native.clone()),
        }));
    }

    /// A list has shown a job.
    fn sighted(
        &mut self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        job: &FleetJob,
        it: &JobSighting,
        out: &mut Vec<Output>,
    ) {
        let now = scene.now;
        if let Some(watch) = self.jobs.get_mut(&job.id) {
            watch.missing = None;
            watch.claim = None;
            watch.doubt = None;
            watch.running = match it.state {
                JobState::Running => watch.running.or(Some(now.mono)),
                JobState::Queued => None,
                _ => watch.running,
            };
        }
        if job.native.as_ref() != Some(&it.native) {
            out.push(Output::Record(Fact::JobSubmitted {
                job: job.id,
                fleet: fleet.name.clone(),
                native: it.native.clone(),
            }));
        }
        let word = || Some(it.word.clone()).filter(|_| it.state == JobState::Unsure);
        let detail = it.reason.clone().or_else(word);
        let moved = !it.nodes.is_empty() && it.nodes != job.nodes;
        let changed = job.state != Some(it.state) || job.detail != detail;
        let end = match it.state {
            JobState::Ended => Some(JobEnd::Ended),
            JobState::Preempted => Some(JobEnd::Preempted),
            JobState::Failed => Some(JobEnd::Failed),
            JobState::Queued | JobState::Running | JobState::Unsure => None,
        };
        if moved || (changed && end.is_none()) {
            out.push(Output::Record(Fact::JobObserved {
                job: job.id,
                fleet: fleet.name.clone(),
                state: it.state,
                detail,
                nodes: it.nodes.clone(),
                at: now.wall,
            }));
        }
        if let Some(end) = end {
            let proof = proof(it, scene.bugs);
            out.extend(proof.map(|proof| Output::Proved(job.clone(), proof)));
            let detail = match &it.reason {
                Some(reason) => format!("{} ({reason})", it.word),
                None => it.word.clone(),
            };
            out.push(ended(scene, job.id, &fleet.name, end, Some(detail)));
        }
    }

    /// A list has not shown a job. That proves nothing if it was called before the submission was answered.
    fn missed(
        &mut self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        job: &FleetJob,
        called: Option<Mono>,
        out: &mut Vec<Output>,
    ) {
        let Some(watch) = self.jobs.get_mut(&job.id) else {
            return;
        };
        let Some(called) = called.filter(|it| watch.is_settled_before(*it)) else {
            return;
        };
        let (since, lists) = watch.missing.unwrap_or((called, 0));
        watch.missing = Some((since, lists.saturating_add(1)));
        if seeded!(scene.bugs, AbsenceIsEnd) {
            out.push(ended(scene, job.id, &fleet.name, JobEnd::Ended, None));
        }
    }
}

/// The job of a request among several of its name, if it is among them, and those to cancel. One that is alive goes
/// before one that is over, and the one that was known before others. Without the known one the others are duplicates,
/// and neither their life nor their end says anything about it; unless it `was_over` before.
fn choose<'a>(
    job: &FleetJob,
    seen: &[&'a JobSighting],
    was_over: bool,
) -> (Option<&'a JobSighting>, Vec<&'a JobSighting>) {
    let is_known = |it: &JobSighting| job.native.as_ref() == Some(&it.native);
    let mut seen = seen.to_vec();
    seen.sort_by_key(|it| (it.state.is_over(), !is_known(it), it.native.clone()));
    let has_known = seen.iter().any(|it| is_known(it));
    let first = if job.native.is_none() || has_known {
        seen.first().copied()
    } else {
        let first = seen.first().copied();
        first.filter(|it| was_over && !it.state.is_over())
    };
    let others = seen.into_iter().skip(usize::from(first.is_some()));
    (first, others.filter(|it| !it.state.is_over()).collect())
}

pub(super) fn ended(
    scene: &Scene<'_>,
    job: JobId,
    fleet: &FleetName,
    end: JobEnd,
    detail: Option<String>,
) -> Output {
    Output::Record(Fact::JobEnded {
        job,
        fleet: fleet.clone(),
        end,
        detail,
        at: scene.now.wall,
    })
}
