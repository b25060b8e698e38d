//! The page of an entry of the library, also after a launch that was refused.

use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{DueTimes, Instance, List, Problem, Run, RunTask, Task, TaskUsage, Tick};
use baton_model::library::EntryKind;
use baton_web::frame::Refresh;
use baton_web::pages::entry::{Answers, EntryPage};
use baton_web::pages::launch::Refusal;
use serde_json::Value;

use super::api_client::ApiClient;
use super::shared::ForOneReader;
use super::show::{Pairs, ROWS, with_query};
use super::{Pages, html};
use crate::http::views::encoded;

/// Tasks of each run in the grid of a workflow.
const GRID_TASKS: usize = 100;

pub(super) async fn page(
    pages: &Pages,
    api: &ApiClient,
    owner: &str,
    name: &str,
    query: &Pairs,
) -> Result<Response, Problem> {
    let answers = answers(api, owner, name, query).await?;
    let title = format!("{}/{}", answers.entry.owner, answers.entry.name);
    let frame = pages.frame(api, title, "/library/");
    let mut response = html(StatusCode::OK, &EntryPage::new(frame, answers));
    // The form has a key of its own: the same key would launch once for two readers.
    response.extensions_mut().insert(ForOneReader);
    Ok(response)
}

/// The page of an entry after a launch was refused: with what was typed, and with the errors.
pub(super) async fn refused(
    pages: &Pages,
    api: &ApiClient,
    back: &str,
    refusal: Refusal,
) -> Response {
    let path = back.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let [owner, "tasks", name] = segments[..] else {
        return pages.error(api, refusal.problem, Some(back.to_owned()));
    };
    let answers = match answers(api, owner, name, &Pairs::new()).await {
        Ok(answers) => answers,
        Err(problem) => return pages.error(api, problem, Some(back.to_owned())),
    };
    let status = StatusCode::from_u16(refusal.problem.status);
    let title = format!("{}/{}", answers.entry.owner, answers.entry.name);
    let mut frame = pages.frame(api, title, "/library/");
    back.clone_into(&mut frame.here);
    // Its address is that of the form.
    frame.refresh = Refresh::Never;
    let answers = Answers {
        refusal: Some(refusal),
        ..answers
    };
    let status = status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    html(status, &EntryPage::new(frame, answers))
}

async fn answers(
    api: &ApiClient,
    owner: &str,
    name: &str,
    query: &Pairs,
) -> Result<Answers, Problem> {
    // Segments of the address are encoded already.
    let path = format!("/{owner}/tasks/{name}");
    let entry: Task<Value> = api.get(&with_query(&path, query)).await?;
    let (due, ticks, revisions) = (
        format!("{path}/due"),
        format!("{path}/ticks?limit=50"),
        format!("{path}/revisions"),
    );
    let of = format!(
        "owner={}&name={}&limit={ROWS}",
        encoded(&entry.owner),
        encoded(&entry.name)
    );
    let (history, of_workflow) = (format!("/history?{of}"), format!("/runs?{of}"));
    let is_workflow = entry.kind == EntryKind::Workflow;
    let (due, ticks, revisions, latest) = tokio::join!(
        api.get_part::<DueTimes>(&due, "The schedule"),
        api.get::<List<Tick>>(&ticks),
        api.get::<List<Task<Value>>>(&revisions),
        async {
            if is_workflow {
                (
                    None,
                    api.get_part::<List<Run>>(&of_workflow, "The latest runs")
                        .await,
                )
            } else {
                (
                    api.get_part::<List<Instance>>(&history, "The latest instances")
                        .await,
                    None,
                )
            }
        },
    );
    let before = match entry.revision {
        0 | 1 => None,
        revision => {
            let before = format!("{path}?revision={}", revision - 1);
            api.get_part::<Task<Value>>(&before, "The revision before")
                .await
        }
    };
    let of_tasks = if is_workflow {
        format!("workflow={}", encoded(&entry.name))
    } else {
        format!("workflow=&task={}", encoded(&entry.name))
    };
    let used = format!(
        "/usage/tasks?owner={}&limit={GRID_TASKS}&{of_tasks}",
        encoded(&entry.owner)
    );
    let used = api
        .get_part::<List<TaskUsage>>(&used, "Requests and use")
        .await;
    Ok(Answers {
        used,
        before: before.and_then(|before| before.definition),
        latest: self::latest(api, latest.1.as_ref()).await,
        entry,
        due,
        ticks: ticks?,
        revisions: revisions?,
        instances: latest.0,
        runs: latest.1,
        refusal: None,
    })
}

/// The latest runs of a workflow with their tasks, for the grid.
async fn latest(api: &ApiClient, runs: Option<&List<Run>>) -> Vec<(Run, Vec<RunTask>)> {
    let mut latest = Vec::new();
    for run in runs.map(|list| &*list.items).unwrap_or_default() {
        let tasks = format!("/runs/{}/tasks?limit={GRID_TASKS}", run.id);
        let part = format!("The tasks of {}", run.id);
        if let Some(tasks) = api.get_part::<List<RunTask>>(&tasks, &part).await {
            latest.push((run.clone(), tasks.items));
        }
    }
    latest
}
