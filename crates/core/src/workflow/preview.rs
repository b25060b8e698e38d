//! What a resume would do, without doing it.

use std::sync::Arc;

use baton_model::workflow::{ItemEnd, Plan};

use super::compare::{self, Comparison, TaskChange};
use super::invalidate::{self, SpanSet};
use super::progress::{ItemResult, ItemState};
use super::{Dag, Progress};

/// RerunReason a task, or some of it, runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerunReason {
    /// It was not DONE.
    Unfinished,
    /// It was not there.
    New,
    /// It has changed.
    Changed,
    /// Something that it comes after has.
    Downstream,
    /// Somebody asked for it.
    Requested,
    /// It has answered to something that runs again.
    Handler,
}

impl RerunReason {
    /// The words for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Downstream => "downstream of a change",
            Self::Requested => "asked for",
            Self::Handler => "answers to what runs again",
        }
    }
}

/// What would become of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPreview {
    /// Its name.
    pub name: String,
    /// Items that are DONE and stay it.
    pub kept: u32,
    /// Items that run; nothing where that is known only later.
    pub runs: Option<u32>,
    /// RerunReason; nothing where nothing runs.
    pub why: Option<RerunReason>,
}

/// What would become of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Every task of the plan that would go on.
    pub tasks: Vec<TaskPreview>,
    /// Tasks that are no more.
    pub removed: Vec<String>,
}

/// Looks at what a resume would do: with another plan, or with a task that is done again, and
/// perhaps whatever comes after it.
///
/// # Errors
/// If there is no such task.
pub fn preview(
    plan: &Arc<Plan>,
    ended: &[ItemResult],
    other: Option<&Arc<Plan>>,
    again: Option<(&str, bool)>,
) -> Result<Preview, String> {
    let before = Dag::new(Arc::clone(plan));
    let done: Vec<_> = ended
        .iter()
        .filter(|it| it.end == ItemEnd::Done)
        .cloned()
        .collect();
    let progress = Progress::new(&before, [], done.clone());
    let lengths = |task| progress.length(task);
    let spans = match again {
        None => Vec::new(),
        Some((task, downstream)) => {
            let place = before.place(task);
            let place = place.ok_or_else(|| format!("there is no task `{task}`"))?;
            invalidate::requested_spans(&before, place, downstream, lengths)
        }
    };
    let asked = SpanSet::new(&spans);
    let mut done = invalidate::without(done, &spans);
    let (after, comparison) = match other {
        None => (before, Comparison::default()),
        Some(other) => {
            let after = Dag::new(Arc::clone(other));
            let comparison = compare::compare(&before, &after, lengths);
            done = compare::carry_over(done, &comparison.carried);
            (after, comparison)
        }
    };
    let undone = invalidate::stale_spans(&after, &done);
    let answers = SpanSet::new(&undone);
    let done = invalidate::without(done, &undone);
    let progress = Progress::new(&after, [], done);
    let tasks = after.plan.tasks.iter().zip(0_u32..).map(|(task, at)| {
        let tally = progress.tally(at);
        let kept = tally.of(ItemState::Done);
        let runs = tally.all() - kept - tally.of(ItemState::Skipped);
        let why = match comparison.changes.get(at as usize) {
            Some(TaskChange::New) => Some(RerunReason::New),
            Some(TaskChange::Changed) => Some(RerunReason::Changed),
            Some(TaskChange::Downstream) => Some(RerunReason::Downstream),
            None if asked.contains_task(at) => Some(RerunReason::Requested),
            _ if answers.contains_task(at) => Some(RerunReason::Handler),
            _ => Some(RerunReason::Unfinished),
        };
        TaskPreview {
            name: task.name.clone(),
            kept,
            runs: progress.is_mapped(at).then_some(runs),
            why: why.filter(|_| runs > 0),
        }
    });
    Ok(Preview {
        tasks: tasks.collect(),
        removed: comparison.removed,
    })
}
