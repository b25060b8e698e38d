//! Authentication, and authorization by role. `routes` has the role that each route requires.

use axum::http::{HeaderMap, StatusCode, header};
use baton_model::token::{Role, Secret};

use super::problem::{Answer, Fault};
use crate::access::{Access, Caller, Certificate, Identity};
use crate::clock;

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
             `baton` reads it from --token-file, BATON_TOKEN or BATON_TOKEN_FILE; a certificate \
             works as well where --client-ca is set",
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
