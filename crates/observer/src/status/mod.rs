//! The state of a task of this host: in words, and as JSON.

pub mod json;
pub mod usage;

use baton_core::plan::{Plan, ProcessView};
use baton_model::state::AttemptState;
use baton_model::task::Disposition;
use baton_model::time::Now;
use baton_runner::root::{Entry, History, Root, TaskView, ViewError};
use baton_web::text::span;

use crate::messages;
use crate::resume::resume_command;

/// A task, or the error of reading it.
#[derive(Debug)]
pub struct TaskStatus {
    pub root: Root,
    pub entry: Entry,
    pub view: Result<TaskView, ViewError>,
}

/// The NOTE column: a required action, or the outcome being approached.
#[must_use]
pub fn note_for(root: &Root, view: &TaskView) -> String {
    if view.is_orphaned() && root.attempt().is_some() {
        "no runner: its worker starts it again, or ends it".to_owned()
    } else if view.is_orphaned() {
        let resume = resume_command(root, &view.entry.id);
        format!("orphaned: resume with {resume}")
    } else if let Some(ending) = view.history.plan.ending()
        && !view.is_over()
    {
        format!("ends as {}", ending.verdict)
    } else {
        String::new()
    }
}

/// `3/5 done, 1 running, 1 failed`.
#[must_use]
pub fn counts(plan: &Plan) -> String {
    let progress = plan.snapshot().processes;
    let over = plan.outcome().is_some();
    let (mut done, mut running, mut failed, mut never, mut waiting) = (0, 0, 0, 0, 0);
    for process in &progress {
        match process.disposition {
            Disposition::Finished => done += 1,
            Disposition::Failed => failed += 1,
            Disposition::Blocked => never += 1,
            Disposition::Open if process.live.is_some() => running += 1,
            Disposition::Open if !over && plan.state() == AttemptState::Active => waiting += 1,
            Disposition::Open | Disposition::Dropped => {}
        }
    }
    let mut text = format!("{done}/{} done", progress.len());
    for (count, word) in [
        (running, "running"),
        (waiting, "waiting"),
        (failed, "failed"),
        (never, "blocked"),
    ] {
        if count > 0 {
            text += &format!(", {count} {word}");
        }
    }
    text
}

/// What a process does, or waits for.
#[must_use]
pub fn current_activity(history: &History, process: &ProcessView<'_>, now: Now) -> String {
    if let Some(wait) = &process.wait {
        return messages::wait(&history.plan, wait, now);
    }
    let Some(live) = &process.progress.live else {
        return String::new();
    };
    let mut text = match live.started {
        Some(started) => format!("for {}", span(now.wall.since(started.wall))),
        None => "is being launched".to_owned(),
    };
    if let Some(identity) = live.identity {
        text += &format!(", pid {}", identity.pid);
    }
    if process.spec.ready.is_some() {
        text += if live.ready {
            ", ready"
        } else {
            ", not yet ready"
        };
    }
    if let Some(cause) = live.stopping {
        text += &format!(", stopping: {}", messages::stop(cause));
    }
    text
}
