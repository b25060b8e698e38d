//! Limits that are set at run time.

use baton_model::message::{LaunchRefusal, LaunchVerdict};
use baton_model::outcome::Outcome;
use baton_model::placement::ResourceRequest;
use baton_model::rate::Rate;
use baton_model::task::Resources;

use super::placing::rig;
use super::*;

/// Asks for some of a limit.
fn spec(amount: u64) -> Arc<InstanceSpec> {
    let named = [("db".to_owned(), amount)];
    Arc::new(InstanceSpec {
        request: ResourceRequest {
            resources: Resources {
                named: named.into(),
                ..Resources::default()
            },
            ..ResourceRequest::default()
        },
        ..InstanceSpec::default()
    })
}

impl Leader {
    fn set_limit(&mut self, total: Option<u64>) -> Result<(), LimitError> {
        self.set_value(total.map(LimitValue::from))
    }

    fn set_value(&mut self, value: Option<LimitValue>) -> Result<(), LimitError> {
        let name = "db".to_owned();
        self.command_limit(Command::SetLimit { name, value })
    }

    fn command_limit(&mut self, set: Command) -> Result<(), LimitError> {
        let effects = self.give(Input::command(RequestId(1), set));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::LimitSet(told)) => Some(told),
            _ => None,
        });
        told.expect("every command is answered")
    }

    /// Total, use, number of waiting instances, and whether it was set at run time.
    fn limit(&self) -> Option<(u64, u128, u64, bool)> {
        let limit = self.view()?;
        Some((limit.value.total, limit.used, limit.waiting, limit.is_set))
    }

    fn view(&self) -> Option<LimitView> {
        let mut limits = self.core.limits(self.clock());
        limits.find(|it| it.name == "db")
    }

    /// The next leader, which begins with what is durable.
    fn succeed(&mut self, defaults: &[(String, LimitValue)]) {
        let epoch = Epoch(self.core.epoch().0 + 1);
        let (kept, now) = (self.kept.clone(), self.clock());
        self.core = Scheduler::with_limits(Config::default(), defaults, epoch, kept, now);
        self.outbox = Outbox::new(epoch);
    }
}

#[test]
fn a_limit_is_set_and_lowered_at_run_time_and_holds_for_the_next_leader() {
    let (mut leader, worker) = rig();
    leader.submit_as(1, submission(&spec(1), Some(5)));
    // No worker has it.
    assert_eq!(leader.kept.open_leases().count(), 0);
    assert_eq!(leader.set_limit(Some(3)), Ok(()));
    assert_eq!(leader.limit(), Some((3, 3, 2, true)));
    // Nothing is killed, and nothing more starts.
    assert_eq!(leader.set_limit(Some(1)), Ok(()));
    assert_eq!(leader.limit(), Some((1, 3, 2, true)));
    leader.ends(&worker, &[1, 2], Outcome::Exited(0), 10);
    assert_eq!(leader.limit(), Some((1, 1, 2, true)));
    leader.ends(&worker, &[3], Outcome::Exited(0), 10);
    assert_eq!(leader.limit(), Some((1, 1, 1, true)), "the next one");
    let facts = |leader: &Leader| {
        let set = leader.facts.iter();
        set.filter(|fact| matches!(fact, Fact::LimitSet { .. }))
            .count()
    };
    assert_eq!(leader.set_limit(Some(1)), Ok(()));
    assert_eq!(facts(&leader), 2, "unchanged");
    let default = [("db".to_owned(), 7.into()), ("other".to_owned(), 2.into())];
    leader.succeed(&default);
    assert_eq!(
        leader.limit(),
        Some((1, 1, 1, true)),
        "not that of the flag"
    );
    assert_eq!(leader.set_limit(None), Ok(()));
    assert_eq!(leader.limit().map(|it| (it.0, it.3)), Some((7, false)));
    let refused = Err(LimitError::NotSet("db".to_owned(), Some(7.into())));
    assert_eq!(leader.set_limit(None), refused);
    assert_eq!(leader.core.limits(leader.clock()).count(), 2);
}

/// Ten starts per second, two at once.
fn ten_per_second() -> LimitValue {
    let per = Millis(1_000);
    LimitValue::of_rate(Rate { count: 10, per }, Some(2))
}

fn granted(leader: &Leader) -> usize {
    let granted = leader.facts.iter();
    granted
        .filter(|it| matches!(it, Fact::LeaseGranted { .. }))
        .count()
}

#[test]
fn a_rate_starts_its_burst_and_then_as_time_allows() {
    let (mut leader, worker) = rig();
    leader
        .set_value(Some(ten_per_second()))
        .expect("few limits");
    leader.submit_as(1, submission(&spec(1), Some(6)));
    assert_eq!(granted(&leader), 2);
    let due = leader.core.bullpen.next_due();
    assert_eq!(due, Some(leader.now + Millis(100)), "it wakes by itself");
    leader.ends(&worker, &[1, 2], Outcome::Exited(0), 10);
    assert_eq!(granted(&leader), 2, "an end gives nothing back");
    let standing = leader.core.explain(InstanceId(3), leader.clock());
    let wait = standing
        .as_ref()
        .and_then(Standing::wait)
        .expect("it waits");
    assert_eq!(wait.reason.left(), Some(Millis(100)));
    assert_eq!(
        wait.first_text(),
        "it takes 1 of the rate db (10/s), which is used up; the next start is possible in 1 s"
    );
    leader.now += Millis(40);
    let view = leader.view().expect("it is set");
    assert_eq!((view.used, view.next_in), (2, Some(Millis(60))));
    leader.wait(Millis(59));
    assert_eq!(granted(&leader), 2);
    // A step of the wall clock lets nothing start.
    leader.wall_at_zero += 86_400_000;
    leader.give(Input::Tick);
    assert_eq!(granted(&leader), 2);
    leader.wait(Millis(1));
    assert_eq!(granted(&leader), 3);
    leader.wait(Millis(1_000));
    assert_eq!(granted(&leader), 5, "no more than its burst is saved up");
}

#[test]
fn a_retry_and_a_refused_launch_take_of_a_rate() {
    let (mut leader, worker) = rig();
    leader
        .set_value(Some(ten_per_second()))
        .expect("few limits");
    leader.submit_as(1, submission(&spec(1), Some(2)));
    assert_eq!(granted(&leader), 2);
    let refused = LaunchVerdict::Refused(LaunchRefusal::Full);
    leader.give(Input::Message(ToScheduler::RunTaskReply {
        association: worker.association(),
        verdicts: vec![(leader.lease(1), refused)],
    }));
    assert_eq!(leader.state(1), UniversalState::Queued);
    // After it the worker has room again.
    leader.ends(&worker, &[2], Outcome::Exited(0), 10);
    leader.wait(Millis(99));
    assert_eq!(granted(&leader), 2, "its token is used");
    leader.wait(Millis(1));
    assert_eq!(granted(&leader), 3);
    assert_eq!(leader.lease(1).attempt.number.0, 2);
}

#[test]
fn a_new_leader_starts_nothing_before_one_interval_of_a_rate() {
    let (mut leader, mut worker) = rig();
    leader
        .set_value(Some(ten_per_second()))
        .expect("few limits");
    leader.submit_as(1, submission(&spec(1), Some(6)));
    assert_eq!(granted(&leader), 2);
    leader.now += Millis(60_000);
    leader.succeed(&[]);
    assert_eq!(leader.view().map(|it| it.value), Some(ten_per_second()));
    let held = [leader.lease(1), leader.lease(2)];
    let began = leader.now;
    leader.welcome(&mut worker, &held);
    let starts = |leader: &Leader| leader.core.running().count();
    assert!(leader.now < began + Millis(100) && starts(&leader) == 2);
    leader.wait(Millis(99));
    assert_eq!(starts(&leader), 3, "what it inherits takes nothing");
    leader.wait(Millis(300));
    assert_eq!(starts(&leader), 5);
}

#[test]
fn a_count_becomes_a_rate_and_a_count_again() {
    let (mut leader, worker) = rig();
    leader.set_limit(Some(1)).expect("few limits");
    leader.submit_as(1, submission(&spec(1), Some(9)));
    assert_eq!(granted(&leader), 1);
    leader.set_value(Some(ten_per_second())).expect("known");
    assert_eq!(granted(&leader), 3);
    leader.set_limit(Some(4)).expect("known");
    assert_eq!(
        leader.limit(),
        Some((4, 4, 5, true)),
        "open leases count again"
    );
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    assert_eq!(leader.limit(), Some((4, 4, 4, true)));
}

impl Leader {
    fn limit_array(&mut self, last: u64, total: Option<u32>) -> Result<(), LimitError> {
        let (first, last) = (InstanceId(1), InstanceId(last));
        self.command_limit(Command::LimitArray { first, last, total })
    }
}

#[test]
fn the_limit_of_an_array_changes_while_it_runs() {
    let (mut leader, worker) = rig();
    let mut array = submission(&InstanceSpec::default(), Some(9));
    array.spec.conditions.concurrent_max = Some(2);
    leader.submit_as(1, array);
    assert_eq!(leader.leased(), [1, 2]);
    assert_eq!(leader.limit_array(9, Some(4)), Ok(()));
    assert_eq!(leader.leased(), [1, 2, 3, 4]);
    // Lowered below what is in flight: no new starts until that falls.
    assert_eq!(leader.limit_array(9, Some(3)), Ok(()));
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    assert_eq!(leader.leased(), [2, 3, 4]);
    leader.ends(&worker, &[2], Outcome::Exited(0), 10);
    assert_eq!(leader.leased(), [3, 4, 5]);
    let standing = leader.core.explain(InstanceId(6), leader.clock());
    let wait = standing
        .as_ref()
        .and_then(Standing::wait)
        .expect("it waits");
    assert!(wait.first_text().contains("3 of 3 are in use"), "{wait:?}");
    let facts = leader.facts.len();
    assert_eq!(leader.limit_array(9, Some(3)), Ok(()));
    assert_eq!(leader.facts.len(), facts, "unchanged");
    leader.succeed(&[]);
    let array = LimitKey::Array(InstanceId(1));
    let limit = Limit { total: 3, used: 3 };
    assert_eq!(leader.core.limit(&array), Some(limit), "the next leader");
    assert_eq!(leader.limit_array(9, None), Ok(()));
    let held: Vec<LeaseId> = leader.core.running().collect();
    let mut worker = worker;
    leader.welcome(&mut worker, &held);
    assert_eq!(leader.leased(), [3, 4, 5, 6, 7, 8, 9], "none");
}

#[test]
fn an_array_that_was_submitted_without_a_limit_gets_one() {
    let (mut leader, worker) = rig();
    let mut core = InstanceSpec::default();
    core.request.resources.cpu_milli = 1_000;
    leader.submit_as(1, submission(&core, Some(9)));
    leader.submit_as(10, submission(&core, Some(2)));
    assert_eq!(leader.leased(), [1, 2, 3, 4]);
    assert_eq!(leader.limit_array(9, Some(1)), Ok(()));
    let array = LimitKey::Array(InstanceId(1));
    let limit = Limit { total: 1, used: 4 };
    assert_eq!(leader.core.limit(&array), Some(limit));
    leader.ends(&worker, &[1, 2, 3], Outcome::Exited(0), 10);
    assert_eq!(leader.leased(), [4, 10, 11], "others are not bound by it");
    leader.ends(&worker, &[4], Outcome::Exited(0), 10);
    assert_eq!(leader.leased(), [5, 10, 11]);
}

#[test]
fn the_share_of_an_owner_holds_for_the_next_leader() {
    let (mut leader, mut worker) = rig();
    let set = |leader: &mut Leader, weight| {
        let owner = "lab".to_owned();
        let set = Command::SetShare { owner, weight };
        let effects = leader.give(Input::command(RequestId(1), set));
        assert!(effects.contains(&Effect::Reply(RequestId(1), Reply::ShareSet(Ok(())))));
    };
    let shares = |leader: &Leader| {
        let set = leader.facts.iter();
        set.filter(|fact| matches!(fact, Fact::ShareSet { .. }))
            .count()
    };
    set(&mut leader, 1);
    assert_eq!(shares(&leader), 0, "unchanged");
    set(&mut leader, 3);
    leader.succeed(&[]);
    let mut spec = InstanceSpec::default();
    spec.request.resources.cpu_milli = 1_000;
    for (first, owner) in [(1, "you"), (11, "lab")] {
        spec.owner = owner.to_owned();
        leader.submit_as(first, submission(&spec, Some(10)));
    }
    leader.welcome(&mut worker, &[]);
    assert_eq!(leader.leased(), [1, 11, 12, 13], "of four cores");
    assert_eq!(leader.core.ledger().shares().get("lab"), Some(&3));
    set(&mut leader, 1);
    assert!(leader.core.ledger().shares().is_empty());
    assert_eq!(shares(&leader), 2);
}

#[test]
fn what_waits_for_a_slow_rate_is_not_stuck() {
    let (mut leader, mut worker) = rig();
    let per = Millis::from_secs(24 * 3_600);
    let slow = LimitValue::of_rate(Rate { count: 1, per }, None);
    leader.set_value(Some(slow)).expect("few limits");
    leader.submit_as(1, submission(&spec(1), Some(2)));
    let mut large = InstanceSpec::default();
    large.request.resources.cpu_milli = 99_000;
    leader.submit_as(3, submission(&large, None));
    leader.pass(&mut worker, Millis(2 * Config::default().stuck_after.0));
    let alarms: Vec<_> = leader.core.ledger().alarms().keys().collect();
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(
        alarms[0].subject.instances(),
        Some((InstanceId(3), InstanceId(3)))
    );
}
