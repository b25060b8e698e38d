//! The timeline of a run as SVG.
//!
//! On a page each row is a link: to its instance, or to the items of its task.

use std::fmt::Write as _;

use baton_model::api::RunItem;
use baton_model::time::Millis;
use serde_json::Value;

use super::{Bar, Chart, ITEM_ROWS_MAX, Row, Timeline, mark, weight};
use crate::document::{self, Size, coordinate as n};
use crate::markup::{Markup, escape};
use crate::text::{encoded, fit, span};

const MARGIN: f64 = 20.0;
const NAMES: f64 = 220.0;
const CHART: f64 = 720.0;
/// Space for the duration beside the last bar.
const AFTER: f64 = 70.0;
const WIDTH: f64 = MARGIN + NAMES + CHART + AFTER + MARGIN;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const AXIS: f64 = 30.0;
const REMARK: f64 = 16.0;
const NAME_WIDTH: usize = 30;
const TICKS_MAX: u64 = 9;
/// With so many rows, a page has the axis below them, too.
const TALL_ROWS: usize = 25;
/// Minimum width of a bar.
const BAR_MIN: f64 = 2.0;

/// Draws the timeline for a page, and marks the instances of a critical path; nothing if no item has
/// started. After a resume it tells of the items of earlier generations, until one of the new
/// generation starts.
#[must_use]
pub fn render(timeline: &Timeline<'_>, critical: &[&RunItem<Value>]) -> Markup {
    svg(timeline, Some(critical))
}

/// The same without links and marks, for a file.
#[must_use]
pub fn render_unlinked(timeline: &Timeline<'_>) -> Markup {
    svg(timeline, None)
}

fn svg(timeline: &Timeline<'_>, critical: Option<&[&RunItem<Value>]>) -> Markup {
    let chart = Chart::new(timeline);
    if chart.is_empty() && chart.earlier == 0 {
        return Markup::default();
    }
    let (body, size) = draw(timeline, &chart, critical);
    Markup(format!(
        "<svg class=\"gantt\" role=\"group\" aria-label=\"Timeline of {} items over {}\" \
         viewBox=\"0 0 {} {}\">{body}</svg>",
        chart.items.len(),
        span(Millis(chart.to - chart.from)),
        n(size.width),
        n(size.height)
    ))
}

/// Draws the timeline as a file of its own.
#[must_use]
pub fn document(timeline: &Timeline<'_>) -> String {
    let (body, size) = draw(timeline, &Chart::new(timeline), None);
    document::render("gantt", timeline.run, size, &body)
}

/// Draws the rows: on a page as links, with the items of the critical path.
fn draw(
    timeline: &Timeline<'_>,
    chart: &Chart<'_>,
    page: Option<&[&RunItem<Value>]>,
) -> (String, Size) {
    let rows = chart.rows(ITEM_ROWS_MAX);
    let remarks = chart.remarks();
    let bottom = AXIS + rows.len() as f64 * ROW;
    let mut body = String::new();
    let is_tall = page.is_some() && rows.len() >= TALL_ROWS;
    if !chart.is_empty() {
        axis(&mut body, chart, bottom, is_tall);
    }
    let foot = if is_tall { AXIS } else { 0.0 };
    for (place, row) in rows.iter().enumerate() {
        let is_critical = page
            .unwrap_or_default()
            .iter()
            .any(|item| row.instance.as_ref() == Some(&item.instance));
        let href = page.map(|_| match &row.instance {
            Some(instance) => format!("/instances/{}", encoded(instance)),
            None => {
                let run = encoded(&timeline.run.id);
                format!("/runs/{run}/items/?task={}", encoded(&row.task))
            }
        });
        if let Some(href) = &href {
            let class = if is_critical {
                " class=\"critical\""
            } else {
                ""
            };
            // The whole row is a link, not only its bar and its texts.
            let _ = write!(
                body,
                "<a{class} href=\"{}\"><rect class=\"hit\" y=\"{}\"/>",
                escape(href),
                n(AXIS + place as f64 * ROW - (ROW - BAR) / 2.0)
            );
        }
        draw_row(&mut body, chart, row, AXIS + place as f64 * ROW);
        body.push_str(if href.is_some() { "</a>\n" } else { "\n" });
    }
    for (place, remark) in remarks.iter().enumerate() {
        let _ = writeln!(
            body,
            "<text class=\"label\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
            n(bottom + foot + 18.0 + place as f64 * REMARK),
            escape(remark)
        );
    }
    let size = Size {
        width: WIDTH,
        height: bottom + foot + remarks.len() as f64 * REMARK + MARGIN,
    };
    (body, size)
}

fn x(chart: &Chart<'_>, time: u64) -> f64 {
    let length = (chart.to - chart.from).max(1) as f64;
    MARGIN + NAMES + (time - chart.from) as f64 / length * CHART
}

/// The time since the beginning: above the rows, and also below them if there are many.
fn axis(body: &mut String, chart: &Chart<'_>, bottom: f64, is_tall: bool) {
    for at in chart.ticks(TICKS_MAX) {
        let x = n(x(chart, chart.from + at));
        let label = if at == 0 {
            "0".to_owned()
        } else {
            span(Millis(at))
        };
        let _ = writeln!(
            body,
            "<line class=\"grid-line\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>\
             <text class=\"label\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            n(AXIS - 6.0),
            n(bottom),
            n(AXIS - 11.0)
        );
        if is_tall {
            let _ = writeln!(
                body,
                "<text class=\"label\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                n(bottom + 14.0)
            );
        }
    }
}

fn draw_row(body: &mut String, chart: &Chart<'_>, row: &Row, top: f64) {
    let state = row.state();
    let base = n(top + BAR - 2.0);
    let _ = write!(
        body,
        "<g><title>{}</title>\n\
         <text x=\"{MARGIN}\" y=\"{base}\"><tspan class=\"mark s-{}\">{}</tspan> {}</text>\n",
        escape(&tooltip(chart, row)),
        state.word(),
        mark(state),
        escape(&fit(&row.name, NAME_WIDTH))
    );
    let (from, to) = (x(chart, row.from()), x(chart, row.to()));
    if row.bars.len() > 1 {
        let _ = writeln!(
            body,
            "<rect class=\"between\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"2\"/>",
            n(from),
            n(top + BAR / 2.0 - 1.0),
            n(to - from)
        );
    }
    for bar in merged(chart, row) {
        let (from, to) = (x(chart, bar.from), x(chart, bar.to));
        let _ = writeln!(
            body,
            "<rect class=\"span-bar s-{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BAR}\" rx=\"2\"/>",
            bar.state.word(),
            n(from),
            n(top),
            n((to - from).max(BAR_MIN))
        );
    }
    let _ = write!(
        body,
        "<text class=\"label\" x=\"{}\" y=\"{base}\">{}</text></g>",
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

#[cfg(test)]
mod tests {
    use baton_model::api::Run;
    use baton_model::json::from_value;
    use baton_model::time::Wall;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_last_item_lies_within_the_picture() {
        let item = |started: u64, ended: u64| {
            json!({"task": "t", "item": 0, "instance": "i1", "state": "DONE", "generation": 1,
                "startedAt": started, "endedAt": ended, "links": {}})
        };
        let items = json!([item(0, 60_000), item(59_999, 60_000), item(60_000, 60_000)]);
        let items: Vec<RunItem<Value>> = from_value(&items).expect("items");
        let run = json!({"id": "r1", "name": "w", "owner": "o", "state": "DONE",
            "generation": 1, "submittedAt": 0, "begunAt": 0, "endedAt": 60_000, "links": {}});
        let run: Run = from_value(&run).expect("a run");
        let timeline = Timeline {
            run: &run,
            items: &items,
            more: 0,
            now: Wall(60_000),
        };
        let svg = render(&timeline, &[]).0;
        let number = |text: &str, name: &str| -> f64 {
            let (_, rest) = text.split_once(&format!(" {name}=\"")).expect("there");
            let (number, _) = rest.split_once('"').expect("closed");
            number.parse().expect("a number")
        };
        let bars: Vec<_> = svg.split("<rect class=\"span-bar").skip(1).collect();
        assert_eq!(bars.len(), 3);
        for bar in bars {
            let end = number(bar, "x") + number(bar, "width");
            assert!(end <= WIDTH, "{bar}");
        }
        assert_eq!(svg.matches("<a href=\"/instances/i1\">").count(), 3);
        let critical = render(&timeline, &[&items[0]]).0;
        assert_eq!(critical.matches("<a class=\"critical\" ").count(), 3);
        assert!(!super::document(&timeline).contains("<a "));
        let resumed = Run {
            generation: 2,
            ..run.clone()
        };
        let of = |run, items| Timeline {
            run,
            items,
            ..timeline
        };
        let notice = "3 items of earlier generations not shown";
        assert!(render(&of(&resumed, &items), &[]).0.contains(notice));
        assert!(render(&of(&run, &[]), &[]).is_empty());
    }
}
