//! Measurements by task.

use std::sync::Arc;

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Generation, InstanceId, LeaseId, RunId};
use baton_model::limits::{RUN_TIMES_REMEMBERED, TASK_ATTEMPTS_MEASURED};
use baton_model::measurement::{MeasuredEnd, Measurement, TaskPath};
use baton_model::outcome::{AttemptEnd, AttemptStats, KillCause, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::{Part, Plan};
use baton_store::limits::USAGE_HOURS_KEPT;
use baton_store::measurements::{TaskUsage, TaskUsageQuery};
use baton_store::{Retention, Store};

use crate::Open;
use crate::leading::{Leader, granted};
use crate::running::{advanced, registered, task};

const KIB: u64 = 1_024;

fn spec(owner: &str, name: &str, part: Option<Part>) -> Arc<InstanceSpec> {
    let mut spec = InstanceSpec {
        owner: owner.to_owned(),
        name: name.to_owned(),
        timeout: Some(Millis(9_000)),
        part,
        ..InstanceSpec::default()
    };
    spec.request.resources.cpu_milli = 500;
    Arc::new(spec)
}

fn ended(lease: LeaseId, outcome: Outcome, elapsed: u64) -> Fact {
    Fact::AttemptEnded {
        lease,
        end: AttemptEnd::Real(outcome),
        verdict: if outcome.is_success() {
            Verdict::Done
        } else {
            Verdict::GaveUp
        },
        stats: Some(AttemptStats {
            started: Wall(0),
            ended: Wall(0),
            elapsed: Millis(elapsed),
            cpu: Millis(70),
            memory_peak: 5 * KIB,
        }),
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

/// One instance of a task, from its submission to its end.
fn attempt(leader: &Leader, id: u64, spec: Arc<InstanceSpec>, end: (Outcome, u64)) -> Vec<Fact> {
    let lease = leader.ledger.next_lease(InstanceId(id), leader.epoch);
    let submitted = Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec,
    };
    let confirmed = Fact::AttemptConfirmed { lease };
    vec![
        submitted,
        granted(lease),
        confirmed,
        ended(lease, end.0, end.1),
    ]
}

fn all(store: &dyn Store) -> Vec<TaskUsage> {
    let query = TaskUsageQuery {
        limit: 1_000,
        ..TaskUsageQuery::default()
    };
    let page = store.task_usage(&query).expect("readable");
    assert_eq!(page.next, None);
    page.items
}

fn paths(found: &[TaskUsage]) -> Vec<String> {
    found.iter().map(|it| it.path.to_string()).collect()
}

pub(crate) fn attempts_of_a_task_are_measured_together(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let ends = [
        (Outcome::Exited(0), 3),
        (Outcome::Killed(KillCause::OutOfMemory), 4),
        (Outcome::Killed(KillCause::TimedOut), 5),
    ];
    for (id, end) in (1..).zip(ends) {
        let facts = attempt(&leader, id, spec("red", "align", None), end);
        leader.commit_at(&*store, Wall(100 + id), facts);
    }
    let mut other = attempt(
        &leader,
        8,
        spec("red", "call", None),
        (Outcome::Exited(2), 6),
    );
    other.extend(attempt(
        &leader,
        9,
        spec("blue", "align", None),
        (Outcome::Exited(0), 7),
    ));
    leader.commit_at(&*store, Wall(200), other);
    drop(store);
    let found = all(&*open());
    assert_eq!(paths(&found), ["blue/align", "red/align", "red/call"]);
    let measured = |at, elapsed, end| Measurement {
        at: Wall(at),
        elapsed: Millis(elapsed),
        cpu: Millis(70),
        memory_peak: 5 * KIB,
        end,
    };
    assert_eq!(
        found[1].measurements,
        [
            measured(101, 3, MeasuredEnd::Done),
            measured(102, 4, MeasuredEnd::OutOfMemory),
            measured(103, 5, MeasuredEnd::TimedOut),
        ]
    );
    assert_eq!((found[1].attempts, found[1].changed), (3, Wall(103)));
    assert_eq!(found[1].requested.resources.cpu_milli, 500);
    assert_eq!(found[1].requested.timeout, Some(Millis(9_000)));
    assert_eq!(found[2].measurements[0].end, MeasuredEnd::Failed);
}

pub(crate) fn items_of_a_workflow_are_measured_under_its_name(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let plan = Plan {
        name: "genomes".to_owned(),
        owner: "red".to_owned(),
        tasks: vec![task("align", &[])],
        ..Plan::default()
    };
    let run = RunId(1);
    let begun = vec![registered(run, Wall(5), plan, false), advanced(run, false)];
    leader.commit_at(&*store, Wall(5), begun);
    leader.commit_at(&*store, Wall(6), vec![advanced(run, true)]);
    let part = Part {
        run,
        generation: Generation(1),
        task: 0,
        item: 0,
    };
    let facts = attempt(
        &leader,
        1,
        spec("red", "align[eu]", Some(part)),
        (Outcome::Exited(0), 3),
    );
    leader.commit_at(&*store, Wall(9), facts);
    let ended = Fact::RunEnded {
        run,
        generation: Generation(1),
        state: UniversalState::Done,
    };
    leader.commit_at(&*store, Wall(105), vec![ended]);
    let found = all(&*store);
    assert_eq!(paths(&found), ["red/genomes", "red/genomes/align"]);
    assert_eq!(found[0].measurements[0].elapsed, Millis(100));
    assert_eq!(found[1].measurements[0].elapsed, Millis(3));
}

pub(crate) fn the_last_measurements_of_a_task_stay(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let most = TASK_ATTEMPTS_MEASURED as u64;
    let mut id = 0;
    // In one group more than are kept, and over several groups.
    for count in [most + 5, 3, 1] {
        let mut facts = Vec::new();
        for _ in 0..count {
            id += 1;
            facts.extend(attempt(
                &leader,
                id,
                spec("red", "align", None),
                (Outcome::Exited(0), id),
            ));
        }
        leader.commit(&*store, facts);
    }
    let found = all(&*store);
    let elapsed: Vec<u64> = found[0]
        .measurements
        .iter()
        .map(|it| it.elapsed.0)
        .collect();
    assert_eq!(elapsed, (10..=most + 9).collect::<Vec<_>>());
    assert_eq!(found[0].attempts, most + 9);
}

pub(crate) fn tasks_come_in_pages_by_owner_and_filter(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let mut id = 0;
    for owner in ["a", "b", "c"] {
        for name in ["x", "y"] {
            id += 1;
            let facts = attempt(
                &leader,
                id,
                spec(owner, name, None),
                (Outcome::Exited(0), 1),
            );
            leader.commit(&*store, facts);
        }
    }
    let mut query = TaskUsageQuery {
        limit: 2,
        ..TaskUsageQuery::default()
    };
    let mut found = Vec::new();
    loop {
        let page = store.task_usage(&query).expect("readable");
        assert!(page.items.len() <= 2);
        found.extend(paths(&page.items));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(found, ["a/x", "a/y", "b/x", "b/y", "c/x", "c/y"]);
    let only = |owner: Option<&str>, workflow: Option<&str>, task: Option<&str>| {
        let query = TaskUsageQuery {
            owner: owner.map(str::to_owned),
            workflow: workflow.map(str::to_owned),
            task: task.map(str::to_owned),
            after: None,
            limit: 100,
        };
        paths(&store.task_usage(&query).expect("readable").items)
    };
    assert_eq!(only(Some("b"), None, None), ["b/x", "b/y"]);
    assert_eq!(only(None, Some(""), Some("y")), ["a/y", "b/y", "c/y"]);
    assert_eq!(only(None, Some("w"), None), [""; 0]);
}

pub(crate) fn measurements_stay_when_the_history_goes(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let facts = attempt(
        &leader,
        1,
        spec("red", "align", None),
        (Outcome::Exited(0), 1),
    );
    leader.commit_at(&*store, Wall(9), facts);
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let prune = |now| store.prune(leader.epoch, Wall(now), &none, usize::MAX);
    prune(9).expect("prunable");
    assert_eq!(all(&*store).len(), 1);
    let kept = USAGE_HOURS_KEPT * 3_600_000;
    prune(kept + 9).expect("prunable");
    assert_eq!(all(&*store).len(), 1);
    prune(kept + 10).expect("prunable");
    assert_eq!(all(&*store), []);
}

pub(crate) fn a_new_leader_finds_the_run_times(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let path = TaskPath::of(&spec("red", "align", None), None);
    for id in 1..=RUN_TIMES_REMEMBERED as u64 + 5 {
        let facts = attempt(
            &leader,
            id,
            spec("red", "align", None),
            (Outcome::Exited(0), 4_000),
        );
        leader.commit(&*store, facts);
    }
    let next = Leader::elect(&*store);
    let times = next.ledger.run_times();
    assert_eq!(times.estimate(&path), Some(Millis(4_000)));
    let usual = times.usual(&path).expect("enough successes");
    assert_eq!(usual.runs, RUN_TIMES_REMEMBERED);
    assert_eq!(usual.min, Millis(1_000));
}
