//! Web pages, on the addresses of the API: a request that prefers `text/html` gets a page.
//!
//! A page is made from answers of the API: this module asks the same router that clients ask, on
//! behalf of the viewer, and `baton_web` renders what it answers. So authorization, redaction and
//! limits are those of the API, and there is no second way to the data.
//!
//! | file | holds |
//! |---|---|
//! | `api_client` | requests to the API on behalf of the viewer |
//! | `session` | signing in and out, and the tokens and origins of forms |
//! | `show` | the page of each address |
//! | `edit` | the form that adds or changes an entry |
//! | `entry` | the page of an entry of the library |
//! | `hosts` | the pages of workers, fleets and schedulers |
//! | `lists` | the pages of lists |
//! | `attention` | entries that fail again and again, for the overview |
//! | `range` | the page of a range, whose counts may take long |
//! | `act` | forms that change something |
//! | `live` | the stream that tells open pages to load again |
//! | `shared` | renderings that several viewers share |
//! | `recent` | the length of the queue and the changes of workers, sampled |
//!
//! Addresses below `/-/` belong to pages alone. They serve assets, forms and that stream, and are
//! no part of the API:
//!
//! | address | serves |
//! |---|---|
//! | `GET /-/assets/{name}` | style sheet, script, icons; public |
//! | `GET /-/keys`, `GET /-/go`, `GET /-/retry` | help; search; preview of a retry |
//! | `GET /-/components` | every token and component of the design |
//! | `GET /-/changes` | the stream |
//! | `GET /-/events` | the events of the API |
//! | `POST /-/sign-in`, `/-/sign-out` | the session |
//! | `POST /-/act` | an operation of the API |
//! | `GET /-/edit`, `POST /-/edit` | the form of an entry of the library |
//!
//! The cookie of a session is read here only. It authenticates pages, the addresses below `/-/`, and
//! operations through forms with their own token. The API itself does not accept it: a request that
//! prefers no page, and has the cookie alone, has no token.

mod act;
mod api_client;
mod attention;
mod edit;
mod entry;
mod hosts;
mod lists;
mod live;
mod range;
mod recent;
mod session;
mod shared;
mod show;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use baton_model::api::Problem;
use baton_web::address::local;
use baton_web::frame::{Frame, Mood, Refresh, Site};
use baton_web::pages::Template;
use baton_web::pages::plain::{ErrorPage, SignInPage};
use baton_web::{assets, headers};
use tower::ServiceExt as _;

use super::app::App;
use super::negotiation;
use crate::clock;
use api_client::ApiClient;
use live::Changes;
use recent::Recent;
use shared::Shared;

/// What the handlers of pages share.
#[derive(Clone)]
pub(super) struct Pages(Arc<Inner>);

struct Inner {
    api: Router,
    app: App,
    recent: Arc<Recent>,
    changes: Changes,
    shared: Shared,
    /// Keys the tokens of forms without a session; without random numbers there is none, and such
    /// a form does not act.
    key: Option<[u8; 32]>,
}

/// The pages, before the API.
pub(super) fn router(api: Router, app: App) -> Router {
    let mut key = [0; 32];
    let key = match getrandom::fill(&mut key) {
        Ok(()) => Some(key),
        Err(error) => {
            tracing::error!(
                "forms of pages are refused, because there are no random numbers: {error}"
            );
            None
        }
    };
    let recent = Recent::start(&app);
    let changes = Changes::start(&app);
    let pages = Pages(Arc::new(Inner {
        api,
        app,
        recent,
        changes,
        shared: Shared::default(),
        key,
    }));
    let forms = Router::new()
        .route("/-/sign-in", post(session::sign_in))
        .route("/-/sign-out", post(session::sign_out))
        .route("/-/act", post(act::act))
        .route("/-/edit", post(edit::submit))
        .route_layer(middleware::from_fn_with_state(
            pages.clone(),
            session::check_origin,
        ));
    Router::new()
        .route("/-/assets/{name}", get(asset))
        .route("/-/keys", get(show::keys))
        .route("/-/components", get(show::components))
        .route("/-/go", get(show::go))
        .route("/-/retry", get(show::preview_retry))
        .route("/-/edit", get(edit::show))
        .route("/-/changes", get(live::changes))
        .route("/-/events", get(show::follow_events))
        .merge(forms)
        .fallback(page_or_api)
        .with_state(pages)
}

/// A page if the request prefers one, otherwise the answer of the API.
async fn page_or_api(State(pages): State<Pages>, request: Request) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads && negotiation::prefers_html(request.headers()) {
        return shared::page(&pages, request).await;
    }
    pages.call(request).await
}

async fn asset(Path(name): Path<String>) -> Response {
    let Some(asset) = assets::find(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let media_type = [(header::CONTENT_TYPE, asset.media_type)];
    (media_type, headers::ASSET, asset.content).into_response()
}

impl Pages {
    /// Passes a request to the API.
    async fn call(&self, request: Request) -> Response {
        // A router is always ready, and never fails.
        match self.0.api.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// The frame of a page, after everything that the page asks was asked.
    fn frame(&self, api: &ApiClient, title: impl Into<String>, section: &'static str) -> Frame {
        Frame {
            site: Site::Scheduler,
            title: title.into(),
            section,
            mood: Mood::Idle,
            viewer: api.session.viewer(self),
            here: api.here.clone(),
            refresh: Refresh::Changes,
            failures: api.failures(),
            now: clock::now().wall.0,
        }
    }

    /// The page of an error; the form for signing in, if that is what is missing.
    fn error(&self, api: &ApiClient, problem: Problem, back: Option<String>) -> Response {
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut frame = self.frame(api, problem.title.clone(), "");
        frame.refresh = Refresh::Never;
        if status == StatusCode::UNAUTHORIZED {
            return self.sign_in_form(api, None, api.here.clone());
        }
        html(status, &ErrorPage::new(frame, problem, back))
    }

    fn sign_in_form(&self, api: &ApiClient, problem: Option<String>, back: String) -> Response {
        let mut frame = self.frame(api, "Sign in", "");
        frame.refresh = Refresh::Never;
        frame.viewer.name = None;
        let page = SignInPage {
            frame,
            problem,
            back,
        };
        html(StatusCode::UNAUTHORIZED, &page)
    }
}

/// Redirects to a path of this server; to the overview, if the address is none.
fn redirect(to: &str) -> Response {
    Redirect::to(local(to)).into_response()
}

/// A rendered page, with the headers that every page has.
fn html(status: StatusCode, page: &impl Template) -> Response {
    let Ok(text) = page.render() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    (status, headers::PAGE, Body::from(text)).into_response()
}

#[cfg(test)]
mod tests;
