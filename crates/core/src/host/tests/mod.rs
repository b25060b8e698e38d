//! The host alone, on a kernel of the test.

mod devices;
mod rig;

use baton_model::coordinator::{
    Attempt, CoordinatorRecord, Evidence, KnownRun, Launch, Reply, Request,
};
use baton_model::outcome::{ExitStatus, KillCause, Outcome};
use baton_model::task::Moment;
use baton_model::time::{Millis, Wall};

use super::io::{Input, StartFault, Urgency};
use super::kernel::{SIGKILL, SIGTERM};
use super::orphans::LEFTOVER_GRACE;
use rig::{Process, Rig, capacity, run};

const FAR: u64 = 1_000_000;

/// The outcomes of the runs that were reported as ended.
fn ends(replies: &[Reply]) -> Vec<(u32, Outcome)> {
    let ended = replies.iter().filter_map(|reply| match reply {
        Reply::Ended(end) => Some((end.run.process.0, end.outcome)),
        _ => None,
    });
    ended.collect()
}

fn is_started(reply: &Reply) -> bool {
    matches!(reply, Reply::Started { .. })
}

#[test]
fn a_launch_waits_for_the_record_of_its_lease() {
    let mut rig = Rig::new(false, FAR);
    let launch = Launch {
        tag: "lease".to_owned(),
        ..Launch::default()
    };
    let (key, launch) = (run(1, 0), Box::new(launch));
    let request = Input::Request(Request::Launch { run: key, launch });
    assert_eq!(rig.decide(request), Urgency::Now);
    let step = std::mem::take(&mut rig.step);
    let batch = rig.outbox.accept(step).expect("a record");
    let tag = "lease".to_owned();
    assert_eq!(
        batch.facts(),
        [CoordinatorRecord::Accepted { run: key, tag }]
    );
    assert_eq!(
        rig.outbox.drain().count(),
        0,
        "no process before the record"
    );
    rig.outbox.release(batch.durable());
    rig.commit();
    assert!(rig.replies.iter().all(is_started) && rig.replies.len() == 1);
}

#[test]
fn no_reply_leaves_before_its_record() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    rig.take_replies();
    rig.exit(pid, 0);
    let status = ExitStatus::Code(0);
    let urgency = rig.decide(Input::Exited { pid, status });
    assert_eq!(urgency, Urgency::Now, "the zombie waits for its record");
    assert!(rig.kernel.processes.contains_key(&pid));
    rig.commit();
    assert!(!rig.kernel.processes.contains_key(&pid));
    assert!(matches!(rig.log.last(), Some(CoordinatorRecord::Exited(_))));
    assert_eq!(rig.decide(Input::ExitsTaken), Urgency::WithReplies);
    assert_eq!(rig.replies, [], "the end is decided, but not on record");
    rig.commit();
    assert!(matches!(rig.log.last(), Some(CoordinatorRecord::Ended(_))));
    assert_eq!(ends(&rig.replies), [(1, Outcome::Exited(0))]);
}

/// The log as it is rewritten now.
fn evidence(rig: &Rig) -> Evidence {
    let at = Moment {
        mono: rig.kernel.now,
        wall: Wall(0),
    };
    rig.host.summary(at).collect()
}

#[test]
fn a_log_that_is_rewritten_during_a_launch_keeps_its_tag() {
    let mut rig = Rig::new(false, FAR);
    let launch = Launch {
        tag: "lease".to_owned(),
        ..Launch::default()
    };
    let (key, launch) = (run(1, 0), Box::new(launch));
    let _ = rig.decide(Input::Request(Request::Launch { run: key, launch }));
    assert_eq!(
        evidence(&rig).runs,
        [KnownRun::waiting(key, "lease".to_owned())]
    );
    rig.commit();
    let runs = evidence(&rig).runs;
    assert!(runs.len() == 1 && runs[0].tag == "lease" && runs[0].started.is_some());
}

#[test]
fn a_log_that_is_rewritten_before_a_child_is_reaped_keeps_its_status() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    rig.exit(pid, 7);
    let status = ExitStatus::Code(7);
    let _ = rig.decide(Input::Exited { pid, status });
    let outcome = |rig: &Rig| evidence(rig).runs[0].ended.as_ref().map(|it| it.outcome);
    assert_eq!(outcome(&rig), Some(Outcome::Exited(7)), "a zombie");
    rig.commit();
    assert_eq!(outcome(&rig), Some(Outcome::Exited(7)), "reaped");
    rig.input(Input::ExitsTaken);
    assert_eq!(outcome(&rig), Some(Outcome::Exited(7)), "over");
}

#[test]
fn a_log_that_is_rewritten_before_a_start_is_taken_back_omits_it() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    let status = ExitStatus::Unexecuted(SIGKILL);
    let process = rig.kernel.processes.get_mut(&pid).expect("it is there");
    process.zombie = Some(status);
    let _ = rig.decide(Input::Exited { pid, status });
    assert_eq!(evidence(&rig).runs, []);
}

#[test]
fn an_attempt_whose_status_cannot_be_known_is_on_record_until_it_is_forgotten() {
    let mut rig = Rig::new(true, FAR);
    let (key, identity) = (run(1, 0), rig.start_process(Some(run(1, 0)), None));
    rig.request(Request::Adopt {
        run: key,
        at: Moment {
            mono: rig.kernel.now,
            wall: Wall(0),
        },
        identity,
        attempt: Some(Box::default()),
    });
    rig.kernel.has_no_statuses = true;
    rig.exit(identity.pid, 0);
    rig.turn(10);
    let unknown = [Reply::Unknown { run: key }];
    assert_eq!(rig.take_replies(), unknown);
    rig.input(Input::Connected);
    let replies = rig.take_replies();
    let known = matches!(&replies[0], Reply::Hello { runs, .. } if runs.len() == 1);
    assert!(known && replies[1..] == unknown, "{replies:?}");
    rig.request(Request::Forget { run: key });
    assert_eq!(rig.host.known_runs(), 0);
    let forgotten = CoordinatorRecord::Forgotten { run: key };
    assert_eq!(rig.log.last(), Some(&forgotten));
}

#[test]
fn a_group_below_another_attempt_with_a_reused_number_is_spared() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    rig.launch(run(2, 0), &[]);
    let root = rig.pid_of(run(1, 0));
    let leftover = rig.start_process(Some(run(1, 0)), None).pid;
    let stubborn = rig.kernel.processes.get_mut(&leftover);
    stubborn.expect("it is there").ignores_term = true;
    rig.exit(root, 0);
    rig.turn(10);
    let reused = Process {
        pgrp: root,
        mark: Some(run(2, 0)),
        start_ticks: 10,
        is_child: true,
        zombie: None,
        ignores_term: false,
    };
    rig.kernel.processes.insert(root, reused);
    rig.turn(10 + LEFTOVER_GRACE.0);
    let signals = &rig.kernel.signals;
    assert!(signals.contains(&(leftover, SIGKILL)), "{signals:?}");
    let spared = signals.iter().all(|(pid, _)| *pid != root);
    assert!(spared, "{signals:?}");
}

#[test]
fn a_runner_whose_status_cannot_be_known_leaves_its_task_running() {
    for (resumes, is_spared) in [(true, true), (false, false)] {
        let mut rig = Rig::new(true, FAR);
        let (key, identity) = (run(1, 0), rig.start_process(Some(run(1, 0)), None));
        let work = rig.start_process(Some(run(1, 0)), None).pid;
        let attempt = Attempt {
            resumes,
            is_runner: true,
            ..Attempt::default()
        };
        rig.request(Request::Adopt {
            run: key,
            at: Moment {
                mono: rig.kernel.now,
                wall: Wall(0),
            },
            identity,
            attempt: Some(Box::new(attempt)),
        });
        rig.kernel.has_no_statuses = true;
        rig.exit(identity.pid, 0);
        rig.turn(10);
        let killed = rig.kernel.signals.contains(&(work, SIGKILL));
        assert_eq!(killed, !is_spared, "{:?}", rig.kernel.signals);
    }
}

#[test]
fn a_health_check_needs_no_lease() {
    let mut rig = Rig::new(false, 100);
    rig.turn(200);
    rig.launch(run(1, 0), &[]);
    assert_eq!(rig.take_replies(), [Reply::Refused { run: run(1, 0) }]);
    let launch = Launch {
        is_check: true,
        ..Launch::default()
    };
    let (key, launch) = (run(2, 0), Box::new(launch));
    rig.request(Request::Launch { run: key, launch });
    assert!(rig.take_replies().iter().all(is_started));
    rig.turn(300);
    assert_eq!(rig.kernel.signals, [], "the dead-man timer leaves it alone");
}

#[test]
fn a_run_is_launched_once() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    rig.launch(run(1, 0), &[]);
    assert_eq!(rig.kernel.processes.len(), 1);
    let replies = rig.take_replies();
    assert!(replies.len() == 2 && replies[0] == replies[1]);
}

#[test]
#[should_panic(expected = "is awaited")]
fn an_input_before_an_answer_is_a_bug_of_the_driver() {
    let mut rig = Rig::new(false, FAR);
    let (run, launch) = (run(1, 0), Box::default());
    let _ = rig.decide(Input::Request(Request::Launch { run, launch }));
    let _ = rig.decide(Input::Tick);
}

#[test]
fn a_launch_that_does_not_fit_waits_for_the_end_of_another() {
    let mut rig = Rig::new(false, FAR);
    rig.request(capacity(2));
    rig.launch(run(1, 0), &[2]);
    rig.launch(run(2, 0), &[1]);
    rig.launch(run(3, 0), &[1]);
    assert_eq!(rig.kernel.processes.len(), 1);
    rig.exit(rig.pid_of(run(1, 0)), 0);
    rig.turn(10);
    assert_eq!(rig.kernel.processes.len(), 2, "both fit now");
    assert_eq!(rig.kernel.recycled.len(), 1);
}

#[test]
fn a_waiting_launch_is_refused_after_the_deadline() {
    let mut rig = Rig::new(false, 100);
    rig.request(capacity(1));
    rig.launch(run(1, 0), &[1]);
    rig.launch(run(2, 0), &[1]);
    rig.take_replies();
    rig.turn(100);
    assert!(rig.replies.contains(&Reply::Refused { run: run(2, 0) }));
    rig.turn(101);
    let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
    assert_eq!(ends(&rig.replies), [(1, lapsed)]);
    let forgotten = CoordinatorRecord::Forgotten { run: run(2, 0) };
    assert!(rig.log.contains(&forgotten));
}

#[test]
fn a_stop_is_a_request_first_and_a_kill_after_the_grace() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    rig.kernel.processes.get_mut(&pid).unwrap().ignores_term = true;
    rig.stop(run(1, 0), 100);
    rig.kernel.now = baton_model::time::Mono(10);
    rig.stop(run(1, 0), 200);
    assert_eq!(rig.kernel.signals, [(pid, SIGTERM)], "not repeated");
    rig.turn(99);
    assert_eq!(rig.kernel.signals.len(), 1);
    rig.turn(100);
    assert_eq!(rig.kernel.signals[1], (pid, SIGKILL), "not renewed");
    rig.turn(101);
    let killed = Outcome::Killed(KillCause::Requested);
    assert_eq!(ends(&rig.replies), [(1, killed)]);
}

#[test]
fn a_stubborn_attempt_is_killed_when_its_lease_ends() {
    let mut rig = Rig::new(false, 100);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    rig.kernel.processes.get_mut(&pid).unwrap().ignores_term = true;
    rig.turn(100);
    let only_term = |(_, signal): &(u32, i32)| *signal == SIGTERM;
    assert!(rig.kernel.signals.iter().all(only_term) && !rig.kernel.signals.is_empty());
    rig.turn(150);
    assert_eq!(rig.kernel.signals.last(), Some(&(pid, SIGKILL)));
}

#[test]
fn an_attempt_is_over_when_its_orphans_are() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    let orphan = rig.start_process(Some(run(1, 0)), None).pid;
    rig.kernel.processes.get_mut(&orphan).unwrap().ignores_term = true;
    rig.take_replies();
    rig.exit(pid, 3);
    rig.turn(10);
    assert_eq!(rig.kernel.signals, [(orphan, SIGTERM)], "not to its group");
    assert_eq!(ends(&rig.replies), []);
    rig.turn(2_010);
    rig.turn(2_030);
    assert_eq!(rig.kernel.signals.last(), Some(&(orphan, SIGKILL)));
    assert_eq!(ends(&rig.replies), [(1, Outcome::Exited(3))]);
}

/// The time to give up is counted from the kill, which a host that has slept makes late.
#[test]
fn a_later_run_is_over_when_what_the_first_has_left_to_another_parent_is() {
    let mut rig = Rig::new(false, FAR);
    let left = rig.start_process(Some(run(1, 0)), None).pid;
    let process = rig.kernel.processes.get_mut(&left).unwrap();
    (process.is_child, process.ignores_term) = (false, true);
    rig.launch(run(1, 1), &[]);
    rig.take_replies();
    rig.stop(run(1, 1), 100);
    let pid = rig.pid_of(run(1, 1));
    rig.kernel.processes.get_mut(&pid).unwrap().zombie = Some(ExitStatus::Signal(SIGKILL));
    rig.turn(10);
    assert_eq!(ends(&rig.replies), [], "a process of it lives");
    rig.turn(200);
    assert!(
        !rig.kernel.processes.contains_key(&left) || rig.kernel.processes[&left].zombie.is_some()
    );
    rig.turn(300);
    assert_eq!(ends(&rig.take_replies()).len(), 1);
}

#[test]
fn an_orphan_is_killed_after_a_sleep_of_its_host() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    let orphan = rig.start_process(Some(run(1, 0)), None).pid;
    rig.kernel.processes.get_mut(&orphan).unwrap().ignores_term = true;
    rig.take_replies();
    rig.exit(pid, 0);
    rig.turn(10);
    rig.turn(60_000);
    assert_eq!(ends(&rig.replies), [], "its orphan lives");
    rig.turn(60_020);
    assert_eq!(rig.kernel.signals.last(), Some(&(orphan, SIGKILL)));
    rig.turn(60_040);
    assert_eq!(ends(&rig.replies), [(1, Outcome::Exited(0))]);
}

#[test]
fn a_runner_that_ends_its_task_at_the_deadline_was_killed_for_it() {
    let mut rig = Rig::new(false, 100);
    let launch = Launch {
        is_runner: true,
        resumes: true,
        ..Launch::default()
    };
    rig.request(Request::Launch {
        run: run(1, 0),
        launch: Box::new(launch),
    });
    let pid = rig.pid_of(run(1, 0));
    rig.kernel.processes.get_mut(&pid).unwrap().ignores_term = true;
    rig.turn(100);
    rig.exit(pid, 3);
    rig.turn(110);
    let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
    assert_eq!(ends(&rig.replies), [(1, lapsed)]);
}

#[test]
fn an_orphan_of_unknown_run_delays_no_attempt() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    rig.launch(run(2, 0), &[]);
    let orphan = rig.start_process(None, None).pid;
    rig.exit(rig.pid_of(run(1, 0)), 0);
    rig.turn(10);
    assert_eq!(ends(&rig.replies), [(1, Outcome::Exited(0))]);
    assert_eq!(rig.kernel.signals, [], "it may be of the other one");
    rig.exit(rig.pid_of(run(2, 0)), 0);
    rig.turn(20);
    assert_eq!(
        rig.kernel.signals,
        [(orphan, SIGTERM)],
        "it can be of no other"
    );
    rig.turn(40);
    assert_eq!(ends(&rig.replies).len(), 2);
}

#[test]
fn a_process_with_the_pid_of_another_is_not_adopted() {
    let mut rig = Rig::new(true, FAR);
    let mut identity = rig.start_process(None, None);
    identity.start_ticks += 1;
    let adopt = |identity| Request::Adopt {
        run: run(1, 0),
        at: Moment::default(),
        identity,
        attempt: Some(Box::new(Attempt::default())),
    };
    rig.request(adopt(identity));
    assert_eq!(rig.take_replies(), [Reply::Unknown { run: run(1, 0) }]);
    identity.start_ticks -= 1;
    rig.request(adopt(identity));
    rig.stop(run(1, 0), 0);
    assert_eq!(rig.kernel.signals[0], (identity.pid, SIGTERM));
}

/// The status of a held process may be lost; its claim must not be.
#[test]
fn an_adopted_run_that_is_lost_releases_its_claim() {
    let mut rig = Rig::new(true, FAR);
    rig.request(capacity(1));
    let identity = rig.start_process(Some(run(1, 0)), None);
    let process = rig.kernel.processes.get_mut(&identity.pid).unwrap();
    process.is_child = false;
    rig.kernel.has_no_statuses = true;
    rig.request(Request::Adopt {
        run: run(1, 0),
        at: Moment::default(),
        identity,
        attempt: Some(Box::new(Attempt {
            claim: vec![1],
            ..Attempt::default()
        })),
    });
    rig.launch(run(2, 0), &[1]);
    rig.take_replies();
    rig.exit(identity.pid, 0);
    rig.turn(10);
    assert_eq!(rig.replies[0], Reply::Unknown { run: run(1, 0) });
    assert!(is_started(&rig.replies[1]), "{:?}", rig.replies);
}

#[test]
fn strays_are_killed_before_a_successor_launches() {
    let mut rig = Rig::new(true, FAR);
    let stray = rig.start_process(Some(run(7, 0)), None).pid;
    rig.launch(run(8, 0), &[]);
    assert_eq!(rig.kernel.signals, [(stray, SIGKILL)]);
    assert!(is_started(&rig.replies[0]));
}

#[test]
fn everything_is_reported_before_the_end_of_killing_it() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    rig.launch(run(2, 0), &[]);
    rig.take_replies();
    let (id, grace) = (9, Millis(0));
    rig.request(Request::KillEverything { id, grace });
    assert!(rig.host.is_killing());
    assert_eq!(rig.take_replies(), []);
    rig.turn(1);
    let killed = Outcome::Killed(KillCause::Requested);
    assert_eq!(ends(&rig.replies), [(1, killed), (2, killed)]);
    let done = Reply::EverythingKilled { id, left: 0 };
    assert_eq!(rig.replies.last(), Some(&done));
    assert!(!rig.host.is_killing());
}

#[test]
fn a_fault_of_the_host_gives_an_attempt_back() {
    let mut rig = Rig::new(false, FAR);
    rig.request(capacity(1));
    rig.fault = Some(StartFault::Host("no space".to_owned()));
    rig.launch(run(1, 0), &[1]);
    let (run_1, reason) = (run(1, 0), "no space".to_owned());
    let expected = Reply::HostFault { run: run_1, reason };
    assert_eq!(rig.take_replies(), [expected]);
    let forgotten = CoordinatorRecord::Forgotten { run: run_1 };
    assert_eq!(rig.log.last(), Some(&forgotten));
    rig.fault = None;
    rig.launch(run(2, 0), &[1]);
    assert!(is_started(&rig.replies[0]), "it occupies nothing");
}

#[test]
fn a_program_that_never_began_is_given_back() {
    let mut rig = Rig::new(false, FAR);
    rig.launch(run(1, 0), &[]);
    let pid = rig.pid_of(run(1, 0));
    rig.take_replies();
    let process = rig.kernel.processes.get_mut(&pid).unwrap();
    process.zombie = Some(ExitStatus::Unexecuted(SIGKILL));
    rig.turn(10);
    assert_eq!(rig.replies, [Reply::Refused { run: run(1, 0) }]);
    assert_eq!(rig.host.known().count(), 0);
}

#[test]
fn a_greeting_has_everything_and_so_has_a_summary() {
    let mut rig = Rig::new(false, FAR);
    rig.request(capacity(1));
    rig.launch(run(1, 0), &[1]);
    rig.launch(run(2, 0), &[1]);
    rig.launch(run(3, 0), &[]);
    rig.exit(rig.pid_of(run(3, 0)), 1);
    rig.turn(5);
    rig.take_replies();
    rig.input(Input::Connected);
    let Some(Reply::Hello {
        mut runs, guard, ..
    }) = rig.replies.pop()
    else {
        panic!("no greeting: {:?}", rig.replies);
    };
    runs.sort_by_key(|known| known.run);
    let summary = rig.host.summary(Moment::default());
    let evidence: baton_model::coordinator::Evidence = summary.collect();
    assert_eq!((evidence.runs, evidence.guard), (runs.clone(), guard));
    assert_eq!(runs.len(), 3);
}
