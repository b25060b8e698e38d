//! Sessions: a token in a cookie that scripts cannot read, and the tokens of forms.
//!
//! The cookie holds the token itself, so that a session ends with its token, at once and without a
//! table of sessions. Browsers send it with requests of our own pages only (`SameSite=Strict`).

use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequest as _, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_model::api::Problem;
use baton_model::token::{Role, Secret};
use baton_web::address::local;
use baton_web::frame::Viewer;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::api_client::{ApiClient, problem};
use super::{Pages, redirect};
use crate::access::{Caller, Identity};
use crate::http::peer::Peer;
use crate::http::{bodies, guard, roles};
use crate::limits::SIGN_IN_BYTES_MAX;

/// The session of a request.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// The token of the cookie.
    secret: Option<Secret>,
    /// Who asks, if that is known.
    caller: Option<Caller>,
}

impl Session {
    pub(super) fn of(pages: &Pages, request: &Request) -> Self {
        let app = &pages.0.app;
        let secret = cookie(request.headers(), &name(pages)).and_then(Secret::parse);
        let mut session = Self {
            secret,
            caller: None,
        };
        session.caller = if app.0.requires_credentials {
            let mut headers = HeaderMap::new();
            for value in request.headers().get_all(header::AUTHORIZATION) {
                headers.append(header::AUTHORIZATION, value.clone());
            }
            session.authenticate(&mut headers);
            let peer = Peer::of(request.extensions());
            roles::identify(&app.0.access, &headers, peer.certificate.as_deref()).ok()
        } else {
            Some(Caller::ANONYMOUS)
        };
        session
    }

    /// Who asks, if that is known.
    pub(super) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Adds the token of the session to a request that has none.
    pub(super) fn authenticate(&self, headers: &mut HeaderMap) {
        let Some(secret) = &self.secret else {
            return;
        };
        if headers.contains_key(header::AUTHORIZATION) {
            return;
        }
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", secret.expose())) {
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
    }

    /// The viewer, as pages know it.
    pub(super) fn viewer(&self, pages: &Pages) -> Viewer {
        let covers = |role| {
            let caller = self.caller.as_ref();
            caller.is_some_and(|caller| caller.role.covers(role))
        };
        let signed_in = self.caller.as_ref().filter(|_| self.secret.is_some());
        let name = signed_in.and_then(|caller| match &caller.identity {
            Identity::Token(id, _) => Some(format!("{id}, {}", caller.role)),
            _ => None,
        });
        Viewer {
            name,
            may_operate: covers(Role::Operator),
            may_administer: covers(Role::Admin),
            csrf: self.form_token(pages).unwrap_or_default(),
        }
    }

    /// Proves that a form comes from a page of this session.
    ///
    /// A session's own token keys it, so that every scheduler of the store accepts it: a load
    /// balancer may send a form to another one than its page came from. Without a session, the
    /// key of this process does.
    pub(super) fn form_token(&self, pages: &Pages) -> Option<String> {
        let mut hash = Sha256::new();
        hash.update("baton form\0");
        match &self.secret {
            Some(secret) => hash.update(secret.expose()),
            None => hash.update(pages.0.key?),
        }
        let digest = hash.finalize();
        Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The cookie's name contains the port: cookies are shared by all ports of a host.
fn name(pages: &Pages) -> String {
    format!("baton-{}", pages.0.app.0.address.port())
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).iter();
    let pairs = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut found = pairs.filter_map(|pair| pair.trim().split_once('='));
    found.find_map(|(key, value)| (key == name).then_some(value))
}

/// Refuses forms of other servers' pages, whatever they contain.
pub(super) async fn check_origin(
    State(pages): State<Pages>,
    request: Request,
    next: Next,
) -> Response {
    let secure = Peer::of(request.extensions()).secure;
    if guard::is_our_origin(request.headers(), secure) {
        return next.run(request).await;
    }
    let api = ApiClient::new(&pages, &request);
    let detail = "the form comes from a page of another server; open the page on this one, and \
                  repeat it";
    pages.error(&api, problem(403, detail), None)
}

/// The form for signing in.
#[derive(Deserialize)]
pub(super) struct SignIn {
    token: String,
    #[serde(default)]
    back: String,
}

/// Signs in with a token that the API accepts.
pub(super) async fn sign_in(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let peer = Peer::of(request.extensions());
    let Ok(form) = form::<SignIn>(request, SIGN_IN_BYTES_MAX).await else {
        let reason = "the form has no token".to_owned();
        return pages.sign_in_form(&api, Some(reason), "/".to_owned());
    };
    let SignIn { token, back } = form;
    let back = local(&back).to_owned();
    let token = token.trim();
    let Some(secret) = Secret::parse(token) else {
        let reason = "that is no token: it begins with baton_, as `baton token create` prints it";
        return pages.sign_in_form(&api, Some(reason.to_owned()), back);
    };
    let bearer = format!("Bearer {}", secret.expose());
    let more = [(header::AUTHORIZATION, bearer)];
    let answer = api.send(Method::GET, "/", None, &more).await;
    let answer = answer.and_then(|answered| answered.parse::<serde_json::Value>());
    if let Err(problem) = answer {
        return pages.sign_in_form(&api, Some(problem.detail), back);
    }
    let secure = if peer.secure { "; Secure" } else { "" };
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
        name(&pages),
        secret.expose()
    );
    with_cookie(&cookie, &back)
}

/// The form for signing out.
#[derive(Deserialize)]
pub(super) struct SignOut {
    #[serde(default)]
    csrf: String,
}

pub(super) async fn sign_out(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let form = form::<SignOut>(request, SIGN_IN_BYTES_MAX).await;
    let Ok(SignOut { csrf }) = form else {
        return pages.error(&api, problem(400, "the form is incomplete"), None);
    };
    if Some(csrf) != api.session.form_token(&pages) {
        return pages.error(&api, old_form(), Some("/".to_owned()));
    }
    let cookie = format!(
        "{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0",
        name(&pages)
    );
    with_cookie(&cookie, "/")
}

/// Reads a form of at most this many bytes.
pub(super) async fn form<T: DeserializeOwned>(
    mut request: Request,
    bytes_max: usize,
) -> Result<T, Problem> {
    let head = std::mem::take(request.headers_mut());
    let bytes = bodies::read(request, bytes_max).await?;
    let mut whole = Request::new(Body::from(bytes));
    *whole.method_mut() = Method::POST;
    *whole.headers_mut() = head;
    let form = Form::from_request(whole, &()).await;
    let form = form.map_err(|_| problem(400, "the form cannot be read"));
    form.map(|Form(form)| form)
}

pub(super) fn old_form() -> Problem {
    let detail = "the form is older than this server or this session; go back, load the page \
                  again, and repeat it";
    problem(403, detail)
}

fn with_cookie(cookie: &str, back: &str) -> Response {
    let mut response = redirect(back);
    match HeaderValue::from_str(cookie) {
        Ok(value) => {
            response.headers_mut().insert(header::SET_COOKIE, value);
            response
        }
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("a=1; baton-80=x; b=2"),
        );
        assert_eq!(cookie(&headers, "baton-80"), Some("x"));
        assert_eq!(cookie(&headers, "baton-8"), None);
    }
}
