//! Submissions of workflows, and what people want of a run.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use baton_core::ledger::RunHead;
use baton_core::scheduler::{Resume, RunError, RunWish};
use baton_core::workflow::preview;
use baton_model::api::{
    HaltRun, Problem, ProblemAt, ResumePreview, ResumeRun, ResumeTask, RetryRun, RunAccepted,
    SubmitRun,
};
use baton_model::ids::{Generation, RunId};
use baton_model::state::UniversalState;
use baton_model::workflow::{Halt, Plan};
use serde_json::Value;

use super::super::given::{self, Parameters};
use super::super::openapi::answers::{BadBody, BadRequest, NotFound, OfRun, PROBLEM, Unavailable};
use super::super::problem::{Answer, Fault};
use super::super::{App, owners, shown};
use super::{id, shape, unknown};
use crate::access::Caller;
use crate::driver::mail::Ask;

/// Submit a workflow
///
/// The answer comes when it is durable; whoever has submitted it may go. With `open`, more of
/// its tasks are to come, and it begins when it is told to.
#[utoipa::path(
    post,
    path = "/runs/",
    tag = "runs",
    operation_id = "submit-run",
    request_body = SubmitRun<Value>,
    responses(
        (status = 201, description = "It is durable.", body = RunAccepted, headers(("location" = String, description = "Where it is."))),
        (status = 422, description = "The workflow cannot be used; each thing that is wrong is listed.", body = Problem, content_type = PROBLEM),
        BadRequest,
        BadBody,
        Unavailable
    )
)]
pub(in super::super) async fn submit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer<Response> {
    let mut submit: SubmitRun<Value> = given::body(request).await?;
    if let Some(owner) = &caller.owner {
        owners::submit(owner, &mut submit.file)?;
    }
    let open = submit.open;
    let plan = compiled(move || {
        let file = baton_files::workflow_from_json(&submit.file, "file")?;
        Ok(file.plan(&submit.params)?)
    });
    let plan = plan.await?;
    let (run, generation) = wish(&app, RunWish::Register { plan, open }).await?;
    let mut response = shown(StatusCode::CREATED, &shape::accepted(run, generation));
    if let Ok(location) = HeaderValue::from_str(&shape::path(run)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Give a run that is being defined more tasks
#[utoipa::path(
    post,
    path = "/runs/{run}/tasks/",
    tag = "runs",
    operation_id = "extend-run",
    params(OfRun),
    request_body(content = Object, description = "`{\"tasks\": {…}}`, as in a workflow file."),
    responses(
        (status = 200, description = "It is durable.", body = RunAccepted),
        (status = 409, description = "The run is defined, or over.", body = Problem, content_type = PROBLEM),
        (status = 422, description = "The tasks cannot be used; each thing that is wrong is listed.", body = Problem, content_type = PROBLEM),
        BadRequest,
        BadBody,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn extend(
    State(app): State<App>,
    Path(run): Path<String>,
    request: Request,
) -> Answer<Response> {
    let run = id(&run)?;
    let part: Value = given::body(request).await?;
    // One at a time: what a part refers to are the parts before it.
    let _one_at_a_time = app.0.history.lock().await;
    let state = app.run_record(run).await?.head.state;
    if state != UniversalState::Registering {
        return Err(fault(&RunError::State(run, state, "its plan is complete")));
    }
    let before = app.read(move |store| store.plan(run)).await?;
    let before = before.ok_or_else(|| unknown(run))?;
    let plan = compiled(move || Ok(baton_files::workflow_part(&part, &before, "body")?));
    let plan = plan.await?;
    let done = wish(&app, RunWish::Extend { run, plan }).await?;
    Ok(shown(StatusCode::OK, &shape::accepted(done.0, done.1)))
}

/// Let a run begin that was defined in parts
#[utoipa::path(
    post,
    path = "/runs/{run}/start",
    tag = "runs",
    operation_id = "start-run",
    params(OfRun),
    responses(
        (status = 200, description = "It is durable.", body = RunAccepted),
        (status = 409, description = "The run has begun, or is over.", body = Problem, content_type = PROBLEM),
        BadRequest,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn start(
    State(app): State<App>,
    Path(run): Path<String>,
) -> Answer<Response> {
    let done = wish(&app, RunWish::Start(id(&run)?)).await?;
    Ok(shown(StatusCode::OK, &shape::accepted(done.0, done.1)))
}

/// Stop a run
///
/// Nothing more begins. What has begun may end by itself, or is killed. The run is HALTED when
/// none of its instances is left.
#[utoipa::path(
    post,
    path = "/runs/{run}/halt",
    tag = "runs",
    operation_id = "halt-run",
    params(OfRun),
    request_body = HaltRun,
    responses(
        (status = 202, description = "It is durable that it shall stop.", body = RunAccepted),
        (status = 409, description = "It is over, or another generation lives.", body = Problem, content_type = PROBLEM),
        BadRequest,
        BadBody,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn halt(
    State(app): State<App>,
    Path(run): Path<String>,
    request: Request,
) -> Answer<Response> {
    let run = id(&run)?;
    let asked: HaltRun = given::body(request).await?;
    let generation = asked.generation.map(Generation);
    stop(&app, run, asked.how, generation).await
}

/// Kill a run
#[utoipa::path(
    delete,
    path = "/runs/{run}",
    tag = "runs",
    operation_id = "kill-run",
    params(OfRun),
    responses(
        (status = 202, description = "It is durable that it shall stop.", body = RunAccepted),
        (status = 409, description = "It is over.", body = Problem, content_type = PROBLEM),
        BadRequest,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn kill(
    State(app): State<App>,
    Path(run): Path<String>,
) -> Answer<Response> {
    stop(&app, id(&run)?, Halt::Kill, None).await
}

async fn stop(
    app: &App,
    run: RunId,
    how: Halt,
    generation: Option<Generation>,
) -> Answer<Response> {
    let halt = RunWish::Halt {
        run,
        how,
        generation,
    };
    let (run, generation) = wish(app, halt).await?;
    Ok(shown(
        StatusCode::ACCEPTED,
        &shape::accepted(run, generation),
    ))
}

/// Let a run go on with what is not DONE
///
/// With a file, only what has changed in it, and what comes after that, is done again.
#[utoipa::path(
    post,
    path = "/runs/{run}/resume",
    tag = "runs",
    operation_id = "resume-run",
    params(
        OfRun,
        ("dryRun" = Option<bool>, Query, description = "Only say what would be done; the answer is then a preview."),
    ),
    request_body(content = ResumeRun<Value>, description = "May be left out."),
    responses(
        (status = 200, description = "It is durable; or what would be done.", body = ResumedOrPreview),
        (status = 409, description = "It is not HALTED or FAILED, or another generation lives.", body = Problem, content_type = PROBLEM),
        (status = 422, description = "The workflow cannot be used; each thing that is wrong is listed.", body = Problem, content_type = PROBLEM),
        BadRequest,
        BadBody,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn resume(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let run = id(&run)?;
    let dry = dry(&uri)?;
    let asked: Option<ResumeRun<Value>> = given::optional_body(request).await?;
    let asked = asked.unwrap_or_default();
    let generation = asked.generation.map(Generation);
    let plan = match asked.file {
        None if asked.params.is_empty() => None,
        None => {
            let at = ProblemAt {
                field: "params".to_owned(),
                message: "parameters are filled into a file, and none is given".to_owned(),
                mend: "give the workflow as `file`".to_owned(),
            };
            return Err(Fault::unusable(
                "there is nothing to fill parameters into",
                vec![at],
            ));
        }
        Some(mut file) => {
            if let Some(owner) = &caller.owner {
                owners::submit(owner, &mut file)?;
            }
            let params = asked.params;
            let plan = compiled(move || {
                let file = baton_files::workflow_from_json(&file, "file")?;
                Ok(file.plan(&params)?)
            });
            Some(plan.await?)
        }
    };
    go_on(&app, run, plan, None, generation, dry).await
}

/// Do a part of a run again, or what has failed of it
#[utoipa::path(
    post,
    path = "/runs/{run}/retry",
    tag = "runs",
    operation_id = "retry-run",
    params(
        OfRun,
        ("dryRun" = Option<bool>, Query, description = "Only say what would be done; the answer is then a preview."),
    ),
    request_body(content = Option<RetryRun>, description = "May be left out: what is not DONE is done."),
    responses(
        (status = 200, description = "It is durable; or what would be done.", body = ResumedOrPreview),
        (status = 409, description = "It is not HALTED or FAILED, or another generation lives.", body = Problem, content_type = PROBLEM),
        (status = 422, description = "There is no such task.", body = Problem, content_type = PROBLEM),
        BadRequest,
        BadBody,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn retry(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let run = id(&run)?;
    let dry = dry(&uri)?;
    let asked: Option<RetryRun> = given::optional_body(request).await?;
    let asked = asked.unwrap_or_default();
    if asked.downstream && asked.task.is_none() {
        let at = ProblemAt {
            field: "downstream".to_owned(),
            message: "downstream of which task is not said".to_owned(),
            mend: "name it as `task`".to_owned(),
        };
        return Err(Fault::unusable("downstream of nothing", vec![at]));
    }
    let again = asked.task.map(|task| (task, asked.downstream));
    let generation = asked.generation.map(Generation);
    go_on(&app, run, None, again, generation, dry).await
}

/// What a resume answers.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum ResumedOrPreview {
    /// It goes on.
    Resumed(RunAccepted),
    /// What would be done.
    Preview(ResumePreview),
}

fn dry(uri: &Uri) -> Answer<bool> {
    let given = Parameters::of(uri, &["dryRun"])?;
    Ok(given.parsed("dryRun", "true or false")?.unwrap_or(false))
}

async fn go_on(
    app: &App,
    run: RunId,
    plan: Option<Arc<Plan>>,
    again: Option<(String, bool)>,
    generation: Option<Generation>,
    dry: bool,
) -> Answer<Response> {
    // One at a time, and not while history is removed: what is read here is what the leader
    // goes by.
    let _history_stays = app.0.history.lock().await;
    let kept = app.read(move |store| store.kept_run(run)).await?;
    let kept = kept.ok_or_else(|| unknown(run))?;
    if let Some(plan) = &plan {
        same_workflow(&kept.head, plan)?;
    }
    if dry {
        let state = kept.head.state;
        if !matches!(state, UniversalState::Halted | UniversalState::Failed) {
            return Err(fault(&RunError::State(
                run,
                state,
                "only what is HALTED or FAILED goes on",
            )));
        }
        let preview = compiled(move || {
            let again = again.as_ref().map(|(task, down)| (task.as_str(), *down));
            let seen = preview::preview(&kept.plan, &kept.ended, plan.as_ref(), again);
            seen.map_err(|why| no_task(&why))
        });
        let preview = ResumedOrPreview::Preview(shaped(preview.await?));
        return Ok(shown(StatusCode::OK, &preview));
    }
    let resume = Resume {
        run: kept,
        plan,
        again,
        generation,
    };
    let (run, generation) = wish(app, RunWish::Resume(resume)).await?;
    let resumed = ResumedOrPreview::Resumed(shape::accepted(run, generation));
    Ok(shown(StatusCode::OK, &resumed))
}

/// A run goes on with its own workflow, changed as it may be, and stays its owner's.
fn same_workflow(head: &RunHead, plan: &Plan) -> Answer<()> {
    let fields = [
        ("workflow", &head.name, &plan.name),
        ("owner", &head.owner, &plan.owner),
    ];
    let other = fields.iter().filter(|(_, is, given)| is != given);
    let other: Vec<ProblemAt> = other
        .map(|(field, is, given)| ProblemAt {
            field: (*field).to_owned(),
            message: format!("it is `{is}` in the run, and `{given}` in this file"),
            mend: "write it as it was; or submit the file, to begin a run of it".to_owned(),
        })
        .collect();
    match other.is_empty() {
        true => Ok(()),
        false => Err(Fault::unusable(
            format!("{} is a run of another workflow", head.id),
            other,
        )),
    }
}

fn shaped(preview: preview::Preview) -> ResumePreview {
    let tasks = preview.tasks.into_iter().map(|task| ResumeTask {
        name: task.name,
        kept: u64::from(task.kept),
        runs: task.runs.map(u64::from),
        why: task.why.map(|why| why.word().to_owned()),
    });
    ResumePreview {
        tasks: tasks.collect(),
        removed: preview.removed,
    }
}

/// Does what takes a while for a large workflow on a thread that may be busy.
async fn compiled<T, U>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<U>
where
    T: Send + 'static,
    U: From<T>,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map(U::from),
        Err(error) => Err(Fault::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "bug",
            format!("reading the workflow has failed: {error}"),
        )),
    }
}

async fn wish(app: &App, wish: RunWish) -> Answer<(RunId, Generation)> {
    let wish = Box::new(wish);
    let done = app.ask(|reply| Ask::Run { wish, reply }).await?;
    done.map_err(|error| fault(&error))
}

fn fault(error: &RunError) -> Fault {
    let text = error.to_string();
    match error {
        RunError::Unknown(run) => unknown(*run),
        RunError::State(..) => Fault::new(StatusCode::CONFLICT, "state", text),
        RunError::Generation(..) => Fault::new(StatusCode::CONFLICT, "generation", text),
        RunError::NoTask(..) => no_task(&text),
        RunError::Plan(_) | RunError::StrictNeedsStore => {
            let field = match error {
                RunError::Plan(_) => "tasks",
                _ => "exclusive",
            };
            let at = ProblemAt {
                field: field.to_owned(),
                message: text.clone(),
                mend: "mend the workflow, and send it again".to_owned(),
            };
            Fault::unusable(text, vec![at])
        }
    }
}

fn no_task(text: &str) -> Fault {
    let at = ProblemAt {
        field: "task".to_owned(),
        message: text.to_owned(),
        mend: "`baton show RUN` lists its tasks".to_owned(),
    };
    Fault::unusable(text, vec![at])
}
