//! Wait reasons as text.

use baton_core::limits::{Limit, LimitKey};
use baton_core::placement::{self, Exclusion, Wait, WaitReason};
use baton_core::scheduler::{Reason, Unsure};
use baton_core::triage::{self, Charge};
use baton_model::api::{Explanation, WorkerGroup};
use baton_model::conditions::{DependencyRule, HaltReason};
use baton_model::fact::Fact;
use baton_model::ids::WorkerName;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
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
        worker: None,
        resource: None,
        short: None,
        until: None,
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
    reason: &Reason,
    troubles: &[(WorkerName, String)],
) -> Explanation {
    if let (Reason::Placement(_), Some((worker, trouble))) = (reason, troubles.first()) {
        let others = match troubles.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        let text = format!("; worker {worker} {trouble}{others}");
        explanation.text.push_str(&text);
    }
    explanation
}

/// Explains what an instance waits for.
pub(super) fn waiting(record: &Record, reason: &Reason) -> Explanation {
    match reason {
        Reason::Backoff { left } => {
            let text = format!(
                "backoff after a failure: it is retried automatically in {}",
                duration(*left)
            );
            until(explanation(record, "resting", text), *left)
        }
        Reason::StoreCopied => explanation(
            record,
            "store-copied",
            "the store is a copy, such as a restored backup: nothing is placed for a lease time, \
             because attempts that it does not know may be running; no action is needed"
                .to_owned(),
        ),
        Reason::InitialWait => explanation(
            record,
            "initial-wait",
            "the scheduler has just started without a durable store: it waits for workers of its \
             predecessor; no action is needed"
                .to_owned(),
        ),
        Reason::After(dependency) => {
            let upstream = dependency.upstream;
            let end = match dependency.rule {
                DependencyRule::Ok => "succeed",
                DependencyRule::Fail => "fail",
                DependencyRule::Any => "end",
            };
            explanation(record, "after", format!("it waits for {upstream} to {end}"))
        }
        Reason::Turn => {
            let it = &record.instance.spec;
            let text = format!(
                "max_instances of {}/{} is reached: it starts when its turn comes",
                it.owner, it.name
            );
            explanation(record, "turn", text)
        }
        Reason::Placement(wait) => unplaced(record, wait),
        Reason::Confirmation { worker } => Explanation {
            worker: Some(worker.to_string()),
            ..explanation(
                record,
                "confirmation",
                format!("it was assigned to worker {worker}, and has not started there yet"),
            )
        },
        Reason::Unsure(unsure) => unsure_lease(record, unsure),
        Reason::Running {
            worker, stopping, ..
        } => {
            let stopping = if *stopping {
                ", and is being stopped"
            } else {
                ""
            };
            Explanation {
                worker: Some(worker.to_string()),
                ..explanation(
                    record,
                    "running",
                    format!("it runs on worker {worker}{stopping}"),
                )
            }
        }
    }
}

fn until(explanation: Explanation, left: Millis) -> Explanation {
    Explanation {
        until: Some(clock::now().wall.0.saturating_add(left.0)),
        ..explanation
    }
}

fn unsure_lease(record: &Record, unsure: &Unsure) -> Explanation {
    let Unsure {
        worker,
        health,
        left,
    } = unsure;
    let health = match health {
        Some(health) => format!("is {health}"),
        None => "has not reconnected".to_owned(),
    };
    let hint = match left {
        Some(left) => format!(
            "it may go on there; if the worker stays silent for {} more, the instance is retried elsewhere",
            duration(*left)
        ),
        None => format!(
            "it may go on there, and only proof can resolve this: bring worker {worker} back, or, if \
             it is gone for good, run `baton forget {worker}`"
        ),
    };
    let text =
        format!("it is unknown whether it runs: worker {worker}, which holds it, {health}; {hint}");
    let explanation = Explanation {
        worker: Some(worker.to_string()),
        ..explanation(record, "unsure", text)
    };
    match left {
        Some(left) => until(explanation, *left),
        None => explanation,
    }
}

/// Explains why it is not placed, with hints, and counts every worker.
fn unplaced(record: &Record, wait: &Wait) -> Explanation {
    let cwd = record.instance.spec.paths.cwd.as_deref();
    let mut it = unplaced_first(record, &wait.reason);
    let lasting = wait.workers.iter().filter(|group| {
        let exclusion = group.exclusion.as_ref();
        exclusion.is_some_and(Exclusion::is_lasting)
    });
    for group in lasting {
        it.text = format!("{}; {}", it.text, group.describe(cwd));
        if let Some(remedy) = group.remedy(cwd) {
            it.text = format!("{}: {remedy}", it.text);
        }
    }
    if wait.ahead > 0 {
        it.reason = "behind".to_owned();
        let ahead = match wait.ahead {
            1 => "1 instance of the same class is ahead of it".to_owned(),
            ahead => format!("{ahead} instances of the same class are ahead of it"),
        };
        let text = match wait.reason {
            WaitReason::Nothing => format!("{ahead}; it starts when its turn comes"),
            _ => format!("{}; {ahead}", it.text),
        };
        it.first_waits_for = Some(std::mem::replace(&mut it.text, text));
        it.ahead = Some(wait.ahead);
    }
    if let (WaitReason::Excluded(_), Some(nearest)) = (&wait.reason, wait.workers.first()) {
        it.worker = Some(nearest.example.to_string());
    }
    if let Some((class, waiting)) = wait.class {
        it.class = Some(class.to_string());
        it.class_waiting = Some(waiting);
    }
    let groups = wait.workers.iter().map(|group| worker_group(group, cwd));
    it.workers = groups.collect();
    it
}

fn worker_group(group: &placement::WorkerGroup, cwd: Option<&str>) -> WorkerGroup {
    let exclusion = group.exclusion.as_ref();
    WorkerGroup {
        reason: exclusion.map_or("none", Exclusion::word).to_owned(),
        workers: group.workers as u64,
        example: group.example.to_string(),
        text: group.describe(cwd),
        remedy: group.remedy(cwd),
    }
}

/// Explains why the first of its class is not placed, with a hint.
fn unplaced_first(record: &Record, waiting: &WaitReason) -> Explanation {
    let plain =
        |reason: &str, hint: &str| explanation(record, reason, format!("{waiting}; {hint}"));
    match waiting {
        WaitReason::NoWorker => plain("no-worker", "start one with `baton worker`"),
        WaitReason::Excluded(Exclusion::TooSmall {
            resource,
            asked,
            has,
        }) => Explanation {
            resource: Some(resource.clone()),
            short: Some(asked - has),
            ..explanation(record, "never-fits", waiting.to_string())
        },
        WaitReason::Excluded(Exclusion::Directory | Exclusion::Constraint(_)) => {
            explanation(record, "no-match", waiting.to_string())
        }
        WaitReason::Excluded(_) => explanation(record, "no-worker", waiting.to_string()),
        WaitReason::Room {
            resource,
            worker,
            short,
            ..
        } => Explanation {
            worker: Some(worker.to_string()),
            resource: Some(resource.clone()),
            short: Some(*short),
            ..plain(
                "room",
                "it starts when work there ends, or another worker joins",
            )
        },
        WaitReason::Busy { worker } => Explanation {
            worker: Some(worker.to_string()),
            ..plain("worker-busy", "it starts there in a moment")
        },
        WaitReason::Limit { key, limit, asked } => Explanation {
            resource: Some(key.to_string()),
            short: Some(asked.saturating_sub(limit.free())),
            ..plain("limit", &limit_hint(key, limit, *asked))
        },
        WaitReason::Reserved { what, .. } => Explanation {
            resource: Some(what.clone()),
            ..plain("reserved", "it starts after that, or when a worker joins")
        },
        WaitReason::Nothing => explanation(record, "next", "it is about to be placed".to_owned()),
    }
}

fn limit_hint(key: &LimitKey, limit: &Limit, asked: u64) -> String {
    match key {
        LimitKey::Array(_) => "it starts when another element of its array has ended".to_owned(),
        LimitKey::Entry(_) | LimitKey::Backfill(_) | LimitKey::Run(..) => {
            "it starts when its turn comes".to_owned()
        }
        LimitKey::Named(name) if asked > limit.total => {
            format!("raise it with `baton limits set {name} {asked}`")
        }
        LimitKey::Named(name) => format!(
            "it starts when others release it; `baton limits set {name} N` changes the total"
        ),
    }
}

/// A duration, rounded up to a readable unit.
fn duration(span: Millis) -> String {
    match span.0.div_ceil(1_000) {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3_600)),
    }
}
