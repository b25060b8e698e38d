//! Cluster-wide limits.

use askama::Template;
use baton_model::api::{Limit, LimitOrigin, List, Share};

use super::limit_form::LimitForm;
use crate::frame::{Action, Frame};
use crate::text::encoded;

/// The list of limits, with their use.
#[derive(Template)]
#[template(path = "limits.html")]
pub struct LimitsPage {
    pub frame: Frame,
    pub rows: Vec<LimitRow>,
    /// The form that sets one.
    pub form: LimitForm,
    /// Shares of owners that were set.
    pub shares: Vec<Share>,
}

/// A limit.
pub struct LimitRow {
    pub name: String,
    pub capacity: u64,
    /// Starts per time; empty if the limit counts what is in use.
    pub rate: String,
    pub used: u64,
    pub waiting: u64,
    pub is_full: bool,
    pub origin: String,
    /// As the form takes it.
    pub value: String,
    pub actions: Vec<Action>,
}

impl LimitsPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Limit>, shares: List<Share>, form: LimitForm) -> Self {
        let rows = list.items.iter().map(|limit| LimitRow {
            name: limit.name.clone(),
            capacity: limit.capacity,
            rate: limit.rate.clone().unwrap_or_default(),
            used: limit.used,
            waiting: limit.waiting,
            value: limit.value(),
            actions: removal(limit).into_iter().collect(),
            is_full: limit.used >= limit.capacity,
            origin: match (limit.origin, limit.default_value()) {
                (LimitOrigin::Flag, _) => "--limit".to_owned(),
                (LimitOrigin::RunTime, Some(default)) => {
                    format!("set at run time, {default} by --limit")
                }
                (LimitOrigin::RunTime, None) => "set at run time".to_owned(),
            },
        });
        Self {
            frame,
            rows: rows.collect(),
            form,
            shares: shares.items,
        }
    }
}

/// The removal of a limit that was set at run time.
fn removal(limit: &Limit) -> Option<Action> {
    if limit.origin != LimitOrigin::RunTime {
        return None;
    }
    let then = match limit.default {
        Some(default) => format!("Then it is {default} by --limit again."),
        None => "Then nothing limits it.".to_owned(),
    };
    let target = format!("DELETE /limits/{}", encoded(&limit.name));
    let question = format!("Remove the limit {}? {then}", limit.name);
    Some(Action::new("Remove", &target).ask(question))
}
