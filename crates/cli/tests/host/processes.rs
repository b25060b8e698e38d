//! What a worker tells of the processes of its attempts.

use std::fs;
use std::os::unix::fs::symlink;

use baton_model::message::{AttemptProcesses, ProcessAnswer};
use baton_model::outcome::Outcome;
use baton_model::state::{AttemptState, ProcessState};
use baton_testing::until;

use crate::rig::{Rig, long_timeouts, script, touch};
use crate::worker::task;

fn found(answer: ProcessAnswer) -> AttemptProcesses {
    match answer {
        ProcessAnswer::Processes(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_is_one_process_with_its_pid_and_its_usage() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        script("echo $$ > begun; while [ ! -e go ]; do :; done"),
    );
    let begun = rig.work(1).join("begun");
    let read = || fs::read_to_string(&begun).unwrap_or_default();
    until("it runs", || read().ends_with('\n'));
    let mut last = None;
    until("its usage was sampled twice", || {
        let it = found(rig.attempt_processes(1));
        let sampled = it.processes[0].usage.len() > 1;
        last = Some(it);
        sampled
    });
    let it = last.expect("an answer");
    assert_eq!((it.state, it.omitted), (AttemptState::Active, 0));
    let [process] = &it.processes[..] else {
        panic!("{it:?}");
    };
    assert_eq!(process.name, "test");
    assert_eq!((process.state, process.runs), (ProcessState::Running, 1));
    assert_eq!(process.pid, read().trim().parse().ok());
    assert!(process.started.is_some());
    let [.., before, last] = process.usage[..] else {
        panic!("{process:?}");
    };
    assert!(
        last.at > before.at && last.cpu_ms > before.cpu_ms,
        "{process:?}"
    );
    assert!(last.memory > 0 && last.processes == 1, "{process:?}");
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    until("it is forgotten", || {
        rig.attempt_processes(1) == ProcessAnswer::NotFound
    });
}

#[test]
fn the_processes_of_a_task_are_read_from_the_log_of_its_runner() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        task(&[
            "exit 0",
            "touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 7",
        ]),
    );
    until("it runs", || rig.work(1).join("begun").exists());
    let mut last = None;
    until("the first has ended, and the second was sampled", || {
        let it = found(rig.attempt_processes(1));
        let is =
            it.processes[0].state == ProcessState::Success && !it.processes[1].usage.is_empty();
        last = Some(it);
        is
    });
    let it = last.expect("an answer");
    assert_eq!(it.state, AttemptState::Active);
    let [first, second] = &it.processes[..] else {
        panic!("{it:?}");
    };
    assert_eq!((&*first.name, first.successes), ("p0", 1));
    assert_eq!(
        (first.pid, first.last_end.as_deref()),
        (None, Some("exit 0"))
    );
    assert_eq!((&*second.name, second.state), ("p1", ProcessState::Running));
    assert!(rig.attempts().contains(&second.pid.expect("it runs")));
    touch(&rig.work(1).join("go"));
    rig.outcome(1);
    let it = found(rig.attempt_processes(1));
    assert_eq!(it.state, AttemptState::Failed, "also when it has ended");
    assert_eq!(it.processes[1].failures, 1);
}

#[test]
fn a_log_that_the_user_of_an_attempt_has_replaced_harms_no_one() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        task(&["touch begun; while [ ! -e go ]; do sleep 0.02; done"]),
    );
    rig.submit(2, 1, script("while [ ! -e go ]; do sleep 0.02; done"));
    until("it runs", || rig.work(1).join("begun").exists());
    let log = rig.work(1).join(".baton/checkpoints/i1.1.e1/runner");
    let moved = rig.path("moved");
    fs::rename(&log, &moved).expect("moved");
    symlink("/etc/passwd", &log).expect("linked");
    assert_eq!(rig.attempt_processes(1), ProcessAnswer::NotFound);
    fs::remove_file(&log).expect("removed");
    fs::write(&log, "nonsense").expect("written");
    let ProcessAnswer::Unavailable(why) = rig.attempt_processes(1) else {
        panic!("it was read");
    };
    assert!(why.contains("is not a"), "{why}");
    assert_eq!(
        found(rig.attempt_processes(2)).processes.len(),
        1,
        "others are"
    );
    fs::rename(&moved, &log).expect("moved");
    touch(&rig.work(1).join("go"));
    touch(&rig.work(2).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    assert_eq!(rig.outcome(2), Outcome::Exited(0));
}
