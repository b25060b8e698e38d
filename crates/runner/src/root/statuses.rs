//! The processes of a task as clients see them: their progress, and samples of their usage.

use baton_model::limits::PROCESSES_SHOWN_MAX;
use baton_model::message::{AttemptProcesses, ProcessStatus, UsageSample};
use baton_model::task::{ProcessNo, ProcessProgress};

use super::History;
use crate::samples::{Sample, samples_limit};

impl History {
    /// The processes, with at most so many of these samples each.
    #[must_use]
    pub fn statuses(&self, samples: &[Sample], samples_max: u32) -> AttemptProcesses {
        let spec = &self.header.spec;
        let snapshot = self.plan.snapshot();
        let count = snapshot.processes.len();
        let shown = count.min(PROCESSES_SHOWN_MAX);
        let limit = samples_limit(shown, samples_max);
        let processes = spec.processes.iter().zip(&snapshot.processes).zip(0..);
        AttemptProcesses {
            state: snapshot.state,
            processes: processes
                .take(shown)
                .map(|((spec, progress), number)| {
                    let usage = samples_of(samples, ProcessNo(number), progress);
                    status(&spec.name.0, progress, UsageSample::spread(&usage, limit))
                })
                .collect(),
            omitted: u32::try_from(count - shown).unwrap_or(u32::MAX),
        }
    }
}

/// The samples of the current run of a process, or of the last one if there is no other.
fn samples_of(
    samples: &[Sample],
    process: ProcessNo,
    progress: &ProcessProgress,
) -> Vec<UsageSample> {
    let live = progress.live.map(|live| live.run);
    let run = live.or_else(|| progress.last.map(|last| last.run));
    let samples = samples.iter();
    let of_run = samples.filter(|it| it.run.process == process && Some(it.run.run) == run);
    of_run.map(Sample::usage).collect()
}

fn status(name: &str, progress: &ProcessProgress, usage: Vec<UsageSample>) -> ProcessStatus {
    let live = progress.live.as_ref();
    ProcessStatus {
        name: name.to_owned(),
        state: progress.state,
        runs: progress.runs,
        successes: progress.successes,
        failures: progress.failures,
        kills: progress.kills,
        losses: progress.losses,
        pid: live.and_then(|live| Some(live.identity?.pid)),
        started: live.and_then(|live| Some(live.started?.wall)),
        last_end: progress.last.map(|last| last.end.to_string()),
        usage,
    }
}
