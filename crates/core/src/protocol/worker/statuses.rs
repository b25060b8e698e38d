//! `updateStatus`: reports of ends, repeated until they are acknowledged.
//!
//! An end stays on the worker, and on the coordinator's record, until a leader
//! has acknowledged that it is durable; it survives a change of scheduler, a restart of
//! the agent, and the end of this incarnation.

use baton_model::ids::LeaseId;
use baton_model::message::{Status, ToScheduler, update_status};
use baton_model::outcome::Report;
use baton_model::state::WorkerState;
use baton_model::time::Mono;

use super::Worker;
use super::io::Effect;
use super::table::Phase;

impl Worker {
    /// The coordinator has recorded an end.
    pub(super) fn ended(
        &mut self,
        now: Mono,
        lease: LeaseId,
        report: Report,
        out: &mut Vec<Effect>,
    ) {
        let Some(entry) = self.attempts.get(lease) else {
            self.counts.notice("end-of-unknown");
            out.push(Effect::Forget(lease));
            return;
        };
        if let Phase::Ended(_) = entry.phase {
            self.counts.notice("end-repeated");
            return;
        }
        self.attempts.set_phase(lease, Phase::Ended(report.clone()));
        self.send_first_status(now, lease, Status::Ended(report), out);
        if seeded!(self.bugs, StatusForgottenEarly) {
            self.acknowledged(&[lease], out);
        }
    }

    /// Sends a status at once: the first report need not wait for the interval of the repeats. It begins
    /// that interval only if nothing else waits: a steady flow of ends would put the repeats of
    /// earlier ones off for ever.
    pub(super) fn send_first_status(
        &mut self,
        now: Mono,
        lease: LeaseId,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        if let Some(association) = self.association
            && self.state != WorkerState::New
        {
            let statuses = vec![(lease, status)];
            out.push(Effect::Send(ToScheduler::UpdateStatus {
                association,
                statuses,
            }));
            if self.unacknowledged() == 1 {
                self.next_status = self.next_status.max(now + self.timeouts.status_retry);
            }
        }
    }

    /// How many ends the scheduler has not acknowledged.
    fn unacknowledged(&self) -> usize {
        self.not_running.len() + self.attempts.ended()
    }

    pub(super) fn has_unsent_statuses(&self) -> bool {
        self.association.is_some() && self.unacknowledged() > 0
    }

    /// Repeats everything that was not acknowledged, if it is time to.
    pub(super) fn send_statuses(&mut self, now: Mono, out: &mut Vec<Effect>) {
        if now < self.next_status || !self.has_unsent_statuses() {
            return;
        }
        let Some(association) = self.association else {
            return;
        };
        self.next_status = now + self.timeouts.status_retry;
        let ended = self
            .attempts
            .iter()
            .filter_map(|(lease, entry)| match &entry.phase {
                Phase::Ended(report) => Some((lease, Status::Ended(report.clone()))),
                Phase::Launching | Phase::Running => None,
            });
        let absent = self.not_running.iter().map(|(lease, fault)| {
            let fault = fault.clone().map(Status::HostFault);
            (*lease, fault.unwrap_or(Status::WasNotRunning))
        });
        let statuses = ended.chain(absent).collect();
        out.extend(update_status(association, statuses).map(Effect::Send));
    }

    /// These are durable at the scheduler: they are not repeated any more.
    pub(super) fn acknowledged(&mut self, leases: &[LeaseId], out: &mut Vec<Effect>) {
        for lease in leases {
            self.not_running.remove(lease);
            let ended = self
                .attempts
                .get(*lease)
                .is_some_and(|entry| matches!(entry.phase, Phase::Ended(_)));
            if ended && let Some(entry) = self.attempts.remove(*lease) {
                self.bury(*lease, entry.stamp);
                out.push(Effect::Forget(*lease));
            }
        }
    }
}
