//! Limits that are set at run time.

use baton_model::outcome::Outcome;
use baton_model::placement::ResourceRequest;
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
        let name = "db".to_owned();
        let set = Command::SetLimit { name, total };
        let effects = self.give(Input::command(RequestId(1), set));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::LimitSet(told)) => Some(told),
            _ => None,
        });
        told.expect("every command is answered")
    }

    /// Total, use, number of waiting instances, and whether it was set at run time.
    fn limit(&self) -> Option<(u64, u128, u64, bool)> {
        let limit = self.core.limits().find(|it| it.name == "db")?;
        Some((limit.total, limit.used, limit.waiting, limit.is_set))
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
    let default = [("db".to_owned(), 7), ("other".to_owned(), 2)];
    let (kept, now) = (leader.kept.clone(), leader.clock());
    leader.core = Scheduler::with_limits(Config::default(), &default, Epoch(2), kept, now);
    leader.outbox = Outbox::new(Epoch(2));
    assert_eq!(
        leader.limit(),
        Some((1, 1, 1, true)),
        "not that of the flag"
    );
    assert_eq!(leader.set_limit(None), Ok(()));
    assert_eq!(leader.limit().map(|it| (it.0, it.3)), Some((7, false)));
    let refused = Err(LimitError::NotSet("db".to_owned(), Some(7)));
    assert_eq!(leader.set_limit(None), refused);
    assert_eq!(leader.core.limits().count(), 2);
}
