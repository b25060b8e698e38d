//! Helpers of seeded bugs in the controller of runs and in the timetable.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::{Fact, Verdict};
use baton_model::time::{Now, Wall};
use baton_model::workflow::{CarriedItems, Edges, ItemSpan};

use super::{Bug, Bugs};
use crate::ledger::{Ledger, LedgerError, Run};
use crate::scheduler::bullpen::Bullpen;
use crate::scheduler::context::Cx;
use crate::scheduler::dependencies::Dependencies;
use crate::scheduler::timetable::Timetable;
use crate::scheduler::{KnownLaunches, Resume};
use crate::triage::{self, Charge};
use crate::workflow::{Dag, ItemState, invalidate, items};

/// [`Bug::CatchUpRepeats`], [`Bug::WallBackRepeats`], [`Bug::RunEndsEarly`],
/// [`Bug::BackfillRecordLate`]: the ledger refuses their facts. The error is dropped, so that the simulator's checkers find the bug, not a panic.
pub(crate) fn tolerate(bugs: Bugs, applied: Result<(), LedgerError>) -> Result<(), LedgerError> {
    let refused = [
        Bug::CatchUpRepeats,
        Bug::WallBackRepeats,
        Bug::RunEndsEarly,
        Bug::BackfillRecordLate,
    ];
    if refused.into_iter().any(|bug| bugs.has(bug)) {
        return Ok(());
    }
    applied
}

/// [`Bug::RetryCountedTwice`]: a failed attempt counts as a failed element, also if it is retried.
pub(crate) fn count_retry(bugs: Bugs, ledger: &mut Ledger, fact: &Fact) {
    if let Fact::AttemptEnded {
        lease,
        end,
        verdict: Verdict::Requeued,
        ..
    } = fact
        && bugs.has(Bug::RetryCountedTwice)
        && triage::charge(*end) == Charge::Failure
        && let Some(instance) = ledger.instance(lease.attempt.instance)
        && instance.spec.conditions.failed_max.is_some()
        && let Some((first, _)) = instance.spec.conditions.instances
    {
        let count = ledger.failures(first) + 1;
        ledger.restore_failures(first, count);
    }
}

/// [`Bug::LimitForgotten`]: limits that were set at run time are again those of the configuration.
/// [`Bug::RateForgotten`]: all of every rate is free.
/// [`Bug::ArrayUncharged`]: inherited leases are charged as if their arrays had no concurrency limit.
pub(crate) fn forget_limits(bugs: Bugs, ledger: &Ledger, bullpen: &mut Bullpen, now: Now) {
    if bugs.has(Bug::LimitForgotten) {
        for name in ledger.limits().keys() {
            bullpen.set_limit(name, bullpen.default_limit(name), now.mono);
        }
    }
    if bugs.has(Bug::RateForgotten) {
        bullpen.fill_rates();
    }
    if !bugs.has(Bug::ArrayUncharged) {
        return;
    }
    for lease in ledger.open_leases() {
        let id = lease.id.attempt.instance;
        if let Some(mut instance) = ledger.instance(id).cloned() {
            Arc::make_mut(&mut instance.spec).conditions.concurrent_max = None;
            bullpen.released(&lease.holder.worker, id, None);
            bullpen.adopt(lease, &instance);
        }
    }
}

/// [`Bug::DependencyIgnored`], [`Bug::DependenciesForgotten`]: nothing waits for other work.
pub(crate) fn forget_dependencies(bugs: Bugs, dependencies: &mut Dependencies) {
    if bugs.has(Bug::DependencyIgnored) || bugs.has(Bug::DependenciesForgotten) {
        *dependencies = Dependencies::default();
    }
}

/// [`Bug::TakeoverForgets`], [`Bug::CatchUpRepeats`]: due times of a new leader begin now, or before
/// those that have their record.
pub(crate) fn move_due_times(
    bugs: Bugs,
    ledger: &Ledger,
    now: Now,
    restored: Timetable,
) -> Timetable {
    let mut timetable = Timetable::default();
    for task in ledger.library().tasks() {
        let from = match task.accounted {
            _ if bugs.has(Bug::TakeoverForgets) => now.wall,
            at if bugs.has(Bug::CatchUpRepeats) => Wall(at.0.saturating_sub(3_600_000)),
            _ => return restored,
        };
        // The schedule was valid before.
        let _ = timetable.insert_from(task, from);
    }
    timetable
}

/// [`Bug::BackfillRepeats`]: no due time has a launch.
pub(crate) fn forget_launches(bugs: Bugs, known: &KnownLaunches) -> KnownLaunches {
    let mut known = known.clone();
    if bugs.has(Bug::BackfillRepeats) {
        known.times.clear();
    }
    known
}

/// [`Bug::GateIgnored`]: an item that waits for all items of a task of which one has ended.
pub(crate) fn ungated_item(bugs: Bugs, run: &Run) -> Option<(u32, u32)> {
    if !bugs.has(Bug::GateIgnored) {
        return None;
    }
    let has_settled_upstream = |task: u32| {
        let mut after = run.dag.plan.tasks[task as usize].after.iter();
        after.any(|it| it.edges == Edges::All && run.progress.tally(it.task).settled() > 0)
    };
    let tasks = 0..u32::try_from(run.dag.plan.tasks.len()).unwrap_or(u32::MAX);
    let mut items = tasks
        .filter(|task| has_settled_upstream(*task))
        .flat_map(|task| (0..run.progress.item_count(task)).map(move |item| (task, item)));
    items.find(|(task, item)| run.progress.state(*task, *item) == Some(ItemState::Waiting))
}

/// [`Bug::ResumeStaleAccepted`]: the command with the current head of its run, whichever
/// generation the client has read.
pub(crate) fn accept_stale(cx: &Cx<'_>, mut command: Resume) -> Resume {
    if cx.config.bugs.has(Bug::ResumeStaleAccepted)
        && let Some(head) = cx.ledger.runs().head(command.run.head.id)
    {
        command.generation = None;
        command.run.head = head.clone();
    }
    command
}

/// [`Bug::ResumeKeepsNothing`]: every item of the run.
pub(crate) fn all_items(run: &Run) -> Vec<ItemSpan> {
    let tasks = 0..u32::try_from(run.dag.plan.tasks.len()).unwrap_or(u32::MAX);
    let item_counts = |task| run.progress.item_count(task);
    tasks
        .flat_map(|task| invalidate::requested_spans(&run.dag, task, false, item_counts))
        .collect()
}

/// [`Bug::ResumeByIndex`]: carried items keep their index instead of their value.
pub(crate) fn carry_by_index(bugs: Bugs, after: &Dag, carried: &mut Vec<CarriedItems>) {
    if !bugs.has(Bug::ResumeByIndex) {
        return;
    }
    let mut tasks: BTreeMap<u32, CarriedItems> = BTreeMap::new();
    for it in std::mem::take(carried) {
        let whole = tasks.entry(it.task).or_insert(it);
        (whole.first, whole.from.first) = (0, 0);
        whole.from.last = whole.from.last.max(it.from.last);
    }
    for mut it in tasks.into_values() {
        let count = items::count(&after.plan.tasks[it.task as usize].items).unwrap_or(u64::MAX);
        let Some(last) = count.checked_sub(1) else {
            continue;
        };
        it.from.last = it.from.last.min(u32::try_from(last).unwrap_or(u32::MAX));
        carried.push(it);
    }
}

/// [`Bug::WallBackRepeats`]: due times restart at the wall clock instead of after the last
/// recorded one.
pub(crate) fn follow_wall_clock(timetable: &mut Timetable, cx: &Cx<'_>) {
    if !cx.config.bugs.has(Bug::WallBackRepeats) {
        return;
    }
    let now = cx.now.wall;
    for task in cx.ledger.library().tasks().filter(|it| it.accounted > now) {
        // The schedule was valid before.
        let _ = timetable.insert_from(task, now);
    }
}

/// [`Bug::PauseForgotten`], [`Bug::BackfillStartsAnew`], [`Bug::FailuresForgotten`]: the ledger of a new
/// leader has no pauses, or does not know how far backfills have come, or how many elements of an
/// array have failed.
pub(crate) fn forget_facts(bugs: Bugs, ledger: &mut Ledger) {
    if bugs.has(Bug::FailuresForgotten) {
        ledger.forget_failures();
    }
    if bugs.has(Bug::BackfillStartsAnew) {
        ledger.library_mut().backfills_mut().rewind();
    }
    if !bugs.has(Bug::PauseForgotten) {
        return;
    }
    let paused = ledger.library().tasks().filter(|it| it.pause.is_some());
    let paused: Vec<_> = paused.map(|task| task.number).collect();
    for task in paused {
        // A removed one stays as it is; it is not due.
        let _ = ledger.library_mut().set_pause(task, None);
    }
}
