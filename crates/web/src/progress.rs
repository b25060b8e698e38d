//! Progress that tasks report of themselves: a bar and a text each.

use baton_model::api::{Instance, Progress, RunTask};

use crate::time::Stamp;

/// Tasks of a run whose progress is shown.
const TASKS_MAX: usize = 20;

/// The progress of an instance, or of a task of a run.
#[derive(Debug)]
pub struct ProgressRow {
    /// The task; empty on the page of an instance.
    pub task: String,
    /// The instance that reports it, on the page of a run.
    pub instance: String,
    /// Steps that are done, and all of them.
    pub steps: Option<(u64, u64)>,
    pub text: String,
    pub at: Stamp,
}

impl ProgressRow {
    fn new(task: &str, progress: &Progress) -> Self {
        Self {
            task: task.to_owned(),
            instance: progress.instance.clone().unwrap_or_default(),
            steps: progress.steps(),
            text: progress.text(),
            at: Stamp(progress.at),
        }
    }

    /// What the bar is called.
    #[must_use]
    pub fn label(&self) -> String {
        if self.instance.is_empty() {
            "Reported progress".to_owned()
        } else {
            format!("Progress that {} reports", self.instance)
        }
    }
}

/// The progress of an instance, if it has reported some.
pub(crate) fn of_instance(instance: &Instance) -> Vec<ProgressRow> {
    let reported = instance.progress.iter();
    reported.map(|it| ProgressRow::new("", it)).collect()
}

/// The progress of the first tasks of a run that report some.
pub(crate) fn of_tasks(tasks: &[RunTask]) -> Vec<ProgressRow> {
    let rows = tasks.iter().filter_map(|task| {
        let progress = task.progress.as_ref()?;
        Some(ProgressRow::new(&task.name, progress))
    });
    rows.take(TASKS_MAX).collect()
}
