//! Usage by owner and hour.

use std::sync::Arc;

use baton_model::fact::{Fact, NextAttempt, Verdict};
use baton_model::ids::{InstanceId, LeaseId};
use baton_model::outcome::{AttemptEnd, AttemptStats, Outcome};
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::time::{Millis, Wall};
use baton_store::limits::USAGE_HOURS_KEPT;
use baton_store::usage::{Hour, Usage, UsageQuery, UsageTotals};
use baton_store::{Retention, Store};

use crate::Open;
use crate::leading::{Leader, granted, halted};

const HOUR: u64 = 3_600_000;

/// Half a core and 4 MiB each.
fn submitted(owner: &str, first: u64, last: u64) -> Fact {
    let mut spec = InstanceSpec {
        owner: owner.to_owned(),
        ..InstanceSpec::default()
    };
    spec.request.resources.cpu_milli = 500;
    spec.request.resources.memory_min = 4 << 20;
    Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(spec),
    }
}

fn ended(lease: LeaseId, code: i32, verdict: Verdict, again: Option<NextAttempt>) -> Fact {
    Fact::AttemptEnded {
        lease,
        end: AttemptEnd::Real(Outcome::Exited(code)),
        verdict,
        stats: Some(AttemptStats {
            started: Wall(0),
            ended: Wall(0),
            elapsed: Millis(1),
            cpu: Millis(70),
            memory_peak: 1,
        }),
        next_attempt: again.map(Box::new),
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

fn query(from: u64, to: u64) -> UsageQuery {
    UsageQuery {
        owner: None,
        from: Hour(from),
        to: Hour(to),
        after: None,
        limit: 100,
    }
}

fn usage(store: &dyn Store) -> Vec<Usage> {
    let page = store.usage(&query(0, u64::MAX)).expect("readable");
    assert_eq!(page.next, None);
    page.items
}

fn next(leader: &Leader, id: u64) -> LeaseId {
    leader.ledger.next_lease(InstanceId(id), leader.epoch)
}

pub(crate) fn an_attempt_counts_in_the_hour_it_ended_with_what_was_set_aside(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit_at(&*store, Wall(1_000), vec![submitted("a", 1, 1)]);
    let lease = next(&leader, 1);
    leader.commit_at(&*store, Wall(4_000), vec![granted(lease)]);
    // Another process, which knows the lease only from the store.
    drop(store);
    let store = open();
    leader.commit_at(&*store, Wall(5_000), vec![Fact::AttemptConfirmed { lease }]);
    let end = Wall(HOUR + 4_000);
    leader.commit_at(&*store, end, vec![ended(lease, 0, Verdict::Done, None)]);
    let waited = UsageTotals {
        waited: Millis(3_000),
        ..UsageTotals::default()
    };
    let worked = UsageTotals {
        done: 1,
        attempts: 1,
        cpu_claimed: Millis(HOUR / 2),
        memory_claimed: 4 * HOUR,
        cpu_used: Millis(70),
        ..UsageTotals::default()
    };
    let row = |hour, used| Usage {
        hour: Hour(hour),
        owner: "a".to_owned(),
        used,
    };
    assert_eq!(usage(&*store), [row(0, waited), row(1, worked)]);
    assert_eq!(usage(&*open()), usage(&*store));
}

pub(crate) fn a_second_attempt_waits_from_its_backoff_on_and_claims_its_allowance(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit_at(&*store, Wall(0), vec![submitted("a", 1, 1)]);
    let first = next(&leader, 1);
    leader.commit_at(&*store, Wall(0), vec![granted(first)]);
    let again = NextAttempt {
        not_before: Some(Wall(9_000)),
        allowance: Some(Allowance {
            memory_min: 8 << 20,
            ..Allowance::default()
        }),
    };
    let failed = ended(first, 1, Verdict::Requeued, Some(again));
    leader.commit_at(&*store, Wall(2_000), vec![failed]);
    let second = next(&leader, 1);
    let grant = vec![granted(second)];
    leader.commit_at(&*store, Wall(10_000), grant);
    let gave_up = ended(second, 1, Verdict::GaveUp, None);
    leader.commit_at(&*store, Wall(11_000), vec![gave_up]);
    let used = usage(&*store)[0].used;
    let expected = UsageTotals {
        failed: 1,
        attempts: 2,
        cpu_claimed: Millis(1_500),
        memory_claimed: 4 * 2_000 + 8 * 1_000,
        cpu_used: Millis(140),
        waited: Millis(1_000),
        ..UsageTotals::default()
    };
    assert_eq!(used, expected);
}

pub(crate) fn what_is_stopped_while_it_waits_is_counted_for_whom_it_was(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let facts = vec![
        submitted("a", 1, 1),
        submitted("a", 10, 19),
        submitted("b", 20, 29),
    ];
    leader.commit(&*store, facts);
    leader.commit(&*store, vec![halted(1, 1), halted(15, 24)]);
    leader.commit(&*store, vec![halted(10, 15)]);
    let halted: Vec<_> = usage(&*store)
        .into_iter()
        .map(|row| (row.owner, row.used.halted))
        .collect();
    assert_eq!(halted, [("a".to_owned(), 11), ("b".to_owned(), 5)]);
}

pub(crate) fn what_does_not_land_is_not_counted(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![submitted("a", 1, 9)]);
    let refused = vec![halted(1, 1), submitted("a", 1, 1)];
    assert!(leader.try_commit(&*store, refused).is_err());
    assert_eq!(usage(&*store), []);
}

pub(crate) fn usage_stays_when_the_history_goes(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 1..=5 {
        leader.commit_at(&*store, Wall(id), leader.done(id));
    }
    let before = usage(&*store);
    assert_eq!(before[0].used.done, 5);
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let pruned = store.prune(leader.epoch, Wall(9), &none, usize::MAX);
    assert_eq!(pruned.expect("prunable").instances, 5);
    assert_eq!(usage(&*store), before);
    leader.commit_at(&*store, Wall(9), leader.done(6));
    assert_eq!(usage(&*store)[0].used.done, 6);
    // But not forever.
    let later = |hours: u64| Wall((USAGE_HOURS_KEPT + hours) * HOUR);
    let prune = |now| store.prune(leader.epoch, now, &none, usize::MAX);
    prune(later(0)).expect("prunable");
    assert_eq!(usage(&*store).len(), 1);
    prune(later(1)).expect("prunable");
    assert_eq!(usage(&*store), []);
}

pub(crate) fn usage_comes_in_pages_of_hours_and_owners(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let mut id = 0;
    for hour in 0..4 {
        for owner in ["a", "b", "c"] {
            id += 1;
            let facts = vec![submitted(owner, id, id), halted(id, id)];
            leader.commit_at(&*store, Wall(hour * HOUR), facts);
        }
    }
    let mut found = Vec::new();
    let mut wish = UsageQuery {
        limit: 2,
        ..query(1, 2)
    };
    loop {
        let page = store.usage(&wish).expect("readable");
        assert!(page.items.len() <= 2);
        let rows = page.items.into_iter();
        found.extend(rows.map(|row| format!("{}{}", row.hour.0, row.owner)));
        wish.after = page.next;
        if wish.after.is_none() {
            break;
        }
    }
    assert_eq!(found, ["1a", "1b", "1c", "2a", "2b", "2c"]);
    let of_b = UsageQuery {
        owner: Some("b".to_owned()),
        ..query(2, u64::MAX)
    };
    let rows = store.usage(&of_b).expect("readable").items;
    let hours: Vec<_> = rows.iter().map(|row| (row.hour.0, &*row.owner)).collect();
    assert_eq!(hours, [(2, "b"), (3, "b")]);
}
