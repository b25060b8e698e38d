//! The runner or the coordinator is stopped for a while.

use std::path::Path;

use rustix::process::Signal;

use crate::crash_support::processes::{self, LiveProcess, Role};
use crate::crash_support::{Rig, tasks, until, verdict};

fn one(dir: &Path, role: Role) -> LiveProcess {
    let mut all = processes::with_role(dir, role);
    assert_eq!(all.len(), 1, "one {role:?}: {all:?}");
    all.remove(0)
}

fn stop(who: &LiveProcess) {
    assert!(who.signal(Signal::STOP));
    until("it stands still", || processes::state(who.pid) == Some('T'));
}

fn waiting() -> Rig {
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("one", 0, &tasks::wait_for("go"), &[]),
        tasks::process("two", 1, ":", &["after: [one]"]),
    ]));
    rig.start();
    rig.wait_for("waits.go");
    rig
}

/// Another runner is refused, and changes nothing.
fn no_second(rig: &Rig) {
    let output = rig.local(&["run", "--task-id", rig.id.as_str()]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("drives crash already"), "{told}");
}

#[test]
fn a_runner_that_stands_still_keeps_its_task() {
    let mut rig = waiting();
    let runner = one(rig.dir.path(), Role::Runner);
    stop(&runner);
    no_second(&rig);
    rig.allow("go");
    until("the end of the first process", || {
        rig.recorded_lines("ended.one").len() == 1
    });
    no_second(&rig);
    assert_eq!(
        rig.recorded_lines("begun.two"),
        [""; 0],
        "no decision meanwhile"
    );
    assert!(runner.signal(Signal::CONT));
    rig.must_succeed();
    let tally = verdict::success(&mut rig);
    assert_eq!(tally.lost, 0, "nothing is lost");
}

#[test]
fn a_coordinator_that_stands_still_is_waited_for() {
    let mut rig = waiting();
    let coordinator = one(rig.dir.path(), Role::Coordinator);
    stop(&coordinator);
    rig.allow("go");
    until("the end of the first process", || {
        rig.recorded_lines("ended.one").len() == 1
    });
    rig.kill_runner();
    rig.start();
    let layout = rig.layout();
    until("the next runner", || {
        layout.is_driven(&rig.id).expect("readable")
    });
    no_second(&rig);
    assert!(coordinator.signal(Signal::CONT));
    rig.must_succeed();
    let tally = verdict::success(&mut rig);
    assert_eq!(tally.lost, 0, "nothing is lost");
    assert_eq!(rig.recorded_lines("begun.one"), ["0"]);
}
