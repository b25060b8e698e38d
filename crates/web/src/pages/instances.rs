//! Lists of instances: those that run, that wait, and that have ended.

use askama::Template;
use baton_model::api::{Instance, List};
use baton_model::state::UniversalState;

use super::filters::{Column, Filters, Heading};
use super::next;
use crate::frame::Frame;
use crate::text::duration;
use crate::time::Stamp;

/// A list of instances, with filters.
#[derive(Template)]
#[template(path = "instances.html")]
pub struct InstancesPage {
    pub frame: Frame,
    pub heading: &'static str,
    pub total: Option<u64>,
    pub filters: Filters,
    /// States that the list may have.
    pub states: Vec<&'static str>,
    /// Whether its instances have run on workers.
    pub has_workers: bool,
    pub headings: Vec<Heading>,
    /// Classes that hide columns.
    pub hidden: String,
    pub rows: Vec<InstanceRow>,
    pub next: Option<String>,
    /// How far the page has looked, if it ends before it is full.
    pub reach: Option<Reach>,
    /// Whether a later page is `back` or `up` in time.
    pub direction: &'static str,
    /// What to type next, if the list is empty.
    pub hint: &'static str,
    /// Operations on selected rows: value and label.
    pub bulk: Vec<(&'static str, &'static str)>,
}

/// A row of a list.
#[derive(Debug)]
pub struct InstanceRow {
    pub id: String,
    pub href: String,
    /// How many instances the row stands for, if several.
    pub count: Option<u64>,
    pub name: String,
    pub owner: String,
    pub state: &'static str,
    pub stopping: bool,
    pub run: Option<String>,
    pub worker: String,
    pub attempts: u32,
    pub submitted: Stamp,
    pub elapsed: String,
    pub elapsed_ms: u64,
    pub end: String,
    pub ended: Option<Stamp>,
}

impl InstanceRow {
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        let range = instance.last.as_ref();
        let id = match (range, instance.array_index) {
            (Some(last), _) => format!("{}..{last}", instance.id),
            (None, Some(index)) => format!("{}[{index}]", instance.id),
            (None, None) => instance.id.clone(),
        };
        let target = range.map_or_else(
            || instance.id.clone(),
            |last| format!("{}..{last}", instance.id),
        );
        Self {
            id,
            href: format!("/instances/{target}"),
            count: (instance.count > 1).then_some(instance.count),
            name: instance.name.clone(),
            owner: instance.owner.clone(),
            state: instance.state.word(),
            stopping: instance.stopping,
            run: instance.run.clone(),
            worker: instance.worker.clone().unwrap_or_default(),
            attempts: instance.attempts,
            submitted: Stamp(instance.submitted_at),
            elapsed: instance.elapsed_seconds.map(duration).unwrap_or_default(),
            elapsed_ms: (instance.elapsed_seconds.unwrap_or(0.0) * 1_000.0) as u64,
            end: instance.end_text.clone().unwrap_or_default(),
            ended: (instance.state.is_terminal()).then_some(Stamp(instance.changed_at)),
        }
    }
}

/// A view of the API: each has its states, and its operations on selected rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    Arena,
    Bullpen,
    History,
}

impl ListKind {
    fn headings(self, filters: &Filters) -> Vec<Heading> {
        let mut columns = vec![
            Column::text("Id"),
            Column::text("Name"),
            Column::text("Owner"),
            Column::text("State"),
            Column::text("Worker"),
            Column::number("Attempts"),
            Column::text("Submitted"),
            Column::number("Elapsed"),
            Column::text("End"),
        ];
        let (column, key, usual) = match self {
            Self::Arena | Self::Bullpen => ("Submitted", "submitted", "submitted"),
            Self::History => ("End", "ended", "-ended"),
        };
        for it in &mut columns {
            it.key = (it.label == column).then_some(key);
        }
        Heading::all(&columns, filters, usual)
    }
}

/// How far a page has looked that ends before it is full, because its filters match few instances.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The time by which the list is sorted, of the last instance; `None` if it is not known.
    pub to: Option<Stamp>,
}

impl InstancesPage {
    #[must_use]
    pub fn new(
        frame: Frame,
        kind: ListKind,
        filters: Filters,
        list: &List<Instance>,
        reach: Option<Reach>,
    ) -> Self {
        let (heading, states, hint, bulk): (_, &[UniversalState], _, &[_]) = match kind {
            ListKind::Arena => (
                "Running",
                &[UniversalState::Launched, UniversalState::Running],
                "Nothing runs. Submit a command: baton submit -- echo hello",
                &[("cancel", "Cancel"), ("kill", "Kill the attempt")],
            ),
            ListKind::Bullpen => (
                "Waiting",
                &[UniversalState::Queued],
                "Nothing waits.",
                &[("cancel", "Cancel")],
            ),
            ListKind::History => (
                "History",
                &[
                    UniversalState::Done,
                    UniversalState::Failed,
                    UniversalState::Halted,
                ],
                "Nothing has ended yet. Submit a command: baton submit -- echo hello",
                &[("retry", "Retry")],
            ),
        };
        let headings = kind.headings(&filters);
        // The column of the boxes has no heading.
        let boxes = usize::from(frame.viewer.may_operate);
        Self {
            frame,
            heading,
            total: list.total,
            has_workers: kind != ListKind::Bullpen,
            hidden: filters.classes(&headings, boxes),
            headings,
            direction: match (kind, filters.sort.is_empty()) {
                (ListKind::History, true) => "back",
                (ListKind::History, false) if filters.sort == "-ended" => "back",
                (_, false) if filters.sort == "-submitted" => "back",
                _ => "up",
            },
            reach,
            next: next(&list.links).map(|next| filters.with_columns(next)),
            filters,
            states: states.iter().map(|state| state.word()).collect(),
            rows: list.items.iter().map(InstanceRow::new).collect(),
            hint,
            bulk: bulk.to_vec(),
        }
    }
}
