//! Submissions, single instances, and ranges.

use std::time::{Duration, Instant};

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_core::scheduler::{Command, KillError, Reply, RetryError, SubmitError};
use baton_core::wait::Wait;
use baton_files::Binding;
use baton_model::api::{
    Explanation, Instance, KillCounts, KillReply, RangeSummary, RetryCounts, Submit,
};
use baton_model::ids::{AttemptNo, InstanceId};
use baton_model::library::{Execution, TaskName};
use baton_model::state::UniversalState;
use baton_store::view::Record;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::app::App;
use super::arrays::Shape;
use super::conditional::{tagged, tagged_by};
use super::details::{self, InstanceWithOutputs};
use super::extract::{self, Ids, Parameters, Target};
#[cfg(feature = "openapi")]
use super::openapi::answers::{CancelReply, OfInstances, SubmitReply, Unchanged};
use super::problem::{Answer, Fault};
use super::response::{one_of, respond};
use super::{arrays, bulk, conditions, idempotency, messages, owners, ranges, trace, views};
use crate::access::Caller;
use crate::clock;
use crate::driver::event::{Event, Unanswered};
use crate::limits::TIMELINE_EVENTS_MAX;
use crate::shutdown::until_shutdown;

/// An instance, or a summary of a range.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
enum InstanceOrRange {
    /// A single instance.
    One(Box<InstanceWithOutputs>),
    /// Number of instances by state.
    Range(RangeSummary),
}

one_of!(InstanceOrRange: One | Range);

/// A retried instance, or counts of ranges.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
enum InstanceOrCounts {
    /// The single instance.
    One(Box<Instance>),
    /// Numbers of instances, for ranges.
    Counts(RetryCounts),
}

one_of!(InstanceOrCounts: One | Counts);

/// A killed attempt, or counts of ranges.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
enum KillOrCounts {
    /// The attempt of a single instance.
    One(KillReply),
    /// Numbers of instances, for ranges.
    Counts(KillCounts),
}

one_of!(KillOrCounts: One | Counts);

/// Submit a task, or an array of it
///
/// Returns when the submission is durable.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/instances/",
    tag = "instances",
    operation_id = "submit",
    params(
        ("idempotency-key" = Option<String>, Header, description = "A key chosen by the client, at most 255 characters: a repeated request with the same key creates nothing new, and returns the same ids."),
        ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context): the spans of what is created are its children. A malformed one is ignored."),
    ),
    request_body = Submit<Value>,
    responses(
        (status = 201, description = "Accepted and durable.", body = SubmitReply, headers(("location" = String, description = "The control URL."))),
        (status = 422, description = "The task is invalid; `errors` lists every problem. Or the Idempotency-Key was used for another request.")
    )
))]
pub(super) async fn submit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer<Response> {
    let key = idempotency::text(request.headers())?.map(str::to_owned);
    let trace = trace::parent(request.headers());
    let body = extract::bytes(request).await?;
    let mut submit: Submit<Value> = extract::parse(&body)?;
    if let Some(owner) = &caller.owner {
        owners::submit(owner, &mut submit.file)?;
    }
    let shape = arrays::shape(&mut submit)?;
    let is_array = !matches!(shape, Shape::One);
    let (conditions, mark) = conditions::read(&app, &caller, &submit, is_array).await?;
    let file = baton_files::from_json(&submit.file, "file")?;
    let binding = Binding {
        params: submit.params,
        nominal_time: Some(clock::now().wall),
        ..Binding::default()
    };
    let mut submission = arrays::submission(&file, binding, shape)?;
    submission.spec.conditions = conditions;
    submission.spec.trace = trace;
    for elements in &mut submission.more {
        elements.spec.trace = trace;
    }
    let owner = &submission.spec.owner;
    submission.key = key.map(|text| idempotency::key(&["instances", owner], &text, [&*body]));
    let command = Command::Submit { submission, mark };
    let Reply::Submitted(accepted) = app.command(caller.principal(), command).await? else {
        return Err(Fault::wrong_reply());
    };
    let (first, last) = accepted.map_err(|error| match error {
        SubmitError::NeedsStore => Fault::needs_store(error.to_string()),
        SubmitError::KeyUsed(_) => Fault::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "key-used",
            error.to_string(),
        ),
        _ => conditions::fault(error).unwrap_or_else(Fault::wrong_reply),
    })?;
    let submitted = views::submitted(first, last);
    let mut response = respond(StatusCode::CREATED, &submitted);
    if let Ok(location) = HeaderValue::from_str(&views::path(first, last)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// An instance, or a summary of a range
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}",
    tag = "instances",
    operation_id = "show",
    params(
        OfInstances,
        ("wait" = Option<u64>, Query, description = "Long poll: answer when it has ended, or after this many seconds, at most 60."),
        ("parts" = Option<u64>, Query, description = "Of one range of at most 100,000 instances: count so many equal parts of it, too, at most 1,000."),
    ),
    responses(
        (status = 200, description = "The stored state.", body = InstanceOrRange),
        Unchanged
    )
))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let target = Target::parse(&id)?;
    let parameters = Parameters::of(&uri, &["wait", "parts"])?;
    let wait = parameters.wait()?;
    match target {
        Target::One(id) => {
            let mut record = app.record(id).await?;
            if let Some(wait) = wait
                && !record.instance.state.is_terminal()
            {
                app.wait(id, id, wait).await?;
                record = app.record(id).await?;
            }
            let shown = app.shown(&record, &caller).await?;
            let lasting = views::lasting(&shown.instance);
            Ok(tagged_by(&InstanceOrRange::One(Box::new(shown)), &lasting))
        }
        Target::Many(ranges) => {
            if let Some(wait) = wait {
                app.wait_all(&ranges, wait).await?;
            }
            let parts = parameters.number("parts")?;
            let summary = ranges::summary(&app, ranges, parts).await?;
            Ok(tagged(&InstanceOrRange::Range(summary)))
        }
    }
}

/// Cancel an instance, or a range
///
/// Waiting instances are halted at once; running ones are killed: a task stops its processes and
/// runs its final ones, within its own `finalization_wait`. With `now`, also in a second request,
/// all processes are killed at once.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/instances/{id}",
    tag = "instances",
    operation_id = "cancel",
    params(
        OfInstances,
        ("now" = Option<bool>, Query, description = "Kill all processes at once, without final processes."),
    ),
    responses(
        (status = 202, description = "The request to stop is durable.", body = CancelReply)
    )
))]
pub(super) async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let mode = Parameters::of(&uri, &["now"])?.kill_mode()?;
    let ranges = match Target::parse(&id)? {
        Target::One(id) => {
            app.record(id).await?;
            vec![(id, id)]
        }
        Target::Many(ranges) => ranges,
    };
    let cancelled = bulk::cancel(&app, &caller, &ranges, mode).await?;
    Ok(respond(StatusCode::ACCEPTED, &cancelled))
}

/// Kill the attempt that runs
///
/// As if it had ended by itself: retries follow as after a failure, and it counts as one. `DELETE`
/// ends the instance instead. Of ranges, those that run; the reply counts them.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/instances/{id}/kill",
    tag = "instances",
    operation_id = "kill-attempt",
    params(
        OfInstances,
        ("attempt" = Option<u32>, Query, description = "Only if this attempt runs; by default whichever runs."),
        ("now" = Option<bool>, Query, description = "Kill all processes at once, without final processes."),
    ),
    responses(
        (status = 202, description = "The request to kill is durable.", body = KillOrCounts),
        (status = 409, description = "No attempt runs, the attempt is over, or the instance is being cancelled.")
    )
))]
pub(super) async fn kill(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["attempt", "now"])?;
    let attempt = parameters.number("attempt")?.map(AttemptNo);
    let mode = parameters.kill_mode()?;
    let instance = match Target::parse(&id)? {
        Target::One(id) => id,
        Target::Many(_) if attempt.is_some() => {
            return Err(Fault::bad_request(
                "attempt applies to one instance, not to ranges",
            ));
        }
        Target::Many(ranges) => {
            let counts = KillOrCounts::Counts(bulk::kill(&app, &caller, &ranges, mode).await?);
            return Ok(respond(StatusCode::ACCEPTED, &counts));
        }
    };
    app.record(instance).await?;
    let command = Command::KillAttempt {
        instance,
        attempt,
        mode,
    };
    let Reply::AttemptKilled(killed) = app.command(caller.principal(), command).await? else {
        return Err(Fault::wrong_reply());
    };
    match killed {
        Ok(attempt) => {
            let reply = KillOrCounts::One(views::killed(instance, attempt));
            Ok(respond(StatusCode::ACCEPTED, &reply))
        }
        Err(error) => {
            let state = app.record(instance).await?.instance.state;
            Err(cannot_kill(instance, attempt, state, error))
        }
    }
}

fn cannot_kill(
    id: InstanceId,
    attempt: Option<AttemptNo>,
    state: UniversalState,
    error: KillError,
) -> Fault {
    let wanted = attempt.map_or(0, |attempt| attempt.0);
    let (kind, detail) = match error {
        KillError::NotRunning if state.is_terminal() => (
            "not-running",
            format!("{id} is {}: no attempt of it runs", state.word()),
        ),
        KillError::NotRunning => (
            "not-running",
            format!(
                "no attempt of {id} runs, it is {}; to end the instance, cancel it: \
                 `baton cancel {id}`",
                state.word()
            ),
        ),
        KillError::Stopping => (
            "stopping",
            format!(
                "{id} is being cancelled, which kills its attempt; to kill it at once: \
                 `baton cancel {id} --now`"
            ),
        ),
        KillError::Over(running) => (
            "attempt-over",
            format!(
                "attempt {wanted} of {id} is over; attempt {} runs now",
                running.0
            ),
        ),
        KillError::Unknown(running) => {
            return Fault::not_found(format!(
                "there is no attempt {wanted} of {id} yet; attempt {} runs now",
                running.0
            ));
        }
    };
    Fault::new(StatusCode::CONFLICT, kind, detail)
}

/// Retry an instance that has failed or was halted
///
/// Of ranges, the instances that are FAILED, or in the given state; the reply counts them, and those
/// that are skipped. At most 10,000 instances at once.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/instances/{id}/retry",
    tag = "instances",
    operation_id = "retry",
    params(
        OfInstances,
        ("state" = Option<String>, Query, description = "Of ranges, retry those in this state: `FAILED`, which is the default, or `HALTED`. A single instance in another state is refused."),
    ),
    responses(
        (status = 202, description = "Queued again.", body = InstanceOrCounts),
        (status = 409, description = "The instance has not ended, or its end state cannot be retried.")
    )
))]
pub(super) async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["state"])?;
    let target = Target::parse(&id)?;
    // Serialized: the leader relies on the state that is read here, and no other retry, with its
    // attempt, may come in between.
    let _history_stays = app.0.history.lock().await;
    let id = match target {
        Target::One(id) => id,
        Target::Many(ranges) => {
            let state = bulk::retried_state(parameters.text("state"))?;
            let counts = bulk::retry(&app, &caller, &ranges, state).await?;
            let counts = InstanceOrCounts::Counts(counts);
            return Ok(respond(StatusCode::ACCEPTED, &counts));
        }
    };
    let instance = Box::new(app.record(id).await?.instance);
    if let Some(word) = parameters.text("state") {
        let (state, wanted) = (instance.state, bulk::retried_state(Some(word))?);
        if state != wanted {
            let detail = format!("{id} is {state}, not {wanted}; leave `state` out to retry it");
            return Err(Fault::new(StatusCode::CONFLICT, "wrong-state", detail));
        }
    }
    let retry = Command::Retry(instance);
    let Reply::Retried(retried) = app.command(caller.principal(), retry).await? else {
        return Err(Fault::wrong_reply());
    };
    retried.map_err(|error| {
        let hint = match error {
            RetryError::PartOfRun => "; use `baton retry RUN --task NAME`",
            RetryError::NotEnded(_) => "",
        };
        let detail = format!("{id} cannot be retried: {error}{hint}");
        Fault::new(StatusCode::CONFLICT, "not-ended", detail)
    })?;
    let record = app.record(id).await?;
    let instance = Box::new(views::instance(&record, clock::now().wall));
    let instance = InstanceOrCounts::One(instance);
    Ok(respond(StatusCode::ACCEPTED, &instance))
}

/// Why an instance is in its current state
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}/explain",
    tag = "instances",
    operation_id = "explain",
    responses(
        (status = 200, description = "What the instance waits for, or how it ended.", body = Explanation)
    )
))]
pub(super) async fn explain(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let id = extract::instance(&id)?;
    let record = app.record(id).await?;
    if record.instance.state.is_terminal() {
        return Ok(respond(StatusCode::OK, &app.ended(&record).await?));
    }
    let standing = app.query(move |leader| {
        let troubles = leader
            .troubles()
            .map(|(name, trouble)| (name.clone(), trouble));
        let troubles = troubles.collect::<Vec<_>>();
        let estimate = leader.estimate(id);
        (leader.explain(id, clock::now()), troubles, estimate)
    });
    let (standing, troubles, estimate) = standing.await?;
    // It may have changed since it was read.
    let record = app.record(id).await?;
    let explanation = match standing {
        Some(standing) if !record.instance.state.is_terminal() => {
            let explanation = messages::in_flight(&record, &standing);
            let explanation = Explanation {
                estimate: estimate.map(|it| it.0),
                ..explanation
            };
            messages::with_troubles(explanation, &standing, &troubles)
        }
        _ => app.ended(&record).await?,
    };
    Ok(respond(StatusCode::OK, &explanation).into_response())
}

impl App {
    /// How an instance ended. The history tells why it was cancelled.
    async fn ended(&self, record: &Record) -> Answer<Explanation> {
        let id = record.instance.id;
        let facts = if record.instance.state == UniversalState::Halted {
            let facts = self.read(move |store| store.timeline(id, None, TIMELINE_EVENTS_MAX));
            facts.await?.items
        } else {
            Vec::new()
        };
        Ok(messages::ended(record, &facts))
    }

    /// An instance with everything that is known of it.
    async fn shown(&self, record: &Record, caller: &Caller) -> Answer<InstanceWithOutputs> {
        let id = record.instance.id;
        let facts = self
            .read(move |store| store.timeline(id, None, TIMELINE_EVENTS_MAX))
            .await?;
        let spec = &record.instance.spec;
        let backfill = match spec.origin.and_then(|it| Some((it.task, it.due?))) {
            Some((task, due)) => {
                let name = TaskName {
                    owner: spec.owner.clone(),
                    name: spec.name.clone(),
                };
                let execution = Execution::Instance(id);
                self.backfill_of((task, name), due.nominal, execution)
                    .await?
            }
            None => None,
        };
        let run = match spec.part {
            Some(part) => self.read(move |store| store.run(part.run)).await?,
            None => None,
        };
        let of_run = run.as_ref().and_then(|run| run.submitted_by.as_deref());
        let mut instance = views::instance(record, clock::now().wall);
        let mut details = details::of(record, &facts.items, backfill, of_run, caller);
        if let Some(lease) = record.instance.lease.as_ref().map(|lease| lease.id) {
            details.devices = self.devices_of(lease).await?;
        }
        self.add_progress(
            std::slice::from_mut(&mut instance),
            std::slice::from_ref(record),
        )
        .await?;
        instance.executor = details::executor(record, &facts.items);
        instance.details = Some(Box::new(details));
        instance.reason = self
            .reasons(std::slice::from_ref(record))
            .await?
            .pop()
            .flatten();
        Ok(InstanceWithOutputs {
            instance,
            outputs: details::outputs(&facts.items),
        })
    }

    /// For each instance, why it waits, if it does.
    pub(super) async fn reasons(&self, records: &[Record]) -> Answer<Vec<Option<String>>> {
        let is_open = |record: &Record| !record.instance.state.is_terminal();
        if !records.iter().any(is_open) {
            return Ok(vec![None; records.len()]);
        }
        let ids: Vec<InstanceId> = records.iter().map(|record| record.instance.id).collect();
        let reasons = self.query(move |leader| {
            let now = clock::now();
            let reasons = ids.iter().map(|id| {
                let standing = leader.explain(*id, now)?;
                standing.wait().map(Wait::text)
            });
            reasons.collect::<Vec<_>>()
        });
        reasons.await
    }

    /// Waits until all have ended, at most for `wait`, and not past a shutdown.
    async fn wait(&self, first: InstanceId, last: InstanceId, wait: Duration) -> Answer<()> {
        let (notify, notified) = oneshot::channel();
        self.0.inbox.send(Event::Watch {
            first,
            last,
            notify,
        });
        let mut shutdown = self.0.shutdown.clone();
        tokio::select! {
            // Only a driver that does not lead drops the sender.
            notified = notified => notified.map_err(|_| Unanswered::Follows.into()),
            () = tokio::time::sleep(wait) => Ok(()),
            () = until_shutdown(&mut shutdown) => Ok(()),
        }
    }

    /// The same for several ranges.
    async fn wait_all(&self, ranges: &[Ids], wait: Duration) -> Answer<()> {
        let until = Instant::now() + wait;
        for (first, last) in ranges {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(*first, *last, left).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use tokio::time::timeout;

    use super::super::testing;
    use super::*;
    use crate::limits::ANSWER_WAIT;
    use crate::prune::HistoryLock;

    /// On the paused clock of the test, which advances when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_retry_waits_for_the_one_before_it_and_for_pruning() {
        let history = HistoryLock::default();
        let app = testing::over(Arc::default(), Arc::clone(&history));
        let before = history.lock().await;
        let mut request = pin!(retry(
            State(app.clone()),
            Extension(Caller::ANONYMOUS),
            Path("i1".to_owned()),
            Uri::from_static("/instances/i1/retry"),
        ));
        let waited = timeout(ANSWER_WAIT, &mut request).await;
        assert!(waited.is_err(), "it came in between");
        drop(before);
        let answer = request.await.into_response();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "it has continued");
        app.0.inbox.send(Event::Stop);
    }
}
