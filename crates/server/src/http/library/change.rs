//! Definition and removal of tasks and workflows.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_core::scheduler::{
    Change, Command, DefineCommand, LibraryError, Precondition, RemoveCommand, Reply,
};
use baton_model::api::{DefineReply, FieldProblem};
use baton_model::library::{Definition, EntryKind, TaskName};
use serde_json::Value;

use super::super::app::App;
use super::super::extract::{self, Parameters};
#[cfg(feature = "openapi")]
use super::super::openapi::answers::{BadRequest, EntryFile};
use super::super::problem::{Answer, Fault};
use super::super::response::respond;
use super::super::views;
use super::{matched, name, path, with_revision};
use crate::access::Caller;

/// Add a task or a workflow to the library
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/{owner}/tasks/",
    tag = "library",
    operation_id = "create-task",
    request_body(content = EntryFile, description = "The task or workflow, in the schema of its file."),
    params(
        ("dryRun" = Option<bool>, Query, description = "Validate only: report the outcome and change nothing."),
    ),
    responses(
        (status = 201, description = "Created and durable.", body = DefineReply, headers(("location" = String, description = "The URL of the entry."), ("etag" = String, description = "The revision."))),
        (status = 200, description = "Dry run: the outcome that the request would have.", body = DefineReply),
        (status = 409, description = "An entry of this name exists, or the library is full."),
        (status = 422, description = "The file is invalid; `errors` lists every problem.")
    )
))]
pub(in super::super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(owner): Path<String>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let dry = dry_run(&uri)?;
    let file: Value = extract::body(request).await?;
    let (name, definition) = definition(file, &owner, None)?;
    let wanted = name.to_string();
    let made = define(&app, &caller, name, definition, Precondition::Absent, dry).await;
    // A replacement fails by its precondition, an addition by a conflict.
    made.map_err(|fault| match fault.status() {
        StatusCode::PRECONDITION_FAILED => {
            let detail = format!("{wanted} already exists; replace it with PUT");
            Fault::new(StatusCode::CONFLICT, "exists", detail)
        }
        _ => fault,
    })
}

/// Create or replace a task or a workflow
///
/// `If-Match` replaces the entry if it still has that revision; `If-None-Match: *` creates it if it
/// does not exist. One of the two headers is required. A body with `workflow` or `tasks` is a
/// workflow.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/{owner}/tasks/{name}",
    tag = "library",
    operation_id = "replace-task",
    request_body(content = EntryFile, description = "The task or workflow, in the schema of its file."),
    params(
        ("dryRun" = Option<bool>, Query, description = "Validate only: report the outcome and change nothing."),
        ("if-match" = Option<String>, Header, description = "The ETag of the revision to replace, such as \"r3\", several of them, or `*` for any."),
        ("if-none-match" = Option<String>, Header, description = "`*`: only if the entry does not exist."),
    ),
    responses(
        (status = 200, description = "Replaced and durable, unchanged, or a dry run.", body = DefineReply, headers(("etag" = String, description = "The revision."))),
        (status = 201, description = "Created and durable.", body = DefineReply, headers(("etag" = String, description = "The revision."))),
        (status = 409, description = "A file defines the entry, or the library is full."),
        (status = 412, description = "The entry has another revision, does not exist, or already exists."),
        (status = 422, description = "The file is invalid; `errors` lists every problem."),
        (status = 428, description = "Neither If-Match nor If-None-Match is set.")
    )
))]
pub(in super::super) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, task)): Path<(String, String)>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let dry = dry_run(&uri)?;
    let expected = expected(request.headers())?;
    let file: Value = extract::body(request).await?;
    let (name, definition) = definition(file, &owner, Some(&task))?;
    define(&app, &caller, name, definition, expected, dry).await
}

/// Remove a task or a workflow from the library
///
/// Its revisions stay readable; its instances and runs continue.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/{owner}/tasks/{name}",
    tag = "library",
    operation_id = "remove-task",
    params(
        ("if-match" = Option<String>, Header, description = "Only if the current revision is this one, such as \"r3\", one of several, or any, as `*`."),
    ),
    responses(
        (status = 204, description = "Removed and durable."),
        (status = 409, description = "A file defines the entry."),
        (status = 412, description = "With If-Match: the entry has another revision, or does not exist."),
        BadRequest
    )
))]
pub(in super::super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, task)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let command = RemoveCommand {
        name: name(&owner, &task),
        expected: matched(&headers)?.unwrap_or(Precondition::Anything),
        by_file: false,
    };
    let name = command.name.clone();
    let remove = Command::Remove(command);
    let Reply::Removed(removed) = app.command(caller.principal(), remove).await? else {
        return Err(Fault::wrong_reply());
    };
    removed.map_err(|error| fault(&error, &name))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn define(
    app: &App,
    caller: &Caller,
    name: TaskName,
    definition: Definition,
    expected: Precondition,
    dry: bool,
) -> Answer<Response> {
    let command = Box::new(DefineCommand {
        name: name.clone(),
        definition: Arc::new(definition),
        expected,
        by_file: false,
        dry,
    });
    let define = Command::Define(command);
    let Reply::Defined(defined) = app.command(caller.principal(), define).await? else {
        return Err(Fault::wrong_reply());
    };
    let defined = defined.map_err(|error| fault(&error, &name))?;
    let path = path(&name);
    let body = DefineReply {
        owner: name.owner,
        name: name.name,
        revision: defined.revision.0,
        change: match defined.change {
            Change::Created => "created",
            Change::Replaced => "replaced",
            Change::Unchanged => "unchanged",
        }
        .to_owned(),
        dry_run: dry,
        links: views::links([("task", path.clone())]),
    };
    let status = match (defined.change, dry) {
        (Change::Created, false) => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let mut response = respond(status, &body);
    if let Ok(location) = HeaderValue::from_str(&path) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(if dry {
        response
    } else {
        with_revision(response, defined.revision)
    })
}

fn dry_run(uri: &Uri) -> Answer<bool> {
    let parameters = Parameters::of(uri, &["dryRun"])?;
    Ok(parameters
        .parsed("dryRun", "true or false")?
        .unwrap_or(false))
}

fn expected(headers: &HeaderMap) -> Answer<Precondition> {
    if let Some(expected) = matched(headers)? {
        return Ok(expected);
    }
    let none = headers.get(header::IF_NONE_MATCH);
    match none.map(|value| value.to_str().unwrap_or_default().trim()) {
        Some("*") => Ok(Precondition::Absent),
        Some(_) => Err(Fault::bad_request("If-None-Match must be *")),
        None => Err(Fault::new(
            StatusCode::PRECONDITION_REQUIRED,
            "condition-needed",
            "name the revision to replace with If-Match, or send If-None-Match: * for a new entry",
        )),
    }
}

/// Parses a task or a workflow. The path sets its owner and name; the body may repeat them.
fn definition(mut file: Value, owner: &str, name: Option<&str>) -> Answer<(TaskName, Definition)> {
    let kind = if baton_files::is_workflow(&file) {
        EntryKind::Workflow
    } else {
        EntryKind::Task
    };
    if let Value::Object(fields) = &mut file {
        let from_path = [("owner", Some(owner)), (kind.word(), name)];
        for (field, wanted) in from_path {
            let Some(wanted) = wanted else { continue };
            let found = fields.entry(field).or_insert_with(|| wanted.into());
            if found.as_str().is_some_and(|found| found != wanted) {
                let message = format!("the path specifies {wanted:?}");
                let at = FieldProblem {
                    field: field.to_owned(),
                    message: message.clone(),
                    hint: "use the same value, or omit the field".to_owned(),
                };
                return Err(Fault::unusable(message, vec![at]));
            }
        }
    }
    let made = baton_files::any_from_json(&file, kind.word());
    let made = made.and_then(|file| file.definition(None));
    made.map_err(Fault::from)
}

/// The error response to a library error.
pub(super) fn fault(error: &LibraryError, name: &TaskName) -> Fault {
    let text = error.to_string();
    let field = match error {
        LibraryError::Unknown => return super::unknown(name),
        LibraryError::Exists(_) | LibraryError::Missing | LibraryError::Revised(_) => {
            return Fault::new(StatusCode::PRECONDITION_FAILED, "revised", text);
        }
        LibraryError::FromFile(_) => return Fault::new(StatusCode::CONFLICT, "from-file", text),
        LibraryError::NeedsStore => return Fault::needs_store(text),
        LibraryError::Full => return Fault::new(StatusCode::CONFLICT, "full", text),
        LibraryError::Cycle(_) | LibraryError::TooManyAfter => "trigger.after",
        LibraryError::Schedule(_) => "trigger.schedule",
        LibraryError::NeedsDefaults => "params",
        LibraryError::Plan(_) => "tasks",
    };
    let at = FieldProblem {
        field: field.to_owned(),
        message: text.clone(),
        hint: "correct it and send the file again".to_owned(),
    };
    Fault::unusable(text, vec![at])
}
