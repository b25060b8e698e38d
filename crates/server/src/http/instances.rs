//! Submissions, single instances, and ranges of them.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_core::scheduler::SubmitError;
use baton_files::Binding;
use baton_model::api::{Cancelled, Indices, ProblemAt, RangeSummary, Submit};
use baton_model::ids::InstanceId;
use baton_store::view::Record;
use serde_json::Value;
use tokio::sync::oneshot;

use super::given::{self, Parameters, Target};
use super::problem::{Answer, Fault};
use super::{App, shape, shown, words};
use crate::driver::mail::{Ask, Mail};
use crate::ends;
use crate::limits::ARRAY_ELEMENTS_MAX;

/// `POST /instances/`
pub(super) async fn submit(State(app): State<App>, request: Request) -> Answer<Response> {
    let submit: Submit<Value> = given::body(request).await?;
    let array = submit.array.map(array).transpose()?;
    let file = baton_files::from_json(&submit.file, "file")?;
    let binding = Binding {
        params: submit.params,
        ..Binding::default()
    };
    let spec = Box::new(file.instance(&binding)?);
    let accepted = app.ask(|reply| Ask::Submit { spec, array, reply });
    let (first, last) = accepted.await?.map_err(|error| match error {
        SubmitError::StrictNeedsStore => {
            let mend = "use --store sqlite, or exclusive: timed".to_owned();
            let at = ProblemAt {
                field: "exclusive".to_owned(),
                message: error.to_string(),
                mend,
            };
            Fault::unusable(error.to_string(), vec![at])
        }
        SubmitError::IdsTaken => Fault::new(
            StatusCode::CONFLICT,
            "ids-taken",
            format!("{error}; try again"),
        ),
    })?;
    let submitted = shape::submitted(first, last);
    let mut response = shown(StatusCode::CREATED, &submitted);
    if let Ok(location) = HeaderValue::from_str(&shape::path(first, last)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// How many elements, and the index of the first.
fn array(indices: Indices) -> Answer<(u64, u64)> {
    let Indices { from, to } = indices;
    let refused = |message: String, mend: &str| {
        let at = ProblemAt {
            field: "array".to_owned(),
            message: message.clone(),
            mend: mend.to_owned(),
        };
        Fault::unusable(message, vec![at])
    };
    let Some(distance) = to.checked_sub(from) else {
        let message = format!("the last index, {to}, comes before the first, {from}");
        return Err(refused(message, "write the smaller one first"));
    };
    if distance >= ARRAY_ELEMENTS_MAX {
        let message = format!("an array has at most {ARRAY_ELEMENTS_MAX} elements");
        return Err(refused(message, "submit it in parts"));
    }
    Ok((distance + 1, from))
}

/// `GET /instances/{id}` and `GET /instances/{first}..{last}`
pub(super) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let target = Target::parse(&id)?;
    let wait = Parameters::of(&uri, &["wait"])?.wait()?;
    match target {
        Target::One(id) => {
            let mut record = app.record(id).await?;
            if let Some(wait) = wait
                && !record.instance.state.is_terminal()
            {
                app.wait(id, id, wait).await;
                record = app.record(id).await?;
            }
            Ok(shown(StatusCode::OK, &shape::instance(&record)))
        }
        Target::Range(first, last) => {
            if let Some(wait) = wait {
                app.wait(first, last, wait).await;
            }
            let summary = app.summary(first, last).await?;
            Ok(shown(StatusCode::OK, &summary))
        }
    }
}

/// `DELETE /instances/{id}` and `DELETE /instances/{first}..{last}`
pub(super) async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let (first, last) = match Target::parse(&id)? {
        Target::One(id) => {
            app.record(id).await?;
            (id, id)
        }
        Target::Range(first, last) => (first, last),
    };
    let cancelled = app.ask(|reply| Ask::Cancel { first, last, reply }).await?;
    let cancelled = Cancelled {
        halted: cancelled.halted,
        stopping: cancelled.stopping,
    };
    Ok(shown(StatusCode::ACCEPTED, &cancelled))
}

/// `POST /instances/{id}/retry`
pub(super) async fn retry(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let id = given::instance(&id)?;
    // One at a time: what is read of the instance is what the leader goes by, and another
    // retry, with the attempt that follows it, must not come in between.
    let _history_stays = app.0.history.lock().await;
    let instance = Box::new(app.record(id).await?.instance);
    let retried = app.ask(|reply| Ask::Retry { instance, reply }).await?;
    retried.map_err(|error| {
        let detail = format!("{id} cannot be tried again: {error}");
        Fault::new(StatusCode::CONFLICT, "not-ended", detail)
    })?;
    let record = app.record(id).await?;
    Ok(shown(StatusCode::ACCEPTED, &shape::instance(&record)))
}

/// `GET /instances/{id}/explain`
pub(super) async fn explain(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let id = given::instance(&id)?;
    let record = app.record(id).await?;
    if record.instance.state.is_terminal() {
        return Ok(shown(StatusCode::OK, &words::ended(&record)));
    }
    let reason = app.ask(|reply| Ask::Explain { id, reply }).await?;
    // It may have moved on since it was read.
    let record = app.record(id).await?;
    let explanation = match reason {
        Some(reason) if !record.instance.state.is_terminal() => words::waiting(&record, &reason),
        _ => words::ended(&record),
    };
    Ok(shown(StatusCode::OK, &explanation).into_response())
}

impl App {
    /// An instance as the store has it.
    pub(super) async fn record(&self, id: InstanceId) -> Answer<Record> {
        let found = self.read(move |store| store.instance(id)).await?;
        found.ok_or_else(|| {
            Fault::not_found(format!(
                "there is no instance {id}; it was never submitted, or is too old to be kept"
            ))
        })
    }

    /// Waits until none of them lives, at most for so long, and not while the server ends.
    async fn wait(&self, first: InstanceId, last: InstanceId, wait: Duration) {
        let (reply, told) = oneshot::channel();
        let watch = Ask::Watch { first, last, reply };
        self.0.inbox.put(Mail::Ask(watch));
        let mut ending = self.0.ending.clone();
        tokio::select! {
            _ = told => {}
            () = tokio::time::sleep(wait) => {}
            () = ends(&mut ending) => {}
        }
    }

    async fn summary(&self, first: InstanceId, last: InstanceId) -> Answer<RangeSummary> {
        let counts = self.read(move |store| store.tally(first, last)).await?;
        if counts.is_empty() {
            return Err(Fault::not_found(format!(
                "there is no instance from {first} to {last}"
            )));
        }
        let path = shape::path(first, last);
        let mut links = shape::links([("self", path.clone())]);
        if counts.keys().any(|state| !state.is_terminal()) {
            links.insert("cancel".to_owned(), format!("DELETE {path}"));
        }
        Ok(RangeSummary {
            first: first.to_string(),
            last: last.to_string(),
            counts,
            links,
        })
    }
}
