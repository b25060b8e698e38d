//! Pauses of tasks and workflows.

use axum::extract::{Extension, Path, Request, State};
use axum::response::Response;
use baton_core::scheduler::{Command, PauseCommand, Reply};
#[cfg(feature = "openapi")]
use baton_model::api::Task;
use baton_model::api::{FieldProblem, PauseRequest};
use baton_model::limits::PAUSE_REASON_BYTES_MAX;
#[cfg(feature = "openapi")]
use serde_json::Value;

use super::super::app::App;
use super::super::extract;
use super::super::problem::{Answer, Fault};
use super::{change, entry, name};
use crate::access::Caller;

/// Pause a task or a workflow, or end its pause
///
/// While it is paused, each due time and each end of an upstream entry is recorded as skipped;
/// requests still launch it. Nothing is made up for when the pause ends. A pause survives new
/// revisions.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/{owner}/tasks/{name}/paused",
    tag = "library",
    operation_id = "pause-task",
    request_body = PauseRequest,
    responses(
        (status = 200, description = "Changed and durable, or unchanged.", body = Task<Value>),
        (status = 422, description = "The reason is too long, or there is no pause to give it for.")
    )
))]
pub(in super::super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, task)): Path<(String, String)>,
    request: Request,
) -> Answer<Response> {
    let PauseRequest { paused, reason } = extract::body(request).await?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    check(paused, reason.as_deref())?;
    let name = name(&owner, &task);
    let command = PauseCommand {
        name: name.clone(),
        paused,
        reason,
    };
    let pause = Command::Pause(command);
    let Reply::Paused(changed) = app.command(caller.principal(), pause).await? else {
        return Err(Fault::wrong_reply());
    };
    changed.map_err(|error| change::fault(&error, &name))?;
    Ok(entry(&caller, &app.task(&name, None).await?))
}

fn check(paused: bool, reason: Option<&str>) -> Answer<()> {
    let Some(reason) = reason else {
        return Ok(());
    };
    let (message, hint) = if reason.len() > PAUSE_REASON_BYTES_MAX {
        let length = reason.len();
        let message = format!("a reason of {length} bytes is too long");
        (message, format!("keep it below {PAUSE_REASON_BYTES_MAX}"))
    } else if !paused {
        let message = "only a pause has a reason".to_owned();
        (message, "omit the reason, or set paused to true".to_owned())
    } else {
        return Ok(());
    };
    let at = FieldProblem {
        field: "reason".to_owned(),
        message: message.clone(),
        hint,
    };
    Err(Fault::unusable(message, vec![at]))
}
