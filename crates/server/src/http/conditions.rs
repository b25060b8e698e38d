//! The conditions of a submission: what it starts after, and the limits of an array.
//!
//! The leader knows live work only, so the states of ended instances are read from the store. An end
//! between that and the submission is not missed: the leader remembers the ends since a mark, and all
//! before the mark is durable before the store is read. A submission without dependencies needs none.

use axum::http::StatusCode;
use baton_core::scheduler::{Command, EndMark, Scheduler, SubmitError};
use baton_model::api::{FieldProblem, Submit};
use baton_model::conditions::{Conditions, Dependency, HaltReason, Subject};
use baton_model::state::UniversalState;
use serde_json::Value;

use super::app::App;
use super::owners;
use super::problem::{Answer, Fault};
use crate::access::Caller;
use crate::limits::DEPENDENCIES_MAX;

/// Reads the conditions of a submission, and checks whether they can be met. The leader refuses one
/// that cannot, unless it is a repetition of an accepted one. A caller that is limited to an owner
/// names work of that owner only. The mark is that of its dependencies, if it has any.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    submit: &Submit<Value>,
    is_array: bool,
) -> Answer<(Conditions, Option<EndMark>)> {
    let conditions = parse(submit, is_array)?;
    if conditions.after.is_empty() {
        return Ok((conditions, None));
    }
    if let Some(owner) = &caller.owner {
        for dependency in &conditions.after {
            owners::check_upstream(app, owner, dependency.upstream).await?;
        }
    }
    let mut mark = app.query(Scheduler::end_mark).await?;
    app.command(None, Command::Sync).await?;
    for dependency in &conditions.after {
        if !can_be_met(app, *dependency).await? {
            mark.violated = Some(*dependency);
        }
    }
    Ok((conditions, Some(mark)))
}

fn parse(submit: &Submit<Value>, is_array: bool) -> Answer<Conditions> {
    if submit.after.len() > DEPENDENCIES_MAX {
        let message = format!("a submission starts after at most {DEPENDENCIES_MAX} others");
        return Err(refused("after", message, "name a range, such as i1..i9"));
    }
    let mut after = Vec::with_capacity(submit.after.len());
    for text in &submit.after {
        let dependency: Dependency = text
            .parse()
            .map_err(|error| refused("after", format!("{error}"), "write i12, i1..i9 or r3"))?;
        after.push(dependency);
    }
    let limits = [
        ("maxConcurrent", submit.max_concurrent),
        ("maxFails", submit.max_fails),
    ];
    for (field, limit) in limits {
        if limit == Some(0) {
            let message = format!("{field} is 0");
            return Err(refused(field, message, "write at least 1"));
        }
        if limit.is_some() && !is_array {
            let message = format!("{field} limits the elements of an array, and there is none");
            return Err(refused(field, message, "submit an array, or leave it out"));
        }
    }
    Ok(Conditions {
        after,
        instances: None,
        concurrent_max: submit.max_concurrent,
        failed_max: submit.max_fails,
    })
}

/// Checks that the upstream work is there; false if it has ended otherwise than it must.
async fn can_be_met(app: &App, dependency: Dependency) -> Answer<bool> {
    let unknown = |what: String| {
        let hint = "`baton history` and `baton runs` list what there is";
        refused("after", format!("{what} does not exist"), hint)
    };
    let ends: Vec<bool> = match dependency.upstream {
        Subject::Instances { first, last } => {
            let counts = app.read(move |store| store.tally(first, last)).await?;
            let found: u64 = counts.values().sum();
            if found < (last.0 - first.0).saturating_add(1) {
                return Err(unknown(dependency.upstream.to_string()));
            }
            let states = counts.into_keys();
            states.filter_map(end).collect()
        }
        Subject::Run(run) => {
            let state = move |leader: &Scheduler| {
                let head = leader.ledger().runs().head(run);
                head.map(|head| head.state)
            };
            let state = app.query(state).await?;
            let state = state.ok_or_else(|| unknown(run.to_string()))?;
            end(state).into_iter().collect()
        }
    };
    Ok(ends.iter().all(|is_done| dependency.rule.allows(*is_done)))
}

/// Whether an ended state is DONE; none if it has not ended.
fn end(state: UniversalState) -> Option<bool> {
    let is_done = state == UniversalState::Done;
    state.is_terminal().then_some(is_done)
}

/// The fault of a submission that the leader has refused.
pub(super) fn fault(error: SubmitError) -> Option<Fault> {
    match error {
        SubmitError::NeverMet(dependency) => Some(never_met(dependency)),
        SubmitError::Outdated => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Some(Fault::new(status, "busy", error.to_string()))
        }
        SubmitError::TooManyLimits => {
            let hint = "wait until some of them have ended";
            Some(refused("maxConcurrent", error.to_string(), hint))
        }
        SubmitError::NeedsStore | SubmitError::KeyUsed(_) => None,
    }
}

fn never_met(dependency: Dependency) -> Fault {
    let message = format!(
        "it would never start: {}",
        HaltReason::Dependency(dependency)
    );
    refused("after", message, "leave it out, or add `:any`")
}

fn refused(field: &str, message: String, hint: &str) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(message, vec![at])
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::driver::event::Event;
    use crate::http::testing;

    /// The leader is asked once, for the submission itself.
    #[tokio::test]
    async fn a_submission_without_dependencies_needs_no_mark() {
        let app = testing::app();
        let (release, held) = mpsc::channel::<()>();
        // The driver is busy until the test ends.
        app.0.inbox.send(Event::Query(Box::new(move |_| {
            let _ = held.recv();
        })));
        let submit = |after: &[&str]| Submit {
            after: after.iter().map(|it| (*it).to_owned()).collect(),
            ..Submit::default()
        };
        let caller = Caller::ANONYMOUS;
        let mut task = Context::from_waker(Waker::noop());
        let plain = submit(&[]);
        let mut plain = pin!(read(&app, &caller, &plain, false));
        let answer = plain.as_mut().poll(&mut task);
        assert!(matches!(answer, Poll::Ready(Ok((_, None)))));
        let dependent = submit(&["i1"]);
        let mut dependent = pin!(read(&app, &caller, &dependent, false));
        assert!(dependent.as_mut().poll(&mut task).is_pending());
        drop(release);
    }
}
