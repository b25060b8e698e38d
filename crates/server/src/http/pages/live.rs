//! The stream that tells open pages that the history has changed.
//!
//! It carries no data: a page that hears of a change loads itself again. All streams tell of a change
//! at once, once a second at most. So a page costs one message and one load each second, however
//! much happens, and equal pages share a rendering ([`super::shared`]).

use std::time::Duration;

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::api_client::ApiClient;
use super::{App, Pages};
use crate::http::streams::StreamRequest;
use crate::limits::EVENTS_HEARTBEAT;

/// Minimum time from one change to the next.
const PACE: Duration = Duration::from_secs(1);

/// The header with the change for which a page is loaded again.
const CHANGE: HeaderName = HeaderName::from_static("baton-change");

/// The changes of which open pages are told. One change stands for everything that was committed
/// since the one before.
pub(super) struct Changes {
    /// A random number of this process: others behind a load balancer count for themselves.
    server: Option<u64>,
    count: watch::Receiver<u64>,
}

impl Changes {
    /// Counts until the server ends.
    pub(super) fn start(app: &App) -> Self {
        let (sender, count) = watch::channel(0);
        let mut committed = app.0.committed.clone();
        tokio::spawn(async move {
            while committed.changed().await.is_ok() {
                sender.send_modify(|count| *count += 1);
                sleep(PACE).await;
            }
        });
        // Without random numbers each page is rendered by itself.
        let server = getrandom::u64().ok();
        Self { server, count }
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        *self.count.borrow()
    }

    /// Whether a page is loaded because this server has told it of a change.
    pub(super) fn has_told(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(CHANGE).and_then(|value| value.to_str().ok());
        let parts = value.and_then(|value| value.split_once('-'));
        let Some((server, Ok(count))) = parts.map(|(server, count)| (server, count.parse::<u64>()))
        else {
            return false;
        };
        self.server.is_some_and(|it| format!("{it:x}") == server) && count <= self.last()
    }

    /// The message of a change.
    fn message(&self, count: u64) -> String {
        let server = self.server.unwrap_or_default();
        format!("data: {server:x}-{count}\n\n")
    }
}

pub(super) async fn changes(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    // A viewer that may not read the root gets no stream.
    if let Err(problem) = api.get::<Value>("/").await {
        return pages.error(&api, problem, None);
    }
    let (mut parts, _) = request.into_parts();
    api.session.authenticate(&mut parts.headers);
    let Ok(request) = StreamRequest::from_request_parts(&mut parts, &()).await;
    let mut count = pages.0.changes.count.clone();
    // A page loads itself when its stream opens, and so has seen this one.
    count.mark_unchanged();
    let of = pages.clone();
    let body = pages.0.app.stream(&request, false, |pipe| async move {
        if !pipe.put("retry: 1000\n\n").await {
            return;
        }
        loop {
            let message = tokio::select! {
                changed = count.changed() => match changed {
                    Ok(()) => of.0.changes.message(*count.borrow_and_update()),
                    Err(_) => return,
                },
                () = sleep(EVENTS_HEARTBEAT) => ": still here\n\n".to_owned(),
            };
            if !pipe.put(message).await {
                return;
            }
        }
    });
    let body = match body {
        Ok(body) => body,
        Err(fault) => return fault.into_response(),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer responses would delay messages.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_that_this_server_has_told_is_its_own() {
        let (_sender, count) = watch::channel(7);
        let changes = Changes {
            server: Some(0xab),
            count,
        };
        assert_eq!(changes.message(7), "data: ab-7\n\n");
        for (value, is_own) in [
            ("ab-7", true),
            ("ab-1", true),
            ("ab-8", false),
            ("ac-7", false),
            ("ab-", false),
            ("changed", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CHANGE, HeaderValue::from_static(value));
            assert_eq!(changes.has_told(&headers), is_own, "{value}");
        }
        assert!(!changes.has_told(&HeaderMap::new()));
    }
}
