//! Condemning a worker, and closing the leases of its attempts: two different things.
//!
//! A condemned worker gets no work, no lease and an order to die with every
//! heartbeat. A worker that holds leases is not condemned because it is silent: it may come back
//! with its work. Attempts stay leased until one of these closes them:
//!
//! | what | closes `timed` | closes `strict` |
//! |---|---|---|
//! | the worker reports the attempt | yes | yes |
//! | a later incarnation of the same state directory and boot reports without it | yes | yes |
//! | one of another boot, and the earlier one is silent | yes | yes |
//! | its host reports under another boot, and the earlier one is silent | yes | yes |
//! | an operator forgets the worker | yes | yes |
//! | the cluster manager has ended the job in which the worker ran ([`JobProof`]) | yes | if the manager has ended its processes |
//! | its term has run out, and with it the dead-man timer on its host | yes | **no** |
//!
//! A member of a gang that runs nothing of it is lost by the same proofs, and when it leaves: see `gang`.
//!
//! Silent is a worker that was not heard for [`Timeouts::silence`](baton_model::timeouts::Timeouts::silence).

use baton_model::fact::{Condemnation, Fact};
use baton_model::ids::{Incarnation, LeaseId, Lineage, WorkerName};
use baton_model::message::ToWorker;
use baton_model::outcome::{AttemptEnd, LossProof, MemberLoss, Synthetic};
use baton_model::state::WorkerState;
use baton_model::timeouts::LeaseTerm;

use super::context::Cx;
use super::holdings::term_of;
use super::{Protocol, Timer, address};
use crate::config::StoreMode;
use crate::fsm::WorkerEvent;

/// How far the word of a cluster manager goes that a job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobProof {
    /// It has ended and reaped all processes of the job.
    Reaped,
    /// It reports a failure. Enough for `timed`; for `strict` it is not, since a manager also calls a job failed
    /// that it could not end in order.
    Failed,
}

impl Protocol {
    /// Condemns the holder of a seat and orders it to die.
    pub(super) fn condemn(&mut self, cx: &mut Cx<'_>, name: &WorkerName, reason: Condemnation) {
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        let incarnation = seat.holder.incarnation;
        if seat.state != WorkerState::MustDie {
            seat.step(cx, WorkerEvent::Condemned);
            if !seeded!(cx.config.bugs, UnsureKeptOnLoss) {
                let listed = seat.listed;
                seat.drop_calls();
                seat.listed = listed;
            }
            cx.commit(Fact::WorkerCondemned {
                worker: name.clone(),
                incarnation,
                reason,
            });
            self.update_offer(cx, name);
        }
        let seat = &self.seats[name];
        let association = seat.association(self.term);
        cx.send(
            address(name, seat),
            ToWorker::RequestSuicide { association },
        );
    }

    /// An incarnation was silent for so long that something may follow from it: attempts whose terms
    /// have run out have ended, and another boot of its host, or a later incarnation, is proof for
    /// all. Strict ones wait for a proof, however long.
    pub(super) fn holding_due(&mut self, cx: &mut Cx<'_>, incarnation: Incarnation) {
        let now = cx.now.mono;
        let Some(holding) = self.holdings.0.get(&incarnation) else {
            return;
        };
        let has_ended = holding.expires <= now;
        let is_over = |lease: &LeaseId| {
            let expiry = holding.expiry(term_of(cx, *lease));
            expiry.is_some_and(|expiry| expiry <= now)
        };
        let over: Vec<LeaseId> = holding.leases.iter().copied().filter(is_over).collect();
        let run_out: Vec<LeaseId> = holding.member_of.iter().copied().filter(is_over).collect();
        let name = self.seated.get(&incarnation).cloned();
        if has_ended
            && cx.config.store == StoreMode::Memory
            && let Some(name) = &name
        {
            // Its last heartbeat is a whole lease ago; nothing can delay this.
            self.condemn_once(cx, name, Condemnation::Unhealthy);
        }
        if !over.is_empty()
            && let Some(seat) = name.and_then(|name| self.seats.get_mut(&name))
        {
            // It must report what it really holds before it is believed again.
            seat.must_list = true;
        }
        for lease in over {
            let lost = Synthetic::WorkerLost(LossProof::LeaseRanOut);
            self.end_attempt(cx, lease, AttemptEnd::Synthetic(lost), None);
        }
        let loss = MemberLoss::Proved(LossProof::LeaseRanOut);
        self.lose_memberships(cx, incarnation, &run_out, loss);
        self.close_if_host_goes_on(cx, incarnation);
        if has_ended {
            self.forget_incarnation(cx, incarnation);
        }
        self.arm_holding(cx, incarnation);
    }

    /// Closes every attempt of an incarnation, with a proof that holds in any mode.
    pub(super) fn lose_all(&mut self, cx: &mut Cx<'_>, incarnation: Incarnation, proof: LossProof) {
        // An incarnation that has ended must not be offered the attempts that it is about to lose,
        // nor be heard again. A forgotten one is condemned: if it speaks after all, it is refused
        // with the order to die.
        if let Some(name) = self.seated.get(&incarnation).cloned() {
            self.vacate(cx, &name);
        }
        for lease in self.holdings.leases(incarnation) {
            let lost = Synthetic::WorkerLost(proof);
            self.end_attempt(cx, lease, AttemptEnd::Synthetic(lost), None);
        }
        self.lose_all_memberships(cx, incarnation, MemberLoss::Proved(proof));
        self.forget_incarnation(cx, incarnation);
    }

    /// The cluster manager vouches that the job in which a worker ran is over.
    pub(crate) fn job_over(&mut self, cx: &mut Cx<'_>, worker: &WorkerName, proof: JobProof) {
        let holdings = self.holdings.0.values();
        let gone = holdings.filter(|it| it.holder.worker == *worker);
        let gone: Vec<Incarnation> = gone.map(|it| it.holder.incarnation).collect();
        for incarnation in gone {
            if proof == JobProof::Reaped {
                self.lose_all(cx, incarnation, LossProof::JobOver);
                continue;
            }
            if self.seated.get(&incarnation) == Some(worker) {
                self.vacate(cx, worker);
            }
            for lease in self.holdings.leases(incarnation) {
                if term_of(cx, lease) != LeaseTerm::Unlimited {
                    let lost = Synthetic::WorkerLost(LossProof::JobOver);
                    self.end_attempt(cx, lease, AttemptEnd::Synthetic(lost), None);
                }
            }
            // Its worker is gone, whatever of its processes may be left: nothing of a gang runs under it.
            let loss = MemberLoss::Proved(LossProof::JobOver);
            self.lose_all_memberships(cx, incarnation, loss);
            self.forget_incarnation(cx, incarnation);
        }
    }

    /// An incarnation counts in the worker set until it has certainly ended, not until it is
    /// condemned: up to then it may connect to the next scheduler.
    pub(super) fn leave_consensus(&mut self, incarnation: Incarnation) {
        if let Some(consensus) = &mut self.consensus {
            consensus.leave(incarnation);
        }
    }

    /// An operator vouches that a worker is gone: a state directory, with every known incarnation of
    /// it. A name alone stands for the worker that holds the seat, or else for one that has open
    /// leases left. Returns false if there is none.
    pub(crate) fn forget(
        &mut self,
        cx: &mut Cx<'_>,
        worker: &WorkerName,
        lineage: Option<Lineage>,
    ) -> bool {
        let Some(gone) = lineage.or_else(|| self.lineage_of(cx, worker)) else {
            return false;
        };
        for incarnation in self.holdings.incarnations(gone) {
            if let Some(name) = self.seated.get(&incarnation).cloned() {
                self.condemn_once(cx, &name, Condemnation::Forgotten);
            } else if !cx.ledger().is_condemned(incarnation) {
                let worker = self.holdings.0[&incarnation].holder.worker.clone();
                let reason = Condemnation::Forgotten;
                cx.commit(Fact::WorkerCondemned {
                    worker,
                    incarnation,
                    reason,
                });
            }
            self.lose_all(cx, incarnation, LossProof::Forgotten);
        }
        true
    }

    fn lineage_of(&self, cx: &Cx<'_>, worker: &WorkerName) -> Option<Lineage> {
        let seated = self.seats.get(worker).map(|seat| &seat.holder);
        let mut leases = cx.ledger().open_leases().map(|lease| &lease.holder);
        let holder = seated.or_else(|| leases.find(|holder| holder.worker == *worker))?;
        Some(holder.incarnation.lineage)
    }

    /// No attempt of an incarnation runs any more, by proof or by time: it no longer counts in
    /// the worker set, and is forgotten unless it holds a seat or strict leases.
    pub(super) fn forget_incarnation(&mut self, cx: &mut Cx<'_>, incarnation: Incarnation) {
        self.leave_consensus(incarnation);
        let holding = self.holdings.0.get(&incarnation);
        // A member that may come back with its gang still running stays, as one that holds strict leases.
        let is_lost = |lease: &LeaseId| {
            let open = cx.ledger().open_lease(*lease);
            open.is_none_or(|open| open.lost_member().is_some())
        };
        let empty = holding.filter(|it| it.leases.is_empty() && it.member_of.iter().all(is_lost));
        let Some(holder) = empty.map(|it| it.holder.clone()) else {
            return;
        };
        if !self.seated.contains_key(&incarnation) {
            self.holdings.0.remove(&incarnation);
            self.timers.disarm(&Timer::Holding(incarnation));
            self.forget_suspicion(cx, &holder.worker, incarnation);
        }
    }

    fn condemn_once(&mut self, cx: &mut Cx<'_>, name: &WorkerName, reason: Condemnation) {
        if self.seats[name].state != WorkerState::MustDie {
            self.condemn(cx, name, reason);
        }
    }
}
