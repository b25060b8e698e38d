//! What each request needs: one line for each, in one table.
//!
//! Whatever is not in the table is not answered, to nobody: a route without a line here is as
//! good as none. So nobody can forget to say who may use it.

use axum::http::{HeaderMap, Method, StatusCode, header};
use baton_model::token::{Role, Secret};

use super::problem::{Answer, Fault};
use crate::access::{Access, Caller, Certificate, Who};
use crate::clock;

/// A request that is answered, and who may make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its method. GET stands for HEAD as well.
    pub method: &'static str,
    /// Its path, with the names of what varies.
    pub path: &'static str,
    /// The least role that may; `None` if nobody has to say who they are.
    pub least: Option<Role>,
}

const fn line(method: &'static str, path: &'static str, least: Option<Role>) -> Route {
    Route {
        method,
        path,
        least,
    }
}

const ANYBODY: Option<Role> = None;
const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// Every request that is answered.
pub const ROUTES: &[Route] = &[
    line("GET", "/healthz", ANYBODY),
    line("GET", "/readyz", ANYBODY),
    line("GET", "/", VIEWER),
    line("GET", "/openapi.json", VIEWER),
    line("GET", "/docs", VIEWER),
    line("GET", "/metrics", VIEWER),
    line("POST", "/instances", OPERATOR),
    line("POST", "/instances/", OPERATOR),
    line("GET", "/instances/{id}", VIEWER),
    line("DELETE", "/instances/{id}", OPERATOR),
    line("POST", "/instances/{id}/retry", OPERATOR),
    line("GET", "/instances/{id}/timeline", VIEWER),
    line("GET", "/instances/{id}/explain", VIEWER),
    line("GET", "/instances/{id}/logs/{stream}", VIEWER),
    line("GET", "/runs", VIEWER),
    line("GET", "/runs/", VIEWER),
    line("POST", "/runs", OPERATOR),
    line("POST", "/runs/", OPERATOR),
    line("GET", "/runs/{run}", VIEWER),
    line("DELETE", "/runs/{run}", OPERATOR),
    line("GET", "/runs/{run}/tasks", VIEWER),
    line("GET", "/runs/{run}/tasks/", VIEWER),
    line("POST", "/runs/{run}/tasks", OPERATOR),
    line("POST", "/runs/{run}/tasks/", OPERATOR),
    line("GET", "/runs/{run}/items", VIEWER),
    line("GET", "/runs/{run}/items/", VIEWER),
    line("GET", "/runs/{run}/errors", VIEWER),
    line("POST", "/runs/{run}/start", OPERATOR),
    line("POST", "/runs/{run}/halt", OPERATOR),
    line("POST", "/runs/{run}/resume", OPERATOR),
    line("POST", "/runs/{run}/retry", OPERATOR),
    line("GET", "/bullpen", VIEWER),
    line("GET", "/bullpen/", VIEWER),
    line("GET", "/arena", VIEWER),
    line("GET", "/arena/", VIEWER),
    line("GET", "/history", VIEWER),
    line("GET", "/history/", VIEWER),
    line("GET", "/history/ticks", VIEWER),
    line("GET", "/history/ticks/", VIEWER),
    line("GET", "/library", VIEWER),
    line("GET", "/library/", VIEWER),
    line("GET", "/{owner}/tasks", VIEWER),
    line("GET", "/{owner}/tasks/", VIEWER),
    line("POST", "/{owner}/tasks", OPERATOR),
    line("POST", "/{owner}/tasks/", OPERATOR),
    line("GET", "/{owner}/tasks/{name}", VIEWER),
    line("PUT", "/{owner}/tasks/{name}", OPERATOR),
    line("DELETE", "/{owner}/tasks/{name}", OPERATOR),
    line("GET", "/{owner}/tasks/{name}/due", VIEWER),
    line("GET", "/{owner}/tasks/{name}/revisions", VIEWER),
    line("GET", "/{owner}/tasks/{name}/revisions/", VIEWER),
    line("GET", "/{owner}/tasks/{name}/ticks", VIEWER),
    line("GET", "/{owner}/tasks/{name}/ticks/", VIEWER),
    line("POST", "/{owner}/tasks/{name}/run", OPERATOR),
    // Its handler asks for an operator's token, or for the secret of the task.
    line("POST", "/{owner}/tasks/{name}/trigger", ANYBODY),
    line("GET", "/events", VIEWER),
    line("GET", "/usage", VIEWER),
    line("GET", "/usage/", VIEWER),
    line("GET", "/workers", VIEWER),
    line("GET", "/workers/", VIEWER),
    line("GET", "/workers/{name}", VIEWER),
    line("PUT", "/workers/{name}/drained", OPERATOR),
    line("POST", "/workers/{name}/forget", ADMIN),
    line("GET", "/tokens", ADMIN),
    line("GET", "/tokens/", ADMIN),
    line("POST", "/tokens", ADMIN),
    line("POST", "/tokens/", ADMIN),
    line("DELETE", "/tokens/{id}", ADMIN),
];

/// The line of a request, if it has one.
pub(super) fn line_of(method: &Method, path: &str) -> Option<&'static Route> {
    let method = match *method {
        Method::HEAD => "GET",
        ref other => other.as_str(),
    };
    let mut lines = ROUTES.iter();
    lines.find(|line| line.method == method && line.path == path)
}

/// Who makes a request, by their token or else by their certificate.
pub(super) fn shown(
    access: &Access,
    headers: &HeaderMap,
    certificate: Option<&Certificate>,
) -> Answer<Caller> {
    let now = clock::now().wall;
    match (secret(headers)?, certificate) {
        (Some(secret), _) => access.caller(&secret, now).map_err(|denied| {
            unauthorized(format!(
                "{denied}; an admin makes another with `baton token create`"
            ))
        }),
        (None, Some(certificate)) => certificate.caller(now).map_err(unauthorized),
        (None, None) => Err(unauthorized(
            "this server wants to know who asks: send a token as `Authorization: Bearer …`; \
             `baton` takes it from --token-file or BATON_TOKEN; a certificate serves as well where \
             --client-ca is set",
        )),
    }
}

/// Whoever makes a request, if they may make it.
pub(super) fn admit(shown: Answer<Caller>, least: Option<Role>) -> Answer<Caller> {
    let Some(least) = least else {
        return Ok(Caller::ANYBODY);
    };
    let caller = shown?;
    if caller.role.covers(least) {
        return Ok(caller);
    }
    let what = match caller.who {
        Who::Certificate(_) => "certificate",
        _ => "token",
    };
    let detail = format!(
        "this needs a {what} of the role {least}, and yours has the role {}",
        caller.role
    );
    Err(Fault::new(StatusCode::FORBIDDEN, "role", detail))
}

/// The secret that a request shows, if it shows one.
pub(super) fn secret(headers: &HeaderMap) -> Answer<Option<Secret>> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (given.next(), given.next());
    let Some(first) = first else {
        return Ok(None);
    };
    let bearer = first.to_str().ok().and_then(|text| text.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let secret = bearer.and_then(|(_, secret)| Secret::parse(secret.trim()));
    let secret = secret.filter(|_| second.is_none()).ok_or_else(|| {
        // What was sent is not repeated: it may be a secret with a slip of the pen.
        unauthorized(
            "the header Authorization holds no token; write `Bearer baton_…`, as `baton token \
             create` has printed it",
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
    fn a_request_has_one_line_and_head_has_that_of_get() {
        for route in ROUTES {
            let same = |other: &&Route| (other.method, other.path) == (route.method, route.path);
            assert_eq!(ROUTES.iter().filter(same).count(), 1, "{route:?}");
            let looks = route.least == VIEWER;
            assert!(!looks || route.method == "GET", "{route:?}");
        }
        let of = |method| line_of(&method, "/instances/{id}").map(|line| line.least);
        assert_eq!(of(Method::HEAD), Some(VIEWER));
        assert_eq!(of(Method::DELETE), Some(OPERATOR));
        assert_eq!(of(Method::PATCH), None);
        assert_eq!(line_of(&Method::GET, "/nothing"), None);
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
