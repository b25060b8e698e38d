//! Helpers of seeded bugs in the scheduler's half of the protocol.

use std::sync::Arc;

use baton_model::ids::{Association, Epoch, LeaseId, WorkerName};
use baton_model::outcome::{AttemptEnd, Synthetic};
use baton_model::placement::{GROUP_LABEL, Offer};

use super::{Bug, Bugs};
use crate::protocol::scheduler::Protocol;
use crate::protocol::scheduler::context::Cx;

/// [`Bug::StatusEpochUnchecked`]: the association as if the current leader had granted it.
pub(crate) fn ignore_epoch(bugs: Bugs, association: Association, epoch: Epoch) -> Association {
    if bugs.has(Bug::StatusEpochUnchecked) {
        return Association {
            epoch,
            ..association
        };
    }
    association
}

/// [`Bug::StatusEpochUnchecked`]: the open lease of the same attempt, whichever epoch granted it
/// and to which worker.
pub(crate) fn lease_of_any_epoch(cx: &Cx<'_>, lease: LeaseId) -> Option<LeaseId> {
    let instance = cx.ledger().instance(lease.attempt.instance)?;
    let open = instance.lease.as_ref()?.id;
    (open.attempt == lease.attempt).then_some(open)
}

/// [`Bug::StatusEpochUnchecked`]: the lease that an end is taken for.
pub(crate) fn replace_lease(cx: &Cx<'_>, lease: LeaseId) -> LeaseId {
    if cx.config.bugs.has(Bug::StatusEpochUnchecked) {
        return lease_of_any_epoch(cx, lease).unwrap_or(lease);
    }
    lease
}

/// [`Bug::RunningListToSuccessor`]: the seat that the worker's state directory holds now,
/// whichever association the reply belongs to.
pub(crate) fn find_successor(
    protocol: &Protocol,
    cx: &Cx<'_>,
    association: Association,
    heard: Option<WorkerName>,
) -> Option<WorkerName> {
    if !cx.config.bugs.has(Bug::RunningListToSuccessor) {
        return heard;
    }
    let lineage = association.incarnation.lineage;
    let mut seats = protocol.seats().iter();
    let (name, _) = seats.find(|(_, seat)| seat.holder.incarnation.lineage == lineage)?;
    Some(name.clone())
}

/// [`Bug::ClearedOnSendFailure`]: attempts without a reply count as never started.
pub(crate) fn clear_overdue(protocol: &mut Protocol, cx: &mut Cx<'_>, overdue: Vec<LeaseId>) {
    for lease in overdue {
        let end = AttemptEnd::Synthetic(Synthetic::NeverStarted);
        protocol.end_attempt(cx, lease, end, None);
    }
}

/// [`Bug::MemberFreedEarly`]: all workers of the attempt take other work again.
pub(crate) fn free_members(protocol: &mut Protocol, cx: &mut Cx<'_>, lease: LeaseId) {
    let Some(open) = cx.ledger().open_lease(lease) else {
        return;
    };
    let others = open.others().to_vec();
    cx.leader.free(lease);
    protocol.free_held(cx, &others, lease);
}

/// [`Bug::GroupsMixed`]: what a worker offers, in the group of all workers.
pub(crate) fn in_one_group(bugs: Bugs, offer: Arc<Offer>) -> Arc<Offer> {
    if !bugs.has(Bug::GroupsMixed) {
        return offer;
    }
    let mut offer = Offer::clone(&offer);
    offer
        .labels
        .insert(GROUP_LABEL.to_owned(), "all".to_owned());
    Arc::new(offer)
}
