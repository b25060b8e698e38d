//! Responses with a body of the API.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_model::api::{self, MEDIA_TYPE, Representation};

/// A response with the media type of the API, which names the type of its body.
pub(super) fn respond(status: StatusCode, body: &impl Representation) -> Response {
    let mut response = (status, Json(body)).into_response();
    let media = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    add_profile(&mut response, body);
    response
}

/// Names the type of a body in the header `Link`.
pub(super) fn add_profile(response: &mut Response, body: &impl Representation) {
    // Names of types are plain words.
    if let Ok(profile) = HeaderValue::from_str(&api::profile(body)) {
        response.headers_mut().append(header::LINK, profile);
    }
}

/// Names a representation of one of two types.
macro_rules! one_of {
    ($name:ident: $first:ident | $second:ident) => {
        impl baton_model::api::Representation for $name {
            fn schema() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_of(&self) -> std::borrow::Cow<'static, str> {
                match self {
                    Self::$first(it) => it.schema_of(),
                    Self::$second(it) => it.schema_of(),
                }
            }
        }
    };
}
pub(super) use one_of;
