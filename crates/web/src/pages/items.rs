//! Items of a run, page by page.

use askama::Template;
use baton_model::api::{List, Run, RunItem};
use baton_model::state::UniversalState;
use serde_json::Value;

use super::filters::Filters;
use super::next;
use super::run::{ItemRow, hidden};
use crate::frame::Frame;

/// A page of the items of a run.
#[derive(Template)]
#[template(path = "items.html")]
pub struct ItemsPage {
    pub frame: Frame,
    pub id: String,
    pub name: String,
    pub filters: Filters,
    pub states: Vec<&'static str>,
    pub items: Vec<ItemRow>,
    /// Classes that hide the columns that are empty.
    pub hidden: String,
    pub next: Option<String>,
}

impl ItemsPage {
    #[must_use]
    pub fn new(frame: Frame, run: Run, filters: Filters, list: &List<RunItem<Value>>) -> Self {
        let states = UniversalState::OF_ITEMS.iter();
        let items: Vec<ItemRow> = list.items.iter().map(ItemRow::new).collect();
        Self {
            frame,
            id: run.id,
            name: run.name,
            filters,
            states: states.map(|state| state.word()).collect(),
            hidden: hidden(&items),
            items,
            next: next(&list.links),
        }
    }
}
