//! The items of a run: `baton show RUN --items`, and which instance is meant by a run, a task
//! and an item.
//!
//! Only items that have an instance can be listed. An item that ran in several generations is
//! there with its last instance.

use baton_client::{Client, ItemFilter, RunItem};
use baton_model::api::{Run, RunTask};
use baton_model::ids::{InstanceId, RunId};
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::time::Wall;
use clap::Args;
use serde_json::Value;

use super::super::{REFUSED, ids, refused, rows};
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::{between, now, span, stamp};
use crate::views::{fit, total};

/// Rows of a list where nobody says how many.
const ROWS: usize = 1_000;
/// Columns of a value in a list; `--json` has all of it.
const VALUE_WIDTH: usize = 32;
/// How many tasks an error names.
const NAMES_MAX: usize = 10;

/// Which items are listed.
#[derive(Debug, Args)]
pub(in super::super) struct ItemListArgs {
    /// Of a run: its items that have begun, with their instances
    #[arg(long, conflicts_with_all = ["graph", "dot", "svg", "timeline"])]
    pub(super) items: bool,
    /// With --items: of this task only
    #[arg(long, value_name = "TASK", requires = "items")]
    task: Option<String>,
    /// With --task: this item only; the first is 0
    #[arg(long, value_name = "N", requires = "task")]
    item: Option<u32>,
    /// With --items: in this state only, such as RUNNING or FAILED
    #[arg(long, value_name = "STATE", requires = "items")]
    state: Option<String>,
    /// With --items: at most so many rows [default: 1000; with --json, all]
    #[arg(short = 'n', long, value_name = "N", requires = "items")]
    number: Option<usize>,
}

/// The items of a run as a table, or as the API has them.
pub(super) async fn list(
    run: RunId,
    args: &ItemListArgs,
    json: bool,
    client: &Client,
) -> CommandResult {
    let filter = ItemFilter {
        state: args.state.as_ref().map(|it| it.to_ascii_uppercase()),
        task: args.task.clone(),
        item: args.item,
    };
    let most = if json {
        args.number.unwrap_or(usize::MAX)
    } else {
        args.number.unwrap_or(ROWS)
    };
    // One more, to know whether there is more.
    let mut items = find(run, &filter, most.saturating_add(1), client).await?;
    let more = items.len() > most;
    items.truncate(most);
    let mut out = Output::new();
    if json {
        out.json(&items)?;
        return out.done();
    }
    if items.is_empty() && !more {
        note("no such item has begun; `baton explain` tells why");
    } else {
        table(&items, now()).print(&mut out)?;
    }
    out.done()?;
    if more {
        note("there are more; -n shows so many");
    }
    Ok(())
}

/// Items of a run. A task that it has not is told with those that it has.
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
        // Fails unless that was not the reason.
        task(run, name, client).await?;
    }
    Err(refused(error))
}

/// A task of a run by its name.
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

/// `a, b and 7 more`, of so many.
fn names(tasks: &[RunTask], all: u64) -> String {
    let named: Vec<String> = tasks
        .iter()
        .take(NAMES_MAX)
        .map(|task| clean(&task.name))
        .collect();
    match all.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {} more", named.join(", "), ids::count(more)),
    }
}

/// Which item of a run is meant.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ItemRef<'a> {
    pub(in super::super) run: RunId,
    /// May be left out if the run has one item.
    pub(in super::super) task: Option<&'a str>,
    /// May be left out if the task has one item.
    pub(in super::super) item: Option<u32>,
}

/// The instance of an item; none if it has not begun and may still do so.
pub(in super::super) async fn instance(
    item: ItemRef<'_>,
    client: &Client,
) -> Result<Option<InstanceId>, Failure> {
    let run = item.run;
    let seen = client.run(run).await.map_err(refused)?;
    match (item.task, item.item) {
        (Some(name), None) => check_item(&task(run, name, client).await?, None)?,
        (None, _) if total(&seen.items.unwrap_or_default()) > 1 => {
            let tasks = client.run_tasks(run, NAMES_MAX).await.map_err(refused)?;
            return Err(ambiguous(&seen, &tasks));
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
    if seen.state.is_terminal() {
        Err(never_started(&seen))
    } else {
        Ok(None)
    }
}

/// Fails unless it can be told which item of a task is meant.
fn check_item(task: &RunTask, item: Option<u32>) -> Result<(), Failure> {
    let name = clean(&task.name);
    let all = total(&task.items);
    let message = match item {
        _ if all == 0 && !task.unmapped => format!("{name} has no items"),
        None if all > 1 => format!(
            "{name} has {} items: say which, with --item 0 to {}",
            ids::count(all),
            all - 1
        ),
        Some(item) if u64::from(item) >= all && !task.unmapped => format!(
            "{name} has no item {item}: it has {}, and the first is 0",
            ids::count(all)
        ),
        _ => return Ok(()),
    };
    Err(Failure::usage(message))
}

/// That a run has more items than one.
fn ambiguous(run: &Run, first: &[RunTask]) -> Failure {
    let all = ids::count(total(&run.items.unwrap_or_default()));
    let names = names(first, run.tasks.unwrap_or_default());
    let id = clean(&run.id);
    Failure::usage(format!(
        "{id} has {all} items: say of which task, with --task: {names}; `baton show {id} --items` \
         lists them"
    ))
}

fn never_started(run: &Run) -> Failure {
    Failure::failed(format!(
        "{} is {}, and that item has never begun; `baton explain {0}` tells why",
        clean(&run.id),
        run.state
    ))
}

fn instance_of(item: &RunItem) -> Result<InstanceId, Failure> {
    ids::instance(&item.instance).map_err(|_| {
        let id = clean(&item.instance);
        Failure::Message(REFUSED, format!("the scheduler calls it `{id}`"))
    })
}

fn table(items: &[RunItem], now: Wall) -> Table {
    let mut table = Table::headed(&[
        "TASK", "ITEM", "VALUE", "STATE", "INSTANCE", "STARTED", "TOOK", "WORKER", "END",
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
        some(item.started_at.map(|at| stamp(Wall(at)))),
        some(took),
        some(item.worker.as_deref().map(clean)),
        clean(item.end_text.as_deref().unwrap_or("")).into(),
    ]
}

/// A string as it is, anything else as JSON.
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
            ..item("extract", 1, 500, Some(2_000), UniversalState::Failed)
        };
        let running = RunItem {
            value: Some("a value that is longer than its column would like it".into()),
            ..item("extract", 2, 1_000, None, UniversalState::Running)
        };
        let queued = RunItem {
            started_at: None,
            worker: None,
            ..item("load", 0, 0, None, UniversalState::Queued)
        };
        let lines = table(&[failed, running, queued], Wall(BEGUN + 61_000));
        assert_eq!(
            lines.lines(&Output::new()),
            [
                "TASK     ITEM  VALUE                             STATE    INSTANCE  STARTED               TOOK   WORKER  END",
                "extract  1     eu                                FAILED   i1        2026-11-15 12:00:00Z  1.5s   w1      exit 7\\u{7}",
                "extract  2     a value that is longer than its…  RUNNING  i2        2026-11-15 12:00:01Z  1m00s  w1",
                "load     0     -                                 QUEUED   i0        -                     -      -",
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
            "extract has 3 items: say which, with --item 0 to 2"
        );
        assert_eq!(
            message(check_item(&three, Some(3)).expect_err("no such item")),
            "extract has no item 3: it has 3, and the first is 0"
        );
        assert!(check_item(&three, Some(2)).is_ok());
        assert!(check_item(&task("one", counts("1w"), &[]), None).is_ok());
        assert!(check_item(&task("none", counts(""), &[]), None).is_err());
        let mut case = Case::new("etl", vec![three, task("load", counts("1w"), &[])]);
        case.run.items = Some(counts("3d 1w"));
        assert_eq!(
            message(ambiguous(&case.run, &case.tasks)),
            "r1 has 4 items: say of which task, with --task: extract, load; `baton show r1 \
             --items` lists them"
        );
        assert_eq!(names(&case.tasks, 12), "extract, load and 10 more");
    }
}
