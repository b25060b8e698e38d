//! The bullpen: the ledger's waiting instances, in placement or in backoff.
//!
//! It keeps placement's contract: each waiting instance is in it once, and each lease is charged to
//! its worker from its grant to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::conditions::ArrayLimit;
use baton_model::ids::{InstanceId, TaskNo, WorkerName};
use baton_model::library::Execution;
use baton_model::measurement::TaskPath;
use baton_model::placement::{Capacity, Offer, ResourceRequest, WORKER_LABEL};
use baton_model::rate::LimitValue;
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::time::{Millis, Mono, Now};

use super::dependencies::Dependencies;
use super::gate;
use crate::ledger::{Instance, Lease, Ledger, Range};
use crate::limits::{self, ArrayLimits, EntryLimit, LimitKey, Limits};
use crate::placement::{
    Arrival, Availability, Backlog, Decision, Demand, JobShape, LimitUse, Placement,
    PlacementError, TaskHistory,
};
use crate::timers::Timers;
use crate::wait::{ClassId, Exclusion, Wait, WaitReason};

/// Within this time two submissions count as equally old. Shorter than people notice, longer than a
/// script needs to submit several tasks.
const SUBMISSION_TICK: Millis = Millis(1_000);

/// Ticks that are remembered. Instances that are older and still wait go strictly in the order of
/// their ids.
const SUBMISSION_TICKS_MAX: usize = 4_096;

/// All instances that wait for a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bullpen {
    placement: Placement,
    backoffs: Timers<InstanceId>,
    backoff_until: BTreeMap<InstanceId, Mono>,
    /// Instances of library entries that wait for their turn, by entry; see `gate`.
    held: BTreeMap<TaskNo, BTreeSet<InstanceId>>,
    /// Submissions that count as equally old.
    ticks: SubmissionTicks,
    /// Ranges that placement refused because of its size limits. They are offered again as others
    /// leave.
    overflow: BTreeMap<InstanceId, InstanceId>,
    /// The limits of the configuration; those set at run time take their place.
    default_limits: BTreeMap<String, LimitValue>,
    /// Concurrency limits of arrays that were changed, as the ledger has them.
    array_limits: ArrayLimits,
}

/// The first ids of recent ticks. Submissions of one tick have waited equally long, so that the
/// histories of their tasks decide between them.
///
/// They affect only the order of placement, so a new leader starts without them.
#[derive(Clone, Debug, Default)]
struct SubmissionTicks {
    firsts: BTreeSet<InstanceId>,
    began: Option<Mono>,
}

impl SubmissionTicks {
    /// Counts an instance that was just submitted. Ids grow.
    fn submitted(&mut self, id: InstanceId, now: Mono) {
        if self
            .began
            .is_some_and(|began| now.since(began) < SUBMISSION_TICK)
        {
            return;
        }
        self.began = Some(now);
        self.firsts.insert(id);
        if self.firsts.len() > SUBMISSION_TICKS_MAX {
            self.firsts.pop_first();
        }
    }

    /// The position of an instance in the order of submission: that of its tick.
    fn sequence(&self, id: InstanceId) -> u64 {
        let first = self.firsts.range(..=id).next_back();
        first.unwrap_or(&id).0
    }
}

impl Bullpen {
    /// As [`Placement::is_ahead`].
    pub(crate) fn is_ahead(&self) -> bool {
        self.placement.is_ahead()
    }

    /// The bullpen of a leader that takes this ledger over.
    pub(crate) fn restore(
        ledger: &Ledger,
        dependencies: &Dependencies,
        limits: &[(String, LimitValue)],
        now: Now,
    ) -> Self {
        let mut bullpen = Self {
            default_limits: limits.iter().cloned().collect(),
            array_limits: ledger.array_limits().clone(),
            ..Self::default()
        };
        let limits = limits.iter().map(|(name, value)| (name, value));
        for (name, value) in limits.chain(ledger.limits()) {
            // More limits than placement takes are refused where they are configured.
            bullpen.set_limit(name, Some(*value), now.mono);
        }
        bullpen.placement.empty_rates();
        for (owner, weight) in ledger.shares() {
            bullpen.set_share(owner, *weight);
        }
        for lease in ledger.open_leases() {
            if let Some(instance) = ledger.instance(lease.id.attempt.instance) {
                bullpen.adopt(lease, instance);
            }
        }
        // First all wait for their turn; those whose turn it is leave in order.
        for range in ledger.waiting() {
            match gated_entry(ledger, &range.spec) {
                Some(task) => {
                    (range.first.0..=range.last.0).for_each(|id| bullpen.hold(task, InstanceId(id)))
                }
                None if dependencies.holds(range.first) => {}
                None => bullpen.fresh(ledger, &range),
            }
        }
        for instance in ledger.requeued(InstanceId(0), InstanceId(u64::MAX)) {
            match gated_entry(ledger, &instance.spec) {
                Some(task) if gate::is_fresh(instance) => bullpen.hold(task, instance.id),
                _ => bullpen.requeue(ledger, instance, now),
            }
        }
        let entries: Vec<TaskNo> = bullpen.held.keys().copied().collect();
        for task in entries {
            while let Some(id) = bullpen.held(task).first().copied() {
                if !gate::may_start(ledger, &bullpen, task, Execution::Instance(id)) {
                    break;
                }
                bullpen.release_held(ledger, task, id);
            }
        }
        bullpen
    }

    /// Sets or removes a cluster-wide limit; false if there are too many.
    pub(crate) fn set_limit(&mut self, name: &str, value: Option<LimitValue>, now: Mono) -> bool {
        self.placement.set_now(now);
        let set = match value {
            Some(LimitValue {
                total,
                rate: Some(rate),
            }) => self.placement.set_rate(name, rate, total),
            value => self.placement.set_limit(name, value.map(|it| it.total)),
        };
        set.is_ok()
    }

    /// Sets the weight of an owner among fair turns.
    pub(crate) fn set_share(&mut self, owner: &str, weight: u32) {
        self.placement.set_share(owner, weight);
    }

    /// Makes every rate full again, for a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn fill_rates(&mut self) {
        self.placement.fill_rates();
    }

    /// The value that the configuration has for a limit.
    pub(crate) fn default_limit(&self, name: &str) -> Option<LimitValue> {
        self.default_limits.get(name).copied()
    }

    /// All limits on leased work, and their use.
    pub(crate) fn limits(&self, now: Mono) -> impl Iterator<Item = LimitUse<'_>> {
        self.placement.limits(now)
    }

    /// Changes the concurrency limit of an array. The cost depends on what is in flight of it, and on the
    /// number of its waiting ranges, if it had no limit before.
    pub(crate) fn limit_array(
        &mut self,
        ledger: &Ledger,
        (first, last): (InstanceId, InstanceId),
        total: Option<u32>,
    ) {
        self.array_limits.insert(first, ArrayLimit { last, total });
        let key = LimitKey::Array(first);
        let total = limits::array_total(total);
        if self.placement.counted().contains(&key) {
            // Known: never refused.
            let _ = self.placement.set_limit(key, Some(total));
            return;
        }
        // What it has in placement is of a class that the limit does not bind.
        let waiting = self.placement.withdraw_ranges(first, last);
        for instance in ledger.leased(first, last) {
            if let Some(lease) = &instance.lease {
                self.placement.release(&lease.holder.worker, instance.id);
                self.adopt(lease, instance);
            }
        }
        for (first, last) in waiting {
            for instance in ledger.requeued(first, last) {
                self.ready(ledger, instance);
            }
            let fresh = ledger.waiting_within(first, last);
            fresh.for_each(|range| self.fresh(ledger, &range));
        }
    }

    /// What is placed on a worker, in sum.
    pub(crate) fn used(&self, worker: &WorkerName) -> Option<Capacity> {
        self.placement.used(worker)
    }

    /// Adds an instance of a library entry that waits for its turn.
    pub(crate) fn hold(&mut self, task: TaskNo, id: InstanceId) {
        self.held.entry(task).or_default().insert(id);
    }

    /// Instances of an entry that wait for their turn, in order.
    pub(crate) fn held(&self, task: TaskNo) -> &BTreeSet<InstanceId> {
        static NONE: BTreeSet<InstanceId> = BTreeSet::new();
        self.held.get(&task).unwrap_or(&NONE)
    }

    /// All instances that wait for their turn, by entry.
    pub(crate) fn all_held(&self) -> impl Iterator<Item = (TaskNo, &BTreeSet<InstanceId>)> {
        self.held.iter().map(|(task, held)| (*task, held))
    }

    /// Lets an instance be placed whose turn it is.
    pub(crate) fn release_held(&mut self, ledger: &Ledger, task: TaskNo, id: InstanceId) {
        self.forget_held(task, id);
        match ledger.instance(id) {
            Some(instance) => self.ready(ledger, instance),
            None => {
                let fresh = ledger.waiting_within(id, id);
                fresh.for_each(|range| self.fresh(ledger, &range));
            }
        }
    }

    fn forget_held(&mut self, task: TaskNo, id: InstanceId) {
        if let Some(held) = self.held.get_mut(&task) {
            held.remove(&id);
            if held.is_empty() {
                self.held.remove(&task);
            }
        }
    }

    /// Counts instances that were just accepted, before they are added.
    pub(crate) fn submitted(&mut self, first: InstanceId, now: Mono) {
        self.ticks.submitted(first, now);
    }

    /// Adds instances that were accepted.
    pub(crate) fn fresh(&mut self, ledger: &Ledger, range: &Range) {
        let time = range.spec.time_needed(range.spec.timeout, &[]);
        self.offer_range(ledger, range, &range.spec.request, time);
    }

    /// True if there may be one more limit that belongs to work.
    pub(crate) fn has_room_for_limit(&mut self) -> bool {
        self.placement.has_room_for_limit()
    }

    /// Sets the limits that bind an instance whatever it requests.
    fn set_implied_limits(&mut self, spec: &InstanceSpec) -> Vec<LimitKey> {
        let implied = limits::implied(spec, &self.array_limits).into_iter();
        let set = implied.map(|(key, total)| {
            // A submission beyond the maximum was refused.
            let _ = self.placement.set_limit(key.clone(), Some(total));
            key
        });
        set.collect()
    }

    /// The next attempt of an instance prefers another worker. A new leader does not know: it
    /// affects only the choice among workers that fit.
    pub(crate) fn avoid(&mut self, id: InstanceId, worker: &WorkerName) {
        self.placement.avoid(id, worker);
    }

    /// Adds an instance that is tried again, after its backoff if it has one.
    pub(crate) fn requeue(&mut self, ledger: &Ledger, instance: &Instance, now: Now) {
        match instance.not_before() {
            Some(at) if at > now.wall => {
                let backoff = Millis(at.0.saturating_sub(now.wall.0));
                // The wall clock may have been set back since, or be another machine's: no backoff
                // exceeds the configured maximum.
                let backoff = backoff.min(instance.spec.retry.backoff.max);
                let until = now.mono + backoff;
                self.backoffs.arm(instance.id, until);
                self.backoff_until.insert(instance.id, until);
            }
            _ => self.ready(ledger, instance),
        }
    }

    /// Moves instances whose backoff has ended into placement.
    pub(crate) fn end_backoffs(&mut self, ledger: &Ledger, now: Mono) {
        while let Some(id) = self.backoffs.pop_due(now) {
            self.backoff_until.remove(&id);
            if let Some(instance) = ledger.instance(id) {
                self.ready(ledger, instance);
            }
        }
    }

    /// When the next backoff ends, or a rate has room for something that waits.
    pub(crate) fn next_due(&self) -> Option<Mono> {
        let all = [self.backoffs.next(), self.placement.next_start()];
        all.into_iter().flatten().min()
    }

    pub(crate) fn backoff_until(&self, id: InstanceId) -> Option<Mono> {
        self.backoff_until.get(&id).copied()
    }

    /// Removes a range.
    pub(crate) fn withdraw(&mut self, first: InstanceId, last: InstanceId) {
        self.placement.withdraw(first, last);
        self.withdraw_overflow(first, last);
        self.held.retain(|_, held| {
            // By its range: a cancelled instance does not cost a look at all that wait.
            while let Some(id) = held.range(first..=last).next().copied() {
                held.remove(&id);
            }
            !held.is_empty()
        });
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

    /// The next placement decision, if there is one.
    pub(crate) fn next(&mut self, now: Mono) -> Option<Decision> {
        self.placement.set_now(now);
        self.placement
            .next()
            .or_else(|| self.placement.next_ahead())
    }

    /// The first in line of each owner, priority and class.
    pub(crate) fn heads(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.placement.heads()
    }

    /// As [`Placement::queues`].
    pub(crate) fn queues(&self) -> impl Iterator<Item = (ClassId, u64, InstanceId)> + '_ {
        self.placement.queues()
    }

    /// Instances in backoff, and when it ends.
    pub(crate) const fn in_backoff(&self) -> &BTreeMap<InstanceId, Mono> {
        &self.backoff_until
    }

    /// Ranges that placement has no room for.
    pub(crate) fn overflow(&self) -> impl Iterator<Item = (InstanceId, InstanceId)> + '_ {
        self.overflow.iter().map(|(first, last)| (*first, *last))
    }

    /// Charges a lease that was granted before.
    pub(crate) fn adopt(&mut self, lease: &Lease, instance: &Instance) {
        let limits = self.set_implied_limits(&instance.spec);
        let demand = Demand {
            request: &resource_request(&instance.spec, &instance.allowance()),
            limits: &limits,
            time: time_needed(&instance.spec, &instance.allowance()),
            nodes: instance.spec.nodes.get(),
        };
        let id = lease.id.attempt.instance;
        let others = lease.others().iter().map(|it| &it.worker);
        let others: Vec<&WorkerName> = others.collect();
        // Refused only if it is placed already, or beyond the maximum number of workers; the
        // lease is valid either way.
        let worker = &lease.holder.worker;
        let _ = self.placement.adopt_gang(worker, &others, id, demand);
    }

    /// Releases the charge of a closed lease.
    pub(crate) fn released(
        &mut self,
        worker: &WorkerName,
        id: InstanceId,
        run_time: Option<Millis>,
    ) {
        if let Some(run_time) = run_time
            && let Some(class) = self.placement.class_of(id)
        {
            self.placement.record_run_time(class, run_time);
        }
        self.placement.release(worker, id);
    }

    /// Sets how long the attempts of a task take.
    pub(crate) fn set_estimate(&mut self, task: &TaskPath, estimate: Millis) {
        self.placement.set_estimate(task, estimate);
    }

    /// Sets the offer of a worker, until it ends; it gets no work unless it is open. Its name is a
    /// label, whatever it says.
    pub(crate) fn offer(
        &mut self,
        worker: &WorkerName,
        offer: &Offer,
        availability: Availability,
        ends_at: Option<Mono>,
    ) {
        let mut offer = Offer {
            open: availability == Availability::Open,
            ..offer.clone()
        };
        offer
            .labels
            .insert(WORKER_LABEL.to_owned(), worker.to_string());
        // Refused beyond the maximum number of workers; such a worker gets no work.
        let _ = self.placement.set_offer_until(worker, offer, ends_at);
        if let Availability::Closed(reason) = availability {
            self.placement.close(worker, reason);
        }
    }

    /// Removes the offer of a worker that left its seat.
    pub(crate) fn left(&mut self, worker: &WorkerName) {
        self.placement.remove_worker(worker);
    }

    /// What an instance waits for that is offered to placement.
    pub(crate) fn explain(&self, id: InstanceId, now: Mono) -> Option<Wait> {
        let overflow = || {
            let (_, last) = self.overflow.range(..=id).next_back()?;
            (id <= *last).then_some(Wait::from(WaitReason::Overflow))
        };
        let mut wait = self.placement.explain(id).or_else(overflow)?;
        // Placement has the time of its last decision.
        wait.reason.pass(now.since(self.placement.counted().now()));
        Some(wait)
    }

    /// As [`Placement::backlog`].
    pub(crate) fn backlog(&self) -> Vec<Backlog> {
        self.placement.backlog()
    }

    /// As [`Placement::has_waiting`].
    pub(crate) fn has_waiting(&self) -> bool {
        self.placement.has_waiting()
    }

    /// As [`Placement::misfit`].
    pub(crate) fn misfit(&self, id: InstanceId, job: JobShape<'_>) -> Option<Exclusion> {
        self.placement.misfit(id, job)
    }

    /// The limits on leased work.
    pub(crate) const fn counted(&self) -> &Limits<LimitKey> {
        self.placement.counted()
    }

    /// As [`Placement::is_charged`].
    pub(crate) fn is_charged(&self, id: InstanceId) -> bool {
        self.placement.is_charged(id)
    }

    fn ready(&mut self, ledger: &Ledger, instance: &Instance) {
        let request = resource_request(&instance.spec, &instance.allowance());
        let time = time_needed(&instance.spec, &instance.allowance());
        let range = Range {
            first: instance.id,
            last: instance.id,
            spec: Arc::clone(&instance.spec),
        };
        self.offer_range(ledger, &range, &request, time);
    }

    fn offer_range(
        &mut self,
        ledger: &Ledger,
        range: &Range,
        request: &ResourceRequest,
        time: Option<Millis>,
    ) {
        let (first, last, spec) = (range.first, range.last, &range.spec);
        let path = ledger.task_path(spec);
        let limits = self.set_implied_limits(spec);
        let arrival = Arrival {
            first,
            last,
            demand: Demand {
                request,
                limits: &limits,
                time,
                nodes: spec.nodes.get(),
            },
            owner: &spec.owner,
            priority: spec.priority,
            // One for a whole array, so that a retried element does not go behind all others.
            sequence: self
                .ticks
                .sequence(spec.array.map_or(first, |array| array.first)),
            task: path.as_ref().map(|path| TaskHistory {
                path,
                estimate: ledger.run_times().estimate(path),
            }),
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

    fn withdraw_overflow(&mut self, first: InstanceId, last: InstanceId) {
        let overlapping = self.overflow.range(..=last).rev();
        let overlapping = overlapping.take_while(|(_, end)| first <= **end);
        let overlapping: Vec<_> = overlapping.map(|(from, to)| (*from, *to)).collect();
        for (from, to) in overlapping {
            self.overflow.remove(&from);
            if from < first {
                self.overflow.insert(from, InstanceId(first.0 - 1));
            }
            if last < to {
                self.overflow.insert(last.next(), to);
            }
        }
    }

    /// Offers the overflow to placement again.
    pub(crate) fn retry_overflow(&mut self, ledger: &Ledger) {
        if self.overflow.is_empty() {
            return;
        }
        for (first, last) in std::mem::take(&mut self.overflow) {
            for instance in ledger.requeued(first, last) {
                self.ready(ledger, instance);
            }
            let fresh = ledger.waiting_within(first, last);
            fresh.for_each(|range| self.fresh(ledger, &range));
        }
    }
}

/// The library entry of an instance, if its launches wait for their turn.
pub(crate) fn gated_entry(ledger: &Ledger, spec: &InstanceSpec) -> Option<TaskNo> {
    let task = spec.origin?.task;
    let trigger = ledger.library().task(task)?.trigger()?;
    EntryLimit::of(trigger).started_max().map(|_| task)
}

/// The time that a worker must have left for the next attempt of an instance.
pub(super) fn time_needed(spec: &InstanceSpec, allowance: &Allowance) -> Option<Millis> {
    spec.time_needed(allowance.timeout, &allowance.requests)
}

/// The resource request of an instance, with what has grown and the fallback constraints of its
/// allowance.
pub(super) fn resource_request(spec: &InstanceSpec, allowance: &Allowance) -> ResourceRequest {
    let constraints = allowance.constraints.as_ref();
    let mut request = ResourceRequest {
        resources: spec.resources(&allowance.requests),
        constraints: constraints.unwrap_or(&spec.request.constraints).clone(),
    };
    request.resources.memory_min = allowance.memory_min;
    request.resources.memory_max = allowance.memory_max;
    request
}
