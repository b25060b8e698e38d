//! Words about due times: what people may ask of a schedule, and what became of one.
//!
//! What an expression means, and when it is due, is `baton-core`'s `clock`.

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// What to do about times that clocks do not show, or show twice. It does not touch
/// schedules that have something for every hour, nor fixed periods.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dst {
    /// Times that are jumped over.
    pub gap: Gap,
    /// Times that are shown twice.
    pub fold: Fold,
}

/// A time that is jumped over when clocks are set forward.
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

/// A time that is shown twice when clocks are set back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// Happens the first time.
    #[default]
    Once,
    /// Happens both times.
    Twice,
}

/// Which due times that were missed are made up for, if they are within slack.
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

/// What becomes of a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TickVerdict))]
#[serde(rename_all = "kebab-case")]
pub enum TickVerdict {
    /// It is launched on time.
    Launch,
    /// It is launched, within slack.
    Late {
        /// After the planned time, which is the nominal one with its jitter.
        by: Millis,
    },
    /// It is not launched.
    Skip(SkipReason),
}

impl TickVerdict {
    /// The word for it in lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Launch => "launched",
            Self::Late { .. } => "late",
            Self::Skip(_) => "skipped",
        }
    }
}

/// Why a due time is not launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// Nobody was there until its slack had passed.
    Missed,
    /// It was within slack, but the policy makes up for later ones only, or for none.
    CatchUp,
    /// So many of its instances are on their way already.
    MaxInstances {
        /// The limit.
        limit: u32,
    },
    /// The launch rate is used up.
    LaunchRate,
    /// Its schedule was replaced or removed before it could be launched.
    Replaced,
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missed => f.write_str("its slack had passed before anybody could launch it"),
            Self::CatchUp => f.write_str("it was missed, and catch_up does not make up for it"),
            Self::MaxInstances { limit } => {
                write!(
                    f,
                    "{limit} instances were on their way, which is max_instances"
                )
            }
            Self::LaunchRate => f.write_str("its launch_rate was used up"),
            Self::Replaced => f.write_str("its schedule was replaced or removed"),
        }
    }
}
