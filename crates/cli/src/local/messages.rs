//! What happens in a task, in English.

use baton_core::plan::{Plan, Wait};
use baton_model::task::{
    Condition, LastRun, NextStep, PlanChange, PlanEvent, ProcessNo, RunEnd, RunNo, StopCause,
};
use baton_model::time::{Millis, Now};

use crate::output::clean;
use crate::time::span;

/// The name of a process; its number if the task has no such process.
pub(super) fn name(plan: &Plan, no: ProcessNo) -> String {
    let found = plan.spec().processes.get(no.index());
    found.map_or_else(|| no.to_string(), |process| clean(&process.name.0))
}

/// One change of a task.
pub(super) fn event(plan: &Plan, event: &PlanEvent) -> String {
    let about = |process: &ProcessNo, run: &RunNo, what: &str| {
        format!("{}: run {} {what}", name(plan, *process), run.0)
    };
    match &event.change {
        PlanChange::RunOrdered { process, run } => about(process, run, "is being launched"),
        PlanChange::RunStarted {
            process,
            run,
            identity,
            ..
        } => match identity {
            Some(identity) => about(process, run, &format!("started, pid {}", identity.pid)),
            None => about(process, run, "started"),
        },
        PlanChange::RunReady { process, run } => about(process, run, "is ready"),
        PlanChange::RunStopping {
            process,
            run,
            cause,
        } => about(process, run, &format!("is told to stop: {}", stop(*cause))),
        PlanChange::RunEnded {
            process,
            run,
            end,
            failure,
            next,
            ..
        } => about(process, run, &ended(event, *end, *failure, next)),
        PlanChange::CleaningBegun { verdict, budget } => format!(
            "the task will end as {verdict}: what runs is stopped, {} for that and for the final processes",
            span(*budget)
        ),
        PlanChange::DeadlineMoved { deadline } => format!(
            "the end is wanted sooner: in {}",
            span(deadline.since(event.at.mono))
        ),
        PlanChange::BudgetMarked => "the time used for ending was noted".to_owned(),
        PlanChange::KillBegun => "everything that is left is killed".to_owned(),
        PlanChange::FinalizingBegun => "the final processes may run".to_owned(),
        PlanChange::FinalizersStopping => {
            "the final processes that still run are stopped".to_owned()
        }
        // The last record there is: nothing follows the end.
        PlanChange::AttemptEnded => format!("the task has ended: {}", plan.state()),
        PlanChange::AttemptLost => {
            "the task is given up: what became of it cannot be proved".to_owned()
        }
        PlanChange::Resumed { boot_changed } => {
            if *boot_changed {
                "the runner goes on, after a reboot of the host".to_owned()
            } else {
                "the runner goes on from here".to_owned()
            }
        }
    }
}

fn ended(event: &PlanEvent, end: RunEnd, failure: bool, next: &NextStep) -> String {
    let counted = if failure { ", a failure" } else { "" };
    let then = match next {
        NextStep::Restart { not_before, .. } => match not_before.since(event.at.mono) {
            Millis(0) => "; it may run again at once".to_owned(),
            pause => format!("; it may run again in {}", span(pause)),
        },
        NextStep::Finished => "; it has done its part".to_owned(),
        NextStep::Failed => "; it has failed for good".to_owned(),
        NextStep::Dropped => String::new(),
    };
    format!("ended: {end}{counted}{then}")
}

/// Why a run was told to stop.
pub(super) const fn stop(cause: StopCause) -> &'static str {
    match cause {
        StopCause::TimedOut => "it ran longer than its timeout",
        StopCause::Unhealthy => "its health check failed",
        StopCause::Ending => "its part of the task is over",
    }
}

/// How the last run of a process ended.
pub(super) fn last(last: &LastRun) -> String {
    match last.stopped {
        Some(StopCause::TimedOut) => format!("{} (timeout)", last.end),
        Some(StopCause::Unhealthy) => format!("{} (unhealthy)", last.end),
        Some(StopCause::Ending) | None => last.end.to_string(),
    }
}

/// Why a process does not run.
pub(super) fn wait(plan: &Plan, wait: &Wait, now: Now) -> String {
    match wait {
        Wait::Dependencies(whom) => format!("waits until {}", conditions(plan, whom)),
        Wait::Never(whom) => format!("never runs: it would wait until {}", conditions(plan, whom)),
        Wait::MinDuration { until } => {
            format!(
                "runs again in {}: min_duration",
                span(until.since(now.mono))
            )
        }
        Wait::Backoff { until } => {
            format!("runs again in {}: backoff", span(until.since(now.mono)))
        }
        Wait::Concurrency | Wait::Launch | Wait::Turn | Wait::Over => wait.to_string(),
    }
}

fn conditions(plan: &Plan, whom: &[(ProcessNo, Condition)]) -> String {
    let one = |(no, condition): &(ProcessNo, Condition)| {
        format!("{} {}", name(plan, *no), done(*condition))
    };
    whom.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// What somebody waits for, as in "until x …".
const fn done(condition: Condition) -> &'static str {
    match condition {
        Condition::Success => "has succeeded",
        Condition::Exit => "has ended",
        Condition::Started => "is started",
        Condition::Healthy => "is ready",
    }
}

/// What somebody comes after, as in "after x …"; the usual needs no word.
pub(super) const fn arrow(condition: Condition) -> &'static str {
    match condition {
        Condition::Success => "",
        Condition::Exit => " (ended either way)",
        Condition::Started => " (started)",
        Condition::Healthy => " (ready)",
    }
}
