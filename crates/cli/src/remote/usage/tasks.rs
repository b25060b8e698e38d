//! `baton usage --by task`: what tasks have requested and used, and which requests would suit them.

use std::io::Write as _;

use baton_model::api::{Percentiles, TaskUsage};
use baton_model::time::Wall;

use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text;
use crate::time::{size, span, stamp};
use crate::views::rows;

pub(super) fn show(used: &[TaskUsage], suggest: bool, json: bool) -> CommandResult {
    let mut out = Output::new();
    if json {
        out.json(&used)?;
        return out.done();
    }
    if used.is_empty() {
        note("no attempt was measured yet");
    } else if suggest {
        for (at, task) in used.iter().filter(|it| it.task.is_some()).enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            for line in suggestion(task) {
                writeln!(out, "{line}")?;
            }
        }
    } else {
        table(used).print(&mut out)?;
    }
    out.done()
}

/// `default/report/export`: owner, workflow and task.
fn path(task: &TaskUsage) -> String {
    let names = [
        Some(&task.owner),
        task.workflow.as_ref(),
        task.task.as_ref(),
    ];
    let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    clean(&names.join("/"))
}

fn table(used: &[TaskUsage]) -> Table {
    let mut table = Table::headed(&[
        "TASK",
        "ATTEMPTS",
        "FAILED",
        "CPU",
        "USED P50/P95/MAX",
        "MEMORY",
        "PEAK P50/P95/MAX",
        "TIME P50/P95/MAX",
        "CPU %",
        "MEMORY %",
    ]);
    for it in used {
        let requested = &it.requested;
        let is_task = it.task.is_some();
        let asked = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let memory = (requested.memory > 0).then(|| size(requested.memory));
        let percent = |percent: Option<u64>| asked(percent.map(|it| format!("{it}")));
        let time = |seconds: f64| span(rows::millis(seconds));
        let failed = it.failed + it.out_of_memory + it.timed_out;
        table.row([
            Cell::new(path(it), Style::Strong),
            text::grouped(it.attempts).into(),
            text::grouped(failed).into(),
            asked(is_task.then(|| format!("{}", requested.cpus))).into(),
            spread(it.cores, |cores| format!("{cores:.1}")).into(),
            asked(memory).into(),
            spread(it.memory, |bytes| size(bytes as u64)).into(),
            spread(it.elapsed_seconds, time).into(),
            percent(it.cpu_percent).into(),
            percent(it.memory_percent).into(),
        ]);
    }
    table
}

fn spread(of: Option<Percentiles>, text: impl Fn(f64) -> String) -> String {
    match of {
        Some(it) => [it.p50, it.p95, it.max].map(text).join("/"),
        None => "-".to_owned(),
    }
}

/// Lines for the file of a task, behind the reasons as comments.
fn suggestion(task: &TaskUsage) -> Vec<String> {
    let since = stamp(Wall(task.since_at));
    let attempts = text::count(task.attempts, "attempt", "attempts");
    let head = format!("# {}: {attempts} since {since}", path(task));
    let reasons = task.suggestion.reasons.iter();
    let reasons = reasons.map(|reason| format!("# {}", clean(reason)));
    let lines = task.suggestion.lines.iter().map(|line| clean(line));
    [head].into_iter().chain(reasons).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use baton_model::api::{Suggestion, TaskRequests};

    use super::*;

    fn used() -> TaskUsage {
        let percentiles = |p50: f64, p95: f64, max: f64| Some(Percentiles { p50, p95, max });
        TaskUsage {
            owner: "red".to_owned(),
            workflow: Some("genomes".to_owned()),
            task: Some("align".to_owned()),
            attempts: 200,
            measured: 1_234,
            succeeded: 198,
            failed: 1,
            out_of_memory: 1,
            timed_out: 0,
            since_at: 0,
            last_at: 1,
            requested: TaskRequests {
                cpus: 0.5,
                memory: 1 << 30,
                memory_limit: 1 << 30,
                ..TaskRequests::default()
            },
            cores: percentiles(0.25, 0.9, 1.0),
            memory: percentiles(
                200.0 * 1_048_576.0,
                256.0 * 1_048_576.0,
                300.0 * 1_048_576.0,
            ),
            elapsed_seconds: percentiles(1.5, 60.0, 3_600.0),
            cpu_percent: Some(50),
            memory_percent: None,
            suggestion: Suggestion {
                lines: vec!["resources: { cpu: 1 }".to_owned()],
                reasons: vec!["cpu: 0.5 is less than it uses, 1 is enough".to_owned()],
            },
        }
    }

    #[test]
    fn a_row_has_requests_beside_percentiles() {
        let lines = table(&[used()]).lines(&Output::new());
        let cells: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "red/genomes/align",
                "200",
                "2",
                "0.5",
                "0.2/0.9/1.0",
                "1GiB",
                "200MiB/256MiB/300MiB",
                "1.5s/1m00s/1h00m",
                "50",
                "-"
            ]
        );
    }

    #[test]
    fn a_suggestion_is_valid_yaml_with_its_reasons() {
        assert_eq!(
            suggestion(&used()),
            [
                "# red/genomes/align: 200 attempts since 1970-01-01 00:00:00Z",
                "# cpu: 0.5 is less than it uses, 1 is enough",
                "resources: { cpu: 1 }",
            ]
        );
    }
}
