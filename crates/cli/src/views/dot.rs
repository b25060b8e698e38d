//! The task graph of a run for Graphviz.

use baton_model::api::{Run, RunEdge, RunTask};
use baton_model::workflow::Condition;

use super::dag::Dag;
use super::task_state::{self, TaskState};
use crate::output::is_unsafe;

/// Renders a digraph in DOT.
pub(crate) fn render(run: &Run, tasks: &[RunTask]) -> String {
    let dag = Dag::new(tasks);
    let title = quote(&format!("{} {}", run.name, run.id));
    let mut text = format!(
        "digraph {title} {{\n  rankdir=LR;\n  label={title};\n  fontname=\"sans-serif\";\n"
    );
    for (place, task) in tasks.iter().enumerate() {
        let (fill, border) = TaskState::of(run, task).colours();
        let label = quote(&format!(
            "{}\n{}",
            task.name,
            task_state::sentence(run, task)
        ));
        text += &format!(
            "  t{place} [label={label}, shape=box, style=\"rounded,filled\", \
             fontname=\"sans-serif\", fillcolor=\"{fill}\", color=\"{border}\"];\n"
        );
    }
    for (to, edges) in dag.edges.iter().enumerate() {
        for (from, edge) in edges {
            text += &format!("  t{from} -> t{to}{};\n", attributes(edge));
        }
    }
    text + "}\n"
}

fn attributes(edge: &RunEdge) -> String {
    let style = match edge.condition {
        Condition::Success => None,
        Condition::Failure => Some("style=dashed, color=\"#c62828\", label=\"failure\""),
        Condition::End => Some("style=dotted, label=\"end\""),
    };
    // A hollow head: the dependency is by item.
    let head = edge.by_item.then_some("arrowhead=empty");
    let all: Vec<&str> = style.into_iter().chain(head).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!(" [{}]", all.join(", "))
    }
}

/// Quotes a string. Graphviz interprets backslash escapes and HTML entities in labels, so both are
/// escaped.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '&' => quoted.push_str("&amp;"),
            '\n' => quoted.push_str("\\n"),
            c if is_unsafe(c) => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
