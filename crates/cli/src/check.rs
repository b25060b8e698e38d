//! `baton check`: validation of files, without a scheduler.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use baton_core::workflow::items;
use baton_files::{AnyFile, Binding, Errors, FleetsFile, Param, ReadFile, TaskFile, WorkflowFile};
use baton_model::api::{ItemCounts, Run, RunEdge, RunTask};
use baton_model::fleet::FleetName;
use baton_model::state::UniversalState;
use baton_model::workflow::{Edges, Plan, PlanTask};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, Style, USAGE};
use crate::painter::size;
use crate::time::now;
use crate::views::graph;

/// Width of output to a file or a pipe.
const PLAIN_WIDTH: usize = 120;

/// Check files of tasks, workflows and fleets, without a scheduler
///
/// Reports every error with its line and a hint; of a good file, a line that begins with `ok`, and
/// for a workflow its graph. Parameters without a value are listed, and do not count as errors. With
/// --json, an array with one object for each file: file, ok, kind, name, missing, tasks and errors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton check report.yaml etl.yaml
  baton check etl.yaml -p day=2026-11-15
  baton check --json *.yaml | jq -r '.[] | select(.ok | not).file'

Exit status: 0 all files are good; 2 one has errors.")]
pub(crate) struct Check {
    /// Files of tasks, workflows or fleets (.yaml, .toml or .json)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of one good file.
#[derive(Serialize)]
struct Report {
    kind: &'static str,
    name: String,
    /// Parameters without a value.
    missing: Vec<String>,
    /// Processes of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<usize>,
    /// Tasks of a workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<RunTask>,
}

pub(crate) fn run(command: &Check) -> CommandResult {
    check_all(&command.files, &command.params, command.json)
}

/// Checks files, and prints what is in them.
pub(crate) fn check_all(
    files: &[PathBuf],
    given: &[(String, String)],
    as_json: bool,
) -> CommandResult {
    let given = params(given)?;
    let mut out = Output::new();
    let (mut reports, mut bad) = (Vec::new(), false);
    for path in files {
        let shown = path.display().to_string();
        match check(path, &given) {
            Ok(report) if as_json => {
                let mut value = json!(report);
                value["file"] = shown.into();
                value["ok"] = true.into();
                reports.push(value);
            }
            Ok(report) => print(&mut out, &shown, &report)?,
            Err(errors) => {
                bad = true;
                if as_json {
                    let errors = json!(errors.problems);
                    reports.push(json!({ "file": shown, "ok": false, "errors": errors }));
                } else {
                    out.flush()?;
                    // A closed standard error is ignored: the exit code tells it.
                    let _ = writeln!(io::stderr(), "{errors}");
                }
            }
        }
    }
    if as_json {
        out.json(&reports)?;
    }
    out.done()?;
    if bad {
        Err(Failure::Silent(USAGE))
    } else {
        Ok(())
    }
}

fn check(path: &Path, given: &BTreeMap<String, String>) -> Result<Report, Errors> {
    match baton_files::load_file(path)? {
        ReadFile::Work(AnyFile::Task(file)) => check_task(&file, given),
        ReadFile::Work(AnyFile::Workflow(file)) => check_workflow(&file, given),
        ReadFile::Fleets(file) => Ok(fleets(&file)),
    }
}

fn fleets(file: &FleetsFile) -> Report {
    let names: Vec<&str> = file.fleets.keys().map(FleetName::as_str).collect();
    Report {
        kind: "fleets",
        name: names.join(", "),
        missing: Vec::new(),
        processes: None,
        tasks: Vec::new(),
    }
}

fn check_task(file: &TaskFile, given: &BTreeMap<String, String>) -> Result<Report, Errors> {
    let (params, missing) = fill_in(&file.params, given);
    let ports = file.ports().into_iter().map(|name| (name.to_owned(), 1));
    let binding = Binding {
        params,
        ports: ports.collect(),
        task_id: Some("TASK-ID".to_owned()),
        nominal_time: Some(now()),
        // A task of an array of items has one for each.
        item: Some(json!("ITEM")),
    };
    // The keys of items are known only with them.
    let task = match file.bind(&binding) {
        Err(errors) if !is_about_items(&errors) => return Err(errors),
        bound => bound.ok(),
    };
    Ok(Report {
        kind: "task",
        name: file.name().to_owned(),
        missing,
        processes: task.map(|task| task.processes.len()),
        tasks: Vec::new(),
    })
}

fn is_about_items(errors: &Errors) -> bool {
    let mut problems = errors.problems.iter();
    problems.all(|problem| problem.message.starts_with("{{ item."))
}

fn check_workflow(file: &WorkflowFile, given: &BTreeMap<String, String>) -> Result<Report, Errors> {
    let (params, missing) = fill_in(&file.params, given);
    let plan = file.plan(&params, now())?;
    Ok(Report {
        kind: "workflow",
        name: file.name().to_owned(),
        missing,
        processes: None,
        tasks: tasks(&plan),
    })
}

/// The values of parameters, with examples for those that have none; and their names.
pub(crate) fn fill_in(
    declared: &BTreeMap<String, Param>,
    given: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut params, mut missing) = (given.clone(), Vec::new());
    for (name, param) in declared {
        if param.default.is_none() && !given.contains_key(name) {
            let example = param.kind.example().unwrap_or_else(|| "x".to_owned());
            params.insert(name.clone(), example);
            missing.push(name.clone());
        }
    }
    (params, missing)
}

/// The tasks of a plan, as a run shows them before it starts.
fn tasks(plan: &Plan) -> Vec<RunTask> {
    let task = |(index, task): (u32, &PlanTask)| {
        let count = items::count(&task.items);
        let after = task.after.iter().map(|upstream| RunEdge {
            task: plan.tasks[upstream.task as usize].name.clone(),
            condition: upstream.condition,
            by_item: !matches!(upstream.edges, Edges::All),
        });
        RunTask {
            name: task.name.clone(),
            index,
            items: ItemCounts {
                waiting: count.unwrap_or_default(),
                ..ItemCounts::default()
            },
            unmapped: count.is_none(),
            after: after.collect(),
            when: task.when.clone(),
            reason: None,
            mean_seconds: None,
            progress: None,
        }
    };
    (0..).zip(&plan.tasks).map(task).collect()
}

fn print(out: &mut Output, shown: &str, report: &Report) -> CommandResult {
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    };
    let mut text = format!("{}: {} {}", shown, report.kind, report.name);
    if let Some(processes) = report.processes {
        text.push_str(&format!(
            ", {}",
            count(processes, "process").replace("processs", "processes")
        ));
    }
    if report.kind == "workflow" {
        let items: u64 = report.tasks.iter().map(|task| task.items.waiting).sum();
        let more = report.tasks.iter().any(|task| task.unmapped);
        let items = if more {
            format!("{items} or more items")
        } else {
            count(usize::try_from(items).unwrap_or(usize::MAX), "item")
        };
        text.push_str(&format!(", {}, {items}", count(report.tasks.len(), "task")));
    }
    if !report.missing.is_empty() {
        let names: Vec<String> = report
            .missing
            .iter()
            .map(|name| format!("-p {name}=VALUE"))
            .collect();
        text.push_str(&format!("; needs {}", names.join(" ")));
    }
    let ok = out.paint(Style::Good, "ok");
    writeln!(out, "{ok} {text}")?;
    if !report.tasks.is_empty() {
        let width = if out.terminal {
            size(io::stdout()).0
        } else {
            PLAIN_WIDTH
        };
        for line in graph::render(&unstarted(&report.name), &report.tasks, width, out.colours) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// A run that has not begun, for the graph.
fn unstarted(name: &str) -> Run {
    Run {
        id: String::new(),
        name: name.to_owned(),
        owner: String::new(),
        state: UniversalState::Queued,
        generation: 1,
        halting: None,
        timed_out: false,
        replaced: false,
        submitted_at: 0,
        submitted_by: None,
        begun_at: 0,
        ended_at: None,
        revision: None,
        nominal_at: None,
        backfill: None,
        after: None,
        params: BTreeMap::new(),
        tasks: None,
        items: None,
        problems: Vec::new(),
        links: BTreeMap::new(),
    }
}
