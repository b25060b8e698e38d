//! The list of runs.

use askama::Template;
use baton_model::api::{List, Run};
use baton_model::state::UniversalState;

use super::filters::{Column, Filters, Heading};
use super::next;
use crate::frame::Frame;
use crate::graph;
use crate::text::duration;
use crate::time::Stamp;

/// The list of runs, with filters.
#[derive(Template)]
#[template(path = "runs.html")]
pub struct RunsPage {
    pub frame: Frame,
    pub filters: Filters,
    pub states: Vec<&'static str>,
    pub headings: Vec<Heading>,
    /// Classes that hide columns.
    pub hidden: String,
    pub rows: Vec<RunRow>,
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Debug)]
pub struct RunRow {
    pub id: String,
    pub name: String,
    pub owner: String,
    pub state: &'static str,
    pub halting: bool,
    pub generation: u32,
    /// Items that are DONE, and all of them, where they are known.
    pub progress: Option<(u64, u64)>,
    pub begun: Stamp,
    pub elapsed: String,
    pub elapsed_ms: u64,
    pub due: Option<Stamp>,
}

impl RunRow {
    #[must_use]
    pub fn new(run: &Run, now: u64) -> Self {
        let elapsed_ms = run.ended_at.unwrap_or(now).saturating_sub(run.begun_at);
        Self {
            id: run.id.clone(),
            name: run.name.clone(),
            owner: run.owner.clone(),
            state: run.state.word(),
            halting: run.halting.is_some() && !run.state.is_terminal(),
            generation: run.generation,
            progress: run.items.map(|items| (items.done, graph::total(&items))),
            begun: Stamp(run.begun_at),
            elapsed: duration(elapsed_ms as f64 / 1_000.0),
            elapsed_ms,
            due: run.nominal_at.map(Stamp),
        }
    }
}

/// The class that hides the column of progress, if no row has any.
pub(super) fn without_progress(rows: &[RunRow]) -> String {
    let is_empty = rows.iter().all(|row| row.progress.is_none());
    let class = if is_empty { "hide-5" } else { "" };
    class.to_owned()
}

impl RunsPage {
    #[must_use]
    pub fn new(frame: Frame, filters: Filters, list: &List<Run>) -> Self {
        let states = [
            UniversalState::Registering,
            UniversalState::Running,
            UniversalState::Done,
            UniversalState::Failed,
            UniversalState::Halted,
        ];
        let columns = [
            Column::text("Id").sorted("submitted"),
            Column::text("Workflow"),
            Column::text("Owner"),
            Column::text("State"),
            Column::text("Progress"),
            Column::text("Due"),
            Column::text("Began"),
            Column::number("Elapsed"),
        ];
        let now = frame.now;
        let headings = Heading::all(&columns, &filters, "-submitted");
        let rows: Vec<RunRow> = list.items.iter().map(|run| RunRow::new(run, now)).collect();
        let classes = [filters.classes(&headings, 0), without_progress(&rows)];
        Self {
            frame,
            hidden: classes.join(" ").trim().to_owned(),
            headings,
            states: states.iter().map(|state| state.word()).collect(),
            rows,
            next: next(&list.links).map(|next| filters.with_columns(next)),
            filters,
        }
    }
}
