//! Which items stay DONE when a run is resumed.

use baton_model::workflow::{CarriedItems, ItemSpan};

use super::*;

fn mapped(plan: &mut Plan, task: usize, from: u32) {
    plan.tasks[task].items = Items::Output {
        task: from,
        key: "files".to_owned(),
    };
}

#[test]
fn a_handler_reruns_with_its_upstream_task_and_so_does_everything_downstream() {
    let mut run = Trial::new(plan(&[
        ("a", 1, &[]),
        ("tidy", 1, &["a!"]),
        ("told", 1, &["tidy"]),
        ("alarm", 1, &["a?"]),
        ("apart", 1, &[]),
    ]));
    assert_eq!(run.release(), ["a", "apart"]);
    run.done("apart", 0);
    assert_eq!(run.fails("a", 0), ["tidy", "alarm"]);
    assert_eq!(run.done("tidy", 0), ["told"]);
    run.done("told", 0);
    run.done("alarm", 0);
    assert_eq!(run.resume(), 3);
    assert_eq!(run.release(), ["a"]);
    assert_eq!(run.done("a", 0), ["tidy"]);
    assert_eq!(run.state("alarm", 0), ItemState::Skipped);
    assert_eq!(run.done("tidy", 0), ["told"]);
    run.done("told", 0);
    assert!(run.progress.is_over() && run.progress.is_successful());
}

#[test]
fn a_handler_connected_item_by_item_reruns_for_the_items_that_rerun() {
    let mut run = Trial::new(plan(&[("a", 3, &[]), ("tidy", 3, &["a!="])]));
    run.release();
    run.done("a", 0);
    run.fails("a", 1);
    run.done("a", 2);
    for item in 0..3 {
        run.done("tidy", item);
    }
    assert_eq!(run.resume(), 1);
    assert_eq!(run.release(), ["a1"]);
    assert_eq!(run.done("a", 1), ["tidy1"]);
}

/// `retry --task other` without the downstream tasks.
#[test]
fn items_of_a_map_stay_done_when_another_upstream_task_reruns() {
    let mut plan = plan(&[
        ("list", 2, &[]),
        ("other", 1, &[]),
        ("map", 1, &["list", "other"]),
        ("join", 1, &["map"]),
    ]);
    mapped(&mut plan, 2, 0);
    plan.tasks[0].when = Some("item == 0".to_owned());
    let mut run = Trial::new(plan);
    run.release();
    run.end("list", 0, ItemEnd::Done, Some(r#"{"files": [1, 2]}"#));
    run.done("other", 0);
    run.done("map", 0);
    run.done("map", 1);
    assert!(run.fails("join", 0).is_empty());
    run.ended.retain(|it| it.task != 1);
    assert_eq!(run.resume(), 0);
    assert_eq!(run.release(), ["other", "join"]);
    assert!(run.done("other", 0).is_empty());
    assert!(run.done("join", 0).is_empty());
    assert!(run.progress.is_over() && run.progress.is_successful());
    // If the list is produced again, its items may be different ones.
    run.ended.retain(|it| it.task != 0);
    assert_eq!(run.resume(), 2);
    assert_eq!(run.release(), ["list0"]);
    assert!(!run.progress.is_mapped(2));
}

/// Outputs of the second generation make other items of the same indices.
#[test]
fn items_of_a_map_are_replaced_when_their_source_reruns() {
    let mut plan = plan(&[("list", 3, &[]), ("map", 1, &["list!"])]);
    mapped(&mut plan, 1, 0);
    let mut run = Trial::new(plan);
    run.release();
    run.end("list", 0, ItemEnd::Done, Some(r#"{"files": ["a"]}"#));
    run.fails("list", 1);
    run.end("list", 2, ItemEnd::Done, Some(r#"{"files": ["c"]}"#));
    assert_eq!(run.release(), ["map0", "map1"]);
    run.done("map", 0);
    run.done("map", 1);
    assert_eq!(run.resume(), 2);
    assert_eq!(run.release(), ["list1"]);
    run.end("list", 1, ItemEnd::Done, Some(r#"{"files": ["b"]}"#));
    assert_eq!(run.release(), ["map0", "map1", "map2"]);
    run.fails("map", 1);
    run.done("map", 0);
    run.done("map", 2);
    assert!(!run.progress.is_successful());
    assert_eq!(run.resume(), 0);
    assert_eq!(run.release(), ["map1"]);
}

/// Another leader restores stored items, even if only a failure made them ready.
#[test]
fn a_map_for_failures_has_its_items_also_after_a_takeover() {
    let mut plan = plan(&[("list", 4, &[]), ("map", 1, &["list!"])]);
    mapped(&mut plan, 1, 0);
    plan.fail_fast = true;
    plan.tasks[0].max_concurrent = Some(1);
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["list0"]);
    run.end("list", 0, ItemEnd::Done, Some(r#"{"files": [1, 2]}"#));
    assert_eq!(run.release(), ["list1"]);
    assert_eq!(run.fails("list", 1), ["map0", "map1"]);
    assert!(run.done("map", 0).is_empty());
    assert_eq!(run.progress.live().count(), 1);
    run.done("map", 1);
    assert!(run.progress.is_over());
}

#[test]
fn items_that_rerun_are_not_carried_to_another_plan() {
    let span = |task, first, last| ItemSpan { task, first, last };
    let carried = vec![CarriedItems {
        from: span(0, 0, 9),
        task: 3,
        first: 5,
    }];
    let kept = invalidate::carried_without(carried.clone(), &[span(3, 7, 8), span(3, 14, 14)]);
    let spans: Vec<_> = kept
        .iter()
        .map(|it| (it.from.first, it.from.last, it.first))
        .collect();
    assert_eq!(spans, [(0, 1, 5), (4, 8, 9)]);
    assert_eq!(
        invalidate::carried_without(carried.clone(), &[span(2, 0, 20)]),
        carried
    );
}
