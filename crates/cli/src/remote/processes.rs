//! The processes of an attempt, as rows of a table.

use baton_model::api::{AttemptProcesses, Process};
use baton_model::state::ProcessState;
use baton_model::time::{Millis, Wall};

use crate::output::{Style, clean};
use crate::table::Cell;
use crate::time::{between, size, span};
use crate::views::rows::millis;

/// Samples that the current usage follows from.
pub(super) const SAMPLES: u32 = 2;

/// Headings of [`row`].
pub(super) const PROCESS: &[&str] = &[
    "PROCESS", "STATE", "RUNS", "FAILED", "PID", "CPU", "TIME", "MEMORY", "ELAPSED", "LAST END",
];

pub(super) const fn is_live(process: &Process) -> bool {
    matches!(process.state, ProcessState::Forked | ProcessState::Running)
}

/// The row of a process. CPU is a share of one core, TIME the processor time so far.
pub(super) fn row(process: &Process, now: Wall) -> Vec<Cell> {
    let dash = || "-".to_owned();
    let live = is_live(process);
    let last = process.usage.last();
    let cpu = process.cpu_percent().filter(|_| live);
    let pid = process.pid.filter(|_| live);
    let started = process.started_at.filter(|_| live);
    vec![
        Cell::new(clean(&process.name), Style::Strong),
        Cell::new(process.state.to_string(), Style::of_process(process.state)),
        process.runs.to_string().into(),
        process.failures.to_string().into(),
        pid.map_or_else(dash, |pid| pid.to_string()).into(),
        cpu.map_or_else(dash, |cpu| format!("{cpu:.0}%")).into(),
        last.map_or_else(dash, |it| span(millis(it.cpu_seconds)))
            .into(),
        last.filter(|_| live)
            .map_or_else(dash, |it| size(it.memory_bytes))
            .into(),
        started
            .map_or_else(dash, |at| span(elapsed(at, now)))
            .into(),
        clean(process.last_end_text.as_deref().unwrap_or("")).into(),
    ]
}

/// Whole seconds: the clocks of the worker and of this host differ by more than the rest.
fn elapsed(started: u64, now: Wall) -> Millis {
    Millis(between(Wall(started), now).0 / 1_000 * 1_000)
}

/// Tells how many processes a worker has not listed.
pub(super) fn omitted(processes: &AttemptProcesses) -> Option<String> {
    let omitted = processes.omitted;
    (omitted > 0).then(|| format!("and {omitted} more"))
}

#[cfg(test)]
pub(super) mod tests {
    use baton_model::api::UsageSample;

    use super::*;
    use crate::output::Output;
    use crate::table::Table;

    pub(in super::super) fn process(name: &str, state: ProcessState) -> Process {
        Process {
            name: name.to_owned(),
            state,
            runs: 1,
            successes: 0,
            failures: 0,
            kills: 0,
            losses: 0,
            pid: None,
            started_at: None,
            last_end_text: None,
            usage: Vec::new(),
        }
    }

    pub(in super::super) fn sample(at: u64, cpu_seconds: f64) -> UsageSample {
        UsageSample {
            at,
            cpu_seconds,
            memory_bytes: 3 << 20,
            threads: 1,
            processes: 1,
            read_bytes: 0,
            written_bytes: 0,
        }
    }

    #[test]
    fn a_live_process_shows_its_usage_and_an_ended_one_its_end() {
        let mut table = Table::headed(PROCESS);
        let live = Process {
            runs: 3,
            failures: 2,
            pid: Some(4_211),
            started_at: Some(10_400),
            last_end_text: Some("exit 7".to_owned()),
            usage: vec![sample(12_000, 0.5), sample(14_000, 1.5)],
            ..process("build", ProcessState::Running)
        };
        let ended = Process {
            last_end_text: Some("exit 0".to_owned()),
            usage: vec![sample(9_000, 2.0)],
            ..process("fetch", ProcessState::Success)
        };
        for it in [&ended, &live, &process("publish\n", ProcessState::Waiting)] {
            table.row(row(it, Wall(15_600)));
        }
        assert_eq!(
            table.lines(&Output::new()),
            [
                "PROCESS    STATE    RUNS  FAILED  PID   CPU  TIME  MEMORY  ELAPSED  LAST END",
                "fetch      SUCCESS  1     0       -     -    2s    -       -        exit 0",
                "build      RUNNING  3     2       4211  50%  1.5s  3MiB    5s       exit 7",
                "publish\\n  WAITING  1     0       -     -    -     -       -",
            ]
        );
    }
}
