//! What follows when an attempt has ended.
//!
//! Failures of the work and losses of its worker have budgets of their own, so
//! that a flaky host cannot use up the retries that a flaky program needs. An
//! attempt that certainly never started counts as neither.

use baton_model::fact::{Again, Verdict};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome, Synthetic};
use baton_model::spec::{Allowance, Rest, RetryBudget, Scale};
use baton_model::time::{Millis, Wall};

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

/// What is different for the next attempt, after one that ended like this. `failures`
/// counts the ends before this one; `had` is what it could use.
#[must_use]
pub fn again(
    end: AttemptEnd,
    failures: u32,
    budget: RetryBudget,
    had: &Allowance,
    now: Wall,
) -> Option<Again> {
    let rest = match charge(end) {
        Charge::Failure => rest(budget.backoff, failures),
        Charge::Nothing | Charge::Loss => Millis(0),
    };
    let not_before = (rest > Millis(0)).then(|| Wall(now.0.saturating_add(rest.0)));
    let allowance = grown(end, budget.scale, had);
    (not_before.is_some() || allowance.is_some()).then_some(Again {
        not_before,
        allowance,
    })
}

/// The rest after one more failure: twice as long each time.
fn rest(backoff: Rest, failures: u32) -> Millis {
    let factor = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
    backoff.first.scaled(factor, 1).min(backoff.max)
}

/// What was too little, grown; nothing if that changes nothing.
fn grown(end: AttemptEnd, scale: Scale, had: &Allowance) -> Option<Allowance> {
    let AttemptEnd::Real(Outcome::Killed(cause)) = end else {
        return None;
    };
    let mut next = had.clone();
    match cause {
        KillCause::OutOfMemory => {
            next.memory_min = percent(had.memory_min, scale.memory_percent);
            next.memory_max = percent(had.memory_max, scale.memory_percent);
        }
        KillCause::TimedOut => {
            let grown = |it: Millis| Millis(percent(it.0, scale.timeout_percent));
            next.timeout = had.timeout.map(grown);
        }
        KillCause::Requested | KillCause::LeaseLapsed | KillCause::Suicide => {}
    }
    (next != *had).then_some(next)
}

fn percent(amount: u64, percent: u32) -> u64 {
    let grown = u128::from(amount) * u128::from(percent) / 100;
    u64::try_from(grown).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::outcome::LossProof;

    const BUDGET: RetryBudget = RetryBudget {
        failures_max: 1,
        losses_max: 1,
        backoff: Rest {
            first: Millis(100),
            max: Millis(350),
        },
        scale: Scale {
            memory_percent: 150,
            timeout_percent: 200,
        },
    };

    const HAD: Allowance = Allowance {
        memory_min: 100,
        memory_max: 200,
        timeout: Some(Millis(1_000)),
    };

    fn next(end: AttemptEnd, failures: u32) -> Option<Again> {
        again(end, failures, BUDGET, &HAD, Wall(5_000))
    }

    #[test]
    fn a_failure_rests_for_twice_as_long_each_time_up_to_the_most() {
        let rests: Vec<_> = [0, 1, 2, 3, 63, 64, u32::MAX]
            .map(|failures| next(FAILED, failures).and_then(|it| it.not_before))
            .into_iter()
            .flatten()
            .map(|at| at.0 - 5_000)
            .collect();
        assert_eq!(rests, [100, 200, 350, 350, 350, 350, 350]);
    }

    #[test]
    fn a_loss_neither_rests_nor_grows_anything() {
        assert_eq!(next(LOST, 0), None);
        let suicide = AttemptEnd::Real(Outcome::Killed(KillCause::Suicide));
        assert_eq!(next(suicide, 0), None);
    }

    #[test]
    fn what_was_too_little_grows_and_nothing_else() {
        let killed = |cause| AttemptEnd::Real(Outcome::Killed(cause));
        let memory = next(killed(KillCause::OutOfMemory), 0).and_then(|it| it.allowance);
        assert_eq!(
            memory,
            Some(Allowance {
                memory_min: 150,
                memory_max: 300,
                ..HAD
            })
        );
        let timeout = next(killed(KillCause::TimedOut), 0).and_then(|it| it.allowance);
        let timeout = timeout.and_then(|it| it.timeout);
        assert_eq!(timeout, Some(Millis(2_000)));
        assert_eq!(next(FAILED, 0).and_then(|it| it.allowance), None);
    }

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
