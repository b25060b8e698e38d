//! Measurements of attempts by task: what was requested, and what was used.
//!
//! Tasks with the same owner and name are one task here, whether they come from the library or from a submission; so
//! are all elements of an array, and all items of a task of a workflow.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::outcome::{AttemptEnd, KillCause, Outcome};
use crate::spec::InstanceSpec;
use crate::task::Resources;
use crate::time::{Millis, Wall};

/// The task to which measurements belong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskPath {
    pub owner: Arc<str>,
    /// The name of its workflow; empty if it is a task of its own.
    pub workflow: Arc<str>,
    /// Its name; empty for the runs of the workflow as a whole.
    pub task: Arc<str>,
}

impl TaskPath {
    /// The path of an instance; `workflow` is the name of its run, if it is an item of one.
    #[must_use]
    pub fn of(spec: &InstanceSpec, workflow: Option<&str>) -> Self {
        Self {
            owner: spec.owner.as_str().into(),
            workflow: workflow.unwrap_or_default().into(),
            task: spec.name.as_str().into(),
        }
    }

    /// The path of the runs of a workflow.
    #[must_use]
    pub fn of_runs(owner: &str, workflow: &str) -> Self {
        Self {
            owner: owner.into(),
            workflow: workflow.into(),
            task: Arc::default(),
        }
    }
}

impl fmt::Display for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.owner)?;
        for part in [&self.workflow, &self.task] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

/// What the attempts of a task were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Requested {
    pub resources: Resources,
    /// Workers that an attempt takes at the same time.
    pub nodes: u32,
    /// How long a worker must stay.
    pub time_request: Option<Millis>,
    pub timeout: Option<Millis>,
}

impl Requested {
    /// The requests of a first attempt.
    #[must_use]
    pub fn of(spec: &InstanceSpec) -> Self {
        Self {
            resources: spec.request.resources.clone(),
            nodes: spec.nodes.get(),
            time_request: spec.time_request,
            timeout: spec.timeout,
        }
    }
}

/// The end of an attempt, as far as its measurements are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeasuredEnd {
    Done,
    /// It has failed by itself.
    Failed,
    OutOfMemory,
    TimedOut,
    /// It was killed or lost: its measurements say little.
    Cut,
}

impl From<AttemptEnd> for MeasuredEnd {
    fn from(end: AttemptEnd) -> Self {
        let AttemptEnd::Real(outcome) = end else {
            return Self::Cut;
        };
        match outcome {
            Outcome::Exited(0) => Self::Done,
            Outcome::Exited(_) | Outcome::BadOutput => Self::Failed,
            Outcome::Killed(KillCause::OutOfMemory) => Self::OutOfMemory,
            Outcome::Killed(KillCause::TimedOut) => Self::TimedOut,
            Outcome::Signaled(_) | Outcome::Killed(_) | Outcome::LaunchFailed => Self::Cut,
        }
    }
}

/// The measurements of one attempt, or the run time of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Measurement {
    pub at: Wall,
    pub elapsed: Millis,
    /// CPU time of all of its processes.
    pub cpu: Millis,
    /// The largest resident memory of one of its processes, in bytes.
    pub memory_peak: u64,
    pub end: MeasuredEnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_owner_workflow_and_task() {
        let spec = InstanceSpec {
            name: "align".to_owned(),
            owner: "red".to_owned(),
            ..InstanceSpec::default()
        };
        assert_eq!(TaskPath::of(&spec, None).to_string(), "red/align");
        let item = TaskPath::of(&spec, Some("genomes"));
        assert_eq!(item.to_string(), "red/genomes/align");
        let runs = TaskPath::of_runs("red", "genomes");
        assert_eq!(runs.to_string(), "red/genomes");
    }
}
