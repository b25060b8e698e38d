//! Runs stepped by hand: each test ends items, and checks which ones become ready.

use std::collections::BTreeMap;

use baton_model::ids::InstanceId;
use baton_model::spec::{InstanceSpec, Work};
use baton_model::workflow::{Axis, EdgeLists, Edges, ItemEnd, Items, PlanTask, Pool, Upstream};

use super::compare::{self, TaskChange};
use super::*;

mod drawing;
mod matching;
mod outputs;
mod resuming;

/// A task with its edges by name: `x` for success, `x?` for failure, `x!` for any end,
/// `x=` item by item.
fn task(name: &str, items: Items, after: &[&str], plan: &Plan) -> PlanTask {
    let edge = |text: &&str| {
        let name = text.trim_end_matches(['?', '!', '=']);
        let index = plan.tasks.iter().position(|it| it.name == name);
        Upstream {
            task: u32::try_from(index.expect("a task before")).expect("few"),
            condition: match text {
                text if text.contains('?') => Condition::Failure,
                text if text.contains('!') => Condition::End,
                _ => Condition::Success,
            },
            edges: if text.contains('=') {
                Edges::Same
            } else {
                Edges::All
            },
        }
    };
    PlanTask {
        name: name.to_owned(),
        items,
        after: after.iter().map(edge).collect(),
        ..PlanTask::default()
    }
}

fn plan(tasks: &[(&str, u32, &[&str])]) -> Plan {
    let mut plan = Plan::default();
    for (name, count, after) in tasks {
        let items = match count {
            1 => Items::One,
            count => Items::Range {
                first: 0,
                step: 1,
                count: *count,
            },
        };
        let task = task(name, items, after, &plan);
        plan.tasks.push(task);
    }
    check::check(&plan).expect("a plan");
    plan
}

/// A run of one plan that checks a takeover after every step.
struct Trial {
    dag: Dag,
    progress: Progress,
    ended: Vec<ItemResult>,
    next: u64,
}

impl Trial {
    fn new(plan: Plan) -> Self {
        let dag = Dag::new(Arc::new(plan));
        let progress = Progress::new(&dag, [], []);
        Self {
            dag,
            progress,
            ended: Vec::new(),
            next: 1,
        }
    }

    /// Starts all ready items; returns their names.
    fn release(&mut self) -> Vec<String> {
        let mut begun = Vec::new();
        while let Some((task, item)) = self.progress.next_ready(&self.dag) {
            self.next += 1;
            let id = InstanceId(self.next);
            assert!(self.progress.start_item(&self.dag, task, item, id));
            let own = &self.dag.plan.tasks[task as usize];
            begun.push(match own.items {
                Items::One => own.name.clone(),
                _ => format!("{}{item}", own.name),
            });
        }
        self.restart();
        begun
    }

    fn end(&mut self, name: &str, item: u32, end: ItemEnd, outputs: Option<&str>) {
        let task = self.dag.index_of(name).expect("a task");
        let ended = ItemResult {
            task,
            item,
            end,
            outputs: outputs.map(Arc::from),
        };
        self.progress.end_item(&self.dag, &ended);
        self.ended.push(ended);
        self.restart();
    }

    fn done(&mut self, name: &str, item: u32) -> Vec<String> {
        self.end(name, item, ItemEnd::Done, None);
        self.release()
    }

    fn fails(&mut self, name: &str, item: u32) -> Vec<String> {
        self.end(name, item, ItemEnd::Failed, None);
        self.release()
    }

    /// A leader that takes over computes the same progress.
    fn restart(&self) {
        let live: Vec<_> = self.progress.live().collect();
        let anew = Progress::new(&self.dag, live, self.ended.clone());
        assert_eq!(anew, self.progress);
    }

    /// Starts the next generation; returns how many DONE items are invalidated.
    fn resume(&mut self) -> usize {
        self.ended.retain(|it| it.end == ItemEnd::Done);
        let done = self.ended.len();
        let stale = invalidate::stale_spans(&self.dag, &self.ended);
        self.ended = invalidate::without(std::mem::take(&mut self.ended), &stale);
        self.progress = Progress::new(&self.dag, [], self.ended.clone());
        self.restart();
        done - self.ended.len()
    }

    fn state(&self, name: &str, item: u32) -> ItemState {
        let task = self.dag.index_of(name).expect("a task");
        self.progress.state(task, item).expect("an item")
    }
}

#[test]
fn a_diamond_goes_on_when_both_sides_are_done() {
    let mut run = Trial::new(plan(&[
        ("a", 1, &[]),
        ("b", 1, &["a"]),
        ("c", 1, &["a"]),
        ("d", 1, &["b", "c"]),
    ]));
    assert_eq!(run.release(), ["a"]);
    assert_eq!(run.done("a", 0), ["b", "c"]);
    assert!(run.done("c", 0).is_empty());
    assert_eq!(run.done("b", 0), ["d"]);
    assert!(!run.progress.is_over());
    assert!(run.done("d", 0).is_empty());
    assert!(run.progress.is_over() && run.progress.is_successful());
}

#[test]
fn a_fork_joins_when_every_item_is_done_and_items_may_follow_one_by_one() {
    let mut run = Trial::new(plan(&[
        ("fork", 3, &[]),
        ("each", 3, &["fork="]),
        ("join", 1, &["each"]),
    ]));
    assert_eq!(run.release(), ["fork0", "fork1", "fork2"]);
    assert_eq!(run.done("fork", 2), ["each2"]);
    assert!(run.done("each", 2).is_empty());
    assert_eq!(run.done("fork", 0), ["each0"]);
    assert_eq!(run.done("fork", 1), ["each1"]);
    assert!(run.done("each", 1).is_empty());
    assert_eq!(run.done("each", 0), ["join"]);
}

#[test]
fn a_failure_blocks_what_needs_success_and_lets_its_handlers_begin() {
    let mut run = Trial::new(plan(&[
        ("a", 1, &[]),
        ("b", 1, &["a"]),
        ("c", 1, &["b"]),
        ("hint", 1, &["a?"]),
        ("always", 1, &["c!"]),
        ("fine", 1, &["a", "hint"]),
    ]));
    assert_eq!(run.release(), ["a"]);
    assert_eq!(run.fails("a", 0), ["hint", "always"]);
    assert_eq!(run.state("b", 0), ItemState::Blocked);
    assert_eq!(run.state("c", 0), ItemState::Blocked);
    run.done("hint", 0);
    assert_eq!(run.state("fine", 0), ItemState::Blocked);
    run.done("always", 0);
    assert!(run.progress.is_over() && !run.progress.is_successful());
}

#[test]
fn a_handler_of_what_went_well_is_skipped_and_so_is_what_needs_it() {
    let mut run = Trial::new(plan(&[
        ("a", 2, &[]),
        ("hint", 1, &["a?"]),
        ("after", 1, &["hint"]),
        ("end", 1, &["after!"]),
    ]));
    run.release();
    run.done("a", 0);
    assert_eq!(run.done("a", 1), ["end"]);
    assert_eq!(run.state("hint", 0), ItemState::Skipped);
    assert_eq!(run.state("after", 0), ItemState::Skipped);
    run.done("end", 0);
    assert!(run.progress.is_over() && run.progress.is_successful());
}

/// One of two branches is taken, and their join runs.
#[test]
fn a_join_is_skipped_only_if_all_that_it_needs_was() {
    let mut plan = plan(&[
        ("full", 1, &[]),
        ("fast", 1, &[]),
        ("join", 1, &["full", "fast"]),
        ("chain", 1, &["full"]),
        ("end", 1, &["chain", "full"]),
    ]);
    plan.tasks[0].when = Some("false".to_owned());
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["fast"]);
    assert_eq!(run.done("fast", 0), ["join"]);
    assert_eq!(run.state("chain", 0), ItemState::Skipped);
    assert_eq!(run.state("end", 0), ItemState::Skipped);
    run.done("join", 0);
    assert!(run.progress.is_over() && run.progress.is_successful());
}

#[test]
fn what_is_there_for_failures_begins_with_one_and_still_needs_its_successes() {
    let mut run = Trial::new(plan(&[
        ("a", 1, &[]),
        ("b", 1, &[]),
        ("alarm", 1, &["a?", "b?"]),
        ("both", 1, &["a", "b?"]),
        ("neither", 1, &["a?", "b"]),
    ]));
    run.release();
    run.done("a", 0);
    assert_eq!(run.fails("b", 0), ["alarm", "both"]);
    assert_eq!(run.state("neither", 0), ItemState::Blocked);
}

#[test]
fn explicit_edges_set_free_what_has_all_of_its_own() {
    let mut plan = plan(&[("a", 4, &[]), ("b", 3, &["a"])]);
    let lists = EdgeLists::try_from("0,1;1,2;".to_owned()).expect("edges");
    plan.tasks[1].after[0].edges = Edges::Lists(lists);
    check::check(&plan).expect("a plan");
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["a0", "a1", "a2", "a3", "b2"]);
    assert!(run.done("a", 1).is_empty());
    assert_eq!(run.done("a", 2), ["b1"]);
    assert!(run.fails("a", 0).is_empty());
    assert_eq!(run.state("b", 0), ItemState::Blocked);
}

#[test]
fn limits_of_the_run_of_a_template_and_of_a_task_hold_at_once() {
    let mut plan = plan(&[("a", 9, &[]), ("b", 9, &[]), ("c", 9, &[])]);
    plan.pools = vec![Pool {
        name: "heavy".to_owned(),
        max_concurrent: 3,
    }];
    plan.max_concurrent = Some(6);
    plan.tasks[0].max_concurrent = Some(2);
    plan.tasks[0].pool = Some(0);
    plan.tasks[1].pool = Some(0);
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["a0", "a1", "b0", "c0", "c1", "c2"]);
    assert_eq!(run.done("c", 1), ["c3"]);
    assert_eq!(run.done("b", 0), ["b1"]);
    assert_eq!(run.done("a", 0), ["a2"]);
}

#[test]
fn the_first_failure_lets_nothing_more_begin_but_handlers() {
    let mut plan = plan(&[("a", 5, &[]), ("b", 1, &["a"]), ("tidy", 1, &["b!"])]);
    plan.fail_fast = true;
    plan.tasks[0].max_concurrent = Some(2);
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["a0", "a1"]);
    assert!(run.fails("a", 1).is_empty());
    assert_eq!(run.state("a", 4), ItemState::Blocked);
    assert_eq!(run.done("a", 0), ["tidy"]);
    run.done("tidy", 0);
    assert!(run.progress.is_over() && !run.progress.is_successful());
}

/// `when` and item lists are evaluated regardless of earlier failures; the restarts of [`Trial`]
/// check it.
#[test]
fn what_is_not_wanted_is_skipped_also_after_the_first_failure() {
    let mut plan = plan(&[
        ("bad", 1, &[]),
        ("a", 1, &[]),
        ("b", 2, &["a"]),
        ("map", 1, &["a"]),
        ("tidy", 1, &["b?"]),
    ]);
    plan.fail_fast = true;
    plan.tasks[2].when = Some("item > 1".to_owned());
    plan.tasks[3].items = Items::Output {
        task: 1,
        key: "files".to_owned(),
    };
    let mut run = Trial::new(plan);
    assert_eq!(run.release(), ["bad", "a"]);
    assert!(run.fails("bad", 0).is_empty());
    run.end("a", 0, ItemEnd::Done, Some(r#"{"files": ["x", "y"]}"#));
    assert!(run.release().is_empty(), "nothing of b has failed");
    assert_eq!(run.state("b", 0), ItemState::Skipped);
    assert_eq!(run.state("map", 1), ItemState::Blocked);
    assert_eq!(run.state("tidy", 0), ItemState::Skipped);
    assert!(run.progress.is_over());
}

#[test]
fn a_task_without_items_passes_its_block_reason_on() {
    let tasks: &[(&str, u32, &[&str])] = &[
        ("a", 1, &[]),
        ("none", 0, &["a"]),
        ("b", 1, &["none"]),
        ("tidy", 1, &["none?"]),
    ];
    let mut run = Trial::new(plan(tasks));
    run.release();
    assert_eq!(run.fails("a", 0), ["tidy"]);
    assert_eq!(run.state("b", 0), ItemState::Blocked);
    let mut run = Trial::new(plan(tasks));
    run.release();
    assert_eq!(run.done("a", 0), ["b"]);
    assert_eq!(run.state("tidy", 0), ItemState::Skipped);
}

#[test]
fn a_condition_is_evaluated_for_each_item_with_upstream_outputs() {
    let mut plan = plan(&[("a", 1, &[]), ("b", 4, &["a"]), ("c", 1, &["a", "b"])]);
    plan.tasks[1].when = Some("item < tasks.a.outputs.n".to_owned());
    plan.tasks[2].when = Some("tasks.a.outputs.unknown == 1".to_owned());
    let mut run = Trial::new(plan);
    run.release();
    run.end("a", 0, ItemEnd::Done, Some(r#"{"n": 2}"#));
    assert_eq!(run.release(), ["b0", "b1"]);
    run.done("b", 0);
    run.done("b", 1);
    assert_eq!(run.state("c", 0), ItemState::Failed);
    let problems: Vec<_> = run.progress.problems().collect();
    assert!(
        problems[0].2.contains("`a` has no output `unknown`"),
        "{problems:?}"
    );
}

#[test]
fn a_task_has_an_item_for_each_element_of_an_output() {
    let mut plan = plan(&[
        ("list", 1, &[]),
        ("map", 1, &["list"]),
        ("join", 1, &["map"]),
    ]);
    plan.tasks[1].items = Items::Output {
        task: 0,
        key: "files".to_owned(),
    };
    for (outputs, begun) in [
        (r#"{"files": ["a", {"n": 2}]}"#, vec!["map0", "map1"]),
        (r#"{"files": []}"#, vec!["join"]),
        (r#"{"files": 3}"#, vec![]),
        (r#"{}"#, vec![]),
    ] {
        let mut run = Trial::new(plan.clone());
        assert_eq!(run.release(), ["list"]);
        assert!(!run.progress.is_mapped(1));
        run.end("list", 0, ItemEnd::Done, Some(outputs));
        assert_eq!(run.release(), begun, "{outputs}");
        if begun.len() == 2 {
            let value = run.progress.value(&run.dag, 1, 1);
            assert_eq!(
                value.map(|it| it.to_string()).as_deref(),
                Some(r#"{"n":2}"#)
            );
            run.done("map", 0);
            assert_eq!(run.done("map", 1), ["join"]);
        } else if begun.is_empty() {
            assert!(run.progress.is_over() && !run.progress.is_successful());
            assert_eq!(run.state("join", 0), ItemState::Blocked);
        }
    }
    let mut run = Trial::new(plan);
    run.release();
    assert!(run.fails("list", 0).is_empty());
    assert_eq!(run.state("map", 0), ItemState::Blocked);
}

#[test]
fn what_comes_of_a_failure_does_not_depend_on_what_was_listed_or_asked_before_it() {
    let mut plan = plan(&[
        ("bad", 1, &[]),
        ("list", 1, &[]),
        ("map", 1, &["list"]),
        ("some", 2, &["list"]),
    ]);
    plan.fail_fast = true;
    plan.tasks[2].items = Items::Output {
        task: 1,
        key: "files".to_owned(),
    };
    plan.tasks[3].when = Some("item < tasks.list.outputs.n".to_owned());
    let mut run = Trial::new(plan);
    run.release();
    run.fails("bad", 0);
    // Every step checks that another leader would compute the same.
    let outputs = r#"{"files": [1, 2, 3], "n": 1}"#;
    run.end("list", 0, ItemEnd::Done, Some(outputs));
    assert_eq!(run.progress.tally(2).of(ItemState::Blocked), 3);
    assert_eq!(run.state("some", 0), ItemState::Blocked);
    assert_eq!(run.state("some", 1), ItemState::Skipped);
    assert!(run.progress.is_over());
}

#[test]
fn an_instance_has_its_item_and_upstream_outputs_in_its_command() {
    let mut plan = plan(&[("a", 2, &[]), ("b", 1, &["a"])]);
    let command = |text: &str| {
        Arc::new(InstanceSpec {
            work: Work::Command(vec![text.to_owned()]),
            ..InstanceSpec::default()
        })
    };
    plan.tasks[0].spec = command("run {{ item }} {{{{ item }}");
    plan.tasks[1].spec = command("join {{ tasks.a.outputs.n }}");
    let mut run = Trial::new(plan);
    run.release();
    let part = |task, item| baton_model::workflow::Part {
        run: baton_model::ids::RunId(7),
        generation: baton_model::ids::Generation(2),
        task,
        item,
    };
    let spec = bind::spec(&run.dag, &run.progress, part(0, 1));
    assert_eq!(
        spec.work,
        Work::Command(vec!["run 1 {{ item }}".to_owned()])
    );
    assert_eq!(spec.name, "a[1]");
    let env = |name: &str| spec.env.get(name).map(String::as_str);
    assert_eq!(
        (env("BATON_RUN"), env("BATON_ITEM")),
        (Some("r7"), Some("1"))
    );
    run.end("a", 1, ItemEnd::Done, Some(r#"{"n": "x"}"#));
    run.end("a", 0, ItemEnd::Done, Some(r#"{"n": 5}"#));
    run.release();
    let spec = bind::spec(&run.dag, &run.progress, part(1, 0));
    assert_eq!(spec.work, Work::Command(vec![r#"join [5,"x"]"#.to_owned()]));
}

#[test]
fn an_item_that_needs_a_missing_output_fails_with_its_reason() {
    let mut plan = plan(&[("a", 1, &[]), ("b", 1, &["a"])]);
    plan.tasks[1].spec = Arc::new(InstanceSpec {
        work: Work::Command(vec!["{{ tasks.a.outputs.n }}".to_owned()]),
        ..InstanceSpec::default()
    });
    let mut run = Trial::new(plan);
    run.release();
    assert!(run.done("a", 0).is_empty());
    assert_eq!(run.state("b", 0), ItemState::Failed);
    assert_eq!(run.progress.problems().count(), 1);
}

/// New index of each carried item by its old one.
type CarriedMap = BTreeMap<(u32, u32), (u32, u32)>;

fn compare_plans(before: &Plan, after: &Plan) -> (Vec<TaskChange>, CarriedMap) {
    let before = Dag::new(Arc::new(before.clone()));
    let after = Dag::new(Arc::new(after.clone()));
    let item_counts = |task: u32| {
        let items = &before.plan.tasks[task as usize].items;
        u32::try_from(items::count(items).expect("known")).expect("few")
    };
    let comparison = compare::compare(&before, &after, item_counts);
    let index = compare::CarriedIndex::new(&comparison.carried);
    let all = (0..8).flat_map(|task| (0..8).map(move |item| (task, item)));
    let moved = all.filter_map(|(task, item)| Some(((task, item), index.of(task, item)?)));
    (comparison.changes, moved.collect())
}

#[test]
fn what_changed_runs_again_with_all_that_comes_after_it_and_nothing_else() {
    let before = plan(&[
        ("a", 1, &[]),
        ("b", 1, &["a"]),
        ("c", 1, &["b"]),
        ("d", 1, &["a"]),
    ]);
    let mut after = plan(&[
        ("d", 1, &[]),
        ("a", 1, &[]),
        ("b", 1, &["a"]),
        ("c", 1, &["b"]),
    ]);
    after.tasks[0] = task("d", Items::One, &["a"], &after);
    after.tasks.swap(0, 1);
    for task in &mut after.tasks {
        for after in &mut task.after {
            after.task = match after.task {
                0 => 1,
                1 => 0,
                other => other,
            };
        }
    }
    let changed = Arc::make_mut(&mut after.tasks[2].spec);
    changed.work = Work::Command(vec!["other".to_owned()]);
    // Placement and retries are not contents.
    Arc::make_mut(&mut after.tasks[0].spec).priority = 9;
    let (changes, carried) = compare_plans(&before, &after);
    assert_eq!(
        changes,
        [
            TaskChange::Unchanged,
            TaskChange::Unchanged,
            TaskChange::Changed,
            TaskChange::Downstream
        ]
    );
    assert_eq!(
        carried,
        BTreeMap::from([((0, 0), (0, 0)), ((3, 0), (1, 0))])
    );
}

#[test]
fn a_rerun_includes_downstream_tasks_only_if_requested() {
    let plan = plan(&[("a", 2, &[]), ("b", 1, &["a"]), ("c", 1, &["b"])]);
    let dag = Dag::new(Arc::new(plan));
    let item_counts = |task| if task == 0 { 2 } else { 1 };
    let tasks = |downstream| {
        let spans = invalidate::requested_spans(&dag, 0, downstream, item_counts);
        spans
            .iter()
            .map(|it| (it.task, it.last))
            .collect::<Vec<_>>()
    };
    assert_eq!(tasks(false), [(0, 1)]);
    assert_eq!(tasks(true), [(0, 1), (1, 0), (2, 0)]);
}

#[test]
fn an_invalid_plan_is_refused() {
    let good = plan(&[("a", 2, &[]), ("b", 2, &["a="])]);
    let edges = |text: &str| Edges::Lists(EdgeLists::try_from(text.to_owned()).expect("edges"));
    type Corruption = Box<dyn Fn(&mut Plan)>;
    let bad: Vec<Corruption> = vec![
        Box::new(|plan| plan.tasks[1].name = "a".to_owned()),
        Box::new(|plan| plan.tasks[0].after = plan.tasks[1].after.clone()),
        Box::new(|plan| plan.tasks[1].items = Items::One),
        Box::new(|plan| plan.tasks[1].when = Some("(".to_owned())),
        Box::new(|plan| plan.tasks[1].when = Some("tasks.b.outputs.x".to_owned())),
        Box::new(move |plan| {
            plan.tasks[1].after[0].edges = edges("0;1");
            plan.tasks[1].when = Some("tasks.a.outputs.x".to_owned());
        }),
        Box::new(|plan| plan.tasks[1].pool = Some(0)),
        Box::new(|plan| plan.max_concurrent = Some(0)),
        Box::new(move |plan| plan.tasks[1].after[0].edges = edges("0")),
        Box::new(move |plan| plan.tasks[1].after[0].edges = edges("0;2")),
        Box::new(|plan| {
            plan.tasks[0].items = Items::Range {
                first: 0,
                step: 1,
                count: u32::MAX,
            }
        }),
        Box::new(|plan| {
            let values = vec!["1".to_owned(); 100_000];
            let axis = |name: &str| Axis {
                name: name.to_owned(),
                values: values.clone(),
            };
            plan.tasks[0].items = Items::Product(vec![axis("a"), axis("b"), axis("c"), axis("d")]);
        }),
        Box::new(|plan| {
            plan.tasks[1].items = Items::Output {
                task: 0,
                key: "k".to_owned(),
            };
        }),
    ];
    assert_eq!(check::check(&good), Ok(()));
    for (at, spoil) in bad.iter().enumerate() {
        let mut plan = good.clone();
        spoil(&mut plan);
        assert!(check::check(&plan).is_err(), "{at}");
    }
}
