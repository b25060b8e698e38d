//! The task graph as SVG: boxes from left to right, with edges between them.
//!
//! Text that is truncated in a box is in its tooltip. On a page each box is a link to its items, and
//! above [`TASKS_MAX`] tasks the tasks of a layer are one box: a picture of a thousand boxes helps
//! no reader who cannot search it.

use std::fmt::Write as _;

use baton_model::api::{ItemCounts, Run, RunEdge, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::layout::{Layout, Position, layout};
use super::task_state::{self, TaskState, shares, total};
use crate::document::{self, Size};
use crate::markup::{Markup, escape};
use crate::text::{clean, count, encoded, fit};

const BOX_WIDTH: f64 = 190.0;
const BOX_HEIGHT: f64 = 48.0;
/// Distance from one layer to the next, and from one box to the one below it.
const STEP_X: f64 = BOX_WIDTH + 64.0;
const STEP_Y: f64 = BOX_HEIGHT + 18.0;
const MARGIN: f64 = 20.0;
/// Characters that fit into a box.
const NAME_WIDTH: usize = 20;
const COUNTS_WIDTH: usize = 26;
const BAR_HEIGHT: f64 = 4.0;
/// Length of an arrow head.
const ARROW: f64 = 7.0;

/// Tasks that are drawn as boxes of their own on a page.
const TASKS_MAX: usize = 300;

/// One arrow head per colour: not every viewer supports inheriting the edge's colour.
const ARROWS: &str = "\
<defs>\
<marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker>\
<marker id=\"arrow-failure\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head on-failure\" d=\"M0 0L8 4L0 8z\"/></marker>\
<marker id=\"arrow-item\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head by-item\" d=\"M0 0L8 4L0 8z\"/></marker>\
</defs>\n";

/// Draws the graph of a run for a page; nothing if it has no tasks.
#[must_use]
pub fn render(run: &Run, tasks: &[RunTask]) -> Markup {
    svg(run, tasks, true)
}

/// The same without links, for a file.
#[must_use]
pub fn render_unlinked(run: &Run, tasks: &[RunTask]) -> Markup {
    svg(run, tasks, false)
}

fn svg(run: &Run, tasks: &[RunTask], has_links: bool) -> Markup {
    if tasks.is_empty() {
        return Markup::default();
    }
    let (body, size) = if tasks.len() > TASKS_MAX {
        layers(run, tasks)
    } else {
        boxes(run, tasks, has_links)
    };
    let label = format!("Graph of {}", count(tasks.len() as u64, "task"));
    let (width, height) = (size.width, size.height);
    Markup(format!(
        "<svg class=\"graph\" role=\"group\" aria-label=\"{label}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">{body}</svg>"
    ))
}

/// Draws the graph of a run, with every task, as a file of its own.
#[must_use]
pub fn document(run: &Run, tasks: &[RunTask]) -> String {
    let (body, size) = boxes(run, tasks, false);
    document::render("graph", run, size, &body)
}

/// One box for each task.
fn boxes(run: &Run, tasks: &[RunTask], has_links: bool) -> (String, Size) {
    let dag = Dag::new(tasks);
    let layout = layout(&dag);
    let mut body = String::from(ARROWS);
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
        let node = Node {
            name: clean(&task.name),
            state: TaskState::of(run, task),
            counts: task_state::sentence(run, task),
            items: task_state::effective_counts(run, &task.items),
            more: remarks(task),
            href: has_links.then(|| {
                let (run, task) = (encoded(&run.id), encoded(&task.name));
                format!("/runs/{run}/items/?task={task}")
            }),
        };
        node.draw(&mut body, x(*place), y(*place) - BOX_HEIGHT / 2.0);
    }
    (body, size(&layout))
}

/// One box for each layer.
fn layers(run: &Run, tasks: &[RunTask]) -> (String, Size) {
    let dag = Dag::new(tasks);
    let layers = dag.layers();
    let mut body = String::from(ARROWS);
    for (at, layer) in layers.iter().enumerate() {
        let left = MARGIN + STEP_X * at as f64;
        if at > 0 {
            let middle = MARGIN + BOX_HEIGHT / 2.0;
            let (from, to) = (left - (STEP_X - BOX_WIDTH), left - ARROW);
            let _ = writeln!(
                body,
                "<path class=\"edge\" d=\"M{} {}H{}\" marker-end=\"url(#arrow)\"/>",
                n(from),
                n(middle),
                n(to)
            );
        }
        let mut all = ItemCounts::default();
        let mut unmapped = false;
        for task in layer {
            add(&mut all, &tasks[*task].items);
            unmapped |= tasks[*task].unmapped;
        }
        let node = Node {
            name: count(layer.len() as u64, "task"),
            state: TaskState::of_items(run, &all, unmapped),
            counts: format!("{} of {} done", all.done, total(&all)),
            items: task_state::effective_counts(run, &all),
            more: String::new(),
            href: None,
        };
        node.draw(&mut body, left, MARGIN);
    }
    let size = Size {
        width: MARGIN * 2.0 + STEP_X * layers.len() as f64 - (STEP_X - BOX_WIDTH),
        height: MARGIN * 2.0 + BOX_HEIGHT,
    };
    (body, size)
}

fn size(layout: &Layout) -> Size {
    let columns = layout.layers.max(1) as f64;
    let rows = layout.height.max(1.0) * STEP_Y - (STEP_Y - BOX_HEIGHT);
    Size {
        width: 2.0 * MARGIN + columns * STEP_X - (STEP_X - BOX_WIDTH),
        height: 2.0 * MARGIN + rows,
    }
}

/// Left edge of a layer.
fn x(place: Position) -> f64 {
    MARGIN + place.layer as f64 * STEP_X
}

/// Vertical centre of a box.
fn y(place: Position) -> f64 {
    MARGIN + place.y * STEP_Y + BOX_HEIGHT / 2.0
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
        let middle = n(f64::midpoint(from_x, to_x));
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
        (Condition::Failure, _) => ("edge on-failure", "arrow-failure"),
        (Condition::End, _) => ("edge on-end", "arrow"),
        (Condition::Success, true) => ("edge by-item", "arrow-item"),
        (Condition::Success, false) => ("edge", "arrow"),
    };
    let how = match edge.condition {
        Condition::Success => "",
        Condition::Failure => " if that fails",
        Condition::End => " however that ends",
    };
    let items = if edge.by_item { ", item by item" } else { "" };
    let words = format!("{} after {}{how}{items}", clean(to), clean(&edge.task));
    let _ = writeln!(
        body,
        "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{head})\"><title>{}</title></path>",
        escape(&words)
    );
}

/// A box.
struct Node {
    name: String,
    state: TaskState,
    counts: String,
    items: ItemCounts,
    /// Further lines of the tooltip.
    more: String,
    href: Option<String>,
}

impl Node {
    fn draw(&self, body: &mut String, left: f64, top: f64) {
        if let Some(href) = &self.href {
            let _ = write!(body, "<a href=\"{}\">", escape(href));
        }
        let tooltip = format!("{}\n{}{}", self.name, self.counts, self.more);
        let (text_x, name_y, counts_y) = (n(left + 10.0), n(top + 18.0), n(top + 33.0));
        let _ = write!(
            body,
            "<g class=\"task s-{}\"><title>{}</title>\n\
             <rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\n\
             <text class=\"name\" x=\"{text_x}\" y=\"{name_y}\"><tspan class=\"mark\">{}</tspan> {}</text>\n\
             <text class=\"count\" x=\"{text_x}\" y=\"{counts_y}\">{}</text>\n",
            self.state.badge(),
            escape(&tooltip),
            n(left),
            n(top),
            self.state.mark(),
            escape(&fit(&self.name, NAME_WIDTH)),
            escape(&fit(&self.counts, COUNTS_WIDTH))
        );
        draw_bar(body, &self.items, left + 10.0, top + BOX_HEIGHT - 9.0);
        body.push_str("</g>");
        body.push_str(if self.href.is_some() { "</a>\n" } else { "\n" });
    }
}

fn remarks(task: &RunTask) -> String {
    let mut text = String::new();
    if let Some(reason) = &task.reason {
        text += &format!("\nwaits: {}", clean(reason));
    }
    if let Some(when) = &task.when {
        text += &format!("\nwhen {}", clean(when));
    }
    if let Some(mean) = task.mean_seconds {
        text += &format!("\n{mean:.1} s each");
    }
    text
}

fn draw_bar(body: &mut String, items: &ItemCounts, left: f64, top: f64) {
    let kinds = [
        (items.done, "done"),
        (items.failed, "failed"),
        (task_state::add([items.halted, items.blocked]), "stopped"),
        (items.running, "running"),
        (
            task_state::add([task_state::unbegun(items), items.skipped]),
            "rest",
        ),
    ];
    let width = BOX_WIDTH - 20.0;
    // Whole units, so that every share is visible.
    let widths = shares(&kinds.map(|(number, _)| number), width as usize);
    let mut from = left;
    for ((_, class), width) in kinds.iter().zip(widths) {
        if width > 0 {
            let _ = writeln!(
                body,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{BAR_HEIGHT}\"/>",
                n(from),
                n(top)
            );
        }
        from += width as f64;
    }
}

fn n(number: f64) -> String {
    document::coordinate(number)
}

fn add(all: &mut ItemCounts, more: &ItemCounts) {
    let fields = [
        (&mut all.waiting, more.waiting),
        (&mut all.ready, more.ready),
        (&mut all.queued, more.queued),
        (&mut all.running, more.running),
        (&mut all.done, more.done),
        (&mut all.failed, more.failed),
        (&mut all.halted, more.halted),
        (&mut all.skipped, more.skipped),
        (&mut all.blocked, more.blocked),
    ];
    for (sum, number) in fields {
        *sum = sum.saturating_add(number);
    }
}
