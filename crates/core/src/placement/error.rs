//! Errors of placement.

use baton_model::ids::InstanceId;

use super::limits::{CLASSES_MAX, ENTRIES_MAX, LIMITS_MAX, RANGE_LEN_MAX, WORKERS_MAX};

/// A refused change. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The range ends before it begins.
    Empty,
    /// The range has more than [`super::limits::RANGE_LEN_MAX`] elements.
    TooLong,
    /// This instance waits already.
    Waits(InstanceId),
    /// This instance is placed already.
    Placed(InstanceId),
    /// There are [`super::limits::ENTRIES_MAX`] entries.
    TooManyWaiting,
    /// There are [`super::limits::CLASSES_MAX`] classes, and none is idle.
    TooManyClasses,
    /// There are [`super::limits::WORKERS_MAX`] workers.
    TooManyWorkers,
    /// There are [`super::limits::LIMITS_MAX`] cluster-wide limits.
    TooManyLimits,
}

impl std::fmt::Display for PlacementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the range ends before it begins"),
            Self::TooLong => write!(f, "the range has more than {RANGE_LEN_MAX} elements"),
            Self::Waits(instance) => write!(f, "{instance} is waiting already"),
            Self::Placed(instance) => write!(f, "{instance} is placed already"),
            Self::TooManyWaiting => write!(f, "{ENTRIES_MAX} submissions are waiting already"),
            Self::TooManyClasses => {
                write!(f, "there are {CLASSES_MAX} classes of requests already")
            }
            Self::TooManyWorkers => write!(f, "there are {} workers already", WORKERS_MAX),
            Self::TooManyLimits => write!(f, "there are {LIMITS_MAX} limits already"),
        }
    }
}

impl std::error::Error for PlacementError {}
