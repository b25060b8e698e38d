//! Runs: their states and plans, and facts that contradict them.

use std::sync::Arc;

use baton_core::ledger::{RunHead, StoredRun};
use baton_model::api::RunFilter;
use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::state::UniversalState as S;
use baton_model::time::Wall;
use baton_model::workflow::{HaltCause, HaltMode, ItemEnd, ItemSpan, Plan, Pool};
use baton_store::facts::FactQuery;
use baton_store::usage::{Hour, UsageQuery};
use baton_store::view::{Query, RunQuery, RunRecord, View};
use baton_store::{SqliteStore, Store, StoreError, Views as _};

use crate::Open;
use crate::leading::{Leader, submitted};
use crate::running::{Running, advanced, many, plan, registered, task};

const R1: RunId = RunId(1);

fn pool(name: &str) -> Pool {
    Pool {
        name: name.to_owned(),
        max_concurrent: 2,
    }
}

fn extended(run: RunId, at: Wall, plan: Plan) -> Fact {
    Fact::RunExtended {
        run,
        at,
        plan: Arc::new(plan),
    }
}

fn halting(run: RunId, mode: HaltMode, cause: HaltCause) -> Fact {
    Fact::RunHalting { run, mode, cause }
}

fn over(run: RunId, generation: u32, state: S) -> Fact {
    Fact::RunEnded {
        run,
        generation: Generation(generation),
        state,
    }
}

fn resumed(run: RunId, generation: u32, at: Wall, plan: Option<Plan>) -> Fact {
    Fact::RunResumed {
        run,
        generation: Generation(generation),
        at,
        plan: plan.map(Arc::new),
        carried: Vec::new(),
        rerun: Vec::new(),
    }
}

pub(crate) fn a_run_stands_where_its_facts_have_left_it(open: Open<'_>) {
    let mut running = Running::new(open);
    let none = running.store.run(R1);
    assert_eq!(none, Ok(None));
    let mut head = RunHead {
        id: R1,
        name: "etl".to_owned(),
        owner: "lab".to_owned(),
        state: S::Registering,
        generation: Generation(1),
        plan: Generation(1),
        halting: None,
        submitted: Wall(5),
        begun: Wall(5),
        origin: None,
    };
    let first = plan(vec![task("a", &[])]);
    let kill = (HaltMode::Kill, HaltCause::TimedOut);
    let drain = (HaltMode::Drain, HaltCause::Requested);
    type Then = fn(&mut RunHead);
    let steps: [(Fact, Then); 10] = [
        (registered(R1, Wall(5), first.clone(), true), |_| {}),
        (extended(R1, Wall(6), first.clone()), |it| {
            it.begun = Wall(6)
        }),
        (
            Fact::RunDefined {
                run: R1,
                at: Wall(7),
            },
            |it| {
                it.begun = Wall(7);
                it.state = S::Queued;
            },
        ),
        (advanced(R1, false), |it| it.state = S::Launched),
        (advanced(R1, true), |it| it.state = S::Running),
        (halting(R1, drain.0, drain.1), |it| {
            it.halting = Some((HaltMode::Drain, HaltCause::Requested));
        }),
        (halting(R1, kill.0, kill.1), |it| {
            it.halting = Some((HaltMode::Kill, HaltCause::TimedOut));
        }),
        (over(R1, 1, S::Halted), |it| it.state = S::Halted),
        (resumed(R1, 2, Wall(9), None), |it| {
            it.state = S::Queued;
            it.generation = Generation(2);
            it.begun = Wall(9);
            it.halting = None;
        }),
        (over(R1, 2, S::Failed), |it| it.state = S::Failed),
    ];
    for ((fact, then), at) in steps.into_iter().zip(100..) {
        running
            .leader
            .commit_at(&*running.store, Wall(at), vec![fact]);
        then(&mut head);
        let record = RunRecord {
            submitted_by: None,
            head: head.clone(),
            changed_at: Wall(at),
        };
        assert_eq!(running.store.run(R1), Ok(Some(record.clone())));
        assert_eq!(open().run(R1), Ok(Some(record)));
    }
    // A run that was not resumed with another plan has its first one.
    running.run = R1;
    running.leader.ledger.runs_mut().drop_all_ended();
    running.at = Wall(200);
    running.resume(Some(first.clone()), Vec::new(), Vec::new());
    let head = running.store.run(R1).expect("readable").expect("kept").head;
    assert_eq!((head.generation.0, head.plan.0), (3, 3));
    running.takeover(open);
}

pub(crate) fn a_plan_is_put_together_from_its_parts(open: Open<'_>) {
    let mut first = plan(vec![task("a", &[]), many("b", &[0], 3)]);
    first.max_concurrent = Some(7);
    first.pools = vec![pool("p")];
    let second = Plan {
        pools: vec![pool("q")],
        tasks: vec![task("c", &[1])],
        ..Plan::default()
    };
    let third = Plan {
        tasks: vec![task("d", &[2])],
        ..Plan::default()
    };
    let mut running = Running::new(open);
    assert_eq!(running.store.plan(R1), Ok(None));
    assert_eq!(running.store.stored_run(R1), Ok(None));
    let at = running.at;
    // Two runs whose plan parts alternate, in one batch and in several.
    let other = plan(vec![task("x", &[])]);
    running.commit(vec![
        registered(R1, at, first.clone(), true),
        registered(RunId(2), at, other.clone(), true),
        extended(R1, at, second.clone()),
    ]);
    let more = Plan {
        tasks: vec![task("y", &[0])],
        ..Plan::default()
    };
    running.commit(vec![extended(RunId(2), at, more.clone())]);
    running = running.takeover(open);
    running.commit(vec![extended(R1, at, third.clone())]);
    running.commit(vec![Fact::RunDefined { run: R1, at }]);
    let mut whole = first;
    for part in [second, third] {
        whole.tasks.extend(part.tasks);
        whole.pools.extend(part.pools);
    }
    let whole = Arc::new(whole);
    assert_eq!(running.store.plan(R1), Ok(Some(Arc::clone(&whole))));
    let mut whole_other = other;
    whole_other.tasks.extend(more.tasks);
    let plan = running.store.plan(RunId(2));
    assert_eq!(plan, Ok(Some(Arc::new(whole_other))));
    running.run = R1;
    let kept = StoredRun {
        head: running.live().head.clone(),
        plan: whole,
        ended: Vec::new(),
    };
    assert_eq!(running.store.stored_run(R1), Ok(Some(kept)));
    running.takeover(open);
}

pub(crate) fn runs_come_in_pages_by_state_owner_and_name(open: Open<'_>) {
    let mut running = Running::new(open);
    for n in 1..=12 {
        let mut some = plan(vec![task("a", &[])]);
        some.owner = format!("o{}", n % 2);
        some.name = format!("n{}", n % 3);
        running.register(some);
        match n % 4 {
            0 => running.over(S::Done),
            1 => running.over(S::Halted),
            _ => {}
        }
    }
    let store = &running.store;
    let all = |query: &RunQuery| {
        let mut query = query.clone();
        let mut found = Vec::new();
        loop {
            let page = store.runs(&query).expect("readable");
            assert!(page.items.len() <= query.limit.max(1));
            for record in page.items {
                let alone = store.run(record.head.id);
                assert_eq!(alone, Ok(Some(record.clone())));
                found.push(record.head.id.0);
            }
            if page.next.is_none() {
                return found;
            }
            query.after = page.next;
        }
    };
    let expected =
        |wanted: fn(u64) -> bool| -> Vec<u64> { (1..=12).rev().filter(|n| wanted(*n)).collect() };
    for limit in [0, 1, 2, 3, 12, 13, usize::MAX] {
        let every = RunQuery {
            limit,
            ..RunQuery::default()
        };
        assert_eq!(all(&every), expected(|_| true));
        let state = |state| RunQuery {
            filter: RunFilter {
                state: Some(state),
                ..RunFilter::default()
            },
            ..every.clone()
        };
        assert_eq!(all(&state(S::Done)), expected(|n| n % 4 == 0));
        assert_eq!(all(&state(S::Queued)), expected(|n| n % 4 > 1));
        assert!(all(&state(S::Aborted)).is_empty());
        let mut some = every.clone();
        some.filter.owner = Some("o1".to_owned());
        assert_eq!(all(&some), expected(|n| n % 2 == 1));
        some.filter.name = Some("n0".to_owned());
        assert_eq!(all(&some), expected(|n| n % 2 == 1 && n % 3 == 0));
        some.filter.state = Some(S::Halted);
        assert_eq!(all(&some), [9]);
        some.filter.owner = None;
        some.filter.state = None;
        assert_eq!(all(&some), expected(|n| n % 3 == 0));
        for (before, count) in [(0, 0), (5, 4), (13, 12), (u64::MAX, 12)] {
            let before = RunQuery {
                after: Some(RunId(before)),
                ..every.clone()
            };
            assert_eq!(all(&before).len(), count);
        }
    }
}

pub(crate) fn a_fact_that_does_not_fit_a_run_is_refused_with_its_batch(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![task("a", &[])]));
    running.over(S::Failed);
    let live = running.register(plan(vec![task("a", &[])]));
    let at = running.at;
    let unknown = RunId(9);
    let again = |run| registered(run, at, plan(vec![task("b", &[])]), false);
    let misfits = [
        again(R1),
        again(live),
        extended(unknown, at, plan(Vec::new())),
        extended(live, at, plan(Vec::new())),
        Fact::RunDefined { run: unknown, at },
        Fact::RunDefined { run: live, at },
        advanced(unknown, false),
        advanced(live, true),
        Fact::RunAdvanced {
            run: live,
            to: S::Done,
            at: None,
        },
        halting(unknown, HaltMode::Kill, HaltCause::Requested),
        halting(R1, HaltMode::Kill, HaltCause::Requested),
        over(unknown, 1, S::Done),
        over(live, 2, S::Done),
        over(live, 1, S::Running),
        over(R1, 1, S::Done),
        resumed(unknown, 2, at, None),
        resumed(live, 2, at, None),
        resumed(R1, 1, at, None),
        resumed(R1, 3, at, None),
    ];
    let left = running.leader.left();
    let store = running.store;
    let before = [R1, live].map(|run| store.run(run).expect("readable"));
    for misfit in misfits {
        let mut leader = Leader::elect(&*store);
        let text = misfit.to_string();
        let outcome = leader.try_commit(&*store, vec![submitted(1), misfit]);
        assert!(
            matches!(outcome, Err(StoreError::Contradiction(_))),
            "{text}: {outcome:?}"
        );
        let next = leader.try_commit(&*store, vec![submitted(2)]);
        assert_eq!(next, Err(StoreError::TermBroken), "{text}");
        assert_eq!(Leader::elect(&*store).ledger, left, "{text}");
        let after = [R1, live].map(|run| store.run(run).expect("readable"));
        assert_eq!(after, before, "{text}");
    }
    // A duplicate within one batch is refused, too.
    let mut leader = Leader::elect(&*store);
    let twice = leader.try_commit(&*store, vec![again(unknown), again(unknown)]);
    assert!(twice.is_err());
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![again(unknown)]);
}

pub(crate) fn the_history_tells_of_runs_in_order_and_does_not_repeat_their_plans(open: Open<'_>) {
    let mut running = Running::new(open);
    let at = running.at;
    let whole = plan(vec![task("a", &[]), many("b", &[0], 3)]);
    let bare = plan(Vec::new());
    running.commit(vec![
        registered(R1, at, whole.clone(), true),
        submitted(100),
        extended(R1, at, whole.clone()),
        Fact::RunDefined { run: R1, at },
    ]);
    running.run = R1;
    let id = running.begin(0, 0);
    running.lease(id);
    running.commit(vec![halting(R1, HaltMode::Drain, HaltCause::Requested)]);
    running.end(id, AttemptEnd::Real(Outcome::Exited(0)), None);
    running.over(S::Halted);
    let again = ItemSpan {
        task: 0,
        first: 0,
        last: 0,
    };
    running.resume(Some(whole), Vec::new(), vec![again]);
    let facts = open().facts(&FactQuery::default()).expect("readable");
    let mut of_runs = Vec::new();
    let mut numbers = Vec::new();
    for entry in facts.items {
        numbers.push(entry.seq.0);
        of_runs.extend(entry.fact.run().is_some().then_some(entry.fact));
    }
    assert_eq!(numbers, (1..=facts.last.0).collect::<Vec<_>>());
    let expected = [
        registered(R1, at, bare.clone(), true),
        extended(R1, at, bare.clone()),
        Fact::RunDefined { run: R1, at },
        advanced(R1, false),
        advanced(R1, true),
        halting(R1, HaltMode::Drain, HaltCause::Requested),
        over(R1, 1, S::Halted),
        resumed(R1, 2, at, Some(bare)),
    ];
    assert_eq!(of_runs, expected);
    // They are in no instance's timeline.
    let timeline = running.store.timeline(id, None, 100).expect("readable");
    assert!(timeline.items.iter().all(|it| it.fact.run().is_none()));
    assert_eq!(timeline.items.len(), 4);
}

/// Instance counts do not depend on whether instances are items of a run.
pub(crate) fn what_is_counted_of_instances_does_not_depend_on_runs(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 4), task("b", &[])]));
    running.done(0, 0, Some("{}"));
    let id = running.fails(0, 1);
    running.attempt(id, 1, None);
    running.fails(0, 2);
    let (first, last) = (running.begin(0, 3), running.begin(1, 0));
    running.commit(vec![Fact::InstancesHalted {
        first,
        last,
        reason: None,
    }]);
    assert_eq!(running.ends().len(), 4);
    assert_eq!(running.ends()[3], (1, 0, ItemEnd::Halted));
    let store = &running.store;
    let all = store.facts(&FactQuery::default()).expect("readable");
    let alone = SqliteStore::in_memory().expect("there is memory");
    let mut leader = Leader::elect(&alone);
    for entry in all.items {
        let mut fact = entry.fact;
        if fact.run().is_some() {
            continue;
        }
        if let Fact::InstancesSubmitted { spec, .. } = &mut fact {
            Arc::make_mut(spec).part = None;
        }
        leader.commit_at(&alone, entry.at, vec![fact]);
    }
    let (low, high) = (InstanceId(0), InstanceId(u64::MAX));
    assert_eq!(store.tally(low, high), alone.tally(low, high));
    let states = |store: &dyn Store| {
        let mut states = store.counts().expect("readable").states;
        states.retain(|_, count| *count > 0);
        states
    };
    assert_eq!(states(&**store), states(&alone));
    let used = UsageQuery {
        from: Hour(0),
        to: Hour(u64::MAX),
        owner: None,
        after: None,
        limit: 10,
    };
    assert_eq!(store.usage(&used), alone.usage(&used));
    for view in [View::Bullpen, View::Arena, View::History] {
        let shown = |store: &dyn Store| {
            let page = store.page(&Query::first(view, 100)).expect("readable");
            let shown = page.items.into_iter();
            let shown = shown.map(|it| (it.instance.id, it.span, it.instance.state));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(shown(&**store), shown(&alone));
    }
}
