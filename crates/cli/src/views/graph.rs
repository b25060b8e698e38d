//! The task graph of a run, as text.
//!
//! From top to bottom, each task on its own line, with edges in columns at the left:
//!
//! ```text
//! ✓     fetch  1/1
//! ├─╮
//! ✓ │   left   1/1
//! │ ●   right  0/1  1 running
//! ├─╯
//! ·     join   0/1
//! ```
//!
//! [`columns`] explains how to read them. Graphs that are too large or too wide are listed by
//! layers.

use baton_model::api::{Run, RunTask};
use baton_model::workflow::Condition;

use super::columns::{self, Row};
use super::dag::Dag;
use super::task_state::{self, TaskState};
use crate::output::{Style, clean};
use crate::text::{Line, count, display_width, fit};

/// Graphs with more tasks are listed by layers.
const TASKS_MAX: usize = 50;
/// Maximum width of the drawing: 16 columns of two characters; more cannot be followed by eye.
const COLUMNS_WIDTH_MAX: usize = 2 * 16;
/// Minimum width of a name and its counts beside the drawing.
const TEXT_WIDTH_MIN: usize = 24;
const NAME_WIDTH_MAX: usize = 32;
/// Maximum number of upstream tasks named in a list.
const AFTER_MAX: usize = 4;

/// Renders the graph in lines of at most `width` columns.
pub(crate) fn render(run: &Run, tasks: &[RunTask], width: usize, colour: bool) -> Vec<String> {
    let dag = Dag::new(tasks);
    let rows = (tasks.len() <= TASKS_MAX).then(|| columns::draw(&dag));
    let room = COLUMNS_WIDTH_MAX.min(width.saturating_sub(TEXT_WIDTH_MIN));
    let lines = match rows {
        Some(rows) if columns_width(&rows) <= room => draw(run, &dag, &rows, width),
        _ => layers(run, &dag, width),
    };
    lines.iter().map(|line| line.paint(width, colour)).collect()
}

fn columns_width(rows: &[Row]) -> usize {
    let widths = rows.iter().map(|row| row.cells.chars().count());
    widths.max().unwrap_or(0)
}

fn draw(run: &Run, dag: &Dag<'_>, rows: &[Row], width: usize) -> Vec<Line> {
    let left = columns_width(rows);
    let texts = TaskTexts::new(run, dag, width.saturating_sub(left));
    let line = |row: &Row| {
        let mut line = Line::new();
        let Some((task, column)) = row.task else {
            line.add(Style::Faint, row.cells.clone());
            return line;
        };
        let state = TaskState::of(run, &dag.tasks[task]);
        let before: String = row.cells.chars().take(column * 2).collect();
        let behind: String = row.cells.chars().skip(column * 2 + 1).collect();
        line.add(Style::Faint, before)
            .add(task_state::style(state), state.mark())
            .add(Style::Faint, behind)
            .pad(left + 2);
        texts.add(&mut line, task);
        task_state::add_remarks(&mut line, conditions(dag, task));
        line
    };
    rows.iter().map(line).collect()
}

/// Aligned names and counts.
struct TaskTexts<'a> {
    run: &'a Run,
    dag: &'a Dag<'a>,
    names: usize,
    numbers: usize,
}

impl<'a> TaskTexts<'a> {
    fn new(run: &'a Run, dag: &'a Dag<'a>, width: usize) -> Self {
        let names: Vec<String> = dag.tasks.iter().map(|task| clean(&task.name)).collect();
        let max = NAME_WIDTH_MAX.min(width * 3 / 5);
        let numbers = dag
            .tasks
            .iter()
            .map(|task| task_state::fraction(task).len());
        Self {
            run,
            dag,
            names: task_state::names_width(names.iter().map(String::as_str), max),
            numbers: numbers.max().unwrap_or(0),
        }
    }

    /// Adds the name, the counts and the remarks of a task.
    fn add(&self, line: &mut Line, task: usize) {
        let task = &self.dag.tasks[task];
        let name = fit(&clean(&task.name), self.names);
        let fraction = task_state::fraction(task);
        let padding = " ".repeat(self.names.saturating_sub(display_width(&name)));
        line.add(Style::Plain, name + &padding)
            .add(Style::Plain, format!("  {fraction:>0$}  ", self.numbers));
        let remarks = task_state::task_remarks(self.run, task);
        let some = !remarks.is_empty();
        task_state::add_remarks(line, remarks);
        if some {
            line.add(Style::Plain, "  ");
        }
    }
}

/// Special conditions of a task's incoming edges, and its own `when` condition.
fn conditions(dag: &Dag<'_>, task: usize) -> Vec<(String, Style)> {
    let mut remarks = Vec::new();
    for (from, edge) in &dag.edges[task] {
        let name = clean(&dag.tasks[*from].name);
        match edge.condition {
            Condition::Success => {}
            Condition::Failure => remarks.push((format!("if {name} fails"), Style::Faint)),
            Condition::End => remarks.push((format!("however {name} ends"), Style::Faint)),
        }
        if edge.by_item {
            remarks.push((format!("with each item of {name}"), Style::Faint));
        }
    }
    if let Some(when) = &dag.tasks[task].when {
        remarks.push((format!("when {}", clean(when)), Style::Faint));
    }
    remarks
}

/// Lists the layers, each task with its upstream tasks.
fn layers(run: &Run, dag: &Dag<'_>, width: usize) -> Vec<Line> {
    let texts = TaskTexts::new(run, dag, width.saturating_sub(4));
    let mut lines = Vec::new();
    for (number, layer) in dag.layers().into_iter().enumerate() {
        let size = count(layer.len() as u64, "task", "tasks");
        let mut head = Line::new();
        head.add(Style::Strong, format!("layer {}", number + 1))
            .add(Style::Faint, format!(" · {size}"));
        lines.push(head);
        for task in layer {
            let state = TaskState::of(run, &dag.tasks[task]);
            let mut line = Line::new();
            line.add(task_state::style(state), format!("  {} ", state.mark()));
            texts.add(&mut line, task);
            let mut remarks = conditions(dag, task);
            remarks.extend(after(dag, task).map(|text| (text, Style::Faint)));
            task_state::add_remarks(&mut line, remarks);
            lines.push(line);
        }
    }
    lines
}

/// Formats the upstream tasks: `after a, b and 7 more`.
fn after(dag: &Dag<'_>, task: usize) -> Option<String> {
    let upstream = &dag.upstream[task];
    let named = upstream.iter().take(AFTER_MAX);
    let names: Vec<String> = named.map(|from| clean(&dag.tasks[*from].name)).collect();
    let more = upstream.len().saturating_sub(AFTER_MAX);
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("after {}", names.join(", "))),
        (false, more) => Some(format!("after {} and {more} more", names.join(", "))),
    }
}
