//! What may start, and what rests until it may: the ledger's waiting instances as
//! placement knows them.
//!
//! Placement's contract is kept in here: each instance that waits is in it once, each
//! lease is charged to its worker from its grant to its end.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Offer, ResourceRequest};
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::time::{Millis, Mono, Now};

use crate::ledger::{Instance, Lease, Ledger, Range};
use crate::placement::{Arrival, Decision, Placement, PlacementError, WaitReason};
use crate::timers::Timers;

/// Everything that waits for a worker.
///
/// What waits, rests and is charged follows from the ledger, the seats and the time; what
/// does not (whose turn it is, how long a class takes) decides who goes first and never
/// who may. So two leaders that differ in nothing else count as the same, or a model
/// checker would tell states apart by how often something was placed before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bullpen {
    placement: Placement,
    backoffs: Timers<InstanceId>,
    backoff_until: BTreeMap<InstanceId, Mono>,
    /// What placement would not take, which only its limits can cause. They are offered
    /// again as others leave.
    overflow: BTreeMap<InstanceId, InstanceId>,
}

impl PartialEq for Bullpen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Bullpen {}

impl Hash for Bullpen {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Bullpen {
    /// As [`Placement::is_ahead`].
    pub(crate) fn is_ahead(&self) -> bool {
        self.placement.is_ahead()
    }

    /// The bullpen of a leader that takes this ledger over.
    pub(crate) fn restore(ledger: &Ledger, limits: &[(String, u64)], now: Now) -> Self {
        let mut bullpen = Self::default();
        for (name, total) in limits {
            // More limits than placement takes are refused where they are configured.
            let _ = bullpen.placement.set_limit(name, Some(*total));
        }
        for lease in ledger.open_leases() {
            if let Some(instance) = ledger.instance(lease.id.attempt.instance) {
                bullpen.adopt(lease, instance);
            }
        }
        for range in ledger.waiting() {
            bullpen.fresh(&range);
        }
        for instance in ledger.requeued(InstanceId(0), InstanceId(u64::MAX)) {
            bullpen.requeue(instance, now);
        }
        bullpen
    }

    /// Instances that were just accepted.
    pub(crate) fn fresh(&mut self, range: &Range) {
        self.offer_range(range.first, range.last, &range.spec, &range.spec.request);
    }

    /// An instance is to be tried again, after its rest if it has one.
    pub(crate) fn requeue(&mut self, instance: &Instance, now: Now) {
        match instance.not_before() {
            Some(at) if at > now.wall => {
                let rest = Millis(at.0.saturating_sub(now.wall.0));
                // The clock may have been set back since, or be another machine's: nobody
                // rests for longer than was ever meant.
                let rest = rest.min(instance.spec.retry.backoff.max);
                let until = now.mono + rest;
                self.backoffs.arm(instance.id, until);
                self.backoff_until.insert(instance.id, until);
            }
            _ => self.ready(instance),
        }
    }

    /// Lets those start whose rest is over.
    pub(crate) fn end_backoffs(&mut self, ledger: &Ledger, now: Mono) {
        while let Some(id) = self.backoffs.pop_due(now) {
            self.backoff_until.remove(&id);
            if let Some(instance) = ledger.instance(id) {
                self.ready(instance);
            }
        }
    }

    /// When the next rest is over.
    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.backoffs.next()
    }

    /// Until when an instance rests.
    pub(crate) fn backoff_until(&self, id: InstanceId) -> Option<Mono> {
        self.backoff_until.get(&id).copied()
    }

    /// These shall not start.
    pub(crate) fn withdraw(&mut self, first: InstanceId, last: InstanceId) {
        self.placement.withdraw(first, last);
        let waiting: Vec<_> = self
            .backoff_until
            .range(first..=last)
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            self.backoffs.disarm(&id);
            self.backoff_until.remove(&id);
        }
    }

    /// Who goes where next, if anybody can go anywhere.
    pub(crate) fn next(&mut self) -> Option<Decision> {
        self.placement
            .next()
            .or_else(|| self.placement.next_ahead())
    }

    /// A lease may be in force already.
    pub(crate) fn adopt(&mut self, lease: &Lease, instance: &Instance) {
        let ask = ask(&instance.spec, &instance.allowance());
        let id = lease.id.attempt.instance;
        // PlacementError only if it is placed already, or beyond the number of workers that
        // placement can count; the lease itself stands either way.
        let _ = self.placement.adopt(&lease.holder.worker, id, &ask);
    }

    /// A lease is over.
    pub(crate) fn released(&mut self, worker: &WorkerName, id: InstanceId, ran: Option<Millis>) {
        if let Some(ran) = ran
            && let Some(class) = self.placement.class_of(id)
        {
            self.placement.record_run_time(class, ran);
        }
        self.placement.release(worker, id);
    }

    /// A worker takes this, or for now nothing.
    pub(crate) fn offer(&mut self, worker: &WorkerName, offer: &Offer, open: bool) {
        let offer = Offer {
            open,
            ..offer.clone()
        };
        // PlacementError beyond the number of workers that placement can count; such a worker
        // gets no work.
        let _ = self.placement.set_offer(worker, offer);
    }

    /// A worker is gone from its seat.
    pub(crate) fn left(&mut self, worker: &WorkerName) {
        self.placement.remove_worker(worker);
    }

    /// What an instance waits for.
    pub(crate) fn explain(&self, id: InstanceId) -> Option<WaitReason> {
        self.placement.explain(id)
    }

    fn ready(&mut self, instance: &Instance) {
        let ask = ask(&instance.spec, &instance.allowance());
        self.offer_range(instance.id, instance.id, &instance.spec, &ask);
    }

    fn offer_range(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        spec: &InstanceSpec,
        ask: &ResourceRequest,
    ) {
        let arrival = Arrival {
            first,
            last,
            request: ask,
            owner: &spec.owner,
            priority: spec.priority,
            // One for a whole array, so that an element that is tried again does not go
            // behind all the others.
            sequence: spec.array.map_or(first, |array| array.first).0,
        };
        match self.placement.enqueue(arrival) {
            Ok(_) => {}
            Err(PlacementError::Waits(_) | PlacementError::Placed(_)) => {
                debug_assert!(false, "{first}..{last} is in placement already");
            }
            Err(_) => {
                self.overflow.insert(first, last);
            }
        }
    }

    /// Offers again what placement would not take before.
    pub(crate) fn retry_overflow(&mut self, ledger: &Ledger) {
        if self.overflow.is_empty() {
            return;
        }
        for (first, last) in std::mem::take(&mut self.overflow) {
            for instance in ledger.requeued(first, last) {
                self.ready(instance);
            }
            let fresh = ledger.waiting_within(first, last);
            fresh.for_each(|range| self.fresh(&range));
        }
    }
}

/// What placement knows of an instance's wishes: what it asked for, with the memory it
/// has grown to, and where it has fallen back to.
fn ask(spec: &InstanceSpec, allowance: &Allowance) -> ResourceRequest {
    let constraints = allowance.constraints.as_ref();
    let mut ask = ResourceRequest {
        resources: spec.request.resources.clone(),
        constraints: constraints.unwrap_or(&spec.request.constraints).clone(),
    };
    ask.resources.memory_min = allowance.memory_min;
    ask.resources.memory_max = allowance.memory_max;
    ask
}
