//! Runs across generations, leaders and pruning.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Generation, RunId};
use baton_model::limits::RUN_ITEMS_MAX;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::state::UniversalState as S;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::{
    CarriedItems, Condition, Edges, HaltCause, HaltMode, ItemEnd, ItemSpan, Items, Upstream,
};
use baton_store::limits::PRUNE_STEP_ITEMS;
use baton_store::view::RunQuery;
use baton_store::{PruneReport, Retention};

use crate::Open;
use crate::leading::halted;
use crate::running::{Running, many, mapped, plan, registered, task};

const fn span(task: u32, first: u32, last: u32) -> ItemSpan {
    ItemSpan { task, first, last }
}

/// A run with these ended items: `a` DONE with outputs; of `b` two DONE, one FAILED, one HALTED.
fn half_done(open: Open<'_>) -> Running {
    let tasks = vec![task("a", &[]), many("b", &[0], 4), task("c", &[1])];
    let mut running = Running::of(open, plan(tasks));
    running.done(0, 0, Some(r#"{"files":[1,2]}"#));
    running.done(1, 0, Some(r#"{"rows":0}"#));
    running.done(1, 1, Some(r#"{"rows":1}"#));
    let id = running.fails(1, 2);
    running.attempt(id, 1, Some(r#"{"rows":2}"#));
    let id = running.begin(1, 3);
    running.commit(vec![
        Fact::RunHalting {
            run: running.run,
            mode: HaltMode::Drain,
            cause: HaltCause::Requested,
        },
        halted(id.0, id.0),
    ]);
    assert_eq!(running.ends().len(), 5);
    running.over(S::Halted);
    running.takeover(open)
}

pub(crate) fn a_resumed_run_keeps_done_items_except_those_to_rerun(open: Open<'_>) {
    let mut running = half_done(open);
    let before = running.items();
    running.resume(None, Vec::new(), vec![span(1, 1, 3), span(2, 0, 0)]);
    assert_eq!(running.items(), before[..2]);
    let stored = running.store.stored_run(running.run).expect("readable");
    let stored = stored.expect("kept");
    assert_eq!(stored.ended.len(), 2);
    assert_eq!((stored.head.generation.0, stored.head.plan.0), (2, 1));
    running = running.takeover(open);
    // New ends get the new generation, next to those of the one before.
    running.done(1, 1, Some(r#"{"rows":7}"#));
    let items = running.items();
    let generations: Vec<_> = items.iter().map(|it| it.generation.0).collect();
    assert_eq!(generations, [1, 1, 2]);
    assert_eq!(items[2].outputs.as_deref(), Some(r#"{"rows":7}"#));
    running.done(1, 2, None);
    running.done(1, 3, None);
    running.done(2, 0, None);
    running.over(S::Done);
    running = running.takeover(open);
    assert!(running.ends().iter().all(|it| it.2 == ItemEnd::Done));
    assert_eq!(running.ends().len(), 6);
}

pub(crate) fn another_plan_keeps_what_is_carried_and_nothing_else(open: Open<'_>) {
    let mut running = half_done(open);
    let before = running.items();
    // `new` comes first, `b` has other items, in another order, and `c` is gone. The outputs of `a`
    // are needed now, and were not before.
    let mut another = plan(vec![
        task("new", &[]),
        task("a", &[]),
        many("b", &[1], 9),
        mapped("each", 1),
    ]);
    another.params.clear();
    let carried = |from, task, first| CarriedItems { from, task, first };
    let moves = vec![
        carried(span(0, 0, 0), 1, 0),
        carried(span(1, 1, 3), 2, 4),
        // Items to be rerun are not carried over.
        carried(span(1, 0, 0), 2, 0),
    ];
    running.resume(Some(another.clone()), moves, vec![span(1, 0, 0)]);
    let items = running.items();
    assert_eq!(
        running.ends(),
        [(1, 0, ItemEnd::Done), (2, 4, ItemEnd::Done)]
    );
    for (item, was) in items.iter().zip([&before[0], &before[2]]) {
        assert_eq!((item.instance, &item.outputs), (was.instance, &was.outputs));
        assert_eq!(
            (item.generation, &item.record),
            (Generation(1), &was.record)
        );
    }
    let plan = running.store.plan(running.run).expect("readable");
    assert_eq!(plan, Some(Arc::new(another)));
    assert_eq!(
        running.live().progress.item_count(3),
        2,
        "each file is an item"
    );
    running = running.takeover(open);
    running.done(3, 1, None);
    running.done(2, 0, None);
    assert_eq!(running.ends().len(), 4);
    assert_eq!(running.items()[1].generation, Generation(2));
    running = running.takeover(open);
    running.commit(vec![Fact::RunHalting {
        run: running.run,
        mode: HaltMode::Kill,
        cause: HaltCause::TimedOut,
    }]);
    running.over(S::Failed);
    // And again without another plan: that of the second generation stays.
    running = running.takeover(open);
    running.resume(None, Vec::new(), Vec::new());
    assert_eq!(running.live().head.plan, Generation(2));
    assert_eq!(running.ends().len(), 4);
    running.takeover(open);
}

pub(crate) fn an_end_of_an_older_generation_is_not_the_runs(open: Open<'_>) {
    let mut running = half_done(open);
    let old = running.items()[3].instance;
    running.resume(None, Vec::new(), Vec::new());
    assert_eq!(running.ends().len(), 3);
    let ended = running.store.instance(old).expect("readable");
    let ended = ended.expect("kept").instance;
    running.leader.ledger.admit(ended).expect("it was away");
    running.commit(vec![Fact::InstanceRetried { instance: old }]);
    running = running.takeover(open);
    assert!(running.live().progress.is_idle());
    running.attempt(old, 0, Some("{}"));
    assert_eq!(running.ends().len(), 3);
    running.done(1, 2, None);
    assert_eq!(running.ends().len(), 4);
    assert_ne!(running.items()[3].instance, old);
    running.takeover(open);
}

/// Several runs at once, each at another point.
pub(crate) fn a_leader_that_takes_over_finds_runs_where_they_were(open: Open<'_>) {
    let mut running = Running::new(open);
    // Its plan is not complete.
    let at = running.at;
    let first = plan(vec![task("a", &[])]);
    running.commit(vec![registered(RunId(1), at, first, true)]);
    // Nothing has started; then some are leased, wait, and wait again; some items wait for others.
    let mut by_item = many("b", &[], 5);
    by_item.after.push(Upstream {
        task: 0,
        condition: Condition::Success,
        edges: Edges::Same,
    });
    let mut limited = plan(vec![many("a", &[], 5), by_item, task("c", &[1])]);
    limited.max_concurrent = Some(4);
    running.register(limited);
    running = running.takeover(open);
    let leased = running.begin(0, 0);
    running.lease(leased);
    running.fails(0, 1);
    running.begin(0, 2);
    running.done(0, 3, None);
    running.begin(1, 3);
    running = running.takeover(open);
    assert_eq!(running.live().progress.live().count(), 4);
    assert_eq!(running.live().leased(0), 1);
    running.end(leased, AttemptEnd::Real(Outcome::Exited(0)), None);
    running.begin(1, 0);
    running = running.takeover(open);
    // After the first failure nothing starts except failure handlers.
    let mut cleanup = task("cleanup", &[0]);
    cleanup.after[0].condition = Condition::Failure;
    let mut fast = plan(vec![
        many("a", &[], 3),
        cleanup,
        task("x", &[]),
        task("y", &[2]),
    ]);
    fast.fail_fast = true;
    running.register(fast);
    let (leased, waits) = (running.begin(0, 0), running.begin(0, 1));
    running.lease(leased);
    running = running.takeover(open);
    running.fails(2, 0);
    assert!(running.live().progress.is_failing_fast());
    running = running.takeover(open);
    running.commit(vec![halted(waits.0, waits.0)]);
    running = running.takeover(open);
    running.end(leased, AttemptEnd::Real(Outcome::Exited(0)), None);
    running = running.takeover(open);
    running.done(1, 0, None);
    running = running.takeover(open);
    running.over(S::Failed);
    // Items listed by another task: some of each kind, and none at all.
    for files in [r#"["x",{"y":1},3]"#, "[]", "7"] {
        running = running.takeover(open);
        let tasks = vec![task("list", &[]), mapped("each", 0), task("end", &[1])];
        running.register(plan(tasks));
        let outputs = format!(r#"{{"files":{files}}}"#);
        running.done(0, 0, Some(&outputs));
    }
    running = running.takeover(open);
    running.run = RunId(4);
    assert_eq!(running.live().progress.item_count(1), 3);
    running.done(1, 1, None);
    let leased = running.begin(1, 2);
    running.lease(leased);
    running = running.takeover(open);
    // It is being halted.
    running.commit(vec![Fact::RunHalting {
        run: running.run,
        mode: HaltMode::Drain,
        cause: HaltCause::Requested,
    }]);
    running = running.takeover(open);
    running.end(leased, AttemptEnd::Real(Outcome::Exited(0)), Some("{}"));
    running.over(S::Halted);
    running = running.takeover(open);
    running.resume(None, Vec::new(), vec![span(1, 1, 1)]);
    running = running.takeover(open);
    assert_eq!(running.live().progress.live().count(), 0);
    running.done(1, 0, None);
    running.begin(1, 1);
    let running = running.takeover(open);
    assert_eq!(running.leader.ledger.runs().iter().count(), 5);
}

fn prune(running: &Running, now: u64, age: u64, budget: usize) -> PruneReport {
    let old = Retention {
        history_age: Some(Millis(age)),
        ..Retention::default()
    };
    let epoch = running.leader.epoch;
    let pruned = running.store.prune(epoch, Wall(now), &old, budget);
    pruned.expect("prunable")
}

pub(crate) fn runs_that_ended_long_ago_are_removed_with_all_their_rows(open: Open<'_>) {
    let mut running = Running::new(open);
    for at in [300, 100, 200] {
        running.at = Wall(at);
        running.register(plan(vec![task("a", &[]), task("b", &[])]));
        running.done(0, 0, Some("{}"));
        running.done(1, 0, None);
        running.over(S::Done);
    }
    // One has not ended, however old; one was resumed.
    running.at = Wall(1);
    let lives = running.register(plan(vec![task("a", &[]), task("b", &[])]));
    running.done(0, 0, None);
    let resumed = running.register(plan(vec![task("a", &[]), task("b", &[])]));
    running.fails(0, 0);
    running.done(1, 0, None);
    running.over(S::Failed);
    running.resume(None, Vec::new(), Vec::new());
    let left = |running: &Running| -> Vec<u64> {
        let query = RunQuery {
            limit: 100,
            ..RunQuery::default()
        };
        let page = running.store.runs(&query).expect("readable");
        page.items.iter().map(|it| it.head.id.0).collect()
    };
    assert_eq!(
        prune(&running, 350, 1_000, usize::MAX),
        PruneReport::default()
    );
    prune(&running, 350, 200, usize::MAX);
    assert_eq!(left(&running), [resumed.0, lives.0, 3, 1]);
    running.run = RunId(2);
    assert!(running.items().is_empty());
    assert_eq!(running.store.plan(RunId(2)), Ok(None));
    assert_eq!(running.store.stored_run(RunId(2)), Ok(None));
    assert_eq!(running.store.run(RunId(2)), Ok(None));
    prune(&running, 400, 150, usize::MAX);
    assert_eq!(left(&running), [resumed.0, lives.0, 1]);
    running.run = RunId(1);
    assert_eq!(running.items().len(), 2);
    prune(&running, 9_999, 0, usize::MAX);
    assert_eq!(left(&running), [resumed.0, lives.0]);
    // The remaining state is unchanged.
    let old = running.leader.left();
    let mut next = Running::new(open);
    for run in [lives, resumed] {
        assert_eq!(next.leader.ledger.runs().run(run), old.runs().run(run));
        next.run = run;
        assert_eq!(next.items().len(), 1);
    }
    assert_eq!(next.leader.ledger.runs().head(RunId(1)), None);
    next.done(0, 0, None);
    next.over(S::Done);
    next.takeover(open);
}

pub(crate) fn the_id_of_a_run_is_never_reused(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![task("a", &[])]));
    running.over(S::Halted);
    running.register(plan(vec![task("a", &[])]));
    running.over(S::Halted);
    prune(&running, u64::MAX, 0, usize::MAX);
    assert_eq!(running.store.run(RunId(2)), Ok(None));
    for id in [1, 2] {
        let mut leader = Running::new(open);
        assert_eq!(leader.leader.ledger.runs().last(), RunId(2));
        let again = registered(RunId(id), Wall(1), plan(vec![task("a", &[])]), false);
        let outcome = leader.leader.try_commit(&*leader.store, vec![again]);
        assert!(outcome.is_err(), "{id} was used before");
    }
    let mut next = Running::new(open);
    assert_eq!(next.register(plan(vec![task("a", &[])])), RunId(3));
    next.takeover(open);
}

pub(crate) fn a_run_with_many_items_is_gone_before_all_of_them_are(open: Open<'_>) {
    let count = 2 * PRUNE_STEP_ITEMS as u32 + 10;
    assert!(u64::from(count) < RUN_ITEMS_MAX);
    let mut wide = plan(vec![many("a", &[], count)]);
    wide.tasks[0].items = Items::Range {
        first: 0,
        step: 1,
        count,
    };
    let mut running = Running::of(open, wide);
    let first = running.begin(0, 0);
    let timeline = running.store.timeline(first, None, 1).expect("readable");
    let Fact::InstancesSubmitted { spec, .. } = &timeline.items[0].fact else {
        panic!("it was submitted first");
    };
    let mut facts = Vec::new();
    let mut last = first;
    for item in 1..count {
        let mut spec = (**spec).clone();
        spec.part = spec
            .part
            .map(|part| baton_model::workflow::Part { item, ..part });
        last = last.next();
        facts.push(Fact::InstancesSubmitted {
            first: last,
            last,
            spec: Arc::new(spec),
        });
    }
    facts.push(halted(first.0, last.0));
    running.commit(facts);
    let stored = running.store.stored_run(running.run).expect("readable");
    assert_eq!(stored.expect("kept").ended.len(), count as usize);
    running.over(S::Halted);
    // Instances first: as many records as the budget allows.
    let all = count as usize;
    let pruned = prune(&running, u64::MAX, 0, all);
    assert_eq!((pruned.instances, pruned.more), (u64::from(count), true));
    assert!(running.store.run(running.run).is_ok_and(|it| it.is_some()));
    // Then the run, which is never visible in part.
    assert!(prune(&running, u64::MAX, 0, 1).more);
    assert_eq!(running.store.run(running.run), Ok(None));
    assert_eq!(running.store.stored_run(running.run), Ok(None));
    assert!(running.items().is_empty());
    assert!(!prune(&running, u64::MAX, 0, usize::MAX).more);
    // A database may return space at any time, of what was removed before.
    let nothing = PruneReport {
        returned: 0,
        ..prune(&running, u64::MAX, 0, 9)
    };
    assert_eq!(nothing, PruneReport::default());
}
