//! The format of an answer: a page, or JSON for a client that prefers it.
//!
//! The addresses are the same. JSON is that of `baton local status --json`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

/// The format that a client prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Page,
    Json,
}

impl Format {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if baton_server::prefers_json(headers) {
            Self::Json
        } else {
            Self::Page
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Format {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let Ok(text) = serde_json::to_string(value) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "accept"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, text).into_response()
}
