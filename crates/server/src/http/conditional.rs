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
use baton_model::api::Representation;
use serde::Serialize;

use super::problem::{Answer, Fault};
use super::response::respond;

/// A response with its ETag.
pub(super) fn tagged(body: &impl Representation) -> Response {
    tagged_by(body, body)
}

/// A response with the ETag of the part that `matters`.
pub(super) fn tagged_by(body: &impl Representation, matters: &impl Serialize) -> Response {
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

/// Representations that `If-Match` names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// `*`: any.
    Any,
    /// The strong tags, without quotes. Weak ones never match, as RFC 9110 requires for a change.
    Tags(Vec<String>),
}

/// The representations that `If-Match` names, if the request has it.
pub(super) fn matched(headers: &HeaderMap) -> Answer<Option<Matched>> {
    let values: Vec<&HeaderValue> = headers.get_all(header::IF_MATCH).iter().collect();
    if values.is_empty() {
        return Ok(None);
    }
    let texts: Result<Vec<&str>, _> = values.iter().map(|value| value.to_str()).collect();
    let text = texts.unwrap_or_default().join(",");
    if text.trim() == "*" {
        return Ok(Some(Matched::Any));
    }
    let tags = strong_tags(&text).map(|tags| Some(Matched::Tags(tags)));
    tags.ok_or_else(|| {
        Fault::bad_request(
            "If-Match must be the ETag of a revision, such as \"r3\", several separated by commas, \
             or *",
        )
    })
}

/// The strong tags of a list of tags; `None` if it is none. A tag may contain commas.
fn strong_tags(list: &str) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    let mut rest = list.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let (is_weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (tag, after) = quoted.strip_prefix('"')?.split_once('"')?;
        if !is_weak {
            tags.push(tag.to_owned());
        }
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with(',') {
            return None;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    Some(tags)
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
    fn a_change_names_strong_tags_in_a_list() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_static(value));
            }
            matched(&headers).ok()
        };
        let tags = |tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            Some(Some(Matched::Tags(tags)))
        };
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&[" * "]), Some(Some(Matched::Any)));
        assert_eq!(of(&["\"r1\""]), tags(&["r1"]));
        assert_eq!(of(&["\"r1\" , \"r,2\",,"]), tags(&["r1", "r,2"]));
        assert_eq!(of(&["\"r1\"", "\"r2\""]), tags(&["r1", "r2"]));
        assert_eq!(of(&["W/\"r1\", \"x\""]), tags(&["x"]));
        assert_eq!(of(&["W/\"r1\""]), tags(&[]));
        for bad in ["r1", "\"r1", "\"r1\" \"r2\"", "*, \"r1\"", "w/\"r1\"", "W/"] {
            assert_eq!(of(&[bad]), None, "{bad}");
        }
    }

    #[test]
    fn tags_differ_where_bytes_do() {
        assert_eq!(tag(b"a"), tag(b"a"));
        assert_ne!(tag(b"a"), tag(b"b"));
    }
}
