//! Triage: success, retry or failure after the end of an attempt.
//!
//! Failures of the work and losses of its worker have budgets of their own, so
//! that a flaky host cannot use up the retries that a flaky program needs. An
//! attempt that certainly never started counts as neither. Memory or time that an attempt exceeded
//! grows for the next one, and a failure of any kind may move it to other workers.

use baton_model::device::WHOLE;
use baton_model::fact::{NextAttempt, Verdict};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome, Synthetic};
use baton_model::spec::{
    Allowance, GrownRequest, RequestScale, RetryBackoff, RetryBudget, Scale, ScaledRequest,
};
use baton_model::time::{Millis, Wall};

/// The budget that an end is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Success, or never started.
    Nothing,
    /// The work failed.
    Failure,
    /// The worker was lost, or killed the attempt with itself; or a person killed it.
    Loss,
}

/// Returns the budget that an end is charged to.
#[must_use]
pub const fn charge(end: AttemptEnd) -> Charge {
    match end {
        AttemptEnd::Real(outcome) if outcome.is_success() => Charge::Nothing,
        AttemptEnd::Real(outcome) if outcome.is_loss() => Charge::Loss,
        AttemptEnd::Real(_) => Charge::Failure,
        AttemptEnd::Synthetic(
            Synthetic::NeverStarted | Synthetic::WasNotRunning | Synthetic::HostFault,
        ) => Charge::Nothing,
        AttemptEnd::Synthetic(Synthetic::WorkerLost(_)) => Charge::Loss,
    }
}

/// Decides what follows for the instance. `failures` and `losses` count the ends before this one.
#[must_use]
pub const fn decide(
    end: AttemptEnd,
    failures: u32,
    losses: u32,
    budget: &RetryBudget,
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

/// The backoff and the allowance of the next attempt after this end. `failures` counts the ends
/// before this one; `had` is the allowance of the ended attempt.
#[must_use]
pub fn next_attempt(
    end: AttemptEnd,
    failures: u32,
    budget: &RetryBudget,
    had: &Allowance,
    now: Wall,
) -> Option<NextAttempt> {
    let charge = charge(end);
    if charge == Charge::Nothing {
        return None;
    }
    let mut next = had.clone();
    grow(&mut next, end, &budget.scale);
    let mut not_before = None;
    if charge == Charge::Failure {
        let rest = backoff_time(budget.backoff, failures);
        not_before = (rest > Millis(0)).then(|| Wall(now.0.saturating_add(rest.0)));
        if let Some(place) = step(&budget.fallback, failures) {
            next.constraints = Some(place.clone());
        }
    }
    let allowance = (next != *had).then_some(next);
    (not_before.is_some() || allowance.is_some()).then_some(NextAttempt {
        not_before,
        allowance,
    })
}

/// The backoff after one more failure: twice as long each time.
fn backoff_time(backoff: RetryBackoff, failures: u32) -> Millis {
    let factor = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
    backoff.first.scaled(factor, 1).min(backoff.max)
}

/// Grows the allowance that was exceeded.
fn grow(next: &mut Allowance, end: AttemptEnd, scale: &Scale) {
    let AttemptEnd::Real(Outcome::Killed(cause)) = end else {
        return;
    };
    for growth in &scale.requests {
        grow_request(next, cause, growth);
    }
    match cause {
        KillCause::OutOfMemory => match step(&scale.memory_steps, next.memory_step) {
            Some(bytes) => {
                // A single size has the same meaning in a task file.
                (next.memory_min, next.memory_max) = (*bytes, *bytes);
                next.memory_step = taken(&scale.memory_steps, next.memory_step);
            }
            None => {
                let cap = scale.memory_cap.unwrap_or(u64::MAX);
                let grown = |it: u64| percent(it, scale.memory_percent, cap);
                next.memory_min = grown(next.memory_min);
                next.memory_max = grown(next.memory_max);
            }
        },
        KillCause::TimedOut => match step(&scale.timeout_steps, next.timeout_step) {
            Some(span) => {
                next.timeout = Some(*span);
                next.timeout_step = taken(&scale.timeout_steps, next.timeout_step);
            }
            None => {
                let cap = scale.timeout_cap.map_or(u64::MAX, |cap| cap.0);
                let grown = |it: Millis| Millis(percent(it.0, scale.timeout_percent, cap));
                next.timeout = next.timeout.map(grown);
            }
        },
        KillCause::Requested
        | KillCause::LeaseLapsed
        | KillCause::Suicide
        | KillCause::Operator
        | KillCause::WorkerEnded
        | KillCause::MemberLost => {}
    }
}

/// Grows one of the further requests.
fn grow_request(next: &mut Allowance, cause: KillCause, growth: &RequestScale) {
    let is_due = match growth.request {
        // A worker that ends before its attempt has shown that this takes longer than was said.
        ScaledRequest::Time => matches!(cause, KillCause::TimedOut | KillCause::WorkerEnded),
        ScaledRequest::Cpu | ScaledRequest::Disk | ScaledRequest::Gpu => {
            matches!(cause, KillCause::OutOfMemory | KillCause::TimedOut)
        }
    };
    if !is_due {
        return;
    }
    let place = next
        .requests
        .iter()
        .position(|it| it.request == growth.request);
    let had = place.map_or((growth.first, 0), |at| {
        (next.requests[at].amount, next.requests[at].step)
    });
    let (amount, step) = match step(&growth.steps, had.1) {
        Some(amount) => (*amount, taken(&growth.steps, had.1)),
        None => {
            let grown = percent(had.0, growth.percent, growth.cap.unwrap_or(u64::MAX));
            (whole_devices(growth.request, grown), 0)
        }
    };
    if (amount, step) == had {
        return;
    }
    let grown = GrownRequest {
        request: growth.request,
        amount,
        step,
    };
    match place {
        Some(at) => next.requests[at] = grown,
        None => next.requests.push(grown),
    }
}

/// An amount that can be requested: above one device only whole ones.
const fn whole_devices(request: ScaledRequest, amount: u64) -> u64 {
    match request {
        ScaledRequest::Gpu if amount > WHOLE => amount.div_ceil(WHOLE).saturating_mul(WHOLE),
        _ => amount,
    }
}

/// The step after so many of them, or the last; nothing if there are none.
fn step<T>(steps: &[T], taken: u32) -> Option<&T> {
    let at = usize::try_from(taken).unwrap_or(usize::MAX);
    steps.get(at).or(steps.last())
}

/// How many steps were taken after one more: no more than there are, so that an allowance
/// that grows no more does not change either.
fn taken<T>(steps: &[T], before: u32) -> u32 {
    let all = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    before.saturating_add(1).min(all)
}

/// Never less than it was, whatever the cap.
fn percent(amount: u64, percent: u32, cap: u64) -> u64 {
    let grown = u128::from(amount) * u128::from(percent) / 100;
    let grown = u64::try_from(grown).unwrap_or(u64::MAX);
    grown.min(cap.max(amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::outcome::LossProof;
    use baton_model::placement::{Constraint, Rule};

    const BUDGET: RetryBudget = RetryBudget {
        failures_max: 1,
        losses_max: 1,
        backoff: RetryBackoff {
            first: Millis(100),
            max: Millis(350),
        },
        scale: SCALE,
        fallback: Vec::new(),
    };

    const SCALE: Scale = Scale {
        memory_percent: 150,
        timeout_percent: 200,
        memory_cap: None,
        timeout_cap: None,
        memory_steps: Vec::new(),
        timeout_steps: Vec::new(),
        requests: Vec::new(),
    };

    const HAD: Allowance = Allowance {
        memory_min: 100,
        memory_max: 200,
        timeout: Some(Millis(1_000)),
        memory_step: 0,
        timeout_step: 0,
        constraints: None,
        requests: Vec::new(),
    };

    const OUT_OF_MEMORY: AttemptEnd = AttemptEnd::Real(Outcome::Killed(KillCause::OutOfMemory));
    const TIMED_OUT: AttemptEnd = AttemptEnd::Real(Outcome::Killed(KillCause::TimedOut));

    fn next(end: AttemptEnd, failures: u32) -> Option<NextAttempt> {
        next_attempt(end, failures, &BUDGET, &HAD, Wall(5_000))
    }

    /// What an instance may use after each of these ends.
    fn allowances(budget: &RetryBudget, ends: &[AttemptEnd]) -> Vec<Allowance> {
        let mut had = HAD;
        let mut failures = 0;
        let after = |end: &AttemptEnd| {
            let again = next_attempt(*end, failures, budget, &had, Wall(0));
            failures += u32::from(charge(*end) == Charge::Failure);
            if let Some(allowance) = again.and_then(|it| it.allowance) {
                assert_ne!(allowance, had, "what has not changed is not said");
                had = allowance;
            }
            had.clone()
        };
        ends.iter().map(after).collect()
    }

    #[test]
    fn a_kill_from_outside_is_a_loss_and_a_crash_or_an_exhausted_memory_a_failure() {
        let signalled = |signal| charge(AttemptEnd::Real(Outcome::Signaled(signal)));
        for signal in [1, 2, 3, 9, 15] {
            assert_eq!(signalled(signal), Charge::Loss, "{signal}");
        }
        for signal in [4, 6, 7, 8, 10, 11, 13, 14] {
            assert_eq!(signalled(signal), Charge::Failure, "{signal}");
        }
        assert_eq!(charge(OUT_OF_MEMORY), Charge::Failure);
    }

    fn scaled(scale: Scale) -> RetryBudget {
        RetryBudget { scale, ..BUDGET }
    }

    #[test]
    fn a_factor_stops_at_its_cap_and_never_takes_anything_away() {
        let capped = |memory, timeout| {
            scaled(Scale {
                memory_cap: Some(memory),
                timeout_cap: Some(Millis(timeout)),
                ..SCALE
            })
        };
        let memory = |budget: &RetryBudget| -> Vec<(u64, u64)> {
            let all = allowances(budget, &[OUT_OF_MEMORY; 4]);
            all.iter()
                .map(|it| (it.memory_min, it.memory_max))
                .collect()
        };
        let grown = [(150, 300), (225, 320), (320, 320), (320, 320)];
        assert_eq!(memory(&capped(320, 0)), grown);
        assert_eq!(memory(&capped(10, 0)), [(100, 200); 4]);
        let all = allowances(&capped(0, 2_500), &[TIMED_OUT; 3]);
        let spans: Vec<_> = all.iter().filter_map(|it| it.timeout).collect();
        assert_eq!(spans, [2_000, 2_500, 2_500].map(Millis));
    }

    #[test]
    fn steps_are_taken_one_after_each_running_out_and_the_last_one_stays() {
        let budget = scaled(Scale {
            memory_steps: vec![200, 200, 800],
            timeout_steps: vec![Millis(3_000), Millis(9_000)],
            ..SCALE
        });
        let all = allowances(
            &budget,
            &[
                OUT_OF_MEMORY,
                FAILED,
                TIMED_OUT,
                OUT_OF_MEMORY,
                LOST,
                OUT_OF_MEMORY,
                OUT_OF_MEMORY,
                TIMED_OUT,
                TIMED_OUT,
            ],
        );
        let memory: Vec<_> = all.iter().map(|it| it.memory_max).collect();
        assert_eq!(memory, [200, 200, 200, 200, 200, 800, 800, 800, 800]);
        assert!(all.iter().all(|it| it.memory_min == it.memory_max));
        let spans: Vec<_> = all.iter().filter_map(|it| it.timeout).collect();
        let wanted = [1, 1, 3, 3, 3, 3, 3, 9, 9];
        assert_eq!(spans, wanted.map(Millis::from_secs));
    }

    #[test]
    fn what_fails_falls_back_from_place_to_place_and_what_is_lost_does_not() {
        let place = |pool: &str| {
            vec![Constraint {
                label: "pool".to_owned(),
                rule: Rule::OneOf([pool.to_owned()].into()),
            }]
        };
        let budget = RetryBudget {
            fallback: vec![place("big"), place("huge")],
            ..BUDGET
        };
        let bad_output = AttemptEnd::Real(Outcome::BadOutput);
        let all = allowances(&budget, &[LOST, FAILED, LOST, bad_output, FAILED]);
        let places: Vec<_> = all.into_iter().map(|it| it.constraints).collect();
        let (big, huge) = (Some(place("big")), Some(place("huge")));
        assert_eq!(places, [None, big.clone(), big, huge.clone(), huge]);
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
        let memory = next(OUT_OF_MEMORY, 0).and_then(|it| it.allowance);
        assert_eq!(
            memory,
            Some(Allowance {
                memory_min: 150,
                memory_max: 300,
                ..HAD
            })
        );
        let timeout = next(TIMED_OUT, 0).and_then(|it| it.allowance);
        let timeout = timeout.and_then(|it| it.timeout);
        assert_eq!(timeout, Some(Millis(2_000)));
        assert_eq!(next(FAILED, 0).and_then(|it| it.allowance), None);
    }

    #[test]
    fn further_requests_grow_after_memory_or_time_ran_out() {
        let growth = |request, first, percent, steps: &[u64]| RequestScale {
            request,
            first,
            percent,
            cap: Some(5_000),
            steps: steps.to_vec(),
        };
        let budget = scaled(Scale {
            requests: vec![
                growth(ScaledRequest::Cpu, 2_000, 150, &[]),
                growth(ScaledRequest::Gpu, 1_000, 150, &[]),
                growth(ScaledRequest::Time, 60, 100, &[90, 120]),
            ],
            ..SCALE
        });
        let ended = AttemptEnd::Real(Outcome::Killed(KillCause::WorkerEnded));
        let ends = [FAILED, OUT_OF_MEMORY, ended, TIMED_OUT, LOST, TIMED_OUT];
        let all = allowances(&budget, &ends);
        let amounts = |request| -> Vec<u64> {
            let grown =
                |it: &Allowance| it.requests.iter().find(|it| it.request == request).copied();
            all.iter()
                .map(|it| grown(it).map_or(0, |it| it.amount))
                .collect()
        };
        assert_eq!(
            amounts(ScaledRequest::Cpu),
            [0, 3_000, 3_000, 4_500, 4_500, 5_000]
        );
        assert_eq!(
            amounts(ScaledRequest::Gpu),
            [0, 2_000, 2_000, 3_000, 3_000, 5_000]
        );
        assert_eq!(amounts(ScaledRequest::Time), [0, 0, 90, 120, 120, 120]);
    }

    const LOST: AttemptEnd = AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::LeaseRanOut));
    const FAILED: AttemptEnd = AttemptEnd::Real(Outcome::Exited(1));

    #[test]
    fn success_is_done_even_when_a_stop_was_requested() {
        let end = AttemptEnd::Real(Outcome::Exited(0));
        assert_eq!(decide(end, 9, 9, &BUDGET, true), Verdict::Done);
    }

    #[test]
    fn failures_and_losses_have_separate_budgets() {
        assert_eq!(decide(FAILED, 0, 9, &BUDGET, false), Verdict::Requeued);
        assert_eq!(decide(FAILED, 1, 0, &BUDGET, false), Verdict::GaveUp);
        assert_eq!(decide(LOST, 9, 0, &BUDGET, false), Verdict::Requeued);
        assert_eq!(decide(LOST, 0, 1, &BUDGET, false), Verdict::GaveUp);
    }

    #[test]
    fn what_never_started_costs_nothing() {
        for end in [
            Synthetic::NeverStarted,
            Synthetic::WasNotRunning,
            Synthetic::HostFault,
        ] {
            let end = AttemptEnd::Synthetic(end);
            assert_eq!(decide(end, 99, 99, &BUDGET, false), Verdict::Requeued);
        }
    }

    #[test]
    fn being_killed_with_the_worker_is_a_loss_and_a_kill_on_request_is_not() {
        let suicide = AttemptEnd::Real(Outcome::Killed(KillCause::Suicide));
        let requested = AttemptEnd::Real(Outcome::Killed(KillCause::Requested));
        assert_eq!(charge(suicide), Charge::Loss);
        assert_eq!(charge(requested), Charge::Failure);
        assert_eq!(
            charge(AttemptEnd::Real(Outcome::BadOutput)),
            Charge::Failure
        );
        assert_eq!(decide(requested, 0, 0, &BUDGET, true), Verdict::Stopped);
    }
}
