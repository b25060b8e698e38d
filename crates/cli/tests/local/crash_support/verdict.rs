//! Invariants at the end of a crash test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use baton_model::json;
use baton_model::outcome::Outcome;
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{PlanChange, PlanEvent, ProcessNo, RunEnd, RunNo};
use baton_runner::record::{RunnerRecord, RunnerStart};
use baton_runner::root::{History, Phase};
use serde_json::Value;

use super::processes::{self, Role};
use super::{Rig, until};

/// How the runs of a task ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) exited: u64,
    pub(crate) signaled: u64,
    pub(crate) lost: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.exited += other.exited;
        self.signaled += other.signaled;
        self.lost += other.lost;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            runs,
            exited,
            signaled,
            lost,
        } = self;
        write!(
            f,
            "{runs} runs: {exited} exited, {signaled} killed, {lost} lost"
        )
    }
}

/// The task has ended in SUCCESS, and its records agree.
pub(crate) fn success(rig: &mut Rig) -> Tally {
    let history = replayed(rig);
    nothing_is_left(rig, &history);
    live_equals_replayed(rig, &history);
    let mut tally = Tally::default();
    for (no, _) in (0..).zip(&history.header.spec.processes) {
        tally.add(check_process(rig, &history, ProcessNo(no), true));
    }
    assert_eq!(
        rig.recorded_lines("overlap"),
        [""; 0],
        "two runs of one process at once"
    );
    tally
}

/// As [`success`], for a log of which the end was cut off: a run that it had forgotten
/// may have been run before.
pub(crate) fn success_after_cut(rig: &mut Rig) {
    let history = replayed(rig);
    nothing_is_left(rig, &history);
    for (no, _) in (0..).zip(&history.header.spec.processes) {
        check_process(rig, &history, ProcessNo(no), false);
    }
    assert_eq!(
        rig.recorded_lines("overlap"),
        [""; 0],
        "two runs of one process at once"
    );
}

/// Those that have finished, by the log as it is, each with the runs it has made.
pub(crate) fn finished(rig: &Rig) -> Vec<(String, u64)> {
    let (history, misfit) = History::replay(rig.records()).expect("a log that begins well");
    assert_eq!(misfit, None);
    let now = history.now(history.last().wall);
    let done = history
        .plan
        .processes(now)
        .filter(|process| process.progress.successes > 0);
    done.map(|process| (process.spec.name.0.clone(), process.progress.runs))
        .collect()
}

fn replayed(rig: &Rig) -> History {
    let (history, misfit) = History::replay(rig.records()).expect("a log that begins well");
    assert_eq!(misfit, None, "the log fits together");
    assert_eq!(history.plan.state(), AttemptState::Success);
    let phase = rig.layout().phase(&rig.id).expect("readable");
    assert_eq!(phase, Some(Phase::Finished), "it is filed as ended");
    history
}

fn nothing_is_left(rig: &Rig, history: &History) {
    let mark = &history.header.mark;
    let left = processes::with_role(rig.dir.path(), Role::Process);
    assert!(left.is_empty(), "with the mark {mark} at the end: {left:?}");
    let coordinators = || processes::with_role(rig.dir.path(), Role::Coordinator);
    until("the end of the coordinator", || coordinators().is_empty());
}

/// The output of each runner process is in its part of the log, in the same
/// order from its beginning; the last one has printed all of it. And the final
/// state is the one shown.
fn live_equals_replayed(rig: &mut Rig, history: &History) {
    let mut logged = runner_processes(rig).into_iter();
    for life in &rig.lives {
        let lines = life.lines();
        let printed: Vec<(u64, Value)> = lines.iter().filter_map(change).collect();
        // One that came after the end has nothing to keep, and is in no log.
        if printed.is_empty() {
            continue;
        }
        let (_, events) = logged
            .find(|(logged, _)| logged.pid == life.pid)
            .expect("a life that prints is in the log");
        let events: Vec<(u64, Value)> = events.iter().map(shape).collect();
        assert!(
            printed.len() <= events.len(),
            "no more is printed than kept"
        );
        assert_eq!(printed, events[..printed.len()], "printed and kept");
        if life.code == Some(0) {
            assert_eq!(printed.len(), events.len(), "all that is kept is printed");
        }
    }
    let last = rig.lives.last().expect("it was started").lines();
    let last = last.last().expect("it says something").clone();
    if last["kind"] == "ended" {
        assert_eq!(
            (&last["state"], &last["exit_code"]),
            (&"SUCCESS".into(), &0.into())
        );
    }
    status_equals(rig, history);
}

fn status_equals(rig: &Rig, history: &History) {
    let output = rig.local(&["status", rig.id.as_str(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let shown: Value = json::from_slice(&output.stdout).expect("JSON");
    let shown = &shown[0];
    assert_eq!(shown["state"], "SUCCESS", "{shown}");
    assert_eq!(shown["phase"], "finished");
    let now = history.now(history.last().wall);
    let processes = shown["processes"].as_array().expect("a list");
    for (process, shown) in history.plan.processes(now).zip(processes) {
        let progress = process.progress;
        assert_eq!(shown["name"], process.spec.name.0.as_str());
        assert_eq!(shown["runs"], progress.runs);
        assert_eq!(shown["successes"], progress.successes);
        assert_eq!(shown["failures"], progress.failures);
        assert_eq!(shown["losses"], progress.losses);
        let state = serde_json::to_value(progress.state).expect("JSON");
        assert_eq!(shown["state"], state);
    }
}

/// The runner processes in the log, each with its events.
pub(crate) fn runner_processes(rig: &Rig) -> Vec<(RunnerStart, Vec<PlanEvent>)> {
    let mut lives: Vec<(RunnerStart, Vec<PlanEvent>)> = Vec::new();
    for record in rig.records() {
        match record {
            RunnerRecord::RunnerStarted(life) => lives.push((life, Vec::new())),
            RunnerRecord::Event(event) => lives.last_mut().expect("a life first").1.push(event),
            RunnerRecord::Begun(_) | RunnerRecord::Snapshot(_) => {}
        }
    }
    lives
}

fn change(line: &Value) -> Option<(u64, Value)> {
    let wall = line["wall_ms"].as_u64()?;
    (line["kind"] == "change").then(|| (wall, line["change"].clone()))
}

fn shape(event: &PlanEvent) -> (u64, Value) {
    let change = serde_json::to_value(&event.change).expect("JSON");
    (event.at.wall.0, change)
}

/// It has succeeded once and was not run after that, and the records of its runs are
/// those that they wrote themselves.
fn check_process(rig: &Rig, history: &History, no: ProcessNo, once: bool) -> Tally {
    let progress = history.plan.process(no).expect("there is one");
    let name = &history.header.spec.processes[no.index()].name.0;
    assert_eq!(progress.state, ProcessState::Success, "{name}");
    assert_eq!(progress.successes, 1, "{name} succeeds once");
    let written = written(rig, name, once);
    let mut tally = Tally::default();
    let mut succeeded = None;
    for event in history.events() {
        match event.change {
            PlanChange::RunOrdered { process, run } if process == no => {
                assert_eq!(succeeded, None, "{name} {run} after it had finished");
                tally.runs += 1;
            }
            PlanChange::RunEnded {
                process, run, end, ..
            } if process == no => match end {
                RunEnd::Observed(Outcome::Exited(code)) => {
                    let own = written.get(&run).copied();
                    assert_eq!(own, Some(code), "{name} {run}: what it wrote, what is kept");
                    tally.exited += 1;
                    if code == 0 {
                        succeeded = Some(run);
                    }
                }
                RunEnd::Observed(Outcome::Signaled(9)) => tally.signaled += 1,
                RunEnd::Lost => tally.lost += 1,
                RunEnd::Observed(other) => panic!("{name} {run} ended with {other}"),
            },
            _ => {}
        }
    }
    let last = succeeded.expect("it has succeeded");
    let begun = rig.recorded_lines(&format!("begun.{name}"));
    assert_eq!(
        begun.last(),
        Some(&last.0.to_string()),
        "{name} runs no more"
    );
    let numbers: BTreeSet<&String> = begun.iter().collect();
    let each = numbers.len() == begun.len();
    assert!(each || !once, "{name}: a run was begun twice: {begun:?}");
    tally
}

/// What each run wrote before it exited.
fn written(rig: &Rig, name: &str, once: bool) -> BTreeMap<RunNo, i32> {
    let mut written = BTreeMap::new();
    for line in rig.recorded_lines(&format!("ended.{name}")) {
        let (run, code) = line.split_once(' ').expect("RUN CODE");
        let run = RunNo(run.parse().expect("a number"));
        let before = written.insert(run, code.parse().expect("a number"));
        assert!(before.is_none() || !once, "{name} {run} ran twice");
    }
    written
}
