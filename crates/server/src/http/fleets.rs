//! Fleets: where the scheduler obtains workers.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_core::fleet::{FleetError, FleetView, JobView};
use baton_core::scheduler::{Command, FleetCommand, Reply};
use baton_model::api::{
    AcceptReply, FieldProblem, Fleet, FleetJob, FleetJobLog, FleetPage, List, PauseFleet,
    RemoveFleet,
};
use baton_model::fleet::{FleetJob as StoredJob, FleetName, FleetSpec, Trial, Verdict};
use baton_model::ids::JobId;
use serde_json::Value;

use super::app::App;
use super::conditional::tagged;
#[cfg(feature = "openapi")]
use super::openapi::answers::{FleetFile, Unchanged};
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{extract, views};
use crate::access::Caller;
use crate::clock;

/// Jobs on one page.
const JOBS_MAX: usize = 100;

/// The last bytes of a log of a job: an error is at its end.
const JOB_LOG_BYTES_MAX: u64 = 16 << 10;

/// All fleets
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/fleets/",
    tag = "fleets",
    operation_id = "fleets",
    responses(
        (status = 200, description = "All on one page, by name.", body = FleetPage),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    Ok(tagged(&FleetPage {
        items: app.fleets().await?,
        problems: app.0.fleet_problems.all(),
        links: views::links([("self", "/fleets/".to_owned())]),
    }))
}

/// A fleet
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/fleets/{name}",
    tag = "fleets",
    operation_id = "fleet",
    responses(
        (status = 200, description = "The fleet, its jobs, and what it requests.", body = Fleet),
        Unchanged
    )
))]
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    Ok(tagged(&app.fleet(&parse(&name)?).await?))
}

/// Define a fleet, or change it
///
/// Its commands run as the user of the scheduler. Queued jobs that do not fit a changed definition are
/// cancelled; running ones go on.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/fleets/{name}",
    tag = "fleets",
    operation_id = "define-fleet",
    request_body(content = FleetFile, description = "Its definition, in the schema of a file of fleets."),
    responses(
        (status = 200, description = "Defined and durable.", body = Fleet),
        (status = 409, description = "A file defines the fleet, or it cannot be changed now."),
        (status = 422, description = "The name or a field is invalid; `errors` lists every problem.")
    )
))]
pub(super) async fn define(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let (name, spec) = definition(&name, request).await?;
    let define = FleetCommand::Define {
        name: name.clone(),
        spec: Arc::new(spec),
        file: None,
    };
    change(&app, &caller, define).await?;
    Ok(respond(StatusCode::OK, &app.fleet(&name).await?))
}

/// The name and the definition of a fleet in a request.
async fn definition(name: &str, request: Request) -> Answer<(FleetName, FleetSpec)> {
    let definition: Value = extract::body(request).await?;
    let hint = "use a name such as `gpu` or `cpu-long`";
    let name: FleetName = name
        .parse()
        .map_err(|error| invalid("name", format!("{error}"), hint))?;
    let spec = baton_files::fleet_from_json(&definition, name.as_str())
        .map_err(|errors| Fault::invalid_file(errors, "definition"))?;
    Ok((name, spec))
}

/// Try a definition
///
/// Asks the cluster manager whether it would take a job of this definition. Nothing is defined or submitted.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/fleets/{name}/trial",
    tag = "fleets",
    operation_id = "try-fleet",
    request_body(content = FleetFile, description = "Its definition, in the schema of a file of fleets."),
    responses(
        (status = 200, description = "What the cluster manager says.", body = Trial),
        (status = 422, description = "The name or a field is invalid.")
    )
))]
pub(super) async fn try_out(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let (name, spec) = definition(&name, request).await?;
    let asked = (name.clone(), spec.clone());
    let checked = app.query(move |leader| leader.check_fleet(&asked.0, &asked.1));
    checked.await?.map_err(refusal)?;
    let Some(site) = app.0.fleet_site.clone() else {
        return Ok(respond(
            StatusCode::OK,
            &Trial {
                verdict: Verdict::Untried,
                text: "this scheduler was started without fleets".to_owned(),
            },
        ));
    };
    let trial = tokio::task::spawn_blocking(move || baton_fleet::try_out(&name, &spec, &site));
    let trial = trial.await.unwrap_or_else(|error| Trial {
        verdict: Verdict::Unclear,
        text: format!("the trial has failed: {error}"),
    });
    Ok(respond(StatusCode::OK, &trial))
}

/// Remove a fleet
///
/// Its jobs are cancelled. Its name is free when the last of them has ended.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/fleets/{name}",
    tag = "fleets",
    operation_id = "remove-fleet",
    params(RemoveFleet),
    responses(
        (status = 202, description = "Removed and durable; its jobs are ending.", body = AcceptReply),
        (status = 409, description = "A file defines the fleet.")
    )
))]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    query: Result<Query<RemoveFleet>, axum::extract::rejection::QueryRejection>,
) -> Answer<Response> {
    let Query(RemoveFleet { drain }) =
        query.map_err(|error| Fault::bad_request(error.body_text()))?;
    let remove = FleetCommand::Remove {
        name: parse(&name)?,
        drain,
        by_file: false,
    };
    change(&app, &caller, remove).await?;
    let accepted = AcceptReply {
        links: views::links([("fleets", "/fleets/".to_owned())]),
    };
    Ok(respond(StatusCode::ACCEPTED, &accepted))
}

/// Pause or resume a fleet
///
/// A paused fleet requests no jobs; those that it has go on.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/fleets/{name}/paused",
    tag = "fleets",
    operation_id = "pause-fleet",
    request_body = PauseFleet,
    responses(
        (status = 200, description = "Changed and durable.", body = Fleet)
    )
))]
pub(super) async fn pause(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let PauseFleet { paused } = extract::body(request).await?;
    let name = parse(&name)?;
    let command = if paused {
        FleetCommand::Pause { name: name.clone() }
    } else {
        FleetCommand::Resume { name: name.clone() }
    };
    change(&app, &caller, command).await?;
    Ok(respond(StatusCode::OK, &app.fleet(&name).await?))
}

/// The latest jobs of a fleet
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/fleets/{name}/jobs/",
    tag = "fleets",
    operation_id = "fleet-jobs",
    responses(
        (status = 200, description = "The last 100, the latest first, those that have ended included.", body = List<FleetJob>),
        Unchanged
    )
))]
pub(super) async fn jobs(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let name = parse(&name)?;
    let path = format!("/fleets/{name}/jobs/");
    let stored = app.read({
        let name = name.clone();
        move |store| store.fleet_jobs(&name, None, JOBS_MAX)
    });
    let stored = stored.await?.items;
    if stored.is_empty() {
        app.fleet(&name).await?;
    }
    Ok(tagged(&List {
        total: None,
        items: stored.iter().map(ended_job).collect(),
        links: views::links([("self", path), ("fleet", format!("/fleets/{name}"))]),
    }))
}

/// The ends of the logs of a job
///
/// As far as they are files of the scheduler's host: of Slurm on a shared file system, and of processes of this host.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/fleets/{name}/jobs/{job}/log",
    tag = "fleets",
    operation_id = "fleet-job-log",
    responses(
        (status = 200, description = "One entry for each log; none if this host has none.", body = List<FleetJobLog>),
        Unchanged
    )
))]
pub(super) async fn log(
    State(app): State<App>,
    Path((name, job)): Path<(String, String)>,
) -> Answer<Response> {
    let name = parse(&name)?;
    let path = format!("/fleets/{name}/jobs/");
    let unknown = || Fault::not_found(format!("fleet {name} has no such job; {path} lists them"));
    let id = job.strip_prefix('p').and_then(|it| it.parse().ok());
    let id: u64 = id.filter(|it| *it < u64::MAX).ok_or_else(unknown)?;
    let stored = app.read({
        let name = name.clone();
        move |store| store.fleet_jobs(&name, Some(JobId(id + 1)), 1)
    });
    let stored = stored.await?.items.into_iter().next();
    let stored = stored.filter(|it| it.id == JobId(id)).ok_or_else(unknown)?;
    let mut logs = Vec::new();
    if let Some(dir) = app.0.fleet_dir.clone() {
        let fleet = name.clone();
        let read = move || baton_fleet::job_logs(&dir, &fleet, &stored.name, JOB_LOG_BYTES_MAX);
        let failed = |error: std::io::Error| {
            Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "log-unreadable",
                error.to_string(),
            )
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(std::io::Error::other).and_then(|it| it);
        logs = read.map_err(failed)?;
    }
    let logs = logs.into_iter().map(|log| FleetJobLog {
        file: log.file,
        begin: log.begin,
        text: String::from_utf8_lossy(&log.bytes).into_owned(),
    });
    Ok(tagged(&List {
        total: None,
        items: logs.collect(),
        links: views::links([("self", format!("{path}p{id}/log")), ("jobs", path)]),
    }))
}

async fn change(app: &App, caller: &Caller, command: FleetCommand) -> Answer<()> {
    let command = Command::Fleet(Box::new(command));
    let Reply::Fleet(done) = app.command(caller.principal(), command).await? else {
        return Err(Fault::wrong_reply());
    };
    done.map_err(refusal)
}

fn refusal(error: FleetError) -> Fault {
    match error {
        FleetError::Unknown(_) => Fault::not_found(error.to_string()),
        FleetError::Invalid {
            field,
            problem,
            hint,
        } => invalid(field, problem, hint),
        FleetError::FromFile(..) | FleetError::FromCommand(_) => {
            Fault::new(StatusCode::CONFLICT, "from-file", error.to_string())
        }
        FleetError::BackendChanged(_) | FleetError::NoStore | FleetError::TooMany => {
            Fault::new(StatusCode::CONFLICT, "fleet-conflict", error.to_string())
        }
    }
}

/// The name in a path: one that is not valid is that of no fleet.
fn parse(name: &str) -> Answer<FleetName> {
    name.parse().map_err(|_| no_fleet(name))
}

fn no_fleet(name: &str) -> Fault {
    let name: String = name.chars().take(FleetName::LEN_MAX).collect();
    Fault::not_found(format!(
        "there is no fleet {name:?}; `baton fleet ls` lists them"
    ))
}

fn invalid(field: &str, message: String, hint: &str) -> Fault {
    let text = format!("`{field}`: {message}; {hint}");
    let at = FieldProblem {
        field: field.to_owned(),
        message,
        hint: hint.to_owned(),
    };
    Fault::unusable(text, vec![at])
}

fn view(view: FleetView) -> Fleet {
    let name = view.fleet.name.to_string();
    let path = format!("/fleets/{name}");
    Fleet {
        backend: view.fleet.spec.backend.word().to_owned(),
        definition: baton_files::fleet_to_json(&view.fleet.spec),
        file: view.fleet.file,
        paused: view.fleet.paused,
        removed: view.fleet.removed,
        workers: view.here,
        expected: view.expected,
        requested: view.requested,
        max: view.fleet.spec.max,
        wanted: view.wanted,
        plan: view.plan,
        alarms: view.alarms,
        next_trial_seconds: view.next_trial.map(|span| span.0.div_ceil(1_000)),
        avoided_nodes: view.avoided,
        jobs: view.jobs.iter().map(open_job).collect(),
        links: views::links([
            ("self", path.clone()),
            ("jobs", format!("{path}/jobs/")),
            ("define", format!("PUT {path}")),
            ("try", format!("POST {path}/trial")),
            ("pause", format!("PUT {path}/paused")),
            ("remove", format!("DELETE {path}")),
        ]),
        name,
    }
}

fn open_job(view: &JobView) -> FleetJob {
    job(&view.job, view.text.clone())
}

fn ended_job(stored: &StoredJob) -> FleetJob {
    let detail = stored.detail.as_ref();
    let detail = detail.map_or_else(String::new, |it| format!(" ({it})"));
    let text = match (stored.end, stored.state) {
        (Some(end), _) => end.sentence(),
        (None, Some(state)) => state.word(),
        (None, None) => "requested",
    };
    job(stored, format!("{text}{detail}"))
}

fn job(job: &StoredJob, text: String) -> FleetJob {
    FleetJob {
        id: job.id.to_string(),
        fleet: job.fleet.to_string(),
        name: job.name.clone(),
        native: job.native.clone(),
        workers: job.workers,
        state: job.state,
        text,
        nodes: job.nodes.clone(),
        requested_at: job.requested_at.0,
        started_at: job.started_at.map(|at| at.0),
        arrived_at: job.arrived_at.map(|at| at.0),
        ended_at: job.ended_at.map(|at| at.0),
        cancel: job.cancel,
        end: job.end,
    }
}

impl App {
    /// All fleets.
    pub(super) async fn fleets(&self) -> Answer<Vec<Fleet>> {
        let views = self.query(|leader| leader.fleets(clock::now())).await?;
        Ok(views.into_iter().map(view).collect())
    }

    async fn fleet(&self, name: &FleetName) -> Answer<Fleet> {
        let fleets = self.fleets().await?.into_iter();
        { fleets }
            .find(|it| it.name == name.as_str())
            .ok_or_else(|| no_fleet(name.as_str()))
    }
}
