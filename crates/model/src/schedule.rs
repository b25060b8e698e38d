//! Schedule policies, and the verdict on a due time.
//!
//! `baton-core`'s `clock` parses expressions and computes due times.

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// Policy for local times that daylight saving time skips or repeats. It does not affect schedules
/// with a due time in every hour, nor fixed periods.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dst {
    /// Skipped local times.
    pub gap: Gap,
    /// Repeated local times.
    pub fold: Fold,
}

/// Policy for a local time that is skipped when clocks are set forward.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Gap {
    /// Does not happen on that day.
    Skip,
    /// Happens at the moment of the jump.
    Early,
    /// Happens when it would have, had the clocks not been changed: 02:30 at 03:30.
    #[default]
    Late,
}

/// Policy for a local time that is repeated when clocks are set back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// Happens the first time.
    Once,
    /// Happens both times.
    Twice,
    /// Happens both times if it repeats within the hour, as `*/10 1-3 * * *` does; or else the first
    /// time.
    #[default]
    Auto,
}

/// Catch-up policy: the missed due times that are launched late, if they are within slack.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// None: only what is on time is launched.
    None,
    /// The last one, if nothing newer is on time.
    #[default]
    Last,
    /// All of them.
    All,
}

/// The verdict on a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TickVerdict))]
#[serde(rename_all = "kebab-case")]
pub enum TickVerdict {
    /// It is launched on time.
    Launch,
    /// It is launched, within slack.
    Late {
        /// After the planned time: the nominal time plus its jitter.
        by: Millis,
    },
    /// It is not launched.
    Skip(SkipReason),
}

impl TickVerdict {
    /// The spelling in lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Launch => "launched",
            Self::Late { .. } => "late",
            Self::Skip(_) => "skipped",
        }
    }
}

/// The reason for which a due time is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// No scheduler was running until its slack had passed.
    Missed,
    /// It was within slack, but the catch-up policy launches later ones only, or none.
    CatchUp,
    /// `max_instances` instances of the task are in flight already.
    MaxInstances { limit: u32 },
    /// Too many instances or runs wait for their turn already.
    QueueFull { limit: u32 },
    /// The launch rate is used up.
    LaunchRate,
    /// Its schedule was replaced or removed before it could be launched.
    Replaced,
    /// Its entry was paused.
    Paused,
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missed => f.write_str("its slack had passed before a scheduler could launch it"),
            Self::CatchUp => {
                f.write_str("it was missed, and the catch_up policy does not launch it")
            }
            Self::MaxInstances { limit } => {
                write!(f, "max_instances was reached ({limit} in flight)")
            }
            Self::QueueFull { limit } => {
                write!(f, "{limit} were waiting for their turn already")
            }
            Self::LaunchRate => f.write_str("its launch_rate was used up"),
            Self::Replaced => f.write_str("its schedule was replaced or removed"),
            Self::Paused => f.write_str("it was paused"),
        }
    }
}
