//! The library: tasks and workflows with their revisions, the outcomes of their due times, and their triggers.
//!
//! | file | holds |
//! |---|---|
//! | `read` | entries, revisions, due times |
//! | `change` | definition and removal of entries |
//! | `pause` | pauses of entries |
//! | `trigger` | instances and runs started by users and other systems |
//! | `ticks` | outcomes of due times |
//!
//! The ETag of a task is its revision, so that a client can name the revision it replaces. While it
//! is paused, the tag also has the time of the pause.

pub(super) mod change;
pub(super) mod pause;
pub(super) mod read;
pub(super) mod ticks;
pub(super) mod trigger;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use baton_core::clock::{Schedule, Zone};
use baton_core::scheduler::Precondition;
use baton_model::api::{Links, Task};
use baton_model::ids::Revision;
use baton_model::library::{self, EntryKind, TaskName};
use baton_model::time::Wall;
use baton_store::view::TaskRecord;
use serde_json::Value;

use super::app::App;
use super::conditional::{self, Matched};
use super::problem::{Answer, Fault};
use super::redaction::visible;
use super::response::respond;
use super::views;
use crate::access::Caller;

fn name(owner: &str, name: &str) -> TaskName {
    TaskName {
        owner: owner.to_owned(),
        name: name.to_owned(),
    }
}

pub(super) fn path(name: &TaskName) -> String {
    views::task_path(&name.owner, &name.name)
}

/// A task as a type of the API.
fn task_view(record: &TaskRecord) -> Task<Value> {
    let trigger = &record.definition.trigger;
    let schedule = trigger.schedule.as_ref().and_then(parsed);
    let pause = record.pause.as_ref().filter(|_| record.current);
    Task {
        owner: record.name.owner.clone(),
        name: record.name.name.clone(),
        kind: record.definition.kind,
        revision: record.revision.0,
        current: record.current,
        defined_at: record.at.0,
        file: record.definition.file.clone(),
        trigger: trigger.clone(),
        schedule_text: schedule.map(|schedule| schedule.describe()),
        next_at: None,
        paused_at: pause.map(|pause| pause.since.0),
        pause_reason: pause.and_then(|pause| pause.reason.clone()),
        definition: serde_json::from_str(&record.definition.source).ok(),
        links: links(record),
    }
}

/// The same, for lists.
fn listed_view(record: &TaskRecord, now: Wall) -> Task<Value> {
    let schedule = record.definition.trigger.schedule.as_ref();
    let next = schedule.and_then(parsed).and_then(|it| it.after(now));
    Task {
        next_at: next.map(|occurrence| occurrence.at.0),
        definition: None,
        ..task_view(record)
    }
}

fn links(record: &TaskRecord) -> Links {
    let path = path(&record.name);
    let mut links = views::links([
        ("self", path.clone()),
        ("revisions", format!("{path}/revisions/")),
        ("ticks", format!("{path}/ticks/")),
    ]);
    let (relation, list) = match record.definition.kind {
        EntryKind::Task => ("history", "/history/"),
        EntryKind::Workflow => ("runs", "/runs/"),
    };
    let (owner, name) = (&record.name.owner, &record.name.name);
    let (owner, name) = (views::encoded(owner), views::encoded(name));
    links.insert(
        relation.to_owned(),
        format!("{list}?owner={owner}&name={name}"),
    );
    if !record.current {
        return links;
    }
    let mut add = |relation: &str, target: String| {
        links.insert(relation.to_owned(), target);
    };
    add("run", format!("POST {path}/run"));
    let pause = match record.pause {
        Some(_) => "unpause",
        None => "pause",
    };
    add(pause, format!("PUT {path}/paused"));
    let trigger = &record.definition.trigger;
    if trigger.schedule.is_some() {
        add("due", format!("{path}/due"));
        add("backfill", format!("POST {path}/backfills/"));
    }
    if trigger.remote {
        add("trigger", format!("POST {path}/trigger"));
    }
    if record.definition.file.is_none() {
        add("replace", format!("PUT {path}"));
        add("remove", format!("DELETE {path}"));
    }
    links
}

/// A stored schedule; `None` if its time zone is no longer known.
fn parsed(schedule: &library::Schedule) -> Option<Schedule> {
    let zone = Zone::named(&schedule.zone).ok()?;
    Schedule::parse(&schedule.text, &zone, schedule.dst).ok()
}

/// Sets the ETag of a response to a revision.
fn with_revision(response: Response, revision: Revision) -> Response {
    with_tag(response, &format!("\"r{}\"", revision.0))
}

/// A response that is an entry, with its ETag.
fn entry(caller: &Caller, record: &TaskRecord) -> Response {
    let response = respond(StatusCode::OK, &visible(caller, &task_view(record)));
    match record.pause.as_ref().filter(|_| record.current) {
        Some(pause) => {
            let tag = format!("\"r{}-paused-{}\"", record.revision.0, pause.since.0);
            with_tag(response, &tag)
        }
        None => with_revision(response, record.revision),
    }
}

fn with_tag(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The precondition of `If-Match`. Either form of a tag names its revision.
fn matched(headers: &HeaderMap) -> Answer<Option<Precondition>> {
    let tags = match conditional::matched(headers)? {
        None => return Ok(None),
        Some(Matched::Any) => return Ok(Some(Precondition::Present)),
        Some(Matched::Tags(tags)) => tags,
    };
    let revision = |tag: &String| {
        let number = tag.strip_prefix('r')?;
        let number = number.split_once("-paused-").map_or(number, |it| it.0);
        let revision = number.parse().ok().map(Revision)?;
        // A tag is opaque: `r03` is not `r3`.
        (revision.0.to_string() == number).then_some(revision)
    };
    let revisions = tags.iter().filter_map(revision).collect();
    Ok(Some(Precondition::Revisions(revisions)))
}

pub(super) fn unknown(name: &TaskName) -> Fault {
    let short: String = name.to_string().chars().take(200).collect();
    Fault::not_found(format!(
        "there is no task or workflow {short:?} in the library; `baton library ls` lists them"
    ))
}

impl App {
    /// The stored record of a task.
    pub(super) async fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Answer<TaskRecord> {
        let wanted = name.clone();
        let found = self
            .read(move |store| store.task(&wanted, revision))
            .await?;
        found.ok_or_else(|| unknown(name))
    }
}
