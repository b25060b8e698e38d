//! Facts and reasons as sentences.

use baton_core::placement::WaitReason;
use baton_core::scheduler::{Reason, Unsure};
use baton_core::triage::{self, Charge};
use baton_model::api::Explanation;
use baton_model::fact::{Condemnation, Fact};
use baton_model::library::TriggerSource;
use baton_model::schedule::TickVerdict;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use baton_model::workflow::{HaltCause, HaltMode};
use baton_store::view::Record;

use super::views;
use crate::clock;

/// What happened, as one line.
pub(super) fn fact(fact: &Fact) -> String {
    match fact {
        Fact::InstancesSubmitted { first, last, .. } if first == last => "accepted".to_owned(),
        Fact::InstancesSubmitted { first, last, .. } => {
            format!("accepted as one of {}", last.0 - first.0 + 1)
        }
        Fact::LeaseGranted { lease, holder } => {
            let number = lease.attempt.number.0;
            format!("attempt {number} was given to worker {}", holder.worker)
        }
        Fact::AttemptAdopted { lease, holder, .. } => {
            let number = lease.attempt.number.0;
            format!("attempt {number} was found on worker {}", holder.worker)
        }
        Fact::AttemptConfirmed { lease } => {
            format!("attempt {} was started", lease.attempt.number.0)
        }
        Fact::AttemptEnded {
            lease,
            end,
            verdict,
            ..
        } => {
            let number = lease.attempt.number.0;
            format!("attempt {number} ended: {end}; {}", verdict.word())
        }
        Fact::StopRequested { .. } => "somebody wants it stopped".to_owned(),
        Fact::InstancesHalted { .. } => "stopped before it had started".to_owned(),
        Fact::InstanceRetried { .. } => "to be tried again, by hand".to_owned(),
        Fact::InstanceTriggered {
            source: TriggerSource::Manual,
            ..
        } => "triggered by hand".to_owned(),
        Fact::InstanceTriggered {
            source: TriggerSource::Remote,
            ..
        } => "triggered over HTTP".to_owned(),
        Fact::WorkerDrained { worker, drained } => match drained {
            true => format!("worker {worker} gets no more work"),
            false => format!("worker {worker} gets work again"),
        },
        Fact::LeaseTimeSet { lease } => format!("leases last {}", span(*lease)),
        Fact::WorkerCondemned {
            worker,
            incarnation,
            reason,
        } => format!(
            "worker {worker} ({incarnation}) is given up: {}",
            given_up_for(*reason)
        ),
        Fact::TaskDefined { name, revision, .. } => {
            format!("task {name} is at revision {}", revision.0)
        }
        Fact::TaskRemoved { .. } => "a task was taken out of the library".to_owned(),
        Fact::TickRecorded { verdict, count, .. } => tick(*verdict, *count),
        Fact::RunRegistered {
            run, plan, open, ..
        } => match open {
            true => format!("run {run} of {} is being defined", plan.name),
            false => format!("run {run} of {} was accepted", plan.name),
        },
        Fact::RunExtended { run, .. } => format!("run {run} was given more tasks"),
        Fact::RunDefined { run, .. } => format!("run {run} is defined"),
        Fact::RunAdvanced { run, to } => format!("run {run} is {}", to.word()),
        Fact::RunHalting { run, mode, cause } => {
            let why = match cause {
                HaltCause::Requested => "somebody wants it",
                HaltCause::TimedOut => "it took too long",
            };
            match mode {
                HaltMode::Drain => format!("run {run} lets nothing more begin: {why}"),
                HaltMode::Kill => format!("run {run} is killed: {why}"),
            }
        }
        Fact::RunEnded {
            run,
            generation,
            state,
        } => format!("run {run} is {}, generation {}", state.word(), generation.0),
        Fact::RunResumed {
            run, generation, ..
        } => format!("run {run} goes on, generation {}", generation.0),
    }
}

/// What became of due times.
pub(super) fn tick(verdict: TickVerdict, count: u64) -> String {
    match verdict {
        TickVerdict::Launch => "launched on time".to_owned(),
        TickVerdict::Late { by } => format!("launched {by} late"),
        TickVerdict::Skip(reason) if count == 1 => format!("skipped: {reason}"),
        TickVerdict::Skip(reason) => format!("{count} due times skipped: {reason}"),
    }
}

const fn given_up_for(why: Condemnation) -> &'static str {
    match why {
        Condemnation::Unhealthy => "it was unhealthy for too long",
        Condemnation::Displaced => "another has taken its seat",
        Condemnation::SeatTaken => "another holds the seat that it asked for",
        Condemnation::Forgotten => "an operator says that it is gone",
        Condemnation::GaveItselfUp => "it has given itself up",
    }
}

fn explanation(record: &Record, reason: &str, text: String) -> Explanation {
    let it = &record.instance;
    let path = views::path(it.id, it.id);
    Explanation {
        id: it.id.to_string(),
        state: it.state,
        reason: reason.to_owned(),
        text,
        worker: None,
        resource: None,
        short: None,
        until: None,
        links: views::links([("self", format!("{path}/explain")), ("instance", path)]),
    }
}

/// Why an instance is over, or on the way to its end.
pub(super) fn ended(record: &Record) -> Explanation {
    let it = &record.instance;
    let end = record.last.as_ref().map(|last| last.end.to_string());
    let over = match it.state.is_terminal() {
        true => "it is over",
        false => "it goes on by itself in a moment",
    };
    let text = match end {
        Some(end) => format!("{over}; its last attempt ended: {end}{}", given_up(record)),
        None => format!("{over}; it was never started"),
    };
    explanation(record, "ended", text)
}

/// Why it was not tried again.
fn given_up(record: &Record) -> String {
    let it = &record.instance;
    let end = record.last.as_ref().map(|last| triage::charge(last.end));
    let budget = &it.spec.retry;
    match (it.state, end) {
        (UniversalState::Failed, Some(Charge::Loss)) => format!(
            "; its worker was lost {}, and `retry.losses` forgives {}",
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

/// What an instance waits for.
pub(super) fn waiting(record: &Record, reason: &Reason) -> Explanation {
    match reason {
        Reason::Backoff { left } => {
            let text = format!(
                "it rests for {} more after a failure, and is then tried again by itself",
                span(*left)
            );
            until(explanation(record, "resting", text), *left)
        }
        Reason::InitialWait => explanation(
            record,
            "initial-wait",
            "the scheduler has no store and was just started: it waits for the workers of the one \
             before; nothing has to be done"
                .to_owned(),
        ),
        Reason::Placement(waiting) => place(record, waiting),
        Reason::Confirmation { worker } => Explanation {
            worker: Some(worker.to_string()),
            ..explanation(
                record,
                "confirmation",
                format!("it was given to worker {worker}, which has not confirmed it yet"),
            )
        },
        Reason::Unsure(unsure) => doubt(record, unsure),
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

fn doubt(record: &Record, unsure: &Unsure) -> Explanation {
    let Unsure {
        worker,
        health,
        left,
    } = unsure;
    let health = match health {
        Some(health) => format!("is {health}"),
        None => "has not come back".to_owned(),
    };
    let hint = match left {
        Some(left) => format!(
            "if nothing is heard for {} more it is tried on another worker",
            span(*left)
        ),
        None => format!(
            "only a proof ends it: bring worker {worker} back, or if it is gone for ever say \
             `baton forget {worker}`"
        ),
    };
    let text = format!(
        "nobody can say whether it runs: worker {worker}, which holds it, {health}; {hint}"
    );
    let explanation = Explanation {
        worker: Some(worker.to_string()),
        ..explanation(record, "unsure", text)
    };
    match left {
        Some(left) => until(explanation, *left),
        None => explanation,
    }
}

/// Why it is not placed, and what would change that.
fn place(record: &Record, waiting: &WaitReason) -> Explanation {
    let plain =
        |reason: &str, hint: &str| explanation(record, reason, format!("{waiting}; {hint}"));
    match waiting {
        WaitReason::NoWorker { closed: 0 } => plain("no-worker", "start one with `baton worker`"),
        WaitReason::NoWorker { .. } => plain(
            "no-worker",
            "`baton workers` shows why; undrain one with `baton drain --undo`, or start another",
        ),
        WaitReason::NoMatch { .. } => plain(
            "no-match",
            "start a worker with such labels, or submit it again with other constraints",
        ),
        WaitReason::NeverFits {
            resource,
            worker,
            asked,
            has,
        } => Explanation {
            worker: Some(worker.to_string()),
            resource: Some(resource.clone()),
            short: Some(asked - has),
            ..plain(
                "never-fits",
                "start a larger worker, or submit it again with less",
            )
        },
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
        WaitReason::Limit {
            name,
            total,
            asked,
            used,
        } => {
            let free = u64::try_from(u128::from(*total).saturating_sub(*used)).unwrap_or(0);
            Explanation {
                resource: Some(name.clone()),
                short: Some(asked.saturating_sub(free)),
                ..plain(
                    "limit",
                    "it starts when others give it back; the scheduler's --limit sets the total",
                )
            }
        }
        WaitReason::Reserved { what, .. } => Explanation {
            resource: Some(what.clone()),
            ..plain("reserved", "it starts after that, or when a worker joins")
        },
        WaitReason::Behind { .. } => plain("behind", "it starts when its turn comes"),
        WaitReason::Nothing => explanation(record, "next", "it is about to be placed".to_owned()),
    }
}

/// A span as people say it.
fn span(span: Millis) -> String {
    match span.0.div_ceil(1_000) {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3_600)),
    }
}
