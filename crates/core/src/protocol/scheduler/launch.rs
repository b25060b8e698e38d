//! `runTask`: commits the lease first, then sends the call.

use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Association, InstanceId, LeaseId, WorkerName};
use baton_model::limits::LAUNCHES_PER_MESSAGE_MAX;
use baton_model::message::{Launch, LaunchVerdict, ToWorker};
use baton_model::outcome::{AttemptEnd, Synthetic};
use baton_model::progress::Progress;
use baton_model::spec::NODE_LIST_VARIABLE;
use baton_model::state::UniversalState;

use super::context::{Cx, SecretGrant};
use super::{Protocol, address};
use crate::config::StoreMode;
use crate::placement::Availability;
use crate::trace::Trace;
use crate::wait::Exclusion;

impl Protocol {
    /// Records the lease and counts the attempt as running from here on.
    pub(crate) fn grant(
        &mut self,
        cx: &mut Cx<'_>,
        instance: InstanceId,
        name: &WorkerName,
        others: &[WorkerName],
    ) -> Launch {
        let lease = cx.ledger().next_lease(instance, self.term.epoch);
        let seat = &self.seats[name];
        let holder = seat.holder.clone();
        let members: Vec<Holder> = others
            .iter()
            .map(|it| self.seats[it].holder.clone())
            .collect();
        cx.commit(Fact::LeaseGranted {
            lease,
            holder: holder.clone(),
            executor: seat.executor.clone(),
            others: members.clone(),
        });
        for member in &members {
            self.hold_member(cx, member, lease);
            self.recount(cx, &member.worker);
        }
        self.hold(cx, &holder, lease);
        if let Some(seat) = self.seats.get_mut(name) {
            seat.in_flight.add(lease, cx.now.mono);
            seat.load += 1;
        }
        self.suspicions.granted(holder.incarnation, lease);
        self.update_offer(cx, name);
        let instance = cx.ledger().instance(instance);
        let scaled = instance.and_then(|it| it.next_attempt.as_ref()?.allowance.clone());
        let mut spec = instance.map(|it| it.spec.clone()).unwrap_or_default();
        if cx.config.store == StoreMode::Memory && spec.lost_after.is_some() {
            Arc::make_mut(&mut spec).lost_after = None;
        }
        if !others.is_empty() {
            let hosts = std::iter::once(name).chain(others);
            let hosts: Vec<&str> = hosts.map(|it| self.seats[it].host_name()).collect();
            let env = &mut Arc::make_mut(&mut spec).env;
            env.insert(NODE_LIST_VARIABLE.to_owned(), hosts.join(","));
        }
        let trace = match cx.config.tracing {
            Some(sampling) => Some(Trace::of(
                self.term.store,
                lease.attempt.instance,
                &spec,
                sampling,
            ))
            .map(|trace| trace.attempt(lease)),
            None => spec.trace,
        };
        Launch {
            lease,
            spec,
            allowance: scaled.map(Box::new),
            trace,
        }
    }

    /// Sends `runTask` for leases that were granted.
    pub(crate) fn launch(&mut self, cx: &mut Cx<'_>, name: &WorkerName, launches: &[Launch]) {
        let seat = &self.seats[name];
        for chunk in launches.chunks(LAUNCHES_PER_MESSAGE_MAX) {
            let message = ToWorker::RunTask {
                association: seat.association(self.term),
                seq: seat.seq,
                stamp: seat.last_stamp,
                launches: chunk.to_vec(),
            };
            seeded!(cx.config.bugs, LeaseBeforeDurable => {
                cx.leader.leak(address(name, seat), message);
                continue;
            });
            cx.leader.send(address(name, seat), message);
        }
        self.rearm(cx, name);
    }

    pub(super) fn launch_verdicts(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        verdicts: &[(LeaseId, LaunchVerdict)],
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        for (lease, verdict) in verdicts {
            match verdict {
                LaunchVerdict::Accepted => self.confirm(cx, &name, *lease),
                LaunchVerdict::Refused(_) => self.never_started(cx, &name, *lease),
            }
        }
        self.rearm(cx, &name);
    }

    /// Notes which devices attempts hold.
    pub(super) fn held_devices(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        held: Vec<(LeaseId, Vec<DeviceShare>)>,
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        for (lease, devices) in held {
            if self.answers_for(cx, &name, lease)
                && let Some(seat) = self.seats.get_mut(&name)
            {
                seat.devices.insert(lease, devices);
            }
        }
    }

    /// Notes how far attempts have come.
    pub(super) fn progress(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        attempts: Vec<(LeaseId, Progress)>,
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        for (lease, progress) in attempts {
            if progress.is_valid()
                && self.answers_for(cx, &name, lease)
                && let Some(seat) = self.seats.get_mut(&name)
            {
                seat.progress.insert(lease, progress);
            }
        }
    }

    /// The worker needs the secrets of an attempt. Only who holds its lease may have them.
    pub(super) fn secrets_wanted(
        &mut self,
        cx: &mut Cx<'_>,
        association: Association,
        lease: LeaseId,
    ) {
        let Some(name) = self.hear(cx, association) else {
            return;
        };
        let instance = cx.ledger().instance(lease.attempt.instance);
        let spec = instance.map(|it| Arc::clone(&it.spec));
        match spec.filter(|_| self.answers_for(cx, &name, lease)) {
            Some(spec) => {
                let to = address(&name, &self.seats[&name]);
                cx.leader.grant_secrets(SecretGrant { to, lease, spec });
            }
            None => cx.notice("secrets-of-another"),
        }
    }

    /// The worker reports that the attempt has started.
    pub(super) fn confirm(&mut self, cx: &mut Cx<'_>, name: &WorkerName, lease: LeaseId) {
        if let Some(seat) = self.seats.get_mut(name) {
            seat.settle(lease);
            seat.launch_faults = 0;
        }
        let launched = self.answers_for(cx, name, lease)
            && cx
                .ledger()
                .instance(lease.attempt.instance)
                .is_some_and(|it| it.state == UniversalState::Launched);
        if launched {
            cx.commit(Fact::AttemptConfirmed { lease });
        } else {
            cx.notice("confirmation-late");
        }
    }

    /// A refusal is final: the worker has promised never to start it.
    fn never_started(&mut self, cx: &mut Cx<'_>, name: &WorkerName, lease: LeaseId) {
        if let Some(seat) = self.seats.get_mut(name) {
            seat.settle(lease);
            seat.held_back = true;
        }
        self.update_offer(cx, name);
        if self.answers_for(cx, name, lease) {
            self.end_attempt(
                cx,
                lease,
                AttemptEnd::Synthetic(Synthetic::NeverStarted),
                None,
            );
        } else {
            cx.notice("refusal-late");
        }
    }

    /// Updates the offer of a seat in the bullpen, if it has changed.
    pub(super) fn update_offer(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let drained = cx.ledger().drained().contains(name);
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        let is_held_back = self
            .suspicions
            .holds_back(seat.holder.incarnation, cx.now.mono)
            && !seeded!(cx.config.bugs, SuspicionIgnored);
        let availability = match seat.availability() {
            // To end the drain would not help.
            Availability::Closed(reason) if reason.is_lasting() => Availability::Closed(reason),
            _ if drained => Availability::Closed(Exclusion::Drained),
            Availability::Open if is_held_back => Availability::Closed(Exclusion::Suspicious),
            availability => availability,
        };
        let is_ignored = seeded!(cx.config.bugs, LifetimeIgnored);
        let ends_at = seat.ends_at.filter(|_| !is_ignored);
        let offer = Arc::clone(&seat.offer);
        seeded! { let offer = crate::bugs::protocol::in_one_group(cx.config.bugs, offer); }
        let offered = (offer, availability, ends_at);
        if seat.offered.as_ref() != Some(&offered) {
            let (offer, availability, ends_at) = offered.clone();
            cx.leader.offer(name, &offer, availability, ends_at);
            seat.offered = Some(offered);
        }
    }

    /// Counts a seat's leases anew after they changed hands.
    pub(super) fn recount(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        seat.count(self.holdings.load(seat.holder.incarnation));
        self.update_offer(cx, name);
    }
}
