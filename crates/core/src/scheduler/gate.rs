//! The overlap policies `queue` and `replace`: executions of an entry beyond its `max_instances`
//! exist, and wait for their turn.
//!
//! At most `max_instances` of them have started: runs that are not QUEUED any more, and instances
//! that placement may place. The others wait in the order of their ids: a run without instances, an
//! instance in the bullpen but not in placement. So a record and what it launches stay one commit,
//! a takeover finds the queue in the ledger, and clients see and cancel what waits like anything
//! else.
//!
//! With `replace`, a launch also stops the oldest ones, and waits until they have ended.

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId, TaskNo};
use baton_model::library::{Execution, Overlap};
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltCause, HaltMode};

use super::bullpen::Bullpen;
use super::instances;
use crate::ledger::{Active, Instance, Ledger, Task};
use crate::limits::{EntryLimit, Limit};
use crate::protocol::scheduler::Protocol;
use crate::scheduler::context::Cx;

/// The limit on the executions of an entry that have started, if others wait for their turn.
pub(crate) fn limit(ledger: &Ledger, bullpen: &Bullpen, task: TaskNo) -> Option<Limit> {
    let library = ledger.library();
    let total = EntryLimit::of(library.task(task)?.trigger()?).started_max()?;
    let active = library.active(task);
    let waiting = bullpen.held(task).len() + active.map_or(0, |it| it.queued_runs.len());
    let count = active.map_or(0, Active::count);
    let used = u128::from(count).saturating_sub(waiting as u128);
    Some(Limit { total, used })
}

/// Whether an execution that has not started may start now: with those ahead of it, there is room.
pub(crate) fn may_start(
    ledger: &Ledger,
    bullpen: &Bullpen,
    task: TaskNo,
    execution: Execution,
) -> bool {
    let Some(mut limit) = limit(ledger, bullpen, task) else {
        return true;
    };
    let Some(active) = ledger.library().active(task) else {
        return true;
    };
    let held = bullpen.held(task);
    let waits = match execution {
        Execution::Instance(id) => held.contains(&id),
        Execution::Run(id) => active.queued_runs.contains(&id),
    };
    // One that has just been accepted or retried is not held yet, and counts as started itself.
    limit.used = limit.used.saturating_sub(u128::from(!waits));
    let free = usize::try_from(limit.free()).unwrap_or(usize::MAX);
    // No more than fill the room are counted, however many wait.
    let ahead = match execution {
        Execution::Instance(id) => held.range(..id).take(free).count(),
        Execution::Run(id) => held.len() + active.queued_runs.range(..id).take(free).count(),
    };
    ahead < free
}

/// Whether an instance without a lease counts as not started: it has had no attempt, or none since
/// a client has retried it.
pub(super) fn is_fresh(instance: &Instance) -> bool {
    instance.state == UniversalState::Queued && instance.failures == 0 && instance.losses == 0
}

/// Applies a new limit of an entry: what has not started waits, as far as it must.
pub(super) fn reset(cx: &mut Cx<'_>, task: TaskNo) {
    if limit(cx.ledger, cx.bullpen, task).is_some()
        && let Some(active) = cx.ledger.library().active(task)
    {
        let fresh = |id: &&InstanceId| {
            let instance = cx.ledger.instance(**id);
            instance.is_none_or(is_fresh)
        };
        let fresh: Vec<InstanceId> = active.instances.iter().filter(fresh).copied().collect();
        for id in fresh {
            cx.bullpen.withdraw(id, id);
            cx.bullpen.hold(task, id);
        }
    }
    open(cx, task);
}

/// Lets executions of an entry start, as many as may.
pub(super) fn open(cx: &mut Cx<'_>, task: TaskNo) {
    let Some(active) = cx.ledger.library().active(task) else {
        return;
    };
    let waiting: Vec<RunId> = active.queued_runs.iter().copied().collect();
    while let Some(id) = cx.bullpen.held(task).first().copied() {
        if !may_start(cx.ledger, cx.bullpen, task, Execution::Instance(id)) {
            return;
        }
        cx.bullpen.release_held(cx.ledger, task, id);
    }
    for run in waiting {
        cx.ledger.runs_mut().mark_dirty(run);
    }
}

/// Stops the oldest executions of an entry with `overlap: replace`, so that a new one has room. The
/// stops follow in the same step.
pub(super) fn replace(cx: &mut Cx<'_>, task: &Task, new: Execution) {
    let Some(trigger) = task.trigger().filter(|it| it.overlap == Overlap::Replace) else {
        return;
    };
    let Some(total) = EntryLimit::of(trigger).started_max() else {
        return;
    };
    let Some(active) = cx.ledger.library().active(task.number) else {
        return;
    };
    let excess = active.count().saturating_sub(total);
    let excess = usize::try_from(excess).unwrap_or(usize::MAX);
    let others = executions(active).filter(|other| *other != new);
    let stops: Vec<Execution> = others.take(excess).collect();
    cx.stops.extend(stops);
}

fn executions(active: &Active) -> impl Iterator<Item = Execution> + '_ {
    let instances = active.instances.iter().map(|id| Execution::Instance(*id));
    instances.chain(active.runs.iter().map(|id| Execution::Run(*id)))
}

/// Stops an execution that was replaced.
pub(super) fn stop(cx: &mut Cx<'_>, protocol: &mut Protocol, execution: Execution) {
    match execution {
        Execution::Instance(id) => {
            instances::cancel(cx, protocol, id, id, KillMode::default());
        }
        Execution::Run(run) => {
            let head = cx.ledger.runs().head(run);
            let stops = |halting: Option<(HaltMode, HaltCause)>| {
                halting.is_some_and(|(mode, _)| mode.kill_mode().is_some())
            };
            if head.is_some_and(|head| !head.state.is_terminal() && !stops(head.halting)) {
                cx.commit(Fact::RunHalting {
                    run,
                    mode: HaltMode::Kill,
                    cause: HaltCause::Replaced,
                });
            }
        }
    }
}
