//! The state of a task and its item counts, as the terminal shows them: styles, remarks and bars.

use baton_model::api::{ItemCounts, Run, RunTask};
use baton_model::workflow::HaltMode;
use baton_web::graph::task_state as web;
pub(crate) use baton_web::graph::task_state::{
    TaskState, add, effective_counts, fraction, open, sentence, total, unbegun,
};

use crate::output::{Style, clean};
use crate::painter;
use crate::text::{self, Line};

/// The style of a task's mark.
pub(super) const fn style(state: TaskState) -> Style {
    match state {
        TaskState::Failed => Style::Bad,
        TaskState::Running => Style::Busy,
        TaskState::Ready => Style::Plain,
        TaskState::Halted => Style::Odd,
        TaskState::Done => Style::Good,
        TaskState::Waiting | TaskState::Blocked | TaskState::Skipped | TaskState::Empty => {
            Style::Faint
        }
    }
}

/// Counts of items that are neither done nor merely waiting: `2 failed · 3 running`.
pub(super) fn remarks(run: &Run, items: &ItemCounts) -> Vec<(String, Style)> {
    styled(web::remarks(run, items))
}

/// The same for a task, whose items may be unknown yet.
pub(super) fn task_remarks(run: &Run, task: &RunTask) -> Vec<(String, Style)> {
    styled(web::task_remarks(run, task))
}

/// How far one of its running items has come, in its own words.
pub(super) fn progress(task: &RunTask) -> Option<(String, Style)> {
    let told = task.progress.as_ref()?;
    let id = told.instance.as_deref().filter(|_| task.items.running > 1);
    let of = id.map(|id| format!("{}: ", clean(id))).unwrap_or_default();
    Some((format!("{of}{}", clean(&told.text())), Style::Plain))
}

fn styled(remarks: Vec<(String, TaskState)>) -> Vec<(String, Style)> {
    let remarks = remarks.into_iter().map(|(text, kind)| match kind {
        // Beside the mark of another state it must be noticed.
        TaskState::Blocked => (text, Style::Odd),
        kind => (text, style(kind)),
    });
    remarks.collect()
}

/// Describes that a run is being halted, and what happens to its running items.
pub(super) fn halting(run: &Run) -> Option<&'static str> {
    let halting = run.halting.filter(|_| !run.state.is_terminal())?;
    Some(match (run.timed_out, halting) {
        (false, HaltMode::Drain) => "halting (drain): nothing more starts, running items finish",
        (false, HaltMode::Kill | HaltMode::KillNow) => {
            "halting (kill): nothing more starts, running items are killed"
        }
        (true, HaltMode::Drain) => "timed out (drain): nothing more starts, running items finish",
        (true, HaltMode::Kill | HaltMode::KillNow) => {
            "timed out (kill): nothing more starts, running items are killed"
        }
    })
}

/// The same in a few words.
pub(super) fn halting_word(run: &Run) -> Option<&'static str> {
    let halting = run.halting.filter(|_| !run.state.is_terminal());
    match (run.timed_out, halting) {
        (true, _) => Some("timed out"),
        (false, Some(HaltMode::Drain)) => Some("draining"),
        (false, Some(HaltMode::Kill | HaltMode::KillNow)) => Some("killing"),
        (false, None) => None,
    }
}

/// Appends remarks, separated by dots.
pub(super) fn add_remarks(line: &mut Line, remarks: Vec<(String, Style)>) {
    for (place, (text, style)) in remarks.into_iter().enumerate() {
        if place > 0 {
            line.add(Style::Faint, " · ");
        }
        line.add(style, text);
    }
}

/// Renders a bar: done, failed, ended otherwise, running, not started. The pieces also differ in
/// their glyphs, so that it can be read without colours.
pub(super) fn bar(items: &ItemCounts, width: usize) -> Vec<(String, Style)> {
    let kinds = [
        (items.done, "━", Style::Good),
        (items.failed, "×", Style::Bad),
        (add([items.halted, items.blocked]), "╌", Style::Odd),
        (items.skipped, "╌", Style::Faint),
        (items.running, "╍", Style::Busy),
        (unbegun(items), "─", Style::Faint),
    ];
    painter::bar(kinds, width)
}

/// Width of the widest name, at most `max`.
pub(super) fn names_width<'a>(names: impl Iterator<Item = &'a str>, max: usize) -> usize {
    names.map(text::display_width).max().unwrap_or(0).min(max)
}
