//! Timeline of a run as text: a row for each item, or for each task if there are too many items.

use baton_model::state::UniversalState;
use baton_model::time::Millis;
use baton_web::gantt::{Chart, Row, Timeline, mark, weight};

use super::task_state;
use crate::output::Style;
use crate::text::{Line, count, display_width, fit};
use crate::time::span;

const NAME_WIDTH_MAX: usize = 28;
/// Width of a row's duration.
const SPAN_WIDTH: usize = 7;
/// Minimum distance of two ticks.
const TICK_COLUMNS: u64 = 10;
/// Renders at most `height` lines of at most `width` columns.
pub(crate) fn render(
    timeline: &Timeline<'_>,
    width: usize,
    height: usize,
    colour: bool,
) -> Vec<String> {
    let chart = Chart::new(timeline);
    let mut tail = chart.remarks();
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

/// The style of a row's mark.
const fn style(state: UniversalState) -> Style {
    match state {
        UniversalState::Done => Style::Good,
        UniversalState::Failed => Style::Bad,
        UniversalState::Halted | UniversalState::Aborted => Style::Odd,
        _ => Style::Busy,
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
        let (mark, style) = (mark(row.state()), style(row.state()));
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
