//! Members of gangs: workers that are held for an attempt which runs on another one.
//!
//! An attempt of several nodes has one lease, whose holder is the first member: it alone runs the command, reports,
//! and is fenced. The others are *held*: they count as busy, and their heartbeats are answered with how many gangs
//! hold them, so that they do not end because they are idle. What the command starts on their hosts is its own, by
//! `ssh`, `srun` or an MPI launcher; no coordinator there knows of it.
//!
//! When a member is lost, by one of the proofs of [`super::loss`] or because it leaves, the attempt is killed: the
//! first member is told so with every heartbeat until it reports the end, as for any kill. Until then all members
//! stay charged: the loss of one proves nothing about processes of the others. The end counts as a loss, whatever
//! the exit status, since programs of a gang fail when a host is gone; also if such a failure is reported before the
//! scheduler has noticed, as long as a member is not healthy at that moment.

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Incarnation, LeaseId};
use baton_model::outcome::{AttemptEnd, MemberLoss, Outcome};
use baton_model::state::WorkerState;

use super::Protocol;
use super::context::Cx;

impl Protocol {
    /// An incarnation is lost as a member of all gangs that hold it.
    pub(super) fn lose_all_memberships(
        &mut self,
        cx: &mut Cx<'_>,
        incarnation: Incarnation,
        loss: MemberLoss,
    ) {
        let holding = self.holdings.0.get(&incarnation);
        let leases: Vec<LeaseId> = holding
            .map(|it| it.member_of.iter().copied().collect())
            .unwrap_or_default();
        self.lose_memberships(cx, incarnation, &leases, loss);
    }

    /// The same for some of them.
    pub(super) fn lose_memberships(
        &mut self,
        cx: &mut Cx<'_>,
        incarnation: Incarnation,
        leases: &[LeaseId],
        loss: MemberLoss,
    ) {
        let Some(holding) = self.holdings.0.get(&incarnation) else {
            return;
        };
        let worker = holding.holder.worker.clone();
        for lease in leases {
            let open = cx.ledger().open_lease(*lease);
            if open.is_none_or(|open| open.lost_member().is_some()) {
                continue;
            }
            cx.commit(Fact::MemberLost {
                lease: *lease,
                worker: worker.clone(),
                loss,
            });
            self.kill(cx, *lease);
            seeded!(cx.config.bugs, MemberFreedEarly => {
                crate::bugs::protocol::free_members(self, cx, *lease);
            });
        }
    }

    /// Looks for a lost member as the cause of a failure. Returns the end that is judged then.
    pub(super) fn blame_members(
        &self,
        cx: &mut Cx<'_>,
        lease: LeaseId,
        others: &[Holder],
        end: AttemptEnd,
    ) -> AttemptEnd {
        let failed = matches!(
            end,
            AttemptEnd::Real(Outcome::Exited(1..) | Outcome::Exited(..=-1) | Outcome::Signaled(_))
        );
        let open = cx.ledger().open_lease(lease);
        let is_known = open.is_some_and(|open| open.lost_member().is_some());
        if failed && !is_known {
            let mut unhealthy = others.iter().filter(|it| !self.is_healthy(cx, it));
            if let Some(member) = unhealthy.next() {
                cx.commit(Fact::MemberLost {
                    lease,
                    worker: member.worker.clone(),
                    loss: MemberLoss::Unhealthy,
                });
            }
        }
        let instance = cx.ledger().instance(lease.attempt.instance);
        instance.map_or(end, |instance| match others {
            [] => end,
            _ => instance.attribute(end),
        })
    }

    /// Frees the other members of an attempt, whose lease is closed.
    pub(crate) fn free_held(&mut self, cx: &mut Cx<'_>, others: &[Holder], lease: LeaseId) {
        self.holdings.free(others, lease);
        for member in others {
            self.recount(cx, &member.worker);
        }
    }

    fn is_healthy(&self, cx: &Cx<'_>, member: &Holder) -> bool {
        let seat = self.seats.get(&member.worker);
        seat.is_some_and(|seat| {
            seat.holder.incarnation == member.incarnation
                && seat.state == WorkerState::Healthy
                && seat.is_prompt(cx.now.mono, &cx.config.timeouts)
        })
    }
}
