//! The stream that tells open pages that the history has changed.
//!
//! It carries no data: a page that hears of a change loads itself again. So a page costs at most one
//! message and one load each second, however much happens.

use std::time::Duration;

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::time::sleep;

use super::Pages;
use super::ask::Asker;
use crate::http::streams::StreamRequest;
use crate::limits::EVENTS_HEARTBEAT;

/// Minimum time from one message to the next.
const PACE: Duration = Duration::from_secs(1);

pub(super) async fn changes(State(pages): State<Pages>, request: Request) -> Response {
    let ask = Asker::new(&pages, &request);
    // A viewer that may not read the root gets no stream.
    if let Err(problem) = ask.get::<Value>("/").await {
        return pages.error(&ask, problem, None);
    }
    let (mut parts, _) = request.into_parts();
    ask.session.authenticate(&mut parts.headers);
    let Ok(request) = StreamRequest::from_request_parts(&mut parts, &()).await;
    let app = &pages.0.app;
    let mut committed = app.0.committed.clone();
    let body = app.stream(&request, false, |pipe| async move {
        if !pipe.put("retry: 1000\n\n").await {
            return;
        }
        loop {
            let message = tokio::select! {
                changed = committed.changed() => match changed {
                    Ok(()) => "data: changed\n\n",
                    Err(_) => return,
                },
                () = sleep(EVENTS_HEARTBEAT) => ": still here\n\n",
            };
            if !pipe.put(message).await {
                return;
            }
            sleep(PACE).await;
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
