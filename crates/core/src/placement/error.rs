//! Errors of placement.

use baton_model::ids::InstanceId;

use super::limits::{CLASSES_MAX, ENTRIES_MAX, LIMITS_MAX, RANGE_LEN_MAX, WORKERS_MAX};

/// A refused change. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("the range ends before it begins")]
    Empty,
    #[error("the range has more than {RANGE_LEN_MAX} elements")]
    TooLong,
    #[error("{0} is waiting already")]
    Waits(InstanceId),
    #[error("{0} is placed already")]
    Placed(InstanceId),
    #[error("{ENTRIES_MAX} submissions are waiting already")]
    TooManyWaiting,
    /// And none is idle.
    #[error("there are {CLASSES_MAX} classes of requests already")]
    TooManyClasses,
    #[error("there are {WORKERS_MAX} workers already")]
    TooManyWorkers,
    #[error("there are {LIMITS_MAX} limits already")]
    TooManyLimits,
}
