//! Timeline of a run as SVG: the chart of [`timeline`](super::timeline), in a self-contained file.

use baton_model::state::UniversalState;
use baton_model::time::Millis;

use super::timeline::{Bar, Chart, ITEM_ROWS_MAX, Row, Timeline, mark, remarks, weight};
use super::xml::{document, element, escape, n};
use crate::text::fit;
use crate::time::span;

const MARGIN: f64 = 20.0;
const NAMES: f64 = 220.0;
const CHART: f64 = 720.0;
/// Space for the duration beside the last bar.
const AFTER: f64 = 70.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEAD: f64 = 64.0;
const NAME_WIDTH: usize = 30;
const TICKS_MAX: u64 = 9;
/// Minimum width of a bar.
const BAR_MIN: f64 = 2.0;

const STYLE: &str = "\
.h{font-size:15px;font-weight:600}.a,.s{font-size:11px;fill:#757575}.g{stroke:#eeeeee}";

/// Renders an SVG document.
pub(crate) fn render(timeline: &Timeline<'_>) -> String {
    let chart = Chart::new(timeline);
    let rows = chart.rows(ITEM_ROWS_MAX);
    let remarks = remarks(&chart);
    let run = timeline.run;
    let title = format!("{} {} {}", run.name, run.id, run.state);
    let bottom = HEAD + rows.len() as f64 * ROW;
    let mut body = String::new();
    element!(
        &mut body,
        "<text class=\"h\" x=\"{MARGIN}\" y=\"28\">{}</text>",
        escape(&title)
    );
    if !chart.is_empty() {
        axis(&mut body, &chart, bottom);
    }
    for (place, row) in rows.iter().enumerate() {
        draw(&mut body, &chart, row, HEAD + place as f64 * ROW);
    }
    for (place, remark) in remarks.iter().enumerate() {
        element!(
            &mut body,
            "<text class=\"a\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
            n(bottom + 18.0 + place as f64 * 16.0),
            escape(remark)
        );
    }
    let height = bottom + remarks.len() as f64 * 16.0 + MARGIN;
    let width = MARGIN + NAMES + CHART + AFTER + MARGIN;
    document(width, height, &title, STYLE, &body)
}

fn x(chart: &Chart<'_>, time: u64) -> f64 {
    let length = (chart.to - chart.from).max(1) as f64;
    MARGIN + NAMES + (time - chart.from) as f64 / length * CHART
}

fn axis(body: &mut String, chart: &Chart<'_>, bottom: f64) {
    for at in chart.ticks(TICKS_MAX) {
        let x = n(x(chart, chart.from + at));
        let label = if at == 0 {
            "0".to_owned()
        } else {
            span(Millis(at))
        };
        element!(
            body,
            "<line class=\"g\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>\
             <text class=\"a\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            n(HEAD - 6.0),
            n(bottom),
            n(HEAD - 11.0)
        );
    }
}

fn draw(body: &mut String, chart: &Chart<'_>, row: &Row, top: f64) {
    let (mark, _) = mark(row.state());
    let base = n(top + BAR - 2.0);
    element!(body, "<g><title>{}</title>", escape(&tooltip(chart, row)));
    element!(
        body,
        "<text x=\"{MARGIN}\" y=\"{base}\"><tspan fill=\"{}\">{mark}</tspan> {}</text>",
        colour(row.state()),
        escape(&fit(&row.name, NAME_WIDTH))
    );
    let (from, to) = (x(chart, row.from()), x(chart, row.to()));
    if row.bars.len() > 1 {
        element!(
            body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"2\" fill=\"#e0e0e0\"/>",
            n(from),
            n(top + BAR / 2.0 - 1.0),
            n(to - from)
        );
    }
    for bar in merged(chart, row) {
        let (from, to) = (x(chart, bar.from), x(chart, bar.to));
        element!(
            body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BAR}\" rx=\"2\" fill=\"{}\"/>",
            n(from),
            n(top),
            n((to - from).max(BAR_MIN)),
            colour(bar.state)
        );
    }
    element!(
        body,
        "<text class=\"s\" x=\"{}\" y=\"{base}\">{}</text></g>",
        n(to.max(from + BAR_MIN) + 6.0),
        span(Millis(row.to() - row.from()))
    );
}

/// The bars of a row. Adjacent bars of the same state are merged: a task may have thousands. The
/// most important state comes last, and is drawn over the others.
fn merged(chart: &Chart<'_>, row: &Row) -> Vec<Bar> {
    let unit = (chart.to - chart.from) / CHART as u64;
    let mut bars = row.bars.clone();
    bars.sort_by_key(|bar| (weight(bar.state), bar.state, bar.from));
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if last.state == bar.state && bar.from <= last.to.saturating_add(unit) => {
                last.to = last.to.max(bar.to);
            }
            _ => merged.push(bar),
        }
    }
    merged
}

fn tooltip(chart: &Chart<'_>, row: &Row) -> String {
    let since = |time: u64| span(Millis(time - chart.from));
    let (from, to) = (row.from(), row.to());
    format!(
        "{}\n{}\nfrom {} to {}",
        row.name,
        row.state(),
        since(from),
        since(to)
    )
}

const fn colour(state: UniversalState) -> &'static str {
    match state {
        UniversalState::Done => "#43a047",
        UniversalState::Failed => "#e53935",
        UniversalState::Halted | UniversalState::Aborted => "#fb8c00",
        _ => "#42a5f5",
    }
}
