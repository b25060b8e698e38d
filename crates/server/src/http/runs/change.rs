//! Submission and halting of runs.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use baton_core::scheduler::{Command, Obstacle, Reply, RunCommand, RunError};
use baton_files::{Errors, Format, WorkflowFile};
use baton_model::api::{FieldProblem, HaltRun, SubmitRun};
use baton_model::ids::{Generation, RunId};
use baton_model::outcome::KillMode;
use baton_model::principal::Principal;
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltMode, Plan};
use serde_json::value::RawValue;

use super::super::app::App;
use super::super::extract::{self, Parameters};
use super::super::idempotency;
#[cfg(feature = "openapi")]
use super::super::openapi::answers::{RunReply, Value, WorkflowTasks};
use super::super::owners;
use super::super::problem::{Answer, Fault};
use super::super::response::respond;
use super::super::trace;
use super::{path, views};
use crate::access::Caller;
use crate::clock;

/// Submit a workflow
///
/// Returns when the run is durable; the client may then disconnect. With `open`, more tasks follow,
/// and the run begins with `POST /runs/{run}/start`.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/",
    tag = "runs",
    operation_id = "submit-run",
    params(
        ("idempotency-key" = Option<String>, Header, description = "A key chosen by the client, at most 255 characters: a repeated request with the same key creates nothing new, and returns the same run."),
        ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context): the spans of what is created are its children. A malformed one is ignored."),
    ),
    request_body = SubmitRun<Value>,
    responses(
        (status = 201, description = "Accepted and durable.", body = RunReply, headers(("location" = String, description = "The URL of the run."))),
        (status = 422, description = "The workflow is invalid; `errors` lists every problem. Or the Idempotency-Key was used for another request.")
    )
))]
pub(in super::super) async fn submit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer<Response> {
    let key = idempotency::text(request.headers())?.map(str::to_owned);
    let trace = trace::parent(request.headers());
    let body = extract::bytes(extract::large(request)).await?;
    let submit: SubmitRun<Box<RawValue>> = extract::parse_workflow(&body)?;
    let open = submit.open;
    let by = caller.principal();
    let plan = compiled(move || {
        let file = workflow(&submit.file, caller.owner.as_deref())?;
        let now = clock::now().wall;
        // Of a plan that is sent in parts this is not the whole file.
        let plan = if submit.open {
            file.plan(&submit.params, now)
        } else {
            file.plan_with_source(&submit.params, now)
        };
        let plan = plan.map_err(wrong)?;
        Ok(Plan { trace, ..plan })
    });
    let plan: Arc<Plan> = plan.await?;
    let key = key.map(|text| idempotency::key(&["runs", &plan.owner], &text, [&*body]));
    let register = RunCommand::Register { plan, open, key };
    let (run, generation) = run_command(&app, register, by).await?;
    let mut response = respond(StatusCode::CREATED, &views::accepted(run, generation));
    if let Ok(location) = HeaderValue::from_str(&path(run)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Add tasks to a run that is being defined
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/{run}/tasks/",
    tag = "runs",
    operation_id = "extend-run",
    request_body(content = WorkflowTasks, description = "`{\"tasks\": {…}}`, as in a workflow file."),
    responses(
        (status = 200, description = "Added and durable.", body = RunReply),
        (status = 409, description = "The run is fully defined, or has ended."),
        (status = 422, description = "The tasks are invalid; `errors` lists every problem.")
    )
))]
pub(in super::super) async fn extend(
    State(app): State<App>,
    Path(run): Path<String>,
    request: Request,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let part: Box<RawValue> = extract::body(extract::large(request)).await?;
    // Serialized: a part refers to the parts before it.
    let _one_at_a_time = app.0.history.lock().await;
    let state = app.run_record(run).await?.head.state;
    if state != UniversalState::Registering {
        return Err(fault(&RunError::State(run, state, Obstacle::Complete)));
    }
    let before = app.read(move |store| store.plan(run)).await?;
    let before = before.ok_or_else(|| Fault::unknown_run(run))?;
    let plan = compiled(move || {
        let part = baton_files::workflow_part(part.get(), &before, "body");
        part.map_err(wrong)
    });
    let plan = plan.await?;
    let done = run_command(&app, RunCommand::Extend { run, plan }, None).await?;
    Ok(respond(StatusCode::OK, &views::accepted(done.0, done.1)))
}

/// Start a run that was defined in parts
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/{run}/start",
    tag = "runs",
    operation_id = "start-run",
    responses(
        (status = 200, description = "Started and durable.", body = RunReply),
        (status = 409, description = "The run has already started, or has ended.")
    )
))]
pub(in super::super) async fn start(
    State(app): State<App>,
    Path(run): Path<String>,
) -> Answer<Response> {
    let done = run_command(&app, RunCommand::Start(extract::run(&run)?), None).await?;
    Ok(respond(StatusCode::OK, &views::accepted(done.0, done.1)))
}

/// Halt a run
///
/// No further instances start. Running ones finish or are killed, as `mode` specifies. The run is
/// HALTED when none of its instances is left.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/{run}/halt",
    tag = "runs",
    operation_id = "halt-run",
    request_body = HaltRun,
    responses(
        (status = 202, description = "The request to stop is durable.", body = RunReply),
        (status = 409, description = "The run has ended, or another generation is live.")
    )
))]
pub(in super::super) async fn halt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    request: Request,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let asked: HaltRun = extract::body(request).await?;
    let generation = asked.generation.map(Generation);
    stop(&app, &caller, run, asked.mode, generation).await
}

/// Kill a run
///
/// With `now`, also in a second request, all its processes are killed at once.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/runs/{run}",
    tag = "runs",
    operation_id = "kill-run",
    params(
        ("now" = Option<bool>, Query, description = "Kill all processes at once, without final processes."),
    ),
    responses(
        (status = 202, description = "The request to stop is durable.", body = RunReply),
        (status = 409, description = "The run has ended.")
    )
))]
pub(in super::super) async fn kill(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let mode = match Parameters::of(&uri, &["now"])?.kill_mode()? {
        KillMode::Graceful => HaltMode::Kill,
        KillMode::Now => HaltMode::KillNow,
    };
    stop(&app, &caller, extract::run(&run)?, mode, None).await
}

async fn stop(
    app: &App,
    caller: &Caller,
    run: RunId,
    mode: HaltMode,
    generation: Option<Generation>,
) -> Answer<Response> {
    let halt = RunCommand::Halt {
        run,
        mode,
        generation,
    };
    let (run, generation) = run_command(app, halt, caller.principal()).await?;
    Ok(respond(
        StatusCode::ACCEPTED,
        &views::accepted(run, generation),
    ))
}

/// Parses a workflow, for the owner that the token is limited to, if any. Its text is parsed like a
/// file: a repeated key is an error and not overridden by the last one.
pub(super) fn workflow(file: &RawValue, owner: Option<&str>) -> Answer<WorkflowFile> {
    let file = baton_files::parse_workflow(file.get(), Format::Json, "file").map_err(wrong)?;
    let Some(owner) = owner else {
        return Ok(file);
    };
    let file = file.or_owner(owner);
    if file.owner() == Some(owner) {
        Ok(file)
    } else {
        Err(owners::wrong_owner(owner))
    }
}

pub(super) fn wrong(errors: Errors) -> Fault {
    Fault::invalid_file(errors, "workflow")
}

/// Runs CPU-heavy work on a blocking thread.
pub(super) async fn compiled<T, U>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<U>
where
    T: Send + 'static,
    U: From<T>,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map(U::from),
        Err(error) => Err(Fault::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "bug",
            format!("reading the workflow failed: {error}"),
        )),
    }
}

/// Sends a command about a run, of a client that is known or none.
pub(super) async fn run_command(
    app: &App,
    command: RunCommand,
    client: Option<Arc<Principal>>,
) -> Answer<(RunId, Generation)> {
    let command = Command::Run(Box::new(command));
    let Reply::Run(done) = app.command(client, command).await? else {
        return Err(Fault::wrong_reply());
    };
    done.map_err(|error| fault(&error))
}

pub(super) fn fault(error: &RunError) -> Fault {
    let text = error.to_string();
    match error {
        RunError::Unknown(run) => Fault::unknown_run(*run),
        RunError::State(run, _, obstacle) => {
            let text = match obstacle {
                Obstacle::Done => format!(
                    "{text}; submit it again, or run a task of it again: \
                     `baton retry {run} --task TASK --downstream`"
                ),
                Obstacle::NotResumable => format!("{text}; submit it again"),
                Obstacle::Halting => format!(
                    "{text}; wait for that with `baton watch {run}`, or use `baton halt {run} --kill`"
                ),
                Obstacle::Active => format!("{text}: `baton halt {run}`"),
                Obstacle::Ended | Obstacle::Complete => text,
            };
            Fault::new(StatusCode::CONFLICT, "state", text)
        }
        RunError::Generation(run, _) => {
            let text = format!("{text}; check its state first: `baton show {run}`");
            Fault::new(StatusCode::CONFLICT, "generation", text)
        }
        RunError::KeyUsed(_) => Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "key-used", text),
        RunError::NeedsStore => Fault::needs_store(text),
        RunError::NoTask(..) => no_task(&text),
        RunError::Plan(_) => {
            let at = FieldProblem {
                field: "tasks".to_owned(),
                message: text.clone(),
                hint: "correct the workflow and send it again".to_owned(),
            };
            Fault::unusable(text, vec![at])
        }
    }
}

pub(super) fn no_task(text: &str) -> Fault {
    let at = FieldProblem {
        field: "task".to_owned(),
        message: text.to_owned(),
        hint: "`baton show RUN` lists its tasks".to_owned(),
    };
    Fault::unusable(text, vec![at])
}
