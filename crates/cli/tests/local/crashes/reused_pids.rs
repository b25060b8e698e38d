//! Another process has the pid of a run, after a boot or without one.

use std::process::{Child, Command};

use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, NextStep, PlanChange};
use baton_model::time::{Millis, Mono};
use baton_runner::log::{self, Kind, Log};
use baton_runner::record::{CoordinatorRecord, RunnerRecord};
use baton_runner::sys::{clock, identity};

use crate::crash_support::{Rig, orphans, processes, tasks, until, verdict};

/// A process that is unrelated to the task.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        Self(orphans::start(Command::new("sleep").arg("1000")))
    }

    fn assert_unharmed(&mut self) {
        assert_eq!(self.0.try_wait().expect("our child"), None, "it lives");
        assert_eq!(
            processes::state(self.0.id()),
            Some('S'),
            "it was not stopped"
        );
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().expect("our child");
        self.0.wait().expect("our child");
        orphans::disown(self.0.id());
    }
}

/// A task of which one process runs and another waits after a failure; everything killed.
fn interrupted() -> Rig {
    let mut rig = Rig::new(&tasks::task(&[
        tasks::process("waits", 1, ":", &["min_duration: 2s"]),
        tasks::process("runs", 0, &tasks::wait_for("go"), &[]),
        tasks::process("last", 0, ":", &["after: [waits, runs]"]),
    ]));
    rig.start();
    rig.wait_for("waits.go");
    until("a failure that is kept", || {
        let ended = |record: &RunnerRecord| match record {
            RunnerRecord::Event(event) => matches!(event.change, PlanChange::RunEnded { .. }),
            _ => false,
        };
        let started = |record: &RunnerRecord| match record {
            RunnerRecord::Event(event) => match event.change {
                PlanChange::RunStarted { process, .. } => process.0 == 1,
                _ => false,
            },
            _ => false,
        };
        let records = rig.records();
        records.iter().any(ended) && records.iter().any(started)
    });
    rig.kill_all();
    rig
}

/// Writes both logs anew, with every identity and every time changed.
fn rewrite(
    rig: &Rig,
    who: impl Fn(Identity) -> Identity,
    boot: impl Fn(BootId) -> BootId,
    when: impl Fn(Mono) -> Mono,
) {
    let moment = |at: Moment| Moment {
        mono: when(at.mono),
        ..at
    };
    let mut records = rig.records();
    for record in &mut records {
        match record {
            RunnerRecord::Begun(header) => header.began = moment(header.began),
            RunnerRecord::RunnerStarted(life) => {
                life.boot = boot(life.boot);
                life.began = moment(life.began);
            }
            RunnerRecord::Event(event) => {
                event.at = moment(event.at);
                match &mut event.change {
                    PlanChange::RunStarted {
                        started, identity, ..
                    } => {
                        *started = moment(*started);
                        *identity = identity.map(&who);
                    }
                    PlanChange::RunEnded { ended, next, .. } => {
                        *ended = moment(*ended);
                        if let NextStep::Restart { not_before, .. } = next {
                            *not_before = when(*not_before);
                        }
                    }
                    _ => {}
                }
            }
            RunnerRecord::Snapshot(_) => panic!("a short log has none"),
        }
    }
    Log::create(&rig.runner_log(), Kind::Runner, &records).expect("written");

    let path = rig.coordinator_log();
    let read = log::read::<CoordinatorRecord>(&path, Kind::Coordinator);
    let mut records = read.expect("readable").records;
    for record in &mut records {
        match record {
            CoordinatorRecord::Begun { boot: old, .. } => *old = boot(*old),
            CoordinatorRecord::Started { at, identity, .. } => {
                *at = moment(*at);
                *identity = who(*identity);
            }
            CoordinatorRecord::Ended(ended) => ended.at = moment(ended.at),
            CoordinatorRecord::Accepted { .. }
            | CoordinatorRecord::Assigned { .. }
            | CoordinatorRecord::Exited(_)
            | CoordinatorRecord::Forgotten { .. }
            | CoordinatorRecord::Guard(_) => {}
        }
    }
    Log::create(&path, Kind::Coordinator, &records).expect("written");
}

/// Resumes the task, of which one run is lost; no other process is harmed.
fn must_lose_and_succeed(rig: &mut Rig, stranger: &mut Stranger) {
    rig.allow("go");
    let begun = clock::now().mono;
    rig.finish();
    let took = clock::now().mono.since(begun);
    assert!(
        took < Millis::from_secs(45),
        "no wait of another clock: {took:?}"
    );
    stranger.assert_unharmed();
    rig.lives.remove(0);
    verdict::success(rig);
    assert_eq!(
        rig.recorded_lines("begun.runs"),
        ["0", "1"],
        "it was run again"
    );
    assert_eq!(rig.recorded_lines("begun.waits"), ["0", "1"]);
}

#[test]
fn after_a_boot_no_process_is_taken_for_an_earlier_run() {
    let mut rig = interrupted();
    let mut stranger = Stranger::start();
    let pid = stranger.0.id();
    let start_ticks = processes::start_ticks(pid).expect("it lives");
    // As if the machine had been up for ten years before: an old time taken for one of
    // this boot would never come.
    let years = Millis::from_secs(10 * 365 * 86_400);
    rewrite(
        &rig,
        |old| Identity {
            boot: BootId(!old.boot.0),
            pid,
            start_ticks,
        },
        |boot| BootId(!boot.0),
        |mono| mono + years,
    );
    must_lose_and_succeed(&mut rig, &mut stranger);
    let changed = rig.records().into_iter().any(|record| match record {
        RunnerRecord::Event(event) => {
            matches!(event.change, PlanChange::Resumed { boot_changed: true })
        }
        _ => false,
    });
    assert!(changed, "the boot was noticed");
}

#[test]
fn a_reused_pid_is_not_a_run() {
    let mut rig = interrupted();
    let mut stranger = Stranger::start();
    let pid = stranger.0.id();
    let start_ticks = processes::start_ticks(pid).expect("it lives");
    let boot = identity::boot_id().expect("readable");
    rewrite(
        &rig,
        |old| Identity {
            boot: old.boot,
            pid,
            start_ticks: start_ticks - 1,
        },
        |old| {
            assert_eq!(old, boot);
            old
        },
        |mono| mono,
    );
    must_lose_and_succeed(&mut rig, &mut stranger);
}
