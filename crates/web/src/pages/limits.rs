//! Cluster-wide limits.

use askama::Template;
use baton_model::api::{Limit, LimitOrigin, List};

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
}

/// A limit.
pub struct LimitRow {
    pub name: String,
    pub capacity: u64,
    pub used: u64,
    pub waiting: u64,
    pub is_full: bool,
    pub origin: String,
    pub actions: Vec<Action>,
}

impl LimitsPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Limit>, form: LimitForm) -> Self {
        let rows = list.items.iter().map(|limit| LimitRow {
            name: limit.name.clone(),
            capacity: limit.capacity,
            used: limit.used,
            waiting: limit.waiting,
            actions: removal(limit).into_iter().collect(),
            is_full: limit.used >= limit.capacity,
            origin: match (limit.origin, limit.default) {
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
