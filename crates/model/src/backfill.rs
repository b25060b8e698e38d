//! Backfills: launches for the due times of a past interval that have none.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{BackfillId, TaskNo};
use crate::library::Schedule;
use crate::time::Wall;

/// The due times of a backfill: those of a schedule in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BackfillRange {
    /// The schedule when the backfill was registered. A later revision does not change which due
    /// times it has.
    pub schedule: Schedule,
    pub from: Wall,
    /// Not included.
    pub to: Wall,
    /// The latest due time is launched first.
    pub reverse: bool,
}

/// The state of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackfillState {
    Running,
    /// It launches nothing until it is resumed.
    Halted(BackfillHalt),
    /// Every due time has a launch, and all launches have ended.
    Done,
    /// It launches nothing more, and cannot be resumed.
    Cancelled,
}

impl BackfillState {
    /// The spelling in texts and in the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Halted(_) => "HALTED",
            Self::Done => "DONE",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Whether it may launch something, now or after a resume.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Halted(_))
    }
}

/// The reason for which a backfill was halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BackfillHalt {
    Requested,
    /// Its entry was removed, or has a parameter without a default.
    EntryUnusable,
}

impl fmt::Display for BackfillHalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "requested",
            Self::EntryUnusable => "its entry was removed, or has a parameter without a default",
        })
    }
}

/// A backfill, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Backfill {
    pub id: BackfillId,
    pub task: TaskNo,
    pub range: BackfillRange,
    /// Its instances or runs that may be in flight at once.
    pub max_concurrent: u32,
    pub state: BackfillState,
    /// The due times of its range.
    pub due: u64,
    /// The due times that it has launched.
    pub launched: u64,
    /// The due times that it has still to launch. All others had a launch already.
    pub remaining: u64,
    /// The due time that it has launched last: it has passed all before it in its direction.
    pub last: Option<Wall>,
    pub registered_at: Wall,
    /// When its state changed last.
    pub changed_at: Wall,
}

impl Backfill {
    /// Whether it has not yet passed a due time of its range.
    #[must_use]
    pub fn is_ahead(&self, at: Wall) -> bool {
        let range = &self.range;
        let beyond = self
            .last
            .is_none_or(|last| if range.reverse { at < last } else { at > last });
        beyond && at >= range.from && at < range.to
    }
}
