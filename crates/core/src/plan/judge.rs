//! Classification of the end of a run: success, failure, killed or lost. Pure, without state.
//!
//! * LOST and killed, by Baton or from outside, do not count as failures; they lead to another run.
//!   With `on_kill: fail` a kill from outside is a failure.
//! * A death by a signal of its own, a crash, counts exactly like a non-zero exit, whether
//!   or not a shell stood between and turned it into 128+n. So does what ran out of memory.
//! * What was stopped because of a timeout or a failed health check has failed,
//!   however politely it then exited.
//! * What was stopped because its part of the task is over was killed, unless it
//!   had succeeded after all.

use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Backoff, NextStep, OnKill, ProcessSpec, RunEnd, StopCause};
use baton_model::time::{Millis, Mono};

use crate::fsm::ProcessEvent;

/// What a shell adds to the number of the signal that its command died of.
const SHELL_SIGNAL_BASE: i32 = 128;

/// The classification of the end of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It succeeded.
    Success,
    /// It failed, retryable or not.
    Failure { retryable: bool },
    /// Baton ended it.
    Killed,
    /// The outcome is unknown.
    Lost,
}

impl Judgement {
    /// Judges one end.
    pub(super) fn of(spec: &ProcessSpec, end: RunEnd, stopped: Option<StopCause>) -> Self {
        let RunEnd::Observed(outcome) = end else {
            return Self::Lost;
        };
        match (outcome, stopped) {
            (_, Some(StopCause::TimedOut | StopCause::Unhealthy)) => {
                Self::Failure { retryable: true }
            }
            (Outcome::Exited(0), _) => Self::Success,
            (_, Some(StopCause::Ending)) => Self::Killed,
            (Outcome::Killed(KillCause::OutOfMemory), None) => Self::Failure { retryable: true },
            (Outcome::Killed(_), None) => Self::Killed,
            (outcome, None) if is_killed(spec, outcome) => Self::Killed,
            // Outputs belong to attempts; of one process there are none to be bad.
            (Outcome::LaunchFailed | Outcome::BadOutput, None) => Self::Failure { retryable: true },
            (Outcome::Exited(code), None) => Self::Failure {
                retryable: retryable(spec, code),
            },
            (Outcome::Signaled(signal), None) => Self::Failure {
                retryable: retryable(spec, SHELL_SIGNAL_BASE.saturating_add(signal)),
            },
        }
    }

    /// True if it counts towards `max_failures`.
    pub(super) const fn is_failure(self) -> bool {
        matches!(self, Self::Failure { .. })
    }
}

/// The row of the process machine that an end takes.
pub(super) fn process_event(
    spec: &ProcessSpec,
    end: RunEnd,
    stopped: Option<StopCause>,
) -> ProcessEvent {
    let RunEnd::Observed(outcome) = end else {
        return ProcessEvent::ProofLost;
    };
    match (outcome, stopped) {
        (Outcome::LaunchFailed, _) => ProcessEvent::LaunchFailed,
        (_, Some(StopCause::TimedOut | StopCause::Unhealthy)) => ProcessEvent::Failed,
        (Outcome::Exited(0), _) => ProcessEvent::Succeeded,
        (_, Some(StopCause::Ending)) => ProcessEvent::Killed,
        (Outcome::Killed(KillCause::OutOfMemory), None) => ProcessEvent::Failed,
        (Outcome::Killed(_), None) => ProcessEvent::Killed,
        (outcome, None) if is_killed(spec, outcome) => ProcessEvent::Killed,
        (Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::BadOutput, None) => {
            ProcessEvent::Failed
        }
    }
}

/// True if a person has killed it, and that does not count.
fn is_killed(spec: &ProcessSpec, outcome: Outcome) -> bool {
    spec.on_kill == OnKill::Rerun && outcome.is_outside_kill()
}

/// The next step of the process while its stage continues. `failures`
/// and `in_row` are the counts before this end.
pub(super) fn next(
    spec: &ProcessSpec,
    judgement: Judgement,
    failures: u64,
    in_row: u64,
    ended: Mono,
    random: u64,
) -> NextStep {
    let again = |backoff: Millis| NextStep::Restart {
        not_before: ended + spec.min_duration + backoff,
        backoff,
    };
    match judgement {
        Judgement::Success if spec.daemon => again(Millis(0)),
        Judgement::Success => NextStep::Finished,
        Judgement::Killed | Judgement::Lost => again(Millis(0)),
        Judgement::Failure { retryable } => {
            let limit = u64::from(spec.max_failures);
            let for_good = !retryable || (limit > 0 && failures + 1 >= limit);
            match (for_good, spec.ephemeral) {
                (false, _) => again(pause(spec.backoff, in_row, random)),
                (true, true) => NextStep::Finished,
                (true, false) => NextStep::Failed,
            }
        }
    }
}

/// The next step of the process when its stage is over.
pub(super) fn next_when_over(spec: &ProcessSpec, judgement: Judgement) -> NextStep {
    match judgement {
        Judgement::Success if !spec.daemon => NextStep::Finished,
        _ => NextStep::Dropped,
    }
}

/// The backoff after one more failure than `in_row`: grown, capped, then off by
/// chance within the jitter, but never longer than the cap.
fn pause(backoff: Option<Backoff>, in_row: u64, random: u64) -> Millis {
    let Some(backoff) = backoff else {
        return Millis(0);
    };
    let base = grown(backoff, in_row);
    let spread = base.scaled(u64::from(backoff.jitter_percent), 100);
    let low = base.saturating_sub(spread);
    let high = (base + spread).min(backoff.max);
    let width = high.saturating_sub(low).0.saturating_add(1);
    low + Millis(random % width)
}

/// The pause before jitter. The loop ends at the cap, or where growth stops.
fn grown(backoff: Backoff, in_row: u64) -> Millis {
    let mut pause = backoff.first.min(backoff.max);
    for _ in 0..in_row {
        let longer = pause
            .scaled(u64::from(backoff.growth_percent), 100)
            .min(backoff.max);
        if longer == pause {
            break;
        }
        pause = longer;
    }
    pause
}

fn retryable(spec: &ProcessSpec, code: i32) -> bool {
    spec.retryable
        .as_ref()
        .is_none_or(|codes| codes.contains(&code))
}
