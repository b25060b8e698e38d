//! The reply to `getRunningTasks`: the attempts that a worker holds, and what that proves.
//!
//! The reply belongs to one session, and no launch of an earlier session can
//! start any more. So it is complete: a lease of this worker that it does not
//! hold never started, or ended with an earlier incarnation.

use std::collections::BTreeSet;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Association, LeaseId, WorkerName};
use baton_model::message::HeldAttempt;
use baton_model::outcome::{AttemptEnd, KillMode, LossProof, MemberLoss, Synthetic};
use baton_model::state::WorkerState;

use super::Protocol;
use super::context::Cx;
use crate::config::StoreMode;
use crate::fsm::WorkerEvent;

impl Protocol {
    pub(super) fn running_tasks(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        held: &[HeldAttempt],
    ) {
        let name = self.hear(cx, association);
        seeded! { let name = crate::bugs::protocol::find_successor(self, cx, association, name); }
        let Some(name) = name else { return };
        if self.seats[&name].listed {
            cx.notice("running-tasks-known-already");
            return;
        }
        self.disown(cx, &name, held);
        for held in held {
            self.reported(cx, &name, held);
        }
        let holder = self.seats[&name].holder.clone();
        self.close_unreported(cx, &holder, held);
        let now = cx.now.mono;
        if let Some(holding) = self.holdings.0.get_mut(&association.incarnation) {
            holding.reported = true;
        }
        if let Some(seat) = self.seats.get_mut(&name) {
            seat.listed = true;
            seat.note_round_trip(now);
            if seat.state == WorkerState::New {
                seat.became_unhealthy = now;
            }
            // Late where it was condemned meanwhile: its list counts all the same.
            seat.step(cx, WorkerEvent::RunningTasksKnown);
        }
        self.recount(cx, &name);
        self.update_health(cx, &name);
        self.repeat_kills(cx, &name);
        self.seat_due(cx, &name);
    }

    /// Shows the operator that a worker holds attempts of an unknown generation of the store.
    fn disown(&self, cx: &mut Cx<'_>, name: &WorkerName, held: &[HeldAttempt]) {
        if cx.config.store == StoreMode::Memory {
            return;
        }
        let leases = held.iter().map(|held| held.lease);
        let mut disowned = leases.filter(|lease| cx.ledger().is_unheard_of(*lease));
        if let Some(example) = disowned.next() {
            let others = u32::try_from(disowned.count()).unwrap_or(u32::MAX);
            cx.commit(Fact::AttemptsDisowned {
                worker: name.clone(),
                incarnation: self.seats[name].holder.incarnation,
                attempts: others.saturating_add(1),
                example,
            });
        }
    }

    /// The worker holds this attempt: note it, adopt it, or have it killed; and if
    /// it has ended meanwhile, take the result.
    fn reported(&mut self, cx: &mut Cx<'_>, name: &WorkerName, held: &HeldAttempt) {
        let lease = held.lease;
        let holder = self.seats[name].holder.clone();
        if cx.ledger().open_lease(lease).is_none() && self.may_adopt(cx, lease) {
            cx.leader.adopt(lease, holder, held.spec.clone());
        }
        if !self.answers_for(cx, name, lease) {
            return self.stale_reported(cx, name, held);
        }
        if let Some(report) = &held.ended {
            if self.is_premature(cx, name, lease, Some(report.outcome)) {
                return;
            }
            let end = AttemptEnd::Real(report.outcome);
            return self.end_attempt(cx, lease, end, Some(report));
        }
        self.rehome(cx, name, lease);
        if cx
            .ledger()
            .open_lease(lease)
            .is_some_and(|open| !open.confirmed)
        {
            cx.commit(Fact::AttemptConfirmed { lease });
        }
        self.kill_if_requested(cx, name, lease);
    }

    /// Its lease is closed: the attempt must be killed, whatever its state. At once: another
    /// attempt of the instance may be running by now, which its final processes must not meet.
    fn stale_reported(&mut self, cx: &mut Cx<'_>, name: &WorkerName, held: &HeldAttempt) {
        cx.notice("stale-attempt-reported");
        if held.ended.is_none()
            && let Some(seat) = self.seats.get_mut(name)
        {
            seat.kills.insert(held.lease, KillMode::Now);
        }
    }

    /// Sends the kill that was requested while the worker could not be reached.
    fn kill_if_requested(&mut self, cx: &Cx<'_>, name: &WorkerName, lease: LeaseId) {
        let kill = cx.ledger().open_lease(lease).and_then(|open| open.kill);
        if let (Some(mode), Some(seat)) = (kill, self.seats.get_mut(name)) {
            seat.kills.insert(lease, mode);
        }
    }

    /// Without a store, an attempt that an earlier scheduler started is taken
    /// over unless the instance has another lease already or has ended.
    fn may_adopt(&self, cx: &Cx<'_>, lease: LeaseId) -> bool {
        cx.config.store == StoreMode::Memory
            && lease.epoch < self.term.epoch
            && match cx.ledger().find(lease.attempt.instance) {
                Some(it) => it.lease.is_none() && !it.state.is_terminal(),
                // Unknown altogether, or ended and dropped.
                None => !cx.ledger().known().contains(lease.attempt.instance),
            }
    }

    /// From now on this incarnation answers for the lease.
    fn rehome(&mut self, cx: &Cx<'_>, name: &WorkerName, lease: LeaseId) {
        let holder = self.seats[name].holder.clone();
        self.holdings.close(holder.incarnation, lease);
        self.hold(cx, &holder, lease);
    }

    /// Closes the leases of a worker that holds nothing but these attempts.
    pub(super) fn close_unreported(
        &mut self,
        cx: &mut Cx<'_>,
        holder: &Holder,
        held: &[HeldAttempt],
    ) {
        let reporter = holder.incarnation;
        let held: BTreeSet<LeaseId> = held.iter().map(|held| held.lease).collect();
        for incarnation in self.holdings.lineage_up_to(reporter) {
            if incarnation != reporter && !self.is_ended_by(cx, incarnation, holder) {
                continue;
            }
            for lease in self.holdings.leases(incarnation) {
                if !held.contains(&lease) {
                    let end = if incarnation == reporter {
                        not_running(cx, lease)
                    } else {
                        Synthetic::WorkerLost(LossProof::NewerIncarnation)
                    };
                    self.end_attempt(cx, lease, AttemptEnd::Synthetic(end), None);
                }
            }
            if incarnation != reporter {
                let loss = MemberLoss::Proved(LossProof::NewerIncarnation);
                self.lose_all_memberships(cx, incarnation, loss);
                self.forget_incarnation(cx, incarnation);
            }
        }
    }
}

/// The end of an attempt that a worker does not have. In a copy of a store it may have ended, and
/// been forgotten, after the copy was made.
pub(super) fn not_running(cx: &Cx<'_>, lease: LeaseId) -> Synthetic {
    if lease.epoch < cx.ledger().identity().generation {
        Synthetic::WorkerLost(LossProof::StoreCopied)
    } else {
        Synthetic::WasNotRunning
    }
}
