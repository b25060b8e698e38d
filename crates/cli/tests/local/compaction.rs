//! A daemon that has run thousands of times: its log stays short, and its state
//! survives `kill -9`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_model::state::AttemptState;
use baton_runner::log::{Kind, read};
use baton_runner::record::RunnerRecord;
use baton_runner::root::{Entry, Phase, Root, TaskId, TaskView};
use baton_testing::{PATIENCE, until};

const TASK: &str = "\
task: ticker
processes:
  - { name: tick, run: ['true'], daemon: true, ephemeral: true, min_duration: 0s }
  - { name: main, run: 'until test -e stop; do sleep 0.05; done' }
";

fn start(root: &Root, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["local", "run", "--task-id", "ticker", "--no-cgroup"])
        .args(arguments)
        .env("BATON_ROOT", root.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("baton starts")
}

fn records(log: &Path) -> Vec<RunnerRecord> {
    read(log, Kind::Runner).map_or_else(|_| Vec::new(), |log| log.records)
}

fn is_compacted(log: &Path) -> bool {
    matches!(records(log).get(1), Some(RunnerRecord::Snapshot(_)))
}

fn view(root: &Root, id: &TaskId) -> TaskView {
    let phase = root.phase(id).expect("readable").unwrap_or(Phase::Active);
    let entry = Entry {
        id: id.clone(),
        phase,
    };
    TaskView::load(root, entry).expect("readable")
}

fn runs(root: &Root, id: &TaskId) -> u64 {
    view(root, id).history.plan.snapshot().processes[0].runs
}

/// Waits as long as the log grows: how long that takes is up to the host.
fn until_compacted(log: &Path) {
    let (mut length, mut grown) = (0, Instant::now());
    while !is_compacted(log) {
        let now = std::fs::metadata(log).map_or(0, |file| file.len());
        if now != length {
            (length, grown) = (now, Instant::now());
        }
        assert!(grown.elapsed() < PATIENCE, "the log grows no more");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_log_is_replaced_by_what_it_adds_up_to_and_the_task_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = Root::new(dir.path().join("root")).expect("a root");
    let id = TaskId::new("ticker").expect("an id");
    let file = dir.path().join("ticker.yaml");
    std::fs::write(&file, TASK).expect("written");
    let log = root.runner_log(&id);

    let mut runner = start(&root, &[file.to_str().expect("text")]);
    until_compacted(&log);
    let before = runs(&root, &id);
    assert!(before > 1_000, "{before} runs made the log long");
    assert!(records(&log).len() < 9_000, "and it is short again");
    runner.kill().expect("killed");
    runner.wait().expect("reaped");

    let mut runner = start(&root, &[]);
    until("it goes on from the snapshot", || {
        runs(&root, &id) > before + 10
    });
    std::fs::write(root.sandbox(&id).join("stop"), "").expect("written");
    assert!(runner.wait().expect("reaped").success());

    let view = view(&root, &id);
    assert_eq!(view.state(), AttemptState::Success);
    let tick = view.history.plan.snapshot().processes[0];
    assert_eq!(tick.failures, 0);
    // The last one may have been killed at the end, and one may have ended unobserved.
    assert!(tick.successes + tick.kills + tick.losses == tick.runs);
    assert!(
        tick.losses <= 1,
        "{} of {} were lost",
        tick.losses,
        tick.runs
    );
}
