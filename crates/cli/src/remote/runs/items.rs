//! The items of a run: `baton show RUN --items`, and the instance of an item.
//!
//! Only items that have an instance are listed. An item that ran in several generations is listed
//! with its last instance.

use baton_client::{Client, RunItem};
use baton_model::api::{ItemFilter, Run, RunTask};
use baton_model::ids::{InstanceId, RunId};
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use clap::Args;
use serde_json::Value;

use super::super::list;
use crate::connection::{REFUSED, refused};
use crate::ids;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::{fit, grouped};
use crate::time::{between, now, span, stamp};
use crate::views::rows;
use crate::views::total;

/// Default number of rows.
const ROWS: usize = 1_000;
/// Width of the VALUE column; `--json` prints the whole value.
const VALUE_WIDTH: usize = 32;
/// Maximum number of tasks named in an error.
const NAMES_MAX: usize = 10;

/// Options of the item list.
#[derive(Debug, Args)]
pub(in super::super) struct ItemListArgs {
    /// Of a run: list its started items with their instances
    #[arg(long, conflicts_with_all = ["graph", "dot", "svg", "timeline"])]
    pub(in super::super) items: bool,
    /// With --items: only items of this task
    #[arg(long, value_name = "TASK", requires = "items")]
    task: Option<String>,
    /// With --task: only this item, from 0
    #[arg(long, value_name = "N", requires = "task")]
    item: Option<u32>,
    /// Only instances, or with --items only items, in this state, such as RUNNING or FAILED
    #[arg(long, value_name = "STATE", value_parser = list::state)]
    pub(in super::super) state: Option<UniversalState>,
    /// With --items: maximum number of rows [default: 1000; with --json, all]
    #[arg(short = 'n', long, value_name = "N", requires = "items")]
    number: Option<usize>,
}

/// Prints the items of a run as a table, or in the API's format.
pub(super) async fn list(
    run: RunId,
    args: &ItemListArgs,
    json: bool,
    client: &Client,
) -> CommandResult {
    let filter = ItemFilter {
        state: args.state,
        task: args.task.clone(),
        item: args.item,
    };
    let most = if json {
        args.number.unwrap_or(usize::MAX)
    } else {
        args.number.unwrap_or(ROWS)
    };
    // One more row shows whether the list is truncated.
    let mut items = find(run, &filter, most.saturating_add(1), client).await?;
    let more = items.len() > most;
    items.truncate(most);
    let mut out = Output::new();
    if json {
        out.json(&items)?;
        return out.done();
    }
    if items.is_empty() && !more {
        note("no matching item has started; see `baton explain`");
    } else {
        table(&items, now()).print(&mut out)?;
    }
    out.done()?;
    if more {
        note("there are more items; show them with -n N");
    }
    Ok(())
}

/// Fetches items of a run. For an unknown task, the error names the run's tasks.
async fn find(
    run: RunId,
    filter: &ItemFilter,
    most: usize,
    client: &Client,
) -> Result<Vec<RunItem>, Failure> {
    let error = match client.run_items(run, filter, most).await {
        Ok(items) => return Ok(items),
        Err(error) => error,
    };
    let bad = |status| matches!(status, 400 | 422);
    if let Some(name) = &filter.task
        && error.problem().is_some_and(|problem| bad(problem.status))
    {
        // Fails if the task is unknown; otherwise the error has another reason.
        task(run, name, client).await?;
    }
    Err(refused(error))
}

/// Fetches a task of a run by its name.
async fn task(run: RunId, name: &str, client: &Client) -> Result<RunTask, Failure> {
    let tasks = client.run_tasks(run, PLAN_TASKS_MAX).await;
    let mut tasks = tasks.map_err(refused)?;
    let found = tasks.iter().position(|task| task.name == name);
    match found {
        Some(place) => Ok(tasks.swap_remove(place)),
        None => Err(Failure::usage(format!(
            "{run} has no task `{}`; it has {}",
            clean(name),
            names(&tasks, tasks.len() as u64)
        ))),
    }
}

/// Formats names: `a, b and 7 more`.
fn names(tasks: &[RunTask], all: u64) -> String {
    let named: Vec<String> = tasks
        .iter()
        .take(NAMES_MAX)
        .map(|task| clean(&task.name))
        .collect();
    match all.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {} more", named.join(", "), grouped(more)),
    }
}

/// Reference to an item of a run.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ItemRef<'a> {
    pub(in super::super) run: RunId,
    /// May be omitted if the run has one item.
    pub(in super::super) task: Option<&'a str>,
    /// May be omitted if the task has one item.
    pub(in super::super) item: Option<u32>,
}

/// Returns the instance of an item; `None` if it has not started but still may.
pub(in super::super) async fn instance(
    item: ItemRef<'_>,
    client: &Client,
) -> Result<Option<InstanceId>, Failure> {
    let run = item.run;
    let run_info = client.run(run).await.map_err(refused)?;
    match (item.task, item.item) {
        (Some(name), None) => check_item(&task(run, name, client).await?, None)?,
        (None, _) if total(&run_info.items.unwrap_or_default()) > 1 => {
            let tasks = client.run_tasks(run, NAMES_MAX).await.map_err(refused)?;
            return Err(ambiguous(&run_info, &tasks));
        }
        _ => {}
    }
    let filter = ItemFilter {
        state: None,
        task: item.task.map(ToOwned::to_owned),
        item: item.item,
    };
    if let [found] = &*find(run, &filter, 1, client).await? {
        return instance_of(found).map(Some);
    }
    if let (Some(name), Some(_)) = (item.task, item.item) {
        check_item(&task(run, name, client).await?, item.item)?;
    }
    if run_info.state.is_terminal() {
        Err(never_started(&run_info))
    } else {
        Ok(None)
    }
}

/// Fails if the reference to an item of this task is ambiguous or invalid.
fn check_item(task: &RunTask, item: Option<u32>) -> Result<(), Failure> {
    let name = clean(&task.name);
    let all = total(&task.items);
    let message = match item {
        _ if all == 0 && !task.unmapped => format!("{name} has no items"),
        None if all > 1 => format!(
            "{name} has {} items; select one with --item 0 to {}",
            grouped(all),
            all - 1
        ),
        Some(item) if u64::from(item) >= all && !task.unmapped => format!(
            "{name} has no item {item}; it has {}, numbered from 0",
            grouped(all)
        ),
        _ => return Ok(()),
    };
    Err(Failure::usage(message))
}

/// The error for a run with more than one item.
fn ambiguous(run: &Run, first: &[RunTask]) -> Failure {
    let all = grouped(total(&run.items.unwrap_or_default()));
    let names = names(first, run.tasks.unwrap_or_default());
    let id = clean(&run.id);
    Failure::usage(format!(
        "{id} has {all} items; select a task with --task ({names}), or list the items with `baton \
         show {id} --items`"
    ))
}

fn never_started(run: &Run) -> Failure {
    Failure::failed(format!(
        "{} is {}, and the item was never started; see `baton explain {0}`",
        clean(&run.id),
        run.state
    ))
}

fn instance_of(item: &RunItem) -> Result<InstanceId, Failure> {
    ids::instance(&item.instance).map_err(|_| {
        let id = clean(&item.instance);
        Failure::Message(
            REFUSED,
            format!("the scheduler returned an invalid id, `{id}`"),
        )
    })
}

fn table(items: &[RunItem], now: Wall) -> Table {
    let mut table = Table::headed(&[
        "TASK", "ITEM", "VALUE", "STATE", "INSTANCE", "ATTEMPT", "STARTED", "TOOK", "WORKER", "END",
    ]);
    for item in items {
        table.row(row(item, now));
    }
    table
}

fn row(item: &RunItem, now: Wall) -> Vec<Cell> {
    let some = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "-".to_owned()));
    let until = if item.state.is_terminal() {
        item.ended_at.map(Wall)
    } else {
        Some(item.ended_at.map_or(now, Wall))
    };
    let took = item.started_at.zip(until);
    let took = took.map(|(from, to)| span(between(Wall(from), to)));
    vec![
        Cell::new(clean(&item.task), Style::Strong),
        item.item.to_string().into(),
        some(value(item).map(|it| fit(&it, VALUE_WIDTH))),
        Cell::new(item.state.word(), rows::style(item.state)),
        clean(&item.instance).into(),
        some((item.attempts > 0).then(|| item.attempts.to_string())),
        some(item.started_at.map(|at| stamp(Wall(at)))),
        some(took),
        some(item.worker.as_deref().map(clean)),
        clean(item.end_text.as_deref().unwrap_or("")).into(),
    ]
}

/// Formats a value: a string as text, anything else as JSON.
fn value(item: &RunItem) -> Option<String> {
    Some(match item.value.as_ref()? {
        Value::String(text) => clean(text),
        other => clean(&other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::tests::build::{BEGUN, Case, counts, item, task};
    use baton_model::state::UniversalState;

    #[test]
    fn items_are_listed_with_what_leads_to_their_instances() {
        let failed = RunItem {
            value: Some("eu".into()),
            end_text: Some("exit 7\u{7}".to_owned()),
            attempts: 3,
            ..item("extract", 1, 500, Some(2_000), UniversalState::Failed)
        };
        let running = RunItem {
            value: Some("a value that is longer than its column would like it".into()),
            ..item("extract", 2, 1_000, None, UniversalState::Running)
        };
        let queued = RunItem {
            attempts: 0,
            started_at: None,
            worker: None,
            ..item("load", 0, 0, None, UniversalState::Queued)
        };
        let lines = table(&[failed, running, queued], Wall(BEGUN + 61_000));
        assert_eq!(
            lines.lines(&Output::new()),
            [
                "TASK     ITEM  VALUE                             STATE    INSTANCE  ATTEMPT  STARTED               TOOK   WORKER  END",
                "extract  1     eu                                FAILED   i1        3        2026-11-15 12:00:00Z  1.5s   w1      exit 7\\u{7}",
                "extract  2     a value that is longer than its…  RUNNING  i2        1        2026-11-15 12:00:01Z  1m00s  w1",
                "load     0     -                                 QUEUED   i0        -        -                     -      -",
            ]
        );
    }

    fn message(failure: Failure) -> String {
        match failure {
            Failure::Message(2, text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_clear_is_asked_back_with_the_choices() {
        let three = task("extract", counts("3d"), &[]);
        assert_eq!(
            message(check_item(&three, None).expect_err("three items")),
            "extract has 3 items; select one with --item 0 to 2"
        );
        assert_eq!(
            message(check_item(&three, Some(3)).expect_err("no such item")),
            "extract has no item 3; it has 3, numbered from 0"
        );
        assert!(check_item(&three, Some(2)).is_ok());
        assert!(check_item(&task("one", counts("1w"), &[]), None).is_ok());
        assert!(check_item(&task("none", counts(""), &[]), None).is_err());
        let mut case = Case::new("etl", vec![three, task("load", counts("1w"), &[])]);
        case.run.items = Some(counts("3d 1w"));
        assert_eq!(
            message(ambiguous(&case.run, &case.tasks)),
            "r1 has 4 items; select a task with --task (extract, load), or list the items with \
             `baton show r1 --items`"
        );
        assert_eq!(names(&case.tasks, 12), "extract, load and 10 more");
    }
}
