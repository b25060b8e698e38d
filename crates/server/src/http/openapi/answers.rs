//! Responses and parameters that several handlers share.

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{
    Content, ContentBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};

// Types that annotations name and handlers do not.
pub(in crate::http) use baton_model::api::{CancelReply, RunFilter, RunReply, SubmitReply, Task};
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

/// Declares bodies of requests that handlers parse by the schema of a file.
macro_rules! bodies {
    ($($name:ident: $text:literal,)+) => {$(
        #[doc = $text]
        pub(in crate::http) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().description(Some($text)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )+};
}

bodies! {
    EntryFile: "A task or a workflow, in the schema of its file: that of `/schemas/task.json` or `/schemas/workflow.json`.",
    FleetFile: "A fleet, in the schema of a fleet in `/schemas/fleets.json`.",
    WorkflowTasks: "Tasks by name, in `tasks`, as in `/schemas/workflow.json`.",
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

/// The content of a problem.
pub(super) fn problem_content() -> Content {
    let schema = Ref::from_schema_name("Problem");
    ContentBuilder::new().schema(Some(schema)).build()
}

fn problem(status: u16, text: &str) -> (String, RefOr<Response>) {
    let mut response = ResponseBuilder::new()
        .description(text)
        .content(PROBLEM, problem_content());
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

/// A parameter in a path.
pub(super) struct PathParameter {
    /// The beginning of the paths that have it, up to its braces.
    before: &'static str,
    name: &'static str,
    text: &'static str,
    pattern: Option<&'static str>,
    example: Option<&'static str>,
    /// Whether a value that cannot be parsed is answered with 400, and not with 404.
    pub(super) is_parsed: bool,
}

/// All of them, in the order in which a path has them. An annotation may have another text.
const PATH_PARAMETERS: &[PathParameter] = &[
    PathParameter {
        before: "/instances/",
        name: "id",
        text: "Instance id: `i12` or `12`.",
        pattern: Some("^i?[0-9]{1,18}$"),
        example: Some("i12"),
        is_parsed: true,
    },
    PathParameter {
        before: "/instances/{id}/logs/",
        name: "stream",
        text: "`stdout` or `stderr`.",
        pattern: Some("^std(out|err)$"),
        example: None,
        is_parsed: true,
    },
    PathParameter {
        before: "/runs/",
        name: "run",
        text: "Run id: `r12` or `12`.",
        pattern: Some("^r?[0-9]{1,18}$"),
        example: Some("r12"),
        is_parsed: true,
    },
    PathParameter {
        before: "/backfills/",
        name: "backfill",
        text: "The id of the backfill, such as b3.",
        pattern: None,
        example: None,
        is_parsed: true,
    },
    PathParameter {
        before: "/tokens/",
        name: "id",
        text: "Token id, such as `t7`.",
        pattern: Some("^t[0-9]{1,18}$"),
        example: Some("t7"),
        is_parsed: true,
    },
    PathParameter {
        before: "/limits/",
        name: "name",
        text: "The name of the resource; a slash is written as `%2F`.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/workers/",
        name: "name",
        text: "The name of the worker (its seat).",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/fleets/",
        name: "name",
        text: "The name of the fleet: lower-case letters, digits and `-`.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/fleets/{name}/jobs/",
        name: "job",
        text: "The id of a job of the fleet, such as `p12`.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/notifications/channels/",
        name: "channel",
        text: "The name of the channel.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/",
        name: "owner",
        text: "The owner of the entry.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
    PathParameter {
        before: "/{owner}/tasks/",
        name: "name",
        text: "The name of the entry.",
        pattern: None,
        example: None,
        is_parsed: false,
    },
];

/// The parameters of a path, in order.
pub(super) fn path_parameters(path: &str) -> impl Iterator<Item = &'static PathParameter> {
    PATH_PARAMETERS.iter().filter(move |parameter| {
        let rest = path.strip_prefix(parameter.before);
        let rest = rest.and_then(|rest| rest.strip_prefix('{')?.strip_prefix(parameter.name));
        rest.is_some_and(|rest| rest.starts_with('}'))
    })
}

impl PathParameter {
    pub(super) fn described(&self) -> Parameter {
        let value = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(self.pattern);
        ParameterBuilder::new()
            .name(self.name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(self.text))
            .schema(Some(value))
            .example(self.example.map(Into::into))
            .build()
    }
}

/// The ids in the path of commands that take several instances.
pub(in crate::http) struct OfInstances;

impl IntoParams for OfInstances {
    fn into_params(_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let several = PathParameter {
            before: "/instances/",
            name: "id",
            text: "Instance id, `i12` or `12`, an inclusive range, `i12..i20`, or several of \
                   them, `i12..i20,i31`.",
            pattern: Some(
                "^i?[0-9]{1,18}(\\.\\.i?[0-9]{1,18})?(,i?[0-9]{1,18}(\\.\\.i?[0-9]{1,18})?)*$",
            ),
            example: Some("i12"),
            is_parsed: true,
        };
        vec![several.described()]
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
