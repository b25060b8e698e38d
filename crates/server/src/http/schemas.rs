//! The JSON Schemas of files, for editors.
//!
//! They are public: an editor has no token, and they are the same on every server.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::conditional;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;

static TASK: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", baton_files::task_schema()));
static WORKFLOW: LazyLock<String> =
    LazyLock::new(|| format!("{:#}\n", baton_files::workflow_schema()));
static FLEETS: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", baton_files::fleets_schema()));

/// The JSON Schema of task files
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/schemas/task.json",
    tag = "server",
    operation_id = "task_schema",
    responses(
        (status = 200, description = "JSON Schema, draft 2020-12.", content_type = "application/schema+json", body = Object),
        Unchanged
    )
))]
pub(super) async fn task() -> Response {
    respond(&TASK)
}

/// The JSON Schema of workflow files
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/schemas/workflow.json",
    tag = "server",
    operation_id = "workflow_schema",
    responses(
        (status = 200, description = "JSON Schema, draft 2020-12.", content_type = "application/schema+json", body = Object),
        Unchanged
    )
))]
pub(super) async fn workflow() -> Response {
    respond(&WORKFLOW)
}

/// The JSON Schema of files of fleets
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/schemas/fleets.json",
    tag = "server",
    operation_id = "fleets_schema",
    responses(
        (status = 200, description = "JSON Schema, draft 2020-12.", content_type = "application/schema+json", body = Object),
        Unchanged
    )
))]
pub(super) async fn fleets() -> Response {
    respond(&FLEETS)
}

fn respond(schema: &'static str) -> Response {
    let media = HeaderValue::from_static("application/schema+json");
    let tag = conditional::tag(schema.as_bytes());
    let headers = [(header::CONTENT_TYPE, media), (header::ETAG, tag)];
    (headers, schema).into_response()
}
