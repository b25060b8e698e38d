//! The generator of `docs/openapi.json`, from the annotations of the handlers.
//!
//! Each handler documents its parameters and responses; the schemas are those of
//! `baton_model::api`. What all of them share is added here: the media types, and the rejections
//! before the handlers. Only tests call it: the server serves the committed file.

use baton_model::api::{Event, EventGap, MEDIA_TYPE, Problem};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{OpenApi, RefOr, Response};
use utoipa::{IntoResponses, OpenApi as _};

use super::super::routes;
use super::answers::{self, Guarded, NotAcceptable};

/// The media type that utoipa assigns to everything but plain text.
const JSON: &str = "application/json";

/// The document without its routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Baton",
        description = "A durable scheduler of tasks and workflows. `GET /` lists the resources; \
                       every representation carries its links by relation, and a relation that \
                       changes something has its method before the path. Times are milliseconds \
                       since 1970 (`…At`) or seconds with a fraction (`…Seconds`). HEAD is \
                       answered wherever GET is, and OPTIONS everywhere; a method that a path does \
                       not support is answered with 405. The header `Allow` of both lists the \
                       supported methods. Unknown query parameters are rejected. Where the server \
                       requires it, send a token as `Authorization: Bearer …`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem, Event, EventGap)),
    tags(
        (name = "instances", description = "Requested executions of tasks."),
        (name = "runs", description = "Executions of workflows, each of many instances."),
        (name = "views", description = "Instances by state, in pages."),
        (name = "library", description = "Stored tasks, their schedules and triggers."),
        (name = "backfills", description = "Launches for past due times that have none."),
        (name = "workers", description = "The machines that run instances."),
        (name = "limits", description = "Resources that are limited across the cluster."),
        (name = "tokens", description = "Access tokens."),
        (name = "server", description = "The server itself.")
    )
)]
struct Frame;

/// The document as it is committed.
pub(crate) fn text() -> String {
    let text = serde_json::to_string_pretty(&described()).expect("strings and numbers only");
    // utoipa puts a hyphen into the names of formats that are registered without.
    (text + "\n").replace("\"u-int", "\"uint")
}

/// The annotations of the handlers of all routes, completed.
fn described() -> OpenApi {
    let mut api = Frame::openapi();
    for annotation in routes::annotations() {
        api.merge(annotation);
    }
    for item in api.paths.paths.values_mut() {
        for operation in operations(item) {
            complete(operation);
        }
    }
    api
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem {
        get,
        put,
        post,
        delete,
        ..
    } = item;
    [get, put, post, delete].into_iter().flatten()
}

fn complete(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    responses.extend(Guarded::responses());
    let is_json = |response: &RefOr<Response>| match response {
        RefOr::T(response) => response.content.contains_key(JSON),
        RefOr::Ref(_) => false,
    };
    if responses.values().any(is_json) {
        responses.extend(NotAcceptable::responses());
    }
    if responses.contains_key("304") {
        if let Some(RefOr::T(response)) = responses.get_mut("200") {
            response
                .headers
                .insert("etag".to_owned(), answers::etag().into());
        }
        let parameters = operation.parameters.get_or_insert_default();
        parameters.push(answers::if_none_match().into());
    }
    for response in responses.values_mut() {
        let RefOr::T(response) = response else {
            continue;
        };
        if let Some(content) = response.content.swap_remove(JSON) {
            response.content.insert(MEDIA_TYPE.to_owned(), content);
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(content) = body.content.get(JSON).cloned()
    {
        body.content.insert(MEDIA_TYPE.to_owned(), content);
    }
}
