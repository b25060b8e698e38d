//! Requests to a follower that only the leader can answer.
//!
//! A follower answers what needs only the store. It forwards the rest to the leader: every change, and
//! a read whose handler needs the memory of the leader, which it says with a problem of the type
//! [`NO_LEADER`]; also a read of a store that it cannot use, which the leader may have. The request is
//! forwarded as it is, credentials included, and the leader decides as if the client had sent it there:
//! forwarding grants nothing.
//!
//! There is one hop at most: a forwarded request names the scheduler that forwards it, and one that
//! names any is never forwarded again. A client that was authenticated by its certificate cannot be
//! forwarded: only its own connection proves the certificate.

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_model::api::Problem;
use baton_model::json;
use baton_store::sharing::Announcement;
use hyper::body::Body as _;
use tokio::time::timeout;

use super::app::App;
use super::peer::Peer;
use super::problem::{Answer, Fault, Kind, NO_LEADER, NO_LEADER_HEADER, STORE_FAILED};
use super::streams::StreamRequest;
use super::{bodies, idempotency};
use crate::access::{Caller, Identity};
use crate::driver::Status;
use crate::limits::{FORWARD_BUFFER_BYTES, FORWARD_WAIT, FORWARDS_MAX};
use crate::peers::Peers;

/// The scheduler that has forwarded a request.
const FORWARDED_BY: HeaderName = HeaderName::from_static("baton-forwarded-by");

/// Headers about one connection (RFC 9110, 7.6.1), and `Host`, which names this scheduler.
const OF_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Headers of a request that this scheduler has evaluated itself.
const EVALUATED: [HeaderName; 3] = [header::ORIGIN, header::COOKIE, header::EXPECT];

/// Forwards a request to the leader, if this scheduler follows and cannot answer it.
pub(super) async fn to_leader(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(peers) = app.0.peers.clone() else {
        return next.run(request).await;
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_known = request.extensions().get::<MatchedPath>().is_some();
    if *request.method() == Method::OPTIONS || !is_known {
        return next.run(request).await;
    }
    if is_read {
        let head = request_head(&request);
        let mut response = next.clone().run(request).await;
        let kind = response.extensions().get::<Kind>();
        let is = |wanted: &str| kind.is_some_and(|Kind(kind)| kind == wanted);
        let lacks_store = is(STORE_FAILED) && app.0.status.borrow().follows();
        if !is(NO_LEADER) && !lacks_store {
            return response;
        }
        let nothing = Payload::Whole(Bytes::new());
        return match forward(&app, &peers, head, nothing).await {
            Ok(forwarded) => forwarded.finish(next).await,
            // It has the reason, and a client may ask the next scheduler.
            Err(_) if lacks_store => {
                let yes = HeaderValue::from_static("1");
                response.headers_mut().insert(NO_LEADER_HEADER, yes);
                response
            }
            Err(fault) => fault.into_response(),
        };
    }
    if !app.0.status.borrow().follows() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let forwarded = async {
        let body = Payload::read(&head, body).await?;
        forward(&app, &peers, head, body).await
    };
    match forwarded.await {
        Ok(forwarded) => forwarded.finish(next).await,
        Err(fault) => fault.into_response(),
    }
}

/// What became of a request that was to be forwarded.
enum Forwarded {
    Answered(Response),
    /// This scheduler leads by now.
    Own(Box<Parts>, Payload),
}

impl Forwarded {
    /// The response, if need be of this scheduler.
    async fn finish(self, next: Next) -> Response {
        match self {
            Self::Answered(response) => response,
            Self::Own(head, payload) => {
                let body = match payload {
                    Payload::Whole(bytes) => Body::from(bytes),
                    Payload::Stream(body) => body,
                };
                next.run(Request::from_parts(*head, body)).await
            }
        }
    }
}

/// The body of a forwarded request.
enum Payload {
    /// In memory, so that it can be sent again.
    Whole(Bytes),
    /// Too large for that.
    Stream(Body),
}

impl Payload {
    async fn read(head: &Parts, body: Body) -> Answer<Self> {
        let length = body.size_hint().exact();
        if length.is_none_or(|length| length > FORWARD_BUFFER_BYTES as u64) {
            return Ok(Self::Stream(body));
        }
        let mut request = Request::new(body);
        *request.extensions_mut() = head.extensions.clone();
        let bytes = bodies::read(request, FORWARD_BUFFER_BYTES).await?;
        Ok(Self::Whole(bytes.into()))
    }
}

/// A copy of the head of a read.
fn request_head(request: &Request) -> Parts {
    let mut copy = Request::new(());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    // This scheduler compares tags itself.
    copy.headers_mut().remove(header::IF_NONE_MATCH);
    *copy.extensions_mut() = request.extensions().clone();
    copy.into_parts().0
}

async fn forward(app: &App, peers: &Peers, head: Parts, body: Payload) -> Answer<Forwarded> {
    if let Some(by) = head.headers.get(&FORWARDED_BY) {
        // Its sender took this scheduler for the leader.
        let by = by.to_str().unwrap_or("another scheduler");
        return Err(Fault::no_leader(format!(
            "this scheduler does not lead, and {by} has forwarded the request already; try again"
        )));
    }
    let mut fault = None;
    let (mut payload, mut failed) = (Some(body), None);
    for _ in 0..FORWARDS_MAX {
        let Some(body) = payload.take() else {
            break;
        };
        let leader = tokio::select! {
            leader = peers.leader_but(failed.as_ref()) => leader,
            () = leads(app) => return Ok(Forwarded::Own(Box::new(head), body)),
        };
        let Some(leader) = leader else {
            break;
        };
        check_credentials(&head, &leader)?;
        let body = match body {
            Payload::Stream(body) => reqwest::Body::wrap_stream(body.into_data_stream()),
            Payload::Whole(bytes) => {
                payload = Some(Payload::Whole(bytes.clone()));
                bytes.into()
            }
        };
        let sent = tokio::select! {
            sent = timeout(FORWARD_WAIT, send(peers, &leader, &head, body)) => Some(sent),
            // It was frozen or cut off; it may have done what was asked before that.
            () = peers.replaced(&leader) => None,
            () = leads(app) => None,
        };
        match sent {
            None if is_repeatable(&head) => {}
            None => return Err(Fault::no_answer()),
            Some(Ok(Ok(response))) => match answer(app, &head, response).await? {
                Ok(response) => return Ok(Forwarded::Answered(response)),
                // It does not lead any more, and has done nothing.
                Err(refused) => fault = Some(refused),
            },
            Some(Ok(Err(error))) if error.is_connect() => {
                fault = Some(Fault::no_leader(format!(
                    "the leader {} at {} cannot be reached from this scheduler; try again",
                    leader.name, leader.clients
                )));
            }
            Some(Ok(Err(error))) => {
                tracing::debug!("forwarding to {} failed: {error}", leader.clients);
                peers.look_again();
                return Err(Fault::no_answer());
            }
            Some(Err(_)) => return Err(Fault::no_answer()),
        }
        peers.look_again();
        failed = Some(leader);
    }
    let status = app.0.status.borrow();
    match fault {
        // What is known of the leader is as old as the failure of the store, which is the reason.
        Some(fault) if !matches!(*status, Status::Following(Some(_))) => Err(fault),
        _ => Err(leaderless(&status)),
    }
}

/// The fault of a request that found no leader; with the reason, if the store cannot be used.
fn leaderless(status: &Status) -> Fault {
    Fault::no_leader(match status {
        Status::Following(Some(reason)) => {
            format!("no scheduler leads, because the store cannot be used: {reason}")
        }
        _ => {
            "no scheduler leads at the moment; one is elected within seconds: try again".to_owned()
        }
    })
}

/// Whether it does no harm to send a request to the next leader after one that has not answered.
fn is_repeatable(head: &Parts) -> bool {
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    is_read || head.headers.contains_key(idempotency::HEADER)
}

/// Resolves when this scheduler leads.
async fn leads(app: &App) {
    let mut status = app.0.status.clone();
    let leading = status.wait_for(|status| matches!(status, Status::Leading(_)));
    if leading.await.is_err() {
        // The server shuts down.
        std::future::pending::<()>().await;
    }
}

/// Refuses to forward where the leader could not, or must not, get the client's credentials.
fn check_credentials(head: &Parts, leader: &Announcement) -> Answer<()> {
    let caller = head.extensions.get::<Caller>();
    if caller.is_some_and(|caller| matches!(caller.identity, Identity::Certificate(_))) {
        return Err(Fault::no_leader(format!(
            "this scheduler follows, and cannot forward a request that is authenticated by a \
             certificate; send it to the leader at {}, or use a token",
            leader.clients
        )));
    }
    if Peer::of(&head.extensions).secure && leader.clients.starts_with("http://") {
        return Err(Fault::no_leader(format!(
            "this scheduler follows, and the leader at {} has no TLS; the request, which came over \
             TLS, is not sent there",
            leader.clients
        )));
    }
    Ok(())
}

async fn send(
    peers: &Peers,
    leader: &Announcement,
    head: &Parts,
    body: reqwest::Body,
) -> reqwest::Result<reqwest::Response> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = head.headers.clone();
    for name in OF_CONNECTION.iter().chain(&EVALUATED) {
        headers.remove(name);
    }
    // Names of schedulers are plain text, except for what an operator made of them.
    let name = HeaderValue::from_str(&peers.name);
    headers.insert(
        FORWARDED_BY,
        name.unwrap_or(HeaderValue::from_static("scheduler")),
    );
    let url = format!("{}{path}", leader.clients);
    let request = peers.client.request(head.method.clone(), url);
    request.headers(headers).body(body).send().await
}

/// The answer of the leader, as that of this scheduler; or the fault of one that does not lead.
async fn answer(
    app: &App,
    head: &Parts,
    mut found: reqwest::Response,
) -> Answer<Result<Response, Fault>> {
    let status = found.status();
    let mut headers: HeaderMap = std::mem::take(found.headers_mut());
    for name in OF_CONNECTION {
        headers.remove(name);
    }
    let is_empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let has_length = headers.contains_key(header::CONTENT_LENGTH);
    let is_whole = has_length || is_empty || head.method == Method::HEAD;
    let body = if status == StatusCode::SERVICE_UNAVAILABLE {
        let Ok(bytes) = found.bytes().await else {
            return Err(Fault::no_answer());
        };
        let problem = json::from_slice::<Problem>(&bytes);
        if let Ok(problem) = problem
            && problem.kind == NO_LEADER
        {
            return Ok(Err(Fault::no_leader(problem.detail)));
        }
        Body::from(bytes)
    } else if is_whole {
        Body::from_stream(found.bytes_stream())
    } else {
        // It has no known length: a stream, which may never end by itself.
        let media = headers.get(header::CONTENT_TYPE);
        let is_log = media.is_none_or(|media| media != "text/event-stream");
        app.stream(&StreamRequest::of(head), is_log, |pipe| async move {
            loop {
                match found.chunk().await {
                    Ok(Some(piece)) => {
                        if !pipe.put(piece).await {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        tracing::debug!("a forwarded response was cut off: {error}");
                        return pipe.truncate().await;
                    }
                }
            }
        })?
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(Ok(response))
}
