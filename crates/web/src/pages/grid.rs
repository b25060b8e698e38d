//! The last executions of an entry: a column for each with its duration, a row for each task.

use baton_model::api::{Instance, Run, RunTask};

use super::instances::InstanceRow;
use crate::graph::TaskState;
use crate::markup::Markup;
use crate::text::{duration, encoded};
use crate::time::Stamp;

/// Rows of a grid: of a workflow with more tasks, first those that have failed.
const ROWS_MAX: usize = 40;

/// Height of the bar of the longest execution.
const BAR_HEIGHT: u64 = 40;

/// The last executions of an entry, oldest first.
#[derive(Debug, Default)]
pub struct Grid {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Tasks that are not shown.
    pub omitted: usize,
    /// The longest duration.
    pub longest: String,
}

/// An execution: a run, or an instance.
#[derive(Debug)]
pub struct Column {
    pub id: String,
    pub href: String,
    pub state: &'static str,
    /// Id, state and duration.
    pub label: String,
    pub began: Stamp,
    pub bar: Markup,
    elapsed_ms: u64,
    is_ended: bool,
}

/// A task, with its state in each execution that has it.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub cells: Vec<Option<Cell>>,
}

/// The state of a task in an execution.
#[derive(Debug)]
pub struct Cell {
    pub state: &'static str,
    pub href: String,
    pub label: String,
}

/// What the executions that have ended say.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub done: usize,
    /// DONE or FAILED: a halt is neither.
    pub ended: usize,
    /// Whether the last of them is DONE.
    pub is_done_now: bool,
    /// Median duration of those that are DONE; empty if there are none.
    pub median: String,
}

impl Grid {
    /// The grid of runs with their tasks, newest first.
    #[must_use]
    pub fn of_runs(latest: &[(Run, Vec<RunTask>)], now: u64) -> Self {
        let columns: Vec<&(Run, Vec<RunTask>)> = latest.iter().rev().collect();
        let mut names: Vec<&str> = Vec::new();
        for (_, tasks) in latest {
            let new = tasks.iter().map(|task| task.name.as_str());
            let new: Vec<&str> = new.filter(|name| !names.contains(name)).collect();
            names.extend(new);
        }
        let mut rows: Vec<Row> = names.iter().map(|name| row(name, &columns)).collect();
        let omitted = rows.len().saturating_sub(ROWS_MAX);
        if omitted > 0 {
            // The sort is stable: otherwise the order stays that of the plan.
            rows.sort_by_key(|row| !row.has_failed());
            rows.truncate(ROWS_MAX);
        }
        let columns = columns.iter().map(|(run, _)| {
            let elapsed_ms = run.ended_at.unwrap_or(now).saturating_sub(run.begun_at);
            let href = format!("/runs/{}", run.id);
            let state = (run.state.word(), run.ended_at.is_some());
            Column::new(run.id.clone(), href, state, run.begun_at, elapsed_ms)
        });
        Self {
            rows,
            omitted,
            ..Self::of_columns(columns.collect())
        }
    }

    /// The grid of instances in the order of their submission: one row.
    #[must_use]
    pub fn of_instances(latest: &[&Instance]) -> Self {
        let columns: Vec<Column> = latest
            .iter()
            .map(|instance| {
                let row = InstanceRow::new(instance);
                let state = (row.state, row.ended.is_some());
                let began = instance.started_at.unwrap_or(instance.submitted_at);
                Column::new(row.id, row.href, state, began, row.elapsed_ms)
            })
            .collect();
        let cells = columns.iter().map(|column| {
            Some(Cell {
                state: column.state,
                href: column.href.clone(),
                label: column.label.clone(),
            })
        });
        let row = Row {
            name: "Instances".to_owned(),
            cells: cells.collect(),
        };
        Self {
            rows: vec![row],
            ..Self::of_columns(columns)
        }
    }

    fn of_columns(mut columns: Vec<Column>) -> Self {
        let longest = columns.iter().map(|it| it.elapsed_ms).max().unwrap_or(0);
        for column in &mut columns {
            column.bar = bar(column.elapsed_ms, longest);
        }
        Self {
            columns,
            longest: duration(longest as f64 / 1e3),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// What the executions say that have ended; none if none has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let decided = |it: &&Column| it.is_ended && matches!(it.state, "DONE" | "FAILED");
        let ended: Vec<&Column> = self.columns.iter().filter(decided).collect();
        let last = ended.last()?;
        let done = ended.iter().filter(|it| it.state == "DONE");
        let mut durations: Vec<u64> = done.map(|it| it.elapsed_ms).collect();
        durations.sort_unstable();
        let median = durations.get(durations.len() / 2);
        Some(Outcome {
            done: durations.len(),
            ended: ended.len(),
            is_done_now: last.state == "DONE",
            median: median.map_or_else(String::new, |ms| duration(*ms as f64 / 1e3)),
        })
    }

    /// When the first and the last one began.
    #[must_use]
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        Some((self.columns.first()?.began, self.columns.last()?.began))
    }
}

impl Column {
    fn new(
        id: String,
        href: String,
        (state, is_ended): (&'static str, bool),
        began: u64,
        elapsed_ms: u64,
    ) -> Self {
        let took = duration(elapsed_ms as f64 / 1e3);
        Self {
            label: format!("{id} {state}, {took}"),
            id,
            href,
            state,
            began: Stamp(began),
            bar: Markup::default(),
            elapsed_ms,
            is_ended,
        }
    }
}

impl Row {
    fn has_failed(&self) -> bool {
        let cells = self.cells.iter().flatten();
        { cells }.any(|cell| cell.state == "FAILED")
    }
}

fn row(name: &str, columns: &[&(Run, Vec<RunTask>)]) -> Row {
    let cells = columns.iter().map(|(run, tasks)| {
        let task = tasks.iter().find(|task| task.name == name)?;
        let state = TaskState::of(run, task).badge();
        Some(Cell {
            state,
            href: format!("/runs/{}/items/?task={}", run.id, encoded(name)),
            label: format!("{name} of {}: {state}", run.id),
        })
    });
    Row {
        name: name.to_owned(),
        cells: cells.collect(),
    }
}

/// The duration of an execution beside the longest one. It has a height even if it took no time.
fn bar(elapsed_ms: u64, longest: u64) -> Markup {
    let height = (elapsed_ms * BAR_HEIGHT / longest.max(1)).max(1);
    Markup(format!(
        "<svg class=\"duration\" aria-hidden=\"true\" viewBox=\"0 0 16 {BAR_HEIGHT}\">\
         <rect x=\"2\" y=\"{}\" width=\"12\" height=\"{height}\"/></svg>",
        BAR_HEIGHT - height
    ))
}

#[cfg(test)]
mod tests {
    use baton_model::json::from_value;
    use serde_json::json;

    use super::*;

    fn run(number: u64, state: &str, took: u64, tasks: &[(String, &str)]) -> (Run, Vec<RunTask>) {
        let run = json!({"id": format!("r{number}"), "name": "w", "owner": "o", "state": state,
            "generation": 1, "submittedAt": 0, "begunAt": 0, "endedAt": took, "links": {}});
        let tasks = tasks.iter().map(|(name, status)| {
            let mut items = json!(baton_model::api::ItemCounts::default());
            items[*status] = 1.into();
            let task = json!({"name": name, "index": 0, "items": items, "after": []});
            from_value(&task).expect("a task")
        });
        (from_value(&run).expect("a run"), tasks.collect())
    }

    #[test]
    fn a_grid_has_the_oldest_run_first_and_a_link_in_each_cell() {
        let task = |name: &str, status| (name.to_owned(), status);
        let latest = [
            run(
                3,
                "FAILED",
                4_000,
                &[task("load", "failed"), task("mail", "blocked")],
            ),
            run(2, "DONE", 2_000, &[task("load", "done")]),
            run(1, "DONE", 6_000, &[task("load", "done")]),
        ];
        let grid = Grid::of_runs(&latest, 9_000);
        let ids: Vec<_> = grid.columns.iter().map(|it| &*it.id).collect();
        assert_eq!(ids, ["r1", "r2", "r3"]);
        assert_eq!((grid.longest.as_str(), grid.omitted), ("6.00 s", 0));
        let load = grid.rows[0].cells[2].as_ref().expect("a cell");
        assert_eq!(
            (load.state, &*load.href, &*load.label),
            ("FAILED", "/runs/r3/items/?task=load", "load of r3: FAILED")
        );
        assert!(grid.rows[1].cells[0].is_none());
        let outcome = grid.outcome().expect("ended");
        assert_eq!(
            (outcome.done, outcome.ended, outcome.is_done_now),
            (2, 3, false)
        );
        assert_eq!(outcome.median, "6.00 s");
        assert_eq!(Grid::default().outcome(), None);
    }

    #[test]
    fn of_many_tasks_those_that_have_failed_are_shown() {
        let tasks: Vec<_> = (0..60)
            .map(|at| (format!("t{at}"), if at == 55 { "failed" } else { "done" }))
            .collect();
        let grid = Grid::of_runs(&[run(1, "FAILED", 1_000, &tasks)], 2_000);
        assert_eq!((grid.rows.len(), grid.omitted), (ROWS_MAX, 20));
        assert_eq!((&*grid.rows[0].name, &*grid.rows[1].name), ("t55", "t0"));
    }
}
