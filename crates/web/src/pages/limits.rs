//! Cluster-wide limits.

use askama::Template;
use baton_model::api::{Limit, LimitOrigin, List};

use crate::frame::Frame;

/// The list of limits, with their use.
#[derive(Template)]
#[template(path = "limits.html")]
pub struct LimitsPage {
    pub frame: Frame,
    pub rows: Vec<LimitRow>,
}

/// A limit.
pub struct LimitRow {
    pub name: String,
    pub capacity: u64,
    pub used: u64,
    pub waiting: u64,
    pub is_full: bool,
    pub origin: String,
}

impl LimitsPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Limit>) -> Self {
        let rows = list.items.iter().map(|limit| LimitRow {
            name: limit.name.clone(),
            capacity: limit.capacity,
            used: limit.used,
            waiting: limit.waiting,
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
        }
    }
}
