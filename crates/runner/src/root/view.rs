//! The state of one task, replayed from its log.
//!
//! Reading a log changes nothing: no record is written, nothing is signalled, and the replayed plan
//! is only inspected.

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::plan::{ApplyError, Input, Plan, PlanError};
use baton_model::outcome::Outcome;
use baton_model::state::AttemptState;
use baton_model::task::{Identity, Moment, PlanEvent, ProcessNo, RunNo};
use baton_model::time::{Millis, Now, Wall};

use rustix::fs::CWD;

use super::guarded::GuardedView;
use super::{Entry, Phase, Root, RootError, TaskId};
use crate::log::{self, Kind, LogError};
use crate::logs::open_dir;
use crate::record::{Header, RunnerRecord, RunnerStart};
use crate::samples::{self, Sample};
use crate::wire::RunEnd;

/// A read-only view of a task.
#[derive(Clone, Debug)]
pub struct TaskView {
    pub entry: Entry,
    pub history: History,
    /// A runner drives it.
    pub driven: bool,
    /// Bytes at the end of the log that are no complete record: a torn write.
    pub torn_bytes: u64,
    samples: Samples,
}

/// The samples of a task.
#[derive(Clone, Debug)]
enum Samples {
    /// In this file.
    At(PathBuf),
    Loaded(Vec<Sample>),
}

/// The history replayed from the records of a runner's log.
#[derive(Clone, Debug)]
pub struct History {
    pub header: Header,
    /// The log was compacted: earlier events are known in sum only.
    pub compacted: bool,
    pub steps: Vec<Step>,
    pub plan: Plan,
}

/// One record after the header and the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A runner started.
    RunnerStarted(RunnerStart),
    /// The plan changed.
    Event(PlanEvent),
}

/// A record that does not follow from the ones before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record} contradicts the records before it: {cause}")]
pub struct ReplayError {
    /// Its position in the log, from 0.
    pub record: usize,
    pub cause: ApplyError,
}

/// An error of viewing a task.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no log yet, or no longer.
    #[error("there is no log at {0}")]
    NoLog(PathBuf),
    #[error(transparent)]
    Log(LogError),
    #[error("the log does not begin with a header")]
    NoHeader,
    /// The definition or the snapshot in the log is invalid.
    #[error(transparent)]
    Plan(PlanError),
    #[error(transparent)]
    Replay(ReplayError),
    /// Another file of the task cannot be read.
    #[error(transparent)]
    Root(RootError),
}

impl History {
    /// Replays records as far as they are consistent. The first inconsistent record is reported,
    /// and those after it are left out.
    ///
    /// # Errors
    /// If the header or the snapshot is missing or invalid.
    pub fn replay(records: Vec<RunnerRecord>) -> Result<(Self, Option<ReplayError>), ViewError> {
        let mut records = records.into_iter().enumerate().peekable();
        let Some((_, RunnerRecord::Begun(header))) = records.next() else {
            return Err(ViewError::NoHeader);
        };
        let spec = Arc::new(header.spec.clone());
        let snapshot = match records.peek() {
            Some((_, RunnerRecord::Snapshot(snapshot))) => Some(snapshot.clone()),
            _ => None,
        };
        let compacted = snapshot.is_some();
        let plan = match snapshot {
            Some(snapshot) => {
                records.next();
                Plan::from_snapshot(spec, snapshot)
            }
            None => Plan::new(spec, header.began.into()).map_err(PlanError::Spec),
        };
        let mut history = Self {
            header: *header,
            compacted,
            steps: Vec::new(),
            plan: plan.map_err(ViewError::Plan)?,
        };
        for (position, record) in records {
            if let Err(cause) = history.take(record) {
                return Ok((
                    history,
                    Some(ReplayError {
                        record: position,
                        cause,
                    }),
                ));
            }
        }
        Ok((history, None))
    }

    fn take(&mut self, record: RunnerRecord) -> Result<(), ApplyError> {
        match record {
            RunnerRecord::RunnerStarted(start) => self.steps.push(Step::RunnerStarted(start)),
            RunnerRecord::Event(event) => {
                self.plan.apply(&event)?;
                self.steps.push(Step::Event(event));
            }
            RunnerRecord::Begun(_) => {
                return Err(ApplyError::Misplaced("a header within the log"));
            }
            RunnerRecord::Snapshot(_) => {
                return Err(ApplyError::Misplaced("a snapshot within the log"));
            }
        }
        Ok(())
    }

    /// The runner starts in the log.
    pub fn runner_starts(&self) -> impl Iterator<Item = &RunnerStart> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::RunnerStarted(start) => Some(start),
            Step::Event(_) => None,
        })
    }

    /// The plan events in the log.
    pub fn events(&self) -> impl Iterator<Item = &PlanEvent> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Event(event) => Some(event),
            Step::RunnerStarted(_) => None,
        })
    }

    /// The time of the last event.
    #[must_use]
    pub fn last(&self) -> Moment {
        self.plan.snapshot().at
    }

    /// The time of the task's end, if it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<Moment> {
        self.plan.outcome().map(|_| self.last())
    }

    /// Converts a wall time to the clock of the log, for queries of the plan. It is as accurate as
    /// the wall clock: the monotonic clock of the task's boot may not exist any more.
    #[must_use]
    pub fn now(&self, wall: Wall) -> Now {
        let last = self.last();
        let passed = Millis(wall.0.saturating_sub(last.wall.0));
        Now {
            mono: last.mono + passed,
            wall,
        }
    }
}

impl TaskView {
    /// Loads the view of a task.
    ///
    /// # Errors
    /// [`ViewError`] if its log cannot be read, or is inconsistent.
    pub fn load(root: &Root, entry: Entry) -> Result<Self, ViewError> {
        // Before the log: a runner that ends in between has written its end by then, and the task
        // is not mistaken for an orphaned one.
        let driven = root.is_driven(&entry.id).map_err(ViewError::Root)?;
        let path = root.runner_log(&entry.id);
        // If this fails, reading the log reports the cause.
        if !path.try_exists().unwrap_or(true) {
            return Err(ViewError::NoLog(path));
        }
        let read = log::read::<RunnerRecord>(&path, Kind::Runner).map_err(ViewError::Log)?;
        let torn_bytes = read.torn_bytes;
        let history = match History::replay(read.records)? {
            (history, None) => history,
            (_, Some(error)) => return Err(ViewError::Replay(error)),
        };
        Ok(Self {
            samples: Samples::At(root.samples(&entry.id)),
            entry,
            history,
            driven,
            torn_bytes,
        })
    }

    /// Loads the view of a task whose root may belong to another user.
    ///
    /// # Errors
    /// [`ViewError`] if its log cannot be read, or is inconsistent.
    pub fn load_guarded(root: &Root, entry: Entry) -> Result<Self, ViewError> {
        let missing = || ViewError::NoLog(root.runner_log(&entry.id));
        let io = |error| ViewError::Log(LogError::io(root.path(), "open", error));
        let dir = open_dir(CWD, root.path()).map_err(io)?;
        let view = GuardedView::load(dir.ok_or_else(missing)?, &entry.id)?;
        let view = view.ok_or_else(missing)?;
        Ok(Self {
            entry,
            history: view.history,
            driven: view.driven,
            torn_bytes: view.torn_bytes,
            samples: Samples::Loaded(view.samples),
        })
    }

    /// The view of a worker's single command. It has no log: its worker's coordinator knows when it
    /// was started and how it has ended, and its worker drives it.
    ///
    /// # Errors
    /// If the task of the header is invalid.
    pub fn of_command(
        header: Header,
        started: Option<(Moment, Identity)>,
        ended: Option<&RunEnd>,
    ) -> Result<Self, ViewError> {
        let id = TaskId::new(&header.task_id).map_err(ViewError::Root)?;
        let spec = Arc::new(header.spec.clone());
        let mut plan = Plan::new(spec, header.began.into())
            .map_err(PlanError::Spec)
            .map_err(ViewError::Plan)?;
        let (process, run) = (ProcessNo(0), RunNo(0));
        let mut inputs = Vec::new();
        if let Some((at, identity)) = started {
            inputs.push((at, Input::Tick));
            let (at_now, identity) = (at.into(), Some(identity));
            let started = Input::Started {
                process,
                run,
                at: at_now,
                identity,
            };
            inputs.push((at, started));
        }
        if let Some(end) = ended {
            // A killed process would run again, a killed attempt does not.
            let (at, outcome) = (end.at.into(), end.outcome);
            let is_kill = matches!(outcome, Outcome::Killed(_)) || outcome.is_outside_kill();
            if is_kill || started.is_none() {
                inputs.push((end.at, Input::KillNow));
            }
            let exited = Input::Exited {
                process,
                run,
                at,
                outcome,
                random: 0,
            };
            inputs.push((end.at, exited));
        }
        let mut steps = Vec::new();
        for (at, input) in inputs {
            let step = plan.handle(at.into(), input);
            steps.extend(step.facts().iter().cloned().map(Step::Event));
        }
        let phase = match plan.outcome() {
            Some(_) => Phase::Finished,
            None => Phase::Active,
        };
        Ok(Self {
            entry: Entry { id, phase },
            history: History {
                header,
                compacted: false,
                steps,
                plan,
            },
            driven: ended.is_none(),
            torn_bytes: 0,
            samples: Samples::Loaded(Vec::new()),
        })
    }

    #[must_use]
    pub fn state(&self) -> AttemptState {
        self.history.plan.state()
    }

    /// True if it has ended, whether or not it is filed as ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.entry.phase == Phase::Finished || self.history.plan.outcome().is_some()
    }

    /// True if it has not ended, and no runner drives it.
    #[must_use]
    pub fn is_orphaned(&self) -> bool {
        !self.driven && !self.is_over()
    }

    /// The samples of its resource usage, oldest first. They are best effort: unreadable ones count
    /// as missing.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        match &self.samples {
            Samples::At(path) => samples::read(path).unwrap_or_default(),
            Samples::Loaded(samples) => samples.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BEGAN, BOOT, ended_task, entry, header, started_task, temp_root};
    use super::*;

    #[test]
    fn a_view_shows_the_replayed_log() {
        let (_dir, root) = temp_root();
        ended_task(&root, "a", Wall(BEGAN + 5_000));
        let view = TaskView::load(&root, entry("a", Phase::Finished)).expect("readable");
        assert_eq!(view.state(), AttemptState::Success);
        assert_eq!(
            view.history.ended().map(|at| at.wall),
            Some(Wall(BEGAN + 5_000))
        );
        assert!(view.is_over() && !view.driven && !view.is_orphaned());
        assert_eq!(view.history.runner_starts().count(), 1);
        assert!(view.history.events().count() > 3);
        let at = view.history.now(Wall(BEGAN + 6_000));
        assert_eq!(at.mono.since(view.history.last().mono), Millis(1_000));
    }

    #[test]
    fn a_task_that_runs_without_a_runner_is_orphaned() {
        let (_dir, root) = temp_root();
        started_task(&root, "a", BOOT);
        let active = entry("a", Phase::Active);
        let view = TaskView::load(&root, active.clone()).expect("readable");
        assert!(view.is_orphaned() && view.history.ended().is_none());
        let _lock = root.lock(&active.id).expect("free");
        let view = TaskView::load(&root, active).expect("readable");
        assert!(view.driven && !view.is_orphaned());
    }

    #[test]
    fn looking_changes_nothing() {
        let (_dir, root) = temp_root();
        started_task(&root, "a", BOOT);
        let path = root.runner_log(&TaskId::new("a").expect("good"));
        let before = std::fs::read(&path).expect("there");
        for _ in 0..2 {
            TaskView::load(&root, entry("a", Phase::Active)).expect("readable");
        }
        assert_eq!(std::fs::read(&path).expect("there"), before);
    }

    #[test]
    fn records_that_do_not_fit_are_reported_after_what_does() {
        let (_dir, root) = temp_root();
        let begun = || RunnerRecord::Begun(Box::new(header(&root, "a", 0)));
        let (history, error) = History::replay(vec![begun(), begun()]).expect("a beginning");
        assert_eq!((history.steps.len(), error.map(|m| m.record)), (0, Some(1)));
        assert!(matches!(
            History::replay(Vec::new()),
            Err(ViewError::NoHeader)
        ));
    }

    #[test]
    fn a_command_is_shown_as_a_task() {
        let (_dir, root) = temp_root();
        let at = |ms: u64| Moment {
            mono: baton_model::time::Mono(ms),
            wall: Wall(BEGAN + ms),
        };
        let identity = Identity {
            boot: BOOT,
            pid: 77,
            start_ticks: 5,
        };
        let view = |started: Option<Moment>, outcome: Option<Outcome>| {
            let end = outcome.map(|outcome| RunEnd {
                run: baton_model::task::RunKey {
                    process: ProcessNo(0),
                    run: RunNo(0),
                },
                at: at(9),
                outcome,
                started,
                usage: None,
            });
            let started = started.map(|at| (at, identity));
            TaskView::of_command(header(&root, "a", BEGAN), started, end.as_ref()).expect("valid")
        };
        let waits = view(None, None);
        assert_eq!(waits.state(), AttemptState::Active);
        assert!(!waits.is_orphaned() && waits.history.plan.live().count() == 0);
        let runs = view(Some(at(1)), None);
        assert_eq!(runs.history.plan.live().count(), 1);
        assert!(!runs.is_orphaned() && !runs.is_over());
        let state = |outcome| view(Some(at(1)), Some(outcome)).state();
        assert_eq!(state(Outcome::Exited(0)), AttemptState::Success);
        assert_eq!(state(Outcome::Exited(3)), AttemptState::Failed);
        assert_eq!(state(Outcome::Signaled(11)), AttemptState::Failed);
        let killed = Outcome::Killed(baton_model::outcome::KillCause::Requested);
        assert_eq!(state(killed), AttemptState::Killed);
        assert_eq!(view(None, Some(killed)).state(), AttemptState::Killed);
    }

    #[test]
    fn a_task_without_a_log_says_so() {
        let (_dir, root) = temp_root();
        let error = TaskView::load(&root, entry("a", Phase::Active));
        assert!(matches!(error, Err(ViewError::NoLog(_))));
    }

    #[test]
    fn a_compacted_log_goes_on_from_its_snapshot() {
        let (_dir, root) = temp_root();
        ended_task(&root, "a", Wall(BEGAN + 5_000));
        let view = TaskView::load(&root, entry("a", Phase::Finished)).expect("readable");
        let records = vec![
            RunnerRecord::Begun(Box::new(view.history.header.clone())),
            RunnerRecord::Snapshot(view.history.plan.snapshot()),
        ];
        let (history, error) = History::replay(records).expect("a snapshot");
        assert_eq!(error, None);
        assert!(history.compacted && history.steps.is_empty());
        assert_eq!(history.plan.snapshot(), view.history.plan.snapshot());
    }
}
