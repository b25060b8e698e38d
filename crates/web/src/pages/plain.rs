//! Pages of a few lines: events, signing in, errors, keys, and any other representation.

use askama::Template;
use baton_model::api::{FieldProblem, Problem};
use serde_json::Value;

use crate::frame::Frame;
use crate::json;
use crate::markup::Markup;

/// Any representation of the API.
#[derive(Template)]
#[template(path = "data.html")]
pub struct DataPage {
    pub frame: Frame,
    pub json: Markup,
    /// Label and path.
    pub links: Vec<(String, String)>,
}

impl DataPage {
    #[must_use]
    pub fn new(frame: Frame, value: &Value) -> Self {
        let links = value.get("links").and_then(Value::as_object);
        let links = links.into_iter().flatten();
        let paths = links.filter_map(|(relation, target)| {
            let path = target.as_str().filter(|path| path.starts_with('/'))?;
            Some((relation.clone(), path.to_owned()))
        });
        Self {
            frame,
            json: json::render(value),
            links: paths.collect(),
        }
    }
}

/// An error.
#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    pub frame: Frame,
    pub status: u16,
    pub heading: String,
    pub detail: String,
    pub errors: Vec<FieldProblem>,
    /// Where the reader came from.
    pub back: Option<String>,
}

impl ErrorPage {
    #[must_use]
    pub fn new(frame: Frame, problem: Problem, back: Option<String>) -> Self {
        Self {
            frame,
            status: problem.status,
            heading: problem.title,
            detail: problem.detail,
            errors: problem.errors,
            back,
        }
    }
}

/// The form that asks for a token.
#[derive(Template)]
#[template(path = "sign_in.html")]
pub struct SignInPage {
    pub frame: Frame,
    /// What was wrong with the last one.
    pub problem: Option<String>,
    /// The page to continue with.
    pub back: String,
}

/// The keys that pages understand.
#[derive(Template)]
#[template(path = "keys.html")]
pub struct KeysPage {
    pub frame: Frame,
}

/// The stream of events; the script fills it.
#[derive(Template)]
#[template(path = "events.html")]
pub struct EventsPage {
    pub frame: Frame,
    /// Query of the stream.
    pub query: String,
    /// Names of the events, separated by spaces.
    pub kinds: String,
}
