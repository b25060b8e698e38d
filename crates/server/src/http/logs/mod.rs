//! Output of attempts, read from their workers in pieces.
//!
//! | file | holds |
//! |---|---|
//! | `range` | the header *Range* |
//! | `follow` | logs that grow, and long ranges |
//! | `collect` | collection into the archive, and reading it |

pub(super) mod collect;
mod follow;
mod range;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_core::scheduler::{Command, Reply};
use baton_model::ids::InstanceId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{LogAnswer, LogChunk, LogCursor, LogQuery, LogStart, LogStream};

use super::app::App;
use super::attempt::AttemptSource;
use super::extract::{self, Parameters};
use super::problem::{Answer, Fault};
use super::streams::StreamRequest;
use follow::LogTail;
use range::Range;

use crate::log_archive::LogArchive;

/// Default size of a piece.
const PIECE_BYTES_DEFAULT: u32 = 64 << 10;

/// Selects a log of an instance.
struct LogSelector {
    attempt: Option<u32>,
    process: Option<String>,
    run: Option<u32>,
    stream: LogStream,
}

impl LogSelector {
    fn query(&self, source: &AttemptSource, start: LogStart, bytes_max: u32) -> LogQuery {
        LogQuery {
            lease: source.lease,
            process: self.process.clone(),
            run: self.run,
            stream: self.stream,
            start,
            bytes_max,
        }
    }
}

/// Output of an attempt, read from its worker
///
/// Returns one piece; with the header Range, that range; with `follow`, everything as it is
/// written, until the attempt has ended.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}/logs/{stream}",
    tag = "instances",
    operation_id = "logs",
    params(
        ("attempt" = Option<u32>, Query, description = "Attempt number; default: the last one."),
        ("offset" = Option<u64>, Query, description = "The first byte, counted from the oldest that is retained; default: 0."),
        ("cursor" = Option<String>, Query, description = "Continue where an earlier piece has ended: its `baton-cursor`. Unlike an offset it stays valid when the log is rotated. Not with `offset`.", pattern = "^[0-9a-f]{1,16}(-[0-9a-f]{1,16}){2}$"),
        ("limit" = Option<u32>, Query, description = "Maximum number of bytes."),
        ("process" = Option<String>, Query, description = "Only the output of this process."),
        ("run" = Option<u32>, Query, description = "Run of the process, if it was restarted; default: the last one."),
        ("follow" = Option<bool>, Query, description = "`true`: stream from the start until the attempt has ended, across restarts of the process."),
        ("range" = Option<String>, Header, description = "One range of bytes: `bytes=0-99`, `bytes=100-`, `bytes=-100`. Not with `offset`, `cursor`, `limit` or `follow`."),
    ),
    responses(
        (status = 200, description = "Bytes.", content_type = "application/octet-stream", body = Vec<u8>,
            headers(
                ("accept-ranges" = String, description = "`bytes`."),
                ("baton-offset" = u64, description = "The first byte; not with `cursor`."),
                ("baton-cursor" = String, description = "Where the next piece begins; not with `follow`, nor without a log."),
                ("baton-end" = bool, description = "Whether the output of this run is complete; not with `follow`."),
                ("baton-attempt" = u32, description = "The attempt number."),
                ("baton-run" = u32, description = "The run of the process, if it has started."),
                ("baton-size" = u64, description = "Bytes of the log so far, if there is one."),
                ("baton-next-run" = u32, description = "The next run of the process, if any."),
                ("baton-note" = String, description = "`nothing-kept` if there never was a log, or it was removed.")
            )),
        (status = 206, description = "The range.", content_type = "application/octet-stream", body = Vec<u8>,
            headers(("content-range" = String, description = "The byte range and the total size; `*` while the log may grow."))),
        (status = 416, description = "The range is outside the log.",
            headers(("content-range" = String, description = "The size of the log.")))
    )
))]
pub(super) async fn read(
    State(app): State<App>,
    Path((id, stream)): Path<(String, String)>,
    request: StreamRequest,
    uri: Uri,
) -> Answer<Response> {
    let id = extract::instance(&id)?;
    let stream = match stream.as_str() {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return Err(Fault::not_found("there are two logs: stdout and stderr")),
    };
    let known = [
        "attempt", "offset", "cursor", "limit", "process", "run", "follow",
    ];
    let parameters = Parameters::of(&uri, &known)?;
    let offset: Option<u64> = parameters.number("offset")?;
    let cursor: Option<LogCursor> = parameters.parsed("cursor", "a baton-cursor")?;
    if offset.is_some() && cursor.is_some() {
        return Err(Fault::bad_request("name either offset or cursor"));
    }
    let limit = parameters.number("limit")?;
    let follows = parameters
        .parsed("follow", "true or false")?
        .unwrap_or(false);
    let selector = LogSelector {
        attempt: parameters.number("attempt")?,
        process: parameters.text("process").map(str::to_owned),
        run: parameters.number("run")?,
        stream,
    };
    let plain = offset.is_none() && cursor.is_none() && limit.is_none() && !follows;
    if let Some(range) = Range::of(&request.headers).filter(|_| plain) {
        return app.range(&request, id, selector, range).await;
    }
    let offset = offset.unwrap_or(0);
    let start = cursor.map_or(LogStart::Offset(offset), LogStart::Cursor);
    let bytes_max = limit.unwrap_or(PIECE_BYTES_DEFAULT);
    let bytes_max = bytes_max.clamp(1, LOG_CHUNK_BYTES_MAX);
    let (source, answer) = app.piece(id, &selector, start, bytes_max).await?;
    let lookup = classify(&source, &selector, answer)?;
    if follows && !matches!(lookup, Lookup::Gone) {
        let mut tail = app.tail(id, &source, selector, &lookup);
        tail.start = start;
        return app.stream_tail(&request, &source, &lookup, tail);
    }
    let mut response = head(&source, &lookup);
    let is_gone = matches!(lookup, Lookup::Gone);
    let chunk = lookup.into_chunk();
    let short = chunk.bytes.len() < bytes_max as usize;
    let is_end = short && (source.is_over || chunk.next_run.is_some());
    let next = chunk.cursor.map(|cursor| cursor.to_string());
    let next = next.and_then(|text| HeaderValue::from_str(&text).ok());
    *response.body_mut() = Bytes::from(chunk.bytes).into();
    let headers = response.headers_mut();
    if cursor.is_none() {
        headers.insert("baton-offset", offset.into());
    }
    if let Some(next) = next {
        headers.insert("baton-cursor", next);
    }
    headers.insert("baton-end", word(is_end));
    if is_gone {
        let note = HeaderValue::from_static("nothing-kept");
        headers.insert("baton-note", note);
    }
    Ok(response)
}

fn word(is_so: bool) -> HeaderValue {
    HeaderValue::from_static(if is_so { "true" } else { "false" })
}

/// What the worker has of a log.
enum Lookup {
    Piece(LogChunk),
    /// The attempt may not have written anything yet.
    NotYet,
    /// There never was a log, or it was removed.
    Gone,
}

impl Lookup {
    fn into_chunk(self) -> LogChunk {
        match self {
            Self::Piece(chunk) => chunk,
            Self::NotYet | Self::Gone => LogChunk::default(),
        }
    }
}

fn classify(source: &AttemptSource, selector: &LogSelector, answer: LogAnswer) -> Answer<Lookup> {
    let AttemptSource { lease, worker, .. } = source;
    let whole = selector.process.is_none() && selector.run.unwrap_or(0) == 0;
    match answer {
        LogAnswer::Chunk(chunk) => Ok(Lookup::Piece(chunk)),
        LogAnswer::NotFound if !source.is_over => Ok(Lookup::NotYet),
        LogAnswer::NotFound if source.has_run && whole => Ok(Lookup::Gone),
        LogAnswer::NotFound => Err(Fault::not_found(format!(
            "worker {worker} has no such log of attempt {}; the attempt never started, its log was \
             removed, or it has no process or run of that name",
            lease.attempt
        ))),
        LogAnswer::Unavailable(reason) => Err(Fault::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "worker-unavailable",
            format!("the log is on worker {worker}, which is unavailable: {reason}"),
        )),
    }
}

/// A response without its body.
fn head(source: &AttemptSource, lookup: &Lookup) -> Response {
    let mut response = Body::empty().into_response();
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, media);
    let ranges = HeaderValue::from_static("bytes");
    headers.insert(header::ACCEPT_RANGES, ranges);
    headers.insert("baton-attempt", source.lease.attempt.number.0.into());
    if let Lookup::Piece(chunk) = lookup {
        headers.insert("baton-run", chunk.run.into());
        headers.insert("baton-size", chunk.size.into());
        if let Some(next) = chunk.next_run {
            headers.insert("baton-next-run", next.into());
        }
    }
    response
}

fn with_range(mut response: Response, range: String) -> Response {
    // Digits and dashes are always valid in a header.
    if let Ok(range) = HeaderValue::from_str(&range) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    response
}

impl App {
    /// Reads one piece, and returns its source. Of an attempt that is over, also from the archive: one on
    /// this host is asked first, if it has all of the log; a bucket, if the worker does not
    /// have the log or is not connected.
    async fn piece(
        &self,
        id: InstanceId,
        selector: &LogSelector,
        start: LogStart,
        bytes_max: u32,
    ) -> Answer<(AttemptSource, LogAnswer)> {
        let record = self.record(id).await?;
        let source = self.attempt(&record, selector.attempt).await?;
        let archived = async || {
            let query = selector.query(&source, start, bytes_max);
            self.archived(&record.instance.spec.work, &query).await
        };
        let is_remote = self
            .0
            .log_archive
            .as_ref()
            .is_some_and(LogArchive::is_shared);
        let mut first = Ok(None);
        if source.is_over && !is_remote {
            first = archived().await;
            if let Ok(Some((answer, false))) = first {
                return Ok((source, answer));
            }
        }
        let (now, answer) = self.worker_piece(id, selector, start, bytes_max).await?;
        if source.is_over && is_remote && !matches!(answer, LogAnswer::Chunk(_)) {
            first = archived().await;
        }
        let answer = match (answer, first) {
            (answer @ LogAnswer::Chunk(_), _) => answer,
            (_, Ok(Some((answer, _)))) => answer,
            (LogAnswer::Unavailable(reason), Err(error)) => LogAnswer::Unavailable(format!(
                "{reason}; the collected logs cannot be read either: {error}"
            )),
            (LogAnswer::Unavailable(reason), Ok(None)) if self.0.log_archive.is_none() => {
                LogAnswer::Unavailable(format!(
                    "{reason}; a scheduler with --collect-logs SIZE keeps the logs of ended attempts \
                     itself"
                ))
            }
            (answer, _) => answer,
        };
        Ok((now, answer))
    }

    /// Reads one piece from the worker.
    async fn worker_piece(
        &self,
        id: InstanceId,
        selector: &LogSelector,
        start: LogStart,
        bytes_max: u32,
    ) -> Answer<(AttemptSource, LogAnswer)> {
        // Read before the log: an attempt that has ended by then has written everything.
        let record = self.record(id).await?;
        let source = self.attempt(&record, selector.attempt).await?;
        let query = selector.query(&source, start, bytes_max);
        let read = Command::ReadLogs {
            worker: source.worker.clone(),
            query: query.clone(),
        };
        let Reply::Logs(answer) = self.command(None, read).await? else {
            return Err(Fault::wrong_reply());
        };
        let answer = match (answer, &self.0.log_reader) {
            (LogAnswer::Unavailable(_), Some(reader)) => {
                let reader = reader.clone();
                let read = tokio::task::spawn_blocking(move || reader.read(&query));
                read.await
                    .unwrap_or_else(|error| LogAnswer::Unavailable(error.to_string()))
            }
            (answer, _) => answer,
        };
        Ok((source, answer))
    }

    /// The remainder of the same log.
    fn tail(
        &self,
        id: InstanceId,
        source: &AttemptSource,
        selector: LogSelector,
        lookup: &Lookup,
    ) -> LogTail {
        let run = match lookup {
            Lookup::Piece(chunk) => Some(chunk.run),
            Lookup::NotYet | Lookup::Gone => selector.run,
        };
        LogTail {
            app: self.clone(),
            id,
            selector: LogSelector {
                attempt: Some(source.lease.attempt.number.0),
                run,
                ..selector
            },
            start: LogStart::Offset(0),
            left: None,
        }
    }

    /// Streams the remainder.
    fn stream_tail(
        &self,
        request: &StreamRequest,
        source: &AttemptSource,
        lookup: &Lookup,
        tail: LogTail,
    ) -> Answer<Response> {
        let mut response = head(source, lookup);
        *response.body_mut() = self.stream(request, true, |pipe| tail.run(pipe))?;
        // Proxies that buffer responses would delay it.
        let at_once = HeaderValue::from_static("no");
        response.headers_mut().insert("x-accel-buffering", at_once);
        Ok(response)
    }

    async fn range(
        &self,
        request: &StreamRequest,
        id: InstanceId,
        selector: LogSelector,
        range: Range,
    ) -> Answer<Response> {
        // The size and the run of the process must be known first.
        let (source, answer) = self.piece(id, &selector, LogStart::Offset(0), 1).await?;
        let lookup = classify(&source, &selector, answer)?;
        let size = match &lookup {
            Lookup::Piece(chunk) => chunk.size,
            Lookup::NotYet | Lookup::Gone => 0,
        };
        let Some((first, last)) = range.within(size) else {
            let fault = Fault::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "no-such-range",
                format!("the log has {size} bytes, none of them in that range"),
            );
            return Ok(with_range(fault.into_response(), format!("bytes */{size}")));
        };
        let tail = LogTail {
            start: LogStart::Offset(first),
            left: Some((last - first).saturating_add(1)),
            ..self.tail(id, &source, selector, &lookup)
        };
        let followed = matches!(&lookup, Lookup::Piece(chunk) if chunk.next_run.is_some());
        let is_whole = source.is_over || followed;
        let mut response = self.stream_tail(request, &source, &lookup, tail)?;
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let length = HeaderValue::from(last - first + 1);
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length);
        let total = if is_whole {
            size.to_string()
        } else {
            "*".to_owned()
        };
        Ok(with_range(
            response,
            format!("bytes {first}-{last}/{total}"),
        ))
    }
}
