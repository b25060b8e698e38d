//! Errors of the API.

use std::time::Duration;

use super::response::add_profile;
use crate::driver::event::Unanswered;
use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_files::Errors;
use baton_model::api::{FieldProblem, Problem};
use baton_model::ids::{BackfillId, InstanceId, RunId};
use baton_store::StoreError;

/// The media type of every error.
pub(in crate::http) const PROBLEM: &str = "application/problem+json";

/// The type of the problem that no leader could be asked. Clients may ask another scheduler.
pub(super) const NO_LEADER: &str = "no-leader";

/// The header of such a response, for clients that do not read its body.
pub(super) const NO_LEADER_HEADER: HeaderName = HeaderName::from_static("baton-no-leader");

/// The type of the problem that the store cannot be used.
pub(super) const STORE_FAILED: &str = "store-failed";

/// An error response.
#[derive(Debug)]
pub(crate) struct Fault {
    problem: Box<Problem>,
    /// Time after which a request that may be repeated has a chance.
    retry_after: Duration,
    /// Whether the body was not read, so that the connection cannot be used again.
    unread: bool,
}

/// Response extension with the type of a problem, for the metrics.
#[derive(Clone, Debug)]
pub(super) struct Kind(pub(super) String);

/// Result of a handler.
pub(crate) type Answer<T> = Result<T, Fault>;

impl Fault {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self {
            problem: Box::new(Problem {
                kind: kind.to_owned(),
                title: title(status).to_owned(),
                status: status.as_u16(),
                detail: detail.into(),
                errors: Vec::new(),
            }),
            retry_after: Duration::from_secs(1),
            unread: matches!(
                status,
                StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNSUPPORTED_MEDIA_TYPE
            ),
        }
    }

    /// The same, to be repeated after this time at the earliest.
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        self.retry_after = wait;
        self
    }

    /// The same, of a request whose body was not read.
    pub(crate) fn unread(mut self) -> Self {
        self.unread = true;
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.problem.status);
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The sentence that says what is wrong.
    pub(super) fn detail(&self) -> &str {
        &self.problem.detail
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// The request matches no route.
    pub(super) fn unknown_path() -> Self {
        Self::not_found("no resource at this path; GET / lists the resources")
    }

    /// The request matches routes of other methods only.
    pub(super) fn other_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "this path does not support the method; the header Allow lists the supported ones",
        )
    }

    /// An instance that does not exist, or that the caller must not see: the same, so that ids do
    /// not leak.
    pub(super) fn unknown_instance(id: InstanceId) -> Self {
        Self::not_found(format!(
            "there is no instance {id}; it was never submitted, or was pruned from the history"
        ))
    }

    /// A run that does not exist, or that the caller must not see, likewise.
    pub(super) fn unknown_run(run: RunId) -> Self {
        Self::not_found(format!(
            "there is no run {run}; it was never submitted, or was pruned from the history"
        ))
    }

    pub(super) fn unknown_backfill(id: BackfillId) -> Self {
        Self::not_found(format!(
            "there is no backfill {id}; `baton backfill list` lists them"
        ))
    }

    /// The input is well-formed but invalid.
    pub(crate) fn unusable(detail: impl Into<String>, errors: Vec<FieldProblem>) -> Self {
        let mut fault = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
        fault.problem.errors = errors;
        fault
    }

    /// The leader has replied to another command than the one that was sent.
    pub(crate) fn wrong_reply() -> Self {
        let detail = "the scheduler gave the reply to another command";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", detail)
    }

    /// `exclusive: strict`, or several nodes, with a store in memory.
    pub(crate) fn needs_store(message: String) -> Self {
        let at = FieldProblem {
            field: "exclusive".to_owned(),
            message: message.clone(),
            hint: "use --store sqlite, or exclusive: timed and a single node".to_owned(),
        };
        Self::unusable(message, vec![at])
    }

    /// No leader could be asked, for this reason; the request has had no effect.
    pub(crate) fn no_leader(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, NO_LEADER, detail)
    }

    /// The scheduler is overloaded or shutting down.
    pub(crate) fn no_answer() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-answer",
            "the scheduler did not answer in time; the request may or may not have taken effect: \
             check before you retry",
        )
    }
}

fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("error")
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        *fault.problem
    }
}

impl From<Unanswered> for Fault {
    fn from(unanswered: Unanswered) -> Self {
        let reason = match unanswered {
            Unanswered::StoreFailed(reason) => reason,
            Unanswered::Follows => {
                return Self::no_leader("this scheduler follows, and only the leader can answer");
            }
        };
        let detail = format!(
            "the store cannot be written: {reason}; the scheduler retries every second and \
             recovers by itself. The request may or may not have taken effect: check before you \
             retry"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, STORE_FAILED, detail)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let detail = format!("the store cannot be read: {error}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, STORE_FAILED, detail)
    }
}

impl From<Errors> for Fault {
    fn from(errors: Errors) -> Self {
        Self::invalid_file(errors, "file")
    }
}

impl Fault {
    /// The errors of a file that is a `what`.
    pub(crate) fn invalid_file(errors: Errors, what: &str) -> Self {
        let count = errors.problems.len() + errors.left_off;
        let problems = if count == 1 { "problem" } else { "problems" };
        let at = errors.problems.into_iter().map(|problem| FieldProblem {
            field: problem.path,
            message: problem.message,
            hint: problem.hint,
        });
        let detail = format!("the {what} has {count} {problems}; nothing was changed");
        Self::unusable(detail, at.collect())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = self.status();
        let kind = Kind(self.problem.kind.clone());
        let is_without_leader = self.problem.kind == NO_LEADER;
        let mut response = (status, Json(&self.problem)).into_response();
        add_profile(&mut response, &*self.problem);
        response.extensions_mut().insert(kind);
        let media = HeaderValue::from_static(PROBLEM);
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        if is_without_leader {
            let yes = HeaderValue::from_static("1");
            response.headers_mut().insert(NO_LEADER_HEADER, yes);
        }
        let later = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        if later.contains(&status) {
            let wait = self.retry_after;
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let seconds = HeaderValue::from(seconds.max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if self.unread {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }
}
