//! The generator of `docs/openapi.json`, from the annotations of the handlers.
//!
//! Each handler documents its queries and its own responses; the schemas are those of
//! `baton_model::api`. What follows from the route and from the kind of the request is added here:
//! the parameters of its path, the problems that all requests of a kind share, the media types, and
//! the rejections before the handlers; then `refine` names the types of all parts. Only tests call it: the server serves the committed file.

use std::collections::BTreeMap;

use baton_model::api::{Event, EventGap, MEDIA_TYPE, Problem};
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr, Response};
use utoipa::{IntoResponses, OpenApi as _};

use super::super::problem::PROBLEM;
use super::super::routes::{self, ROUTES, Route};
use super::answers::{
    self, BadBody, BadRequest, Guarded, NotAcceptable, NotFound, Unavailable, path_parameters,
};
use super::order::Ordered;
use super::refine;

/// The media type that utoipa assigns to everything but plain text.
const JSON: &str = "application/json";

/// Paths that are answered without the store and the leader, or whose annotation says what happens
/// without them.
const WITHOUT_STORE: &[&str] = &[
    "/",
    "/docs",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/schemas/task.json",
    "/schemas/workflow.json",
    "/schemas/fleets.json",
];

/// Requests that name no object, or create the one that they name.
const WITHOUT_NOT_FOUND: &[(&str, &str)] = &[
    ("GET", "/{owner}/tasks/"),
    ("POST", "/{owner}/tasks/"),
    ("PUT", "/limits/{name}"),
];

/// The document without its routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Baton",
        description = "A durable scheduler of tasks and workflows. `GET /` lists the resources; \
                       every representation carries its links by relation, and a relation that \
                       changes something has its method before the path; braces are a URI template. The header `Link` \
                       with `rel=\"profile\"` names the schema of a representation below `/openapi.json`, and with its \
                       version as `title`: `baton.v1.Instance`. Times are milliseconds \
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
        (name = "owners", description = "To whom tasks, instances and runs belong."),
        (name = "backfills", description = "Launches for past due times that have none."),
        (name = "workers", description = "The machines that run instances."),
        (name = "fleets", description = "Where the scheduler obtains workers."),
        (name = "limits", description = "Resources that are limited across the cluster."),
        (name = "notifications", description = "What was told to whom, and how."),
        (name = "secrets", description = "Secrets, by their names."),
        (name = "tokens", description = "Access tokens."),
        (name = "server", description = "The server itself.")
    )
)]
struct Frame;

/// The document as it is committed.
pub(crate) fn text() -> String {
    let document = serde_json::to_value(described()).expect("strings and numbers only");
    let refined = refine::refined(document);
    let text = serde_json::to_string_pretty(&Ordered::new(&refined)).expect("the same");
    // utoipa puts a hyphen into the names of formats that are registered without.
    (text + "\n").replace("\"u-int", "\"uint")
}

/// The annotations of the handlers of all routes, completed.
fn described() -> OpenApi {
    let mut api = Frame::openapi();
    for (route, mut annotation) in ROUTES.iter().zip(routes::annotations()) {
        for item in annotation.paths.paths.values_mut() {
            for operation in operations(item) {
                complete(route, operation);
            }
        }
        api.merge(annotation);
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

/// Adds the parameters of the path that the annotation has not, before those that it has, and the
/// problems that follow from the route and from the kind of the request.
fn complete_request(route: &Route, operation: &mut Operation) {
    let annotated = operation.parameters.take().unwrap_or_default();
    let has = |is_it: &dyn Fn(&Parameter) -> bool| {
        let mut all = annotated.iter();
        all.any(|parameter| matches!(parameter, RefOr::T(parameter) if is_it(parameter)))
    };
    let derived = path_parameters(route.path).map(answers::PathParameter::described);
    let mut parameters: Vec<RefOr<Parameter>> = derived
        .filter(|it| !has(&|other| other.name == it.name))
        .map(RefOr::T)
        .collect();
    let has_body = operation.request_body.is_some();
    let is_parsed = path_parameters(route.path).any(|it| it.is_parsed);
    let is_parsed = is_parsed || has_body || has(&|it| it.parameter_in == ParameterIn::Query);
    parameters.extend(annotated);
    operation.parameters = Some(parameters).filter(|all| !all.is_empty());
    let responses = &mut operation.responses.responses;
    let mut add = |is_possible: bool, problems: BTreeMap<String, RefOr<Response>>| {
        for (status, problem) in problems.into_iter().filter(|_| is_possible) {
            responses.entry(status).or_insert(problem);
        }
    };
    let names_object =
        route.path.contains('{') && !WITHOUT_NOT_FOUND.contains(&(route.method, route.path));
    add(is_parsed, BadRequest::responses());
    add(has_body, BadBody::responses());
    add(names_object, NotFound::responses());
    add(
        !WITHOUT_STORE.contains(&route.path),
        Unavailable::responses(),
    );
}

fn complete(route: &Route, operation: &mut Operation) {
    complete_request(route, operation);
    let responses = &mut operation.responses.responses;
    for (status, response) in responses.iter_mut() {
        let is_problem = status.starts_with(['4', '5']);
        if let RefOr::T(response) = response
            && is_problem
            && response.content.is_empty()
        {
            let content = answers::problem_content();
            response.content.insert(PROBLEM.to_owned(), content.into());
        }
    }
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
