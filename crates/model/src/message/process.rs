//! The processes of an attempt: their states, and samples of their resource usage.
//!
//! They are read from the worker on request. The scheduler stores none of it.

use serde::{Deserialize, Serialize};

use crate::ids::LeaseId;
use crate::state::{AttemptState, ProcessState};
use crate::time::Wall;

/// A request for the processes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessQuery {
    pub lease: LeaseId,
    /// At most this many samples of each process.
    pub samples_max: u32,
}

/// Resource usage of one process and its descendants, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UsageSample {
    pub at: Wall,
    /// Processor time since the start of its run, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes of resident memory.
    pub memory: u64,
    pub threads: u32,
    pub processes: u32,
    /// Bytes read from storage.
    pub read: u64,
    /// Bytes written to storage.
    pub written: u64,
}

/// A process of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessStatus {
    pub name: String,
    /// The state of the current run, or of the last one if there is no other.
    pub state: ProcessState,
    /// Runs that were ordered.
    pub runs: u64,
    /// Runs that succeeded.
    pub successes: u64,
    /// Runs that count towards `max_failures`.
    pub failures: u64,
    /// Runs that Baton killed.
    pub kills: u64,
    /// Runs whose end is not known.
    pub losses: u64,
    /// The first process of the current run.
    pub pid: Option<u32>,
    /// The start of the current run.
    pub started: Option<Wall>,
    /// How the run before it has ended.
    pub last_end: Option<String>,
    /// Samples of the current or last run, spread over its duration, oldest first.
    pub usage: Vec<UsageSample>,
}

/// The processes of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttemptProcesses {
    pub state: AttemptState,
    /// At most [`crate::limits::PROCESSES_SHOWN_MAX`], in the order of definition.
    pub processes: Vec<ProcessStatus>,
    /// How many more there are.
    pub omitted: u32,
}

/// The answer to a [`ProcessQuery`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessAnswer {
    Processes(AttemptProcesses),
    /// The worker does not have the attempt, or not any more.
    NotFound,
    /// The worker could not be asked, for this reason.
    Unavailable(String),
}

impl UsageSample {
    /// At most `max` of the samples, oldest first: the last two, from which the current usage
    /// follows, and others that are evenly spread over those before.
    #[must_use]
    pub fn spread(samples: &[Self], max: usize) -> Vec<Self> {
        let Some((last, before)) = samples.split_last().filter(|_| max > 0) else {
            return Vec::new();
        };
        let places = before.len().min(max - 1);
        let spread = (1..=places).map(|place| before[place * before.len() / places - 1]);
        spread.chain([*last]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_over_the_whole_run_and_end_with_the_last_two() {
        let samples: Vec<UsageSample> = (0..10)
            .map(|at| UsageSample {
                at: Wall(at),
                cpu_ms: 0,
                memory: 0,
                threads: 1,
                processes: 1,
                read: 0,
                written: 0,
            })
            .collect();
        let times = |max| {
            let spread = UsageSample::spread(&samples, max);
            spread.iter().map(|it| it.at.0).collect::<Vec<_>>()
        };
        assert_eq!(times(0), [0; 0]);
        assert_eq!(times(1), [9]);
        assert_eq!(times(2), [8, 9]);
        assert_eq!(times(4), [2, 5, 8, 9]);
        assert_eq!(times(10), (0..10).collect::<Vec<_>>());
        assert_eq!(times(11).len(), 10);
        assert_eq!(UsageSample::spread(&[], 3), []);
    }
}
