//! Kills of tasks on a worker: their own stop signals, budgets and final processes, and what becomes
//! of them when a part of Baton dies meanwhile.

use std::fs;

use baton_model::outcome::{KillCause, KillMode, Outcome};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::state::AttemptState;
use baton_model::task::{CommandLine, ProcessSpec, Resources, Stop, TaskSpec};
use baton_model::time::Millis;
use baton_runner::root::{Entry, Phase, Root, TaskId, TaskView};
use baton_testing::processes::{is_alive, send};
use baton_testing::until;
use rustix::process::Signal;

use crate::rig::{Agent, Rig, command, long_timeouts, short_timeouts, touch};
use crate::takeover::kill_both;

const REQUESTED: Outcome = Outcome::Killed(KillCause::Requested);

/// Longer than the grace that a single command has.
const LINGERS: &str = "sleep 1.5; touch finalized";
/// A final process that waits for the test.
const GATED_FINAL: &str =
    "echo x >> finalizing; while [ ! -e go ]; do sleep 0.02; done; touch finalized";

/// A process that ends on its own stop signal and survives others, and a final one.
fn task(last: &str) -> InstanceSpec {
    let text = "trap 'touch stopped; exit 0' USR1; trap 'touch terminated' TERM; touch begun; \
                while :; do sleep 0.02; done";
    let main = ProcessSpec {
        stop: Stop {
            signal: libc::SIGUSR1,
            grace: Millis::from_secs(20),
        },
        ..process("main", text)
    };
    let last = ProcessSpec {
        is_final: true,
        ..process("last", last)
    };
    of(vec![main, last])
}

fn process(name: &str, text: &str) -> ProcessSpec {
    ProcessSpec::new(name, CommandLine::Shell(text.to_owned()))
}

fn of(processes: Vec<ProcessSpec>) -> InstanceSpec {
    let task = TaskSpec {
        name: "test".to_owned(),
        owner: None,
        processes,
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis::from_secs(30),
        user: None,
        resources: Resources::default(),
        ports: std::collections::BTreeMap::new(),
    };
    InstanceSpec {
        work: Work::Task(Box::new(task)),
        ..command(&[])
    }
}

impl Rig {
    fn has(&self, name: &str) -> bool {
        self.work(1).join(name).exists()
    }

    fn until_has(&self, name: &str) {
        until(name, || self.has(name));
    }

    fn runner(&self) -> u32 {
        let mut found = None;
        until("there is a runner", || {
            found = self.attempts().into_iter().find(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains("\0__attempt\0")
            });
            found.is_some()
        });
        found.expect("just found")
    }

    /// Submits the task, and cancels it once it runs.
    fn cancel_running(&self, spec: InstanceSpec) {
        self.submit(1, 1, spec);
        self.until_has("begun");
        self.cancel(1);
    }

    /// Waits until the root of the attempt shows it as ended, with every process.
    fn until_filed_as_killed(&self) {
        let root = Root::new(self.work(1).join(".baton")).expect("a path");
        let id = TaskId::new("i1.1.e1").expect("an id");
        until("the end is filed", || {
            root.phase(&id).expect("readable") == Some(Phase::Finished)
        });
        let phase = Phase::Finished;
        let view = TaskView::load(&root, Entry { id, phase }).expect("readable");
        assert_eq!(view.state(), AttemptState::Killed);
        assert_eq!(view.history.plan.live().count(), 0);
    }

    fn until_runner_restarts(&self) {
        until("another runner is started", || {
            self.agent_log().contains("starting it again")
        });
    }

    /// Lets the final process end, and the task with it.
    fn let_finalize(&self) {
        touch(&self.work(1).join("go"));
        assert_eq!(self.outcome(1), REQUESTED);
        self.assert_finalized();
    }

    /// Its final process ran once and to its end, after its process was stopped its own way.
    fn assert_finalized(&self) {
        assert!(self.has("stopped") && self.has("finalized"));
        assert!(!self.has("terminated"), "its own signal, and no other");
        // A health check of the worker runs for a moment.
        until("nothing of it is left", || self.attempts().is_empty());
        if let Ok(begun) = fs::read_to_string(self.work(1).join("finalizing")) {
            assert_eq!(begun, "x\n", "once");
        }
    }
}

/// A cancelled task whose final process runs until it is let go.
fn finalizing() -> (Rig, Agent) {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.cancel_running(task(GATED_FINAL));
    rig.until_has("finalizing");
    (rig, worker)
}

#[test]
fn a_cancelled_task_is_stopped_its_own_way_and_runs_its_final_processes() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.cancel_running(task(LINGERS));
    assert_eq!(rig.outcome(1), REQUESTED);
    rig.assert_finalized();
}

#[test]
fn a_task_that_times_out_is_stopped_the_same_way() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let spec = InstanceSpec {
        timeout: Some(Millis::from_secs(2)),
        ..task(LINGERS)
    };
    rig.submit(1, 1, spec);
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::TimedOut));
    rig.assert_finalized();
}

#[test]
fn a_task_that_is_killed_at_once_runs_no_final_process() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, task(GATED_FINAL));
    rig.until_has("begun");
    rig.cancel_by(1, KillMode::Now);
    assert_eq!(rig.outcome(1), REQUESTED);
    assert!(!rig.has("stopped") && !rig.has("finalizing"));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
    rig.until_filed_as_killed();
    // The host view agrees, and no command runs it again beside its worker.
    let root = rig.work(1).join(".baton").display().to_string();
    let (status, said) = rig.local(&["status", "--all", "i1.1.e1"]);
    assert!(status.success() && said.contains("KILLED"), "{said}");
    assert!(!said.contains("baton local run"), "{said}");
    for command in [
        &["run", "--task-id", "i1.1.e1"][..],
        &["kill", "i1.1.e1"],
        &["gc", "--max-age", "0s", "-y"],
    ] {
        let (status, said) = rig.local(&[command, &["--root", &root]].concat());
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains("attempt of a worker"), "{said}");
        assert!(said.contains("`baton retry i1`"), "{said}");
    }
}

#[test]
fn a_task_that_died_with_its_lease_is_filed() {
    let rig = Rig::new(short_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, task(LINGERS));
    rig.until_has("begun");
    kill_both(&rig, worker);
    until("everything is dead", || rig.attempts().is_empty());
    let _next = rig.worker();
    rig.until_filed_as_killed();
}

#[test]
fn a_second_order_kills_a_task_that_is_finalizing_at_once() {
    let (rig, _worker) = finalizing();
    rig.cancel_by(1, KillMode::Now);
    assert_eq!(rig.outcome(1), REQUESTED);
    assert!(rig.has("stopped") && !rig.has("finalized"));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
}

#[test]
fn a_task_goes_on_finalizing_when_its_runner_is_killed() {
    let (rig, _worker) = finalizing();
    send(rig.runner(), Signal::KILL);
    rig.until_runner_restarts();
    rig.let_finalize();
    assert_eq!(rig.ends(1).len(), 1);
}

#[test]
fn a_task_goes_on_finalizing_when_the_agent_is_killed() {
    let (rig, worker) = finalizing();
    worker.kill();
    let _next = rig.worker();
    until("the next agent has taken over", || {
        rig.agent_log().contains("resuming incarnation")
    });
    rig.let_finalize();
}

#[test]
fn a_task_goes_on_finalizing_when_the_coordinator_is_killed_and_then_its_runner() {
    let (rig, _worker) = finalizing();
    let first = rig.coordinator();
    send(first, Signal::KILL);
    until("another one is there", || {
        !is_alive(first) && rig.agent_log().contains("the coordinator is gone")
    });
    // The successor has adopted the runner when it takes further work.
    rig.submit(2, 1, command(&["true"]));
    assert_eq!(rig.outcome(2), Outcome::Exited(0));
    send(rig.runner(), Signal::KILL);
    rig.until_runner_restarts();
    rig.let_finalize();
}

#[test]
fn a_runner_that_does_not_end_its_task_is_killed_with_it_after_its_budget() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let mut spec = task(LINGERS);
    if let Work::Task(task) = &mut spec.work {
        task.finalization_wait = Millis(100);
    }
    rig.submit(1, 1, spec);
    rig.until_has("begun");
    send(rig.runner(), Signal::STOP);
    rig.cancel(1);
    assert_eq!(rig.outcome(1), REQUESTED);
    assert_eq!(rig.attempts(), Vec::<u32>::new());
}

#[test]
fn a_task_that_is_cancelled_before_its_runner_listens_still_runs_its_final_processes() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, task(LINGERS));
    until("it has a directory", || rig.work(1).exists());
    rig.cancel(1);
    assert_eq!(rig.outcome(1), REQUESTED);
    assert!(rig.has("finalized"));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
}
