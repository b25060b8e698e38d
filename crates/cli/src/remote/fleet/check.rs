//! `baton fleet check`: a trial task on a worker that a fleet has obtained.
//!
//! The task is an ordinary instance that only workers of the fleet may run, so the fleet requests a job for it as for
//! any other: nothing is submitted beside its records, and nothing of it outlives the check but an idle worker.

use std::io::Write;
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError};
use baton_files::limits::PRIORITY_MAX;
use baton_files::units;
use baton_model::api::{Fleet, Instance, Submit};
use baton_model::fleet::Verdict;
use baton_model::ids::InstanceId;
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::logs_of;
use crate::connection::refused;
use crate::output::{CANCELLED, CommandResult, Failure, Output, Style, clean, note};
use crate::painter::Progress;
use crate::remote::{selection, submit, waiting};
use crate::text::Line;
use crate::time::span;

/// How long one request waits for the end of the trial task.
const LONG_POLL: Duration = Duration::from_secs(1);
/// The time of the trial task itself.
const TRIAL_TIME: &str = "1m";
/// Clocks that differ by more make timelines hard to read.
const CLOCK_OFFSET_MAX: f64 = 5.0;

/// Options of `baton fleet check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Name of the fleet
    name: String,
    /// Give up after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration)]
    timeout: Millis,
}

/// What a check has found.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Findings {
    fleet: String,
    ok: bool,
    /// Seconds until the trial task had ended.
    seconds: f64,
    /// Why it is not well.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What the cluster manager says about a job of it.
    trial: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    native: Option<String>,
    nodes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// The address by which the worker has reached the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialled: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_version: Option<String>,
    scheduler_version: String,
    /// The build id of the worker's binary, and that of the scheduler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_build: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler_build: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_seconds: Option<f64>,
}

pub(super) async fn run(check: &Check, json: bool, client: &Client) -> CommandResult {
    let fleet = client.fleet(&check.name).await.map_err(refused)?;
    let name = clean(&fleet.name);
    if fleet.removed.is_some() || fleet.paused {
        let (state, hint) = if fleet.removed.is_some() {
            ("removed", "define it again when its last job has ended")
        } else {
            ("paused", "run `baton fleet resume` first")
        };
        return Err(Failure::failed(format!(
            "fleet {name} is {state}, so it requests no job; {hint}"
        )));
    }
    let trial = client.try_fleet(&fleet.name, &fleet.definition).await;
    let trial = trial.map_err(refused)?;
    if trial.verdict == Verdict::Refused {
        return Err(Failure::failed(format!(
            "the cluster manager would refuse its jobs: {}",
            clean(&trial.text)
        )));
    }
    if !json && trial.verdict != Verdict::Untried {
        note(&clean(&trial.text));
    }
    let began = Instant::now();
    let root = client.root().await.map_err(refused)?;
    let submitted = client.submit(&task(&fleet.name)).await;
    let id = submit::span(&submitted.map_err(refused)?)?.first;
    let ended = tokio::select! {
        ended = until_ended(check, id, client) => ended,
        Ok(()) = tokio::signal::ctrl_c() => {
            cancel(id, client).await?;
            return Err(Failure::Message(CANCELLED, format!("the trial task {id} was cancelled")));
        }
    };
    let mut found = Findings {
        fleet: fleet.name.clone(),
        trial: trial.text,
        scheduler_version: root.version,
        scheduler_build: root.build,
        seconds: began.elapsed().as_secs_f64(),
        ..Findings::default()
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            if cancel(id, client).await.is_err() {
                note(&format!(
                    "the trial task {id} is left; `baton cancel {id}` ends it"
                ));
            }
            return Err(refused(error));
        }
    };
    match ended {
        Some(instance) => found.take_end(&instance, client).await,
        None => {
            let explained = client.explain(id).await.map_err(refused)?;
            // What other fleets do for the task, and how to start a worker by hand, is no matter of the check.
            let own = explained.fleets.iter().find(|it| it.fleet == fleet.name);
            let reason = own.map_or(&explained.text, |it| &it.text);
            let limit = span(check.timeout);
            found.problem = Some(format!(
                "no worker of it has run the trial task within {limit}: {reason}"
            ));
            cancel(id, client).await?;
            found.take_job(None, client).await;
        }
    }
    found.ok = found.problem.is_none();
    let mut out = Output::new();
    if json {
        out.json(&found)?;
    } else {
        found.write(&mut out)?;
        if let (false, Some(job)) = (found.ok, &found.job)
            && let Ok(logs) = client.fleet_job_log(&fleet.name, job).await
        {
            logs_of(&logs, false, &mut out)?;
        }
    }
    out.done()?;
    if found.ok {
        Ok(())
    } else {
        Err(Failure::Silent(crate::output::FAILED))
    }
}

/// The trial task. It needs nothing, so that it runs on any worker of the fleet, and comes first.
fn task(fleet: &str) -> Submit<Value> {
    let file = json!({
        "task": "fleet-check",
        "run": "true",
        "constraints": { "fleet": fleet },
        "resources": { "cpu": 0 },
        "priority": PRIORITY_MAX,
        "timeout": TRIAL_TIME,
        "tags": ["fleet-check"],
    });
    Submit {
        file,
        ..Submit::default()
    }
}

/// Waits for the end of the trial task, and shows what becomes of the request for a worker. None if the time is over.
async fn until_ended(
    check: &Check,
    id: InstanceId,
    client: &Client,
) -> Result<Option<Instance>, ClientError> {
    let began = Instant::now();
    let limit = Duration::from_millis(check.timeout.0);
    let mut progress = Progress::new();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        let wait = || client.wait(id, LONG_POLL.min(left));
        let instance = waiting::retry_while_unreachable(|text| progress.note(text), wait).await?;
        if instance.state.is_terminal() {
            progress.clear();
            return Ok(Some(instance));
        }
        if left.is_zero() {
            progress.clear();
            return Ok(None);
        }
        // Only for people: the next answer to the wait tells of an error.
        if let Ok(fleet) = client.fleet(&check.name).await {
            let mut line = Line::new();
            line.add(Style::Plain, describe(&fleet));
            let elapsed = Millis::from_secs(began.elapsed().as_secs());
            progress.update(line, &format!(", {}", span(elapsed)));
        }
    }
}

/// What the fleet does at this moment: its latest job, or its plan.
fn describe(fleet: &Fleet) -> String {
    match fleet.jobs.last() {
        Some(job) => format!(
            "{}: job {} {}",
            clean(&fleet.name),
            clean(&job.id),
            clean(&job.text)
        ),
        None => format!("{}: {}", clean(&fleet.name), clean(&fleet.plan)),
    }
}

async fn cancel(id: InstanceId, client: &Client) -> CommandResult {
    let cancelled = client.cancel(selection::one_of(id), KillMode::Now).await;
    cancelled.map(drop).map_err(refused)
}

impl Findings {
    /// Takes in the end of the trial task, and the worker that ran it.
    async fn take_end(&mut self, instance: &Instance, client: &Client) {
        if instance.state != UniversalState::Done {
            let end = instance.end_text.as_deref();
            let end = end.unwrap_or(instance.state.word());
            self.problem = Some(format!("the trial task has not succeeded: {end}"));
        }
        let Some(name) = &instance.worker else {
            return self.take_job(None, client).await;
        };
        self.worker = Some(name.clone());
        // It may have ended already.
        if let Ok(worker) = client.worker(name).await {
            self.dialled = worker.dialled;
            self.worker_version = worker.version;
            self.worker_build = worker.build;
            self.clock_offset_seconds = worker.clock_offset_seconds;
        }
        let job = name
            .strip_prefix(&*self.fleet)
            .and_then(|it| it.strip_prefix('-'));
        let job = job.and_then(|it| it.split('-').next()).map(str::to_owned);
        self.take_job(job, client).await;
    }

    /// Takes in a job of the fleet, or its latest.
    async fn take_job(&mut self, id: Option<String>, client: &Client) {
        let Ok(jobs) = client.fleet_jobs(&self.fleet).await else {
            return;
        };
        let mut jobs = jobs.into_iter();
        let job = match id {
            Some(id) => jobs.find(|job| job.id == id),
            None => jobs.next(),
        };
        if let Some(job) = job {
            self.job = Some(job.id);
            self.native = job.native;
            self.nodes = job.nodes;
        }
    }

    /// What people should look at although the check has succeeded.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(version) = &self.worker_version
            && *version != self.scheduler_version
        {
            warnings.push(format!(
                "its binary has version {version}, the scheduler {}: set `binary`, or install the same there",
                self.scheduler_version
            ));
        } else if let (Some(worker), Some(scheduler)) = (&self.worker_build, &self.scheduler_build)
            && worker != scheduler
        {
            warnings.push(format!(
                "its binary is another build of the same version: {worker}, the scheduler {scheduler}"
            ));
        }
        if let Some(offset) = self.clock_offset_seconds
            && offset.abs() > CLOCK_OFFSET_MAX
        {
            let side = if offset > 0.0 { "ahead of" } else { "behind" };
            warnings.push(format!(
                "its clock is {:.0} s {side} that of the scheduler",
                offset.abs()
            ));
        }
        warnings
    }

    fn write(&self, out: &mut Output) -> CommandResult {
        if let Some(job) = &self.job {
            let native = self.native.as_ref();
            let native = native.map_or(String::new(), |it| format!(" ({})", clean(it)));
            let nodes = match &*self.nodes {
                [] => String::new(),
                nodes => format!(" on {}", clean(&nodes.join(", "))),
            };
            writeln!(out, "job       {}{native}{nodes}", clean(job))?;
        }
        if let Some(worker) = &self.worker {
            writeln!(out, "worker    {}", clean(worker))?;
        }
        if let Some(dialled) = &self.dialled {
            writeln!(out, "reached   {}", clean(dialled))?;
        }
        if let Some(version) = &self.worker_version {
            let (worker, ours) = (clean(version), clean(&self.scheduler_version));
            writeln!(out, "version   {worker}, the scheduler {ours}")?;
        }
        for warning in self.warnings() {
            note(&clean(&warning));
        }
        let name = clean(&self.fleet);
        match &self.problem {
            None => {
                let seconds = span(Millis((self.seconds * 1_000.0) as u64));
                writeln!(
                    out,
                    "{name}: well; a worker of it ran a task after {seconds}"
                )?;
            }
            Some(problem) => writeln!(out, "{name}: {}", clean(problem))?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(worker: &str, offset: f64) -> Findings {
        Findings {
            worker_version: Some(worker.to_owned()),
            scheduler_version: "1.0.0".to_owned(),
            clock_offset_seconds: Some(offset),
            ..Findings::default()
        }
    }

    #[test]
    fn another_build_of_the_same_version_is_told() {
        let mut found = findings("1.0.0", 0.0);
        let id = |text: &str| Some(text.to_owned());
        (found.worker_build, found.scheduler_build) = (id("aa"), id("aa"));
        assert_eq!(found.warnings(), Vec::<String>::new());
        found.worker_build = id("bb");
        assert!(found.warnings()[0].contains("bb, the scheduler aa"));
    }

    #[test]
    fn other_versions_and_wrong_clocks_are_told() {
        assert_eq!(findings("1.0.0", -5.0).warnings(), Vec::<String>::new());
        let warnings = findings("0.9.0", -61.2).warnings();
        let [version, clock] = &*warnings else {
            panic!("{warnings:?}");
        };
        assert!(version.contains("0.9.0, the scheduler 1.0.0"), "{version}");
        assert_eq!(clock, "its clock is 61 s behind that of the scheduler");
    }
}
