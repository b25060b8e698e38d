//! Takeover after the death of an agent, of its coordinator, and of the scheduler.

use std::fs;

use baton_model::fact::Fact;
use baton_model::ids::IncarnationNo;
use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_testing::processes::{is_alive, send};
use baton_testing::until;
use rustix::process::Signal;

use crate::rig::{Agent, GATED, Rig, long_timeouts, script, short_timeouts, touch};

fn begun(rig: &Rig, instance: u64) {
    until("the attempt runs", || {
        rig.work(instance).join("begun").exists()
    });
}

fn confirmed(rig: &Rig, instance: u64) {
    until("the scheduler knows that it runs", || {
        let facts = rig.scheduler.facts();
        let is_it = |fact: &Fact| matches!(fact, Fact::AttemptConfirmed { lease } if *lease == crate::rig::lease(instance));
        facts.iter().any(is_it)
    });
}

fn holds_one_incarnation(rig: &Rig, instance: u64) {
    let holders = rig.holders(instance);
    assert_eq!(holders.len(), 1, "one attempt: {holders:?}");
    assert_eq!(holders[0].incarnation.number, IncarnationNo(1));
    assert_eq!(rig.agent_log().matches("starting incarnation").count(), 1);
}

#[test]
fn a_killed_agent_is_followed_by_one_of_the_same_life_and_the_exit_code_is_true() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    rig.submit(
        2,
        1,
        script("touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 5"),
    );
    begun(&rig, 1);
    begun(&rig, 2);
    worker.kill();
    // One ends while no agent is running.
    touch(&rig.work(2).join("go"));
    let _next = rig.worker();
    assert_eq!(rig.outcome(2), Outcome::Exited(5));
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(7));
    holds_one_incarnation(&rig, 1);
    assert!(rig.agent_log().contains("resuming incarnation"));
}

#[test]
fn what_was_put_out_survives_an_agent_that_is_killed_before_it_could_tell() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    let gated = "touch begun; while [ ! -e go ]; do sleep 0.02; done; ";
    rig.submit(1, 1, script(&format!("{gated} echo a=1 > $BATON_OUTPUT")));
    rig.submit(2, 1, script(&format!("{gated} echo what > $BATON_OUTPUT")));
    for instance in [1, 2] {
        begun(&rig, instance);
        confirmed(&rig, instance);
    }
    rig.scheduler.silent(true);
    for instance in [1, 2] {
        touch(&rig.work(instance).join("go"));
    }
    until("they are over", || rig.attempts().is_empty());
    worker.kill();
    let _next = rig.worker();
    rig.scheduler.silent(false);
    assert_eq!(rig.outputs(1).as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(rig.outcome(2), Outcome::BadOutput);
    holds_one_incarnation(&rig, 1);
}

#[test]
fn an_agent_that_is_told_to_leave_leaves_its_work_running() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().code(), Some(0));
    assert!(!rig.attempts().is_empty(), "it goes on");
    let _next = rig.worker();
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(7));
    holds_one_incarnation(&rig, 1);
}

#[test]
fn an_interrupt_ends_the_life_and_all_of_its_work() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    worker.signal(Signal::INT);
    assert_eq!(worker.wait().code(), Some(0));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::WorkerEnded));
    // The next agent begins the next incarnation, which gets the work again.
    let _next = rig.worker();
    until("the worker gets the work again", || {
        rig.holders(1).len() > 1
    });
}

#[test]
fn a_killed_coordinator_is_succeeded_and_its_work_goes_on() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    let first = rig.coordinator();
    send(first, Signal::KILL);
    until("another one is there", || {
        !is_alive(first) && rig.agent_log().contains("the coordinator is gone")
    });
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(7));
    holds_one_incarnation(&rig, 1);
    // The successor takes further work.
    rig.submit(2, 1, script("exit 4"));
    assert_eq!(rig.outcome(2), Outcome::Exited(4));
}

#[test]
fn what_was_adopted_from_a_dead_coordinator_survives_the_agent_too() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    let first = rig.coordinator();
    send(first, Signal::KILL);
    until("the agent has noticed", || {
        rig.agent_log().contains("the coordinator is gone")
    });
    rig.submit(2, 1, script("exit 0"));
    assert_eq!(rig.outcome(2), Outcome::Exited(0));
    worker.kill();
    let _next = rig.worker();
    touch(&rig.work(1).join("go"));
    assert_eq!(
        rig.outcome(1),
        Outcome::Exited(7),
        "its parent is the reaper"
    );
    holds_one_incarnation(&rig, 1);
}

/// `kill -9` of an agent and its coordinator at once.
pub(crate) fn kill_both(rig: &Rig, worker: Agent) {
    let coordinator = rig.coordinator();
    worker.signal(Signal::STOP);
    send(coordinator, Signal::KILL);
    worker.kill();
    until("the coordinator is dead", || !is_alive(coordinator));
}

#[test]
fn when_both_are_killed_what_runs_is_adopted_and_what_has_ended_is_known() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    for instance in [1, 2] {
        rig.submit(instance, 1, script(GATED));
        begun(&rig, instance);
        confirmed(&rig, instance);
    }
    kill_both(&rig, worker);
    let running = rig.attempts().len();
    touch(&rig.work(1).join("go"));
    until("the first has ended", || rig.attempts().len() < running);
    let _next = rig.worker();
    assert_eq!(rig.outcome(1), Outcome::Exited(7), "the reaper has seen it");
    touch(&rig.work(2).join("go"));
    assert_eq!(rig.outcome(2), Outcome::Exited(7));
    for instance in [1, 2] {
        assert_eq!(rig.holders(instance).len(), 1, "one attempt");
    }
    assert!(rig.agent_log().contains("resuming incarnation"));
}

#[test]
fn work_dies_with_its_lease_when_both_are_killed_and_stay_dead() {
    let rig = Rig::new(short_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(&format!("trap '' TERM; {GATED}")));
    begun(&rig, 1);
    confirmed(&rig, 1);
    kill_both(&rig, worker);
    until("everything is dead", || rig.attempts().is_empty());
    until("the reaper has nothing left to do", || {
        rig.reapers().is_empty()
    });
    let _next = rig.worker();
    until("the worker gets the work again", || {
        rig.holders(1).len() > 1
    });
}

#[test]
fn work_dies_with_its_lease_when_the_coordinator_is_stopped() {
    let rig = Rig::new(short_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    let (coordinator, before) = (rig.coordinator(), rig.attempts());
    send(coordinator, Signal::STOP);
    worker.kill();
    until("everything is dead", || {
        before.iter().all(|pid| !is_alive(*pid))
    });
    rig.scheduler.silent(true);
    send(coordinator, Signal::CONT);
    let _next = rig.worker();
    rig.scheduler.silent(false);
    assert_lapsed(rig.end(1).0);
}

/// As the worker observed it, unless the scheduler closed the lease first.
fn assert_lapsed(end: AttemptEnd) {
    let is_synthetic = matches!(end, AttemptEnd::Synthetic(_));
    let lapsed = AttemptEnd::Real(Outcome::Killed(KillCause::LeaseLapsed));
    assert!(end == lapsed || is_synthetic, "{end:?}");
}

#[test]
fn a_killed_reaper_is_succeeded_and_guards_what_runs() {
    let rig = Rig::new(short_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    let first = rig.reapers();
    for pid in &first {
        send(*pid, Signal::KILL);
    }
    until("another one is there", || {
        let reapers = rig.reapers();
        reapers.len() == 1 && reapers != first
    });
    kill_both(&rig, worker);
    until("everything is dead", || rig.attempts().is_empty());
}

/// A stopped reaper does not answer its agent, which starts the next coordinator itself. When the
/// reaper continues, it finds the request.
#[test]
fn a_reaper_that_was_stopped_starts_no_second_coordinator() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, script("exit 0"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    let (reapers, coordinator) = (rig.reapers(), rig.coordinator());
    let signal_all = |signal| assert!(reapers.iter().all(|pid| send(*pid, signal)));
    signal_all(Signal::STOP);
    send(coordinator, Signal::KILL);
    until("the agent has started a coordinator", || {
        rig.coordinators().iter().any(|pid| *pid != coordinator)
    });
    rig.submit(2, 1, script("exit 4"));
    assert_eq!(rig.outcome(2), Outcome::Exited(4), "without the reaper");
    signal_all(Signal::CONT);
    let errors = rig.state().join("checkpoint/reaper.err");
    until("the reaper has read the request", || {
        fs::read_to_string(&errors).is_ok_and(|text| text.contains("is gone"))
    });
    rig.coordinator();
}

#[test]
fn a_worker_that_leaves_nothing_running_leaves_no_reaper() {
    let rig = Rig::new(long_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script("exit 3"));
    assert_eq!(rig.outcome(1), Outcome::Exited(3));
    assert_eq!(rig.reapers().len(), 1);
    worker.signal(Signal::INT);
    assert_eq!(worker.wait().code(), Some(0));
    until("the reaper has exited", || rig.reapers().is_empty());
}

#[test]
fn work_dies_with_its_lease_and_is_placed_again() {
    let rig = Rig::new(short_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    rig.scheduler.silent(true);
    until("everything is dead", || rig.attempts().is_empty());
    rig.scheduler.silent(false);
    until("the worker gets the work again", || {
        rig.holders(1).len() > 1
    });
}

#[test]
fn work_dies_with_its_lease_even_if_the_agent_is_stopped() {
    let rig = Rig::new(short_timeouts());
    let worker = rig.worker();
    rig.submit(1, 1, script(GATED));
    begun(&rig, 1);
    confirmed(&rig, 1);
    let before = rig.attempts();
    worker.signal(Signal::STOP);
    until("everything is dead", || {
        before.iter().all(|pid| !is_alive(*pid))
    });
    worker.signal(Signal::CONT);
    assert_lapsed(rig.end(1).0);
}
