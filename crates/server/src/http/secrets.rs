//! Secrets: their names. A value goes in, and never comes out.

use axum::extract::{Extension, Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_model::api::{FieldProblem, List, Rekeyed, Secret, SecretEncoding, SetSecret};
use baton_model::secret::{SecretName, SecretSource, SecretValue};
use baton_store::StoreError;

use super::app::App;
use super::conditional::tagged;
use super::extract::{self, Parameters};
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::peer::Peer;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::views;
use crate::access::Caller;
use crate::clock;
use crate::driver::event::Unanswered;
use crate::secrets::{SecretError, Secrets};

/// Secrets, without their values
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/secrets/",
    tag = "secrets",
    operation_id = "secrets",
    params(
        ("owner" = Option<String>, Query, description = "Only those that work of this owner may have."),
    ),
    responses(
        (status = 200, description = "All on one page: those of the scheduler's file, then those of the store, by owner and name.", body = List<Secret>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner"])?;
    let owner = parameters.text("owner");
    let stored = app.read(|store| store.secrets()).await?;
    let kept = app.0.secrets.sources.iter().map(source_view);
    let all = kept.chain(stored.into_iter().map(|it| linked(it.into())));
    let fits = |it: &Secret| owner.is_none_or(|owner| it.owner == owner || it.owner == EVERY_OWNER);
    let items: Vec<Secret> = all.filter(fits).collect();
    Ok(tagged(&List {
        total: Some(items.len() as u64),
        items,
        links: views::links([
            ("self", "/secrets/".to_owned()),
            ("rekey", "POST /secrets/rekey".to_owned()),
        ]),
    }))
}

/// Set a secret
///
/// Attempts that start from now on get this value; running ones keep theirs.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/secrets/{owner}/{name}",
    tag = "secrets",
    operation_id = "set-secret",
    params(
        ("owner" = String, Path, description = "The owner."),
        ("name" = String, Path, description = "The name."),
    ),
    request_body = SetSecret,
    responses(
        (status = 200, description = "Encrypted and durable.", body = Secret),
        (status = 403, description = "The connection is not encrypted."),
        (status = 409, description = "The scheduler's file says that it is kept elsewhere; or there is no key; or there are too many secrets."),
        (status = 422, description = "The name or the value is invalid.")
    )
))]
pub(super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, name)): Path<(String, String)>,
    request: Request,
) -> Answer<Response> {
    let peer = Peer::of(request.extensions());
    if !peer.secure && !peer.ip.is_loopback() && !app.0.secrets.allow_plain {
        let detail = "a secret is not taken over a connection that is not encrypted; use TLS, run \
                      the command on the scheduler's host, or start it with --allow-plain-secrets";
        return Err(Fault::new(StatusCode::FORBIDDEN, "not-private", detail));
    }
    let SetSecret { value, encoding } = extract::body(request).await?;
    check_owner(&owner)?;
    let name = name_of(&name)?;
    let bytes = match encoding {
        SecretEncoding::Text => value.into_bytes(),
        SecretEncoding::Base64 => STANDARD
            .decode(value)
            .map_err(|_| invalid("value", "it is not base64".to_owned()))?,
    };
    let value = SecretValue::new(bytes).map_err(|reason| invalid("value", reason))?;
    let by = caller.principal().map(|it| it.to_string());
    let (of, named) = (owner.clone(), name.clone());
    let set = app
        .with_secrets(move |secrets| secrets.set(&of, &named, &value, clock::now().wall, by))
        .await?;
    tracing::info!(
        "{caller} set the secret {owner}/{name}, version {}",
        set.version
    );
    Ok(respond(StatusCode::OK, &linked(set.into())))
}

/// Remove a secret
///
/// Attempts that start from now on do not get it; running ones keep it.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/secrets/{owner}/{name}",
    tag = "secrets",
    operation_id = "remove-secret",
    params(
        ("owner" = String, Path, description = "The owner."),
        ("name" = String, Path, description = "The name."),
    ),
    responses(
        (status = 200, description = "Removed and durable.", body = Secret)
    )
))]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, name)): Path<(String, String)>,
) -> Answer<Response> {
    let name = name_of(&name)?;
    let (of, named) = (owner.clone(), name.clone());
    let removed = app.with_secrets(move |secrets| secrets.remove(&of, &named));
    let removed = removed.await?;
    tracing::info!("{caller} removed the secret {owner}/{name}");
    Ok(respond(StatusCode::OK, &Secret::from(removed)))
}

/// Encrypt all secrets with the first key of the file
///
/// The scheduler reads its file of keys again before.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/secrets/rekey",
    tag = "secrets",
    operation_id = "rekey-secrets",
    responses(
        (status = 200, description = "Done and durable; further keys of the file are not needed any more.", body = Rekeyed),
        (status = 409, description = "The keys cannot be read, or one of a secret is missing; nothing is lost, and it can be repeated.")
    )
))]
pub(super) async fn rekey(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Answer<Response> {
    let done = app.with_secrets(Secrets::rekey).await?;
    tracing::info!(
        "{caller} encrypted {} secrets again, with the key {}",
        done.changed,
        done.key
    );
    let rekeyed = Rekeyed {
        changed: done.changed,
        unchanged: done.unchanged,
        key: done.key,
    };
    Ok(respond(StatusCode::OK, &rekeyed))
}

/// The owner of a secret that every owner has.
const EVERY_OWNER: &str = "*";

const OWNER_BYTES_MAX: usize = 255;

fn name_of(text: &str) -> Answer<SecretName> {
    text.parse().map_err(|reason| invalid("name", reason))
}

fn check_owner(owner: &str) -> Answer<()> {
    let is_name = !owner.is_empty() && owner.len() <= OWNER_BYTES_MAX;
    if is_name && owner != EVERY_OWNER && !owner.chars().any(|c| c == '/' || c.is_control()) {
        return Ok(());
    }
    let reason = format!(
        "an owner is one word of at most {OWNER_BYTES_MAX} bytes; a secret of every owner is one of \
         the scheduler's --secrets-file"
    );
    Err(invalid("owner", reason))
}

fn linked(mut secret: Secret) -> Secret {
    let path = format!("/secrets/{}/{}", secret.owner, secret.name);
    secret.links = views::links([
        ("set", format!("PUT {path}")),
        ("remove", format!("DELETE {path}")),
    ]);
    secret
}

fn source_view(source: &SecretSource) -> Secret {
    Secret {
        owner: source
            .owner
            .clone()
            .unwrap_or_else(|| EVERY_OWNER.to_owned()),
        name: source.name.to_string(),
        source: source.from.word().to_owned(),
        version: None,
        set_at: None,
        set_by: None,
        used_at: None,
        key: None,
        links: views::links([]),
    }
}

fn invalid(field: &str, message: String) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: String::new(),
    };
    Fault::unusable(format!("`{field}`: {message}"), vec![at])
}

impl App {
    /// Does something with secrets on a thread that may block.
    async fn with_secrets<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Secrets) -> Result<T, SecretError> + Send + 'static,
    ) -> Answer<T> {
        let secrets = self.0.secrets.clone();
        let done = self.call_log(move |_| Ok(work(&secrets))).await?;
        done.map_err(|error| match error {
            SecretError::Missing { .. } => Fault::not_found(error.to_string()),
            SecretError::Store(StoreError::TooManySecrets) => {
                Fault::new(StatusCode::CONFLICT, "too-many-secrets", error.to_string())
            }
            SecretError::Store(error) => Unanswered::StoreFailed(error.to_string()).into(),
            SecretError::Elsewhere { .. } => {
                Fault::new(StatusCode::CONFLICT, "kept-elsewhere", error.to_string())
            }
            SecretError::Key(_) | SecretError::Damaged { .. } | SecretError::Source { .. } => {
                Fault::new(StatusCode::CONFLICT, "no-key", error.to_string())
            }
        })
    }
}
