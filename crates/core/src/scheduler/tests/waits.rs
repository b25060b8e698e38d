//! Waits that no other rule is about.

use baton_model::conditions::Conditions;
use baton_model::outcome::Outcome;
use baton_model::placement::{Constraint, Rule};

use super::conditions::{after, submit};
use super::placing::rig;
use super::*;
use crate::ledger::Range;
use crate::placement::limits::CLASSES_MAX;
use crate::scheduler::bullpen::Bullpen;
use crate::wait::WaitReason;

#[test]
fn an_instance_beyond_the_queues_of_placement_tells_so() {
    let mut bullpen = Bullpen::default();
    let last = CLASSES_MAX as u64;
    for id in 0..=last {
        let mut spec = InstanceSpec::default();
        spec.request.resources.memory_min = 1 + id;
        let range = Range {
            first: InstanceId(id),
            last: InstanceId(id),
            spec: Arc::new(spec),
        };
        bullpen.fresh(&Ledger::default(), &range);
    }
    let reason = |id| {
        bullpen
            .explain(InstanceId(id), Mono(0))
            .map(|wait| wait.reason)
    };
    assert_eq!(reason(0), Some(WaitReason::NoWorker));
    assert_eq!(reason(last), Some(WaitReason::Overflow));
    assert_eq!(reason(last + 1), None);
}

#[test]
fn all_that_waits_is_counted_once_by_what_it_waits_for() {
    let (mut leader, worker) = rig();
    let spec = |cpu: u64, owner: &str| {
        let mut spec = InstanceSpec {
            owner: owner.to_owned(),
            ..InstanceSpec::default()
        };
        spec.request.resources.cpu_milli = 1_000 * cpu;
        spec.retry.failures_max = 1;
        spec.retry.backoff.first = Millis(5_000);
        spec.retry.backoff.max = Millis(5_000);
        spec
    };
    // One fails, and is in backoff; ten more of two owners find room for four.
    leader.submit_as(1, submission(&spec(1, "a"), None));
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    leader.submit_as(2, submission(&spec(1, "a"), Some(6)));
    leader.submit_as(8, submission(&spec(1, "b"), Some(4)));
    let mut elsewhere = spec(1, "b");
    elsewhere.request.constraints.push(Constraint {
        label: "zone".to_owned(),
        rule: Rule::OneOf(["eu".to_owned()].into()),
    });
    leader.submit_as(12, submission(&elsewhere, Some(3)));
    leader.submit_as(15, submission(&spec(99, "a"), None));
    submit(&mut leader, 16, 5, after(&["i2"]));
    submit(&mut leader, 21, 1, Conditions::default());
    let counts = |owner: Option<&str>| {
        let found = leader.core.wait_groups(owner, leader.clock());
        assert_eq!(found.others, 0);
        let groups = found.groups.iter();
        let rows = groups.map(|it| (it.wait.reason.word(), it.count, it.first.0));
        rows.collect::<Vec<_>>()
    };
    let queued = leader.kept.waiting().map(|it| it.last.0 - it.first.0 + 1);
    let queued: u64 = queued.sum::<u64>() + 1;
    let all = counts(None);
    assert_eq!(all.iter().map(|row| row.1).sum::<u64>(), queued, "{all:?}");
    let words: Vec<_> = all.iter().map(|row| (row.0, row.1)).collect();
    for row in [
        ("after", 5),
        ("no-match", 3),
        ("resting", 1),
        ("never-fits", 1),
    ] {
        assert!(words.contains(&row), "{all:?}");
    }
    let of_a = counts(Some("a"));
    assert!(of_a.contains(&("never-fits", 1, 15)), "{of_a:?}");
    assert!(of_a.contains(&("resting", 1, 1)), "{of_a:?}");
    assert!(of_a.iter().all(|row| row.0 != "no-match"), "{of_a:?}");
    assert_eq!(counts(Some("nobody")), []);
}
