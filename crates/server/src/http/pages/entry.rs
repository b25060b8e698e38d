//! The page of an entry of the library, also after a launch that was refused.

use axum::http::StatusCode;
use axum::response::Response;
use baton_core::clock::Zone;
use baton_model::api::{DueTimes, Instance, List, Problem, Run, RunTask, Task, TaskUsage, Tick};
use baton_model::library::EntryKind;
use baton_model::time::Wall;
use baton_web::frame::Refresh;
use baton_web::pages::entry::{Answers, EntryPage};
use baton_web::pages::launch::Refusal;
use serde_json::Value;

use super::api_client::{ApiClient, problem};
use super::shared::ForOneReader;
use super::show::{Pairs, parameter, with_query};
use super::{Pages, html};
use crate::http::views::encoded;

/// Executions in the grid.
const GRID_RUNS: usize = 20;
const GRID_INSTANCES: usize = 40;

/// Tasks of each run in the grid of a workflow.
const GRID_TASKS: usize = 200;

/// Next due times.
const DUE: usize = 5;

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
    let compared = parameter(query, "against");
    let own: Pairs = query
        .iter()
        .filter(|(name, _)| name != "against")
        .cloned()
        .collect();
    let entry: Task<Value> = api.get(&with_query(&path, &own)).await?;
    let (due, ticks, revisions) = (
        format!("{path}/due?limit={DUE}"),
        format!("{path}/ticks?limit=50"),
        format!("{path}/revisions"),
    );
    let is_workflow = entry.kind == EntryKind::Workflow;
    let (due, ticks, revisions, latest, instances) = tokio::join!(
        api.get_part::<DueTimes>(&due, "The schedule"),
        api.get::<List<Tick>>(&ticks),
        api.get::<List<Task<Value>>>(&revisions),
        async {
            if is_workflow {
                latest_runs(api, &entry).await
            } else {
                Vec::new()
            }
        },
        async {
            if is_workflow {
                Vec::new()
            } else {
                latest_instances(api, &entry).await
            }
        },
    );
    let against = match entry.revision {
        revision if compared.is_empty() => revision.checked_sub(1).filter(|before| *before > 0),
        _ => Some(
            compared
                .parse()
                .map_err(|_| problem(400, "a revision is a number"))?,
        ),
    };
    let other = match against {
        Some(other) => {
            let other = format!("{path}?revision={other}");
            api.get_part::<Task<Value>>(&other, "The other revision")
                .await
        }
        None => None,
    };
    let of_tasks = if is_workflow {
        format!("workflow={}", encoded(&entry.name))
    } else {
        format!("workflow=&task={}", encoded(&entry.name))
    };
    let used = format!(
        "/usage/tasks/?owner={}&limit={GRID_TASKS}&{of_tasks}",
        encoded(&entry.owner)
    );
    let used = api
        .get_part::<List<TaskUsage>>(&used, "Requests and use")
        .await;
    Ok(Answers {
        used,
        clock: due.as_ref().map(clock).unwrap_or_default(),
        against: other.and_then(|other| Some((other.revision, other.definition?))),
        latest,
        instances,
        entry,
        due,
        ticks: ticks?,
        revisions: revisions?,
        refusal: None,
    })
}

/// Due times as the zone of their schedule has them.
fn clock(due: &DueTimes) -> Vec<String> {
    let zone = due.zone.as_deref().and_then(|zone| Zone::named(zone).ok());
    let zone = zone.unwrap_or(Zone::UTC);
    let shown = |at: &u64| format!("{} {}", zone.shown(Wall(*at)), zone.name());
    due.at.iter().map(shown).collect()
}

/// The query of the executions of an entry.
fn of(entry: &Task<Value>, limit: usize) -> String {
    let (owner, name) = (encoded(&entry.owner), encoded(&entry.name));
    format!("owner={owner}&name={name}&limit={limit}")
}

/// The latest runs of a workflow with their tasks, newest first.
async fn latest_runs(api: &ApiClient, entry: &Task<Value>) -> Vec<(Run, Vec<RunTask>)> {
    let path = format!("/runs?{}", of(entry, GRID_RUNS));
    let runs: Option<List<Run>> = api.get_part(&path, "The latest runs").await;
    let runs = runs.map(|list| list.items).unwrap_or_default();
    let mut latest = Vec::new();
    // The filter takes patterns, and a name may look like one.
    for run in runs.into_iter().filter(|run| run.name == entry.name) {
        let tasks = format!("/runs/{}/tasks?limit={GRID_TASKS}", run.id);
        let part = format!("The tasks of {}", run.id);
        if let Some(tasks) = api.get_part::<List<RunTask>>(&tasks, &part).await {
            latest.push((run, tasks.items));
        }
    }
    latest
}

/// The latest instances of a task, in the order of their submission.
async fn latest_instances(api: &ApiClient, entry: &Task<Value>) -> Vec<Instance> {
    let of = of(entry, GRID_INSTANCES);
    let (running, ended) = (
        format!("/arena?{of}&sort=-submitted"),
        format!("/history?{of}"),
    );
    let (running, ended) = tokio::join!(
        api.get_part::<List<Instance>>(&running, "What runs"),
        api.get_part::<List<Instance>>(&ended, "The latest instances"),
    );
    let lists = running.into_iter().chain(ended);
    let instances = lists.flat_map(|list| list.items);
    // The filter takes patterns, and a name may look like one.
    let mut instances: Vec<Instance> = instances.filter(|it| it.name == entry.name).collect();
    instances.sort_by_key(|it| (it.submitted_at, number(&it.id)));
    let older = instances.len().saturating_sub(GRID_INSTANCES);
    instances.drain(..older);
    instances
}

/// The number of an id: ids are in the order of submission, their texts are not.
fn number(id: &str) -> u64 {
    id.trim_start_matches('i').parse().unwrap_or(0)
}
