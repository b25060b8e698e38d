//! Fleets as people see them: states, reasons and alarms, in sentences.

use baton_model::fleet::{Backend, Fleet, FleetJob, JobState};
use baton_model::message::HostSize;
use baton_model::placement::Capacity;
use baton_model::time::Millis;

use super::trouble::avoided;
use super::watch::{Controller, Request, Submission};
use super::{Scene, size};
use crate::wait::{Exclusion, Failed, FleetWait, Hold, KIND_NAMES, Prospect, amount, duration};

/// A fleet at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetView {
    pub fleet: Fleet,
    /// Workers that have a seat.
    pub here: u32,
    /// Workers that were requested and are not here yet.
    pub expected: u32,
    /// Workers of all jobs that are not proved over: they count against `max`.
    pub requested: u32,
    /// Further workers that would help.
    pub wanted: u32,
    /// What is requested now or next, and why no more: one sentence.
    pub plan: String,
    pub jobs: Vec<JobView>,
    /// What an operator should know, in sentences.
    pub alarms: Vec<String>,
    /// Time to the next trial of a failing fleet.
    pub next_trial: Option<Millis>,
    /// Nodes that its next job avoids.
    pub avoided: Vec<String>,
    /// Time since the last list that the manager answered was asked for; none if there was none in this term.
    pub list_age: Option<Millis>,
}

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    pub job: FleetJob,
    /// Workers of it that have a seat.
    pub here: u32,
    /// Its state and the reason for it.
    pub text: String,
}

impl Controller {
    /// All fleets, by name.
    pub(crate) fn views(&self, scene: &Scene<'_>) -> Vec<FleetView> {
        let fleets = scene.fleets.iter();
        fleets.map(|fleet| self.view(scene, fleet)).collect()
    }

    fn view(&self, scene: &Scene<'_>, fleet: &Fleet) -> FleetView {
        let jobs: Vec<&FleetJob> = scene.fleets.jobs_of(&fleet.name).collect();
        let sum = |count: &dyn Fn(&FleetJob) -> u32| jobs.iter().map(|it| count(it)).sum();
        let open = jobs.iter().filter(|it| it.cancel.is_none());
        let expected: usize = open.map(|it| self.expected(scene, it)).sum();
        let trial = self.next_trial(scene, fleet);
        let wanted = self.fleets.get(&fleet.name).map(|it| &it.wanted);
        FleetView {
            here: sum(&|it| count(scene.pilots_of(it.id).len())),
            expected: count(expected),
            requested: sum(&|it| it.workers),
            wanted: wanted.map_or(0, |it| it.workers),
            plan: self.plan(scene, fleet),
            jobs: jobs.iter().map(|it| self.job_view(scene, it)).collect(),
            alarms: self.alarms(scene, fleet, &jobs),
            next_trial: trial.map(|at| at.since(scene.now.mono)),
            avoided: avoided(fleet, scene.now.wall),
            list_age: self
                .fleets
                .get(&fleet.name)
                .and_then(|it| it.listed)
                .map(|at| scene.now.mono.since(at)),
            fleet: fleet.clone(),
        }
    }

    /// What is requested now or next, and why no more.
    fn plan(&self, scene: &Scene<'_>, fleet: &Fleet) -> String {
        let Some(wanted) = self.fleets.get(&fleet.name).map(|it| &it.wanted) else {
            return "it was not looked at yet".to_owned();
        };
        let hold = self.hold(scene, fleet, wanted);
        let is_held = hold.is_some();
        let because = hold.map_or_else(String::new, |it| format!(": {it}"));
        let help = match wanted.workers {
            1 => "1 further worker would help".to_owned(),
            workers => format!("{workers} further workers would help"),
        };
        match (wanted.workers, wanted.jobs) {
            (0, _) if is_held => format!("it requests nothing{because}"),
            (0, _) => "nothing waits for further workers".to_owned(),
            (_, 0) => format!("{help}; none is requested{because}"),
            (_, 1) => format!("{help}; it requests 1 job{because}"),
            (_, jobs) => format!("{help}; it requests {jobs} jobs{because}"),
        }
    }

    fn job_view(&self, scene: &Scene<'_>, job: &FleetJob) -> JobView {
        let pilots = scene.pilots_of(job.id);
        JobView {
            job: job.clone(),
            here: count(pilots.len()),
            text: self.job_text(scene, job, !pilots.is_empty()),
        }
    }

    fn job_text(&self, scene: &Scene<'_>, job: &FleetJob, is_here: bool) -> String {
        let now = scene.now.mono;
        let watch = self.jobs.get(&job.id);
        let doubt = watch.and_then(|it| it.doubt.as_deref());
        let missing = watch.and_then(|it| it.missing);
        let detail = job.detail.as_ref();
        let detail = detail.map_or_else(String::new, |it| format!(" ({it})"));
        let state = match (job.state, doubt) {
            (_, Some(doubt)) => format!("unclear whether it exists: {doubt}"),
            (None, None) if watch.is_some_and(|it| it.submission == Submission::Open) => {
                "being submitted".to_owned()
            }
            (None, None) => "submitted".to_owned(),
            (Some(JobState::Running), None) if is_here => "running".to_owned(),
            (Some(JobState::Running), None) if job.arrived_at.is_some() => {
                "running, its workers are gone".to_owned()
            }
            (Some(JobState::Running), None) => "running, its workers are coming".to_owned(),
            (Some(state), None) => format!("{}{detail}", state.word()),
        };
        let missing = missing.map_or_else(String::new, |(since, _)| {
            let for_long = duration(now.since(since));
            format!("; missing in the lists for {for_long}, which is no proof of its end")
        });
        let cancel = job.cancel.map_or_else(String::new, |cause| {
            format!("; being cancelled, since {}", cause.sentence())
        });
        format!("{state}{missing}{cancel}")
    }

    fn alarms(&self, scene: &Scene<'_>, fleet: &Fleet, jobs: &[&FleetJob]) -> Vec<String> {
        let mut alarms = Vec::new();
        let trouble = &fleet.trouble;
        if trouble.failures > 0 {
            let detail = trouble.detail.as_ref();
            let detail = detail.map_or_else(String::new, |it| format!(": {it}"));
            let failed = Failed(trouble.failures);
            alarms.push(format!("{failed}{detail}"));
        }
        if let Some(watch) = self.fleets.get(&fleet.name) {
            if let Some(error) = &watch.list_error {
                alarms.push(format!("the cluster manager cannot be asked: {error}"));
            }
            if let Some(error) = &watch.token.error {
                alarms.push(format!("its workers get no token: {error}"));
            }
            if let Some(error) = &watch.cancel_error {
                alarms.push(format!("jobs cannot be cancelled: {error}"));
            }
            if watch.foreign > 0 {
                alarms.push(format!(
                    "{} jobs belong to another copy of this store, and are left alone",
                    watch.foreign
                ));
            }
        }
        let declared = &fleet.spec.shape.capacity;
        let pilots = jobs.iter().flat_map(|job| scene.pilots_of(job.id));
        for pilot in pilots {
            alarms.extend(overstated(declared, pilot.host).map(|(has, told)| {
                let name = &pilot.name;
                format!("the fleet declares {told}, and worker {name} may use {has} of its node; declare less, or \
                         request more")
            }));
            let found = &pilot.offer.capacity;
            alarms.extend(mismatch(declared, found).map(|(has, told)| {
                let name = &pilot.name;
                format!("worker {name} has {has}, and the fleet declares {told}; the declared shape counts")
            }));
        }
        alarms
    }

    /// What a fleet does for an instance that waits for a worker.
    pub(crate) fn explain(
        &self,
        scene: &Scene<'_>,
        fleet: &Fleet,
        misfit: Option<Exclusion>,
    ) -> FleetWait {
        FleetWait {
            fleet: fleet.name.clone(),
            prospect: match misfit {
                Some(misfit) => Prospect::Misfit(misfit),
                None => self.prospect(scene, fleet),
            },
        }
    }

    fn prospect(&self, scene: &Scene<'_>, fleet: &Fleet) -> Prospect {
        let name = &fleet.name;
        let jobs = scene.fleets.jobs_of(name).filter(|it| it.cancel.is_none());
        let coming: Vec<&FleetJob> = jobs.filter(|it| self.expected(scene, it) > 0).collect();
        let queued = coming.iter().filter(|it| size::is_queued(scene, it));
        let queued: Vec<&&FleetJob> = queued.collect();
        if let Some(first) = queued.first() {
            let since = first.requested_at;
            return Prospect::Queued {
                jobs: queued.len(),
                reason: first.detail.clone(),
                manager: matches!(fleet.spec.backend, Backend::Slurm(_)).then_some("Slurm"),
                since,
                waited: scene.now.wall.since(since),
            };
        }
        if !coming.is_empty() {
            return Prospect::Starting { jobs: coming.len() };
        }
        match self.fleets.get(name).map(|it| &it.wanted) {
            Some(wanted) if wanted.jobs > 0 => Prospect::Requesting { jobs: wanted.jobs },
            Some(wanted) => match self.hold(scene, fleet, wanted) {
                Some(hold) => Prospect::Held(hold),
                None => Prospect::Idle,
            },
            None => Prospect::Idle,
        }
    }

    /// Why a fleet requests no more, with the time that is left now.
    fn hold(&self, scene: &Scene<'_>, fleet: &Fleet, wanted: &Request) -> Option<Hold> {
        let mut hold = wanted.hold.clone()?;
        if let Hold::Trial { left, .. } = &mut hold
            && let Some(at) = self.next_trial(scene, fleet)
        {
            *left = at.since(scene.now.mono);
        }
        Some(hold)
    }
}

/// A resource of which a worker has less than its fleet declares, with both amounts.
fn mismatch(declared: &Capacity, found: &Capacity) -> Option<(String, String)> {
    let kinds = |it: &Capacity| [it.cpu_milli, it.memory, it.disk, it.gpu.milli()];
    let kinds = kinds(found).into_iter().zip(kinds(declared));
    let kinds = KIND_NAMES.into_iter().zip(kinds);
    let named = declared.named.iter().map(|(name, told)| {
        let has = found.named.get(name).copied().unwrap_or(0);
        (name.as_str(), (has, *told))
    });
    let mut all = kinds.chain(named);
    let (name, (has, told)) = all.find(|(_, (has, told))| has < told)?;
    Some((amount(name, has), amount(name, told)))
}

/// A resource of which a worker offers more than it may use, with both amounts: what it may use, and what is declared.
fn overstated(declared: &Capacity, host: HostSize) -> Option<(String, String)> {
    let known = |has: u64, told: u64| if has == 0 { told } else { has };
    let found = Capacity {
        cpu_milli: known(host.cpu_milli, declared.cpu_milli),
        memory: known(host.memory, declared.memory),
        ..declared.clone()
    };
    mismatch(declared, &found)
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
