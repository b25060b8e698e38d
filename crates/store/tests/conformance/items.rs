//! Items of runs: how they end, and how they are read.

use baton_core::workflow::ItemResult;
use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::ItemEnd;
use baton_store::Retention;
use baton_store::limits::ITEMS_PAGE_BYTES_MAX;
use baton_store::view::{EndCount, ErrorCount, ItemQuery};

use crate::Open;
use crate::leading::{halted, submitted};
use crate::order::stop;
use crate::running::{Running, many, plan, task};

const fn exited(code: i32) -> AttemptEnd {
    AttemptEnd::Real(Outcome::Exited(code))
}

pub(crate) fn an_item_ends_as_its_instance_does(open: Open<'_>) {
    let outputs = r#"{"rows":3,"who":"ü"}"#;
    let mut running = Running::of(open, plan(vec![many("a", &[], 6), task("b", &[])]));
    assert!(running.items().is_empty());
    let waits = running.begin(0, 5);
    let done = running.done(0, 2, Some(outputs));
    // One failure is allowed: the first one ends nothing.
    let failed = running.fails(0, 1);
    assert_eq!(running.ends(), [(0, 2, ItemEnd::Done)]);
    running.attempt(failed, 2, None);
    let stopped = running.begin(0, 0);
    running.lease(stopped);
    running.commit(vec![stop(stopped)]);
    assert_eq!(running.ends().len(), 2);
    running.end(
        stopped,
        AttemptEnd::Real(Outcome::Killed(KillCause::Requested)),
        None,
    );
    let late = running.fails(0, 3);
    running.attempt(late, 0, None);
    let other = running.done(1, 0, Some("{}"));
    let expected = [
        (0, 0, ItemEnd::Halted, stopped, None),
        (0, 1, ItemEnd::Failed, failed, None),
        (0, 2, ItemEnd::Done, done, Some(outputs)),
        (0, 3, ItemEnd::Done, late, None),
        (1, 0, ItemEnd::Done, other, Some("{}")),
    ];
    let mut running = running.takeover(open);
    let items = running.items();
    assert_eq!(items.len(), expected.len());
    for (item, (task, place, end, instance, outputs)) in items.iter().zip(expected) {
        assert_eq!((item.task, item.item, item.end), (task, place, end));
        assert_eq!((item.generation, item.instance), (Generation(1), instance));
        assert_eq!(item.outputs.as_deref(), outputs);
        let record = running.store.instance(instance).expect("readable");
        assert!(record.is_some());
        assert_eq!(item.record, record);
    }
    let kept = running.store.stored_run(running.run).expect("readable");
    let ended: Vec<_> = items
        .into_iter()
        .map(|it| ItemResult {
            task: it.task,
            item: it.item,
            end: it.end,
            outputs: it.outputs,
        })
        .collect();
    assert_eq!(kept.expect("kept").ended, ended);
    running.attempt(waits, 0, None);
    assert_eq!(running.ends()[4], (0, 5, ItemEnd::Done));
}

pub(crate) fn a_halted_range_ends_the_items_that_waited_in_it(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 9)]));
    // One range with: two untouched items, one instance of no run, two to be retried, one with a
    // lease, one DONE, one more untouched.
    let first = running.begin(0, 0);
    running.begin(0, 1);
    running.commit(vec![submitted(first.0 + 2)]);
    running.fails(0, 2);
    running.fails(0, 3);
    let leased = running.begin(0, 4);
    running.lease(leased);
    running.done(0, 5, None);
    let last = running.begin(0, 6);
    running.begin(0, 7);
    assert_eq!(running.ends(), [(0, 5, ItemEnd::Done)]);
    running = running.takeover(open);
    running.commit(vec![halted(first.0, last.0)]);
    let halted_now = |items: &[u32]| -> Vec<(u32, u32, ItemEnd)> {
        let mut ends: Vec<_> = items.iter().map(|it| (0, *it, ItemEnd::Halted)).collect();
        ends.push((0, 5, ItemEnd::Done));
        ends.sort_unstable();
        ends
    };
    assert_eq!(running.ends(), halted_now(&[0, 1, 2, 3, 6]));
    for item in running.items() {
        let id = first.0 + u64::from(item.item) + u64::from(item.item > 1);
        assert_eq!(item.instance, InstanceId(id));
        assert_eq!(
            item.record.map(|it| it.instance.id),
            Some(InstanceId(id)),
            "one of a range is told by itself"
        );
    }
    running = running.takeover(open);
    // Alone, while it waits.
    running.commit(vec![halted(last.0 + 1, last.0 + 1)]);
    assert_eq!(running.ends(), halted_now(&[0, 1, 2, 3, 6, 7]));
    // And while it waits again.
    running.end(leased, exited(1), None);
    running.commit(vec![halted(leased.0, leased.0)]);
    assert_eq!(running.ends(), halted_now(&[0, 1, 2, 3, 4, 6, 7]));
    running.over(UniversalState::Halted);
    running.takeover(open);
}

/// Within one batch everything comes from the change set and nothing from rows.
pub(crate) fn items_that_come_and_go_in_one_batch_end(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 3)]));
    let first = running.begin(0, 0);
    let told = running.store.timeline(first, None, 1).expect("readable");
    let Fact::InstancesSubmitted { spec, .. } = &told.items[0].fact else {
        panic!("it was submitted first");
    };
    let mut facts = Vec::new();
    for (item, id) in [(1, first.0 + 1), (2, first.0 + 2)] {
        let mut spec = (**spec).clone();
        spec.part = spec
            .part
            .map(|part| baton_model::workflow::Part { item, ..part });
        facts.push(Fact::InstancesSubmitted {
            first: InstanceId(id),
            last: InstanceId(id),
            spec: spec.into(),
        });
    }
    let lease = running
        .leader
        .ledger
        .next_lease(first, running.leader.epoch);
    facts.push(crate::leading::granted(lease));
    facts.push(Fact::AttemptEnded {
        lease,
        end: exited(1),
        verdict: baton_model::fact::Verdict::Requeued,
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    });
    facts.push(halted(first.0, first.0 + 2));
    running.commit(facts);
    let all = [0, 1, 2].map(|item| (0, item, ItemEnd::Halted));
    assert_eq!(running.ends(), all);
    running.takeover(open);
}

pub(crate) fn items_come_in_pages_by_task_and_by_end(open: Open<'_>) {
    let tasks = vec![many("a", &[], 5), many("b", &[], 7), task("c", &[])];
    let mut running = Running::of(open, plan(tasks));
    let mut expected = Vec::new();
    for (task, item) in (0..5).map(|it| (0, it)).chain((0..7).map(|it| (1, it))) {
        let end = match (task + item) % 3 {
            0 => {
                running.done(task, item, None);
                ItemEnd::Done
            }
            1 => {
                let id = running.fails(task, item);
                running.attempt(id, 1, None);
                ItemEnd::Failed
            }
            _ => {
                let id = running.begin(task, item);
                running.commit(vec![halted(id.0, id.0)]);
                ItemEnd::Halted
            }
        };
        expected.push((task, item, end));
    }
    let all = |query: &ItemQuery| {
        let mut query = query.clone();
        let mut found = Vec::new();
        loop {
            let page = running.store.run_items(&query).expect("readable");
            assert!(page.items.len() <= query.limit.max(1));
            found.extend(page.items.iter().map(|it| (it.task, it.item, it.end)));
            if page.next.is_none() {
                return found;
            }
            query.after = page.next;
        }
    };
    let ends = [
        None,
        Some(ItemEnd::Done),
        Some(ItemEnd::Failed),
        Some(ItemEnd::Halted),
    ];
    let tasks = [None, Some(0), Some(1), Some(2), Some(u32::MAX)];
    let places = [None, Some((0, 2)), Some((1, 3)), Some((u32::MAX, u32::MAX))];
    for limit in [0, 1, 2, 100, usize::MAX] {
        for (end, (task, after)) in ends.into_iter().flat_map(|end| {
            let pairs = tasks.into_iter().flat_map(|it| places.map(|at| (it, at)));
            pairs.map(move |pair| (end, pair))
        }) {
            let query = ItemQuery {
                task,
                end,
                after,
                limit,
                ..running.query()
            };
            let mut wanted = expected.clone();
            wanted.retain(|it| {
                end.is_none_or(|end| end == it.2)
                    && task.is_none_or(|task| task == it.0)
                    && after.is_none_or(|after| (it.0, it.1) > after)
            });
            assert_eq!(all(&query), wanted, "{query:?}");
        }
    }
    let nobodys = ItemQuery {
        run: RunId(9),
        ..running.query()
    };
    assert!(all(&nobodys).is_empty());
}

pub(crate) fn failures_that_are_alike_are_counted_together(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 9), many("b", &[], 3)]));
    assert_eq!(running.store.run_errors(running.run), Ok(Vec::new()));
    let mut fails = |task, item, end| {
        let id = running.fails(task, item);
        running.lease(id);
        running.end(id, end, None);
        id
    };
    let launch = AttemptEnd::Real(Outcome::LaunchFailed);
    let one = fails(0, 4, exited(1));
    let two = fails(0, 0, exited(2));
    fails(0, 1, exited(2));
    let launched = fails(0, 2, launch);
    fails(0, 5, exited(2));
    let other = fails(1, 0, exited(2));
    fails(1, 1, exited(2));
    running.done(1, 2, None);
    let stopped = running.begin(0, 6);
    running.commit(vec![halted(stopped.0, stopped.0)]);
    let count = |task, end, count, example| ErrorCount {
        task,
        item: ItemEnd::Failed,
        end,
        count,
        example,
    };
    let expected = [
        count(0, Some(exited(2)), 3, two),
        count(1, Some(exited(2)), 2, other),
        count(0, Some(exited(1)), 1, one),
        count(0, Some(launch), 1, launched),
    ];
    let errors = open().run_errors(running.run);
    assert_eq!(errors, Ok(expected.to_vec()));
    assert_eq!(running.store.run_errors(RunId(9)), Ok(Vec::new()));
    let ends = [
        (0, ItemEnd::Failed, 5),
        (0, ItemEnd::Halted, 1),
        (1, ItemEnd::Done, 1),
        (1, ItemEnd::Failed, 2),
    ];
    let ends = ends.map(|(task, end, count)| EndCount { task, end, count });
    assert_eq!(open().run_ends(running.run), Ok(ends.to_vec()));
    assert_eq!(running.store.run_ends(RunId(9)), Ok(Vec::new()));
    // Items stay FAILED after their instances are pruned.
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let epoch = running.leader.epoch;
    let pruned = running.store.prune(epoch, Wall(9), &none, usize::MAX);
    assert_eq!(pruned.expect("prunable").instances, 9);
    let errors = running.store.run_errors(running.run);
    let gone = [count(0, None, 5, one), count(1, None, 2, other)];
    assert_eq!(errors, Ok(gone.to_vec()));
    assert!(running.items().iter().all(|it| it.record.is_none()));
    assert_eq!(running.items().len(), 9);
    running.takeover(open);
}

pub(crate) fn what_was_stopped_of_a_failed_run_is_counted_with_its_failures(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 5)]));
    let failed = running.fails(0, 0);
    running.attempt(failed, 1, None);
    let waits = running.begin(0, 1);
    running.commit(vec![halted(waits.0, waits.0)]);
    let leased = running.begin(0, 2);
    running.lease(leased);
    running.commit(vec![stop(leased)]);
    let killed = AttemptEnd::Real(Outcome::Killed(KillCause::Requested));
    running.end(leased, killed, None);
    running.done(0, 3, None);
    running.done(0, 4, None);
    let count = |item, end, count, example| ErrorCount {
        task: 0,
        item,
        end,
        count,
        example,
    };
    let failure = count(ItemEnd::Failed, Some(exited(1)), 1, failed);
    let errors = running.store.run_errors(running.run);
    assert_eq!(errors, Ok(vec![failure.clone()]), "it has not failed yet");
    running.over(UniversalState::Failed);
    let stopped = count(ItemEnd::Halted, None, 2, waits);
    assert_eq!(
        open().run_errors(running.run),
        Ok(vec![stopped, failure]),
        "however far they had come"
    );
}

pub(crate) fn a_page_of_items_ends_by_bytes(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 6)]));
    let outputs = format!("{:?}", "x".repeat(ITEMS_PAGE_BYTES_MAX / 2));
    for item in 0..5 {
        running.done(0, item, Some(&outputs));
    }
    running.done(0, 5, Some("{}"));
    let mut query = running.query();
    let mut pages = Vec::new();
    loop {
        let page = running.store.run_items(&query).expect("readable");
        pages.push(page.items.iter().map(|it| it.item).collect::<Vec<_>>());
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![0, 1], vec![2, 3], vec![4, 5]]);
}

/// A scheduler never allows it, but the facts could occur.
pub(crate) fn a_manual_retry_does_not_change_the_run(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![task("a", &[]), task("b", &[])]));
    let id = running.fails(0, 0);
    running.commit(vec![Fact::InstanceRetried { instance: id }]);
    running = running.takeover(open);
    // The end came back from the store, with the instance that was retried.
    running.attempt(id, 0, Some("{}"));
    assert_eq!(running.ends(), [(0, 0, ItemEnd::Failed)]);
    assert_eq!(running.items()[0].outputs, None);
    running.done(1, 0, None);
    running.over(UniversalState::Failed);
    running = running.takeover(open);
    let age = Retention {
        history_age: Some(Millis(0)),
        ..Retention::default()
    };
    let later = Wall(running.at.0 + 1);
    let epoch = running.leader.epoch;
    let pruned = running.store.prune(epoch, later, &age, usize::MAX);
    pruned.expect("prunable");
    assert!(running.items().is_empty());
}
