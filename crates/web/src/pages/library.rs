//! The library: its tasks and workflows, and the backfills of them.

use askama::Template;
use baton_model::api::{Backfill, FileProblem, LibraryPage as Entries, List, Task};
use serde_json::Value;

use super::next;
use crate::frame::Frame;
use crate::text::encoded;
use crate::time::Stamp;

/// The list of entries.
#[derive(Template)]
#[template(path = "library.html")]
pub struct LibraryPage {
    pub frame: Frame,
    pub rows: Vec<EntryRow>,
    pub problems: Vec<FileProblem>,
    pub next: Option<String>,
}

/// An entry in a list.
#[derive(Debug)]
pub struct EntryRow {
    pub owner: String,
    pub name: String,
    pub href: String,
    pub kind: String,
    pub revision: u32,
    pub schedule: String,
    pub next: Option<Stamp>,
    pub is_paused: bool,
}

impl EntryRow {
    #[must_use]
    pub fn new(entry: &Task<Value>) -> Self {
        Self {
            owner: entry.owner.clone(),
            name: entry.name.clone(),
            href: format!("/{}/tasks/{}", encoded(&entry.owner), encoded(&entry.name)),
            kind: word(&entry.kind),
            revision: entry.revision,
            schedule: entry.schedule_text.clone().unwrap_or_default(),
            next: entry.next_at.map(Stamp),
            is_paused: entry.paused_at.is_some(),
        }
    }
}

/// The word that the API has for a value of an enum.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

impl LibraryPage {
    #[must_use]
    pub fn new(frame: Frame, entries: Entries<Value>) -> Self {
        Self {
            frame,
            rows: entries.items.iter().map(EntryRow::new).collect(),
            problems: entries.problems,
            next: next(&entries.links),
        }
    }
}

/// The list of backfills.
#[derive(Template)]
#[template(path = "backfills.html")]
pub struct BackfillsPage {
    pub frame: Frame,
    pub rows: Vec<BackfillRow>,
    pub next: Option<String>,
}

/// A backfill in a list.
#[derive(Debug)]
pub struct BackfillRow {
    pub id: String,
    pub entry: String,
    pub href: String,
    pub state: String,
    pub from: Stamp,
    pub to: Stamp,
    pub launched: u64,
    pub remaining: u64,
}

impl BackfillsPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Backfill>) -> Self {
        let rows = list.items.iter().map(|it| BackfillRow {
            id: it.id.clone(),
            entry: format!("{}/{}", it.owner, it.name),
            href: format!("/{}/tasks/{}", encoded(&it.owner), encoded(&it.name)),
            state: it.state.clone(),
            from: Stamp(it.from),
            to: Stamp(it.to),
            launched: it.launched,
            remaining: it.remaining,
        });
        Self {
            frame,
            rows: rows.collect(),
            next: next(&list.links),
        }
    }
}
