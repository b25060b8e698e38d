//! Answers that need not be sent again.
//!
//! What is shown has a tag: a hash of what is shown, so that nothing has to be thought of when a
//! representation gets another field, and a new version of the server has new tags by itself.
//! The tag is weak: what changes by the mere passing of time is left out of it. Reading the store
//! is not saved by this; sending, and whatever the client does with what it gets, is.
//!
//! Every answer says `Cache-Control: no-cache`: whoever keeps it asks each time whether it still
//! holds.

use std::hash::{DefaultHasher, Hasher};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::respond;

/// A representation with its tag.
pub(super) fn tagged(body: &impl Serialize) -> Response {
    tagged_by(body, body)
}

/// A representation with a tag of that part of it which matters.
pub(super) fn tagged_by(body: &impl Serialize, matters: &impl Serialize) -> Response {
    let mut response = respond(StatusCode::OK, body);
    // What cannot be written is answered with an error, and that has no tag.
    if response.status() == StatusCode::OK
        && let Ok(bytes) = serde_json::to_vec(matters)
    {
        let tag = tag(&bytes);
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The tag of some bytes. The hash may be another one in a later version: that costs one answer.
pub(super) fn tag(bytes: &[u8]) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    let text = format!("W/\"{:016x}\"", hasher.finish());
    // Digits and quotes are always fine in a header.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// Leaves out what the client has.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = request.headers().clone();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static("no-cache");
    headers.entry(header::CACHE_CONTROL).or_insert(policy);
    if !reads || !is_known(&known, headers.get(header::ETAG)) {
        return response;
    }
    let mut unchanged = StatusCode::NOT_MODIFIED.into_response();
    for name in [header::ETAG, header::CACHE_CONTROL] {
        if let Some(value) = headers.remove(&name) {
            unchanged.headers_mut().insert(name, value);
        }
    }
    unchanged
}

fn is_known(headers: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return false;
    };
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    // Our own tags have no comma in them, and others cannot match.
    let mut values = values.flat_map(|value| value.split(',')).map(str::trim);
    values.any(|it| it == "*" || opaque(it) == opaque(tag))
}

/// Whether a tag is weak does not matter for reading.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_in_any_place_and_strength_and_not_by_a_part_of_it() {
        let mine = HeaderValue::from_static("W/\"0a\"");
        let known = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_static(value);
                headers.append(header::IF_NONE_MATCH, value);
            }
            is_known(&headers, Some(&mine))
        };
        for good in ["W/\"0a\"", "\"0a\"", "*", "\"x\", W/\"0a\""] {
            assert!(known(&[good]), "{good}");
        }
        assert!(known(&["\"x\"", "\"0a\""]));
        for bad in ["", "0a", "\"0\"", "\"0a", "W/", "w/\"0a\"", ","] {
            assert!(!known(&[bad]), "{bad}");
        }
        assert!(!known(&[]));
        assert!(!is_known(&HeaderMap::new(), None));
    }

    #[test]
    fn tags_differ_where_bytes_do() {
        assert_eq!(tag(b"a"), tag(b"a"));
        assert_ne!(tag(b"a"), tag(b"b"));
    }
}
