//! Requests of clients about instances and workers: submit, cancel, retry, drain.

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId, RequestId, WorkerName};
use baton_model::spec::Exclusive;
use baton_model::state::UniversalState;

use crate::ledger::{Instance, Range};
use crate::protocol::scheduler::Protocol;
use crate::protocol::scheduler::context::{
    CancelCounts, Cx, Effect, RetryError, StoreMode, SubmitError,
};

/// Accepts all ranges or none: a refused submission leaves no fact.
pub(super) fn submit(cx: &mut Cx<'_>, request: RequestId, ranges: Vec<Range>) {
    if let Some(error) = refusal(cx, &ranges) {
        cx.step.emit(Effect::SubmitRefused(request, error));
        return;
    }
    for range in ranges {
        if cx.ledger.known().covers(range.first, range.last) {
            cx.counts.notice("submitted-again");
            continue;
        }
        cx.commit(Fact::InstancesSubmitted {
            first: range.first,
            last: range.last,
            spec: range.spec.clone(),
        });
        cx.bullpen.fresh(&range);
    }
    cx.step.emit(Effect::Submitted(request));
}

fn refusal(cx: &Cx<'_>, ranges: &[Range]) -> Option<SubmitError> {
    let strict = |range: &Range| range.spec.exclusive == Exclusive::Strict;
    if cx.config.store == StoreMode::Memory && ranges.iter().any(strict) {
        return Some(SubmitError::StrictNeedsStore);
    }
    let known = cx.ledger.known();
    let taken = ranges.iter().any(|range| {
        let (first, last) = (range.first, range.last);
        first > last || known.overlap(first, last).is_some() && !known.covers(first, last)
    });
    taken.then_some(SubmitError::IdsTaken)
}

/// Stops a range: halts waiting instances at once, and kills those that may be running.
pub(super) fn cancel(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    request: RequestId,
    first: InstanceId,
    last: InstanceId,
) {
    let stopped = stop(cx, protocol, first, last);
    cx.step.emit(Effect::Cancelled(request, stopped));
}

/// The same, without a reply.
pub(super) fn stop(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    first: InstanceId,
    last: InstanceId,
) -> CancelCounts {
    let fresh: u64 = cx
        .ledger
        .waiting_within(first, last)
        .map(|range| range.last.0 - range.first.0 + 1)
        .sum();
    let requeued: Vec<_> = cx
        .ledger
        .requeued(first, last)
        .map(|instance| instance.id)
        .collect();
    let halted = fresh + requeued.len() as u64;
    if halted > 0 {
        cx.bullpen.withdraw(first, last);
        cx.commit(Fact::InstancesHalted { first, last });
        requeued.iter().for_each(|id| cx.ledger.drop_ended(*id));
        cx.ledger.drop_ended(first);
    }
    let leased: Vec<(InstanceId, LeaseId, bool)> = cx
        .ledger
        .leased(first, last)
        .filter_map(|it| Some((it.id, it.lease.as_ref()?.id, it.stop_requested)))
        .collect();
    for (instance, lease, stop_requested) in &leased {
        if !stop_requested {
            cx.commit(Fact::StopRequested {
                instance: *instance,
            });
        }
        protocol.kill(cx, *lease);
    }
    if halted == 0 && leased.is_empty() {
        cx.counts.notice("cancel-after-end");
    }
    let stopping = leased.len() as u64;
    CancelCounts { halted, stopping }
}

/// Requeues an ended instance, which comes as the store has it. The ledger knows whether it was
/// requeued since it was read.
pub(super) fn retry(cx: &mut Cx<'_>, request: RequestId, instance: Instance) {
    let id = instance.id;
    let live = cx.ledger.find(id).map(|live| live.state);
    let state = live.unwrap_or(instance.state);
    let ended = matches!(state, UniversalState::Failed | UniversalState::Halted);
    if instance.spec.part.is_some() {
        let refused = Err(RetryError::PartOfRun);
        cx.step.emit(Effect::Retried(request, refused));
        return;
    }
    if live.is_some() || !ended {
        let refused = Err(RetryError::NotEnded(state));
        cx.step.emit(Effect::Retried(request, refused));
        return;
    }
    // The store checks what it returns; the ledger refuses what contradicts it.
    if cx.ledger.admit(instance).is_err() {
        let refused = Err(RetryError::NotEnded(state));
        cx.step.emit(Effect::Retried(request, refused));
        return;
    }
    cx.commit(Fact::InstanceRetried { instance: id });
    if let Some(instance) = cx.ledger.instance(id) {
        cx.bullpen.requeue(instance, cx.now);
    }
    cx.step.emit(Effect::Retried(request, Ok(())));
}

/// Drains a worker, or ends that.
pub(super) fn drain(cx: &mut Cx<'_>, request: RequestId, worker: &WorkerName, drained: bool) {
    if cx.ledger.drained().contains(worker) != drained {
        cx.commit(Fact::WorkerDrained {
            worker: worker.clone(),
            drained,
        });
    }
    cx.step.emit(Effect::Drained(request));
}
