//! Responses and parameters that several handlers share.

use std::collections::BTreeMap;

use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses};

// Types that annotations name and handlers do not.
pub(in crate::http) use baton_model::api::{
    CancelReply, Problem, RunFilter, RunReply, SubmitReply, Task,
};
pub(in crate::http) use serde_json::Value;

pub(in crate::http) use super::super::problem::PROBLEM;

type Responses = BTreeMap<String, RefOr<Response>>;

/// Declares sets of problems, each a type that an annotation can name.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident { $($status:literal: $text:literal,)+ })+) => {$(
        $(#[$doc])*
        pub(in crate::http) struct $name;

        impl IntoResponses for $name {
            fn responses() -> Responses {
                [$(problem($status, $text)),+].into_iter().collect()
            }
        }
    )+};
}

problems! {
    /// All paths: rejections of `guard`.
    Guarded {
        401: "The server requires a valid token or certificate.",
        403: "The header Host or Origin names another server, or the role of the token is insufficient.",
        429: "Rate limit exceeded; the header Retry-After specifies when to retry.",
    }
    /// Paths that answer with JSON.
    NotAcceptable {
        406: "The header Accept excludes the media types of the API; nothing has changed.",
    }
    /// Paths with parameters, an id or a body.
    BadRequest {
        400: "The path, the query or the body cannot be parsed.",
    }
    /// Paths that name an object.
    NotFound {
        404: "No such object, or it was pruned from the history.",
    }
    /// Paths with a body.
    BadBody {
        408: "The body did not arrive in time.",
        413: "The body is too large.",
        415: "The media type of the body is not supported.",
    }
    /// Paths that resume a run.
    NotResumable {
        409: "The run is not HALTED or FAILED, or another generation is live.",
    }
    /// Paths that need the store or the leader.
    Unavailable {
        500: "Internal error: a bug in the server.",
        503: "The store is unavailable, or the scheduler does not answer.",
    }
}

/// Paths with an ETag.
pub(in crate::http) struct Unchanged;

impl IntoResponses for Unchanged {
    fn responses() -> Responses {
        let response = ResponseBuilder::new()
            .description("Not modified: the representation matches If-None-Match.")
            .header("etag", etag())
            .build();
        BTreeMap::from([("304".to_owned(), response.into())])
    }
}

/// The ETag header.
pub(super) fn etag() -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String);
    HeaderBuilder::new()
        .schema(Some(text))
        .description(Some(
            "A weak tag; it changes whenever the representation does.",
        ))
        .build()
}

/// The If-None-Match header.
pub(super) fn if_none_match() -> Parameter {
    ParameterBuilder::new()
        .name("if-none-match")
        .parameter_in(ParameterIn::Header)
        .description(Some("ETags of the representations that the client has."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn problem(status: u16, text: &str) -> (String, RefOr<Response>) {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let mut response = ResponseBuilder::new()
        .description(text)
        .content(PROBLEM, content);
    if status == 503 {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer);
        let header = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("Seconds to wait before a retry."))
            .build();
        response = response.header("retry-after", header);
    }
    (status.to_string(), response.build().into())
}

/// The run id in a path.
pub(in crate::http) struct OfRun;

impl IntoParams for OfRun {
    fn into_params(_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^r?[0-9]{1,18}$"));
        let run = ParameterBuilder::new()
            .name("run")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("Run id: `r12` or `12`."))
            .schema(Some(id))
            .example(Some("r12".into()))
            .build();
        vec![run]
    }
}

/// The pages of a view.
pub(in crate::http) struct Page;

impl IntoParams for Page {
    fn into_params(_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let optional = |name: &str, kind: Type, text: &str| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .description(Some(text))
                .schema(Some(ObjectBuilder::new().schema_type(kind)))
                .build()
        };
        vec![
            optional(
                "cursor",
                Type::String,
                "Start of the page; from the link `next`.",
            ),
            optional(
                "limit",
                Type::Integer,
                "Maximum number of entries. Where filters match few, a page ends after it has \
                 looked at 5,000 instances: it may have fewer entries, or none, and a link \
                 `next` that looks further.",
            ),
        ]
    }
}
