//! Launches of library entries: an instance of a task, or a run of a workflow.
//!
//! A launch is a record with its cause (a due time, an upstream success, a request, or a backfill) and
//! what it has launched, in one step: both are durable, or neither. The id is chosen first, so that the
//! record can name it. All causes share [`try_launch`].

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::RunId;
use baton_model::library::{Cause, Execution, RunOrigin};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::{Due, Exclusive, InstanceSpec, Origin};
use baton_model::time::Wall;
use baton_model::trace::TraceContext;
use baton_model::workflow::Plan;

use super::timetable::Timetable;
use super::{alarms, gate, instances};
use crate::clock::Zone;
use crate::config::StoreMode;
use crate::ledger::{Payload, Task};
use crate::limits::EntryLimit;
use crate::scheduler::context::Cx;
use crate::workflow::check;

/// Environment variable with the due time, for what a schedule has launched.
pub(crate) const NOMINAL_TIME: &str = "BATON_NOMINAL_TIME";

/// Environment variable with the upstream instance or run, for what `after` has launched.
pub(crate) const AFTER: &str = "BATON_AFTER";

/// Run ids that each leader without a store may use.
const RUNS_PER_EPOCH: u64 = 1_000_000;

/// Why a plan cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlanError {
    Invalid(String),
    /// `exclusive: strict`, or several nodes, need a durable store.
    NeedsStore,
}

/// A launch to decide.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) cause: Cause,
    /// The due time that it is for.
    pub(super) due: Option<Due>,
    /// What it starts; none if a parameter has no value.
    pub(super) payload: Option<Payload>,
    /// The span of the client that has asked for it.
    pub(super) trace: Option<TraceContext>,
}

/// Decides a launch of an entry by its pause and its limits, records it, and starts it. If a client or a
/// backfill waits for the launch, one that is skipped leaves no record: the reason is returned.
pub(super) fn try_launch(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    task: &Task,
    launch: Launch,
    verdict: TickVerdict,
) -> Result<Execution, SkipReason> {
    let Launch {
        cause,
        due,
        payload,
        trace,
    } = launch;
    let verdict = admit(cx, table, task, cause, verdict)?;
    let payload = payload.filter(|_| !matches!(verdict, TickVerdict::Skip(_)));
    let execution = payload.as_ref().map(|payload| unused_id(cx, payload));
    let record = Fact::Launched {
        entry: task.number,
        revision: task.revision,
        cause,
        verdict,
        execution,
    };
    // The timeline of an instance begins with its submission.
    let (before, after) = match cause {
        Cause::Request { .. } => (None, Some(record)),
        _ => (Some(record), None),
    };
    if let Some(record) = before {
        table.record_launch(cx, record);
    }
    let is_forgotten =
        matches!(verdict, TickVerdict::Late { .. }) && seeded!(cx.config.bugs, TickWithoutInstance);
    if let Some((execution, payload)) = execution.zip(payload)
        && !is_forgotten
    {
        let origin = RunOrigin {
            task: task.number,
            revision: task.revision,
            due,
            after: match cause {
                Cause::Upstream { execution, .. } => Some(execution),
                _ => None,
            },
        };
        start(cx, execution, payload, origin, trace);
        if !matches!(cause, Cause::Backfill { .. }) {
            gate::replace(cx, task, execution);
        }
    }
    if let Some(record) = after {
        table.record_launch(cx, record);
    }
    match verdict {
        TickVerdict::Skip(reason) => Err(reason),
        // Without an execution, a parameter has lost its default.
        _ => execution.ok_or(SkipReason::Replaced),
    }
}

/// The verdict on a launch; an error if it is skipped without a record.
fn admit(
    cx: &Cx<'_>,
    table: &mut Timetable,
    task: &Task,
    cause: Cause,
    verdict: TickVerdict,
) -> Result<TickVerdict, SkipReason> {
    let trigger = task.trigger().ok_or(SkipReason::Replaced)?;
    let (is_awaited, limit) = match cause {
        Cause::Due { .. } | Cause::Upstream { .. } => (false, EntryLimit::of(trigger)),
        Cause::Request { .. } => (true, EntryLimit::of(trigger)),
        Cause::Backfill { .. } => (true, EntryLimit::without_overlap(trigger)),
    };
    if !is_awaited && task.pause.is_some() {
        return Ok(TickVerdict::Skip(SkipReason::Paused));
    }
    match table.admit(cx, task.number, limit, verdict) {
        TickVerdict::Skip(reason) if is_awaited => Err(reason),
        verdict => Ok(verdict),
    }
}

/// An unused id for a launch.
pub(super) fn unused_id(cx: &Cx<'_>, payload: &Payload) -> Execution {
    match payload {
        Payload::Spec(_) => Execution::Instance(instances::unused_id(cx)),
        Payload::Plan(_) => Execution::Run(unused_run_id(cx)),
    }
}

/// An unused run id.
pub(super) fn unused_run_id(cx: &Cx<'_>) -> RunId {
    let floor = match cx.config.store {
        StoreMode::Durable if seeded!(cx.config.bugs, RunIdsUsedAgain) => 0,
        StoreMode::Durable => cx.ledger.identity().runs_above().0,
        // Workers may still hold instances of runs of an earlier leader.
        StoreMode::Memory => u64::from(cx.epoch.number()).saturating_mul(RUNS_PER_EPOCH),
    };
    cx.ledger.runs().last().max(RunId(floor)).next()
}

/// Starts an execution under an id of [`unused_id`].
fn start(
    cx: &mut Cx<'_>,
    id: Execution,
    payload: Payload,
    origin: RunOrigin,
    trace: Option<TraceContext>,
) {
    match (id, payload) {
        (Execution::Instance(id), Payload::Spec(mut spec)) => {
            for (name, value) in environment(&origin) {
                spec.env.entry(name.to_owned()).or_insert(value);
            }
            spec.origin = Some(Origin {
                task: origin.task,
                revision: origin.revision,
                due: origin.due,
            });
            spec.trace = trace;
            alarms::fix_deadline(&mut spec.expected, due_from(cx, &origin));
            instances::accept(cx, id, id, &Arc::from(spec));
        }
        (Execution::Run(run), Payload::Plan(plan)) => {
            let plan = with_trace(with_deadline(plan, due_from(cx, &origin)), trace);
            cx.commit(Fact::RunRegistered {
                run,
                at: cx.now.wall,
                plan,
                open: false,
                origin: Some(origin),
            });
        }
        (id, _) => unreachable!("{id} is the id of another kind of execution"),
    }
}

/// The time from which a deadline counts: the due time, if there is one.
fn due_from(cx: &Cx<'_>, origin: &RunOrigin) -> Wall {
    origin.due.map_or(cx.now.wall, |due| due.nominal)
}

/// A plan whose deadline is fixed.
pub(super) fn with_deadline(mut plan: Arc<Plan>, from: Wall) -> Arc<Plan> {
    if plan.expected.deadline.is_some() {
        alarms::fix_deadline(&mut Arc::make_mut(&mut plan).expected, from);
    }
    plan
}

/// A plan in this trace.
pub(super) fn with_trace(mut plan: Arc<Plan>, trace: Option<TraceContext>) -> Arc<Plan> {
    if plan.trace != trace {
        Arc::make_mut(&mut plan).trace = trace;
    }
    plan
}

/// The variables that tell what has launched an execution. A run's instances get them when they
/// are created, so that they survive a resume with a changed plan.
pub(crate) fn environment(
    origin: &RunOrigin,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let nominal = origin
        .due
        .map(|due| (NOMINAL_TIME, Zone::UTC.rfc3339(due.nominal)));
    let after = origin.after.map(|after| (AFTER, after.to_string()));
    nominal.into_iter().chain(after)
}

/// Whether an instance needs a store that survives a restart, and there is none.
pub(super) fn lacks_store(cx: &Cx<'_>, spec: &InstanceSpec) -> bool {
    let needs_store = spec.exclusive == Exclusive::Strict || spec.nodes.is_gang();
    needs_store && cx.config.store == StoreMode::Memory
}

/// Checks the invariants of a plan, and that the store is durable if it needs one.
pub(super) fn check_plan(cx: &Cx<'_>, plan: &Plan) -> Result<(), PlanError> {
    check::check(plan).map_err(PlanError::Invalid)?;
    let mut tasks = plan.tasks.iter();
    if tasks.any(|task| lacks_store(cx, &task.spec)) {
        Err(PlanError::NeedsStore)
    } else {
        Ok(())
    }
}
