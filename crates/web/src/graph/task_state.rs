//! The aggregate state of a task, and its item counts as text.
//!
//! Counts have another meaning once a run has ended: waiting items will not start by themselves. In
//! a HALTED run, items downstream of halted ones are counted as blocked although nothing failed:
//! they are shown as *not started*.

use baton_model::api::{ItemCounts, Run, RunTask};
use baton_model::state::UniversalState;

use crate::text::grouped;

/// Aggregate state of a task, by its most important item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
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
    pub const ALL: [Self; 9] = [
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

    #[must_use]
    pub fn of(run: &Run, task: &RunTask) -> Self {
        Self::of_items(run, &task.items, task.unmapped)
    }

    /// The state of items; if some are `unmapped`, it is not known yet how many there are.
    pub(super) fn of_items(run: &Run, items: &ItemCounts, unmapped: bool) -> Self {
        let items = &effective_counts(run, items);
        let waits = unbegun(items) > 0 || unmapped;
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

    #[must_use]
    pub const fn mark(self) -> &'static str {
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

    #[must_use]
    pub const fn word(self) -> &'static str {
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

    /// The state of an instance that comes closest, which pages show.
    #[must_use]
    pub const fn badge(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Running => "RUNNING",
            Self::Ready => "QUEUED",
            Self::Waiting => "WAITING",
            Self::Halted => "HALTED",
            Self::Blocked => "BLOCKED",
            Self::Done => "DONE",
            Self::Skipped | Self::Empty => "SKIPPED",
        }
    }
}

/// The counts as shown for this run: in a HALTED run, blocked items count as waiting.
#[must_use]
pub fn effective_counts(run: &Run, items: &ItemCounts) -> ItemCounts {
    if run.state != UniversalState::Halted {
        return *items;
    }
    ItemCounts {
        waiting: items.waiting.saturating_add(items.blocked),
        blocked: 0,
        ..*items
    }
}

/// Number of items.
#[must_use]
pub fn total(items: &ItemCounts) -> u64 {
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
#[must_use]
pub fn open(items: &ItemCounts) -> u64 {
    unbegun(items).saturating_add(items.running)
}

/// Number of items that have not started.
#[must_use]
pub fn unbegun(items: &ItemCounts) -> u64 {
    add([items.waiting, items.ready, items.queued])
}

/// Saturating sum: the numbers come from the API.
#[must_use]
pub fn add(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Formats done/total: `3/10`; `?` for unknown items, `0` for none.
#[must_use]
pub fn fraction(task: &RunTask) -> String {
    match (total(&task.items), task.unmapped) {
        (0, true) => "?".to_owned(),
        (0, false) => "0".to_owned(),
        (total, _) => format!("{}/{}", grouped(task.items.done), grouped(total)),
    }
}

/// Counts of items that are neither done nor merely waiting, each with its kind: `2 failed`, `3
/// running`.
#[must_use]
pub fn remarks(run: &Run, items: &ItemCounts) -> Vec<(String, TaskState)> {
    let mut items = effective_counts(run, items);
    let mut left = 0;
    if run.state.is_terminal() {
        left = unbegun(&items);
        (items.queued, items.ready) = (0, 0);
    }
    let kinds = [
        (items.failed, "failed", TaskState::Failed),
        (items.running, "running", TaskState::Running),
        (items.queued, "queued", TaskState::Waiting),
        (items.ready, "held back", TaskState::Waiting),
        (items.halted, "halted", TaskState::Halted),
        (items.blocked, "blocked", TaskState::Blocked),
        (left, "not started", TaskState::Waiting),
        (items.skipped, "skipped", TaskState::Skipped),
    ];
    let some = kinds.into_iter().filter(|(number, ..)| *number > 0);
    some.map(|(number, word, kind)| (format!("{} {word}", grouped(number)), kind))
        .collect()
}

/// The same for a task, whose items may be unknown yet.
#[must_use]
pub fn task_remarks(run: &Run, task: &RunTask) -> Vec<(String, TaskState)> {
    match (total(&task.items), task.unmapped) {
        (0, true) if run.state.is_terminal() => {
            vec![("items not known".to_owned(), TaskState::Waiting)]
        }
        (0, true) => vec![("items not known yet".to_owned(), TaskState::Waiting)],
        (0, false) => vec![("no items".to_owned(), TaskState::Empty)],
        _ => remarks(run, &task.items),
    }
}

/// Formats the counts as a sentence: `3/10 done, 1 failed`.
#[must_use]
pub fn sentence(run: &Run, task: &RunTask) -> String {
    let counted = total(&task.items) > 0;
    let first = counted.then(|| format!("{} done", fraction(task)));
    let rest = task_remarks(run, task).into_iter().map(|(text, _)| text);
    let all: Vec<String> = first.into_iter().chain(rest).collect();
    all.join(", ")
}

/// Distributes `width` cells in proportion, with at least one for each non-zero number if there are
/// enough. The sum is `width`, or 0 if all numbers are zero.
#[must_use]
pub fn shares<const N: usize>(numbers: &[u64; N], width: usize) -> [usize; N] {
    let total: u128 = numbers.iter().map(|number| u128::from(*number)).sum();
    let mut cells = [0; N];
    if total == 0 {
        return cells;
    }
    for (cell, number) in cells.iter_mut().zip(numbers) {
        let exact = u128::from(*number) * width as u128 / total;
        *cell = usize::try_from(exact).unwrap_or(width);
        if *number > 0 {
            *cell = (*cell).max(1);
        }
    }
    loop {
        let sum: usize = cells.iter().sum();
        // The largest share absorbs the rounding error, where it is least visible.
        let largest = (0..N).max_by_key(|place| (cells[*place], N - place));
        match (sum.cmp(&width), largest) {
            (std::cmp::Ordering::Less, Some(place)) => cells[place] += width - sum,
            (std::cmp::Ordering::Greater, Some(place)) => cells[place] -= 1,
            _ => return cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_shared_out_and_nothing_that_is_there_is_hidden() {
        assert_eq!(shares(&[999_999, 1, 0], 10), [9, 1, 0]);
        assert_eq!(shares(&[1, 1, 1], 10), [4, 3, 3]);
        assert_eq!(shares(&[0, 0, 0], 10), [0, 0, 0]);
        assert_eq!(shares(&[u64::MAX, u64::MAX, 1], 3), [1, 1, 1]);
        for width in 0..20 {
            let cells = shares(&[5, 1, 9, 0, 70, 2], width);
            assert_eq!(cells.iter().sum::<usize>(), width);
        }
    }
}
