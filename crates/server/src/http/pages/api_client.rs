//! Requests to the API on behalf of the viewer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use baton_model::api::Problem;
use baton_model::json;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Pages;
use super::session::Session;
use crate::http::peer::{PartOfPage, Peer};

/// Time that a page waits for something that a worker has to answer.
const WORKER_WAIT: Duration = Duration::from_secs(2);

/// The largest answer that a page reads.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Asks the API on behalf of a viewer.
pub(super) struct ApiClient {
    pages: Pages,
    pub(super) session: Session,
    /// Path and query of the page.
    pub(super) here: String,
    headers: HeaderMap,
    peer: Peer,
    /// Whether the rate limiter has counted the page.
    counted: AtomicBool,
    /// Parts of the page that could not be read, and why.
    failures: Mutex<Vec<String>>,
}

/// An answer with its body.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ApiClient {
    pub(super) fn new(pages: &Pages, request: &Request) -> Self {
        let mut headers = HeaderMap::new();
        for name in [header::HOST, header::ORIGIN] {
            for value in request.headers().get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let session = Session::of(pages, request);
        session.authenticate(&mut headers);
        let here = request.uri().path_and_query();
        Self {
            pages: pages.clone(),
            session,
            here: here.map_or_else(|| "/".to_owned(), ToString::to_string),
            headers,
            peer: Peer::of(request.extensions()),
            counted: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    /// Reads a representation.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        let answered = self.send(Method::GET, path, None, &[]).await?;
        answered.parse()
    }

    /// Reads a part without which the page can be shown. What the viewer may not read and what does
    /// not exist is left out; any other failure is told on the page, where `part` names what is missing.
    pub(super) async fn get_part<T: DeserializeOwned>(&self, path: &str, part: &str) -> Option<T> {
        match self.get(path).await {
            Ok(answer) => Some(answer),
            Err(problem) => {
                self.leave_out(part, &problem);
                None
            }
        }
    }

    /// Tells on the page that a part is missing, unless the viewer may not read it or it does not exist.
    pub(super) fn leave_out(&self, part: &str, Problem { status, detail, .. }: &Problem) {
        if *status != 403 && *status != 404 {
            let failures = self.failures.lock();
            let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
            failures.push(format!("{part} cannot be shown: {detail}"));
        }
    }

    /// The parts that could not be read so far.
    pub(super) fn failures(&self) -> Vec<String> {
        let failures = self.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same as [`Self::get`], of something that a worker has to answer.
    pub(super) async fn get_from_worker<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, Problem> {
        match timeout(WORKER_WAIT, self.get(path)).await {
            Ok(answer) => answer,
            Err(_) => Err(slow_worker()),
        }
    }

    /// The last bytes of a log, and its size.
    pub(super) async fn tail(&self, path: &str, bytes: usize) -> Result<(Bytes, u64), Problem> {
        let range = format!("bytes=-{bytes}");
        let range = [(header::RANGE, range)];
        let read = self.send(Method::GET, path, None, &range);
        let Ok(answered) = timeout(WORKER_WAIT, read).await else {
            return Err(slow_worker());
        };
        let answered = answered?;
        if answered.status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok((Bytes::new(), 0));
        }
        if !answered.status.is_success() {
            return Err(answered.problem());
        }
        let range = answered.headers.get(header::CONTENT_RANGE);
        let range = range.and_then(|range| range.to_str().ok());
        let size = range.and_then(size).unwrap_or(answered.body.len() as u64);
        Ok((answered.body, size))
    }

    /// Sends a request, and reads the whole answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        more: &[(header::HeaderName, String)],
    ) -> Result<Answered, Problem> {
        let response = self
            .pages
            .call(self.request(method, path, body, more)?)
            .await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, ANSWER_BYTES_MAX).await;
        let body = body.map_err(|_| problem(502, "the answer is too large for a page"))?;
        Ok(Answered {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// Passes a read on as it is, for what is no representation.
    pub(super) async fn pass(&self, mut request: Request) -> Response {
        // As JSON, which the page shows.
        request.headers_mut().remove(header::ACCEPT);
        self.session.authenticate(request.headers_mut());
        self.pages.call(request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        more: &[(header::HeaderName, String)],
    ) -> Result<Request, Problem> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        let uri = without_slash(path).parse();
        *request.uri_mut() = uri.map_err(|_| problem(400, "the address is invalid"))?;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        for (name, value) in more {
            let value = HeaderValue::from_str(value);
            let value = value.map_err(|_| problem(400, "a field contains control characters"))?;
            headers.insert(name, value);
        }
        if let Some(body) = body {
            let media = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, media);
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            *request.body_mut() = Body::from(body);
        }
        let extensions = request.extensions_mut();
        extensions.insert(self.peer.clone());
        if self.counted.swap(true, Ordering::Relaxed) {
            extensions.insert(PartOfPage);
        }
        Ok(request)
    }
}

impl Answered {
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        if !self.status.is_success() {
            return Err(self.problem());
        }
        json::from_slice(&self.body)
            .map_err(|error| problem(502, &format!("the answer cannot be read: {error}")))
    }

    /// The problem that an error describes.
    pub(super) fn problem(&self) -> Problem {
        let described = json::from_slice(&self.body);
        described.unwrap_or_else(|_| problem(self.status.as_u16(), "the request failed"))
    }
}

/// The address without a slash at the end of its path: links have one, the router behind the layer
/// that removes it does not.
fn without_slash(address: &str) -> String {
    let (path, query) = match address.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (address, String::new()),
    };
    match path.trim_end_matches('/') {
        "" => format!("/{query}"),
        path => format!("{path}{query}"),
    }
}

/// The size of a log from a content range: the total, or the end of what is known so far.
fn size(range: &str) -> Option<u64> {
    let (span, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    if let Ok(total) = total.parse() {
        return Some(total);
    }
    let last: u64 = span.split_once('-')?.1.parse().ok()?;
    Some(last + 1)
}

fn slow_worker() -> Problem {
    problem(503, "the worker does not answer; the page tries again")
}

/// A problem of a page itself.
pub(super) fn problem(status: u16, detail: &str) -> Problem {
    let title = StatusCode::from_u16(status).ok();
    Problem {
        kind: "page".to_owned(),
        title: title
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Error")
            .to_owned(),
        status,
        detail: detail.to_owned(),
        errors: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_gets_paths_without_a_slash_at_the_end() {
        assert_eq!(without_slash("/"), "/");
        assert_eq!(without_slash("/runs/?a=/"), "/runs?a=/");
        assert_eq!(without_slash("/runs/r1"), "/runs/r1");
    }

    #[test]
    fn the_size_of_a_log_that_grows_is_what_is_known_so_far() {
        assert_eq!(size("bytes 10-99/200"), Some(200));
        assert_eq!(size("bytes 10-99/*"), Some(100));
        assert_eq!(size("nothing"), None);
    }
}
