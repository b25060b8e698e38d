//! The items of a run over time: the data of the chart, which text and pictures draw, and its picture
//! as SVG.
//!
//! A row for each item, or for each task if there are too many items. Only the current generation is
//! drawn: a resume may come days later, and the gap would dominate the chart. Omitted items are
//! counted. Times come from the workers' clocks; an item that seems to have run before the run
//! started extends the axis.

mod critical;
mod picture;

use std::collections::BTreeMap;

use baton_model::api::{Run, RunItem};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use serde_json::Value;

pub use self::critical::critical_path;
pub use self::picture::{document, render, render_unlinked};
use crate::text::{clean, grouped};

/// With more items, each task gets one row, as text and as SVG.
pub const ITEM_ROWS_MAX: usize = 500;
const TICKS_MS: [u64; 28] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// The input of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    pub run: &'a Run,
    /// Its started items, or as many of them as were requested.
    pub items: &'a [RunItem<Value>],
    /// Number of further started items.
    pub more: u64,
    /// The current time, for running items.
    pub now: Wall,
}

/// Number of items of a run that have an instance.
#[must_use]
pub fn begun(run: &Run) -> u64 {
    let Some(items) = &run.items else { return 0 };
    let begun = [
        items.queued,
        items.running,
        items.done,
        items.failed,
        items.halted,
    ];
    begun.into_iter().fold(0, u64::saturating_add)
}

/// The mark of a row.
#[must_use]
pub const fn mark(state: UniversalState) -> &'static str {
    match state {
        UniversalState::Done => "✓",
        UniversalState::Failed => "✗",
        UniversalState::Halted | UniversalState::Aborted => "■",
        _ => "●",
    }
}

/// The period in which an item ran.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    pub from: u64,
    pub to: u64,
    pub state: UniversalState,
}

/// A row of the chart.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub bars: Vec<Bar>,
    /// The task of its items.
    pub task: String,
    /// The instance, if it is a row of one item.
    pub instance: Option<String>,
}

impl Row {
    #[must_use]
    pub fn from(&self) -> u64 {
        self.bars.iter().map(|bar| bar.from).min().unwrap_or(0)
    }

    #[must_use]
    pub fn to(&self) -> u64 {
        self.bars.iter().map(|bar| bar.to).max().unwrap_or(0)
    }

    /// The most important state of its items.
    #[must_use]
    pub fn state(&self) -> UniversalState {
        let states = self.bars.iter().map(|bar| bar.state);
        states
            .max_by_key(|state| weight(*state))
            .unwrap_or(UniversalState::Queued)
    }
}

/// Importance of a state that represents several items.
#[must_use]
pub const fn weight(state: UniversalState) -> u8 {
    match state {
        UniversalState::Done => 0,
        UniversalState::Halted | UniversalState::Aborted => 1,
        UniversalState::Failed => 3,
        _ => 2,
    }
}

/// The data of the chart, for text and SVG.
#[derive(Debug)]
pub struct Chart<'a> {
    items: Vec<(&'a RunItem<Value>, Bar)>,
    pub from: u64,
    pub to: u64,
    pub unstarted: u64,
    pub earlier: u64,
    more: u64,
}

impl<'a> Chart<'a> {
    #[must_use]
    pub fn new(timeline: &Timeline<'a>) -> Self {
        let run = timeline.run;
        let end = run.ended_at.unwrap_or(timeline.now.0);
        let mut chart = Self {
            items: Vec::new(),
            from: run.begun_at,
            to: end.max(run.begun_at),
            unstarted: 0,
            earlier: 0,
            more: timeline.more,
        };
        for item in timeline.items {
            match item.started_at {
                _ if item.generation < run.generation => chart.earlier += 1,
                None => chart.unstarted += 1,
                Some(from) => {
                    let to = item.ended_at.unwrap_or(end).max(from);
                    chart.from = chart.from.min(from);
                    chart.to = chart.to.max(to);
                    let state = item.state;
                    chart.items.push((item, Bar { from, to, state }));
                }
            }
        }
        chart
    }

    /// Returns a row for each item if there are at most `room` and at most `ITEM_ROWS_MAX`, or else
    /// for each task; ordered by start.
    #[must_use]
    pub fn rows(&self, room: usize) -> Vec<Row> {
        let mut rows: Vec<Row> = if self.items.len() <= room.min(ITEM_ROWS_MAX) {
            self.items
                .iter()
                .map(|(item, bar)| item_row(item, *bar))
                .collect()
        } else {
            self.task_rows()
        };
        rows.sort_by_key(Row::from);
        rows
    }

    fn task_rows(&self) -> Vec<Row> {
        let mut tasks: BTreeMap<&str, Vec<Bar>> = BTreeMap::new();
        for (item, bar) in &self.items {
            tasks.entry(&item.task).or_default().push(*bar);
        }
        let row = |(task, bars): (&str, Vec<Bar>)| {
            let name = match bars.len() {
                1 => clean(task),
                many => format!("{} ×{}", clean(task), grouped(many as u64)),
            };
            Row {
                name,
                bars,
                task: task.to_owned(),
                instance: None,
            }
        };
        tasks.into_iter().map(row).collect()
    }

    /// Offsets of the axis' ticks, at most about `most`.
    pub fn ticks(&self, most: u64) -> impl Iterator<Item = u64> {
        let length = self.to - self.from;
        let enough = |tick: &u64| length / tick <= most.max(1);
        let tick = TICKS_MS.into_iter().find(enough);
        let tick = tick.unwrap_or(length / most.max(1));
        (0..=length / tick).map(move |number| number * tick)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Counts of items that are not drawn.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_empty() {
            remarks.push("no item has run".to_owned());
        }
        let mut remark = |number: u64, one: &str, many: &str| {
            let words = if number == 1 { one } else { many };
            if number > 0 {
                remarks.push(format!("{} {words}", grouped(number)));
            }
        };
        remark(
            self.unstarted,
            "item has not started yet",
            "items have not started yet",
        );
        remark(
            self.earlier,
            "item of earlier generations not shown",
            "items of earlier generations not shown",
        );
        remark(
            self.more,
            "more item is not shown",
            "more items are not shown",
        );
        remarks
    }
}

fn item_row(item: &RunItem<Value>, bar: Bar) -> Row {
    let name = match &item.value {
        Some(value) => {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{}[{}] {}", clean(&item.task), item.item, clean(&value))
        }
        None if item.item > 0 => format!("{}[{}]", clean(&item.task), item.item),
        None => clean(&item.task),
    };
    let name = match item.attempts {
        0 | 1 => name,
        attempts => format!("{name} (attempt {attempts})"),
    };
    Row {
        name,
        bars: vec![bar],
        task: item.task.clone(),
        instance: Some(item.instance.clone()),
    }
}
