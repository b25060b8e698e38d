//! A write or a sync of a log fails, or the process dies after it.
//!
//! Each fault is tried at the first call, at the second, and so on, until the task ends
//! without having met it.

use baton_runner::log::{self, Kind};
use baton_runner::record::CoordinatorRecord;

use crate::crash_support::processes::{self, LiveProcess, Role};
use crate::crash_support::{Rig, strace, tasks, until, verdict};

/// A task of three processes makes fewer calls than this.
const CALLS_MAX: u32 = 40;

#[derive(Clone, Copy, PartialEq)]
enum Log {
    Runner,
    Coordinator,
}

/// Tries this fault everywhere; what the runner exits with is one of `codes`, or it dies.
fn inject_everywhere(log: Log, fault: &str, codes: &[Option<i32>]) {
    for when in 1..=CALLS_MAX {
        let mut rig = Rig::new(&tasks::chain());
        let path = match log {
            Log::Runner => rig.runner_log(),
            Log::Coordinator => rig.coordinator_log(),
        };
        let command = strace::command(&rig, &path, &format!("{fault}:when={when}"));
        let hit = hits_fault(&mut rig, command, log);
        if !hit {
            verdict::success(&mut rig);
            println!("{fault}: {} places", when - 1);
            assert!(when > 3, "the fault was met nowhere");
            return;
        }
        let (code, told) = (rig.last_runner().code, rig.stderr_of_last_runner());
        assert!(codes.contains(&code), "{fault} at {when}: {code:?} {told}");
        let claims = rig
            .last_runner()
            .lines()
            .iter()
            .any(|line| line["kind"] == "ended");
        assert_eq!(claims, code == Some(0), "{fault} at {when}: {told}");
        if code != Some(0) {
            rig.finish();
        }
        strace::detach(&rig);
        verdict::success(&mut rig);
    }
    panic!("{fault}: more than {CALLS_MAX} calls");
}

/// Runs the command to its end; true if it has met the fault.
fn hits_fault(rig: &mut Rig, command: std::process::Command, log: Log) -> bool {
    rig.start_with(command);
    if log == Log::Runner {
        return rig.wait() != Some(0);
    }
    // The fault is in every coordinator alike. The next one is to do without it.
    let mut hit = false;
    until("the end of a runner", || {
        let over = rig.last_runner().is_over();
        let mut lines = rig.last_runner().lines().into_iter();
        if !hit && lines.any(|line| line["kind"] == "note") {
            hit = true;
            strace::detach(rig);
        }
        over
    });
    hit || rig.last_runner().code != Some(0)
}

#[test]
fn a_runner_that_dies_before_any_write_is_replaced() {
    inject_everywhere(Log::Runner, "write:signal=KILL", &[None]);
}

#[test]
fn a_runner_that_dies_after_any_write_and_before_its_sync_is_replaced() {
    inject_everywhere(Log::Runner, "fdatasync:signal=KILL", &[None]);
}

#[test]
fn a_runner_whose_sync_fails_stops_and_claims_nothing() {
    inject_everywhere(Log::Runner, "fdatasync:error=EIO", &[Some(5)]);
}

#[test]
fn a_runner_whose_disk_is_full_at_any_write_stops_and_claims_nothing() {
    inject_everywhere(Log::Runner, "write:error=ENOSPC", &[Some(5)]);
}

#[test]
fn a_coordinator_that_dies_before_any_write_is_replaced() {
    inject_everywhere(Log::Coordinator, "write:signal=KILL", &[Some(0), Some(5)]);
}

#[test]
fn a_coordinator_that_cannot_write_its_log_loses_nothing_while_it_lives() {
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("one", 0, &tasks::wait_for("go"), &[]),
        tasks::process("two", 1, ":", &["after: [one]"]),
    ]));
    // The first write makes the log, and there is no coordinator without one.
    let fault = "write:error=ENOSPC:when=2+";
    let command = strace::command(&rig, &rig.coordinator_log(), fault);
    rig.start_with(command);
    rig.wait_for("waits.go");
    rig.kill_runner();
    rig.allow("go");
    until("the end of the first process", || {
        rig.recorded_lines("ended.one").len() == 1
    });
    rig.finish();
    strace::detach(&rig);
    let tally = verdict::success(&mut rig);
    assert_eq!(tally.lost, 0, "nothing is lost");
    let errors = rig.layout().checkpoint(&rig.id).join("coordinator.err");
    let said = std::fs::read_to_string(errors).expect("readable");
    assert!(said.contains("continuing without its log"), "{said}");
}

/// A coordinator has launched a run and has died, and so has the runner, before either
/// could say so. The next runner may die as well, at any write.
#[test]
fn a_run_that_was_ordered_and_never_heard_of_is_not_launched_by_a_later_life() {
    for when in 1..=CALLS_MAX {
        let work = tasks::wait_for("go");
        let mut rig = Rig::new(&tasks::task(&[tasks::process("one", 0, &work, &[])]));
        rig.start();
        rig.wait_for("waits.go");
        rig.kill_all();
        let path = rig.runner_log();
        let records = rig.records();
        log::Log::create(&path, Kind::Runner, &records[..3]).expect("written");
        let path = rig.coordinator_log();
        let seen = log::read::<CoordinatorRecord>(&path, Kind::Coordinator);
        let seen = seen.expect("readable").records;
        log::Log::create(&path, Kind::Coordinator, &seen[..1]).expect("written");
        rig.lives.clear();
        rig.allow("go");

        let fault = format!("write:signal=KILL:when={when}");
        let command = strace::command(&rig, &rig.runner_log(), &fault);
        rig.start_with(command);
        let hit = rig.wait().is_none();
        if hit {
            rig.finish();
        }
        strace::detach(&rig);
        let tally = verdict::success(&mut rig);
        assert_eq!((tally.runs, tally.lost), (2, 1), "fault at {when}");
        if !hit {
            assert!(when > 3, "the fault was met nowhere");
            return;
        }
    }
}

#[test]
fn a_run_that_is_half_born_when_its_coordinator_dies_does_not_run_beside_the_next() {
    let mut rig = Rig::new(&tasks::task(&[tasks::process("one", 0, "sleep 1", &[])]));
    // Every start of a shell takes this long, so that even a busy machine sees it. Until then it is
    // a copy of its coordinator.
    let shell = std::path::Path::new("/bin/bash");
    let command = strace::command(&rig, shell, "execve:delay_enter=5s");
    rig.start_with(command);
    let dir = rig.dir.path().to_owned();
    let coordinators = || processes::with_role(&dir, Role::Coordinator);
    until("a child that is half born", || coordinators().len() == 2);
    let all = coordinators();
    let parent = all
        .iter()
        .find(|who| all.iter().any(|other| is_child(other, who)));
    assert!(parent.expect("one is the other's parent").kill());
    rig.must_succeed();
    strace::detach(&rig);
    let tally = verdict::success(&mut rig);
    // The process noted its pid, and the runner waits until it has called exec.
    assert_eq!((tally.runs, tally.lost), (1, 0), "the first is adopted");
}

fn is_child(child: &LiveProcess, parent: &LiveProcess) -> bool {
    processes::parent(child.pid) == Some(parent.pid)
}
