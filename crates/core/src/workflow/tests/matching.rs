//! Items of two plans of one run, matched by their values and their upstream items.

use super::compare::TaskChange::{Changed, Downstream, Unchanged};
use super::preview::{RerunReason, preview};
use super::*;

fn values(values: &[&str]) -> Items {
    Items::Values(values.iter().map(|it| format!("\"{it}\"")).collect())
}

/// A plan whose tasks have these values; one without any is a single item.
fn lists(tasks: &[(&str, &[&str], &[&str])]) -> Plan {
    let mut plan = Plan::default();
    for (name, list, after) in tasks {
        let items = match list {
            [] => Items::One,
            list => values(list),
        };
        let task = task(name, items, after, &plan);
        plan.tasks.push(task);
    }
    check::check(&plan).expect("a plan");
    plan
}

/// Old and new index of each carried item of a task that both plans have at the same place.
fn carried_of(carried: &CarriedMap, task: u32) -> Vec<(u32, u32)> {
    let own = carried.iter().filter(|(from, _)| from.0 == task);
    own.map(|(from, to)| (from.1, to.1)).collect()
}

#[test]
fn items_are_matched_by_their_values() {
    let before = lists(&[("a", &["eu", "us", "apac"], &[])]);
    let after = lists(&[("a", &["us", "apac", "new"], &[])]);
    let (changes, carried) = compare_plans(&before, &after);
    assert_eq!(changes, [Changed]);
    assert_eq!(carried_of(&carried, 0), [(1, 0), (2, 1)]);
}

#[test]
fn each_follows_the_items_of_a_changed_list() {
    let chain = |list: &[&str]| {
        lists(&[
            ("a", list, &[]),
            ("b", list, &["a="]),
            ("c", list, &["b="]),
            ("join", &[], &["c"]),
        ])
    };
    let before = chain(&["eu", "us", "apac"]);
    for (list, kept) in [
        (
            &["eu", "us", "apac", "new"][..],
            &[(0, 0), (1, 1), (2, 2)][..],
        ),
        (&["new", "eu", "us", "apac"], &[(0, 1), (1, 2), (2, 3)]),
        (&["apac", "eu", "us"], &[(0, 1), (1, 2), (2, 0)]),
        (&["eu", "apac"], &[(0, 0), (2, 1)]),
    ] {
        let (changes, carried) = compare_plans(&before, &chain(list));
        assert_eq!(changes, [Changed, Changed, Changed, Downstream], "{list:?}");
        for task in 0..3 {
            assert_eq!(carried_of(&carried, task), kept, "{list:?}, {task}");
        }
        assert!(carried_of(&carried, 3).is_empty(), "join waits for all");
    }
}

#[test]
fn an_item_runs_again_with_its_upstream_item() {
    let before = lists(&[("a", &["x", "y"], &[]), ("b", &["1", "2"], &["a="])]);
    // The second item of `b` has another upstream item.
    let after = lists(&[("a", &["x", "z"], &[]), ("b", &["1", "2"], &["a="])]);
    let (changes, carried) = compare_plans(&before, &after);
    assert_eq!(changes, [Changed, Downstream]);
    assert_eq!(carried_of(&carried, 1), [(0, 0)]);
    // Both have: the values of `b` keep their places, those of `a` do not.
    let after = lists(&[("a", &["y", "x"], &[]), ("b", &["1", "2"], &["a="])]);
    let (changes, carried) = compare_plans(&before, &after);
    assert_eq!(changes, [Changed, Downstream]);
    assert!(carried_of(&carried, 1).is_empty());
    // A changed command of `a` is another upstream item for all.
    let mut after = before.clone();
    Arc::make_mut(&mut after.tasks[0].spec).work = Work::Command(vec!["other".to_owned()]);
    let (changes, carried) = compare_plans(&before, &after);
    assert_eq!(changes, [Changed, Downstream]);
    assert!(carried.is_empty());
}

#[test]
fn a_second_upstream_task_counts_as_a_whole() {
    let flow = |list: &[&str], others: &[&str]| {
        lists(&[
            ("a", list, &[]),
            ("other", others, &[]),
            ("b", list, &["a=", "other"]),
        ])
    };
    let before = flow(&["x", "y"], &["1"]);
    let (changes, carried) = compare_plans(&before, &flow(&["x", "y", "z"], &["1"]));
    assert_eq!(changes, [Changed, Unchanged, Changed]);
    assert_eq!(carried_of(&carried, 2), [(0, 0), (1, 1)]);
    let (changes, carried) = compare_plans(&before, &flow(&["x", "y"], &["1", "2"]));
    assert_eq!(changes, [Unchanged, Changed, Downstream]);
    assert!(carried_of(&carried, 2).is_empty());
}

#[test]
fn equal_values_are_matched_in_their_order() {
    let flow = |list: &[&str]| lists(&[("a", list, &[]), ("b", list, &["a="])]);
    let (_, carried) = compare_plans(&flow(&["x", "y", "x"]), &flow(&["x", "x", "x", "y"]));
    for task in 0..2 {
        assert_eq!(carried_of(&carried, task), [(0, 0), (1, 3), (2, 1)]);
    }
    // Equal values of `b` with different upstream items are not exchanged.
    let before = lists(&[("a", &["x", "y"], &[]), ("b", &["1", "1"], &["a="])]);
    let after = lists(&[("a", &["y", "x"], &[]), ("b", &["1", "1"], &["a="])]);
    let (_, carried) = compare_plans(&before, &after);
    assert_eq!(carried_of(&carried, 1), [(0, 1), (1, 0)]);
}

#[test]
fn explicit_edges_are_compared_by_the_items_they_name() {
    let flow = |list: &[&str], edges: &str| {
        let mut plan = lists(&[("a", list, &[]), ("b", &["p", "q", "r"], &["a"])]);
        let lists = EdgeLists::try_from(edges.to_owned()).expect("edges");
        plan.tasks[1].after[0].edges = Edges::Lists(lists);
        check::check(&plan).expect("a plan");
        plan
    };
    let before = flow(&["x", "y"], "0;0,1;");
    // The same items at other indices, in another order.
    let (changes, carried) = compare_plans(&before, &flow(&["y", "x"], "1;0,1;"));
    assert_eq!(changes, [Changed, Unchanged]);
    assert_eq!(carried_of(&carried, 1), [(0, 0), (1, 1), (2, 2)]);
    let (changes, carried) = compare_plans(&before, &flow(&["x", "z"], "0;0,1;"));
    assert_eq!(changes, [Changed, Downstream]);
    assert_eq!(carried_of(&carried, 1), [(0, 0), (2, 2)]);
    let (changes, carried) = compare_plans(&before, &flow(&["x", "y"], "0;1;"));
    assert_eq!(changes, [Unchanged, Changed]);
    assert_eq!(carried_of(&carried, 1), [(0, 0), (2, 2)]);
}

/// Its items are not known before its source has run.
#[test]
fn each_over_an_output_runs_again_as_a_whole() {
    let flow = |command: &str| {
        let mut plan = plan(&[
            ("list", 1, &[]),
            ("a", 1, &["list"]),
            ("b", 1, &["list", "a="]),
        ]);
        for task in 1..3 {
            plan.tasks[task].items = Items::Output {
                task: 0,
                key: "files".to_owned(),
            };
        }
        Arc::make_mut(&mut plan.tasks[1].spec).work = Work::Command(vec![command.to_owned()]);
        check::check(&plan).expect("a plan");
        Dag::new(Arc::new(plan))
    };
    let same = compare::compare(&flow("x"), &flow("x"), |_| 3);
    assert_eq!(same.changes, [Unchanged; 3]);
    assert_eq!(same.carried.len(), 3);
    let other = compare::compare(&flow("x"), &flow("y"), |_| 3);
    assert_eq!(other.changes, [Unchanged, Changed, Downstream]);
    assert_eq!(other.carried.len(), 1);
}

#[test]
fn a_preview_keeps_the_items_that_a_resume_keeps() {
    let flow = |list: &[&str]| {
        Arc::new(lists(&[
            ("a", list, &[]),
            ("b", list, &["a="]),
            ("tidy", list, &["b!="]),
            ("join", &[], &["b"]),
        ]))
    };
    let before = flow(&["x", "y", "z"]);
    let done = |task, item| ItemResult {
        task,
        item,
        end: ItemEnd::Done,
        outputs: None,
    };
    // `z` of `b` has failed, and was tidied.
    let ended: Vec<_> = (0..3)
        .flat_map(|task| (0..3).map(move |item| done(task, item)))
        .filter(|it| (it.task, it.item) != (1, 2))
        .collect();
    let after = flow(&["w", "x", "y", "z"]);
    let shown = preview(&before, &ended, Some(&after), None).expect("a preview");
    let shown: Vec<_> = shown
        .tasks
        .iter()
        .map(|it| (&*it.name, it.kept, it.runs, it.reason))
        .collect();
    let changed = Some(RerunReason::Changed);
    assert_eq!(
        shown,
        [
            ("a", 3, Some(1), changed),
            ("b", 2, Some(2), changed),
            ("tidy", 2, Some(2), changed),
            ("join", 0, Some(1), Some(RerunReason::Downstream)),
        ]
    );
}
