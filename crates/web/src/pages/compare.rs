//! A run beside the one before it: what each task did then and now.

use std::collections::BTreeMap;

use baton_model::api::{List, Run, RunItem, RunTask};

use baton_model::state::UniversalState;

use super::next;
use crate::graph::TaskState;
use crate::text::duration;

/// Rows of a comparison: of a run with more tasks, those that differ.
const ROWS_MAX: usize = 100;

/// A change of the mean duration that counts as a difference.
const NOTABLE: f64 = 0.1;

/// A run as far as it is compared.
pub struct Side<'a, V> {
    pub run: &'a Run,
    pub tasks: &'a List<RunTask>,
    /// The first items of the run: an ended run has no means of its tasks.
    pub items: &'a List<RunItem<V>>,
}

/// The comparison of a run with the previous run of the same workflow.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The previous run: its id, its state, and how long both took.
    pub before: String,
    pub before_state: &'static str,
    pub took_before: String,
    pub took: String,
    pub difference: String,
    pub rows: Vec<CompareRow>,
    /// Tasks that are not shown, because they do not differ or are too many.
    pub omitted: usize,
}

/// A task in both runs.
#[derive(Debug, PartialEq, Eq)]
pub struct CompareRow {
    pub name: String,
    /// `None` if only the previous run has the task.
    pub state: Option<&'static str>,
    /// `None` if only this run has it.
    pub state_before: Option<&'static str>,
    pub mean: String,
    pub mean_before: String,
    /// The change of the mean duration: `+2.00 s (20 %)`.
    pub difference: String,
    differs: bool,
}

impl Comparison {
    #[must_use]
    pub fn new<V>(after: &Side<'_, V>, before: &Side<'_, V>, now: u64) -> Self {
        let seconds = |run: &Run| {
            let ended = run.ended_at.unwrap_or(now);
            ended.saturating_sub(run.begun_at) as f64 / 1e3
        };
        let (took, took_before) = (seconds(after.run), seconds(before.run));
        // Of lists with more pages it is not known what is new or gone.
        let is_whole = next(&after.tasks.links).is_none() && next(&before.tasks.links).is_none();
        let mut rows = rows(
            (after.run, &after.timed()),
            (before.run, &before.timed()),
            is_whole,
        );
        let count = rows.len();
        if count > ROWS_MAX {
            rows.retain(|row| row.differs);
            rows.truncate(ROWS_MAX);
        }
        Self {
            before: before.run.id.clone(),
            before_state: before.run.state.word(),
            took: duration(took),
            took_before: duration(took_before),
            difference: difference(Some(took), Some(took_before)).0,
            omitted: count - rows.len(),
            rows,
        }
    }
}

impl<V> Side<'_, V> {
    /// The tasks, each with the mean duration of its DONE items, as far as it is known.
    pub(super) fn timed(&self) -> Vec<RunTask> {
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let done = self.items.items.iter();
        for item in done.filter(|item| item.state == UniversalState::Done) {
            if let (Some(started), Some(ended)) = (item.started_at, item.ended_at) {
                let (sum, count) = sums.entry(&item.task).or_default();
                *sum += ended.saturating_sub(started) as f64 / 1e3;
                *count += 1.0;
            }
        }
        let timed = self.tasks.items.iter().cloned().map(|mut task| {
            let known = sums.get(&*task.name).map(|(sum, count)| sum / count);
            task.mean_seconds = task.mean_seconds.or(known);
            task
        });
        timed.collect()
    }
}

/// The tasks of this run in their order, then those that only the previous one has.
fn rows(
    (run, tasks): (&Run, &[RunTask]),
    (run_before, before): (&Run, &[RunTask]),
    is_whole: bool,
) -> Vec<CompareRow> {
    let mut known: BTreeMap<&str, &RunTask> = before
        .iter()
        .map(|task| (task.name.as_str(), task))
        .collect();
    let here = |task| (run, task);
    let then = |task| (run_before, task);
    let mut rows = Vec::new();
    for task in tasks {
        match known.remove(task.name.as_str()) {
            None if !is_whole => {}
            old => rows.push(CompareRow::new(Some(here(task)), old.map(then))),
        }
    }
    if is_whole {
        let gone = before.iter().filter(|task| known.contains_key(&*task.name));
        rows.extend(gone.map(|task| CompareRow::new(None, Some(then(task)))));
    }
    rows
}

impl CompareRow {
    fn new(task: Option<(&Run, &RunTask)>, before: Option<(&Run, &RunTask)>) -> Self {
        let state = |(run, task): (&Run, &RunTask)| TaskState::of(run, task).badge();
        let (state, state_before) = (task.map(state), before.map(state));
        let (task, before) = (task.map(|it| it.1), before.map(|it| it.1));
        let mean = |task: Option<&RunTask>| task.and_then(|task| task.mean_seconds);
        let text = |seconds: Option<f64>| seconds.map(duration).unwrap_or_default();
        let (now, then) = (mean(task), mean(before));
        let (difference, is_notable) = difference(now, then);
        let name = task.or(before).map(|task| task.name.clone());
        Self {
            name: name.unwrap_or_default(),
            differs: is_notable || state != state_before,
            state,
            state_before,
            mean: text(now),
            mean_before: text(then),
            difference,
        }
    }

    /// What became of the task since the previous run.
    #[must_use]
    pub fn note(&self) -> &'static str {
        match (self.state, self.state_before) {
            (Some(_), None) => "new",
            (None, Some(_)) => "removed",
            _ => "",
        }
    }
}

/// The difference of two durations in words, and whether it is notable.
fn difference(now: Option<f64>, before: Option<f64>) -> (String, bool) {
    let (Some(now), Some(before)) = (now, before) else {
        return (String::new(), false);
    };
    let change = now - before;
    let sign = if change < 0.0 { "−" } else { "+" };
    let size = duration(change.abs());
    let share = change / before;
    let is_notable = share.is_finite() && share.abs() >= NOTABLE;
    let share = if share.is_finite() {
        format!(" ({sign}{:.0} %)", share.abs() * 100.0)
    } else {
        String::new()
    };
    (format!("{sign}{size}{share}"), is_notable)
}

#[cfg(test)]
mod tests {
    use baton_model::api::ItemCounts;

    use super::*;

    fn task(name: &str, items: ItemCounts, mean_seconds: Option<f64>) -> RunTask {
        RunTask {
            name: name.to_owned(),
            index: 0,
            items,
            unmapped: false,
            after: Vec::new(),
            when: None,
            reason: None,
            mean_seconds,
            progress: None,
        }
    }

    fn done() -> ItemCounts {
        ItemCounts {
            done: 1,
            ..ItemCounts::default()
        }
    }

    fn failed() -> ItemCounts {
        ItemCounts {
            failed: 1,
            ..ItemCounts::default()
        }
    }

    #[test]
    fn tasks_are_compared_by_name_and_new_and_removed_ones_are_named() {
        let now = [
            task("load", done(), Some(12.0)),
            task("check", failed(), None),
            task("mail", done(), Some(1.0)),
        ];
        let before = [
            task("load", done(), Some(10.0)),
            task("old", done(), Some(3.0)),
            task("check", done(), Some(2.0)),
        ];
        let run = serde_json::json!({"id": "r1", "name": "w", "owner": "o", "state": "FAILED",
            "generation": 1, "submittedAt": 0, "begunAt": 0, "links": {}});
        let run: Run = baton_model::json::from_value(&run).expect("a run");
        let rows = rows((&run, &now), (&run, &before), true);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    &*row.name,
                    row.state,
                    row.state_before,
                    &*row.difference,
                    row.note(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("load", Some("DONE"), Some("DONE"), "+2.00 s (+20 %)", ""),
                ("check", Some("FAILED"), Some("DONE"), "", ""),
                ("mail", Some("DONE"), None, "", "new"),
                ("old", None, Some("DONE"), "", "removed"),
            ]
        );
        assert!(rows.iter().all(|row| row.differs), "{rows:?}");
        assert_eq!(super::rows((&run, &now), (&run, &before), false).len(), 2);
    }

    #[test]
    fn the_mean_of_an_ended_task_is_that_of_its_done_items() {
        let json = |state: &str, from: u64, to: u64| {
            serde_json::json!({"task": "load", "item": 0, "instance": "i1", "state": state,
                "generation": 1, "startedAt": from, "endedAt": to, "links": {}})
        };
        let items = serde_json::json!({"items": [json("DONE", 0, 1_000), json("DONE", 0, 3_000),
            json("FAILED", 0, 9_000)], "links": {}});
        let items: List<RunItem<serde_json::Value>> =
            baton_model::json::from_value(&items).expect("a list");
        let run = serde_json::json!({"id": "r1", "name": "w", "owner": "o", "state": "DONE",
            "generation": 1, "submittedAt": 0, "begunAt": 0, "endedAt": 4_000, "links": {}});
        let run: Run = baton_model::json::from_value(&run).expect("a run");
        let tasks = List {
            items: vec![task("load", done(), None), task("idle", done(), None)],
            total: None,
            links: BTreeMap::new(),
        };
        let side = Side {
            run: &run,
            tasks: &tasks,
            items: &items,
        };
        let means: Vec<_> = side.timed().iter().map(|it| it.mean_seconds).collect();
        assert_eq!(means, [Some(2.0), None]);
        let same = Comparison::new(&side, &side, 9_000);
        assert_eq!((&*same.took, same.rows.len()), ("4.00 s", 2));
    }

    #[test]
    fn small_changes_are_no_difference() {
        assert_eq!(
            difference(Some(10.5), Some(10.0)),
            ("+0.50 s (+5 %)".to_owned(), false)
        );
        assert_eq!(
            difference(Some(8.0), Some(10.0)),
            ("−2.00 s (−20 %)".to_owned(), true)
        );
        assert_eq!(
            difference(Some(8.0), Some(0.0)),
            ("+8.00 s".to_owned(), false)
        );
        assert_eq!(difference(Some(8.0), None), (String::new(), false));
    }
}
