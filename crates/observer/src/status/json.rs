//! The schema of `--json`, documented in the command's help. Fields may be added, but never
//! renamed or removed.

use std::collections::BTreeMap;

use baton_core::plan::ProcessView;
use baton_model::outcome::Outcome;
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{Disposition, LastRun, RunEnd, RunNo};
use baton_model::time::Wall;
use baton_runner::root::TaskView;
use serde::Serialize;

use super::TaskStatus;
use super::usage::{self, Usage};
use crate::messages;

#[derive(Serialize)]
pub struct Task<'a> {
    id: &'a str,
    root: String,
    phase: &'static str,
    state: Option<AttemptState>,
    driven: Option<bool>,
    orphaned: Option<bool>,
    name: Option<&'a str>,
    user: Option<&'a str>,
    host: Option<&'a str>,
    sandbox: Option<&'a str>,
    ports: Option<&'a BTreeMap<String, u16>>,
    began_ms: Option<u64>,
    ended_ms: Option<u64>,
    duration_ms: Option<u64>,
    torn_bytes: Option<u64>,
    processes: Option<Vec<Process>>,
    error: Option<String>,
}

#[derive(Serialize)]
pub struct Process {
    name: String,
    state: ProcessState,
    fate: Disposition,
    runs: u64,
    successes: u64,
    failures: u64,
    kills: u64,
    losses: u64,
    last_end: Option<String>,
    last: Option<Last>,
    pid: Option<u32>,
    wait: Option<String>,
    usage: Option<Usage>,
}

/// The last run that has ended.
#[derive(Serialize)]
struct Last {
    run: RunNo,
    exit_code: Option<i32>,
    signal: Option<i32>,
    started_ms: Option<u64>,
    ended_ms: u64,
}

impl From<&LastRun> for Last {
    fn from(last: &LastRun) -> Self {
        Self {
            run: last.run,
            exit_code: match last.end {
                RunEnd::Observed(Outcome::Exited(code)) => Some(code),
                _ => None,
            },
            signal: match last.end {
                RunEnd::Observed(Outcome::Signaled(signal)) => Some(signal),
                _ => None,
            },
            started_ms: last.started.map(|at| at.wall.0),
            ended_ms: last.ended.wall.0,
        }
    }
}

pub fn task(status: &TaskStatus, now: Wall) -> Task<'_> {
    let view = status.view.as_ref().ok();
    let header = view.map(|view| &view.history.header);
    let ended = view.and_then(|view| view.history.ended());
    let began = header.map(|header| header.began.wall);
    let until = ended.map_or(now, |at| at.wall);
    Task {
        id: status.entry.id.as_str(),
        root: status.root.path().display().to_string(),
        phase: status.entry.phase.into_str(),
        state: view.map(TaskView::state),
        driven: view.map(|view| view.driven),
        orphaned: view.map(TaskView::is_orphaned),
        name: header.map(|header| &*header.spec.name),
        user: header.map(|header| &*header.user),
        host: header.map(|header| &*header.host),
        sandbox: header.map(|header| &*header.sandbox),
        ports: header.map(|header| &header.spec.ports),
        began_ms: began.map(|began| began.0),
        ended_ms: ended.map(|at| at.wall.0),
        duration_ms: began.map(|began| until.since(began).0),
        torn_bytes: view.map(|view| view.torn_bytes),
        processes: view.map(|view| processes(view, now)),
        error: status.view.as_ref().err().map(ToString::to_string),
    }
}

/// One process of a task.
pub fn process(view: &TaskView, name: &str, now: Wall) -> Option<Process> {
    let mut all = processes(view, now).into_iter();
    all.find(|process| process.name == name)
}

fn processes(view: &TaskView, now: Wall) -> Vec<Process> {
    let (plan, now) = (&view.history.plan, view.history.now(now));
    let usage = usage::of(view);
    let row = |process: ProcessView<'_>| Process {
        name: process.spec.name.0.clone(),
        state: process.state,
        fate: process.progress.disposition,
        runs: process.progress.runs,
        successes: process.progress.successes,
        failures: process.progress.failures,
        kills: process.progress.kills,
        losses: process.progress.losses,
        last_end: process.progress.last.as_ref().map(messages::last),
        last: process.progress.last.as_ref().map(Last::from),
        pid: process
            .progress
            .live
            .and_then(|live| Some(live.identity?.pid)),
        wait: process.wait.map(|wait| messages::wait(plan, &wait, now)),
        usage: usage.get(&process.no).copied(),
    };
    plan.processes(now).map(row).collect()
}
