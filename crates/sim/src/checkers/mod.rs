//! Safety and liveness checkers, judging by what really happened on the hosts.
//!
//! The checkers see what no part of Baton can see: every live process on every host at the same
//! time. They run after every event.
//!
//! | checker | invariant |
//! |---|---|
//! | `overlap` | no two live executions of one instance: strict never; timed unless the seed froze the host or drove a clock out of its bound, or one of the two sleeps with its host |
//! | `unleased-start` | a process starts only under a lease that is open in the store |
//! | `broken-promise` | an attempt that was closed as not running or never started has not run, and never will |
//! | `false-result` | an accepted result is the true end of that very execution |
//! | `stopped-unasked` | a kill of one attempt does not stop its instance |
//! | `other-result` | the end of an attempt is accepted only for the instance that was executed, although a restored store uses ids again |
//! | `lost-outputs` | the outputs of a success are stored with it, however its end was reported |
//! | `host-fault-charged` | an attempt that its host could not start is no failure of the work |
//! | `sick-worker-fed` | a worker that cannot launch anything gets no more than a few attempts |
//! | `suspected-wrongly` | a worker is suspicious only after several failures there |
//! | `suspicious-fed` | a suspicious worker is tried with one attempt at a time |
//! | `suspicion-kept` | a suspicious worker that has passed its trials is trusted |
//! | `outlasts-worker` | no attempt starts on a worker that ends before it would |
//! | `released-alive` | a lease is not released while its process lives, or it sleeps and is dead when its host resumes |
//! | `lost-acknowledged` | every acknowledged submission and status is in the store, and stays there unless the commits that held it are lost |
//! | `committed-twice` | a group of facts is committed once |
//! | `epoch-repeated` | no two terms have the same epoch, whatever the store has lost |
//! | `id-reused` | no instance gets the id of another one that the store has lost, while a worker may hold that |
//! | `submitted-twice` | with a store, a submission that is sent again with its key creates nothing again |
//! | `killed-unasked` | no process gets a signal without a reason |
//! | `grace-skipped` | no process that is to stop is killed before its grace is over |
//! | `launched-twice` | no run of an attempt is launched again |
//! | `device-shared` | no device is used by two live attempts, unless their parts fit on it together; no CPU by two that are pinned to cores |
//! | `device-missing` | an attempt has all devices and CPUs that it needs, and its task keeps them |
//! | `device-lost` | at the end, no host holds a device for an attempt that is over |
//! | `gang-incomplete` | an attempt takes as many workers as it asks for, none of them twice |
//! | `gang-divided` | the members of a gang are of one group |
//! | `member-shared` | no member of a gang is used by more than it has room for, until the gang's end is known |
//! | `member-kept` | at the end, no worker is held for an attempt |
//! | `suicide-ordered` | every heartbeat of a condemned worker is answered with an order to die |
//! | `survivor` | no process outlives the incarnation of its worker |
//! | `started-early` | an instance that starts after others is leased only when they have ended as they must |
//! | `not-halted` | an end that violates a dependency, or with which too many elements of an array have failed, stops in its own group all that must not start any more |
//! | `halted-unasked` | an instance is stopped for a reason of the scheduler's own only if that reason holds |
//! | `array-exceeded` | no more elements of an array are leased, or run, than may at once; excused executions do not count |
//! | `limit-exceeded` | no lease is granted that a named limit, as it is set then, has no room for |
//! | `rate-exceeded` | in no interval more of a rate starts than its burst and what it brings within that, across leaders |
//! | `failed-array-continued` | no element of an array starts when as many have failed for good as it allows, unless a client retries it |
//! | `stuck` | once the faults are over, every instance ends within the bound |
//! | `diverged` | at the end, scheduler and workers agree that nothing runs |
//! | `panic` | no internal invariant fails |
//!
//! [`runs`] has the checkers of workflows, `alarms` those of alarms.

mod alarms;
mod bounds;
mod conditions;
mod devices;
mod gangs;
mod history;
mod kills;
mod rates;
pub mod runs;
mod suspicion;
pub mod tenure;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_core::step::Receipt;
use baton_core::supervision::attempts::LOST;
use baton_model::coordinator::Launch;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, Incarnation, InstanceId, LeaseId};
use baton_model::outcome::{AttemptEnd, KillCause, LossProof, Outcome, Synthetic};
use baton_model::rate::LimitValue;
use baton_model::spec::Exclusive;
use baton_model::time::Mono;

use crate::time::{SECOND, Time};

use bounds::Bounds;
pub use conditions::ConditionChecks;
use devices::DeviceChecks;
pub use devices::{CPUS, DEVICES};
pub use gangs::{GangChecks, group_of};
use history::History;
pub use kills::KillChecks;
pub use rates::RateChecks;
pub use runs::{ResumeRequest, Row, RunChecks, RunRecord};
pub use suspicion::SuspicionChecks;
pub use truth::{Execution, Truth};

/// The longest time until a leader answers a condemned worker.
const ORDER_WAIT: u64 = 30 * SECOND;

/// A worker that cannot launch anything gets attempts until its reports have arrived, on a network
/// that may lose or delay them: as often as it may get a heartbeat answered meanwhile.
const FED_ROUNDS_MAX: u32 = 6;
const FED_MIN: u32 = 12;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
}

/// All checkers of one run.
#[derive(Debug, Default)]
pub struct Checkers {
    pub truth: Truth,
    /// The time of the last fact.
    pub now: Time,
    /// The checkers of workflows.
    pub runs: RunChecks,
    /// The checkers of conditions.
    pub conditions: ConditionChecks,
    /// The checkers of suspicious workers.
    pub suspicion: SuspicionChecks,
    /// The checkers of signals.
    pub signals: KillChecks,
    devices: DeviceChecks,
    /// The checkers of rates.
    pub rates: RateChecks,
    /// The checkers of gangs.
    pub gangs: GangChecks,
    /// Attempts that an operator has killed.
    kills: BTreeSet<LeaseId>,
    /// Attempts that their host could not start.
    host_faults: BTreeSet<LeaseId>,
    /// For each host, how many of them it got since it cannot launch anything.
    fed: BTreeMap<usize, u32>,
    bounds: Bounds,
    history: History,
    /// The first violation, which ends the run.
    pub violation: Option<Violation>,
}

impl Checkers {
    /// Reports a violation; only the first one counts, later ones are consequences.
    pub fn violate(&mut self, checker: &'static str, what: String) {
        self.violation.get_or_insert(Violation { checker, what });
    }

    /// Reports the violation of a check.
    pub fn require(&mut self, checked: Result<(), Violation>) {
        if let Err(Violation { checker, what }) = checked {
            self.violate(checker, what);
        }
    }

    /// Checks the start of a process. `leased`: the store has its lease.
    pub fn started(&mut self, lease: LeaseId, execution: Execution, leased: bool) {
        let instance = lease.attempt.instance;
        let excused = execution.excused && execution.exclusive == Exclusive::Timed;
        if !leased && !excused && !self.truth.is_lost(lease) {
            self.violate(
                "unleased-start",
                format!("{lease} started without an open lease"),
            );
        }
        if let Some(end) = self.truth.closed_unstarted(lease) {
            self.violate(
                "broken-promise",
                format!("{lease} started after it was closed: {end}"),
            );
        }
        if let Some((other, excused)) = self.truth.live_of(instance, Some(&execution.work)) {
            // Nothing proves the end of an attempt that the store has forgotten, except time; and
            // no time ends a strict one.
            let forgotten = self.truth.is_lost(other);
            let is_strict = execution.exclusive == Exclusive::Strict;
            let is_unknowable = is_strict && forgotten;
            let strict = is_strict && !forgotten;
            if !is_unknowable && (strict || !(excused || execution.excused)) {
                let what = format!("{lease} started while {other} is alive");
                self.violate("overlap", what);
            }
        }
        if self.truth.live(lease).is_some() {
            self.violate("launched-twice", format!("{lease} started while it runs"));
        }
        self.truth.start(lease, execution);
        let checked = self.bounds.started(instance, &self.truth);
        self.require(checked);
        let checked = self.runs.started(instance, &self.truth);
        self.require(checked);
    }

    /// Checks the devices of the first process of an attempt.
    pub fn devices_assigned(&mut self, lease: LeaseId, host: usize, launch: &Launch) {
        let checked = self.devices.started(lease, host, launch, &self.truth);
        self.require(checked);
    }

    /// Checks the devices of the next runner of a task.
    pub fn devices_kept(&mut self, lease: LeaseId, launch: &Launch) {
        let checked = self.devices.resumed(lease, launch);
        self.require(checked);
    }

    /// Checks a signal of a coordinator to a process of an attempt that it watches, at this time of
    /// its host's clock.
    pub fn signalled(&mut self, lease: LeaseId, signal: i32, now: Mono) {
        let checked = self.signals.signalled(lease, signal, now);
        self.require(checked);
    }

    /// A host cannot launch anything from now on.
    pub fn host_sick(&mut self, host: usize) {
        self.fed.insert(host, 0);
    }

    /// A host could not start an attempt. Its worker may hold so many at once.
    pub fn host_fault(&mut self, lease: LeaseId, host: usize, slots: u32) {
        self.host_faults.insert(lease);
        let fed = self.fed.entry(host).or_default();
        *fed += 1;
        let fed_max = FED_ROUNDS_MAX * slots + FED_MIN;
        if *fed > fed_max {
            let what = format!("h{host} cannot launch anything, and got {fed_max} attempts");
            self.violate("sick-worker-fed", what);
        }
    }

    /// Checks a fact that became durable (or, without a store, was decided).
    pub fn committed(&mut self, fact: &Fact) {
        if let Fact::AttemptKillRequested { lease, .. } = fact {
            self.kills.insert(*lease);
        }
        if let Fact::AttemptEnded {
            lease,
            end,
            verdict,
            outputs,
            ..
        } = fact
        {
            if *end == AttemptEnd::Real(Outcome::LaunchFailed) && self.host_faults.contains(lease) {
                let what = format!(
                    "{lease} could not be started by its host: {}",
                    verdict.word()
                );
                self.violate("host-fault-charged", what);
            }
            self.attempt_ended(*lease, self.observed(*lease, *end));
            self.check_operator(*lease, *end, *verdict);
            self.check_outputs(*lease, *end, outputs.as_deref());
        }
        let checked = self.conditions.committed(fact);
        self.require(checked);
        let checked = self.suspicion.committed(fact);
        self.require(checked);
        self.bounds.committed(fact);
        self.gangs.committed(fact);
        let checked = self.history.committed(fact);
        self.require(checked);
        let checked = self.runs.committed(fact, &self.truth);
        self.require(checked);
    }

    /// Checks a lease that was granted, by the ledger that has it. `defaults`: the limits of the
    /// configuration.
    pub fn granted(
        &mut self,
        ledger: &Ledger,
        lease: LeaseId,
        defaults: &[(String, LimitValue)],
        slots: u32,
    ) {
        let checked = bounds::check_grant(ledger, lease, defaults);
        self.require(checked);
        let checked = self.rates.granted(ledger, lease, defaults);
        self.require(checked);
        let checked = self.gangs.granted(ledger, lease, slots);
        self.require(checked);
    }

    /// The end as its worker saw it, which does not know who has requested a kill.
    fn observed(&self, lease: LeaseId, end: AttemptEnd) -> AttemptEnd {
        match end {
            AttemptEnd::Real(Outcome::Killed(KillCause::Operator))
                if self.kills.contains(&lease) =>
            {
                AttemptEnd::Real(Outcome::Killed(KillCause::Requested))
            }
            end => end,
        }
    }

    /// A kill of one attempt does not stop its instance.
    fn check_operator(&mut self, lease: LeaseId, end: AttemptEnd, verdict: Verdict) {
        let by_operator = end == AttemptEnd::Real(Outcome::Killed(KillCause::Operator));
        if by_operator && verdict == Verdict::Stopped {
            let what = format!("an operator has killed {lease}, and its instance is stopped");
            self.violate("stopped-unasked", what);
        }
    }

    /// The outputs of a success are stored with it, however its end was reported.
    fn check_outputs(&mut self, lease: LeaseId, end: AttemptEnd, stored: Option<&str>) {
        let AttemptEnd::Real(outcome) = end else {
            return;
        };
        let truth = outputs_of(lease.attempt.instance, outcome);
        if stored != truth.as_deref() {
            let what = format!("{lease} has put out {truth:?}, and {stored:?} is kept");
            self.violate("lost-outputs", what);
        }
    }

    /// Checks that an end belongs to the instance of this name.
    pub fn end_accepted(&mut self, lease: LeaseId, wanted: Option<&str>) {
        let executed = self.truth.work(lease);
        if let (Some(executed), Some(wanted)) = (executed, wanted)
            && executed != wanted
        {
            let what = format!("the end of {lease}, which ran {executed}, is taken for {wanted}");
            self.violate("other-result", what);
        }
    }

    fn attempt_ended(&mut self, lease: LeaseId, end: AttemptEnd) {
        self.truth.record(lease);
        match end {
            AttemptEnd::Real(outcome) => self.result_accepted(lease, outcome),
            AttemptEnd::Synthetic(
                Synthetic::NeverStarted | Synthetic::WasNotRunning | Synthetic::HostFault,
            ) => {
                if self.truth.has_started(lease) && !self.truth.is_lost(lease) {
                    let what = format!("{lease} was closed as \"{end}\" but had started");
                    self.violate("broken-promise", what);
                }
                self.truth.close_unstarted(lease, end);
            }
            AttemptEnd::Synthetic(Synthetic::WorkerLost(proof)) => self.lost(lease, proof),
        }
    }

    fn result_accepted(&mut self, lease: LeaseId, outcome: Outcome) {
        let truth = self.truth.outcome(lease);
        let unseen = match outcome {
            // It was killed while it waited for room, or lost before it could start.
            Outcome::Killed(_) if !self.truth.has_started(lease) => {
                let end = AttemptEnd::Real(outcome);
                self.truth.close_unstarted(lease, end);
                true
            }
            // Its end was not observed; the report claims only that nothing of it is left.
            LOST => self.truth.live(lease).is_none(),
            _ => false,
        };
        let agrees = truth.is_some_and(|truth| {
            let is_blamed = outcome == Outcome::Killed(KillCause::MemberLost);
            if is_blamed && self.gangs.is_incomplete(lease) {
                // A program of a gang also fails by itself when a member is lost. One that is told to end then may have
                // succeeded unseen: its runner was dead.
                let requested = Outcome::Killed(KillCause::Requested);
                return !truth.is_success() || self.signals.agree(lease, truth, requested);
            }
            self.signals.agree(lease, truth, outcome)
        });
        if !agrees && !unseen {
            let truth = truth.map_or("still running or never started".to_owned(), |it| {
                it.to_string()
            });
            let what = format!("{lease} was recorded as \"{outcome}\"; in truth: {truth}");
            self.violate("false-result", what);
        }
    }

    fn lost(&mut self, lease: LeaseId, proof: LossProof) {
        let Some(execution) = self.truth.live(lease) else {
            return;
        };
        let by_time = proof == LossProof::LeaseRanOut;
        let is_timed = execution.exclusive == Exclusive::Timed;
        let excused = by_time && is_timed && self.truth.is_excused(execution);
        let unheard = !by_time && self.truth.excuse_unheard_clone(lease, self.now);
        if !excused && !unheard {
            let what = format!("{lease} was given up ({proof:?}) while its process lives");
            self.violate("released-alive", what);
        }
    }

    /// A host has slept, and its timers have fired: what was given up or placed elsewhere
    /// meanwhile must be dead.
    pub fn host_resumed(&mut self, host: usize) {
        let live = self.truth.resume_host(host).into_iter();
        let unexcused = live.filter(|(_, execution)| !execution.excused);
        for lease in unexcused.map(|(lease, _)| lease).collect::<Vec<_>>() {
            if self.truth.is_recorded(lease) {
                let what = format!("{lease} lives after the sleep in which it was given up");
                self.violate("released-alive", what);
            }
            if self.truth.overlaps(lease) {
                let what = format!("{lease} lives after the sleep in which another was started");
                self.violate("overlap", what);
            }
        }
    }

    /// A worker got the acknowledgement of a status, and forgets the attempt. `still_wanted`:
    /// the scheduler behaves as if the attempt had not ended.
    pub fn forgotten(&mut self, lease: LeaseId, still_wanted: bool) {
        if still_wanted && !self.truth.is_recorded(lease) {
            let what = format!("the end of {lease} was acknowledged, but is not on record");
            self.violate("lost-acknowledged", what);
        }
    }

    /// A client got the acknowledgement of its submission.
    pub fn submission_acknowledged(&mut self, instance: InstanceId, known: bool) {
        if !known {
            let what = format!("instance {instance} was acknowledged but is not in the store");
            self.violate("lost-acknowledged", what);
        }
        self.history.acknowledge(instance);
    }

    /// A group of facts is committed; its facts follow.
    pub fn group_committed(&mut self, group: Receipt) {
        let checked = self.history.group_committed(group);
        self.require(checked);
    }

    /// All facts of a group are committed.
    pub fn group_complete(&mut self) {
        let checked = self.conditions.group_complete();
        self.require(checked);
    }

    /// A leader has taken the store.
    pub fn term_begun(&mut self, epoch: Epoch, ledger: &Ledger) {
        self.suspicion.term_begun(ledger);
        self.conditions.term_begun(ledger);
        let checked = self.history.term_begun(epoch, ledger);
        self.require(checked);
    }

    /// The store has gone back from one state to an earlier one.
    pub fn history_lost(&mut self, lost: &Ledger, remaining: &Ledger) {
        for lease in lost.open_leases().map(|lease| lease.id) {
            if remaining.open_lease(lease).is_none() {
                self.truth.lose(lease);
            }
        }
        self.history.lose(lost, remaining);
    }

    /// True if the store had the instance, and has lost it.
    #[must_use]
    pub fn is_forgotten(&self, instance: InstanceId) -> bool {
        self.history.is_forgotten(instance)
    }

    /// No leader can tell that something was lost, so ids may be used again.
    pub fn forget_lost_ids(&mut self) {
        self.history.forget_lost_ids();
        self.runs.forget_lost_ids();
    }

    /// A leader has received a new heartbeat of a condemned incarnation.
    pub fn expect_order(&mut self, at: Time, to: Incarnation) {
        self.truth.expected_orders.entry(to).or_insert(at);
    }

    /// An order to die was sent to the incarnation.
    pub fn order_sent(&mut self, to: Incarnation) {
        self.truth.expected_orders.remove(&to);
    }

    /// The leader changed, stopped or lost its store: no order is expected any more.
    pub fn cancel_expected_orders(&mut self) {
        self.truth.expected_orders.clear();
    }

    /// Reports orders that are overdue.
    pub fn check_orders(&mut self, now: Time) {
        let overdue = self
            .truth
            .expected_orders
            .iter()
            .find(|(_, since)| now.0 - since.0 > ORDER_WAIT);
        if let Some((who, since)) = overdue {
            let what = format!(
                "{who} is condemned and sent a heartbeat at {}, but was not ordered to die",
                since.display()
            );
            self.violate("suicide-ordered", what);
        }
    }

    /// A worker declared its incarnation over.
    pub fn incarnation_ended(&mut self, who: Incarnation, alive: Option<LeaseId>) {
        if let Some(lease) = alive {
            self.violate(
                "survivor",
                format!("incarnation {who} ended while {lease} is alive"),
            );
        }
    }
}

/// The simulated outputs of a success: every other instance has some.
#[must_use]
pub fn outputs_of(instance: InstanceId, outcome: Outcome) -> Option<Arc<str>> {
    let some = outcome.is_success() && instance.0 % 2 == 1;
    some.then(|| format!("{{\"instance\":{}}}", instance.0).into())
}
