//! Alarms: work that is late, runs for an unexpected time, or is stuck.
//!
//! An alarm reports; it never changes the work. The leader raises and clears it by facts
//! (`baton_core::scheduler`), and it is open in between.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::conditions::Subject;
use crate::time::{Millis, Wall};

/// What people expect of the time that an execution takes. None of it ends anything. Every field is written:
/// specs are packed in a format that cannot leave any out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Expectations {
    /// When it must have ended.
    pub deadline: Option<Deadline>,
    /// The shortest run time of a success: of one attempt, or of a run.
    pub min: Option<Millis>,
    /// The longest run time.
    pub max: Option<Millis>,
    /// Whether the shortest and the longest run time are learned from those before.
    pub learned: bool,
}

impl Expectations {
    /// True if nothing is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The time of the deadline, once it is fixed.
    #[must_use]
    pub const fn late_at(&self) -> Option<Wall> {
        match self.deadline {
            Some(Deadline::At(at)) => Some(at),
            _ => None,
        }
    }
}

/// A deadline, as a rule or as a time. An execution has a time: the rule is applied to its due time, or
/// without a schedule to its submission.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Deadline {
    /// This long after it.
    After(Millis),
    /// The first such time of day after it.
    Daily(TimeOfDay),
    At(Wall),
}

/// A time of day in a time zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeOfDay {
    /// Minutes since midnight, below 1,440.
    pub minute: u16,
    /// The name of the zone, such as `Europe/Berlin`.
    pub zone: String,
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute) = (self.minute / 60, self.minute % 60);
        write!(f, "{hour:02}:{minute:02} {}", self.zone)
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(after) => write!(f, "{after} after its due time or submission"),
            Self::Daily(time) => time.fmt(f),
            Self::At(at) => write!(f, "{} ms since 1970", at.0),
        }
    }
}

/// The subject of an alarm is late, slow, short or stuck.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::EnumString,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AlarmKind {
    /// Its deadline has passed, and it has not ended.
    Late,
    /// It has run for longer than expected.
    Slow,
    /// It has succeeded in less time than expected.
    Short,
    /// It waits for a worker, and nothing like it was placed for `stuck_after`.
    Stuck,
}

impl AlarmKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Late, Self::Slow, Self::Short, Self::Stuck];

    /// The spelling everywhere.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One alarm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RaisedAlarm))]
pub struct Alarm {
    pub kind: AlarmKind,
    /// An instance, an array, or a run.
    pub subject: Subject,
    /// When the scheduler noticed, not since when it is so.
    pub at: Wall,
    pub owner: Arc<str>,
    /// The name of the task or workflow.
    pub name: Arc<str>,
    /// The rest of a sentence that begins with the name.
    pub reason: Arc<str>,
}

impl Alarm {
    /// Its identity among the open ones.
    #[must_use]
    pub const fn key(&self) -> AlarmKey {
        AlarmKey {
            subject: self.subject,
            kind: self.kind,
        }
    }

    /// The alarm as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}/{} {}", self.owner, self.name, self.reason)
    }
}

/// The identity of an open alarm: work has at most one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlarmKey {
    pub subject: Subject,
    pub kind: AlarmKind,
}

impl fmt::Display for AlarmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_readable() {
        let time = TimeOfDay {
            minute: 6 * 60 + 5,
            zone: "Europe/Berlin".to_owned(),
        };
        let expected = Expectations {
            deadline: Some(Deadline::Daily(time)),
            ..Expectations::default()
        };
        let json = serde_json::to_string(&expected).expect("JSON");
        assert_eq!(
            json,
            r#"{"deadline":{"daily":{"minute":365,"zone":"Europe/Berlin"}},"min":null,"max":null,"learned":false}"#
        );
        let text = expected.deadline.map(|it| it.to_string());
        assert_eq!(text.as_deref(), Some("06:05 Europe/Berlin"));
    }
}
