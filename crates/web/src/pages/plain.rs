//! Pages of a few lines: usage, events, signing in, errors, keys, and any other representation.

use askama::Template;
use baton_model::api::{FieldProblem, List, Problem, Usage};
use serde_json::Value;

use super::next;
use crate::chart::{self, Bar};
use crate::frame::Frame;
use crate::json;
use crate::markup::Markup;
use crate::text::duration;
use crate::time::Stamp;

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

/// Usage by hour and owner.
#[derive(Template)]
#[template(path = "usage.html")]
pub struct UsagePage {
    pub frame: Frame,
    pub rows: Vec<UsageRow>,
    pub chart: Markup,
    pub next: Option<String>,
}

/// The usage of an owner in an hour.
#[derive(Debug)]
pub struct UsageRow {
    pub hour: Stamp,
    pub owner: String,
    pub done: u64,
    pub failed: u64,
    pub halted: u64,
    pub cpu_used: String,
    pub cpu_claimed: String,
    pub waited: String,
}

impl UsagePage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Usage>) -> Self {
        let rows = list.items.iter().map(|it| UsageRow {
            hour: Stamp(it.hour_at),
            owner: it.owner.clone(),
            done: it.done,
            failed: it.failed,
            halted: it.halted,
            cpu_used: duration(it.cpu_used_seconds),
            cpu_claimed: duration(it.cpu_claimed_seconds),
            waited: duration(it.waited_seconds),
        });
        let mut bars: Vec<Bar> = Vec::new();
        for it in &list.items {
            let used = it.cpu_used_seconds.max(0.0) as u64;
            match bars.iter_mut().find(|bar| bar.hour.0 == it.hour_at) {
                Some(bar) => bar.parts[0].1 += used,
                None => bars.push(Bar {
                    hour: Stamp(it.hour_at),
                    parts: vec![("running", used)],
                }),
            }
        }
        bars.sort_by_key(|bar| bar.hour);
        Self {
            frame,
            rows: rows.collect(),
            chart: chart::bars("CPU seconds by hour", &bars),
            next: next(&list.links),
        }
    }
}
