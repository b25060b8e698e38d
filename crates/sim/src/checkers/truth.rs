//! Ground truth: every execution on every host.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::{Incarnation, InstanceId, LeaseId};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::spec::Exclusive;

use crate::time::{SECOND, Time};

/// One process tree that was started.
#[derive(Clone, Debug)]
pub struct Execution {
    pub host: usize,
    /// The name of the instance: ids are used again in a copy of a store.
    pub work: String,
    pub exclusive: Exclusive,
    /// Whether its host was frozen or a clock ran out of bounds: timed mode then guarantees one
    /// effective execution, but not the absence of overlap.
    pub excused: bool,
    pub outcome: Option<Outcome>,
}

/// Every execution so far.
#[derive(Debug, Default)]
pub struct Truth {
    executions: BTreeMap<LeaseId, Execution>,
    live: BTreeMap<InstanceId, Vec<LeaseId>>,
    unstarted: BTreeMap<LeaseId, AttemptEnd>,
    /// Hosts that sleep. Their processes have no effects meanwhile.
    asleep: BTreeSet<usize>,
    /// Leases that the store does not know any more, or whose end it has forgotten, since it went
    /// back in time.
    lost: BTreeSet<LeaseId>,
    /// Those of which no leader can tell; they may also start later.
    untold: BTreeSet<LeaseId>,
    /// Machines that were cloned while they ran, and their clones.
    cloned: BTreeSet<usize>,
    /// When a leader last heard each machine.
    heard: BTreeMap<usize, Time>,
    /// Leases with a recorded end.
    recorded: BTreeSet<LeaseId>,
    /// Condemned incarnations that sent a heartbeat and await an order to die, with the time.
    pub(super) expected_orders: BTreeMap<Incarnation, Time>,
}

impl Truth {
    pub(super) fn start(&mut self, lease: LeaseId, mut execution: Execution) {
        execution.excused |= self.untold.contains(&lease);
        self.executions.insert(lease, execution);
        self.live
            .entry(lease.attempt.instance)
            .or_default()
            .push(lease);
    }

    /// Records the end of a process.
    pub fn end(&mut self, lease: LeaseId, outcome: Outcome) {
        if let Some(execution) = self.executions.get_mut(&lease) {
            execution.outcome = Some(outcome);
        }
        if let Some(live) = self.live.get_mut(&lease.attempt.instance) {
            live.retain(|it| *it != lease);
        }
    }

    /// Excuses every live execution of a host.
    pub fn excuse_host(&mut self, host: usize) {
        for execution in self.executions.values_mut() {
            if execution.host == host && execution.outcome.is_none() {
                execution.excused = true;
            }
        }
    }

    /// A leader has heard a machine.
    pub fn heard(&mut self, host: usize, now: Time) {
        self.heard.insert(host, now);
    }

    /// A machine was cloned, or is a clone: each looks like another boot of the other. The original
    /// may have been silent for a while already.
    pub fn cloned(&mut self, host: usize, now: Time) {
        self.cloned.insert(host);
        self.heard.entry(host).or_insert(now);
    }

    /// Excuses an execution on a cloned machine that no leader hears: its clone looks like a reboot.
    pub(super) fn excuse_unheard_clone(&mut self, lease: LeaseId, now: Time) -> bool {
        let Some(execution) = self.executions.get_mut(&lease) else {
            return false;
        };
        let heard = self.heard.get(&execution.host);
        let heard = heard.filter(|_| self.cloned.contains(&execution.host));
        // The scheduler's clock may run fast.
        let silent = heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > 80 * SECOND);
        if silent {
            execution.excused = true;
            self.lost.insert(lease);
        }
        silent
    }

    /// The store has forgotten a lease that it had granted, or its end.
    pub fn lose(&mut self, lease: LeaseId) {
        self.lost.insert(lease);
    }

    pub(super) fn is_lost(&self, lease: LeaseId) -> bool {
        self.lost.contains(&lease)
    }

    /// Excuses every execution that the store has forgotten, also one whose launch is on its way.
    pub fn excuse_lost(&mut self) {
        self.untold.extend(&self.lost);
        for lease in &self.lost {
            if let Some(execution) = self.executions.get_mut(lease) {
                execution.excused = true;
            }
        }
    }

    /// The name of the instance that was executed.
    pub(super) fn work(&self, lease: LeaseId) -> Option<&str> {
        self.executions.get(&lease).map(|it| it.work.as_str())
    }

    /// A host sleeps from now on.
    pub fn suspend_host(&mut self, host: usize) {
        self.asleep.insert(host);
    }

    /// A host is awake again. Returns its live executions.
    pub(super) fn resume_host(&mut self, host: usize) -> Vec<(LeaseId, &Execution)> {
        self.asleep.remove(&host);
        let all = self.live.values().flatten();
        all.map(|lease| (*lease, &self.executions[lease]))
            .filter(|(_, execution)| execution.host == host)
            .collect()
    }

    /// Whether an execution may overlap with another in timed mode.
    #[must_use]
    pub fn is_excused(&self, execution: &Execution) -> bool {
        execution.excused || self.asleep.contains(&execution.host)
    }

    /// A live execution of an instance (of that name, if one is given), and whether it is excused. One that is not excused is
    /// preferred.
    #[must_use]
    pub fn live_of(&self, instance: InstanceId, work: Option<&str>) -> Option<(LeaseId, bool)> {
        let live = self.live.get(&instance)?.iter();
        let same = live.filter(|lease| work.is_none() || self.work(**lease) == work);
        same.map(|lease| (*lease, self.is_excused(&self.executions[lease])))
            .min_by_key(|(_, excused)| *excused)
    }

    /// The live executions of a range of instances of that name, without those that are excused or that
    /// the store has forgotten.
    pub(super) fn live_within(
        &self,
        first: InstanceId,
        last: InstanceId,
        work: &str,
    ) -> Vec<LeaseId> {
        let live = self.live.range(first..=last).flat_map(|(_, live)| live);
        live.copied()
            .filter(|lease| {
                let execution = &self.executions[lease];
                execution.work == work && !self.is_excused(execution) && !self.is_lost(*lease)
            })
            .collect()
    }

    /// Whether another execution of the same instance lives and is not excused.
    pub(super) fn overlaps(&self, lease: LeaseId) -> bool {
        let live = self.live.get(&lease.attempt.instance);
        let mut others = live.into_iter().flatten().filter(|it| **it != lease);
        others.any(|other| !self.is_excused(&self.executions[other]))
    }

    /// The live execution of a lease.
    #[must_use]
    pub fn live(&self, lease: LeaseId) -> Option<&Execution> {
        self.executions
            .get(&lease)
            .filter(|it| it.outcome.is_none())
    }

    /// Any live execution.
    #[must_use]
    pub fn any_live(&self) -> Option<LeaseId> {
        self.live.values().flatten().next().copied()
    }

    pub(super) fn record(&mut self, lease: LeaseId) {
        self.recorded.insert(lease);
    }

    pub(super) fn is_recorded(&self, lease: LeaseId) -> bool {
        self.recorded.contains(&lease)
    }

    pub(super) fn has_started(&self, lease: LeaseId) -> bool {
        self.executions.contains_key(&lease)
    }

    #[must_use]
    pub fn outcome(&self, lease: LeaseId) -> Option<Outcome> {
        self.executions.get(&lease)?.outcome
    }

    pub(super) fn close_unstarted(&mut self, lease: LeaseId, end: AttemptEnd) {
        self.unstarted.insert(lease, end);
    }

    pub(super) fn closed_unstarted(&self, lease: LeaseId) -> Option<AttemptEnd> {
        self.unstarted.get(&lease).copied()
    }
}
