//! The OpenAPI document, and its HTML page.
//!
//! Both come from the committed `docs/openapi.json`, so that the shipped binary carries no
//! generator. With the feature `openapi` the file is generated from the annotations of the
//! handlers, and a test compares the two; `make golden` rewrites it.
//!
//! HEAD and OPTIONS are not listed for each path: they are answered everywhere, in the same way.

#[cfg(feature = "openapi")]
pub(super) mod answers;
#[cfg(feature = "openapi")]
pub(crate) mod generate;
#[cfg(feature = "openapi")]
mod order;
mod page;
#[cfg(feature = "openapi")]
mod refine;

use std::io;
use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use flate2::read::GzDecoder;

use super::conditional;

/// The document, as served.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));
    io::read_to_string(GzDecoder::new(COMPRESSED)).expect("the build has compressed a text")
});

static PAGE: LazyLock<String> = LazyLock::new(|| page::render(&TEXT));

/// The OpenAPI document
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    operation_id = "openapi",
    responses(
        (status = 200, description = "OpenAPI 3.1.", content_type = "application/openapi+json", body = Object),
        answers::Unchanged
    )
))]
pub(super) async fn document() -> Response {
    let media = HeaderValue::from_static("application/openapi+json");
    let tag = conditional::tag(TEXT.as_bytes());
    let headers = [(header::CONTENT_TYPE, media), (header::ETAG, tag)];
    (headers, TEXT.as_str()).into_response()
}

/// The API reference as an HTML page
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/docs",
    tag = "server",
    operation_id = "docs",
    responses(
        (status = 200, description = "HTML.", content_type = "text/html", body = String)
    )
))]
pub(super) async fn docs() -> Response {
    // The page loads nothing and runs no scripts.
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    let headers = [(header::CONTENT_SECURITY_POLICY, policy)];
    (headers, Html(PAGE.as_str())).into_response()
}

#[cfg(test)]
mod tests;
