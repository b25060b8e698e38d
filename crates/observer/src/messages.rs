//! Descriptions of a task's events and states.

use baton_core::plan::{Plan, Wait};
use baton_model::task::{
    Condition, LastRun, NextStep, PlanChange, PlanEvent, ProcessNo, RunEnd, RunNo, StopCause,
};
use baton_model::time::{Millis, Now};
use baton_web::text::{clean, span};

/// Name of a process; its number if the task has no such process.
#[must_use]
pub fn name(plan: &Plan, no: ProcessNo) -> String {
    let found = plan.spec().processes.get(no.index());
    found.map_or_else(|| no.to_string(), |process| clean(&process.name.0))
}

/// Describes an event of a task.
#[must_use]
pub fn event(plan: &Plan, event: &PlanEvent) -> String {
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
        } => about(process, run, &format!("is being stopped: {}", stop(*cause))),
        PlanChange::RunEnded {
            process,
            run,
            end,
            failure,
            next,
            ..
        } => about(process, run, &ended(event, *end, *failure, next)),
        PlanChange::CleaningBegun { verdict, budget } => format!(
            "the task will end as {verdict}: stopping processes, {} for that and for the final processes",
            span(*budget)
        ),
        PlanChange::DeadlineMoved { deadline } => format!(
            "the deadline was moved: {} left",
            span(deadline.since(event.at.mono))
        ),
        PlanChange::BudgetMarked => "the time used for ending was recorded".to_owned(),
        PlanChange::KillBegun => "killing all remaining processes".to_owned(),
        PlanChange::FinalizingBegun => "the final processes may start".to_owned(),
        PlanChange::FinalizersStopping => "stopping the final processes that still run".to_owned(),
        // The last record: nothing follows the end.
        PlanChange::AttemptEnded => format!("the task has ended: {}", plan.state()),
        PlanChange::AttemptLost => "the task is lost: its outcome cannot be determined".to_owned(),
        PlanChange::Resumed { boot_changed } => {
            if *boot_changed {
                "the runner resumes the task after a reboot of the host".to_owned()
            } else {
                "the runner resumes the task".to_owned()
            }
        }
    }
}

fn ended(event: &PlanEvent, end: RunEnd, failure: bool, next: &NextStep) -> String {
    let counted = if failure { ", a failure" } else { "" };
    let then = match next {
        NextStep::Restart { not_before, .. } => match not_before.since(event.at.mono) {
            Millis(0) => "; it may run again now".to_owned(),
            pause => format!("; it may run again in {}", span(pause)),
        },
        NextStep::Finished => "; it is finished".to_owned(),
        NextStep::Failed => "; it has failed permanently".to_owned(),
        NextStep::Dropped => String::new(),
    };
    format!("ended: {end}{counted}{then}")
}

/// Describes why a run was stopped.
#[must_use]
pub const fn stop(cause: StopCause) -> &'static str {
    match cause {
        StopCause::TimedOut => "it exceeded its timeout",
        StopCause::Unhealthy => "its health check failed",
        StopCause::Ending => "its stage of the task has ended",
    }
}

/// Describes how the last run of a process ended.
#[must_use]
pub fn last(last: &LastRun) -> String {
    match last.stopped {
        Some(StopCause::TimedOut) => format!("{} (timeout)", last.end),
        Some(StopCause::Unhealthy) => format!("{} (unhealthy)", last.end),
        Some(StopCause::Ending) | None => last.end.to_string(),
    }
}

/// Describes why a process does not run.
#[must_use]
pub fn wait(plan: &Plan, wait: &Wait, now: Now) -> String {
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
        Wait::Concurrency | Wait::Launch | Wait::Turn | Wait::Over | Wait::NotAgain => {
            wait.to_string()
        }
    }
}

fn conditions(plan: &Plan, whom: &[(ProcessNo, Condition)]) -> String {
    let one = |(no, condition): &(ProcessNo, Condition)| {
        format!("{} {}", name(plan, *no), done(*condition))
    };
    whom.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// A condition in a sentence "waits until x …".
const fn done(condition: Condition) -> &'static str {
    match condition {
        Condition::Success => "has succeeded",
        Condition::Exit => "has ended",
        Condition::Started => "is started",
        Condition::Healthy => "is ready",
    }
}

/// A condition in a phrase "after x …"; empty for the default.
#[must_use]
pub const fn arrow(condition: Condition) -> &'static str {
    match condition {
        Condition::Success => "",
        Condition::Exit => " (ended either way)",
        Condition::Started => " (started)",
        Condition::Healthy => " (ready)",
    }
}
