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
use baton_model::api::{Problem, RangeSummary};
use baton_web::frame::Refresh;
use baton_web::headers;
use baton_web::pages::Template as _;
use baton_web::pages::range::{Answers, PARTS, RangeCounts, RangePage};
use tokio::time::timeout;

use super::api_client::ApiClient;
use super::{Pages, html};
use crate::http::extract::Target;
use crate::http::streams::{Pipe, StreamRequest};
use crate::limits::RANGE_PARTS_OF_MAX;

/// Time that the page waits for the counts before it begins without them.
const COUNT_WAIT: Duration = Duration::from_millis(40);

pub(super) async fn page(pages: &Pages, api: ApiClient, id: &str, request: Request) -> Response {
    let api = Arc::new(api);
    let mut counting = Box::pin({
        let (api, id) = (Arc::clone(&api), id.to_owned());
        async move { read(&api, &id).await }
    });
    let mut frame = pages.frame(&api, id, "");
    match timeout(COUNT_WAIT, &mut counting).await {
        Ok(Ok(answers)) => {
            frame.failures = api.failures();
            let counts = Some(RangeCounts::new(frame.clone(), answers));
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
            Ok(answers) => RangeCounts::new(frame, answers),
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

/// The counts of a range, and its failures. A map of a range that is too long for it is left out.
async fn read(api: &ApiClient, id: &str) -> Result<Answers, Problem> {
    let path = format!("/instances/{id}");
    let asked = if has_map(id) {
        format!("{path}?parts={PARTS}")
    } else {
        path.clone()
    };
    let summary: RangeSummary = api.get(&asked).await?;
    let errors = summary.links.get("errors");
    let (errors, alarms) = tokio::join!(
        async { api.get_part(errors?, "The failures").await },
        api.get_part("/alarms?limit=1000", "The alarms"),
    );
    Ok(Answers {
        summary,
        errors,
        alarms,
    })
}

/// Whether the API counts the parts of this range.
fn has_map(id: &str) -> bool {
    let Ok(Target::Many(ranges)) = Target::parse(id) else {
        return false;
    };
    matches!(&*ranges, [(first, last)] if last.0 - first.0 < RANGE_PARTS_OF_MAX)
}
