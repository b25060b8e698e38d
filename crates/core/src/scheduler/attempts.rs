//! What the leader does when an attempt has ended, or when a worker reports one that it holds.

use std::sync::Arc;

use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::LeaseId;
use baton_model::library::Execution;
use baton_model::limits::{OUTPUTS_BYTES_MAX, STDERR_TAIL_BYTES_MAX};
use baton_model::outcome::{AttemptEnd, Outcome, Report};
use baton_model::progress::Progress;
use baton_model::spec::InstanceSpec;

use super::context::{Cx, Success};
use super::fallback;

/// Records the end of an attempt with the verdict of triage, releases its resources, and lets the
/// instance wait again if it is retried.
pub(super) fn close(
    cx: &mut Cx<'_>,
    lease: LeaseId,
    end: AttemptEnd,
    report: Option<&Report>,
    progress: Option<Progress>,
) {
    let id = lease.attempt.instance;
    let Some(open) = cx.ledger.open_lease(lease) else {
        return;
    };
    let worker = open.holder.worker.clone();
    let Some(instance) = cx.ledger.instance(id) else {
        return;
    };
    let end = instance.attribute(end);
    let verdict = instance.verdict(end);
    let origin = instance.spec.origin.filter(|_| verdict == Verdict::Done);
    cx.done.extend(origin.map(|origin| Success {
        execution: Execution::Instance(id),
        entry: origin.task,
        due: origin.due,
    }));
    let next_attempt = match verdict {
        Verdict::Requeued => {
            let mut next = instance.next_attempt(cx.now.wall, end).map(Box::new);
            if let Some(next) = &mut next {
                fallback::leave_small_fleets(cx.ledger.fleets(), &instance.spec, next);
            }
            next
        }
        Verdict::Done | Verdict::GaveUp | Verdict::Stopped => None,
    };
    let stats = report.and_then(|report| report.stats);
    let path = cx.ledger.task_path(&instance.spec);
    let outputs = match verdict {
        Verdict::Done => report.and_then(|report| report.outputs.clone()),
        Verdict::Requeued | Verdict::GaveUp | Verdict::Stopped => None,
    };
    // No worker of ours sends more; another must not make the store grow without bounds.
    let outputs = outputs.filter(|it| it.len() <= OUTPUTS_BYTES_MAX);
    let stderr_tail = match verdict {
        Verdict::Requeued | Verdict::GaveUp => report.and_then(|it| it.stderr_tail.clone()),
        Verdict::Done | Verdict::Stopped => None,
    };
    let stderr_tail = stderr_tail.filter(|it| it.len() <= STDERR_TAIL_BYTES_MAX);
    cx.commit(Fact::AttemptEnded {
        lease,
        end,
        verdict,
        stats,
        next_attempt,
        outputs,
        stderr_tail,
        progress: progress.map(Box::new),
    });
    if let (Some(path), Some(stats)) = (path, stats) {
        let times = cx.ledger.run_times_mut();
        times.record(&path, stats.elapsed, end.into());
        if let Some(estimate) = times.estimate(&path) {
            cx.bullpen.set_estimate(&path, estimate);
        }
    }
    // Only an attempt that ended by itself gives an estimate of the run time.
    let took = match end {
        AttemptEnd::Real(Outcome::Exited(_) | Outcome::BadOutput) => {
            stats.map(|stats| stats.elapsed)
        }
        _ => None,
    };
    cx.bullpen.released(&worker, id, took);
    match (verdict, cx.ledger.instance(id)) {
        (Verdict::Requeued, Some(instance)) => {
            cx.bullpen.avoid(id, &worker);
            cx.bullpen.requeue(cx.ledger, instance, cx.now);
        }
        _ => cx.ledger.drop_ended(id),
    }
}

/// Without a store: records an attempt that a worker holds already, and charges its resources.
pub(super) fn adopt(cx: &mut Cx<'_>, lease: LeaseId, holder: Holder, spec: Arc<InstanceSpec>) {
    let id = lease.attempt.instance;
    cx.bullpen.withdraw(id, id);
    cx.commit(Fact::AttemptAdopted {
        lease,
        holder,
        spec,
    });
    if let Some(instance) = cx.ledger.instance(id)
        && let Some(lease) = &instance.lease
    {
        cx.bullpen.adopt(lease, instance);
    }
}
