//! Preview of a resume: what it would rerun.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_model::workflow::{ItemEnd, Plan};

use super::compare::{self, Comparison, TaskChange};
use super::invalidate::{self, SpanSet};
use super::progress::{ItemResult, ItemState};
use super::{Dag, Progress};

/// Why items of a task run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerunReason {
    /// It was not DONE.
    Unfinished,
    New,
    Changed,
    /// An upstream task changed.
    Downstream,
    Requested,
    /// It handles the outcome, or has items from the outputs, of a task that runs again.
    Handler,
}

impl RerunReason {
    /// Its name in the API.
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

/// What a resume would do to one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPreview {
    pub name: String,
    /// Number of items that stay DONE.
    pub kept: u32,
    /// Number of items that run; none if it is not known yet.
    pub runs: Option<u32>,
    /// Why they run; none if nothing runs.
    pub reason: Option<RerunReason>,
}

/// What a resume would do to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Every task of the plan of the resumed run.
    pub tasks: Vec<TaskPreview>,
    /// Names of tasks that the new plan does not have.
    pub removed: Vec<String>,
}

/// Computes what a resume would do: with `other`, under another plan; with `rerun`, with a task
/// that runs again and, if the flag is set, everything downstream of it.
///
/// # Errors
/// If there is no such task.
pub fn preview(
    plan: &Arc<Plan>,
    ended: &[ItemResult],
    other: Option<&Arc<Plan>>,
    rerun: Option<(&str, bool)>,
) -> Result<Preview, String> {
    let before = Dag::new(Arc::clone(plan));
    let done: Vec<_> = ended
        .iter()
        .filter(|it| it.end == ItemEnd::Done)
        .cloned()
        .collect();
    let progress = Progress::new(&before, [], done.clone());
    let item_counts = |task| progress.item_count(task);
    let spans = match rerun {
        None => Vec::new(),
        Some((task, downstream)) => {
            let index = before.index_of(task);
            let index = index.ok_or_else(|| format!("there is no task `{task}`"))?;
            invalidate::requested_spans(&before, index, downstream, item_counts)
        }
    };
    // By name: another plan may have it elsewhere.
    let requested: BTreeSet<String> = spans
        .iter()
        .map(|span| plan.tasks[span.task as usize].name.clone())
        .collect();
    let is_requested = |name: &str| requested.contains(name);
    let mut done = invalidate::without(done, &spans);
    let (after, comparison) = match other {
        None => (before, Comparison::default()),
        Some(other) => {
            let after = Dag::new(Arc::clone(other));
            let comparison = compare::compare(&before, &after, item_counts);
            done = compare::carry_over(done, &comparison.carried);
            (after, comparison)
        }
    };
    let stale = invalidate::stale_spans(&after, &done);
    let stale_set = SpanSet::new(&stale);
    let done = invalidate::without(done, &stale);
    let progress = Progress::new(&after, [], done);
    let tasks = after.plan.tasks.iter().zip(0_u32..).map(|(task, at)| {
        let tally = progress.tally(at);
        let kept = tally.of(ItemState::Done);
        let runs = tally.all() - kept - tally.of(ItemState::Skipped);
        let reason = match comparison.changes.get(at as usize) {
            Some(TaskChange::New) => Some(RerunReason::New),
            Some(TaskChange::Changed) => Some(RerunReason::Changed),
            Some(TaskChange::Downstream) => Some(RerunReason::Downstream),
            _ if is_requested(&task.name) => Some(RerunReason::Requested),
            _ if stale_set.contains_task(at) => Some(RerunReason::Handler),
            _ => Some(RerunReason::Unfinished),
        };
        TaskPreview {
            name: task.name.clone(),
            kept,
            runs: progress.is_mapped(at).then_some(runs),
            reason: reason.filter(|_| runs > 0),
        }
    });
    Ok(Preview {
        tasks: tasks.collect(),
        removed: comparison.removed,
    })
}
