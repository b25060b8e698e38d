//! Open alarms.

use serde::{Deserialize, Serialize};

use super::Links;
use crate::alarm::{self, AlarmKind};

/// An open alarm: work that is late, slow, short or stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Alarm {
    pub kind: AlarmKind,
    /// The instance, array or run: `i7`, `i2..i301` or `r5`.
    pub subject: String,
    pub owner: String,
    /// The name of its task or workflow.
    pub name: String,
    pub raised_at: u64,
    /// The rest of a sentence that begins with the name.
    pub reason: String,
    /// `subject`: the resource that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl From<alarm::Alarm> for Alarm {
    fn from(alarm: alarm::Alarm) -> Self {
        let subject = alarm.subject.to_string();
        let kind = match alarm.subject.run() {
            Some(_) => "runs",
            None => "instances",
        };
        let link = ("subject".to_owned(), format!("/{kind}/{subject}"));
        Self {
            kind: alarm.kind,
            subject,
            owner: alarm.owner.to_string(),
            name: alarm.name.to_string(),
            raised_at: alarm.at.0,
            reason: alarm.reason.to_string(),
            links: [link].into(),
        }
    }
}
