//! Content negotiation: `Accept`.
//!
//! A representation of the API has two media types: the versioned one, which is the default, and
//! `application/json` for clients that ask for it only. A client that accepts neither gets 406, and
//! its request changes nothing. Streams, pages and problems have one media type each, whatever the
//! client accepts.
//!
//! The type of a representation is in its header `Link`: see `response`.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_model::api::MEDIA_TYPE;

use super::problem::Fault;

/// What the API offers, the default first.
const OFFERED: [&str; 2] = [MEDIA_TYPE, "application/json"];

/// The quality of what is accepted without a weight, in thousandths.
const FULL: u16 = 1_000;

/// Answers with a media type that the client accepts.
pub(super) async fn negotiate(request: Request, next: Next) -> Response {
    if request.extensions().get::<MatchedPath>().is_none() {
        return next.run(request).await;
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let chosen = choose(request.headers());
    // Reads have no effect, and some are streams or pages: their response decides.
    if chosen.is_none() && !is_read {
        return not_acceptable();
    }
    let mut response = next.run(request).await;
    let media = response.headers().get(header::CONTENT_TYPE);
    if media.is_none_or(|media| media != MEDIA_TYPE) {
        return response;
    }
    let Some(chosen) = chosen else {
        return not_acceptable();
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(chosen));
    headers.append(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn not_acceptable() -> Response {
    Fault::new(
        StatusCode::NOT_ACCEPTABLE,
        "not-acceptable",
        format!("the response is JSON; accept {MEDIA_TYPE} or application/json"),
    )
    .into_response()
}

/// True if the client prefers a page to JSON, as browsers do. `*/*` prefers neither, and gets JSON.
pub(super) fn prefers_html(headers: &HeaderMap) -> bool {
    let ranges = ranges(headers);
    let json = OFFERED.iter().map(|offered| quality(&ranges, offered));
    quality(&ranges, "text/html") > json.max().unwrap_or(0)
}

/// True if the client prefers JSON to a page. `*/*` prefers neither: for servers whose default is a
/// page.
#[must_use]
pub fn prefers_json(headers: &HeaderMap) -> bool {
    let ranges = ranges(headers);
    quality(&ranges, "application/json") > quality(&ranges, "text/html")
}

/// The offered type that the client prefers; `None` if it accepts none of them.
fn choose(headers: &HeaderMap) -> Option<&'static str> {
    let ranges = ranges(headers);
    if ranges.is_empty() {
        return Some(MEDIA_TYPE);
    }
    let [versioned, plain] = OFFERED;
    match (quality(&ranges, versioned), quality(&ranges, plain)) {
        (0, 0) => None,
        (first, second) if first >= second => Some(versioned),
        _ => Some(plain),
    }
}

fn ranges(headers: &HeaderMap) -> Vec<Range<'_>> {
    let values = headers.get_all(header::ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(Range::parse)
        .collect()
}

fn quality(ranges: &[Range<'_>], offered: &str) -> u16 {
    let matching = ranges.iter().filter(|range| range.matches(offered));
    let best = matching.max_by_key(|range| range.specificity());
    best.map_or(0, |range| range.quality)
}

/// A media range of `Accept`: `application/*;q=0.5`.
#[derive(Debug)]
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// In thousandths.
    quality: u16,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = match weight {
            None => FULL,
            Some(weight) => {
                let weight: f32 = weight.parse().ok().filter(|it| (0.0..=1.0).contains(it))?;
                // Between 0 and 1000.
                (weight * f32::from(FULL)) as u16
            }
        };
        Some(Self {
            kind,
            subtype,
            quality,
        })
    }

    fn matches(&self, offered: &str) -> bool {
        let (kind, subtype) = offered.split_once('/').unwrap_or((offered, ""));
        let is_kind = self.kind == "*" || self.kind.eq_ignore_ascii_case(kind);
        is_kind && (self.subtype == "*" || self.subtype.eq_ignore_ascii_case(subtype))
    }

    fn specificity(&self) -> u8 {
        u8::from(self.kind != "*") + u8::from(self.subtype != "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gets_the_offered_type_that_it_prefers() {
        let plain = Some("application/json");
        for (accept, chosen) in [
            (None, Some(MEDIA_TYPE)),
            (Some(""), Some(MEDIA_TYPE)),
            (Some("*/*"), Some(MEDIA_TYPE)),
            (Some("application/*"), Some(MEDIA_TYPE)),
            (Some(MEDIA_TYPE), Some(MEDIA_TYPE)),
            (Some("application/json"), plain),
            (Some("Application/JSON; charset=utf-8"), plain),
            (Some("application/json, */*;q=0.1"), plain),
            (Some("text/html, application/json;q=0.9"), plain),
            (Some("text/html,*/*;q=0.8"), Some(MEDIA_TYPE)),
            (
                Some("application/json, application/vnd.baton.v1+json"),
                Some(MEDIA_TYPE),
            ),
            (Some("text/html"), None),
            (Some("application/vnd.baton.v2+json"), None),
            (Some("application/json;q=0"), None),
            (
                Some("*/*, application/json;q=0, application/vnd.baton.v1+json;q=0"),
                None,
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                let value = HeaderValue::from_static(accept);
                headers.insert(header::ACCEPT, value);
            }
            assert_eq!(choose(&headers), chosen, "{accept:?}");
        }
    }

    #[test]
    fn a_browser_prefers_a_page_and_other_clients_do_not() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, is_page) in [
            (browser, true),
            ("text/html", true),
            ("*/*", false),
            ("", false),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0.5, application/json;q=0.5", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_html(&headers), is_page, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
