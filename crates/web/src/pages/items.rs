//! Items of a run, page by page.

use askama::Template;
use baton_model::api::{List, Run, RunItem};
use baton_model::state::UniversalState;
use serde_json::Value;

use super::next;
use super::run::ItemRow;
use crate::frame::Frame;

/// A page of the items of a run.
#[derive(Template)]
#[template(path = "items.html")]
pub struct ItemsPage {
    pub frame: Frame,
    pub id: String,
    pub name: String,
    pub filters: ItemFilters,
    pub states: Vec<&'static str>,
    pub items: Vec<ItemRow>,
    pub next: Option<String>,
}

/// The filters of the items, as the address has them.
#[derive(Clone, Debug, Default)]
pub struct ItemFilters {
    pub task: String,
    pub item: String,
    pub state: String,
}

impl ItemFilters {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.task.is_empty() && self.item.is_empty() && self.state.is_empty()
    }
}

impl ItemsPage {
    #[must_use]
    pub fn new(frame: Frame, run: Run, filters: ItemFilters, list: &List<RunItem<Value>>) -> Self {
        let states = UniversalState::OF_ITEMS.iter();
        Self {
            frame,
            id: run.id,
            name: run.name,
            filters,
            states: states.map(|state| state.word()).collect(),
            items: list.items.iter().map(ItemRow::new).collect(),
            next: next(&list.links),
        }
    }
}
