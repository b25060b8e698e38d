//! The task graph of a run for Graphviz.

use baton_model::api::{Run, RunEdge, RunTask};
use baton_model::workflow::Condition;
use baton_web::text::is_unsafe;

use super::dag::Dag;
use super::task_state::{self, TaskState};

/// Renders a digraph in DOT.
pub(crate) fn render(run: &Run, tasks: &[RunTask]) -> String {
    let dag = Dag::new(tasks);
    let title = quote(&format!("{} {}", run.name, run.id));
    let mut text = format!(
        "digraph {title} {{\n  rankdir=LR;\n  label={title};\n  fontname=\"sans-serif\";\n"
    );
    for (place, task) in tasks.iter().enumerate() {
        let (fill, border) = colours(TaskState::of(run, task));
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

/// Fill and border colour of a box.
const fn colours(state: TaskState) -> (&'static str, &'static str) {
    match state {
        TaskState::Failed => ("#fdecea", "#c62828"),
        TaskState::Running => ("#e3f2fd", "#1565c0"),
        TaskState::Ready => ("#fffde7", "#b28900"),
        TaskState::Waiting => ("#f5f5f5", "#9e9e9e"),
        TaskState::Halted => ("#fff3e0", "#e65100"),
        TaskState::Blocked => ("#f3e5f5", "#7b1fa2"),
        TaskState::Done => ("#e8f5e9", "#2e7d32"),
        TaskState::Skipped | TaskState::Empty => ("#ffffff", "#bdbdbd"),
    }
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
