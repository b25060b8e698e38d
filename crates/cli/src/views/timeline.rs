//! Timeline of a run as text: a row for each item, or for each task if there are too many items.
//!
//! Only the current generation is drawn: a resume may come days later, and the gap would dominate
//! the chart. Omitted items are counted. Times come from the workers' clocks; an item that seems to
//! have run before the run started extends the axis.

use std::collections::BTreeMap;

use baton_client::RunItem;
use baton_model::api::Run;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::task_state;
use crate::output::{Style, clean};
use crate::text::{Line, count, display_width, fit, grouped};
use crate::time::span;

/// With more items, each task gets one row, as text and as SVG.
pub(super) const ITEM_ROWS_MAX: usize = 500;
const NAME_WIDTH_MAX: usize = 28;
/// Width of a row's duration.
const SPAN_WIDTH: usize = 7;
/// Minimum distance of two ticks.
const TICK_COLUMNS: u64 = 10;
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
pub(crate) struct Timeline<'a> {
    pub(crate) run: &'a Run,
    /// Its started items, or as many of them as were requested.
    pub(crate) items: &'a [RunItem],
    /// Number of further started items.
    pub(crate) more: u64,
    /// The current time, for running items.
    pub(crate) now: Wall,
}

/// Renders at most `height` lines of at most `width` columns.
pub(crate) fn render(
    timeline: &Timeline<'_>,
    width: usize,
    height: usize,
    colour: bool,
) -> Vec<String> {
    let chart = Chart::new(timeline);
    let mut tail = remarks(&chart);
    // The axis takes a line.
    let room = height.saturating_sub(1 + tail.len());
    let mut rows = chart.rows(room);
    if rows.len() > room {
        // Failed and running rows have precedence.
        rows.sort_by_key(|row| std::cmp::Reverse(weight(row.state())));
        let hidden = rows.split_off(room.saturating_sub(1)).len() as u64;
        let words = count(hidden, "more task", "more tasks");
        tail.insert(0, format!("… {words}"));
        rows.sort_by_key(Row::from);
    }
    let mut lines = draw(&chart, &rows, width);
    lines.extend(tail.into_iter().map(|text| {
        let mut line = Line::new();
        line.add(Style::Faint, format!("  {text}"));
        line
    }));
    lines.truncate(height);
    lines.iter().map(|line| line.paint(width, colour)).collect()
}

/// The period in which an item ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) state: UniversalState,
}

/// A row of the chart.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

impl Row {
    pub(super) fn from(&self) -> u64 {
        self.bars.iter().map(|bar| bar.from).min().unwrap_or(0)
    }

    pub(super) fn to(&self) -> u64 {
        self.bars.iter().map(|bar| bar.to).max().unwrap_or(0)
    }

    /// The most important state of its items.
    pub(super) fn state(&self) -> UniversalState {
        let states = self.bars.iter().map(|bar| bar.state);
        states
            .max_by_key(|state| weight(*state))
            .unwrap_or(UniversalState::Queued)
    }
}

/// Importance of a state that represents several items.
pub(super) const fn weight(state: UniversalState) -> u8 {
    match state {
        UniversalState::Done => 0,
        UniversalState::Halted | UniversalState::Aborted => 1,
        UniversalState::Failed => 3,
        _ => 2,
    }
}

/// The data of the chart, for text and SVG.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    items: Vec<(&'a RunItem, Bar)>,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) unstarted: u64,
    pub(super) earlier: u64,
    more: u64,
}

impl<'a> Chart<'a> {
    pub(super) fn new(timeline: &Timeline<'a>) -> Self {
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
    pub(super) fn rows(&self, room: usize) -> Vec<Row> {
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
        let row = |(name, bars): (&str, Vec<Bar>)| {
            let name = match bars.len() {
                1 => clean(name),
                many => format!("{} ×{}", clean(name), grouped(many as u64)),
            };
            Row { name, bars }
        };
        tasks.into_iter().map(row).collect()
    }

    /// Offsets of the axis' ticks, at most about `most`.
    pub(super) fn ticks(&self, most: u64) -> impl Iterator<Item = u64> {
        let length = self.to - self.from;
        let enough = |tick: &u64| length / tick <= most.max(1);
        let tick = TICKS_MS.into_iter().find(enough);
        let tick = tick.unwrap_or(length / most.max(1));
        (0..=length / tick).map(move |number| number * tick)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

fn item_row(item: &RunItem, bar: Bar) -> Row {
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
    }
}

/// Counts of items that are not drawn.
pub(super) fn remarks(chart: &Chart<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if chart.is_empty() {
        remarks.push("no item has run".to_owned());
    }
    if chart.unstarted > 0 {
        let items = count(chart.unstarted, "item has", "items have");
        remarks.push(format!("{items} not started yet"));
    }
    if chart.earlier > 0 {
        let items = count(chart.earlier, "item", "items");
        remarks.push(format!("{items} of earlier generations not shown"));
    }
    if chart.more > 0 {
        let items = count(chart.more, "more item is", "more items are");
        remarks.push(format!("{items} not shown"));
    }
    remarks
}

/// The mark of a row and its style.
pub(super) const fn mark(state: UniversalState) -> (&'static str, Style) {
    match state {
        UniversalState::Done => ("✓", Style::Good),
        UniversalState::Failed => ("✗", Style::Bad),
        UniversalState::Halted | UniversalState::Aborted => ("■", Style::Odd),
        _ => ("●", Style::Busy),
    }
}

fn draw(chart: &Chart<'_>, rows: &[Row], width: usize) -> Vec<Line> {
    let max = NAME_WIDTH_MAX.min(width * 2 / 5);
    let names = task_state::names_width(rows.iter().map(|row| row.name.as_str()), max);
    let left = 4 + names + 2;
    let cells = width.saturating_sub(left + SPAN_WIDTH + 1);
    if chart.is_empty() || cells == 0 {
        return Vec::new();
    }
    let scale = Scale {
        from: chart.from,
        length: (chart.to - chart.from).max(1),
        cells,
    };
    let mut lines = vec![axis(chart, &scale, left)];
    for row in rows {
        let (mark, style) = mark(row.state());
        let took = span(Millis(row.to() - row.from()));
        let mut line = Line::new();
        line.add(style, format!("  {mark} "))
            .add(Style::Plain, fit(&row.name, names))
            .pad(left);
        for (text, style) in scale.draw(row) {
            line.add(style, text);
        }
        line.add(Style::Faint, format!(" {took:>SPAN_WIDTH$}"));
        lines.push(line);
    }
    lines
}

/// The axis: `0s        10s       20s`.
fn axis(chart: &Chart<'_>, scale: &Scale, left: usize) -> Line {
    let mut text = String::new();
    for at in chart.ticks(scale.cells as u64 / TICK_COLUMNS) {
        let column = scale.column(chart.from + at);
        let label = match at {
            0 => "╵0".to_owned(),
            _ => format!("╵{}", span(Millis(at))),
        };
        // The last label may extend over the column of durations.
        if column + display_width(&label) > scale.cells + SPAN_WIDTH + 1 {
            break;
        }
        text += &" ".repeat(column.saturating_sub(display_width(&text)));
        text += &label;
    }
    let mut line = Line::new();
    line.pad(left).add(Style::Faint, text);
    line
}

/// Maps times to columns.
struct Scale {
    from: u64,
    length: u64,
    cells: usize,
}

/// Content of a cell; a later variant overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Blank,
    Between,
    Done,
    Halted,
    Running,
    Failed,
    FailedHere,
}

impl Cell {
    const fn of(state: UniversalState) -> Self {
        match state {
            UniversalState::Done => Self::Done,
            UniversalState::Failed => Self::Failed,
            UniversalState::Halted | UniversalState::Aborted => Self::Halted,
            _ => Self::Running,
        }
    }

    const fn look(self) -> (&'static str, Style) {
        match self {
            Self::Blank => (" ", Style::Plain),
            Self::Between => ("┄", Style::Faint),
            Self::Done => ("━", Style::Good),
            Self::Halted => ("━", Style::Odd),
            Self::Running => ("╍", Style::Busy),
            Self::Failed => ("━", Style::Bad),
            Self::FailedHere => ("✗", Style::Bad),
        }
    }
}

impl Scale {
    fn column(&self, time: u64) -> usize {
        let since = u128::from(time.saturating_sub(self.from));
        let column = since * self.cells as u128 / u128::from(self.length);
        usize::try_from(column)
            .unwrap_or(self.cells)
            .min(self.cells - 1)
    }

    fn draw(&self, row: &Row) -> Vec<(String, Style)> {
        let mut cells = vec![Cell::Blank; self.cells];
        let mut fill = |from: u64, to: u64, cell: Cell| {
            for place in &mut cells[self.column(from)..=self.column(to)] {
                *place = (*place).max(cell);
            }
        };
        fill(row.from(), row.to(), Cell::Between);
        for bar in &row.bars {
            fill(bar.from, bar.to, Cell::of(bar.state));
            if bar.state == UniversalState::Failed {
                fill(bar.to, bar.to, Cell::FailedHere);
            }
        }
        let pieces = cells.chunk_by(|a, b| a == b).map(|same| {
            let (glyph, style) = same[0].look();
            (glyph.repeat(same.len()), style)
        });
        pieces.collect()
    }
}
