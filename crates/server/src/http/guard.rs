//! Checks before every handler: authentication, host, origin and rate limit.
//!
//! Where authentication is required, a client presents a valid token or certificate, and `routes`
//! has the role that each route requires. A browser does not send tokens by itself, so no web page can use one.
//! It does present certificates, so for them *Origin* is checked as below.
//!
//! Elsewhere every client that reaches the port may use it. A web page in the browser of a user
//! reaches a loopback port, too. Two headers that it cannot forge keep it out: *Host*, which names
//! the server of the page if its name was made to resolve to this address (DNS rebinding), and
//! *Origin*, which a browser adds to every write.
//!
//! Requests are rate-limited per token or certificate, or else per address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_model::limits::TOKEN_NAME_CHARS_MAX;
use baton_model::token;

use super::app::App;
use super::peer::{PartOfPage, Peer};
use super::problem::{Answer, Fault};
use super::{owners, roles, routes};
use crate::access::{Caller, Identity};
use crate::rate_limit::{RateKey, address_group};

/// Header with the name of a client's user, where no authentication is required.
const USER: header::HeaderName = header::HeaderName::from_static("baton-user");

pub(super) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let peer = Peer::of(request.extensions());
    let caller = if app.0.requires_credentials {
        roles::identify(
            &app.0.access,
            request.headers(),
            peer.certificate.as_deref(),
        )
    } else {
        anonymous(request.headers())
    };
    // A page is one request, whatever it asks of the API.
    if request.extensions().get::<PartOfPage>().is_none() {
        let key = rate_key(&caller, peer.ip);
        if let Err(wait) = app.0.rate_limit.take(key, Instant::now()) {
            return too_many(wait);
        }
    }
    if let Err(detail) = check_origin(&request, &app, &caller, peer.secure) {
        return Fault::new(StatusCode::FORBIDDEN, "forbidden", detail).into_response();
    }
    if request.method() == Method::OPTIONS {
        return options(next.run(request).await);
    }
    // Without a matching route there is nothing to protect.
    if let Some(path) = request.extensions().get::<MatchedPath>() {
        let Some(route) = routes::find(request.method(), path.as_str()) else {
            return Fault::other_method().into_response();
        };
        let caller = match roles::authorize(caller, route.minimum_role) {
            Ok(caller) => caller,
            Err(fault) => return fault.into_response(),
        };
        if let Some(owner) = &caller.owner
            && let Err(fault) = owners::check(&app, owner, route.scope, &mut request).await
        {
            return fault.into_response();
        }
        request.extensions_mut().insert(caller);
    }
    next.run(request).await
}

/// The caller where no authentication is required, with the user that it claims to be.
pub(super) fn anonymous(headers: &HeaderMap) -> Answer<Caller> {
    let Some(value) = headers.get(USER) else {
        return Ok(Caller::ANONYMOUS);
    };
    let name = std::str::from_utf8(value.as_bytes()).ok();
    let name = name.filter(|name| token::check_name(name).is_ok());
    let name = name.filter(|_| !is_repeated(headers, USER));
    let name = name.ok_or_else(|| {
        Fault::bad_request(format!(
            "the header Baton-User must be one name of 1 to {TOKEN_NAME_CHARS_MAX} characters; \
             send the name of your user, or no such header"
        ))
    })?;
    Ok(Caller {
        identity: Identity::Anonymous(Some(name.into())),
        ..Caller::ANONYMOUS
    })
}

/// The bucket of the rate limiter for this caller.
fn rate_key(caller: &Answer<Caller>, ip: IpAddr) -> RateKey {
    match caller.as_ref().map(|caller| &caller.identity) {
        Ok(Identity::Token(id, _) | Identity::Pilot(id, _)) => RateKey::Token(*id),
        Ok(Identity::Certificate(name)) => RateKey::Certificate(Arc::clone(name)),
        Ok(Identity::LocalWorker | Identity::Anonymous(_)) | Err(_) => {
            RateKey::Address(address_group(ip))
        }
    }
}

fn too_many(wait: Duration) -> Response {
    let fault = Fault::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too-many-requests",
        "rate limit exceeded; wait a moment, or ask the operator to raise --max-requests",
    );
    fault.after(wait).into_response()
}

/// Rejects requests of web pages of other servers.
fn check_origin(
    request: &Request,
    app: &App,
    caller: &Answer<Caller>,
    secure: bool,
) -> Result<(), &'static str> {
    let headers = request.headers();
    // A proxy before this server may decide by another one than this server.
    if is_repeated(headers, header::HOST) || is_repeated(headers, header::ORIGIN) {
        return Err("the header Host or Origin is repeated; send it once");
    }
    let by_certificate = matches!(
        caller,
        Ok(Caller {
            identity: Identity::Certificate(_),
            ..
        })
    );
    if app.0.requires_credentials && !by_certificate {
        return Ok(());
    }
    let writes = !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    if !app.0.requires_credentials
        && !is_our_host(headers, request.uri().authority(), app.0.address)
    {
        return Err(
            "the header Host names another server; use the address that this one listens on",
        );
    }
    if writes && !is_our_origin(headers, secure) {
        return Err("web pages of other servers must not change anything here");
    }
    Ok(())
}

/// No handler takes OPTIONS: the router lists the supported methods in Allow, behind this layer.
fn options(response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    StatusCode::NO_CONTENT.into_response()
}

fn is_repeated(headers: &HeaderMap, name: header::HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// True if a request names the server at this address as its host: the header, and the target if it is absolute.
#[must_use]
pub fn is_our_host(headers: &HeaderMap, target: Option<&Authority>, address: SocketAddr) -> bool {
    // `evil.example@127.0.0.1` names a user, and a careless reader takes it for the host.
    let plain = |named: &Authority| !named.as_str().contains('@') && is_ours(named.host(), address);
    let named = text(headers, header::HOST).and_then(|host| host.parse::<Authority>().ok());
    target.is_none_or(plain) && named.as_ref().is_some_and(plain)
}

fn is_ours(host: &str, address: SocketAddr) -> bool {
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let Ok(ip) = bare.unwrap_or(host).parse::<IpAddr>() else {
        return false;
    };
    // On the unspecified address any IP is accepted: a page can choose a name, not an address.
    ip.is_loopback() || ip == address.ip() || address.ip().is_unspecified()
}

/// True for clients that are no browsers, and for pages of this server.
pub(super) fn is_our_origin(headers: &HeaderMap, secure: bool) -> bool {
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let scheme = if secure { "https://" } else { "http://" };
    let origin = text(headers, header::ORIGIN).and_then(|it| it.strip_prefix(scheme));
    origin.is_some() && origin == text(headers, header::HOST)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).expect("plain");
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, value(host));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, value(origin));
        }
        headers
    }

    #[test]
    fn only_loopback_and_the_own_address_are_our_host() {
        let address = SocketAddr::from(([10, 0, 0, 7], 8080));
        let ours = |host| is_our_host(&headers(host, None), None, address);
        for host in [
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:1",
            "[::1]:80",
            "10.0.0.7",
        ] {
            assert!(ours(host), "{host}");
        }
        for host in [
            "evil.example",
            "10.0.0.8",
            "localhost.evil.example",
            "evil.example@127.0.0.1",
            "",
            "a b",
        ] {
            assert!(!ours(host), "{host}");
        }
        assert!(!is_our_host(&HeaderMap::new(), None, address));
        let elsewhere: Authority = "evil.example".parse().expect("plain");
        let here = headers("localhost", None);
        assert!(!is_our_host(&here, Some(&elsewhere), address));
    }

    #[test]
    fn a_page_of_another_server_is_not_our_origin() {
        let ours = |origin| is_our_origin(&headers("localhost:8080", origin), false);
        let https = headers("localhost:8080", Some("https://localhost:8080"));
        assert!(is_our_origin(&https, true));
        assert!(ours(None));
        assert!(ours(Some("http://localhost:8080")));
        for origin in [
            "http://evil.example",
            "http://localhost:9",
            "https://localhost:8080",
            "null",
        ] {
            assert!(!ours(Some(origin)), "{origin}");
        }
    }
}
