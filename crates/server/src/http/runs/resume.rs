//! Resume and retry of runs: with the same or a changed file, or with one task run again.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use baton_core::ledger::{RunHead, StoredRun};
use baton_core::scheduler::{Obstacle, Resume, RunCommand, RunError};
use baton_core::workflow::preview;
use baton_files::{Format, WorkflowFile};
use baton_model::api::{FieldProblem, ResumePreview, ResumeRun, ResumeTask, RetryRun, RunReply};
use baton_model::ids::{Generation, Revision, RunId};
use baton_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use baton_model::principal::Principal;
use baton_model::workflow::Plan;
use serde_json::value::RawValue;

use super::super::app::App;
use super::super::extract::{self, Parameters};
#[cfg(feature = "openapi")]
use super::super::openapi::answers::{NotResumable, Value};
use super::super::problem::{Answer, Fault};
use super::super::response::{one_of, respond};
use super::change::{compiled, fault, no_task, run_command, workflow, wrong};
use super::views;
use crate::access::Caller;

/// Resume a run with the items that are not DONE
///
/// With a file, DONE items run again only if their task, or a task upstream of it, has changed. The
/// run keeps its parameters unless the request sets others; without `file`, `params` are values for
/// the file that the run was submitted with.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/{run}/resume",
    tag = "runs",
    operation_id = "resume-run",
    params(("dryRun" = Option<bool>, Query, description = "Return a preview and change nothing.")),
    request_body(content = ResumeRun<Value>, description = "Optional."),
    responses(
        (status = 200, description = "Resumed and durable; with `dryRun`, the preview.", body = ResumedOrPreview),
        (status = 422, description = "The workflow is invalid; `errors` lists every problem."),
        NotResumable
    )
))]
pub(in super::super) async fn resume(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let dry_run = dry_run(&uri)?;
    let client = caller.principal();
    let asked: Option<ResumeRun<Box<RawValue>>> =
        extract::optional_body(extract::large(request)).await?;
    let asked = asked.unwrap_or_default();
    let file = match asked.file {
        None => None,
        Some(file) => {
            let file = compiled(move || workflow(&file, caller.owner.as_deref()));
            Some(file.await?)
        }
    };
    let options = ResumeOptions {
        file,
        params: asked.params,
        rerun: None,
        generation: asked.generation.map(Generation),
        client,
        dry_run,
    };
    resume_run(&app, run, options).await
}

/// Retry the items of a run that are not DONE, or run one task again
///
/// With `task` the run may be DONE. Other values of parameters (`params`) also run the tasks again
/// that refer to them.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/runs/{run}/retry",
    tag = "runs",
    operation_id = "retry-run",
    params(("dryRun" = Option<bool>, Query, description = "Return a preview and change nothing.")),
    request_body(content = Option<RetryRun>, description = "Optional: without it, the items that are not DONE run."),
    responses(
        (status = 200, description = "Resumed and durable; with `dryRun`, the preview.", body = ResumedOrPreview),
        (status = 422, description = "The run has no such task."),
        NotResumable
    )
))]
pub(in super::super) async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let dry_run = dry_run(&uri)?;
    let asked: Option<RetryRun> = extract::optional_body(request).await?;
    let asked = asked.unwrap_or_default();
    if asked.downstream && asked.task.is_none() {
        let at = FieldProblem {
            field: "downstream".to_owned(),
            message: "`downstream` requires `task`".to_owned(),
            hint: "name the task as `task`".to_owned(),
        };
        return Err(Fault::unusable("`downstream` requires `task`", vec![at]));
    }
    let options = ResumeOptions {
        file: None,
        params: asked.params,
        rerun: asked.task.map(|task| (task, asked.downstream)),
        generation: asked.generation.map(Generation),
        client: caller.principal(),
        dry_run,
    };
    resume_run(&app, run, options).await
}

#[derive(serde::Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
enum ResumedOrPreview {
    /// The run was resumed.
    Resumed(RunReply),
    Preview(ResumePreview),
}

one_of!(ResumedOrPreview: Resumed | Preview);

fn dry_run(uri: &Uri) -> Answer<bool> {
    let parameters = Parameters::of(uri, &["dryRun"])?;
    Ok(parameters
        .parsed("dryRun", "true or false")?
        .unwrap_or(false))
}

/// How to resume a run.
struct ResumeOptions {
    /// A changed workflow.
    file: Option<WorkflowFile>,
    /// Changed parameters.
    params: BTreeMap<String, String>,
    /// A task to run again, and whether to run everything downstream of it again.
    rerun: Option<(String, bool)>,
    /// Only if this generation is the latest.
    generation: Option<Generation>,
    /// Who asks for it, if that is known.
    client: Option<Arc<Principal>>,
    /// Only return a preview.
    dry_run: bool,
}

async fn resume_run(app: &App, run: RunId, options: ResumeOptions) -> Answer<Response> {
    // Serialized, and not during pruning: the leader relies on the state that is read here.
    let _history_stays = app.0.history.lock().await;
    let kept = app.read(move |store| store.stored_run(run)).await?;
    let kept = kept.ok_or_else(|| Fault::unknown_run(run))?;
    let last = kept.head.generation;
    if options.generation.is_some_and(|wanted| wanted != last) {
        return Err(fault(&RunError::Generation(run, last)));
    }
    let file = match options.file {
        None if !options.params.is_empty() => Some(stored_file(app, &kept).await?),
        file => file,
    };
    let plan = match file {
        None => None,
        Some(file) => Some(changed_plan(&kept, file, options.params).await?),
    };
    let rerun = options.rerun;
    if options.dry_run {
        if let Some(obstacle) = Obstacle::of_resume(&kept.head, rerun.is_some()) {
            return Err(fault(&RunError::State(run, kept.head.state, obstacle)));
        }
        let preview = compiled(move || {
            let rerun = rerun.as_ref().map(|(task, down)| (task.as_str(), *down));
            let seen = preview::preview(&kept.plan, &kept.ended, plan.as_ref(), rerun);
            seen.map_err(|reason| no_task(&reason))
        });
        let preview = ResumedOrPreview::Preview(preview_view(preview.await?));
        return Ok(respond(StatusCode::OK, &preview));
    }
    let resume = Resume {
        run: kept,
        plan,
        rerun,
        generation: options.generation,
    };
    let (run, generation) = run_command(app, RunCommand::Resume(resume), options.client).await?;
    let resumed = ResumedOrPreview::Resumed(views::accepted(run, generation));
    Ok(respond(StatusCode::OK, &resumed))
}

/// The file of a run: the one that it was submitted or last resumed with, or its revision in the
/// library. Its plan has the values of the parameters already.
async fn stored_file(app: &App, run: &StoredRun) -> Answer<WorkflowFile> {
    let head = &run.head;
    let no_file = || {
        let at = FieldProblem {
            field: "params".to_owned(),
            message: format!(
                "the file of {} is not stored: it is larger than {WORKFLOW_SOURCE_BYTES_MAX} \
                 bytes, was sent in parts, or was submitted to an earlier version of Baton",
                head.id
            ),
            hint: "send the workflow as `file`, too: baton resume RUN FILE -p NAME=VALUE"
                .to_owned(),
        };
        Fault::unusable("`params` requires `file` for this run", vec![at])
    };
    let source = match &run.plan.source {
        Some(source) => Arc::clone(source),
        None => {
            // A run of the library that was resumed with a file has not its revision any more.
            let of_library = head.origin.filter(|_| head.plan == Generation(1));
            let origin = of_library.ok_or_else(no_file)?;
            let next = Revision(origin.revision.0.saturating_add(1));
            let page = app.read(move |store| store.revisions(origin.task, Some(next), 1));
            let found = page.await?.items.into_iter().next();
            let found = found.filter(|found| found.revision == origin.revision);
            found.ok_or_else(no_file)?.definition.source.clone()
        }
    };
    compiled(move || baton_files::parse_workflow(&source, Format::Json, "file").map_err(wrong))
        .await
}

/// The plan of a changed file: values of the run stay in force for parameters that the file still
/// has and the request does not set.
async fn changed_plan(
    kept: &StoredRun,
    file: WorkflowFile,
    params: BTreeMap<String, String>,
) -> Answer<Arc<Plan>> {
    let mut merged = kept.plan.params.clone();
    merged.retain(|name, _| file.params.contains_key(name));
    merged.extend(params);
    // A parameter that the run does not have yet refers to the time of the run.
    let due = kept.head.origin.and_then(|origin| origin.due);
    let at = due.map_or(kept.head.submitted, |due| due.nominal);
    let plan: Arc<Plan> =
        compiled(move || file.plan_with_source(&merged, at).map_err(wrong)).await?;
    same_workflow(&kept.head, &plan)?;
    Ok(plan)
}

/// Checks that a resumed run keeps its workflow and its owner.
fn same_workflow(head: &RunHead, plan: &Plan) -> Answer<()> {
    let fields = [
        ("workflow", &head.name, &plan.name),
        ("owner", &head.owner, &plan.owner),
    ];
    let other = fields.iter().filter(|(_, is, other)| is != other);
    let other: Vec<FieldProblem> = other
        .map(|(field, is, other)| FieldProblem {
            field: (*field).to_owned(),
            message: format!("it is `{is}` in the run and `{other}` in this file"),
            hint: "restore the old value, or submit the file as a new run".to_owned(),
        })
        .collect();
    if other.is_empty() {
        Ok(())
    } else {
        Err(Fault::unusable(
            format!("{} is a run of another workflow", head.id),
            other,
        ))
    }
}

fn preview_view(preview: preview::Preview) -> ResumePreview {
    let tasks = preview.tasks.into_iter().map(|task| ResumeTask {
        name: task.name,
        kept: u64::from(task.kept),
        runs: task.runs.map(u64::from),
        reason: task.reason.map(|reason| reason.word().to_owned()),
    });
    ResumePreview {
        tasks: tasks.collect(),
        removed: preview.removed,
    }
}
