//! The processes of an attempt.

use serde::{Deserialize, Serialize};

use super::Links;
use crate::state::{AttemptState, ProcessState};

/// `GET /instances/{id}/processes`: the processes of an attempt, as its worker knows them now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttemptProcesses {
    /// Id of the instance.
    pub id: String,
    /// Attempt number.
    pub attempt: u32,
    /// Worker that has the attempt.
    pub worker: String,
    /// State of the attempt on its worker.
    pub state: AttemptState,
    /// In the order of definition; a plain command is one process with the name of its task.
    pub processes: Vec<Process>,
    /// How many more processes there are.
    pub omitted: u32,
    /// `self`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A process of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Name of the process.
    pub name: String,
    /// State of its current run, or of its last one.
    pub state: ProcessState,
    /// Runs so far, including a current one.
    pub runs: u64,
    /// Runs that succeeded.
    pub successes: u64,
    /// Runs that count towards `max_failures`.
    pub failures: u64,
    /// Runs that Baton killed.
    pub kills: u64,
    /// Runs whose end is not known.
    pub losses: u64,
    /// Process id of the current run, on the host of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Start of the current run, by the clock of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// How the run before has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end_text: Option<String>,
    /// Samples of its current or last run, spread over its duration, oldest first.
    pub usage: Vec<UsageSample>,
}

/// Resource usage of a process and its descendants, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageSample {
    /// Time of the sample, by the clock of the worker.
    pub at: u64,
    /// CPU time since the start of the run.
    pub cpu_seconds: f64,
    /// Resident memory; shared memory counts once per process.
    pub memory_bytes: u64,
    /// Number of threads.
    pub threads: u32,
    /// Number of processes.
    pub processes: u32,
    /// Bytes read from storage, where the worker may know them.
    pub read_bytes: u64,
    /// Bytes written to storage, where the worker may know them.
    pub written_bytes: u64,
}

impl Process {
    /// Share of one core between the last two samples, in percent.
    #[must_use]
    pub fn cpu_percent(&self) -> Option<f64> {
        let [.., before, last] = &*self.usage else {
            return None;
        };
        let seconds = last.at.checked_sub(before.at).filter(|ms| *ms > 0)? as f64 / 1_000.0;
        let used = last.cpu_seconds - before.cpu_seconds;
        Some((used / seconds * 100.0).max(0.0))
    }
}

impl From<crate::message::UsageSample> for UsageSample {
    fn from(sample: crate::message::UsageSample) -> Self {
        Self {
            at: sample.at.0,
            cpu_seconds: sample.cpu_ms as f64 / 1_000.0,
            memory_bytes: sample.memory,
            threads: sample.threads,
            processes: sample.processes,
            read_bytes: sample.read,
            written_bytes: sample.written,
        }
    }
}

impl From<crate::message::ProcessStatus> for Process {
    fn from(status: crate::message::ProcessStatus) -> Self {
        Self {
            name: status.name,
            state: status.state,
            runs: status.runs,
            successes: status.successes,
            failures: status.failures,
            kills: status.kills,
            losses: status.losses,
            pid: status.pid,
            started_at: status.started.map(|at| at.0),
            last_end_text: status.last_end,
            usage: status.usage.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_core_is_that_between_the_last_two_samples() {
        let sample = |at, cpu_seconds| UsageSample {
            at,
            cpu_seconds,
            memory_bytes: 0,
            threads: 1,
            processes: 1,
            read_bytes: 0,
            written_bytes: 0,
        };
        let of = |usage: Vec<UsageSample>| {
            let process = Process {
                name: String::new(),
                state: ProcessState::Running,
                runs: 1,
                successes: 0,
                failures: 0,
                kills: 0,
                losses: 0,
                pid: None,
                started_at: None,
                last_end_text: None,
                usage,
            };
            process.cpu_percent()
        };
        let samples = [sample(0, 0.0), sample(1_000, 9.0), sample(3_000, 10.0)];
        assert_eq!(of(samples.to_vec()), Some(50.0));
        assert_eq!(of(samples[..1].to_vec()), None);
        assert_eq!(of(vec![samples[1], samples[1]]), None, "no time between");
        assert_eq!(of(vec![sample(0, 2.0), sample(500, 1.0)]), Some(0.0));
    }
}
