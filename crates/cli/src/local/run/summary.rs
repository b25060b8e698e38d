//! The summary printed when a task ends.

use baton_core::plan::Plan;
use baton_model::message::LogStream;
use baton_model::state::AttemptState;
use baton_model::task::{Disposition, ProcessName};
use baton_model::time::Millis;
use baton_observer::messages;
use baton_runner::logs::{Follower, LogSource, ProcessLogs};
use baton_runner::record::Header;

use crate::output::{Output, Style, clean};
use crate::text::count;
use crate::time::span;

/// Lines of output shown of a failed process.
const LAST_LINES: usize = 5;
/// Failed processes shown.
const FAILED_MAX: usize = 3;

/// A line with the outcome, and the failed processes with their last output.
pub(super) fn lines(out: &Output, header: &Header, plan: &Plan) -> Vec<String> {
    let state = plan.state();
    let runs: u64 = plan.snapshot().processes.iter().map(|p| p.runs).sum();
    let failures: u64 = plan.snapshot().processes.iter().map(|p| p.failures).sum();
    let snapshot = plan.snapshot();
    let took = Millis(snapshot.at.wall.0.saturating_sub(snapshot.began.wall.0));
    let mut text = format!(
        "{} {} in {}: {}, {}",
        out.paint(Style::of_attempt(state), state.word()),
        clean(&header.task_id),
        span(took),
        count(plan.spec().processes.len() as u64, "process", "processes"),
        count(runs, "run", "runs"),
    );
    if failures > 0 {
        text.push_str(&format!(", {}", count(failures, "failure", "failures")));
    }
    let mut lines = vec![text];
    if state != AttemptState::Success {
        lines.extend(failed_processes(out, header, plan));
    }
    lines
}

fn failed_processes(out: &Output, header: &Header, plan: &Plan) -> Vec<String> {
    let snapshot = plan.snapshot();
    let processes = plan.spec().processes.iter().zip(&snapshot.processes);
    let failed: Vec<_> = processes
        .filter(|(_, progress)| progress.disposition == Disposition::Failed)
        .collect();
    let mut lines = Vec::new();
    for (spec, progress) in failed.iter().take(FAILED_MAX) {
        let name = clean(&spec.name.0);
        let end = progress
            .last
            .as_ref()
            .map(messages::last)
            .unwrap_or_default();
        lines.push(format!("  {} {name}: {end}", out.paint(Style::Bad, "✗")));
        for line in last_output(header, &spec.name) {
            lines.push(format!("    {}", out.paint(Style::Faint, &clean(&line))));
        }
    }
    if failed.len() > FAILED_MAX {
        lines.push(format!("  and {} more", failed.len() - FAILED_MAX));
    }
    lines.push(format!(
        "  more: baton local status -v {id}; baton local tail {id}",
        id = clean(&header.task_id)
    ));
    lines
}

/// The last lines of standard error or, if it is empty, of standard output.
fn last_output(header: &Header, process: &ProcessName) -> Vec<String> {
    let Some(logs) = ProcessLogs::new(std::path::Path::new(&header.sandbox), &process.0) else {
        return Vec::new();
    };
    for stream in [LogStream::Stderr, LogStream::Stdout] {
        let mut text = Vec::new();
        let mut take = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            true
        };
        let mut follower = Follower::new(LogSource::Process(logs.clone(), stream));
        let skipped = follower.skip(LAST_LINES);
        // An unreadable log is treated as empty.
        let _ = skipped.and_then(|()| follower.read(&mut take));
        if !text.is_empty() {
            let text = String::from_utf8_lossy(&text);
            return text.lines().map(str::to_owned).collect();
        }
    }
    Vec::new()
}
