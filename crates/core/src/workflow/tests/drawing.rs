//! Random plans, results and resumes: the invariants hold for all of them.

use baton_testing::Rng;

use super::*;

fn is_output(task: &PlanTask) -> bool {
    matches!(task.items, Items::Output { .. })
}

fn drawn(rng: &mut Rng) -> Plan {
    let mut plan = Plan {
        fail_fast: rng.below(4) == 0,
        max_concurrent: (rng.below(2) == 0).then_some(3),
        ..Plan::default()
    };
    let count = 2 + rng.below(6);
    for at in 0..count {
        let items = match rng.below(7) {
            0 | 1 => Items::One,
            2 if at > 0 => Items::Output {
                task: u32::try_from(rng.below(at)).expect("few"),
                key: "list".to_owned(),
            },
            // Of the same list as another task, with which it may be joined item by item.
            3 if plan.tasks.iter().any(is_output) => {
                let found = plan.tasks.iter().find(|it| is_output(it));
                found.expect("one").items.clone()
            }
            _ => Items::Range {
                first: 0,
                step: 1,
                count: u32::try_from(rng.below(4)).expect("few"),
            },
        };
        let mut own = PlanTask {
            name: format!("t{at}"),
            items,
            ..PlanTask::default()
        };
        for before in 0..at {
            let place = u32::try_from(before).expect("few");
            let source = matches!(&own.items, Items::Output { task, .. } if *task == place);
            if rng.below(3) > 0 && !source {
                continue;
            }
            let theirs = items::count(&plan.tasks[before as usize].items).unwrap_or(0);
            let mine = items::count(&own.items).unwrap_or(0);
            let counted = theirs > 0 && mine > 0 && !source;
            let edges = match rng.below(3) {
                0 if counted && theirs == mine => Edges::Same,
                0 | 1 if is_output(&own) && plan.tasks[before as usize].items == own.items => {
                    Edges::Same
                }
                1 if counted => {
                    let mut lists = EdgeLists::default();
                    for _ in 0..mine {
                        let length = rng.below(3);
                        let list: Vec<_> = (0..length)
                            .map(|_| u32::try_from(rng.below(theirs)).expect("few"))
                            .collect();
                        lists.push(&list).expect("few");
                    }
                    Edges::Lists(lists)
                }
                _ => Edges::All,
            };
            let condition = match rng.below(6) {
                0 => Condition::Failure,
                1 => Condition::End,
                _ => Condition::Success,
            };
            own.after.push(Upstream {
                task: place,
                condition,
                edges,
            });
        }
        if rng.below(6) == 0
            && let Some(after) = own.after.iter().find(|it| it.edges == Edges::All)
        {
            own.when = Some(format!("tasks.t{}.outputs.list != 7", after.task));
        }
        plan.tasks.push(own);
    }
    check::check(&plan).expect("a plan");
    plan
}

/// Any plan, with results in any order, and resumed after failures: it always ends, no item runs
/// twice, none before its upstream items, and a restart at any time changes nothing (see
/// [`Trial::restart`]).
#[test]
fn any_plan_comes_to_its_end_whatever_fails_and_whenever_its_leader_changes() {
    let (mut failed, mut good, mut undone) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let mut run = Trial::new(drawn(&mut rng));
        let bad = rng.below(3) == 0;
        for _generation in 0..4 {
            carry_out(&mut run, &mut rng, bad, seed);
            if run.progress.is_successful() {
                break;
            }
            failed += 1;
            undone += run.resume();
        }
        good += usize::from(run.progress.is_successful());
    }
    assert!(
        good > 300 && failed > 100 && undone > 50,
        "{good} {failed} {undone}"
    );
}

/// Runs one generation to its end.
fn carry_out(run: &mut Trial, rng: &mut Rng, bad: bool, seed: u64) {
    run.release();
    for _ in 0..1_000 {
        let live: Vec<_> = run.progress.live().collect();
        if live.is_empty() {
            break;
        }
        let at = usize::try_from(rng.below(live.len() as u64)).expect("few");
        let (task, item, _) = live[at];
        waits_for_nothing(run, task, item);
        let end = match rng.below(8) {
            0 if bad => ItemEnd::Failed,
            1 if bad => ItemEnd::Halted,
            _ => ItemEnd::Done,
        };
        let outputs = match rng.below(4) {
            0 => None,
            length => Some(serde_json::json!({ "list": vec![length; length as usize] })),
        };
        let outputs = outputs.map(|it| it.to_string());
        let name = run.dag.plan.tasks[task as usize].name.clone();
        run.end(&name, item, end, outputs.as_deref());
        run.release();
    }
    assert!(run.progress.is_over(), "seed {seed}");
    assert!(run.progress.is_idle(), "seed {seed}");
}

fn waits_for_nothing(run: &Trial, task: u32, item: u32) {
    for after in &run.dag.plan.tasks[task as usize].after {
        let all = 0..run.progress.item_count(after.task);
        let awaited: Vec<u32> = match &after.edges {
            Edges::All => all.collect(),
            Edges::Same if run.progress.is_mapped(after.task) => vec![item],
            Edges::Same => vec![0],
            Edges::Lists(lists) => lists.of(item).to_vec(),
        };
        for upstream in awaited {
            let state = run.progress.state(after.task, upstream).expect("an item");
            assert!(
                state.is_settled(),
                "{task}.{item} runs before {}.{upstream}",
                after.task
            );
            if after.condition == Condition::Success {
                let fine = matches!(state, ItemState::Done | ItemState::Skipped);
                assert!(fine, "{task}.{item} runs after {state:?}");
            }
        }
    }
}
