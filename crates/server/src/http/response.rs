//! Responses with a body of the API.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_model::api::MEDIA_TYPE;
use serde::Serialize;

/// A response with the media type of the API.
pub(super) fn respond(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    let media = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
