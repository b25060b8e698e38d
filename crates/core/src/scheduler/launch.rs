//! Launches of library entries: an instance of a task, or a run of a workflow.
//!
//! A launch is a record (of a due time, of an upstream success, or of a request) and what it has
//! launched, in one step: both are durable, or neither. The id is chosen first, so that the record
//! can name it.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::RunId;
use baton_model::library::{Execution, RunOrigin};
use baton_model::spec::{Exclusive, InstanceSpec, Origin};
use baton_model::workflow::Plan;

use super::instances;
use crate::bugs::Bug;
use crate::clock::Zone;
use crate::config::StoreMode;
use crate::ledger::Payload;
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
    /// `exclusive: strict` needs a durable store.
    StrictNeedsStore,
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
        StoreMode::Durable if cx.config.bugs.has(Bug::RunIdsUsedAgain) => 0,
        StoreMode::Durable => cx.ledger.identity().runs_above().0,
        // Workers may still hold instances of runs of an earlier leader.
        StoreMode::Memory => u64::from(cx.epoch.number()).saturating_mul(RUNS_PER_EPOCH),
    };
    cx.ledger.runs().last().max(RunId(floor)).next()
}

/// Starts an execution under an id of [`unused_id`].
pub(super) fn start(cx: &mut Cx<'_>, id: Execution, payload: Payload, origin: RunOrigin) {
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
            instances::accept(cx, id, id, &Arc::from(spec));
        }
        (Execution::Run(run), Payload::Plan(plan)) => cx.commit(Fact::RunRegistered {
            run,
            at: cx.now.wall,
            plan,
            open: false,
            origin: Some(origin),
        }),
        (id, _) => unreachable!("{id} is the id of another kind of execution"),
    }
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
    spec.exclusive == Exclusive::Strict && cx.config.store == StoreMode::Memory
}

/// Checks the invariants of a plan, and that the store is durable if it needs one.
pub(super) fn check_plan(cx: &Cx<'_>, plan: &Plan) -> Result<(), PlanError> {
    check::check(plan).map_err(PlanError::Invalid)?;
    let mut tasks = plan.tasks.iter();
    if tasks.any(|task| lacks_store(cx, &task.spec)) {
        Err(PlanError::StrictNeedsStore)
    } else {
        Ok(())
    }
}
