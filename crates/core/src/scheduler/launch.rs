//! Launches of library entries: an instance of a task, or a run of a workflow.
//!
//! A launch is a record (of a due time, of an upstream success, or of a request) and what it has
//! launched, in one step: both are durable, or neither. The id is chosen first, so that the record
//! can name it.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::library::{Execution, RunOrigin};
use baton_model::spec::{Exclusive, Origin};
use baton_model::workflow::Plan;

use super::{instances, runs};
use crate::clock::Zone;
use crate::config::StoreMode;
use crate::ledger::Payload;
use crate::scheduler::context::Cx;

/// Environment variable with the due time, for what a schedule has launched.
pub(crate) const NOMINAL_TIME: &str = "BATON_NOMINAL_TIME";

/// Environment variable with the upstream instance or run, for what `after` has launched.
pub(crate) const AFTER: &str = "BATON_AFTER";

/// An unused id for a launch.
pub(super) fn unused_id(cx: &Cx<'_>, payload: &Payload) -> Execution {
    match payload {
        Payload::Spec(_) => Execution::Instance(instances::unused_id(cx)),
        Payload::Plan(_) => Execution::Run(runs::unused_id(cx)),
    }
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

/// Whether a launch needs a store that survives a restart, and there is none.
pub(super) fn lacks_store(cx: &Cx<'_>, payload: &Payload) -> bool {
    let strict = match payload {
        Payload::Spec(spec) => spec.exclusive == Exclusive::Strict,
        Payload::Plan(plan) => is_strict(plan),
    };
    strict && cx.config.store == StoreMode::Memory
}

/// True if a task of the plan has `exclusive: strict`.
pub(super) fn is_strict(plan: &Plan) -> bool {
    let mut tasks = plan.tasks.iter();
    tasks.any(|task| task.spec.exclusive == Exclusive::Strict)
}
