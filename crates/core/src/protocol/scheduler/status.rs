//! `updateStatus`: the ends of attempts, and the only place where a lease is closed.

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Association, LeaseId, WorkerName};
use baton_model::limits::OUTPUTS_BYTES_MAX;
use baton_model::message::{Status, ToWorker};
use baton_model::outcome::{AttemptEnd, Outcome, Report, Synthetic};

use super::context::Cx;
use super::{Protocol, address};
use crate::bugs::Bug;

impl Protocol {
    /// Applies the statuses and acknowledges them, once they are durable. A
    /// status about a lease that is closed is acknowledged too: the worker cannot
    /// forget the attempt otherwise.
    pub(super) fn statuses(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        statuses: &[(LeaseId, Status)],
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        if !self.seats[&name].listed && !cx.config.bugs.has(Bug::StatusTakenWhileNew) {
            // It would race with the list of running tasks; the worker repeats it.
            cx.counts.notice("status-before-running-tasks");
            return;
        }
        for (lease, status) in statuses {
            self.status(cx, &name, *lease, status);
        }
        self.acknowledge(cx, &name, statuses);
        self.rearm(cx, &name);
    }

    fn status(&mut self, cx: &mut Cx<'_>, name: &WorkerName, lease: LeaseId, status: &Status) {
        if let Some(seat) = self.seats.get_mut(name) {
            seat.settle(lease);
            seat.kills.remove(&lease);
        }
        if !self.answers_for(cx, name, lease) {
            cx.counts.notice("status-after-lease");
            return;
        }
        match status {
            Status::Ended(report) => {
                self.end_attempt(cx, lease, AttemptEnd::Real(report.outcome), Some(report));
            }
            Status::WasNotRunning => {
                let end = AttemptEnd::Synthetic(Synthetic::WasNotRunning);
                self.end_attempt(cx, lease, end, None);
            }
        }
    }

    /// True if a lease is open and the holder of this seat may report on it: it was
    /// granted to it, or to an earlier incarnation of the same state directory.
    pub(super) fn answers_for(&self, cx: &Cx<'_>, name: &WorkerName, lease: LeaseId) -> bool {
        let reporter = self.seats[name].holder.incarnation;
        #[cfg(feature = "seeded-bugs")]
        if cx.config.bugs.has(Bug::StatusEpochUnchecked) {
            return crate::bugs::protocol::lease_of_any_epoch(cx, lease).is_some();
        }
        cx.ledger.open_lease(lease).is_some_and(|open| {
            let granted_to = open.holder.incarnation;
            granted_to == reporter || reporter.supersedes(granted_to)
        })
    }

    fn acknowledge(&mut self, cx: &mut Cx<'_>, name: &WorkerName, statuses: &[(LeaseId, Status)]) {
        let seat = &self.seats[name];
        let message = ToWorker::StatusAck {
            association: seat.association(self.epoch),
            leases: statuses.iter().map(|(lease, _)| *lease).collect(),
        };
        cx.send_durably(address(name, seat), message, Bug::AckBeforeDurable);
    }

    /// Closes an open lease with the end of its attempt, and lets triage decide.
    /// A closed lease stays closed: neither a conclusion nor a late result can
    /// change it. An observed end comes with its report.
    pub(crate) fn end_attempt(
        &mut self,
        cx: &mut Cx<'_>,
        lease: LeaseId,
        end: AttemptEnd,
        report: Option<&Report>,
    ) {
        #[cfg(feature = "seeded-bugs")]
        let lease = crate::bugs::protocol::replace_lease(cx, lease);
        let Some(open) = cx.ledger.open_lease(lease) else {
            cx.counts.notice("end-after-lease");
            return;
        };
        let (granted_to, worker) = (open.holder.incarnation, open.holder.worker.clone());
        let id = lease.attempt.instance;
        let Some(instance) = cx.ledger.instance(id) else {
            return;
        };
        let verdict = instance.verdict(end);
        let origin = instance.spec.origin.filter(|_| verdict == Verdict::Done);
        cx.done.extend(origin.map(|origin| (id, origin)));
        let next = match verdict {
            Verdict::Requeued => instance.next_attempt(cx.now.wall, end).map(Box::new),
            Verdict::Done | Verdict::GaveUp | Verdict::Stopped => None,
        };
        let stats = report.and_then(|report| report.stats);
        let outputs = match verdict {
            Verdict::Done => report.and_then(|report| report.outputs.clone()),
            Verdict::Requeued | Verdict::GaveUp | Verdict::Stopped => None,
        };
        // No worker of ours sends more; another must not make the store grow without bounds.
        let outputs = outputs.filter(|it| it.len() <= OUTPUTS_BYTES_MAX);
        cx.commit(Fact::AttemptEnded {
            lease,
            end,
            verdict,
            stats,
            next,
            outputs,
        });
        // Only an attempt that ended by itself gives an estimate of the run time.
        let took = match end {
            AttemptEnd::Real(Outcome::Exited(_) | Outcome::BadOutput) => {
                stats.map(|stats| stats.elapsed)
            }
            _ => None,
        };
        cx.bullpen.released(&worker, id, took);
        match (verdict, cx.ledger.instance(id)) {
            (Verdict::Requeued, Some(instance)) => cx.bullpen.requeue(instance, cx.now),
            _ => cx.ledger.drop_ended(id),
        }
        self.holdings.close(granted_to, lease);
        self.settle_everywhere(cx, granted_to.lineage, lease);
    }

    /// Closes every open call about a closed lease, and frees its slot.
    fn settle_everywhere(
        &mut self,
        cx: &mut Cx<'_>,
        lineage: baton_model::ids::Lineage,
        lease: LeaseId,
    ) {
        let range = super::holdings::incarnations_of(lineage);
        let Some((_, name)) = self.seated.range(range).next() else {
            return;
        };
        let name = name.clone();
        if let Some(seat) = self.seats.get_mut(&name)
            && !cx.config.bugs.has(Bug::UnsureKeptOnLoss)
        {
            seat.settle(lease);
            seat.kills.remove(&lease);
        }
        self.recount(cx, &name);
    }
}
