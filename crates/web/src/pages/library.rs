//! The library: its tasks and workflows, and the backfills of them.

use askama::Template;
use baton_model::api::{Backfill, BackfillLaunch, FileProblem, LibraryPage as Entries, List, Task};
use serde_json::Value;

use super::{Offer, actions, next};
use crate::frame::{Action, Frame};
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

impl BackfillRow {
    fn new(it: &Backfill) -> Self {
        Self {
            id: it.id.clone(),
            entry: format!("{}/{}", it.owner, it.name),
            href: format!("/{}/tasks/{}", encoded(&it.owner), encoded(&it.name)),
            state: it.state.clone(),
            from: Stamp(it.from),
            to: Stamp(it.to),
            launched: it.launched,
            remaining: it.remaining,
        }
    }
}

impl BackfillsPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Backfill>) -> Self {
        Self {
            frame,
            rows: list.items.iter().map(BackfillRow::new).collect(),
            next: next(&list.links),
        }
    }
}

/// The page of a backfill.
#[derive(Template)]
#[template(path = "backfill.html")]
pub struct BackfillPage {
    pub frame: Frame,
    pub backfill: BackfillRow,
    pub schedule: String,
    pub due: u64,
    pub halted: String,
    pub states: Vec<(String, u64)>,
    pub launches: Vec<LaunchRow>,
    pub actions: Vec<Action>,
    pub next: Option<String>,
}

/// A due time that a backfill has launched.
#[derive(Debug)]
pub struct LaunchRow {
    pub at: Stamp,
    pub id: String,
    pub href: String,
    pub state: String,
}

impl BackfillPage {
    #[must_use]
    pub fn new(frame: Frame, backfill: &Backfill, launches: &List<BackfillLaunch>) -> Self {
        let rows = launches.items.iter().map(|it| {
            let instance = it
                .instance
                .as_ref()
                .map(|id| (id, format!("/instances/{id}")));
            let run = it.run.as_ref().map(|id| (id, format!("/runs/{id}")));
            let (id, href) = instance
                .or(run)
                .map_or_else(Default::default, |(id, href)| (id.clone(), href));
            LaunchRow {
                at: Stamp(it.nominal_at),
                id,
                href,
                state: it.state.clone().unwrap_or_default(),
            }
        });
        Self {
            schedule: backfill.schedule.clone(),
            due: backfill.due,
            halted: backfill.halted.as_ref().map(word).unwrap_or_default(),
            states: backfill.states.clone().into_iter().collect(),
            launches: rows.collect(),
            actions: actions(&backfill.links, OFFERED),
            next: next(&launches.links),
            backfill: BackfillRow::new(backfill),
            frame,
        }
    }
}

const OFFERED: &[Offer] = &[
    ("halt", |target| Action::new("Halt", target)),
    ("resume", |target| Action::new("Resume", target)),
    ("cancel", |target| {
        Action::new("Cancel", target)
            .ask("Cancel the backfill for good? What it has launched goes on.".to_owned())
    }),
];
