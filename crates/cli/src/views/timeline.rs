//! When what ran, on a terminal: a row for each item, or for each task where that would be
//! too many, over one axis of time.
//!
//! Only the present generation of a run is drawn: a resume may come days later, and would
//! leave nothing but a gap to see. What is left out is counted. Times are those of the
//! workers' clocks; what seems to have run before the run began widens the axis.

use std::collections::BTreeMap;

use baton_client::RunItem;
use baton_model::api::Run;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::task_state;
use super::text::{Line, count, display_width, fit};
use crate::output::{Style, clean};
use crate::time::span;

/// More items than these are one row for each task, wherever they are drawn.
pub(super) const ITEM_ROWS_MAX: usize = 500;
const NAME_WIDTH_MAX: usize = 28;
/// The length of a row's bar, as text.
const SPAN_WIDTH: usize = 7;
/// Between two ticks of the axis at least.
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

/// What there is to draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline<'a> {
    /// The run.
    pub(crate) run: &'a Run,
    /// Its items that have begun, or as many of them as were asked for.
    pub(crate) items: &'a [RunItem],
    /// How many more have begun.
    pub(crate) more: u64,
    /// The time, for what still runs.
    pub(crate) now: Wall,
}

/// At most `height` lines of at most `width` columns.
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
        // What failed or runs is looked for first.
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

/// One stretch of time in which an item ran.
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

    /// The state that matters most of those of its items.
    pub(super) fn state(&self) -> UniversalState {
        let states = self.bars.iter().map(|bar| bar.state);
        states
            .max_by_key(|state| weight(*state))
            .unwrap_or(UniversalState::Queued)
    }
}

/// How much a state matters where it stands for several items.
pub(super) const fn weight(state: UniversalState) -> u8 {
    match state {
        UniversalState::Done => 0,
        UniversalState::Halted | UniversalState::Aborted => 1,
        UniversalState::Failed => 3,
        _ => 2,
    }
}

/// What is drawn, whatever it is drawn upon.
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

    /// A row for each item if they are not more than `room`, nor than anybody looks through, or
    /// else for each task; in the order in which they began.
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
                many => format!(
                    "{} ×{}",
                    clean(name),
                    crate::remote::ids::count(many as u64)
                ),
            };
            Row { name, bars }
        };
        tasks.into_iter().map(row).collect()
    }

    /// The times since its beginning to mark on an axis, at most about so many.
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
    Row {
        name,
        bars: vec![bar],
    }
}

/// What is not drawn.
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

/// The mark of a row, and how it looks.
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

/// `0s        10s       20s`.
fn axis(chart: &Chart<'_>, scale: &Scale, left: usize) -> Line {
    let mut text = String::new();
    for at in chart.ticks(scale.cells as u64 / TICK_COLUMNS) {
        let column = scale.column(chart.from + at);
        let label = match at {
            0 => "╵0".to_owned(),
            _ => format!("╵{}", span(Millis(at))),
        };
        // The last one may stand over what the spans take.
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

/// From times to columns.
struct Scale {
    from: u64,
    length: u64,
    cells: usize,
}

/// What is in a cell, the last wins.
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
