//! Tasks that come after others.

use baton_model::limits::AFTER_MAX;
use baton_model::outcome::{KillCause, Outcome};

use super::super::placing::rig;
use super::*;

fn after(names: &[&str]) -> Definition {
    Definition {
        trigger: Trigger {
            after: names.iter().copied().map(named).collect(),
            ..Trigger::default()
        },
        ..plain()
    }
}

/// `a` every hour, and what comes after it.
fn with_followers(followers: &[(&str, Definition)]) -> (Leader, Remote) {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    leader.define("a", scheduled("every hour")).expect("taken");
    for (name, definition) in followers {
        leader.define(name, definition.clone()).expect("taken");
    }
    (leader, worker)
}

/// Recorded launches and skips: the task, the instance that it followed, and the verdict.
fn followed(facts: &[Fact]) -> Vec<(u64, Option<u64>, TickVerdict)> {
    let one = |fact: &Fact| match fact {
        Fact::Launched {
            entry,
            verdict,
            cause,
            ..
        } => {
            let after = match cause {
                Cause::Upstream { execution, .. } => execution.instance(),
                _ => None,
            };
            Some((entry.0, after.map(|id| id.0), *verdict))
        }
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

#[test]
fn each_done_instance_launches_its_followers_in_the_same_step() {
    let followers = [("b", after(&["a"])), ("c", after(&["a", "b"]))];
    let (mut leader, worker) = with_followers(&followers);
    leader.at(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
    let (b, c) = (2, 3);
    let launch = |task, of| (task, Some(of), TickVerdict::Launch);
    assert_eq!(followed(&facts), [launch(b, 1), launch(c, 1)]);
    let specs: Vec<_> = facts
        .iter()
        .filter_map(|it| match it {
            Fact::InstancesSubmitted { first, spec, .. } => Some((first.0, Arc::clone(spec))),
            _ => None,
        })
        .collect();
    assert_eq!(specs.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 3]);
    for (id, spec) in &specs {
        let origin = spec.origin.expect("it is one of the library's");
        assert_eq!((origin.task, origin.due), (TaskNo(*id), None));
        let of = spec.env.get("BATON_AFTER").map(String::as_str);
        assert_eq!(of, Some("i1"));
    }
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[2], Outcome::Exited(0), 1));
    assert_eq!(followed(&facts), [launch(c, 2)], "c comes after b as well");
}

#[test]
fn several_that_end_at_once_are_followed_each() {
    let mut many = scheduled("every 10 minutes");
    if let Some(schedule) = &mut many.trigger.schedule {
        schedule.catch_up = CatchUp::All;
    }
    let (mut leader, worker) = with_followers(&[("b", after(&["a"])), ("a", many)]);
    leader.at(NEW_YEAR + 30 * MINUTE);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1, 2, 3], Outcome::Exited(0), 1));
    let launch = |of| (2, Some(of), TickVerdict::Launch);
    assert_eq!(followed(&facts), [launch(1), launch(2), launch(3)]);
}

#[test]
fn nothing_follows_a_failure_or_a_stop() {
    for outcome in [Outcome::Exited(1), Outcome::Killed(KillCause::Requested)] {
        let (mut leader, worker) = with_followers(&[("b", after(&["a"]))]);
        leader.at(NEW_YEAR + HOUR);
        if matches!(outcome, Outcome::Killed(_)) {
            leader.cancel_range(1, 1);
        }
        let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], outcome, 1));
        assert_eq!(followed(&facts), []);
        assert_eq!(leader.core.ledger().known().last(), Some(InstanceId(1)));
    }
}

#[test]
fn a_follower_that_is_full_has_a_record_and_no_instance() {
    let mut one = after(&["a"]);
    one.trigger.max_instances = Some(1);
    let (mut leader, worker) = with_followers(&[("b", one)]);
    leader.at(NEW_YEAR + HOUR);
    leader.ends(&worker, &[1], Outcome::Exited(0), 1);
    leader.at(NEW_YEAR + 2 * HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[3], Outcome::Exited(0), 1));
    assert_eq!(followed(&facts), [(2, Some(3), FULL)]);
    assert_eq!(leader.core.ledger().known().last(), Some(InstanceId(3)));
}

#[test]
fn the_next_leader_knows_the_followers_and_repeats_nothing() {
    let (mut leader, worker) = with_followers(&[("b", after(&["a"]))]);
    leader.at(NEW_YEAR + HOUR);
    let before = leader.successor();
    leader.ends(&worker, &[1], Outcome::Exited(0), 1);
    assert_eq!(leader.successor().at(NEW_YEAR + HOUR + 1), []);
    // The end was lost with the leader: its worker reports it again.
    let mut next = before;
    let mut worker = Remote {
        association: None,
        ..worker
    };
    let lease = next.lease(1);
    next.heartbeat(&mut worker, WorkerState::Healthy);
    next.report(&worker, &[lease]);
    let facts = next.facts_of(|next| next.ends(&worker, &[1], Outcome::Exited(0), 1));
    assert_eq!(followed(&facts), [(2, Some(1), TickVerdict::Launch)]);
}

#[test]
fn a_follower_with_a_schedule_of_its_own_keeps_its_times() {
    let mut both = scheduled("every hour");
    both.trigger.after = vec![named("a")];
    let (mut leader, worker) = with_followers(&[("b", both)]);
    leader.at(NEW_YEAR + HOUR);
    // The wall clock is set back: the record of the end is older than that of the schedule.
    leader.set_wall(NEW_YEAR + 2 * MINUTE);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
    assert_eq!(followed(&facts), [(2, Some(1), TickVerdict::Launch)]);
    // And forward, without a look at the schedule: it does not count as accounted for.
    leader.set_wall(NEW_YEAR + 2 * HOUR + MINUTE);
    leader.remove("a").expect("is there");
    let due = |it: &Tick| it.first;
    let told = ticks(&leader.facts);
    let of_b = told.iter().filter(|it| it.task == 2).map(due);
    let expected = [NEW_YEAR + HOUR, NEW_YEAR + 2 * MINUTE, NEW_YEAR + 2 * HOUR];
    assert_eq!(of_b.collect::<Vec<_>>(), expected);
}

#[test]
fn a_redefined_task_follows_its_new_upstream_tasks() {
    let (mut leader, worker) = with_followers(&[("b", after(&["a"])), ("b", plain())]);
    leader.at(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
    assert_eq!(followed(&facts), []);
}

#[test]
fn a_circle_is_refused_with_its_path() {
    let mut leader = Leader::of_2026();
    leader.define("a", after(&["b"])).expect("b may come later");
    leader.define("b", after(&["x", "c"])).expect("taken");
    let circle = leader.define("c", after(&["x", "a"]));
    let path = ["c", "a", "b", "c"].map(named).to_vec();
    let error = LibraryError::Cycle(path);
    assert!(
        error
            .to_string()
            .ends_with("o/c after o/a after o/b after o/c")
    );
    assert_eq!(circle, Err(error));
    let itself = leader.define("d", after(&["d"]));
    assert_eq!(
        itself,
        Err(LibraryError::Cycle(["d", "d"].map(named).to_vec()))
    );
    assert!(leader.define("c", after(&["x"])).is_ok());
    let names: Vec<String> = (0..=AFTER_MAX).map(|at| format!("t{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = leader.define("d", after(&names));
    assert_eq!(many, Err(LibraryError::TooManyAfter));
}
