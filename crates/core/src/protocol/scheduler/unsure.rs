//! `notifyIfTasksNotRunning`: attempts that may or may not have started.
//!
//! A launch without a reply is not a launch that failed. It stays leased, and the
//! worker is asked, with pauses that double, until it answers. The question
//! carries a number greater than that of the launches it asks about; a worker
//! that has answered it refuses every launch with a smaller number, so "was not
//! running" stays true whatever is still in flight.

use baton_model::ids::{Association, LeaseId, NotifySeq, WorkerName};
use baton_model::limits::NOTIFIES_REMEMBERED_MAX;
use baton_model::message::{ToWorker, WorkerAddress};
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

use super::context::Cx;
use super::{Protocol, address};
use crate::ledger::{Lease, Ledger};
use crate::wait::Unsure;

impl Protocol {
    /// The connection to a worker broke: no replies will arrive.
    pub(crate) fn disconnected(&mut self, cx: &mut Cx<'_>, who: &WorkerAddress) {
        let Some(name) = self.seated.get(&who.incarnation).cloned() else {
            return;
        };
        let seat = &self.seats[&name];
        if seat.holder.boot == who.boot && seat.state != WorkerState::MustDie {
            self.doubt_overdue(cx, &name, true);
            self.seat_due(cx, &name);
        }
    }

    /// The reason for which it is unknown whether a lease is running: its holder is not connected,
    /// not healthy, or was asked and has not answered.
    pub(crate) fn unsure(&self, ledger: &Ledger, lease: &Lease, now: Mono) -> Option<Unsure> {
        let holder = &lease.holder;
        let seat = self.seats.get(&holder.worker).filter(|seat| {
            let seated = seat.holder.incarnation;
            seated == holder.incarnation || seated.supersedes(holder.incarnation)
        });
        let sure = seat.is_some_and(|seat| {
            seat.state == WorkerState::Healthy && !seat.unsure.leases.contains(&lease.id)
        });
        if sure {
            return None;
        }
        let instance = ledger.instance(lease.id.attempt.instance)?;
        let holding = self.holdings.0.get(&holder.incarnation);
        let expiry = holding.and_then(|holding| holding.expiry(LeaseTerm::of(&instance.spec)));
        Some(Unsure {
            worker: holder.worker.clone(),
            health: seat.map(|seat| seat.state),
            left: expiry.map(|expiry| expiry.since(now)),
        })
    }

    /// When the first attempt of a worker is given up, if it stays silent.
    pub(crate) fn first_loss(&self, ledger: &Ledger, name: &WorkerName) -> Option<Mono> {
        let holding = self
            .holdings
            .0
            .get(&self.seats.get(name)?.holder.incarnation)?;
        let instances = holding.leases.iter();
        let instances = instances.filter_map(|lease| ledger.instance(lease.attempt.instance));
        let expiries = instances.filter_map(|it| holding.expiry(LeaseTerm::of(&it.spec)));
        expiries.min()
    }

    /// The offer of a worker has changed from outside.
    pub(crate) fn offer_changed(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        self.update_offer(cx, name);
    }

    /// Moves launches without a reply to the unsure list.
    pub(super) fn doubt_overdue(&mut self, cx: &mut Cx<'_>, name: &WorkerName, all: bool) {
        let now = cx.now.mono;
        let wait = cx.config.timeouts.reply_wait;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        let wait = if all { Millis(0) } else { wait };
        let overdue = seat.in_flight.take_overdue(now, wait);
        if overdue.is_empty() {
            return;
        }
        seeded!(cx.config.bugs, ClearedOnSendFailure => {
            return crate::bugs::protocol::clear_overdue(self, cx, overdue);
        });
        if seat.unsure.leases.is_empty() {
            seat.unsure.next_poll = now;
            seat.unsure.pause = cx.config.timeouts.unsure_poll_min;
        }
        seat.unsure.leases.extend(overdue);
    }

    /// Asks about everything unsure, if it is time to.
    pub(super) fn poll_unsure(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let now = cx.now.mono;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        if seat.unsure.leases.is_empty() || seat.unsure.next_poll > now {
            return;
        }
        seat.seq = seat.seq.next();
        let leases: Vec<LeaseId> = seat.unsure.leases.iter().copied().collect();
        seat.unsure.asked.push_back((seat.seq, leases.clone()));
        if seat.unsure.asked.len() > NOTIFIES_REMEMBERED_MAX {
            seat.unsure.asked.pop_front();
        }
        seat.unsure.next_poll = now + seat.unsure.pause;
        seat.unsure.pause = seat
            .unsure
            .pause
            .scaled(2, 1)
            .min(cx.config.timeouts.unsure_poll_max);
        let message = ToWorker::NotifyIfTasksNotRunning {
            association: seat.association(self.term),
            seq: seat.seq,
            leases,
        };
        cx.send(address(name, seat), message);
    }

    /// The worker has answered: what it holds is confirmed, and of the rest it
    /// will report by `updateStatus` that it was not running.
    pub(super) fn notify_answered(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        seq: NotifySeq,
        held: &[LeaseId],
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        let Some(seat) = self.seats.get_mut(&name) else {
            return;
        };
        let Some(at) = seat
            .unsure
            .asked
            .iter()
            .position(|(asked, _)| *asked == seq)
        else {
            cx.notice("notify-reply-late");
            return;
        };
        let answered = seat
            .unsure
            .asked
            .remove(at)
            .map(|(_, leases)| leases)
            .unwrap_or_default();
        for lease in &answered {
            seat.unsure.leases.remove(lease);
        }
        for lease in held {
            if answered.contains(lease) {
                self.confirm(cx, &name, *lease);
            }
        }
        self.rearm(cx, &name);
    }
}
