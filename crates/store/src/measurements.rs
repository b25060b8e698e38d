//! Measurements of the last attempts of each task.
//!
//! One row has the measurements of one task as texts of equal length, one after the other: so a group of facts appends
//! to each of its tasks in one statement, without reading, and the oldest are cut off in it. The rows are written in
//! the same transaction as the facts, and outlive them; they go when the task has not run for
//! [`crate::limits::USAGE_HOURS_KEPT`], or when there are more than [`TASKS_MEASURED_MAX`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use baton_model::limits::TASKS_MEASURED_MAX;
use baton_model::measurement::{MeasuredEnd, Measurement, Requested, TaskPath};
use baton_model::time::{Millis, Wall};

const _: () = assert!(
    TASKS_MEASURED_MAX > 0,
    "the last measured task is found by it"
);

/// Characters of one measurement.
pub(crate) const MEASUREMENT_LEN: usize = 43;

/// The last measurements of a task, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskUsage {
    pub path: TaskPath,
    /// All that were ever measured, since the row began.
    pub attempts: u64,
    /// When the last one was recorded.
    pub changed: Wall,
    /// The requests of the last one, as its file had them.
    pub requested: Requested,
    /// At most [`baton_model::limits::TASK_ATTEMPTS_MEASURED`].
    pub measurements: Vec<Measurement>,
}

/// Query for a page of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskUsageQuery {
    /// Only this owner.
    pub owner: Option<String>,
    /// Only tasks of this workflow; empty for those of none.
    pub workflow: Option<String>,
    /// Only tasks of this name.
    pub task: Option<String>,
    /// Only rows after this one.
    pub after: Option<TaskPath>,
    /// Maximum number of items; capped at [`crate::limits::PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// New measurements of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewMeasurements {
    pub(crate) requested: Requested,
    pub(crate) changed: Wall,
    pub(crate) measurements: Vec<Measurement>,
}

/// New measurements by task.
pub(crate) type MeasurementDeltas = BTreeMap<TaskPath, NewMeasurements>;

/// Writes measurements one after the other.
pub(crate) fn encode(measurements: &[Measurement]) -> String {
    let mut text = String::with_capacity(measurements.len() * MEASUREMENT_LEN);
    for it in measurements {
        let end = match it.end {
            MeasuredEnd::Done => 'd',
            MeasuredEnd::Failed => 'f',
            MeasuredEnd::OutOfMemory => 'm',
            MeasuredEnd::TimedOut => 't',
            MeasuredEnd::Cut => 'c',
        };
        let at = bounded(it.at.0, 12);
        let elapsed = bounded(it.elapsed.0, 10);
        let cpu = bounded(it.cpu.0, 10);
        let kib = bounded(it.memory_peak.div_ceil(1_024), 10);
        // Writing to a string does not fail.
        let _ = write!(text, "{end}{at:012x}{elapsed:010x}{cpu:010x}{kib:010x}");
    }
    text
}

/// Reads measurements; none if the text is no list of them.
pub(crate) fn decode(text: &str) -> Option<Vec<Measurement>> {
    if !text.is_ascii() || !text.len().is_multiple_of(MEASUREMENT_LEN) {
        return None;
    }
    let parts = (0..text.len()).step_by(MEASUREMENT_LEN);
    parts
        .map(|from| measurement(&text[from..from + MEASUREMENT_LEN]))
        .collect()
}

fn measurement(text: &str) -> Option<Measurement> {
    let number = |from: usize, to: usize| u64::from_str_radix(&text[from..to], 16).ok();
    let end = match &text[..1] {
        "d" => MeasuredEnd::Done,
        "f" => MeasuredEnd::Failed,
        "m" => MeasuredEnd::OutOfMemory,
        "t" => MeasuredEnd::TimedOut,
        "c" => MeasuredEnd::Cut,
        _ => return None,
    };
    Some(Measurement {
        at: Wall(number(1, 13)?),
        elapsed: Millis(number(13, 23)?),
        cpu: Millis(number(23, 33)?),
        memory_peak: number(33, 43)? * 1_024,
        end,
    })
}

/// The number, or the largest one of as many hexadecimal digits.
fn bounded(number: u64, digits: u32) -> u64 {
    number.min((1 << (4 * digits)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_read_as_they_were_written() {
        let ends = [
            MeasuredEnd::Done,
            MeasuredEnd::Failed,
            MeasuredEnd::OutOfMemory,
            MeasuredEnd::TimedOut,
            MeasuredEnd::Cut,
        ];
        let all = ends.map(|end| Measurement {
            at: Wall(1_790_000_000_000),
            elapsed: Millis(86_400_001),
            cpu: Millis(7),
            memory_peak: 300 << 20,
            end,
        });
        let text = encode(&all);
        assert_eq!(text.len(), all.len() * MEASUREMENT_LEN);
        assert_eq!(decode(&text).as_deref(), Some(&all[..]));
        assert_eq!(decode(&text[1..]), None);
        assert_eq!(decode(&text.replace('t', "x")), None);
        assert_eq!(decode(""), Some(Vec::new()));
    }

    #[test]
    fn numbers_that_are_too_large_stay_within_their_digits() {
        let huge = Measurement {
            at: Wall(u64::MAX),
            elapsed: Millis(u64::MAX),
            cpu: Millis(u64::MAX),
            memory_peak: u64::MAX,
            end: MeasuredEnd::Done,
        };
        let text = encode(&[huge]);
        assert_eq!(text.len(), MEASUREMENT_LEN);
        let read = decode(&text).expect("readable");
        assert_eq!(read[0].elapsed, Millis((1 << 40) - 1));
    }
}
