//! Upkeep of a seat: its health, health checks, and questions that are due. One timer per
//! seat, armed for the next of them.

use std::sync::Arc;

use baton_model::fact::{Condemnation, Fact};
use baton_model::ids::{Association, CheckId, LeaseId, WorkerName};
use baton_model::limits::{CANCEL_GRACE, FAULT_BYTES_MAX, GONE_WORKER_LEASES, HOST_FAULTS_MAX};
use baton_model::message::ToWorker;
use baton_model::outcome::KillMode;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono};

use super::context::Cx;
use super::{Protocol, Timer, address};
use crate::config::StoreMode;
use crate::fsm::WorkerEvent;

impl Protocol {
    /// Does what is due for a seat and arms its timer for the next.
    pub(super) fn seat_due(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        if !self.seats.contains_key(name) {
            return;
        }
        self.update_health(cx, name);
        if self.vacate_if_gone(cx, name) {
            return;
        }
        if self.seats[name].state != WorkerState::MustDie {
            self.ask_running_tasks(cx, name);
            self.check_health(cx, name);
            self.doubt_overdue(cx, name, false);
            self.poll_unsure(cx, name);
        }
        self.rearm(cx, name);
    }

    /// Empties the seat of a condemned worker that has long been silent and holds nothing, or the
    /// names of all workers that ever were would be listed. True if it did.
    fn vacate_if_gone(&mut self, cx: &mut Cx<'_>, name: &WorkerName) -> bool {
        let seat = &self.seats[name];
        let gone = seat.state == WorkerState::MustDie
            && cx.now.mono >= seat.last_heartbeat + gone_after(cx)
            && self.holdings.leases(seat.holder.incarnation).is_empty();
        if gone {
            self.vacate(cx, name);
        }
        gone
    }

    /// Brings a seat's health up to date with the time.
    pub(super) fn update_health(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let now = cx.now.mono;
        let timeouts = cx.config.timeouts;
        let prompt = self.seats[name].is_prompt(now, &timeouts);
        let permitted = self.may_become_healthy(cx, name);
        let is_lost = self.is_lost(cx, name);
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        match seat.state {
            WorkerState::Unhealthy if prompt && permitted && seat.fault.is_none() => {
                seat.step(cx, WorkerEvent::Proved);
                seat.has_been_healthy = true;
            }
            WorkerState::Healthy if seat.fault.is_some() => {
                seat.step(cx, WorkerEvent::Faulted);
                seat.became_unhealthy = now;
            }
            WorkerState::Healthy if !prompt => {
                seat.step(cx, WorkerEvent::WentQuiet);
                seat.became_unhealthy = now;
            }
            WorkerState::New | WorkerState::Unhealthy => {
                if prompt && seat.state == WorkerState::Unhealthy {
                    // The worker is fine, and the other members must learn of it first; or it
                    // cannot launch anything, which is no reason to end what it runs.
                    seat.became_unhealthy = now;
                }
                if is_lost {
                    self.condemn(cx, name, Condemnation::Unhealthy);
                }
            }
            WorkerState::Healthy | WorkerState::MustDie => {}
        }
        self.update_offer(cx, name);
    }

    /// True if a worker is given up. One that holds leases may come back with its work, and one that
    /// sends heartbeats with its health; without a store only time tells which incarnations are over.
    fn is_lost(&self, cx: &Cx<'_>, name: &WorkerName) -> bool {
        let (seat, timeouts) = (&self.seats[name], &cx.config.timeouts);
        let is_late = cx.now.mono.since(seat.became_unhealthy) > timeouts.lose_after;
        let is_heard = seat.state == WorkerState::Unhealthy
            && cx.now.mono.since(seat.last_heartbeat) <= timeouts.heartbeat_gap;
        let is_kept = is_heard || seat.load > 0;
        is_late && (cx.config.store == StoreMode::Memory || !is_kept)
    }

    /// With a store, or once healthy, always true. Without a store, the earlier members
    /// must know of it first, or a later scheduler could conclude that all workers have
    /// connected while this one is still running attempts.
    fn may_become_healthy(&self, cx: &Cx<'_>, name: &WorkerName) -> bool {
        let seat = &self.seats[name];
        let Some(consensus) = &self.consensus else {
            return true;
        };
        if seat.has_been_healthy {
            return true;
        }
        consensus.permits(seat.holder.incarnation, |other| {
            !seeded!(cx.config.bugs, ConsensusIgnoresUnhealthy)
                || self.state_of(other) == Some(WorkerState::Healthy)
        })
    }

    fn state_of(&self, who: baton_model::ids::Incarnation) -> Option<WorkerState> {
        self.seated.get(&who).map(|name| self.seats[name].state)
    }

    /// Sends `getRunningTasks`, unless the holder has answered it or was asked just now.
    pub(super) fn ask_running_tasks(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let now = cx.now.mono;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        if seat.listed || seat.next_ask > now {
            return;
        }
        seat.next_ask = now + cx.config.timeouts.reply_wait;
        seat.asked_at = Some(now);
        let association = seat.association(self.term);
        cx.send(
            address(name, seat),
            ToWorker::GetRunningTasks { association },
        );
    }

    pub(super) fn check_health(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let now = cx.now.mono;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        if seat.next_check > now {
            return;
        }
        self.last_check = self.last_check.next();
        seat.check_sent(self.last_check, now);
        seat.next_check = now + check_pause(seat.state, cx);
        let message = ToWorker::CheckHealth {
            association: seat.association(self.term),
            check: self.last_check,
        };
        cx.send(address(name, seat), message);
    }

    pub(super) fn health_report(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        check: CheckId,
        ok: bool,
    ) {
        let Some((name, sent)) = self.take_check(cx, association, check) else {
            return;
        };
        if ok && let Some(seat) = self.seats.get_mut(&name) {
            seat.check_ok = seat.check_ok.max(Some(sent));
            seat.check_answered = seat.check_answered.max(Some(sent));
            if !seeded!(cx.config.bugs, FaultKept) {
                self.set_fault(cx, &name, None);
            }
            self.close_earlier_boots(cx, &name);
        }
        self.seat_due(cx, &name);
    }

    /// The worker has answered a check, and cannot launch anything.
    pub(super) fn health_fault(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        check: CheckId,
        reason: &Arc<str>,
    ) {
        let Some((name, sent)) = self.take_check(cx, association, check) else {
            return;
        };
        if let Some(seat) = self.seats.get_mut(&name) {
            seat.check_answered = seat.check_answered.max(Some(sent));
            self.set_fault(cx, &name, Some(reason));
        }
        self.seat_due(cx, &name);
    }

    /// The seat of an open check, which is answered now, and when it was sent.
    fn take_check(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        check: CheckId,
    ) -> Option<(WorkerName, Mono)> {
        let name = self.hear(cx, association)?;
        let seat = self.seats.get_mut(&name)?;
        let mut open = seat.checks_open.iter();
        let Some(at) = open.position(|(open, _)| *open == check) else {
            cx.notice("health-report-late");
            return None;
        };
        let (_, sent) = seat.checks_open.remove(at)?;
        Some((name, sent))
    }

    /// A fault of the host has prevented a launch. It gets no more until its next heartbeat, and is
    /// checked at once; after several in a row it gets none until a check passes.
    pub(super) fn launch_faulted(&mut self, cx: &mut Cx<'_>, name: &WorkerName, reason: &Arc<str>) {
        let now = cx.now.mono;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        seat.held_back = true;
        seat.launch_faults = seat.launch_faults.saturating_add(1);
        seat.check_soon(now, cx.config.timeouts.reply_wait);
        if seat.launch_faults >= HOST_FAULTS_MAX {
            self.set_fault(cx, name, Some(reason));
        }
        self.update_health(cx, name);
    }

    /// Records that a worker cannot launch anything, or can again.
    fn set_fault(&mut self, cx: &mut Cx<'_>, name: &WorkerName, fault: Option<&Arc<str>>) {
        if seeded!(cx.config.bugs, FaultIgnored) {
            return;
        }
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        let fault = fault.map(cut_fault);
        if seat.fault.is_some() != fault.is_some() {
            seat.launch_faults = 0;
            cx.commit(Fact::WorkerFaulted {
                worker: name.clone(),
                incarnation: seat.holder.incarnation,
                fault: fault.clone(),
            });
        }
        seat.fault = fault;
    }

    /// Sends a kill, if the worker is connected; otherwise it is sent as soon as the
    /// worker reports its attempts.
    pub(crate) fn kill(&mut self, cx: &mut Cx<'_>, lease: LeaseId) {
        let Some(open) = cx.ledger().open_lease(lease) else {
            return;
        };
        let mode = open.kill.unwrap_or_default();
        let range = super::holdings::incarnations_of(open.holder.incarnation.lineage);
        let Some((_, name)) = self.seated.range(range).next() else {
            return;
        };
        let name = name.clone();
        if let Some(seat) = self.seats.get_mut(&name) {
            seat.kills.insert(lease, mode);
        }
        self.send_kills(cx, &name, &[(lease, mode)]);
    }

    /// A kill that arrives before its launch, or not at all, must not be lost: it
    /// is repeated with every heartbeat until the attempt has ended.
    pub(super) fn repeat_kills(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let kills = self.seats[name].kills.iter();
        let wanted: Vec<_> = kills.map(|(lease, mode)| (*lease, *mode)).collect();
        self.send_kills(cx, name, &wanted);
    }

    fn send_kills(&mut self, cx: &mut Cx<'_>, name: &WorkerName, kills: &[(LeaseId, KillMode)]) {
        let seat = &self.seats[name];
        for (lease, mode) in kills {
            let message = ToWorker::KillTask {
                association: seat.association(self.term),
                lease: *lease,
                grace: match mode {
                    KillMode::Graceful => CANCEL_GRACE,
                    KillMode::Now => Millis(0),
                },
            };
            cx.send(address(name, seat), message);
        }
    }

    /// Arms a seat's timer for whatever comes next.
    pub(super) fn rearm(&mut self, cx: &Cx<'_>, name: &WorkerName) {
        let timeouts = &cx.config.timeouts;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        let just_after = Millis(1);
        let mut due: Vec<Mono> = Vec::with_capacity(6);
        match seat.state {
            WorkerState::MustDie => {
                let gone = seat.last_heartbeat + gone_after(cx);
                let holds_leases = gone <= cx.now.mono;
                due.push(if holds_leases {
                    cx.now.mono + timeouts.lease()
                } else {
                    gone
                });
            }
            WorkerState::Healthy => {
                due.push(seat.last_heartbeat + timeouts.heartbeat_gap + just_after);
                due.extend(
                    seat.check_answered
                        .map(|sent| sent + timeouts.check_gap + just_after),
                );
            }
            WorkerState::New | WorkerState::Unhealthy => {
                let lost = seat.became_unhealthy + timeouts.lose_after + just_after;
                // One that is kept nevertheless is looked at again after another lease.
                due.push(if lost > cx.now.mono {
                    lost
                } else {
                    cx.now.mono + timeouts.lease()
                });
            }
        }
        if seat.state != WorkerState::MustDie {
            due.push(seat.next_check);
            if !seat.unsure.leases.is_empty() {
                due.push(seat.unsure.next_poll);
            }
            due.extend(
                seat.in_flight
                    .oldest()
                    .map(|sent| sent + timeouts.reply_wait),
            );
            if !seat.listed {
                due.push(seat.next_ask);
            }
            let trial = self.suspicions.next_trial(seat.holder.incarnation);
            due.extend(trial.filter(|at| *at > cx.now.mono));
        }
        match due.into_iter().min() {
            Some(at) => self.timers.arm(Timer::Seat(name.clone()), at),
            None => self.timers.disarm(&Timer::Seat(name.clone())),
        }
    }
}

/// How long a condemned worker is listed after its last heartbeat: operators want to see which one was lost.
fn gone_after(cx: &Cx<'_>) -> Millis {
    cx.config.timeouts.lease().scaled(GONE_WORKER_LEASES, 1)
}

/// The reason of a fault as it is kept. No worker of ours sends more than the limit; another must not
/// make the store grow without bounds.
fn cut_fault(reason: &Arc<str>) -> Arc<str> {
    if reason.len() <= FAULT_BYTES_MAX {
        return Arc::clone(reason);
    }
    reason[..reason.floor_char_boundary(FAULT_BYTES_MAX)].into()
}

/// Healthy workers are checked now and then; the others as often as it helps.
const fn check_pause(state: WorkerState, cx: &Cx<'_>) -> Millis {
    match state {
        WorkerState::Healthy => cx.config.timeouts.check_period,
        _ => cx.config.timeouts.reply_wait,
    }
}
