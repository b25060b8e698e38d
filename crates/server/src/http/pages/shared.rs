//! Renderings of pages that several viewers share.
//!
//! Open pages hear of a change at the same time and load themselves again, each with the number of
//! the change. The first one renders; the others of the same address and the same viewer get the
//! same bytes. A rendering begins after the change that it is kept for, and is dropped at the next
//! one, so no page misses what it was told of. A page that is loaded for any other reason is
//! rendered for itself: its reader may have changed something just now.
//!
//! A rendering has an ETag, and a page that has it already gets 304.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_web::headers;
use hyper::body::Body as _;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::api_client::ApiClient;
use super::{Pages, show};
use crate::access::Caller;
use crate::http::conditional::{is_known, tag};

/// Renderings that are kept: beyond it, pages are rendered for themselves.
const RENDERINGS_MAX: usize = 64;

/// The renderings since the last change.
#[derive(Default)]
pub(super) struct Shared(Mutex<Renderings>);

#[derive(Default)]
struct Renderings {
    /// The change after which they began.
    change: u64,
    pages: Vec<(Key, Arc<OnceCell<Rendering>>)>,
}

/// Everything that a page depends on, beside the state of the server.
#[derive(PartialEq, Eq)]
struct Key {
    /// Path and query.
    here: String,
    caller: Caller,
    /// The token of its forms: that of a session.
    form_token: Option<String>,
}

/// Extension of a response whose content is for its own reader alone.
#[derive(Clone, Copy)]
pub(super) struct ForOneReader;

#[derive(Clone)]
struct Rendering {
    text: Bytes,
    tag: HeaderValue,
}

/// The page of a request.
pub(super) async fn page(pages: &Pages, request: Request) -> Response {
    let known = request.headers().clone();
    let is_told = request.method() == Method::GET && pages.0.changes.has_told(&known);
    if !is_told {
        return show::page(pages, request).await;
    }
    let api = ApiClient::new(pages, &request);
    let Some(cell) = cell(pages, &api) else {
        return show::page(pages, request).await;
    };
    let mut is_mine = false;
    let rendering = cell.get_or_try_init(async || {
        is_mine = true;
        rendering(show::page(pages, request).await).await
    });
    let Rendering { text, tag } = match rendering.await {
        Ok(rendering) => rendering.clone(),
        Err(response) => return response,
    };
    // The authorization and the rate of a viewer are checked by what it asks of the API.
    if !is_mine && let Err(problem) = api.get::<Value>("/").await {
        return pages.error(&api, problem, None);
    }
    let is_known = is_known(&known, Some(&tag));
    let (status, text) = if is_known {
        (StatusCode::NOT_MODIFIED, Bytes::new())
    } else {
        (StatusCode::OK, text)
    };
    let mut response = (status, headers::PAGE, Body::from(text)).into_response();
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// The place of the rendering for a viewer, since the last change.
fn cell(pages: &Pages, api: &ApiClient) -> Option<Arc<OnceCell<Rendering>>> {
    let key = Key {
        here: api.here.clone(),
        caller: api.session.caller()?.clone(),
        form_token: api.session.form_token(pages),
    };
    // Every change leaves it valid.
    let renderings = pages.0.shared.0.lock();
    let mut renderings = renderings.unwrap_or_else(PoisonError::into_inner);
    let change = pages.0.changes.last();
    if renderings.change != change {
        renderings.change = change;
        renderings.pages.clear();
    }
    let found = renderings.pages.iter().find(|(it, _)| *it == key);
    if let Some((_, cell)) = found {
        return Some(Arc::clone(cell));
    }
    if renderings.pages.len() >= RENDERINGS_MAX {
        return None;
    }
    let cell = Arc::default();
    renderings.pages.push((key, Arc::clone(&cell)));
    Some(cell)
}

/// A whole page as a rendering. An error, and a page that is still being written, is for its own
/// reader alone.
async fn rendering(response: Response) -> Result<Rendering, Response> {
    let size = response.body().size_hint().exact();
    let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
        return Err(response);
    };
    let is_alone = response.extensions().get::<ForOneReader>().is_some();
    if response.status() != StatusCode::OK || is_alone {
        return Err(response);
    }
    match axum::body::to_bytes(response.into_body(), size).await {
        Ok(text) => Ok(Rendering {
            tag: tag(&text),
            text,
        }),
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
    }
}
