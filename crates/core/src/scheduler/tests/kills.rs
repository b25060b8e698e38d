//! Cancels and kills: how hard, how often, and what follows.

use baton_model::fact::Verdict;
use baton_model::ids::AttemptNo;
use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_model::principal::Principal;

use super::*;

/// The graces of the kills among effects.
fn graces(effects: &[Effect]) -> Vec<Millis> {
    let graces = effects.iter().filter_map(|effect| match effect {
        Effect::Send(_, ToWorker::KillTask { grace, .. }) => Some(*grace),
        _ => None,
    });
    graces.collect()
}

fn kill_attempt(leader: &mut Leader, attempt: Option<u32>, mode: KillMode) -> KillAnswer {
    let command = Command::KillAttempt {
        instance: InstanceId(1),
        attempt: attempt.map(AttemptNo),
        mode,
    };
    let effects = leader.give(Input::command(RequestId(9), command));
    let reply = effects.iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::AttemptKilled(reply)) => Some(*reply),
        _ => None,
    });
    (reply.expect("an answer"), graces(&effects))
}

type KillAnswer = (Result<AttemptNo, KillError>, Vec<Millis>);

const GRACE: Millis = Millis::from_secs(5);

#[test]
fn a_cancel_is_made_harder_by_a_second_one_and_never_gentler() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let cancel = |mode| {
        let (first, last) = (InstanceId(1), InstanceId(1));
        Input::command(RequestId(1), Command::Cancel { first, last, mode })
    };
    assert_eq!(graces(&leader.give(cancel(KillMode::Graceful))), [GRACE]);
    assert_eq!(graces(&leader.give(cancel(KillMode::Now))), [Millis(0)]);
    assert_eq!(
        graces(&leader.give(cancel(KillMode::Graceful))),
        [Millis(0)]
    );
    let stops = leader.facts.iter();
    let stops = stops.filter(|fact| matches!(fact, Fact::StopRequested { .. }));
    assert_eq!(stops.count(), 2, "nothing new is recorded for the third");
}

#[test]
fn the_grace_of_a_cancel_does_not_depend_on_the_lease() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.core.config.timeouts.kill_grace = Millis(1_600);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let cancel = Command::Cancel {
        first: InstanceId(1),
        last: InstanceId(1),
        mode: KillMode::Graceful,
    };
    let effects = leader.give(Input::command(RequestId(1), cancel));
    assert_eq!(graces(&effects), [GRACE]);
}

#[test]
fn a_killed_attempt_is_followed_by_the_next_and_counts_as_a_failure() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    let mut spec = InstanceSpec::default();
    spec.retry.failures_max = 1;
    leader.submit_as(1, submission(&spec, None));
    let (reply, kills) = kill_attempt(&mut leader, None, KillMode::Graceful);
    assert_eq!((reply, kills), (Ok(AttemptNo(1)), vec![GRACE]));
    let requested = Outcome::Killed(KillCause::Requested);
    leader.ends(&w, &[1], requested, 5);
    let end = leader.facts.iter().find_map(|fact| match fact {
        Fact::AttemptEnded { end, verdict, .. } => Some((*end, *verdict)),
        _ => None,
    });
    let by_operator = AttemptEnd::Real(Outcome::Killed(KillCause::Operator));
    assert_eq!(end, Some((by_operator, Verdict::Requeued)));
    assert_eq!(
        leader.state(1),
        UniversalState::Launched,
        "the next attempt"
    );
    let over = kill_attempt(&mut leader, Some(1), KillMode::Now);
    assert_eq!(over, (Err(KillError::Over(AttemptNo(2))), vec![]));
    let unknown = kill_attempt(&mut leader, Some(3), KillMode::Now);
    assert_eq!(unknown, (Err(KillError::Unknown(AttemptNo(2))), vec![]));
    let (reply, kills) = kill_attempt(&mut leader, Some(2), KillMode::Now);
    assert_eq!((reply, kills), (Ok(AttemptNo(2)), vec![Millis(0)]));
    leader.ends(&w, &[1], requested, 5);
    assert_eq!(
        leader.state(1),
        UniversalState::Failed,
        "the budget is spent"
    );
    let ended = kill_attempt(&mut leader, None, KillMode::Now);
    assert_eq!(ended, (Err(KillError::NotRunning), vec![]));
}

#[test]
fn what_is_cancelled_is_not_killed_as_if_it_had_ended_by_itself() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.submit(1, Exclusive::Timed);
    let (reply, _) = kill_attempt(&mut leader, None, KillMode::Now);
    assert_eq!(reply, Err(KillError::NotRunning), "it waits");
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    let (reply, _) = kill_attempt(&mut leader, None, KillMode::Graceful);
    assert_eq!(reply, Ok(AttemptNo(1)));
    leader.give(cancel(1));
    let (reply, _) = kill_attempt(&mut leader, None, KillMode::Now);
    assert_eq!(reply, Err(KillError::Stopping));
    leader.ends(&w, &[1], Outcome::Killed(KillCause::Requested), 5);
    assert_eq!(leader.state(1), UniversalState::Halted);
}

#[test]
fn a_kill_is_sent_by_the_next_leader_when_the_worker_reports_the_attempt() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    let (reply, _) = kill_attempt(&mut leader, None, KillMode::Now);
    assert_eq!(reply, Ok(AttemptNo(1)));
    let mut next = Leader::new(StoreMode::Durable, 2);
    next.core = Scheduler::new(
        Config::default(),
        Epoch(2),
        leader.kept.clone(),
        leader.clock(),
    );
    next.kept = leader.kept.clone();
    w.association = None;
    next.heartbeat(&mut w, WorkerState::New);
    let held = vec![HeldAttempt {
        lease,
        spec: Arc::default(),
        ended: None,
    }];
    let association = w.association();
    let list = ToScheduler::RunningTasks { association, held };
    assert_eq!(graces(&next.give(Input::Message(list))), [Millis(0)]);
}

#[test]
fn a_stop_records_the_client_that_is_known_and_one_of_the_scheduler_none() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    for id in 1..=4 {
        leader.submit(id, Exclusive::Timed);
    }
    let name = "ann".to_owned();
    let ann = Some(Arc::new(Principal::Certificate { name }));
    // Two run, two wait.
    let cancel = |first, last| Command::Cancel {
        first: InstanceId(first),
        last: InstanceId(last),
        mode: KillMode::Graceful,
    };
    let mut clients = Vec::new();
    for (by, command) in [(ann.clone(), cancel(1, 3)), (None, cancel(4, 4))] {
        let request = RequestId(1);
        let input = Input::Command {
            request,
            by,
            command,
        };
        let step = leader.core.handle(leader.clock(), input);
        clients.extend(step.requests().filter_map(|(fact, by)| match fact {
            Fact::StopRequested { .. } | Fact::InstancesHalted { .. } => Some(by.cloned()),
            _ => None,
        }));
    }
    assert_eq!(clients, [ann.clone(), ann.clone(), ann, None]);
}
