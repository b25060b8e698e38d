//! ETags and conditional requests.
//!
//! The tag of a representation is a hash of it, so that new fields and new server versions change
//! it automatically. The tag is weak: fields that change merely with time are excluded. This saves
//! sending and processing a response, not reading the store.
//!
//! Every response has `Cache-Control: no-cache`: a cache must revalidate it each time.

use std::hash::{DefaultHasher, Hasher};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::response::respond;

/// A response with its ETag.
pub(super) fn tagged(body: &impl Serialize) -> Response {
    tagged_by(body, body)
}

/// A response with the ETag of the part that `matters`.
pub(super) fn tagged_by(body: &impl Serialize, matters: &impl Serialize) -> Response {
    let mut response = respond(StatusCode::OK, body);
    // A serialization failure is answered with an error, which has no tag.
    if response.status() == StatusCode::OK
        && let Ok(bytes) = serde_json::to_vec(matters)
    {
        let tag = tag(&bytes);
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The ETag of some bytes. A later version may hash differently: that costs one response.
pub(super) fn tag(bytes: &[u8]) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    let text = format!("W/\"{:016x}\"", hasher.finish());
    // Digits and quotes are always valid in a header.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// Answers 304 if the client already has the representation.
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

/// Whether the client already has the representation with this tag.
pub(super) fn is_known(headers: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return false;
    };
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    // Tags of this server contain no comma, and others cannot match.
    let mut values = values.flat_map(|value| value.split(',')).map(str::trim);
    values.any(|it| it == "*" || opaque(it) == opaque(tag))
}

/// Weak comparison, as for every read.
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
