//! What must be true, judged from what really happened on the hosts.
//!
//! The checkers see what no part of Baton can see: every process that lives, on
//! every host, at the same time. They are asked after every event.
//!
//! | checker | says |
//! |---|---|
//! | `overlap` | no two live executions of one instance: strict never; timed unless the seed froze the host or drove a clock out of its bound |
//! | `unleased-start` | a process starts only under a lease that is open in the store |
//! | `broken-promise` | what was closed as not running or never started has not run, and never will |
//! | `false-result` | an accepted result is the true end of that very execution |
//! | `lost-outputs` | what a success has put out is kept with it, however its end was told |
//! | `released-alive` | a lease is not given up while its process lives |
//! | `lost-acknowledged` | what was acknowledged (a submission, a status) is in the store |
//! | `suicide-ordered` | every heartbeat of a condemned worker is answered with an order to die |
//! | `survivor` | no process outlives the life of its worker |
//! | `stuck` | once the faults are over, every instance ends within the bound |
//! | `diverged` | at the end, scheduler and workers agree that nothing runs |
//! | `panic` | no invariant of our own broke |
//!
//! [`runs`] has those of workflows.

pub mod runs;
mod truth;

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Incarnation, InstanceId, LeaseId};
use baton_model::outcome::{AttemptEnd, LossProof, Outcome, Synthetic};
use baton_model::spec::Exclusive;

use crate::time::{SECOND, Time};

pub use runs::{ResumeRequest, Row, RunChecks};
pub use truth::{Execution, Truth};

/// How long a leader may take to answer a condemned worker.
const ORDER_WAIT: u64 = 30 * SECOND;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
}

/// All checkers of one run.
#[derive(Debug, Default)]
pub struct Checkers {
    pub truth: Truth,
    /// Those of workflows.
    pub runs: RunChecks,
    /// The first violation; the run ends with it.
    pub violation: Option<Violation>,
}

impl Checkers {
    /// Reports a violation; only the first one counts, later ones follow from it.
    pub fn violate(&mut self, checker: &'static str, what: String) {
        self.violation.get_or_insert(Violation { checker, what });
    }

    /// Reports what does not hold.
    pub fn require(&mut self, checked: Result<(), Violation>) {
        if let Err(Violation { checker, what }) = checked {
            self.violate(checker, what);
        }
    }

    /// A process was started. `leased` says whether the store knows its lease.
    pub fn started(&mut self, lease: LeaseId, execution: Execution, leased: bool) {
        let instance = lease.attempt.instance;
        let excused = execution.excused && execution.exclusive == Exclusive::Timed;
        if !leased && !excused {
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
        if let Some((other, excused)) = self.truth.live_of(instance) {
            let strict = execution.exclusive == Exclusive::Strict;
            if strict || !(excused || execution.excused) {
                let what = format!("{lease} started while {other} is alive");
                self.violate("overlap", what);
            }
        }
        self.truth.start(lease, execution);
        let checked = self.runs.started(instance, &self.truth);
        self.require(checked);
    }

    /// A fact became durable (or, without a store, was decided).
    pub fn committed(&mut self, fact: &Fact) {
        if let Fact::AttemptEnded {
            lease,
            end,
            outputs,
            ..
        } = fact
        {
            self.attempt_ended(*lease, *end);
            self.check_outputs(*lease, *end, outputs.as_deref());
        }
        let checked = self.runs.committed(fact, &self.truth);
        self.require(checked);
    }

    /// What a success has put out is kept with it, however its end was told.
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

    fn attempt_ended(&mut self, lease: LeaseId, end: AttemptEnd) {
        self.truth.record(lease);
        match end {
            AttemptEnd::Real(outcome) => self.result_accepted(lease, outcome),
            AttemptEnd::Synthetic(Synthetic::NeverStarted | Synthetic::WasNotRunning) => {
                if self.truth.has_started(lease) {
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
        if truth != Some(outcome) {
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
        let excused = by_time && execution.exclusive == Exclusive::Timed && execution.excused;
        if !excused {
            let what = format!("{lease} was given up ({proof:?}) while its process lives");
            self.violate("released-alive", what);
        }
    }

    /// The worker was told that a status was taken, and forgets the attempt.
    /// `still_wanted` says whether the scheduler behaves as if it had not ended.
    pub fn forgotten(&mut self, lease: LeaseId, still_wanted: bool) {
        if still_wanted && !self.truth.is_recorded(lease) {
            let what = format!("the end of {lease} was acknowledged, but nobody recorded it");
            self.violate("lost-acknowledged", what);
        }
    }

    /// A client was told that its submission is durable.
    pub fn submission_acknowledged(&mut self, instance: InstanceId, known: bool) {
        if !known {
            let what = format!("instance {instance} was acknowledged but is not in the store");
            self.violate("lost-acknowledged", what);
        }
    }

    /// A leader has read a new heartbeat of a life that it has condemned.
    pub fn expect_order(&mut self, at: Time, to: Incarnation) {
        self.truth.expected_orders.entry(to).or_insert(at);
    }

    /// An order to die has left for that life.
    pub fn order_sent(&mut self, to: Incarnation) {
        self.truth.expected_orders.remove(&to);
    }

    /// The leader changed, stopped or lost its store: it owes nothing any more.
    pub fn cancel_expected_orders(&mut self) {
        self.truth.expected_orders.clear();
    }

    /// Looks for orders that were owed for too long.
    pub fn check_orders(&mut self, now: Time) {
        let overdue = self
            .truth
            .expected_orders
            .iter()
            .find(|(_, since)| now.0 - since.0 > ORDER_WAIT);
        if let Some((who, since)) = overdue {
            let what = format!(
                "{who} is condemned and spoke at {}, but was not ordered to die",
                since.display()
            );
            self.violate("suicide-ordered", what);
        }
    }

    /// A life was declared over by its own worker.
    pub fn incarnation_ended(&mut self, who: Incarnation, alive: Option<LeaseId>) {
        if let Some(lease) = alive {
            self.violate(
                "survivor",
                format!("life {who} ended while {lease} is alive"),
            );
        }
    }
}

/// What a success puts out here: some do, and some do not.
#[must_use]
pub fn outputs_of(instance: InstanceId, outcome: Outcome) -> Option<Arc<str>> {
    let some = outcome.is_success() && instance.0 % 2 == 1;
    some.then(|| format!("{{\"instance\":{}}}", instance.0).into())
}
