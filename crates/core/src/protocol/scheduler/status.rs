//! `updateStatus`: the ends of attempts, and the only place where a lease is closed.

use std::sync::Arc;

use baton_model::ids::{Association, LeaseId, Lineage, WorkerName};
use baton_model::message::{Status, ToWorker};
use baton_model::outcome::{AttemptEnd, Outcome, Report, Synthetic};
use baton_model::progress::Progress;

use super::context::Cx;
use super::reconcile::not_running;
use super::{Protocol, address};
use crate::triage::{self, Charge};

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
        if !self.seats[&name].listed && !seeded!(cx.config.bugs, StatusTakenWhileNew) {
            // It would race with the list of running tasks; the worker repeats it.
            cx.notice("status-before-running-tasks");
            return;
        }
        let mut settled = Vec::with_capacity(statuses.len());
        for (lease, status) in statuses {
            if self.is_premature(cx, &name, *lease, status.outcome()) {
                continue;
            }
            self.status(cx, &name, *lease, status);
            settled.push(*lease);
        }
        self.acknowledge(cx, &name, settled);
        // Only the check that a failure asks for: whether the worker is late is judged when all
        // messages are read.
        if statuses.iter().any(|(_, status)| suggests_fault(status)) {
            self.check_health(cx, &name);
        }
        self.rearm(cx, &name);
    }

    fn status(&mut self, cx: &mut Cx<'_>, name: &WorkerName, lease: LeaseId, status: &Status) {
        if let Some(seat) = self.seats.get_mut(name) {
            seat.settle(lease);
            seat.kills.remove(&lease);
        }
        if !self.answers_for(cx, name, lease) {
            cx.notice("status-after-lease");
            return;
        }
        match status {
            Status::Ended(report) => {
                if let Some(seat) = self.seats.get_mut(name) {
                    // Its place is free now.
                    seat.held_back = false;
                    if suggests_fault(status) {
                        seat.check_soon(cx.now.mono, cx.config.timeouts.reply_wait);
                    }
                }
                self.end_attempt(cx, lease, AttemptEnd::Real(report.outcome), Some(report));
            }
            Status::WasNotRunning => {
                let open = cx.ledger().open_lease(lease);
                let end = match not_running(cx, lease) {
                    Synthetic::WasNotRunning if open.is_some_and(|open| !open.confirmed) => {
                        Synthetic::NeverStarted
                    }
                    other => other,
                };
                let end = AttemptEnd::Synthetic(end);
                self.end_attempt(cx, lease, end, None);
            }
            Status::HostFault(reason) => {
                self.launch_faulted(cx, name, reason);
                let end = AttemptEnd::Synthetic(Synthetic::HostFault);
                let report = Report {
                    stderr_tail: Some(Arc::clone(reason)),
                    ..Outcome::LaunchFailed.into()
                };
                self.end_attempt(cx, lease, end, Some(&report));
            }
        }
    }

    /// True if a lease is open and the holder of this seat may report on it: it was
    /// granted to it, or to an earlier incarnation of the same state directory.
    pub(super) fn answers_for(&self, cx: &Cx<'_>, name: &WorkerName, lease: LeaseId) -> bool {
        let reporter = self.seats[name].holder.incarnation;
        seeded!(cx.config.bugs, StatusEpochUnchecked => {
            return crate::bugs::protocol::lease_of_any_epoch(cx, lease).is_some();
        });
        cx.ledger().open_lease(lease).is_some_and(|open| {
            let granted_to = open.holder.incarnation;
            granted_to == reporter || reporter.supersedes(granted_to)
        })
    }

    fn acknowledge(&mut self, cx: &mut Cx<'_>, name: &WorkerName, leases: Vec<LeaseId>) {
        if leases.is_empty() {
            return;
        }
        let seat = &self.seats[name];
        let message = ToWorker::StatusAck {
            association: seat.association(self.term),
            leases,
        };
        seeded!(cx.config.bugs, AckBeforeDurable => {
            return cx.leader.leak(address(name, seat), message);
        });
        cx.leader.send(address(name, seat), message);
    }

    /// Closes an open lease with the end of its attempt. A closed lease stays closed: neither a
    /// conclusion nor a late result can change it. An observed end comes with its report.
    pub(crate) fn end_attempt(
        &mut self,
        cx: &mut Cx<'_>,
        lease: LeaseId,
        end: AttemptEnd,
        report: Option<&Report>,
    ) {
        seeded! { let lease = crate::bugs::protocol::replace_lease(cx, lease); }
        let Some(open) = cx.ledger().open_lease(lease) else {
            cx.notice("end-after-lease");
            return;
        };
        let granted_to = open.holder.incarnation;
        let others = open.others().to_vec();
        let end = self.blame_members(cx, lease, &others, end);
        let name = self.seat_of(granted_to.lineage);
        let judged = name.map(|name| {
            let judgement = self.judge_end(cx, &name, lease, end);
            (name, judgement)
        });
        let progress = self.last_progress(granted_to.lineage, lease, report);
        cx.leader.close(lease, end, report, progress);
        self.holdings.close(granted_to, lease);
        if let Some((name, judgement)) = judged {
            if let Some(judgement) = judgement {
                self.pronounce(cx, &name, judgement);
            }
            self.settle_there(cx, &name, lease);
        }
        self.free_held(cx, &others, lease);
    }

    /// How far an attempt has come that has ended: by its report, or as it has last said itself.
    fn last_progress(
        &self,
        lineage: Lineage,
        lease: LeaseId,
        report: Option<&Report>,
    ) -> Option<Progress> {
        let reported = report.and_then(|report| report.progress.clone());
        let reported = reported.filter(Progress::is_valid);
        reported.or_else(|| {
            let seat = self.seats.get(&self.seat_of(lineage)?)?;
            seat.progress.get(&lease).cloned()
        })
    }

    /// The seat of an incarnation of a state directory.
    fn seat_of(&self, lineage: Lineage) -> Option<WorkerName> {
        let range = super::holdings::incarnations_of(lineage);
        let (_, name) = self.seated.range(range).next()?;
        Some(name.clone())
    }

    /// Closes every open call about a closed lease, and frees its slot.
    fn settle_there(&mut self, cx: &mut Cx<'_>, name: &WorkerName, lease: LeaseId) {
        if let Some(seat) = self.seats.get_mut(name)
            && !seeded!(cx.config.bugs, UnsureKeptOnLoss)
        {
            seat.settle(lease);
            seat.kills.remove(&lease);
            seat.devices.remove(&lease);
            seat.progress.remove(&lease);
        }
        self.recount(cx, name);
    }
}

/// True if its host may be the cause: a full disk lets what writes there fail.
fn suggests_fault(status: &Status) -> bool {
    match status {
        Status::Ended(report) => {
            triage::charge(AttemptEnd::Real(report.outcome)) == Charge::Failure
        }
        Status::WasNotRunning => false,
        Status::HostFault(_) => true,
    }
}
