//! Open alarms: what is late, slow, short or stuck.

use askama::Template;
use baton_model::api::{Alarm, List};

use super::attention::AttentionRow;
use super::filters::Filters;
use crate::frame::Frame;

/// The list of open alarms, the oldest first.
#[derive(Template)]
#[template(path = "alarms.html")]
pub struct AlarmsPage {
    pub frame: Frame,
    pub filters: Filters,
    pub rows: Vec<AlarmRow>,
    /// Alarms that are not on the page.
    pub rest: u64,
}

/// An alarm.
pub struct AlarmRow {
    pub subject: String,
    pub row: AttentionRow,
}

impl AlarmsPage {
    #[must_use]
    pub fn new(frame: Frame, filters: Filters, list: &List<Alarm>) -> Self {
        let rows = list.items.iter().map(|alarm| AlarmRow {
            subject: alarm.subject.clone(),
            row: AttentionRow::of_alarm(alarm),
        });
        let shown = list.items.len() as u64;
        Self {
            frame,
            filters,
            rows: rows.collect(),
            rest: list.total.unwrap_or(shown).saturating_sub(shown),
        }
    }
}
