//! The task graph of a run as SVG: boxes from left to right, with edges between them.
//!
//! The file is self-contained. Text truncated in a box is in its tooltip.

use baton_model::api::{ItemCounts, Run, RunEdge, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::layout::{Layout, Position, layout};
use super::task_state::{self, TaskState};
use super::xml::{document, element, escape, n};
use crate::output::clean;
use crate::painter;
use crate::text::{display_width, fit};

const BOX_WIDTH: f64 = 190.0;
const BOX_HEIGHT: f64 = 48.0;
/// Distance from one layer to the next, and from one box to the one below it.
const STEP_X: f64 = BOX_WIDTH + 64.0;
const STEP_Y: f64 = BOX_HEIGHT + 18.0;
const MARGIN: f64 = 20.0;
const HEAD: f64 = 34.0;
/// Characters that fit into a box.
const NAME_WIDTH: usize = 20;
const COUNTS_WIDTH: usize = 26;
const BAR_HEIGHT: f64 = 4.0;
/// Length of an arrow head.
const ARROW: f64 = 7.0;

const STYLE: &str = "\
.n{font-weight:600}.c{font-size:11px;fill:#616161}.h{font-size:15px;font-weight:600}\
.e{fill:none;stroke:#9e9e9e;stroke-width:1.4}.failure{stroke:#c62828;stroke-dasharray:6 4}\
.end{stroke-dasharray:2 3}.item{stroke:#5c6bc0}";

/// Renders an SVG document.
pub(crate) fn render(run: &Run, tasks: &[RunTask]) -> String {
    let dag = Dag::new(tasks);
    let layout = layout(&dag);
    let title = format!("{} {} {}", run.name, run.id, run.state);
    let mut body = String::from(ARROWS);
    element!(
        &mut body,
        "<text class=\"h\" x=\"{MARGIN}\" y=\"28\">{}</text>",
        escape(&title)
    );
    // Edges first: boxes are drawn over them.
    for (to, routes) in layout.routes.iter().enumerate() {
        // Sorted by source, as the routes are.
        let mut edges = dag.edges[to].clone();
        edges.sort_by_key(|(from, _)| *from);
        for (from, edge) in edges {
            if let Ok(at) = routes.binary_search_by_key(&from, |(from, _)| *from) {
                draw_edge(&mut body, &tasks[to].name, edge, &routes[at].1);
            }
        }
    }
    for (task, place) in tasks.iter().zip(&layout.places) {
        draw_task(&mut body, run, task, *place);
    }
    let (width, height) = size(&layout, &title);
    document(width, height, &title, STYLE, &body)
}

/// One arrow head per colour: not every viewer supports inheriting the edge's colour.
const ARROWS: &str = "\
<defs>
<marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#9e9e9e\"/></marker>
<marker id=\"f\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#c62828\"/></marker>
<marker id=\"i\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#5c6bc0\"/></marker>
</defs>
";

fn size(layout: &Layout, title: &str) -> (f64, f64) {
    let columns = layout.layers.max(1) as f64;
    let boxes = columns * STEP_X - (STEP_X - BOX_WIDTH);
    let title = display_width(title) as f64 * 9.5;
    let rows = layout.height.max(1.0) * STEP_Y - (STEP_Y - BOX_HEIGHT);
    (2.0 * MARGIN + boxes.max(title), HEAD + 2.0 * MARGIN + rows)
}

/// Left edge of a layer.
fn x(place: Position) -> f64 {
    MARGIN + place.layer as f64 * STEP_X
}

/// Vertical centre of a box.
fn y(place: Position) -> f64 {
    HEAD + MARGIN + place.y * STEP_Y + BOX_HEIGHT / 2.0
}

fn draw_edge(body: &mut String, to: &str, edge: &RunEdge, route: &[Position]) {
    let Some((start, rest)) = route.split_first() else {
        return;
    };
    let (mut from_x, mut from_y) = (x(*start) + BOX_WIDTH, y(*start));
    let mut path = format!("M{} {}", n(from_x), n(from_y));
    for (at, place) in rest.iter().enumerate() {
        let last = at + 1 == rest.len();
        let (to_x, to_y) = (x(*place) - if last { ARROW } else { 0.0 }, y(*place));
        let middle = n((from_x + to_x) / 2.0);
        path += &format!(
            "C{middle} {} {middle} {} {} {}",
            n(from_y),
            n(to_y),
            n(to_x),
            n(to_y)
        );
        // Beside the boxes of a layer it runs straight.
        if !last {
            path += &format!("H{}", n(to_x + BOX_WIDTH));
        }
        (from_x, from_y) = (to_x + BOX_WIDTH, to_y);
    }
    let (class, head) = match (edge.condition, edge.by_item) {
        (Condition::Failure, _) => ("e failure", "f"),
        (Condition::End, _) => ("e end", "a"),
        (Condition::Success, true) => ("e item", "i"),
        (Condition::Success, false) => ("e", "a"),
    };
    let how = match edge.condition {
        Condition::Success => "",
        Condition::Failure => " if that fails",
        Condition::End => " however that ends",
    };
    let items = if edge.by_item { ", item by item" } else { "" };
    let words = escape(&format!("{to} after {}{how}{items}", edge.task));
    element!(
        body,
        "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{head})\"><title>{words}</title></path>"
    );
}

fn draw_task(body: &mut String, run: &Run, task: &RunTask, place: Position) {
    let state = TaskState::of(run, task);
    let (fill, border) = state.colours();
    let (left, top) = (x(place), y(place) - BOX_HEIGHT / 2.0);
    let counts = task_state::sentence(run, task);
    element!(
        body,
        "<g><title>{}</title>",
        escape(&tooltip(task, &counts))
    );
    element!(
        body,
        "<rect x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{border}\" stroke-width=\"1.5\"/>",
        n(left),
        n(top)
    );
    element!(
        body,
        "<text class=\"n\" x=\"{}\" y=\"{}\"><tspan fill=\"{border}\">{}</tspan> {}</text>",
        n(left + 10.0),
        n(top + 18.0),
        state.mark(),
        escape(&fit(&clean(&task.name), NAME_WIDTH))
    );
    element!(
        body,
        "<text class=\"c\" x=\"{}\" y=\"{}\">{}</text>",
        n(left + 10.0),
        n(top + 33.0),
        escape(&fit(&counts, COUNTS_WIDTH))
    );
    draw_bar(
        body,
        &task_state::effective_counts(run, &task.items),
        left + 10.0,
        top + BOX_HEIGHT - 9.0,
    );
    element!(body, "</g>");
}

fn tooltip(task: &RunTask, counts: &str) -> String {
    let mut text = format!("{}\n{counts}", task.name);
    if let Some(reason) = &task.reason {
        text += &format!("\nwaits: {reason}");
    }
    if let Some(when) = &task.when {
        text += &format!("\nwhen {when}");
    }
    if let Some(mean) = task.mean_seconds {
        text += &format!("\n{mean:.1} s each");
    }
    text
}

fn draw_bar(body: &mut String, items: &ItemCounts, left: f64, top: f64) {
    let kinds = [
        (items.done, "#43a047"),
        (items.failed, "#e53935"),
        (task_state::add([items.halted, items.blocked]), "#ab47bc"),
        (items.running, "#42a5f5"),
        (
            task_state::add([task_state::unbegun(items), items.skipped]),
            "#e0e0e0",
        ),
    ];
    let width = BOX_WIDTH - 20.0;
    // Whole units, so that every share is visible.
    let shares = painter::share(&kinds.map(|(number, _)| number), width as usize);
    let mut from = left;
    for ((_, colour), share) in kinds.iter().zip(shares) {
        if share > 0 {
            element!(
                body,
                "<rect x=\"{}\" y=\"{}\" width=\"{share}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>",
                n(from),
                n(top)
            );
        }
        from += share as f64;
    }
}
