//! Instances and runs started by users and other systems.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use baton_core::ledger::Payload;
use baton_core::scheduler::{Command, Reply, TriggerCommand, TriggerError, TriggerReply, Trust};
use baton_files::{AnyFile, Binding};
use baton_model::api::{self, TriggerTask};
use baton_model::hex::hex;
use baton_model::ids::Revision;
use baton_model::library::{Execution, TaskName, TriggerSource};
use baton_model::principal::Principal;
use baton_model::token::Role;
use sha2::{Digest as _, Sha256};

use super::super::app::App;
use super::super::extract;
use super::super::peer::Peer;
use super::super::problem::{Answer, Fault};
use super::super::response::respond;
use super::super::{guard, idempotency, owners, roles, runs, trace, views};
use super::{name, path, unknown};
use crate::access::Caller;
use crate::clock;

/// Header with the secret of an entry.
const SECRET: &str = "baton-trigger-secret";

/// Attempts to bind parameters if the entry is replaced concurrently.
const BINDINGS_MAX: usize = 3;

/// Trigger a task or a workflow from another system
///
/// Its trigger must set `remote: true`. If it has a secret, send that in the header
/// `Baton-Trigger-Secret`: a request with the secret needs no token, and a request with an
/// operator's token needs no secret.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/{owner}/tasks/{name}/trigger",
    tag = "library",
    operation_id = "trigger",
    request_body(content = Option<TriggerTask>, description = "Parameter values; optional."),
    params(
        ("idempotency-key" = Option<String>, Header, description = "A key chosen by the client, at most 255 characters: a repeated request with the same key starts nothing new."),
        ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context): the spans of what is created are its children. A malformed one is ignored."),
        ("baton-trigger-secret" = Option<String>, Header, description = "The secret of the entry."),
    ),
    responses(
        (status = 202, description = "Started and durable.", body = api::TriggerReply, headers(("location" = String, description = "The control URL of the instance or run."))),
        (status = 409, description = "`max_instances` is reached, or the definition changed concurrently."),
        (status = 422, description = "A parameter is invalid or missing, or another request has used the key."),
        (status = 429, description = "The launch rate of the entry is exhausted.", headers(("retry-after" = u64, description = "Seconds to wait.")))
    )
))]
pub(in super::super) async fn remote(
    State(app): State<App>,
    Path((owner, task)): Path<(String, String)>,
    request: Request,
) -> Answer<Response> {
    let headers = request.headers();
    let shown = headers.get(SECRET);
    let shown = shown.map(|secret| hex(Sha256::digest(secret.as_bytes())));
    let (trust, by) = if app.0.requires_credentials {
        let certificate = Peer::of(request.extensions()).certificate;
        let caller = roles::identify(&app.0.access, headers, certificate.as_deref());
        match roles::authorize(caller, Some(Role::Operator)) {
            Ok(caller) => match caller.owner.clone().filter(|its| **its != *owner) {
                None => (Trust::Authenticated, caller.principal()),
                Some(_) if shown.is_some() => by_secret(),
                Some(its) => return Err(owners::wrong_owner(&its)),
            },
            Err(_) if shown.is_some() => by_secret(),
            Err(fault) => return Err(fault),
        }
    } else {
        (Trust::Open, guard::anonymous(headers)?.principal())
    };
    let command = TriggerCommand {
        name: name(&owner, &task),
        bound: None,
        by: TriggerSource::Remote,
        trust,
        secret_sha256: shown,
        key: None,
        trace: None,
    };
    launch(&app, by, command, request).await
}

fn by_secret() -> (Trust, Option<Arc<Principal>>) {
    let principal = Arc::new(Principal::TriggerSecret);
    (Trust::Unauthenticated, Some(principal))
}

/// Run a task or a workflow now
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/{owner}/tasks/{name}/run",
    tag = "library",
    operation_id = "run-task",
    request_body(content = Option<TriggerTask>, description = "Parameter values; optional."),
    params(
        ("idempotency-key" = Option<String>, Header, description = "A key chosen by the client, at most 255 characters: a repeated request with the same key starts nothing new."),
        ("traceparent" = Option<String>, Header, description = "The span of the caller (W3C Trace Context): the spans of what is created are its children. A malformed one is ignored."),
    ),
    responses(
        (status = 202, description = "Started and durable.", body = api::TriggerReply, headers(("location" = String, description = "The control URL of the instance or run."))),
        (status = 409, description = "`max_instances` is reached, or the definition changed concurrently."),
        (status = 422, description = "A parameter is invalid or missing, or another request has used the key."),
        (status = 429, description = "The launch rate of the entry is exhausted.", headers(("retry-after" = u64, description = "Seconds to wait.")))
    )
))]
pub(in super::super) async fn by_hand(
    State(app): State<App>,
    Path((owner, task)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer<Response> {
    let command = TriggerCommand {
        name: name(&owner, &task),
        bound: None,
        by: TriggerSource::Manual,
        trust: Trust::Authenticated,
        secret_sha256: None,
        key: None,
        trace: None,
    };
    launch(&app, caller.principal(), command, request).await
}

/// Carries out a command with the parameters and the key of its request.
async fn launch(
    app: &App,
    by: Option<Arc<Principal>>,
    command: TriggerCommand,
    request: Request,
) -> Answer<Response> {
    let name = &command.name;
    let key = idempotency::text(request.headers())?.map(str::to_owned);
    let trace = trace::parent(request.headers());
    let wanted: TriggerTask = extract::optional_body(request).await?.unwrap_or_default();
    let key = key.map(|text| {
        let params = wanted.params.iter();
        let params = params.flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        idempotency::key(&[], &text, params)
    });
    let mut tried = 0;
    let reply = loop {
        tried += 1;
        let bound = TriggerCommand {
            bound: bound(app, name, &wanted).await?,
            key,
            trace,
            ..command.clone()
        };
        let trigger = Command::Trigger(bound);
        let Reply::Triggered(reply) = app.command(by.clone(), trigger).await? else {
            return Err(Fault::wrong_reply());
        };
        match reply {
            Err(TriggerError::Revised(_)) if tried < BINDINGS_MAX => {}
            Err(TriggerError::NeedsParameters) => return Err(missing(app, name).await),
            other => break other.map_err(|error| fault(error, name))?,
        }
    };
    Ok(launched(name, reply))
}

/// What to launch, if the parameters are not the defaults.
async fn bound(
    app: &App,
    name: &TaskName,
    wanted: &TriggerTask,
) -> Answer<Option<(Revision, Payload)>> {
    if wanted.params.is_empty() {
        return Ok(None);
    }
    let record = app.task(name, None).await?;
    let payload = payload(&record.definition.source, wanted)?;
    Ok(Some((record.revision, payload)))
}

fn payload(source: &str, wanted: &TriggerTask) -> Answer<Payload> {
    let file = serde_json::from_str(source).map_err(|error| {
        let detail = format!("cannot parse the stored definition: {error}");
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", detail)
    })?;
    let (params, now) = (wanted.params.clone(), clock::now().wall);
    Ok(match baton_files::any_from_json(&file, "definition")? {
        AnyFile::Workflow(file) => Payload::Plan(Arc::new(file.plan(&params, now)?)),
        AnyFile::Task(file) => {
            let binding = Binding {
                params,
                nominal_time: Some(now),
                ..Binding::default()
            };
            Payload::Spec(Box::new(file.instance(&binding)?))
        }
    })
}

/// The error that names the missing parameter.
async fn missing(app: &App, name: &TaskName) -> Fault {
    let record = match app.task(name, None).await {
        Ok(record) => record,
        Err(fault) => return fault,
    };
    match payload(&record.definition.source, &TriggerTask::default()) {
        Err(fault) => fault,
        Ok(_) => fault(TriggerError::Revised(record.revision), name),
    }
}

fn launched(name: &TaskName, reply: TriggerReply) -> Response {
    let control = match reply.execution {
        Execution::Instance(instance) => views::path(instance, instance),
        Execution::Run(run) => runs::path(run),
    };
    let body = api::TriggerReply {
        id: reply.execution.to_string(),
        repeated: reply.repeated,
        links: views::links([("control", control.clone()), ("task", path(name))]),
    };
    let mut response = respond(StatusCode::ACCEPTED, &body);
    if let Ok(location) = HeaderValue::from_str(&control) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn fault(error: TriggerError, name: &TaskName) -> Fault {
    let (status, kind) = match error {
        TriggerError::Unknown => return unknown(name),
        TriggerError::NotRemote => (StatusCode::FORBIDDEN, "not-remote"),
        TriggerError::Secret => (StatusCode::FORBIDDEN, "secret"),
        TriggerError::NeedsParameters | TriggerError::Plan(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid")
        }
        TriggerError::Revised(_) => (StatusCode::CONFLICT, "revised"),
        TriggerError::MaxInstances(_) => (StatusCode::CONFLICT, "max-instances"),
        TriggerError::QueueFull(_) => (StatusCode::CONFLICT, "queue-full"),
        TriggerError::LaunchRate(wait) => {
            let status = StatusCode::TOO_MANY_REQUESTS;
            let fault = Fault::new(status, "launch-rate", error.to_string());
            return fault.after(Duration::from_millis(wait.0));
        }
        TriggerError::KeyUsed(_) => (StatusCode::UNPROCESSABLE_ENTITY, "key-used"),
        TriggerError::NeedsStore => return Fault::needs_store(error.to_string()),
    };
    Fault::new(status, kind, error.to_string())
}
