//! Who may read: the holder of the key that the command has printed.
//!
//! Logs and environments are private to their users, but every user of a host can connect to a
//! loopback port. So the address contains a random key; the first request with it gets a cookie, and
//! continues without the key, which then is in no history of addresses. The header *Host* is
//! checked as the scheduler does, against names that were made to resolve to this address.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use baton_runner::sys::random;
use baton_web::address::local;
use sha2::{Digest as _, Sha256};

use crate::Observer;
use crate::format::Format;
use crate::pages;

/// The parameter of an address with the key.
const PARAMETER: &str = "key";

/// Assets are the same for everyone.
const PUBLIC: &str = "/-/assets/";

/// The key of one observer.
#[derive(Debug)]
pub(crate) struct Access {
    address: SocketAddr,
    key: String,
}

impl Access {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            key: format!("{:016x}{:016x}", random::number(), random::number()),
        }
    }

    /// The address that opens the pages.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?{PARAMETER}={}", self.address, self.key)
    }

    /// Cookies do not know ports: several observers may run on a host.
    fn cookie(&self) -> String {
        format!("baton-observe-{}", self.address.port())
    }

    fn is_key(&self, text: &str) -> bool {
        // Digests take equally long to compare, whatever part of the text is right.
        Sha256::digest(text) == Sha256::digest(&self.key)
    }

    fn is_reader(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie();
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|text| text.split(';'));
        let has_cookie = pairs.any(|pair| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(key, value)| key == name && self.is_key(value))
        });
        has_cookie || self.has_bearer(headers)
    }

    /// True for a program that sends the key itself.
    fn has_bearer(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION);
        let value = value.and_then(|value| value.to_str().ok());
        let key = value.and_then(|value| value.strip_prefix("Bearer "));
        key.is_some_and(|key| self.is_key(key))
    }
}

/// Lets requests of the holder of the key through, and no other.
pub(crate) async fn check(
    State(observer): State<Arc<Observer>>,
    request: Request,
    next: Next,
) -> Response {
    let access = &observer.access;
    let (headers, uri) = (request.headers(), request.uri());
    let format = Format::of(headers);
    if !baton_server::is_our_host(headers, uri.authority(), access.address) {
        let text = "the header Host names another server; use the printed address";
        return pages::error(format, StatusCode::FORBIDDEN, text);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return pages::error(
            format,
            StatusCode::METHOD_NOT_ALLOWED,
            "the pages are read-only",
        );
    }
    if let Some((key, rest)) = without_key(uri)
        && access.is_key(&key)
    {
        let cookie = format!(
            "{}={key}; Path=/; HttpOnly; SameSite=Strict",
            access.cookie()
        );
        return ([(header::SET_COOKIE, cookie)], Redirect::to(local(&rest))).into_response();
    }
    if uri.path().starts_with(PUBLIC) || access.is_reader(headers) {
        return next.run(request).await;
    }
    let text = "open the address that `baton local observe` has printed, with its key";
    pages::error(format, StatusCode::UNAUTHORIZED, text)
}

/// The key of an address, and the address without it.
fn without_key(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let (mut key, mut rest) = (None, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((PARAMETER, value)) => key = Some(value.to_owned()),
            _ => rest.push(pair),
        }
    }
    let rest = match &*rest.join("&") {
        "" => uri.path().to_owned(),
        query => format!("{}?{query}", uri.path()),
    };
    // Two slashes at the beginning would lead to another host.
    Some((key?, format!("/{}", rest.trim_start_matches('/'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new(SocketAddr::from(([127, 0, 0, 1], 8_081)))
    }

    #[test]
    fn the_key_is_taken_out_of_an_address_that_stays_on_this_server() {
        let taken = |uri: &str| without_key(&uri.parse().expect("a URI"));
        let pair = |key: &str, rest: &str| Some((key.to_owned(), rest.to_owned()));
        assert_eq!(taken("/?key=a"), pair("a", "/"));
        assert_eq!(
            taken("/tasks/x?run=1&key=a&b=2"),
            pair("a", "/tasks/x?run=1&b=2")
        );
        assert_eq!(taken("//evil.example/?key=a"), pair("a", "/evil.example/"));
        assert_eq!(taken("/?keys=a"), None);
        assert_eq!(taken("/"), None);
    }

    #[test]
    fn only_the_cookie_of_this_observer_with_its_key_opens_it() {
        let access = access();
        let reads = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().expect("plain"));
            access.is_reader(&headers)
        };
        let key = &access.key;
        assert!(reads(&format!("a=b; baton-observe-8081={key}")));
        assert!(!reads(&format!("baton-observe-8082={key}")));
        assert!(!reads("baton-observe-8081="));
        assert!(!reads(&format!("baton-observe-8081={}", &key[1..])));
        assert!(!access.is_reader(&HeaderMap::new()));
        let mut headers = HeaderMap::new();
        let value = format!("Bearer {key}").parse().expect("plain");
        headers.insert(header::AUTHORIZATION, value);
        assert!(access.is_reader(&headers));
        headers.insert(header::AUTHORIZATION, "Bearer x".parse().expect("plain"));
        assert!(!access.is_reader(&headers));
        assert_ne!(key, &self::access().key);
    }
}
