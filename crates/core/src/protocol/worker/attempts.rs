//! The calls about attempts.
//!
//! A launch is accepted only after these questions, in this order: is it from the
//! current association (asked before it gets here), are we HEALTHY in our own
//! eyes, was it sent after the last question we answered, does it answer a fresh
//! heartbeat of ours, and is it neither known nor over. A refusal is a promise: a
//! refused lease is never started later, whatever copy of the call still arrives.

use std::sync::Arc;

use baton_model::ids::{CheckId, LeaseId, NotifySeq};
use baton_model::limits::TOMBSTONES_MAX;
use baton_model::message::{
    HeldAttempt, Launch, LaunchRefusal, LaunchVerdict, Status, ToScheduler,
};
use baton_model::outcome::Outcome;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::timeouts::LeaseTerm;

use super::Worker;
use super::io::Effect;
use super::table::{Entry, Phase};

impl Worker {
    /// The request for the secrets of an attempt; none without a scheduler.
    pub(crate) fn get_secrets(&self, lease: LeaseId) -> Option<ToScheduler> {
        let association = self.association?;
        Some(ToScheduler::GetSecrets { association, lease })
    }

    pub(super) fn run_tasks(
        &mut self,
        now: Mono,
        seq: NotifySeq,
        stamp: Stamp,
        launches: Vec<Launch>,
        out: &mut Vec<Effect>,
    ) {
        let mut verdicts = Vec::new();
        for launch in launches {
            if let Some(entry) = self.attempts.get(launch.lease) {
                // A copy of a call that was accepted; the reply may have been lost.
                if entry.phase != Phase::Launching {
                    verdicts.push((launch.lease, LaunchVerdict::Accepted));
                }
                continue;
            }
            match self.refusal(now, seq, stamp, &launch) {
                Some(refusal) => {
                    self.bury(launch.lease, stamp);
                    verdicts.push((launch.lease, LaunchVerdict::Refused(refusal)));
                }
                None => self.launch(launch, stamp, out),
            }
        }
        self.send_verdicts(verdicts, out);
    }

    fn refusal(
        &self,
        now: Mono,
        seq: NotifySeq,
        stamp: Stamp,
        launch: &Launch,
    ) -> Option<LaunchRefusal> {
        let lease = launch.lease;
        if self.state != WorkerState::Healthy {
            return Some(LaunchRefusal::NotHealthy);
        }
        if seq < self.seq && !seeded!(self.bugs, SequenceUnchecked) {
            return Some(LaunchRefusal::StaleSequence);
        }
        let order = self.guard_order(stamp);
        let own = order.deadline_of(LeaseTerm::of(&launch.spec));
        let is_stale = now >= order.deadline || own.is_some_and(|own| now >= own);
        if is_stale && !seeded!(self.bugs, StampIgnored) {
            return Some(LaunchRefusal::StaleStamp);
        }
        if self.tombstones.contains(lease) {
            return Some(LaunchRefusal::AlreadyOver);
        }
        if self.attempts.instance_lives(lease.attempt.instance) {
            return Some(LaunchRefusal::InstanceRuns);
        }
        if self.is_leaving() {
            return Some(LaunchRefusal::Leaving);
        }
        let needed = launch.time_needed();
        if self.time_left(now).is_some_and(|left| needed > Some(left))
            && !seeded!(self.bugs, LifetimeIgnored)
        {
            return Some(LaunchRefusal::TooLong);
        }
        let full =
            self.attempts.alive() >= self.slots as usize || self.tombstones.len() >= TOMBSTONES_MAX;
        full.then_some(LaunchRefusal::Full)
    }

    fn launch(&mut self, launch: Launch, stamp: Stamp, out: &mut Vec<Effect>) {
        let entry = Entry {
            spec: launch.spec.clone(),
            phase: Phase::Launching,
            devices: Vec::new(),
            progress: None,
            stamp,
        };
        self.attempts.insert(launch.lease, entry);
        out.push(Effect::Launch(launch));
    }

    /// It has started, and the coordinator has it on record: now the scheduler may know.
    pub(super) fn launched(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        let Some(entry) = self.attempts.get(lease) else {
            // No request of this agent is known: it must not run unaccounted.
            self.counts.notice("launch-of-unknown");
            out.push(Effect::Kill(lease, Millis(0)));
            return;
        };
        if entry.phase == Phase::Launching {
            self.attempts.set_phase(lease, Phase::Running);
        }
        self.send_verdicts(vec![(lease, LaunchVerdict::Accepted)], out);
        let entry = self.attempts.get(lease);
        self.send_devices(entry.map(|entry| (lease, entry)).into_iter(), out);
    }

    /// The coordinator will not start it. An earlier reply may have reported
    /// to the scheduler that we hold the attempt; a reply alone, which can
    /// get lost, would leave it believing that for ever.
    pub(super) fn launch_refused(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        let Some(entry) = self.attempts.remove(lease) else {
            return;
        };
        self.bury(lease, entry.stamp);
        self.not_running.insert(lease, None);
        let refused = LaunchVerdict::Refused(LaunchRefusal::GuardFired);
        self.send_verdicts(vec![(lease, refused)], out);
    }

    /// An attempt that had waited for room was not started, and never will be. That is no refusal,
    /// which would stop further launches: by now there may be room.
    pub(super) fn withdrawn(&mut self, now: Mono, lease: LeaseId, out: &mut Vec<Effect>) {
        let Some(entry) = self.attempts.remove(lease) else {
            return;
        };
        self.bury(lease, entry.stamp);
        self.not_running.insert(lease, None);
        self.send_first_status(now, lease, Status::WasNotRunning, out);
    }

    /// A fault of the host has prevented the start of an attempt: it is given back.
    pub(super) fn host_fault(
        &mut self,
        now: Mono,
        lease: LeaseId,
        reason: Arc<str>,
        out: &mut Vec<Effect>,
    ) {
        if seeded!(self.bugs, HostFaultCharged) {
            return self.ended(now, lease, Outcome::LaunchFailed.into(), out);
        }
        let Some(entry) = self.attempts.remove(lease) else {
            return;
        };
        self.bury(lease, entry.stamp);
        self.not_running.insert(lease, Some(Arc::clone(&reason)));
        self.send_first_status(now, lease, Status::HostFault(reason), out);
    }

    /// Says of each whether we hold it, and promises never to start the others.
    pub(super) fn notify(
        &mut self,
        now: Mono,
        seq: NotifySeq,
        leases: &[LeaseId],
        out: &mut Vec<Effect>,
    ) {
        let Some(association) = self.association else {
            return;
        };
        if seq <= self.seq && !seeded!(self.bugs, SequenceNotReset) {
            self.counts.notice("notify-overtaken");
            return;
        }
        self.seq = self.seq.max(seq);
        let mut held = Vec::new();
        for lease in leases {
            match self.attempts.get(*lease) {
                Some(Entry {
                    phase: Phase::Ended(_),
                    ..
                }) if seeded!(self.bugs, SyntheticBeatsReal) => {
                    self.attempts.remove(*lease);
                    self.not_running.entry(*lease).or_default();
                }
                Some(_) => held.push(*lease),
                None => {
                    self.not_running.entry(*lease).or_default();
                }
            }
        }
        self.next_status = now;
        out.push(Effect::Send(ToScheduler::NotifyReply {
            association,
            seq,
            held,
        }));
    }

    /// Lists everything we hold, ended and unacknowledged attempts included: what
    /// is not in the list is certainly not here. The end of an attempt with outputs
    /// or lines of standard error is left to its status.
    pub(super) fn report_running(&mut self, now: Mono, out: &mut Vec<Effect>) {
        let Some(association) = self.association else {
            return;
        };
        let held = self
            .attempts
            .iter()
            .map(|(lease, entry)| HeldAttempt {
                lease,
                spec: entry.spec.clone(),
                ended: match &entry.phase {
                    Phase::Ended(report) if report.text_bytes() == 0 => Some(report.clone()),
                    Phase::Ended(_) | Phase::Launching | Phase::Running => None,
                },
            })
            .collect();
        out.push(Effect::Send(ToScheduler::RunningTasks {
            association,
            held,
        }));
        self.send_devices(self.attempts.iter(), out);
        self.hurry(now);
    }

    pub(super) fn kill(&mut self, lease: LeaseId, grace: Millis, out: &mut Vec<Effect>) {
        match self.attempts.get(lease) {
            Some(entry) if entry.phase.is_alive() => out.push(Effect::Kill(lease, grace)),
            _ => self.counts.notice("kill-of-unknown"),
        }
    }

    pub(super) fn check_done(
        &mut self,
        now: Mono,
        check: CheckId,
        result: Result<(), Arc<str>>,
        out: &mut Vec<Effect>,
    ) {
        let Some(association) = self.association else {
            return;
        };
        self.last_checked = Some(now);
        out.push(Effect::Send(match result {
            Ok(()) => ToScheduler::HealthReport {
                association,
                check,
                ok: true,
            },
            Err(reason) => ToScheduler::HealthFault {
                association,
                check,
                reason,
            },
        }));
        self.hurry(now);
    }

    /// Remembers for as long as a copy of its launch can be fresh that a lease
    /// must not be started.
    pub(super) fn bury(&mut self, lease: LeaseId, stamp: Stamp) {
        if !seeded!(self.bugs, RefusalForgotten) {
            self.tombstones.add(lease, stamp);
        }
    }

    fn send_verdicts(&self, verdicts: Vec<(LeaseId, LaunchVerdict)>, out: &mut Vec<Effect>) {
        if let Some(association) = self.association
            && !verdicts.is_empty()
        {
            out.push(Effect::Send(ToScheduler::RunTaskReply {
                association,
                verdicts,
            }));
        }
    }

    /// Tells which devices these attempts hold, if any does.
    fn send_devices<'a>(
        &self,
        attempts: impl Iterator<Item = (LeaseId, &'a Entry)>,
        out: &mut Vec<Effect>,
    ) {
        let holders = attempts.filter(|(_, it)| it.phase.is_alive() && !it.devices.is_empty());
        let held: Vec<_> = holders
            .map(|(lease, it)| (lease, it.devices.clone()))
            .collect();
        if let Some(association) = self.association
            && !held.is_empty()
        {
            let message = ToScheduler::HeldDevices { association, held };
            out.push(Effect::Send(message));
        }
    }

    /// While we wait to become HEALTHY, the next heartbeat need not wait its turn.
    fn hurry(&mut self, now: Mono) {
        if matches!(self.state, WorkerState::New | WorkerState::Unhealthy) {
            self.next_heartbeat = now;
        }
    }
}
