//! What stays DONE when a run goes on, and what does not.

use baton_model::workflow::{CarriedItems, ItemSpan};

use super::*;

fn mapped(plan: &mut Plan, task: usize, from: u32) {
    plan.tasks[task].items = Items::Output {
        task: from,
        key: "files".to_owned(),
    };
}

#[test]
fn what_answers_to_an_end_is_done_again_with_that_and_so_is_what_comes_after_it() {
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
fn what_answers_item_by_item_is_done_again_for_those_that_are() {
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

/// `retry --task other` without what comes after it.
#[test]
fn items_of_a_map_stay_done_when_something_else_before_them_is_done_again() {
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
    // With a list that is made anew, its items are not what they were.
    run.ended.retain(|it| it.task != 0);
    assert_eq!(run.resume(), 2);
    assert_eq!(run.release(), ["list0"]);
    assert!(!run.progress.is_mapped(2));
}

/// What the second generation puts out makes other items of the same places.
#[test]
fn items_of_a_map_are_made_anew_when_what_puts_them_out_goes_on() {
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

/// What another leader finds on record has its place, also where only a failure made room for it.
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
fn what_is_carried_to_another_plan_leaves_out_what_is_done_again() {
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
