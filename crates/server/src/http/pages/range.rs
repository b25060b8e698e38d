//! The page of a range of instances.
//!
//! To count a million separate instances by state takes longer than a page may. Then the page
//! begins without the counts, and they follow in the same response: a reader has the heading at
//! once, also without scripts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_model::api::RangeSummary;
use baton_web::frame::{Action, Frame, Refresh};
use baton_web::headers;
use baton_web::pages::Template as _;
use baton_web::pages::instances::{RangeCounts, RangePage};
use tokio::time::timeout;

use super::api_client::ApiClient;
use super::{Pages, html};
use crate::http::streams::{Pipe, StreamRequest};

/// Time that the page waits for the counts before it begins without them.
const COUNT_WAIT: Duration = Duration::from_millis(40);

pub(super) async fn page(pages: &Pages, api: ApiClient, id: &str, request: Request) -> Response {
    let api = Arc::new(api);
    let mut counting = Box::pin({
        let (api, path) = (Arc::clone(&api), format!("/instances/{id}"));
        async move { api.get::<RangeSummary>(&path).await }
    });
    let mut frame = pages.frame(&api, id, "");
    match timeout(COUNT_WAIT, &mut counting).await {
        Ok(Ok(summary)) => {
            let counts = Some(counts(frame.clone(), summary));
            return html(StatusCode::OK, &RangePage { frame, counts });
        }
        Ok(Err(problem)) => return pages.error(&api, problem, None),
        Err(_) => frame.refresh = Refresh::Throttled,
    }
    let Ok((begin, end)) = RangePage::around_counts(frame.clone()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let (mut head, _) = request.into_parts();
    api.session.authenticate(&mut head.headers);
    let rest = |pipe: Pipe| async move {
        if !pipe.put(begin).await {
            return;
        }
        let counted = match counting.await {
            Ok(summary) => counts(frame, summary),
            Err(problem) => RangeCounts {
                problem: Some(problem.detail),
                ..RangeCounts::none(frame)
            },
        };
        match counted.render() {
            Ok(counted) => drop(pipe.put(counted + &end).await),
            Err(_) => pipe.truncate().await,
        }
    };
    let app = &pages.0.app;
    match app.stream(&StreamRequest::of(&head), true, rest) {
        Ok(body) => (StatusCode::OK, headers::PAGE, body).into_response(),
        Err(fault) => fault.into_response(),
    }
}

fn counts(frame: Frame, summary: RangeSummary) -> RangeCounts {
    let RangeSummary {
        first,
        last,
        counts,
        links,
    } = summary;
    let cancel = links.get("cancel").map(|target| {
        let question = format!("Cancel what has not ended from {first} to {last}?");
        Action::new("Cancel", target).ask(question)
    });
    let counts = counts.into_iter();
    RangeCounts {
        counts: counts.map(|(state, count)| (state.word(), count)).collect(),
        actions: cancel.into_iter().collect(),
        ..RangeCounts::none(frame)
    }
}
