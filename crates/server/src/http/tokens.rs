//! Tokens.

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use baton_model::api::{self, CreatedToken, List};
use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token, check_name, check_owner};
use baton_store::{FactLog, StoreError, token};

use super::app::App;
use super::conditional::tagged;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{extract, views};
use crate::access::Caller;
use crate::clock;
use crate::driver::event::Unanswered;

/// Tokens, without their secrets
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/tokens/",
    tag = "tokens",
    operation_id = "tokens",
    responses(
        (status = 200, description = "All on one page.", body = List<api::Token>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let tokens = app.read(|store| store.tokens()).await?;
    let list = List {
        total: Some(tokens.len() as u64),
        items: tokens.into_iter().map(token_view).collect(),
        links: views::links([
            ("self", "/tokens/".to_owned()),
            ("create", "POST /tokens/".to_owned()),
        ]),
    };
    Ok(tagged(&list))
}

/// Create a token
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/tokens/",
    tag = "tokens",
    operation_id = "create-token",
    request_body = api::NewToken,
    responses(
        (status = 201, description = "Created and durable. The secret is returned only in this response.", body = CreatedToken),
        (status = 409, description = "Too many valid tokens; revoke some.")
    )
))]
pub(super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer<Response> {
    let wanted: api::NewToken = extract::body(request).await?;
    let name = wanted.name.unwrap_or_else(|| wanted.role.to_string());
    check_name(&name).map_err(Fault::bad_request)?;
    if let Some(owner) = &wanted.owner {
        check_owner(wanted.role, owner).map_err(Fault::bad_request)?;
    }
    let secret = token::generate().map_err(|error| {
        let detail = format!("cannot generate a secret: {error}");
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", detail)
    })?;
    let now = clock::now().wall;
    let until = |seconds: u64| Wall(now.0.saturating_add(seconds.saturating_mul(1_000)));
    let new = NewToken {
        name,
        role: wanted.role,
        owner: wanted.owner,
        fleet: None,
        hash: token::hash(&secret),
        created_at: now,
        expires_at: wanted.lifetime_seconds.map(until),
    };
    let stored = new.clone();
    let id = app.change(move |store| store.create_token(&stored)).await?;
    tracing::info!("{caller} created token {id} of the role {}", new.role);
    let token = Token {
        id,
        name: new.name,
        role: new.role,
        owner: new.owner,
        fleet: new.fleet,
        hash: new.hash,
        created_at: new.created_at,
        expires_at: new.expires_at,
        revoked: false,
    };
    let created = CreatedToken {
        token: token_view(token),
        secret: secret.expose().to_owned(),
    };
    let mut response = respond(StatusCode::CREATED, &created);
    let once = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, once);
    Ok(response)
}

/// Revoke a token
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/tokens/{id}",
    tag = "tokens",
    operation_id = "revoke-token",
    responses(
        (status = 200, description = "Revoked. The request is idempotent.", body = api::Token)
    )
))]
pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id: TokenId = id.parse().map_err(Fault::bad_request)?;
    let revoked = app.change(move |store| store.revoke_token(id)).await?;
    let no_token = || {
        Fault::not_found(format!(
            "there is no token {id}; `baton token ls` lists them"
        ))
    };
    let revoked = revoked.ok_or_else(no_token)?;
    tracing::info!("{caller} revoked token {id}");
    Ok(respond(StatusCode::OK, &token_view(revoked)))
}

fn token_view(token: Token) -> api::Token {
    let mut view = api::Token::from(token);
    if !view.revoked {
        view.links = views::links([("revoke", format!("DELETE /tokens/{}", view.id))]);
    }
    view
}

impl App {
    /// Changes tokens, and refreshes the cache before the response.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn FactLog) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let changed = self.call_log(move |log| Ok(change(log))).await?;
        let changed = changed.map_err(|error| match error {
            StoreError::TooManyTokens => Fault::new(
                StatusCode::CONFLICT,
                "too-many-tokens",
                StoreError::TooManyTokens.to_string(),
            ),
            error => Unanswered::StoreFailed(error.to_string()).into(),
        })?;
        if let Err(error) = self.0.access.refresh().await {
            // It is durable, and takes effect as soon as the store can be read.
            tracing::warn!("cannot read the tokens: {error}");
        }
        Ok(changed)
    }
}
