//! Explanations of instances, as the API has them. The words for what one waits for are in
//! `baton_core::wait`.

use baton_core::scheduler::Standing;
use baton_core::triage::{self, Charge};
use baton_core::wait::{self, Exclusion, Wait};
use baton_model::api::{Explanation, FleetWait, WorkerGroup};
use baton_model::conditions::HaltReason;
use baton_model::fact::Fact;
use baton_model::ids::WorkerName;
use baton_model::state::UniversalState;
use baton_store::view::{Record, RecordedFact};

use super::views;
use crate::clock;

fn explanation(record: &Record, reason: &str, text: String) -> Explanation {
    let it = &record.instance;
    let path = views::path(it.id, it.id);
    Explanation {
        id: it.id.to_string(),
        state: it.state,
        reason: reason.to_owned(),
        text,
        class: None,
        class_waiting: None,
        ahead: None,
        first_waits_for: None,
        workers: Vec::new(),
        fleets: Vec::new(),
        worker: None,
        resource: None,
        short: None,
        until: None,
        estimate: None,
        links: views::links([("self", format!("{path}/explain")), ("instance", path)]),
    }
}

/// Explains how an instance ended, or is about to.
pub(super) fn ended(record: &Record, facts: &[RecordedFact]) -> Explanation {
    if !record.instance.state.is_terminal() {
        // The leader knows more than its store, which may have no room.
        let text =
            "its end is being recorded; `baton status` tells whether the scheduler can write";
        return explanation(record, "ended", text.to_owned());
    }
    let text = match &record.last {
        Some(last) => format!(
            "{}; its last attempt ended: {}{}",
            describe_end(record, facts),
            last.end,
            exhausted_retries(record)
        ),
        None => format!("{}; it was never started", describe_end(record, facts)),
    };
    explanation(record, "ended", text)
}

/// Explains who or what has cancelled an instance; `facts` are its timeline.
fn describe_end(record: &Record, facts: &[RecordedFact]) -> String {
    if record.instance.state != UniversalState::Halted {
        return "it has ended".to_owned();
    }
    let stop = facts.iter().rev().find_map(|it| match &it.fact {
        Fact::InstancesHalted { reason, .. } | Fact::StopRequested { reason, .. } => {
            Some((reason, &it.requested_by))
        }
        _ => None,
    });
    match stop {
        Some((Some(reason @ HaltReason::FailedMax(max)), _)) => {
            format!("it was cancelled because {reason} (--max-fails {max})")
        }
        Some((Some(reason), _)) => format!("it was cancelled because {reason}"),
        Some((None, Some(client))) => format!("it was cancelled by {client}"),
        _ if record.instance.spec.part.is_some() => "it was cancelled with its run".to_owned(),
        _ => "it was cancelled".to_owned(),
    }
}

/// Explains why it was not retried.
fn exhausted_retries(record: &Record) -> String {
    let it = &record.instance;
    let end = record.last.as_ref().map(|last| triage::charge(last.end));
    let budget = &it.spec.retry;
    match (it.state, end) {
        (UniversalState::Failed, Some(Charge::Loss)) => format!(
            "; its worker was lost {}, and `retry.losses` allows {}",
            times(it.losses),
            budget.losses_max
        ),
        (UniversalState::Failed, Some(Charge::Failure)) if budget.failures_max > 0 => format!(
            "; it has failed {}, and `retry.attempts` is {}",
            times(it.failures),
            budget.failures_max.saturating_add(1)
        ),
        _ => String::new(),
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Adds to the explanation of an instance that waits for a worker which ones are in trouble.
pub(super) fn with_troubles(
    mut explanation: Explanation,
    standing: &Standing,
    troubles: &[(WorkerName, String)],
) -> Explanation {
    let is_for_worker = standing.wait().is_some_and(Wait::is_for_worker);
    if let (true, Some((worker, trouble))) = (is_for_worker, troubles.first()) {
        let others = match troubles.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        let text = format!("; worker {worker} {trouble}{others}");
        explanation.text.push_str(&text);
    }
    explanation
}

/// Explains what an instance waits for, or where it runs.
pub(super) fn in_flight(record: &Record, standing: &Standing) -> Explanation {
    match standing {
        Standing::Waiting(wait) => waiting(record, wait),
        Standing::Running {
            worker, stopping, ..
        } => {
            let stopping = if *stopping {
                ", and is being stopped"
            } else {
                ""
            };
            let text = format!("it runs on worker {worker}{stopping}");
            Explanation {
                worker: Some(worker.to_string()),
                ..explanation(record, "running", text)
            }
        }
    }
}

fn waiting(record: &Record, wait: &Wait) -> Explanation {
    let reason = &wait.reason;
    let left = reason.left();
    let workers = wait.workers.iter();
    let directory = wait.directory.as_deref();
    Explanation {
        class: wait.class.map(|(class, _)| class.to_string()),
        class_waiting: wait.class.map(|(_, waiting)| waiting),
        ahead: (wait.ahead > 0).then_some(wait.ahead),
        first_waits_for: (wait.ahead > 0).then(|| wait.first_text()),
        workers: workers.map(|it| worker_group(it, directory)).collect(),
        fleets: wait.fleets.iter().map(fleet_wait).collect(),
        worker: wait.worker().map(ToString::to_string),
        resource: reason.resource(),
        short: reason.short(),
        until: left.map(|left| clock::now().wall.0.saturating_add(left.0)),
        ..explanation(record, wait.word(), wait.text())
    }
}

fn fleet_wait(it: &wait::FleetWait) -> FleetWait {
    FleetWait {
        fleet: it.fleet.to_string(),
        reason: it.word().to_owned(),
        text: it.to_string(),
        since: it.since().map(|at| at.0),
    }
}

fn worker_group(group: &wait::WorkerGroup, directory: Option<&str>) -> WorkerGroup {
    let exclusion = group.exclusion.as_ref();
    WorkerGroup {
        reason: exclusion.map_or("none", Exclusion::word).to_owned(),
        workers: group.workers as u64,
        example: group.example.to_string(),
        text: group.describe(directory),
        remedy: group.remedy(directory),
    }
}
