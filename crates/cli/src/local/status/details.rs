//! Details that `-v`, `-vv` and `-vvv` add below the row of a task.

use std::io::{self, Write};

use baton_model::task::{Moment, PlanChange, ProcessNo, ProcessProgress, RunNo};
use baton_model::time::Wall;
use baton_observer::messages;
use baton_observer::status::{current_activity, usage};
use baton_runner::root::{History, TaskView};

use crate::output::{Output, Style, clean};
use crate::table::{Cell, Table};
use crate::time::{between, span, stamp};

pub(super) fn print(out: &mut Output, view: &TaskView, verbose: u8, now: Wall) -> io::Result<()> {
    processes(view, now).print(out)?;
    if verbose >= 2 {
        facts(view).print(out)?;
    }
    if verbose >= 3 {
        runs(&view.history).print(out)?;
    }
    writeln!(out)
}

fn processes(view: &TaskView, wall: Wall) -> Table {
    let (history, usage) = (&view.history, usage::of(view));
    let now = history.now(wall);
    let mut table = Table::indented(2);
    for process in history.plan.processes(now) {
        let progress = process.progress;
        let last = progress.last.as_ref().map(messages::last);
        table.row([
            clean(&process.spec.name.0).into(),
            Cell::new(process.state.word(), Style::of_process(process.state)),
            runs_of(progress).into(),
            last.map_or_else(String::new, |last| format!("last: {last}"))
                .into(),
            current_activity(history, &process, now).into(),
        ]);
        if let Some(usage) = usage.get(&process.no) {
            let text = format!("  {}", usage.text(progress.live.is_some()));
            table.row([Cell::new(text, Style::Faint)]);
        }
    }
    table
}

fn runs_of(progress: &ProcessProgress) -> String {
    match progress.runs {
        0 => "no run".to_owned(),
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    }
}

fn facts(view: &TaskView) -> Table {
    let header = &view.history.header;
    let ports = header.spec.ports.iter();
    let ports = ports.map(|(name, port)| clean(&format!("{name}:{port}")));
    // Values of variables may be secrets; their names are not.
    let variables = header.env.iter().map(|(name, _)| clean(name));
    let last_start = view.history.runner_starts().last();
    let runner = match (last_start, view.driven) {
        (Some(start), true) => format!("pid {}", start.pid),
        (Some(start), false) => format!("none; the last was pid {}", start.pid),
        (None, driven) => (if driven { "unknown" } else { "none" }).to_owned(),
    };
    let facts = [
        ("began", stamp(header.began.wall)),
        ("sandbox", clean(&header.sandbox)),
        ("user", format!("{} ({})", clean(&header.user), header.uid)),
        ("host", clean(&header.host)),
        ("ports", joined(ports)),
        ("variables", joined(variables)),
        ("runner", runner),
        ("version", clean(&header.version)),
    ];
    let mut table = Table::indented(2);
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        table.row([Cell::new(name, Style::Faint), value.into()]);
    }
    table
}

/// Every run that the log has not compacted.
fn runs(history: &History) -> Table {
    let mut runs: Vec<Run> = Vec::new();
    for event in history.events() {
        match &event.change {
            PlanChange::RunOrdered { process, run } => {
                runs.push(Run::new(*process, *run, event.at));
            }
            PlanChange::RunStarted {
                process,
                run,
                started,
                ..
            } => change(&mut runs, *process, *run, |seen| {
                seen.started = Some(*started)
            }),
            PlanChange::RunEnded {
                process,
                run,
                ended,
                end,
                ..
            } => change(&mut runs, *process, *run, |seen| {
                seen.ended = Some((*ended, end.to_string()));
            }),
            _ => {}
        }
    }
    // Stable: the runs of one process stay in their order.
    runs.sort_by_key(|run| run.process);
    let mut table = Table::indented(2);
    for run in &runs {
        table.row(run.cells(history));
    }
    if history.compacted {
        let text = "earlier runs were compacted; only their totals are known";
        table.row([Cell::new(text, Style::Faint)]);
    }
    table
}

struct Run {
    process: ProcessNo,
    run: RunNo,
    ordered: Moment,
    started: Option<Moment>,
    ended: Option<(Moment, String)>,
}

impl Run {
    const fn new(process: ProcessNo, run: RunNo, ordered: Moment) -> Self {
        Self {
            process,
            run,
            ordered,
            started: None,
            ended: None,
        }
    }

    fn cells(&self, history: &History) -> Vec<Cell> {
        let (end, took) = match (&self.ended, self.started) {
            (Some((at, end)), Some(started)) => (
                end.clone(),
                format!("after {}", span(between(started.wall, at.wall))),
            ),
            (Some((_, end)), None) => (end.clone(), String::new()),
            (None, _) => ("running".to_owned(), String::new()),
        };
        let began = self.started.unwrap_or(self.ordered);
        vec![
            messages::name(&history.plan, self.process).into(),
            format!("run {}", self.run.0).into(),
            stamp(began.wall).into(),
            end.into(),
            took.into(),
        ]
    }
}

/// Searches from the end: a process has one run at a time.
fn change(runs: &mut [Run], process: ProcessNo, run: RunNo, act: impl FnOnce(&mut Run)) {
    let mut newest_first = runs.iter_mut().rev();
    if let Some(found) = newest_first.find(|seen| seen.process == process && seen.run == run) {
        act(found);
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
