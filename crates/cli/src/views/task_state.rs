//! The aggregate state of a task, and its item counts as text, marks and bars.
//!
//! Counts have another meaning once a run has ended: waiting items will not start by themselves. In
//! a HALTED run, items downstream of halted ones are counted as blocked although nothing failed:
//! they are shown as *not started*.

use baton_model::api::{ItemCounts, Run, RunTask};
use baton_model::state::UniversalState;
use baton_model::workflow::HaltMode;

use crate::output::Style;
use crate::painter;
use crate::text::grouped;
use crate::text::{self, Line};

/// Aggregate state of a task, by its most important item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TaskState {
    Failed,
    Running,
    Ready,
    Waiting,
    Halted,
    Blocked,
    Done,
    Skipped,
    /// It is known to have no items.
    Empty,
}

impl TaskState {
    pub(super) const ALL: [Self; 9] = [
        Self::Failed,
        Self::Running,
        Self::Ready,
        Self::Waiting,
        Self::Halted,
        Self::Blocked,
        Self::Done,
        Self::Skipped,
        Self::Empty,
    ];

    pub(super) fn of(run: &Run, task: &RunTask) -> Self {
        let items = &effective_counts(run, &task.items);
        let waits = unbegun(items) > 0 || task.unmapped;
        let over = run.state.is_terminal();
        match () {
            () if items.failed > 0 => Self::Failed,
            () if items.running > 0 => Self::Running,
            () if (items.ready > 0 || items.queued > 0) && !over => Self::Ready,
            () if waits && !over => Self::Waiting,
            () if items.halted > 0 => Self::Halted,
            () if items.blocked > 0 => Self::Blocked,
            () if waits => Self::Waiting,
            () if items.done > 0 => Self::Done,
            () if items.skipped > 0 => Self::Skipped,
            () => Self::Empty,
        }
    }

    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Failed => "✗",
            Self::Running => "●",
            Self::Ready => "○",
            Self::Waiting => "·",
            Self::Halted => "■",
            Self::Blocked => "⊘",
            Self::Done => "✓",
            Self::Skipped | Self::Empty => "-",
        }
    }

    pub(super) const fn style(self) -> Style {
        match self {
            Self::Failed => Style::Bad,
            Self::Running => Style::Busy,
            Self::Ready => Style::Plain,
            Self::Halted => Style::Odd,
            Self::Done => Style::Good,
            Self::Waiting | Self::Blocked | Self::Skipped | Self::Empty => Style::Faint,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Halted => "halted",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Empty => "empty",
        }
    }

    /// Fill and border colour of a box in SVG and DOT.
    pub(super) const fn colours(self) -> (&'static str, &'static str) {
        match self {
            Self::Failed => ("#fdecea", "#c62828"),
            Self::Running => ("#e3f2fd", "#1565c0"),
            Self::Ready => ("#fffde7", "#b28900"),
            Self::Waiting => ("#f5f5f5", "#9e9e9e"),
            Self::Halted => ("#fff3e0", "#e65100"),
            Self::Blocked => ("#f3e5f5", "#7b1fa2"),
            Self::Done => ("#e8f5e9", "#2e7d32"),
            Self::Skipped | Self::Empty => ("#ffffff", "#bdbdbd"),
        }
    }
}

/// The counts as shown for this run: in a HALTED run, blocked items count as waiting.
pub(super) fn effective_counts(run: &Run, items: &ItemCounts) -> ItemCounts {
    if run.state != UniversalState::Halted {
        return *items;
    }
    ItemCounts {
        waiting: items.waiting.saturating_add(items.blocked),
        blocked: 0,
        ..*items
    }
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

/// Number of items.
pub(crate) fn total(items: &ItemCounts) -> u64 {
    let ended = [
        items.done,
        items.failed,
        items.halted,
        items.skipped,
        items.blocked,
    ];
    add(ended).saturating_add(open(items))
}

/// Number of items that have not ended.
pub(super) fn open(items: &ItemCounts) -> u64 {
    unbegun(items).saturating_add(items.running)
}

/// Number of items that have not started.
pub(super) fn unbegun(items: &ItemCounts) -> u64 {
    add([items.waiting, items.ready, items.queued])
}

/// Saturating sum: the numbers come from the API.
pub(super) fn add(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Formats done/total: `3/10`; `?` for unknown items, `0` for none.
pub(super) fn fraction(task: &RunTask) -> String {
    match (total(&task.items), task.unmapped) {
        (0, true) => "?".to_owned(),
        (0, false) => "0".to_owned(),
        (total, _) => format!("{}/{}", grouped(task.items.done), grouped(total)),
    }
}

/// Counts of items that are neither done nor merely waiting: `2 failed · 3 running`.
pub(super) fn remarks(run: &Run, items: &ItemCounts) -> Vec<(String, Style)> {
    let mut items = effective_counts(run, items);
    let mut left = 0;
    if run.state.is_terminal() {
        left = unbegun(&items);
        (items.queued, items.ready) = (0, 0);
    }
    let kinds = [
        (items.failed, "failed", Style::Bad),
        (items.running, "running", Style::Busy),
        (items.queued, "queued", Style::Faint),
        (items.ready, "held back", Style::Faint),
        (items.halted, "halted", Style::Odd),
        (items.blocked, "blocked", Style::Odd),
        (left, "not started", Style::Faint),
        (items.skipped, "skipped", Style::Faint),
    ];
    let some = kinds.into_iter().filter(|(number, ..)| *number > 0);
    some.map(|(number, word, style)| (format!("{} {word}", grouped(number)), style))
        .collect()
}

/// The same for a task, whose items may be unknown yet.
pub(super) fn task_remarks(run: &Run, task: &RunTask) -> Vec<(String, Style)> {
    match (total(&task.items), task.unmapped) {
        (0, true) if run.state.is_terminal() => {
            vec![("items not known".to_owned(), Style::Faint)]
        }
        (0, true) => vec![("items not known yet".to_owned(), Style::Faint)],
        (0, false) => vec![("no items".to_owned(), Style::Faint)],
        _ => remarks(run, &task.items),
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

/// Formats the counts as a sentence: `3/10 done, 1 failed`.
pub(super) fn sentence(run: &Run, task: &RunTask) -> String {
    let counted = total(&task.items) > 0;
    let first = counted.then(|| format!("{} done", fraction(task)));
    let rest = task_remarks(run, task).into_iter().map(|(text, _)| text);
    let all: Vec<String> = first.into_iter().chain(rest).collect();
    all.join(", ")
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
