//! Filing a task whose worker has killed it.
//!
//! The worker kills runner, coordinator and processes of an attempt at once, so that none of them can
//! record the end. Without a record the task would look as if it could be resumed. Nothing is started
//! or signalled here: the caller knows that no process of the task is left.

use baton_core::plan::{Input, Plan};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::state::AttemptState;
use baton_model::task::PlanEvent;

use super::open::{ReplayedLog, replay};
use super::{Task, TaskError};
use crate::log::{Kind, Log};
use crate::record::RunnerRecord;
use crate::root::{Phase, Root, TaskId};
use crate::sys::{clock, identity};

impl Task {
    /// Records the end of a task of which no process is left: KILLED, or LOST if the host has booted
    /// since. `None` if it had been filed before.
    ///
    /// # Errors
    /// If a runner drives it, or its log cannot be used.
    pub fn file_end(root: &Root, id: &TaskId) -> Result<Option<AttemptState>, TaskError> {
        if root.phase(id)? != Some(Phase::Active) {
            return Ok(None);
        }
        let _lock = root.lock(id)?;
        if root.phase(id)? != Some(Phase::Active) {
            return Ok(None);
        }
        let (mut log, recovered) = Log::open::<RunnerRecord>(&root.runner_log(id), Kind::Runner)?;
        let ReplayedLog {
            mut plan,
            last_start,
            ..
        } = replay(recovered.records)?;
        // The runner may have died between its last record and the entry.
        if plan.outcome().is_none() {
            let boot = identity::boot_id().map_err(TaskError::io("read the boot id"))?;
            let events = match last_start {
                Some(start) if start.boot != boot => give_up(&mut plan),
                _ => kill(&mut plan),
            };
            let records: Vec<RunnerRecord> = events.into_iter().map(RunnerRecord::Event).collect();
            log.append(&records)?;
            log.sync()?;
        }
        root.finish(id)?;
        Ok(plan.outcome())
    }
}

/// Ends the plan as killed, and every run with it.
fn kill(plan: &mut Plan) -> Vec<PlanEvent> {
    let now = clock::now();
    let mut inputs = vec![Input::KillNow];
    inputs.extend(plan.live().map(|(process, live)| match live.started {
        Some(_) => Input::Exited {
            process,
            run: live.run,
            at: now,
            outcome: Outcome::Killed(KillCause::Requested),
            random: 0,
        },
        None => Input::Lost {
            process,
            run: live.run,
        },
    }));
    inputs.push(Input::Resumed {
        boot_changed: false,
    });
    let events = feed(plan, &inputs);
    assert!(
        plan.outcome().is_some(),
        "a killed plan without a live run has ended: {:?}",
        plan.snapshot()
    );
    events
}

/// Ends the plan as lost: nothing tells how its runs have ended.
fn give_up(plan: &mut Plan) -> Vec<PlanEvent> {
    feed(plan, &[Input::GiveUp])
}

/// The events of these inputs. Their orders are not carried out: there is nothing to stop or kill.
fn feed(plan: &mut Plan, inputs: &[Input]) -> Vec<PlanEvent> {
    let mut events = Vec::new();
    for input in inputs {
        let step = plan.handle(clock::now(), *input);
        events.extend(step.facts().iter().cloned());
    }
    events
}

#[cfg(test)]
mod tests {
    use baton_model::ids::BootId;

    use super::*;
    use crate::root::testing::{begun_task, entry, started_task, temp_root};
    use crate::root::{RootError, TaskView};

    fn state(root: &Root) -> AttemptState {
        let view = TaskView::load(root, entry("a", Phase::Finished)).expect("readable");
        assert!(view.is_over() && !view.is_orphaned());
        assert_eq!(view.history.plan.live().count(), 0);
        view.state()
    }

    fn this_boot() -> BootId {
        identity::boot_id().expect("a boot")
    }

    #[test]
    fn a_task_killed_by_its_worker_is_filed() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        started_task(&root, "a", this_boot());
        let filed = Task::file_end(&root, &id).expect("filed");
        assert_eq!(filed, Some(AttemptState::Killed));
        assert_eq!(root.phase(&id).expect("readable"), Some(Phase::Finished));
        assert_eq!(state(&root), AttemptState::Killed);
        assert_eq!(Task::file_end(&root, &id).expect("again"), None);
    }

    #[test]
    fn a_task_that_has_only_begun_is_filed() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        begun_task(&root, "a", this_boot());
        let filed = Task::file_end(&root, &id).expect("filed");
        assert_eq!(filed, Some(AttemptState::Killed));
        assert_eq!(state(&root), AttemptState::Killed);
    }

    #[test]
    fn a_task_of_an_earlier_boot_is_lost() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        started_task(&root, "a", BootId(1));
        let filed = Task::file_end(&root, &id).expect("filed");
        assert_eq!(filed, Some(AttemptState::Lost));
        let view = TaskView::load(&root, entry("a", Phase::Finished)).expect("readable");
        assert_eq!(view.state(), AttemptState::Lost);
    }

    #[test]
    fn a_task_with_a_runner_is_left_alone() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        started_task(&root, "a", this_boot());
        let _lock = root.lock(&id).expect("free");
        let refused = Task::file_end(&root, &id);
        assert!(matches!(
            refused,
            Err(TaskError::Root(RootError::Driven(_)))
        ));
        assert_eq!(root.phase(&id).expect("readable"), Some(Phase::Active));
    }
}
