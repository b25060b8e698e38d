//! Gangs: several workers for one attempt, and the loss of one of them.

use baton_model::message::LeaveCause;
use baton_model::outcome::{AttemptEnd, KillCause, LossProof, MemberLoss};
use baton_model::placement::{Capacity, GROUP_LABEL, HOST_LABEL};
use baton_model::spec::{NODE_LIST_VARIABLE, Nodes};

use super::*;

const HOSTS: [&str; 3] = ["node1", "node2", "node3"];

/// A leader with three healthy workers of one group and of one slot each.
fn rig() -> (Leader, [Remote; 3]) {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let workers = [0, 1, 2].map(|number| {
        let mut worker = Remote::new(&format!("w{number}"), 7 + number, 1);
        worker.offer = offer(HOSTS[number as usize]);
        worker.slots = 1;
        leader.welcome(&mut worker, &[]);
        worker
    });
    (leader, workers)
}

fn offer(host: &str) -> Arc<Offer> {
    let labels = [(GROUP_LABEL, "rack"), (HOST_LABEL, host)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(Offer {
        capacity: Capacity {
            cpu_milli: 4_000,
            ..Capacity::default()
        },
        labels: labels.into(),
        open: true,
        ..Offer::default()
    })
}

fn spec(nodes: u32) -> InstanceSpec {
    InstanceSpec {
        nodes: Nodes::new(nodes),
        ..InstanceSpec::default()
    }
}

impl Leader {
    fn submit_gang(&mut self, id: u64, nodes: u32) -> Vec<Effect> {
        self.submit_as(id, submission(&spec(nodes), None))
    }

    fn status(&mut self, remote: &Remote, lease: LeaseId, outcome: Outcome) -> Vec<Effect> {
        let association = remote.association();
        let statuses = vec![(lease, Status::Ended(outcome.into()))];
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association,
            statuses,
        }))
    }

    fn load(&self, worker: &str) -> u32 {
        self.core.seats()[&WorkerName::new(worker)].load()
    }

    /// The last end of an attempt.
    fn end(&self) -> Option<AttemptEnd> {
        let ends = self.facts.iter().rev();
        ends.into_iter().find_map(|fact| match fact {
            Fact::AttemptEnded { end, .. } => Some(*end),
            _ => None,
        })
    }

    fn lost_members(&self) -> Vec<(String, MemberLoss)> {
        let lost = self.facts.iter().filter_map(|fact| match fact {
            Fact::MemberLost { worker, loss, .. } => Some((worker.to_string(), *loss)),
            _ => None,
        });
        lost.collect()
    }
}

fn kills(effects: &[Effect]) -> Vec<String> {
    let kills = effects.iter().filter_map(|effect| match effect {
        Effect::Send(to, ToWorker::KillTask { .. }) => Some(to.worker.to_string()),
        _ => None,
    });
    kills.collect()
}

const MEMBER_LOST: AttemptEnd = AttemptEnd::Real(Outcome::Killed(KillCause::MemberLost));

#[test]
fn one_attempt_takes_all_members_and_its_launch_names_their_hosts() {
    let (mut leader, [first, _, mut third]) = rig();
    let effects = leader.submit_gang(1, 3);
    let launches = effects.iter().find_map(|effect| match effect {
        Effect::Send(to, ToWorker::RunTask { launches, .. }) => {
            assert_eq!(to.worker, WorkerName::new("w0"));
            Some(launches.clone())
        }
        _ => None,
    });
    let launches = launches.expect("it is launched");
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].spec.env[NODE_LIST_VARIABLE], HOSTS.join(","));
    let lease = leader.core.ledger().open_leases().next().expect("a lease");
    let workers: Vec<String> = lease.workers().map(ToString::to_string).collect();
    assert_eq!(workers, ["w0", "w1", "w2"]);
    let lease = lease.id;
    assert_eq!(["w0", "w1", "w2"].map(|it| leader.load(it)), [1, 1, 1]);
    let reply = leader.heartbeat(&mut third, WorkerState::Healthy);
    assert_eq!(reply.expect("answered").held, 1);
    leader.submit_gang(2, 1);
    assert_eq!(
        leader.state(2),
        UniversalState::Queued,
        "their slots are taken"
    );
    leader.status(&first, lease, Outcome::Exited(0));
    assert_eq!(leader.state(1), UniversalState::Done);
    assert_eq!(leader.state(2), UniversalState::Launched);
    let loads: u32 = ["w0", "w1", "w2"].iter().map(|it| leader.load(it)).sum();
    assert_eq!(loads, 1);
    let reply = leader.heartbeat(&mut third, WorkerState::Healthy);
    assert_eq!(reply.expect("answered").held, 0);
}

#[test]
fn a_member_that_leaves_ends_the_attempt_as_lost() {
    let (mut leader, [first, second, _]) = rig();
    leader.submit_gang(1, 3);
    let lease = leader.lease(1);
    let effects = leader.give(Input::Message(ToScheduler::Goodbye {
        association: second.association(),
        cause: LeaveCause::Terminated,
    }));
    assert_eq!(kills(&effects), ["w0"]);
    assert_eq!(leader.lost_members(), [("w1".to_owned(), MemberLoss::Left)]);
    assert_eq!(leader.load("w2"), 1, "held until the end is proved");
    leader.submit_gang(2, 1);
    assert_eq!(leader.state(2), UniversalState::Queued);
    leader.status(&first, lease, Outcome::Killed(KillCause::Requested));
    assert_eq!(leader.end(), Some(MEMBER_LOST));
    assert_eq!(leader.state(1), UniversalState::Queued, "it is tried again");
    let instance = leader.core.ledger().instance(InstanceId(1)).expect("live");
    assert_eq!((instance.losses, instance.failures), (1, 0));
    assert_eq!(leader.state(2), UniversalState::Launched);
}

#[test]
fn a_silent_member_is_lost_when_its_lease_has_run_out() {
    let (mut leader, [mut first, mut second, _]) = rig();
    leader.submit_gang(1, 3);
    let mut effects = Vec::new();
    for _ in 0..12 {
        leader.heartbeat(&mut first, WorkerState::Healthy);
        leader.heartbeat(&mut second, WorkerState::Healthy);
        effects.extend(leader.wait(Millis(lease_time().0 / 10)));
    }
    let loss = MemberLoss::Proved(LossProof::LeaseRanOut);
    assert_eq!(leader.lost_members(), [("w2".to_owned(), loss)]);
    assert!(kills(&effects).contains(&"w0".to_owned()));
    assert_ne!(
        leader.state(1),
        UniversalState::Queued,
        "not before its end"
    );
}

#[test]
fn a_later_incarnation_of_a_member_ends_the_attempt() {
    let (mut leader, [first, _, _]) = rig();
    leader.submit_gang(1, 3);
    let mut again = Remote::new("w1", 8, 2);
    again.offer = offer("node2");
    again.slots = 1;
    leader.welcome(&mut again, &[]);
    let loss = MemberLoss::Proved(LossProof::NewerIncarnation);
    assert_eq!(leader.lost_members(), [("w1".to_owned(), loss)]);
    let lease = leader.lease(1);
    // The launcher has noticed by itself.
    leader.status(&first, lease, Outcome::Exited(1));
    assert_eq!(leader.end(), Some(MEMBER_LOST));
    assert_eq!(
        leader.state(1),
        UniversalState::Launched,
        "with the new one"
    );
}

#[test]
fn a_failure_with_an_unhealthy_member_is_a_loss_and_any_other_is_not() {
    for is_silent in [true, false] {
        let (mut leader, [mut first, mut second, mut third]) = rig();
        leader.submit_gang(1, 3);
        let lease = leader.lease(1);
        leader.now += Millis(leader.core.config.timeouts.heartbeat_gap.0 + 1);
        for worker in [&mut first, &mut second] {
            leader.heartbeat(worker, WorkerState::Healthy);
        }
        if !is_silent {
            leader.heartbeat(&mut third, WorkerState::Healthy);
        }
        leader.status(&first, lease, Outcome::Exited(1));
        let failed = AttemptEnd::Real(Outcome::Exited(1));
        let wanted = if is_silent { MEMBER_LOST } else { failed };
        assert_eq!(leader.end(), Some(wanted));
    }
}

#[test]
fn a_success_after_the_loss_of_a_member_is_a_success() {
    let (mut leader, [first, second, _]) = rig();
    leader.submit_gang(1, 3);
    let lease = leader.lease(1);
    leader.give(Input::Message(ToScheduler::Goodbye {
        association: second.association(),
        cause: LeaveCause::Terminated,
    }));
    leader.status(&first, lease, Outcome::Exited(0));
    assert_eq!(leader.state(1), UniversalState::Done);
}

#[test]
fn the_next_leader_holds_the_members() {
    let (mut leader, [mut first, mut second, mut third]) = rig();
    leader.submit_gang(1, 3);
    leader.submit_gang(2, 1);
    let lease = leader.lease(1);
    let mut next = leader.next(Config::default(), Epoch(2));
    next.now = leader.now;
    for (worker, held) in [
        (&mut first, &[lease][..]),
        (&mut second, &[]),
        (&mut third, &[]),
    ] {
        worker.association = None;
        next.welcome(worker, held);
    }
    assert_eq!(next.load("w2"), 1);
    assert_eq!(next.state(2), UniversalState::Queued);
    let effects = next.give(Input::Message(ToScheduler::Goodbye {
        association: third.association(),
        cause: LeaveCause::Idle,
    }));
    assert_eq!(kills(&effects), ["w0"], "and learns of their loss");
    next.status(&first, lease, Outcome::Killed(KillCause::Requested));
    assert_eq!(next.end(), Some(MEMBER_LOST));
    assert_eq!(next.state(2), UniversalState::Launched);
}

#[test]
fn a_gang_needs_a_store() {
    let mut leader = Leader::new(StoreMode::Memory, 1);
    let effects = leader.give(Input::command(
        RequestId(1),
        Command::Submit {
            submission: submission(&spec(2), None),
            mark: None,
        },
    ));
    let refused = Reply::Submitted(Err(SubmitError::NeedsStore));
    assert!(effects.contains(&Effect::Reply(RequestId(1), refused)));
}
