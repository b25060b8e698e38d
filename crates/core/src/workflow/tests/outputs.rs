//! Upstream outputs as items see them.

use super::*;

fn command(plan: &mut Plan, task: usize, words: &[&str]) {
    let words = words.iter().map(|it| (*it).to_owned()).collect();
    plan.tasks[task].spec = Arc::new(InstanceSpec {
        work: Work::Command(words),
        ..InstanceSpec::default()
    });
}

fn words(run: &Trial, task: u32, item: u32) -> Vec<String> {
    let part = baton_model::workflow::Part {
        run: baton_model::ids::RunId(1),
        generation: baton_model::ids::Generation(1),
        task,
        item,
    };
    match bind::spec(&run.dag, &run.progress, part).work {
        Work::Command(words) => words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_item_connected_item_by_item_sees_the_outputs_of_its_own_upstream_item() {
    let mut plan = plan(&[("up", 3, &[]), ("down", 3, &["up="]), ("all", 1, &["up"])]);
    command(&mut plan, 1, &["{{ tasks.up.outputs.x }}"]);
    command(&mut plan, 2, &["{{ tasks.up.outputs.x }}"]);
    plan.tasks[1].when = Some("tasks.up.outputs.x > 10".to_owned());
    check::check(&plan).expect("a plan");
    let mut run = Trial::new(plan);
    run.release();
    run.end("up", 2, ItemEnd::Done, Some(r#"{"x": 12, "big": "no"}"#));
    assert_eq!(run.release(), ["down2"]);
    assert_eq!(words(&run, 1, 2), ["12"]);
    run.end("up", 0, ItemEnd::Done, Some(r#"{"x": 1}"#));
    assert!(run.release().is_empty());
    assert_eq!(run.state("down", 0), ItemState::Skipped);
    run.end("up", 1, ItemEnd::Done, Some(r#"{"y": 1}"#));
    assert_eq!(run.state("down", 1), ItemState::Failed);
    assert_eq!(run.release(), ["all"]);
    assert_eq!(words(&run, 2, 0), ["[1,null,12]"], "each in its place");
}

#[test]
fn a_missing_output_is_an_error_and_null_if_its_task_is_not_done() {
    let mut plan = plan(&[("up", 2, &[]), ("all", 1, &["up"]), ("tidy", 1, &["up!"])]);
    command(&mut plan, 1, &["{{ tasks.up.outputs.misspelt }}"]);
    plan.tasks[2].when = Some("tasks.up.outputs.x == null or true".to_owned());
    let mut run = Trial::new(plan.clone());
    run.release();
    run.end("up", 0, ItemEnd::Done, Some(r#"{"x": 1}"#));
    run.end("up", 1, ItemEnd::Done, Some(r#"{"x": 2}"#));
    assert_eq!(run.state("all", 0), ItemState::Failed);
    plan.tasks[0].items = Items::One;
    let mut run = Trial::new(plan);
    run.release();
    assert_eq!(run.fails("up", 0), ["tidy"]);
}

#[test]
fn an_item_without_what_its_task_refers_to_fails_and_never_runs() {
    let mut plan = plan(&[("list", 1, &[]), ("map", 1, &["list"])]);
    command(&mut plan, 1, &["rm", "{{ item.dir }}"]);
    plan.tasks[1].items = Items::Output {
        task: 0,
        key: "f".to_owned(),
    };
    let mut run = Trial::new(plan);
    run.release();
    let outputs = r#"{"f": [{"dir": "a"}, {"dri": "b"}, "c"]}"#;
    run.end("list", 0, ItemEnd::Done, Some(outputs));
    assert_eq!(run.release(), ["map0"]);
    assert_eq!(run.state("map", 1), ItemState::Failed);
    assert_eq!(run.state("map", 2), ItemState::Failed);
    let problems: Vec<_> = run.progress.problems().collect();
    assert!(problems[0].2.contains("no `dir`"), "{problems:?}");
}

#[test]
fn items_of_items_are_concatenated_lists_and_single_values() {
    let mut plan = plan(&[("fork", 3, &[]), ("map", 1, &["fork"])]);
    plan.tasks[1].items = Items::Output {
        task: 0,
        key: "v".to_owned(),
    };
    let mut run = Trial::new(plan);
    run.release();
    for (item, outputs) in [r#"{"v": [1, 2]}"#, r#"{"v": 3}"#, "{}"].iter().enumerate() {
        let item = u32::try_from(item).expect("few");
        run.end("fork", item, ItemEnd::Done, Some(outputs));
    }
    assert_eq!(run.release(), ["map0", "map1", "map2"]);
    let value = |item| run.progress.value(&run.dag, 1, item);
    assert_eq!(value(2), Some(serde_json::json!(3)));
}

#[test]
fn tasks_of_the_same_list_are_joined_item_by_item() {
    let mut plan = plan(&[
        ("list", 1, &[]),
        ("setup", 1, &[]),
        ("get", 1, &["list"]),
        ("check", 1, &["list", "setup"]),
    ]);
    let items = Items::Output {
        task: 0,
        key: "f".to_owned(),
    };
    for task in [2, 3] {
        plan.tasks[task].items = items.clone();
    }
    plan.tasks[3].after.push(Upstream {
        task: 2,
        condition: Condition::Success,
        edges: Edges::Same,
    });
    command(&mut plan, 3, &["{{ tasks.get.outputs.x }}"]);
    check::check(&plan).expect("a plan");
    let mut other = plan.clone();
    other.tasks[3].items = Items::Output {
        task: 0,
        key: "g".to_owned(),
    };
    check::check(&other).expect_err("another list");
    let mut run = Trial::new(plan);
    run.release();
    run.end("list", 0, ItemEnd::Done, Some(r#"{"f": ["a", "b", "c"]}"#));
    assert_eq!(run.release(), ["get0", "get1", "get2"]);
    // Before its items may start.
    run.end("get", 1, ItemEnd::Done, Some(r#"{"x": 7}"#));
    assert!(run.release().is_empty());
    assert_eq!(run.done("setup", 0), ["check1"]);
    assert!(run.fails("get", 0).is_empty());
    assert_eq!(run.state("check", 0), ItemState::Blocked);
    run.end("get", 2, ItemEnd::Done, Some(r#"{"x": 8}"#));
    assert_eq!(run.release(), ["check2"]);
    run.done("check", 1);
    run.done("check", 2);
    assert!(run.progress.is_over());
}

/// Its source was skipped, and no other branch can make up for that.
#[test]
fn what_refers_to_the_outputs_of_something_skipped_is_skipped() {
    let mut plan = plan(&[
        ("up", 1, &[]),
        ("other", 1, &[]),
        ("down", 1, &["up", "other"]),
    ]);
    plan.tasks[0].when = Some("false".to_owned());
    command(&mut plan, 2, &["{{ tasks.up.outputs.x }}"]);
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["other"]);
    assert!(run.done("other", 0).is_empty());
    assert_eq!(run.state("down", 0), ItemState::Skipped);
}

/// Otherwise ten thousand instances would hold ten thousand copies of one long list.
#[test]
fn few_instances_with_long_texts_are_in_flight_at_once() {
    let mut plan = plan(&[("up", 2, &[]), ("down", 9_000, &["up"])]);
    command(&mut plan, 1, &["{{ tasks.up.outputs.x }}"]);
    let mut run = Trial::new(plan);
    run.release();
    let outputs = serde_json::json!({ "x": "x".repeat(60_000) }).to_string();
    run.end("up", 0, ItemEnd::Done, Some(&outputs));
    run.end("up", 1, ItemEnd::Done, Some(&outputs));
    let begun = run.release().len();
    assert!((100..1_000).contains(&begun), "{begun}");
}
