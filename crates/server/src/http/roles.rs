//! Authorization: the role that each route requires.
//!
//! Default deny: a route missing from this table is never served, so no route is public by
//! omission.

use axum::http::{HeaderMap, Method, StatusCode, header};
use baton_model::token::{Role, Secret};

use super::problem::{Answer, Fault};
use crate::access::{Access, Caller, Certificate, Identity};
use crate::clock;

/// A route, and the role that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// HTTP method. GET includes HEAD.
    pub method: &'static str,
    /// Path pattern.
    pub path: &'static str,
    /// The minimum role; `None` for a public route.
    pub minimum_role: Option<Role>,
}

const fn route(method: &'static str, path: &'static str, minimum_role: Option<Role>) -> Route {
    Route {
        method,
        path,
        minimum_role,
    }
}

const PUBLIC: Option<Role> = None;
const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// All routes.
pub const ROUTES: &[Route] = &[
    route("GET", "/healthz", PUBLIC),
    route("GET", "/readyz", PUBLIC),
    route("GET", "/", VIEWER),
    route("GET", "/openapi.json", VIEWER),
    route("GET", "/docs", VIEWER),
    route("GET", "/metrics", VIEWER),
    route("POST", "/instances", OPERATOR),
    route("POST", "/instances/", OPERATOR),
    route("GET", "/instances/{id}", VIEWER),
    route("DELETE", "/instances/{id}", OPERATOR),
    route("POST", "/instances/{id}/retry", OPERATOR),
    route("GET", "/instances/{id}/timeline", VIEWER),
    route("GET", "/instances/{id}/explain", VIEWER),
    route("GET", "/instances/{id}/logs/{stream}", VIEWER),
    route("GET", "/runs", VIEWER),
    route("GET", "/runs/", VIEWER),
    route("POST", "/runs", OPERATOR),
    route("POST", "/runs/", OPERATOR),
    route("GET", "/runs/{run}", VIEWER),
    route("DELETE", "/runs/{run}", OPERATOR),
    route("GET", "/runs/{run}/tasks", VIEWER),
    route("GET", "/runs/{run}/tasks/", VIEWER),
    route("POST", "/runs/{run}/tasks", OPERATOR),
    route("POST", "/runs/{run}/tasks/", OPERATOR),
    route("GET", "/runs/{run}/items", VIEWER),
    route("GET", "/runs/{run}/items/", VIEWER),
    route("GET", "/runs/{run}/errors", VIEWER),
    route("POST", "/runs/{run}/start", OPERATOR),
    route("POST", "/runs/{run}/halt", OPERATOR),
    route("POST", "/runs/{run}/resume", OPERATOR),
    route("POST", "/runs/{run}/retry", OPERATOR),
    route("GET", "/bullpen", VIEWER),
    route("GET", "/bullpen/", VIEWER),
    route("GET", "/arena", VIEWER),
    route("GET", "/arena/", VIEWER),
    route("GET", "/history", VIEWER),
    route("GET", "/history/", VIEWER),
    route("GET", "/history/ticks", VIEWER),
    route("GET", "/history/ticks/", VIEWER),
    route("GET", "/library", VIEWER),
    route("GET", "/library/", VIEWER),
    route("GET", "/{owner}/tasks", VIEWER),
    route("GET", "/{owner}/tasks/", VIEWER),
    route("POST", "/{owner}/tasks", OPERATOR),
    route("POST", "/{owner}/tasks/", OPERATOR),
    route("GET", "/{owner}/tasks/{name}", VIEWER),
    route("PUT", "/{owner}/tasks/{name}", OPERATOR),
    route("DELETE", "/{owner}/tasks/{name}", OPERATOR),
    route("GET", "/{owner}/tasks/{name}/due", VIEWER),
    route("GET", "/{owner}/tasks/{name}/revisions", VIEWER),
    route("GET", "/{owner}/tasks/{name}/revisions/", VIEWER),
    route("GET", "/{owner}/tasks/{name}/ticks", VIEWER),
    route("GET", "/{owner}/tasks/{name}/ticks/", VIEWER),
    route("POST", "/{owner}/tasks/{name}/run", OPERATOR),
    // Its handler requires an operator's token, or the secret of the task.
    route("POST", "/{owner}/tasks/{name}/trigger", PUBLIC),
    route("GET", "/events", VIEWER),
    route("GET", "/usage", VIEWER),
    route("GET", "/usage/", VIEWER),
    route("GET", "/workers", VIEWER),
    route("GET", "/workers/", VIEWER),
    route("GET", "/workers/{name}", VIEWER),
    route("PUT", "/workers/{name}/drained", OPERATOR),
    route("POST", "/workers/{name}/forget", ADMIN),
    route("GET", "/tokens", ADMIN),
    route("GET", "/tokens/", ADMIN),
    route("POST", "/tokens", ADMIN),
    route("POST", "/tokens/", ADMIN),
    route("DELETE", "/tokens/{id}", ADMIN),
];

/// The table entry of a request, if any.
pub(super) fn route_of(method: &Method, path: &str) -> Option<&'static Route> {
    let method = match *method {
        Method::HEAD => "GET",
        ref other => other.as_str(),
    };
    let mut routes = ROUTES.iter();
    routes.find(|route| route.method == method && route.path == path)
}

/// Authenticates a request by its token, or else by its certificate.
pub(super) fn identify(
    access: &Access,
    headers: &HeaderMap,
    certificate: Option<&Certificate>,
) -> Answer<Caller> {
    let now = clock::now().wall;
    match (secret(headers)?, certificate) {
        (Some(secret), _) => access.caller(&secret, now).map_err(|denied| {
            unauthorized(format!(
                "{denied}; an admin creates one with `baton token create`"
            ))
        }),
        (None, Some(certificate)) => certificate.caller(now).map_err(unauthorized),
        (None, None) => Err(unauthorized(
            "this server requires authentication: send a token as `Authorization: Bearer …`; \
             `baton` reads it from --token-file or BATON_TOKEN; a certificate works as well where \
             --client-ca is set",
        )),
    }
}

/// The caller, if its role is sufficient.
pub(super) fn authorize(identify: Answer<Caller>, minimum_role: Option<Role>) -> Answer<Caller> {
    let Some(minimum_role) = minimum_role else {
        return Ok(Caller::ANONYMOUS);
    };
    let caller = identify?;
    if caller.role.covers(minimum_role) {
        return Ok(caller);
    }
    let what = match caller.identity {
        Identity::Certificate(_) => "certificate",
        _ => "token",
    };
    let detail = format!(
        "this requires a {what} of the role {minimum_role}; yours has the role {}",
        caller.role
    );
    Err(Fault::new(StatusCode::FORBIDDEN, "role", detail))
}

/// The token of a request, if it has one.
pub(super) fn secret(headers: &HeaderMap) -> Answer<Option<Secret>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    let Some(first) = first else {
        return Ok(None);
    };
    let bearer = first.to_str().ok().and_then(|text| text.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let secret = bearer.and_then(|(_, secret)| Secret::parse(secret.trim()));
    let secret = secret.filter(|_| second.is_none()).ok_or_else(|| {
        // The value is not quoted: it may be a secret with a typo.
        unauthorized(
            "the header Authorization contains no token; send `Bearer baton_…`, as printed by \
             `baton token create`",
        )
    })?;
    Ok(Some(secret))
}

fn unauthorized(detail: impl Into<String>) -> Fault {
    Fault::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_has_one_route_and_head_has_that_of_get() {
        for route in ROUTES {
            let same = |other: &&Route| (other.method, other.path) == (route.method, route.path);
            assert_eq!(ROUTES.iter().filter(same).count(), 1, "{route:?}");
            let looks = route.minimum_role == VIEWER;
            assert!(!looks || route.method == "GET", "{route:?}");
        }
        let of = |method| route_of(&method, "/instances/{id}").map(|route| route.minimum_role);
        assert_eq!(of(Method::HEAD), Some(VIEWER));
        assert_eq!(of(Method::DELETE), Some(OPERATOR));
        assert_eq!(of(Method::PATCH), None);
        assert_eq!(route_of(&Method::GET, "/nothing"), None);
    }

    #[test]
    fn only_one_whole_bearer_header_shows_a_secret() {
        let good = Secret::from_bits([7; 32]);
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_str(value).expect("plain");
                headers.append(header::AUTHORIZATION, value);
            }
            secret(&headers).ok().flatten()
        };
        let text = good.expose();
        let bearer = format!("Bearer {text}");
        assert_eq!(read(&[&bearer]), Some(good.clone()));
        assert_eq!(read(&[&format!("bearer  {text}")]), Some(good.clone()));
        let (basic, bare) = (format!("Basic {text}"), text.to_owned());
        let cut = bearer[..bearer.len() - 1].to_owned();
        for bad in [basic, bare, cut, "Bearer ".to_owned(), String::new()] {
            assert_eq!(read(&[&bad]), None, "{bad}");
        }
        assert_eq!(read(&[&bearer, &bearer]), None);
        assert_eq!(read(&[]), None);
    }
}
