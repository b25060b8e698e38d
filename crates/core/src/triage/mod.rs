//! What follows when an attempt has ended.
//!
//! Failures of the work and losses of its worker have budgets of their own, so
//! that a flaky host cannot use up the retries that a flaky program needs. An
//! attempt that certainly never started counts as neither.

use baton_model::fact::Verdict;
use baton_model::outcome::{AttemptEnd, Outcome, Synthetic};
use baton_model::spec::RetryBudget;

/// What one more end adds to an instance's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Success, or never started.
    Nothing,
    /// The work failed.
    Failure,
    /// The worker was lost, or killed the attempt with itself.
    Loss,
}

/// How an end is charged.
#[must_use]
pub const fn charge(end: AttemptEnd) -> Charge {
    match end {
        AttemptEnd::Real(outcome) if outcome.is_success() => Charge::Nothing,
        AttemptEnd::Real(outcome) if outcome.is_loss() => Charge::Loss,
        AttemptEnd::Real(_) => Charge::Failure,
        AttemptEnd::Synthetic(Synthetic::NeverStarted | Synthetic::WasNotRunning) => {
            Charge::Nothing
        }
        AttemptEnd::Synthetic(Synthetic::WorkerLost(_)) => Charge::Loss,
    }
}

/// Where the instance goes. `failures` and `losses` count the ends before this one.
#[must_use]
pub const fn decide(
    end: AttemptEnd,
    failures: u32,
    losses: u32,
    budget: RetryBudget,
    stop_requested: bool,
) -> Verdict {
    // A success that raced with a stop request is still a success: it happened.
    if let AttemptEnd::Real(Outcome::Exited(0)) = end {
        return Verdict::Done;
    }
    if stop_requested {
        return Verdict::Stopped;
    }
    let spent = match charge(end) {
        Charge::Nothing => false,
        Charge::Failure => failures >= budget.failures_max,
        Charge::Loss => losses >= budget.losses_max,
    };
    if spent {
        Verdict::GaveUp
    } else {
        Verdict::Requeued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::outcome::{KillCause, LossProof};

    const BUDGET: RetryBudget = RetryBudget {
        failures_max: 1,
        losses_max: 1,
    };

    const LOST: AttemptEnd = AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::LeaseRanOut));
    const FAILED: AttemptEnd = AttemptEnd::Real(Outcome::Exited(1));

    #[test]
    fn success_is_done_even_when_a_stop_was_requested() {
        let end = AttemptEnd::Real(Outcome::Exited(0));
        assert_eq!(decide(end, 9, 9, BUDGET, true), Verdict::Done);
    }

    #[test]
    fn failures_and_losses_have_separate_budgets() {
        assert_eq!(decide(FAILED, 0, 9, BUDGET, false), Verdict::Requeued);
        assert_eq!(decide(FAILED, 1, 0, BUDGET, false), Verdict::GaveUp);
        assert_eq!(decide(LOST, 9, 0, BUDGET, false), Verdict::Requeued);
        assert_eq!(decide(LOST, 0, 1, BUDGET, false), Verdict::GaveUp);
    }

    #[test]
    fn what_never_started_costs_nothing() {
        for end in [Synthetic::NeverStarted, Synthetic::WasNotRunning] {
            let end = AttemptEnd::Synthetic(end);
            assert_eq!(decide(end, 99, 99, BUDGET, false), Verdict::Requeued);
        }
    }

    #[test]
    fn being_killed_with_the_worker_is_a_loss_and_a_kill_on_request_is_not() {
        let suicide = AttemptEnd::Real(Outcome::Killed(KillCause::Suicide));
        let requested = AttemptEnd::Real(Outcome::Killed(KillCause::Requested));
        assert_eq!(charge(suicide), Charge::Loss);
        assert_eq!(charge(requested), Charge::Failure);
        assert_eq!(decide(requested, 0, 0, BUDGET, true), Verdict::Stopped);
    }
}
