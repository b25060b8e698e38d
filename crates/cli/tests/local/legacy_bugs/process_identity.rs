//! Which process belongs to which task.

use std::process::{Child, Command};

use baton_model::task::{PlanChange, RunEnd};
use baton_runner::log::{self, Kind, Log};
use baton_runner::record::{CoordinatorRecord, RunnerRecord};
use baton_runner::sys::proc;

use crate::support::{Scenario, Signal, ends_of_orphans_are_known, exited, is_alive, send, until};

/// A process that has nothing to do with any task.
struct Stranger(Child);

impl Stranger {
    /// One that began at another time, as far as the kernel tells times apart.
    fn begin(unlike: u64) -> Self {
        loop {
            let stranger = Self::spawn();
            let stat = proc::stat(stranger.pid()).expect("readable");
            if stat.is_some_and(|stat| stat.start_ticks != unlike) {
                return stranger;
            }
        }
    }

    fn spawn() -> Self {
        Self(
            Command::new("sleep")
                .arg("1000")
                .spawn()
                .expect("sleep is there"),
        )
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// It is as it was: alive, and not even stopped.
    fn is_unharmed(&self) -> bool {
        let stat = proc::stat(self.pid()).expect("readable");
        stat.is_some_and(|stat| !stat.is_over() && !matches!(stat.state, b'T' | b't'))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PATIENT: &str = "
task: patient
processes:
  - name: work
    run: 'echo $$ > pid.$BATON_RUN; until test -e go; do sleep 0.02; done'
    min_duration: 0s
";

/// A task of which everything is dead, and whose logs say that its process has the number
/// of another process.
fn reused() -> (Scenario, Stranger) {
    let scenario = Scenario::new(PATIENT);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid.0");
    runner.wait_for_start("work", 0);
    runner.kill();
    scenario.kill_coordinator();
    assert!(send(pid, Signal::KILL));
    until("the end of the process", || !is_alive(pid));
    let identity = scenario.task_log().runs("work")[0]
        .identity
        .expect("started");
    let stranger = Stranger::begin(identity.start_ticks);

    let path = scenario.root.runner_log(&scenario.id);
    let mut records = log::read::<RunnerRecord>(&path, Kind::Runner)
        .expect("whole")
        .records;
    let mut changed = 0;
    for record in &mut records {
        if let RunnerRecord::Event(event) = record
            && let PlanChange::RunStarted {
                identity: Some(identity),
                ..
            } = &mut event.change
        {
            identity.pid = stranger.pid();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    std::fs::remove_file(&path).expect("our own");
    drop(Log::create(&path, Kind::Runner, &records).expect("written"));

    let path = scenario.root.coordinator_log(&scenario.id);
    let mut records = log::read::<CoordinatorRecord>(&path, Kind::Coordinator)
        .expect("whole")
        .records;
    for record in &mut records {
        if let CoordinatorRecord::Started { identity, .. } = record {
            identity.pid = stranger.pid();
        }
    }
    std::fs::remove_file(&path).expect("our own");
    drop(Log::create(&path, Kind::Coordinator, &records).expect("written"));
    scenario.discard_output();
    (scenario, stranger)
}

#[test]
fn legacy_bug_06_a_reused_pid_is_not_signalled_on_resume() {
    let (scenario, stranger) = reused();
    let runner = scenario.resume();
    scenario.wait_for_pid("pid.1");
    assert!(stranger.is_unharmed());
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert!(stranger.is_unharmed(), "nor at the end of the task");
    assert_eq!(scenario.task_log().ends("work"), [RunEnd::Lost, exited(0)]);
}

#[test]
fn legacy_bug_06_a_reused_pid_is_not_killed_with_the_task() {
    for now in [false, true] {
        let (scenario, stranger) = reused();
        let mut args = vec!["kill", "t-1", "--json"];
        args.extend(now.then_some("--now"));
        let killed = scenario.baton_json(&args);
        assert_eq!(killed[0]["state"], "KILLED", "{killed}");
        assert!(stranger.is_unharmed());
        scenario.prove_status();
    }
}

#[test]
fn legacy_bug_10_what_has_escaped_from_a_dead_coordinator_is_killed_at_the_end() {
    let scenario = Scenario::new(
        r#"
task: escape
finalization_wait: 1s
processes:
  - name: main
    run: |
      ( setsid bash -c 'trap "echo x >> asked" TERM; echo $$ > daemon.pid
        while :; do sleep 0.02; done' & )
      until test -s daemon.pid; do sleep 0.02; done
      echo $$ > pid
      until test -e go; do sleep 0.02; done
"#,
    );
    let runner = scenario.start();
    scenario.wait_for_pid("pid");
    let escaped = scenario.wait_for_pid("daemon.pid");
    runner.wait_for_start("main", 0);
    runner.kill();
    let dead = scenario.kill_coordinator();
    assert!(is_alive(escaped), "it has no parent of ours any more");
    let runner = scenario.resume();
    scenario.wait_for_adoption(dead, 0);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert!(!is_alive(escaped));
    // Without an exit code of `main`, it is lost, and its processes are killed at once.
    assert!(
        scenario.has("asked") || !ends_of_orphans_are_known(),
        "it was asked before"
    );
}

#[test]
fn legacy_bug_11_the_death_of_a_coordinator_does_not_break_the_pipe_of_a_rotating_process() {
    let scenario = Scenario::new(
        "
task: pipes
processes:
  - name: p
    log: { mode: rotate, size: 1MiB, backups: 1 }
    run: |
      echo before; touch up
      until test -e go; do sleep 0.02; done
      echo after || exit 9
",
    );
    let runner = scenario.start();
    scenario.wait_for("up");
    runner.wait_for_start("p", 0);
    let dead = scenario.kill_coordinator();
    scenario.wait_for_successor(dead);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_eq!(scenario.task_log().ends("p"), [exited(0)]);
    until("what was written last", || {
        scenario.output("p", 0, "stdout") == "before\nafter"
    });
}

#[test]
fn legacy_bug_11_a_grandchild_that_holds_the_pipe_does_not_keep_its_process_running() {
    let scenario = Scenario::new(
        "
task: pipes
order: [[p, next]]
processes:
  - name: p
    log: { mode: rotate, size: 1MiB, backups: 1 }
    run: |
      setsid bash -c 'echo $$ > child.pid; exec sleep 1000' &
      until test -s child.pid; do sleep 0.02; done
      echo done
  - { name: next, run: 'until test -e go; do sleep 0.02; done' }
",
    );
    let runner = scenario.start();
    runner.wait_for_end("p", 0);
    let child = scenario.wait_for_pid("child.pid");
    assert!(is_alive(child), "and still it is over");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_eq!(scenario.output("p", 0, "stdout"), "done");
    assert!(!is_alive(child));
}
