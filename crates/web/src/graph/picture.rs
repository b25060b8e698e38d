//! The task graph as SVG for pages: boxes from left to right, each a link to its items.
//!
//! Above [`TASKS_MAX`] tasks the tasks of a layer are one box: a picture of a thousand boxes helps
//! no reader.

use std::fmt::Write as _;

use baton_model::api::{ItemCounts, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::layout::{Position, layout};
use crate::markup::{Markup, escape};
use crate::text::{count, encoded};

const BOX_WIDTH: f64 = 180.0;
const BOX_HEIGHT: f64 = 46.0;
const STEP_X: f64 = BOX_WIDTH + 60.0;
const STEP_Y: f64 = BOX_HEIGHT + 18.0;
const MARGIN: f64 = 12.0;
/// Characters of a name that fit into a box.
const NAME_CHARS: usize = 22;

/// Tasks that are drawn as boxes of their own.
const TASKS_MAX: usize = 300;

/// Draws the graph of a run.
#[must_use]
pub fn render(run: &str, tasks: &[RunTask]) -> Markup {
    if tasks.is_empty() {
        return Markup::default();
    }
    if tasks.len() > TASKS_MAX {
        return by_layer(tasks);
    }
    let dag = Dag::new(tasks);
    let layout = layout(&dag);
    let width = MARGIN * 2.0 + STEP_X * layout.layers as f64 - (STEP_X - BOX_WIDTH);
    let height = MARGIN * 2.0 + STEP_Y * layout.height;
    let mut svg = open(&count(tasks.len() as u64, "task"), width, height);
    for (to, routes) in layout.routes.iter().enumerate() {
        for (from, route) in routes {
            let edge = dag.edges[to].iter().find(|(source, _)| source == from);
            let class = match edge.map(|(_, edge)| edge.condition) {
                Some(Condition::Success) | None => "edge",
                Some(_) => "edge conditional",
            };
            let _ = write!(svg, "<path class=\"{class}\" d=\"{}\"/>", path(route));
        }
    }
    for (task, place) in tasks.iter().zip(&layout.places) {
        let (x, y) = corner(*place);
        let href = format!("/runs/{run}/items/?task={}", encoded(&task.name));
        draw(
            &mut svg,
            &task.name,
            &task.items,
            task.unmapped,
            (x, y),
            Some(&href),
        );
    }
    svg.push_str("</svg>");
    Markup(svg)
}

/// One box for each layer.
fn by_layer(tasks: &[RunTask]) -> Markup {
    let dag = Dag::new(tasks);
    let layers = dag.layers();
    let width = MARGIN * 2.0 + STEP_X * layers.len() as f64 - (STEP_X - BOX_WIDTH);
    let height = MARGIN * 2.0 + BOX_HEIGHT;
    let mut svg = open(&count(tasks.len() as u64, "task"), width, height);
    for (at, layer) in layers.iter().enumerate() {
        let x = MARGIN + STEP_X * at as f64;
        if at > 0 {
            let y = MARGIN + BOX_HEIGHT / 2.0;
            let from = x - (STEP_X - BOX_WIDTH);
            let _ = write!(svg, "<path class=\"edge\" d=\"M{from:.1} {y:.1}H{x:.1}\"/>");
        }
        let mut all = ItemCounts::default();
        for task in layer {
            add(&mut all, &tasks[*task].items);
        }
        let name = count(layer.len() as u64, "task");
        draw(&mut svg, &name, &all, false, (x, MARGIN), None);
    }
    svg.push_str("</svg>");
    Markup(svg)
}

fn open(label: &str, width: f64, height: f64) -> String {
    format!(
        "<svg class=\"graph\" role=\"group\" aria-label=\"Graph of {}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">",
        escape(label)
    )
}

fn corner(place: Position) -> (f64, f64) {
    let x = MARGIN + STEP_X * place.layer as f64;
    (x, MARGIN + STEP_Y * place.y)
}

/// A smooth path from the right side of the first box to the left side of the last.
fn path(route: &[Position]) -> String {
    let middle = |place: &Position| corner(*place).1 + BOX_HEIGHT / 2.0;
    let mut path = String::new();
    for pair in route.windows(2) {
        let [from, to] = pair else { continue };
        let (x, y) = (corner(*from).0 + BOX_WIDTH, middle(from));
        let (end, bottom) = (corner(*to).0, middle(to));
        let half = f64::midpoint(x, end);
        let join = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(
            path,
            "{join}{x:.1} {y:.1}C{half:.1} {y:.1} {half:.1} {bottom:.1} {end:.1} {bottom:.1}"
        );
    }
    path
}

fn draw(
    svg: &mut String,
    name: &str,
    items: &ItemCounts,
    unmapped: bool,
    (x, y): (f64, f64),
    href: Option<&str>,
) {
    let state = state(items, unmapped);
    let short: String = name.chars().take(NAME_CHARS).collect();
    let more = if name.chars().count() > NAME_CHARS {
        "…"
    } else {
        ""
    };
    let total = total(items);
    let progress = if unmapped {
        "items not known yet".to_owned()
    } else {
        format!("{} of {total}", items.done)
    };
    if let Some(href) = href {
        let _ = write!(svg, "<a href=\"{}\">", escape(href));
    }
    let _ = write!(
        svg,
        "<g class=\"task s-{state}\"><title>{}: {state}, {progress}</title>\
         <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}{more}</text>\
         <text class=\"count\" x=\"{:.1}\" y=\"{:.1}\">{progress}</text></g>",
        escape(name),
        x + 10.0,
        y + 19.0,
        escape(&short),
        x + 10.0,
        y + 36.0
    );
    if href.is_some() {
        svg.push_str("</a>");
    }
}

pub(crate) fn total(items: &ItemCounts) -> u64 {
    items.waiting
        + items.ready
        + items.queued
        + items.running
        + items.done
        + items.failed
        + items.halted
        + items.skipped
        + items.blocked
}

/// The state of a task, from those of its items: the one that a reader must know first.
pub(crate) fn state(items: &ItemCounts, unmapped: bool) -> &'static str {
    let total = total(items);
    match items {
        _ if unmapped => "WAITING",
        items if items.failed > 0 => "FAILED",
        items if items.running > 0 => "RUNNING",
        items if items.queued + items.ready > 0 => "QUEUED",
        items if items.blocked > 0 => "BLOCKED",
        items if items.halted > 0 => "HALTED",
        items if items.waiting > 0 => "WAITING",
        items if items.skipped == total => "SKIPPED",
        _ => "DONE",
    }
}

fn add(all: &mut ItemCounts, more: &ItemCounts) {
    all.waiting += more.waiting;
    all.ready += more.ready;
    all.queued += more.queued;
    all.running += more.running;
    all.done += more.done;
    all.failed += more.failed;
    all.halted += more.halted;
    all.skipped += more.skipped;
    all.blocked += more.blocked;
}
