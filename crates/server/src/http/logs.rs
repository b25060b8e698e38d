//! What attempts have written: read from the worker that has it, piece by piece.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId, WorkerName};
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{LogAnswer, LogQuery, LogStream};
use baton_store::view::Record;

use super::App;
use super::given::{self, Parameters};
use super::openapi::answers::{BadRequest, NotFound, Unavailable};
use super::problem::{Answer, Fault};
use crate::driver::mail::Ask;
use crate::limits::TIMELINE_EVENTS_MAX;

/// Bytes of one piece if the client names no number.
const PIECE_BYTES_DEFAULT: u32 = 64 << 10;

/// An attempt, who has its log, and whether more may be written.
struct Source {
    lease: LeaseId,
    worker: WorkerName,
    is_over: bool,
    /// A process of it was there, so far as we know: what has no log then has printed nothing,
    /// or was cleared away.
    has_run: bool,
}

/// What an attempt has written, piece by piece, from the worker that has it
#[utoipa::path(
    get,
    path = "/instances/{id}/logs/{stream}",
    tag = "instances",
    operation_id = "logs",
    params(
        ("id" = String, Path, description = "The instance: `i12`, or `12`.", pattern = "^i?[0-9]{1,18}$", example = "i12"),
        ("stream" = String, Path, description = "`stdout` or `stderr`.", pattern = "^std(out|err)$"),
        ("attempt" = Option<u32>, Query, description = "The number of the attempt; the last one if left out."),
        ("offset" = Option<u64>, Query, description = "The first byte."),
        ("limit" = Option<u32>, Query, description = "How many bytes at most."),
        ("process" = Option<String>, Query, description = "Of this process only."),
    ),
    responses(
        (status = 200, description = "Bytes.", content_type = "application/octet-stream", body = Vec<u8>,
            headers(
                ("baton-offset" = u64, description = "The first byte."),
                ("baton-end" = bool, description = "Whether nothing will follow."),
                ("baton-attempt" = u32, description = "Of which attempt."),
                ("baton-note" = String, description = "`nothing-kept` where there never was or no longer is a log.")
            )),
        BadRequest,
        NotFound,
        Unavailable
    )
)]
pub(super) async fn read(
    State(app): State<App>,
    Path((id, stream)): Path<(String, String)>,
    uri: Uri,
) -> Answer<Response> {
    let id = given::instance(&id)?;
    let stream = match stream.as_str() {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return Err(Fault::not_found("there are two logs: stdout and stderr")),
    };
    let given = Parameters::of(&uri, &["attempt", "offset", "limit", "process"])?;
    let offset = given.number("offset")?.unwrap_or(0);
    let limit = given.number("limit")?.unwrap_or(PIECE_BYTES_DEFAULT);
    let bytes_max = limit.clamp(1, LOG_CHUNK_BYTES_MAX);
    // Read before the log is: what is over by then has written everything.
    let record = app.record(id).await?;
    let source = app.source(&record, given.number("attempt")?).await?;
    let Source { lease, worker, .. } = source;
    let whole = given.text("process").is_none();
    let query = LogQuery {
        lease,
        process: given.text("process").map(str::to_owned),
        stream,
        offset,
        bytes_max,
    };
    let asked = worker.clone();
    let answer = app.ask(|reply| Ask::Logs {
        worker: asked,
        query,
        reply,
    });
    let bytes = match answer.await? {
        LogAnswer::Chunk(bytes) => bytes,
        // It may not have come so far as to write anything.
        LogAnswer::NotFound if !source.is_over => Vec::new(),
        LogAnswer::NotFound if source.has_run && whole => {
            let mut response = piece(Vec::new(), offset, true, lease);
            let note = HeaderValue::from_static("nothing-kept");
            response.headers_mut().insert("baton-note", note);
            return Ok(response);
        }
        LogAnswer::NotFound => {
            return Err(Fault::not_found(format!(
                "worker {worker} has no such log of attempt {}; it never started, was cleared \
                 away, or has no process of that name",
                lease.attempt
            )));
        }
        LogAnswer::Unavailable(why) => {
            return Err(Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "worker-unavailable",
                format!("the log is on worker {worker}, which cannot be asked: {why}"),
            ));
        }
    };
    let is_end = source.is_over && bytes.len() < bytes_max as usize;
    Ok(piece(bytes, offset, is_end, lease))
}

fn piece(bytes: Vec<u8>, offset: u64, is_end: bool, lease: LeaseId) -> Response {
    let mut response = Bytes::from(bytes).into_response();
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert("baton-offset", HeaderValue::from(offset));
    headers.insert(
        "baton-end",
        HeaderValue::from_static(if is_end { "true" } else { "false" }),
    );
    let attempt = HeaderValue::from(lease.attempt.number.0);
    headers.insert("baton-attempt", attempt);
    response
}

impl App {
    /// Finds the attempt: the one named, or the last one.
    async fn source(&self, record: &Record, number: Option<u32>) -> Answer<Source> {
        let is_wanted =
            |lease: LeaseId| number.is_none_or(|number| lease.attempt.number.0 == number);
        let open = record.instance.lease.as_deref();
        if let Some(open) = open.filter(|open| is_wanted(open.id)) {
            return Ok(Source {
                lease: open.id,
                worker: open.holder.worker.clone(),
                is_over: false,
                has_run: true,
            });
        }
        if let Some(last) = record.last.as_ref().filter(|last| is_wanted(last.lease)) {
            return Ok(Source {
                lease: last.lease,
                worker: last.worker.clone(),
                is_over: true,
                has_run: last.ran.is_some(),
            });
        }
        let id = record.instance.id;
        match number {
            Some(number) => self.earlier(id, number).await,
            None => Err(Fault::not_found(format!(
                "{id} has no log: it has not been started yet"
            ))),
        }
    }

    /// An attempt of which only the timeline knows.
    async fn earlier(&self, id: InstanceId, number: u32) -> Answer<Source> {
        let page = self
            .read(move |store| store.timeline(id, None, TIMELINE_EVENTS_MAX))
            .await?;
        let granted = page.items.into_iter().find_map(|entry| match entry.fact {
            Fact::LeaseGranted { lease, holder } | Fact::AttemptAdopted { lease, holder, .. }
                if lease.attempt.number.0 == number =>
            {
                Some(Source {
                    lease,
                    worker: holder.worker,
                    is_over: true,
                    has_run: true,
                })
            }
            _ => None,
        });
        granted.ok_or_else(|| Fault::not_found(format!("{id} has no attempt {number}")))
    }
}
