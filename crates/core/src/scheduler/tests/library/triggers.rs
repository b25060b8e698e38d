//! Triggering tasks by hand and over HTTP.

use baton_model::library::{Created, IdempotencyKey, Rate, TriggerSource};

use super::*;
use crate::ledger::Payload;

pub(super) fn by_hand(name: &str) -> TriggerCommand {
    TriggerCommand {
        name: named(name),
        bound: None,
        by: TriggerSource::Manual,
        trust: Trust::Open,
        secret_sha256: None,
        key: None,
        trace: None,
    }
}

fn by_remote(secret: Option<&str>) -> TriggerCommand {
    TriggerCommand {
        by: TriggerSource::Remote,
        trust: Trust::Open,
        secret_sha256: secret.map(str::to_owned),
        ..by_hand("a")
    }
}

pub(super) fn keyed(key: u64, request: u64) -> TriggerCommand {
    TriggerCommand {
        key: Some(IdempotencyKey {
            key: (key, !key),
            request,
        }),
        ..by_hand("a")
    }
}

fn with_task(definition: Definition) -> Leader {
    let mut leader = Leader::of_2026();
    leader.define("a", definition).expect("taken");
    leader
}

const fn new(instance: u64) -> Result<TriggerReply, TriggerError> {
    Ok(TriggerReply {
        execution: Execution::Instance(InstanceId(instance)),
        repeated: false,
    })
}

impl Leader {
    pub(super) fn trigger(
        &mut self,
        command: TriggerCommand,
    ) -> Result<TriggerReply, TriggerError> {
        let request = RequestId(1);
        let effects = self.give(Input::command(request, Command::Trigger(command)));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Triggered(answer)) => Some(answer),
            _ => None,
        });
        told.expect("a trigger is answered")
    }
}

#[test]
fn a_trigger_launches_an_instance_of_the_revision_and_records_its_source() {
    let mut leader = with_task(plain());
    let facts = leader.facts_of(|leader| assert_eq!(leader.trigger(by_hand("a")), new(1)));
    let [
        Fact::InstancesSubmitted { spec, .. },
        Fact::Launched {
            entry: TaskNo(1),
            revision: Revision(1),
            cause:
                Cause::Request {
                    source: TriggerSource::Manual,
                    key: None,
                },
            verdict: TickVerdict::Launch,
            execution: Some(Execution::Instance(InstanceId(1))),
        },
    ] = &*facts
    else {
        panic!("{facts:?}");
    };
    let origin = spec.origin.expect("it is one of the library's");
    assert_eq!((origin.revision, origin.due), (Revision(1), None));
    assert_eq!(
        leader.trigger(by_hand("a")),
        new(2),
        "without a key it is another"
    );
    assert_eq!(leader.trigger(by_hand("z")), Err(TriggerError::Unknown));
    leader.remove("a").expect("is there");
    assert_eq!(leader.trigger(by_hand("a")), Err(TriggerError::Unknown));
}

#[test]
fn the_same_request_gives_the_same_instance_and_another_is_refused() {
    let mut leader = with_task(plain());
    leader.define("b", plain()).expect("taken");
    assert_eq!(leader.trigger(keyed(5, 1)), new(1));
    let again = Ok(TriggerReply {
        execution: Execution::Instance(InstanceId(1)),
        repeated: true,
    });
    let (first, last) = (InstanceId(1), InstanceId(1));
    let used = Err(TriggerError::KeyUsed(Created::Instances { first, last }));
    // Also when its instance has ended, for the next leader, and for the next revision.
    leader.give(cancel(1));
    let mut next = leader.successor();
    let mut one = plain();
    one.trigger.max_instances = Some(1);
    next.define("a", one).expect("taken");
    for leader in [&mut leader, &mut next] {
        let facts = leader.facts_of(|leader| {
            assert_eq!(leader.trigger(keyed(5, 1)), again);
            assert_eq!(leader.trigger(keyed(5, 2)), used);
        });
        assert_eq!(facts, []);
    }
    assert_eq!(leader.trigger(keyed(6, 1)), new(2), "another key");
    let other = TriggerCommand {
        name: named("b"),
        ..keyed(5, 1)
    };
    assert_eq!(leader.trigger(other), new(3), "the key of another task");
}

#[test]
fn a_key_that_was_not_durable_was_never_used() {
    let mut leader = with_task(plain());
    let mut next = leader.successor();
    assert_eq!(leader.trigger(keyed(5, 1)), new(1));
    assert_eq!(next.trigger(keyed(5, 2)), new(1));
}

#[test]
fn a_refused_request_does_not_use_its_key() {
    let mut one = plain();
    one.trigger.max_instances = Some(1);
    let mut leader = with_task(one);
    assert_eq!(leader.trigger(keyed(5, 1)), new(1));
    assert_eq!(
        leader.trigger(keyed(6, 1)),
        Err(TriggerError::MaxInstances(1))
    );
    leader.give(cancel(1));
    assert_eq!(leader.trigger(keyed(6, 1)), new(2));
}

#[test]
fn over_http_it_must_be_allowed_and_the_secret_must_match() {
    let mut leader = with_task(plain());
    assert_eq!(
        leader.trigger(by_remote(None)),
        Err(TriggerError::NotRemote)
    );
    let mut remote = plain();
    remote.trigger.remote = true;
    leader.define("a", remote.clone()).expect("taken");
    assert_eq!(leader.trigger(by_remote(None)), new(1));
    assert_eq!(
        leader.trigger(by_remote(Some("00"))),
        new(2),
        "no secret is required"
    );
    remote.trigger.secret_sha256 = Some("ab".to_owned());
    leader.define("a", remote).expect("taken");
    for wrong in [None, Some(""), Some("AB"), Some("abc")] {
        assert_eq!(
            leader.trigger(by_remote(wrong)),
            Err(TriggerError::Secret),
            "{wrong:?}"
        );
    }
    assert_eq!(leader.trigger(by_remote(Some("ab"))), new(3));
    assert_eq!(leader.trigger(by_hand("a")), new(4), "a person needs none");
    let keyed = TriggerCommand {
        by: TriggerSource::Remote,
        ..keyed(5, 1)
    };
    assert_eq!(
        leader.trigger(keyed),
        Err(TriggerError::Secret),
        "nor tells what a key did"
    );
}

#[test]
fn parameters_that_were_bound_to_an_old_revision_are_refused() {
    let mut leader = with_task(Definition {
        spec: None,
        ..plain()
    });
    let given = InstanceSpec {
        name: "given".to_owned(),
        ..InstanceSpec::default()
    };
    let bound = |revision| TriggerCommand {
        bound: Some((Revision(revision), Payload::Spec(Box::new(given.clone())))),
        ..by_hand("a")
    };
    assert_eq!(
        leader.trigger(by_hand("a")),
        Err(TriggerError::NeedsParameters)
    );
    assert_eq!(leader.trigger(bound(1)), new(1));
    assert_eq!(
        leader.kept.find(InstanceId(1)).expect("waits").spec.name,
        "given"
    );
    leader.define("a", plain()).expect("taken");
    assert_eq!(
        leader.trigger(bound(1)),
        Err(TriggerError::Revised(Revision(2)))
    );
    assert_eq!(leader.trigger(bound(2)), new(2));
}

#[test]
fn triggers_count_against_the_limits_as_due_times_do() {
    let mut definition = scheduled("every hour");
    definition.trigger.max_instances = Some(1);
    definition.trigger.launch_rate = Some(Rate {
        count: 2,
        per: Millis(MINUTE),
    });
    let mut leader = with_task(definition);
    assert_eq!(leader.trigger(by_hand("a")), new(1));
    assert_eq!(
        leader.trigger(by_hand("a")),
        Err(TriggerError::MaxInstances(1))
    );
    assert_eq!(verdicts(&leader.at(NEW_YEAR + HOUR)), [FULL]);
    leader.give(cancel(1));
    assert_eq!(leader.trigger(by_hand("a")), new(2));
    leader.give(cancel(2));
    let used_up = |wait| Err(TriggerError::LaunchRate(Millis(wait)));
    // Half a minute for each of two launches a minute.
    assert_eq!(leader.trigger(by_hand("a")), used_up(MINUTE / 2));
    leader.wait(Millis(10_000));
    assert_eq!(leader.trigger(by_hand("a")), used_up(MINUTE / 2 - 10_000));
}

#[test]
fn an_unauthenticated_caller_needs_a_secret_and_an_authenticated_one_needs_none() {
    let mut remote = plain();
    remote.trigger.remote = true;
    let mut leader = with_task(remote.clone());
    let by = |trust, secret| TriggerCommand {
        trust,
        ..by_remote(secret)
    };
    let closed = Err(TriggerError::Secret);
    assert_eq!(leader.trigger(by(Trust::Unauthenticated, None)), closed);
    assert_eq!(
        leader.trigger(by(Trust::Unauthenticated, Some("ab"))),
        closed
    );
    let unknown = TriggerCommand {
        name: named("none"),
        ..by(Trust::Unauthenticated, Some("ab"))
    };
    assert_eq!(leader.trigger(unknown), closed, "nor is told what there is");
    remote.trigger.secret_sha256 = Some("ab".to_owned());
    leader.define("a", remote).expect("taken");
    assert_eq!(leader.trigger(by(Trust::Unauthenticated, None)), closed);
    assert_eq!(
        leader.trigger(by(Trust::Unauthenticated, Some("ab"))),
        new(1)
    );
    assert_eq!(leader.trigger(by(Trust::Authenticated, None)), new(2));
}

#[test]
fn without_a_store_nothing_strict_is_launched_however_it_was_bound() {
    let mut leader = Leader::new(StoreMode::Memory, 1);
    let mut open = plain();
    open.spec = None;
    leader.define("a", open).expect("nothing says strict yet");
    let given = InstanceSpec {
        exclusive: Exclusive::Strict,
        ..InstanceSpec::default()
    };
    let bound = TriggerCommand {
        bound: Some((Revision(1), Payload::Spec(Box::new(given)))),
        ..by_hand("a")
    };
    assert_eq!(leader.trigger(bound), Err(TriggerError::NeedsStore));
    assert_eq!(leader.kept.known().ranges().count(), 0);
}
