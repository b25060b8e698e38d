//! Random workflow plans for simulated runs, and random changes of them.
//!
//! A seed draws chains, diamonds, forks with a join and random graphs, with every kind of edge
//! and condition. No plan refers to outputs. The items of a task are the numbers from 0, until a
//! change gives it others.

use std::sync::Arc;

use baton_model::alarm::{Deadline, Expectations};
use baton_model::placement::ResourceRequest;
use baton_model::spec::{Exclusive, InstanceSpec, RetryBackoff, RetryBudget, Scale, Work};
use baton_model::task::Resources;
use baton_model::time::Millis;
use baton_model::workflow::{Condition, EdgeLists, Edges, Items, Plan, PlanTask, Pool, Upstream};

use crate::rng::Rng;

/// The prefix of every simulated `when`; the number after it is the value that is skipped.
pub(crate) const EXCLUDED_ITEM: &str = "item != ";

/// Draws a plan; `strict` of a thousand tasks are strict.
pub(crate) fn draw(rng: &mut Rng, name: String, strict: u64) -> Plan {
    let upstream: Vec<Vec<u32>> = match rng.below(4) {
        0 => chain(rng.within(2, 5) as u32),
        1 => vec![vec![], vec![0], vec![0], vec![1, 2]],
        2 => vec![vec![], vec![0], vec![1]],
        _ => random_graph(rng),
    };
    let pools = if rng.chance(300) {
        vec![Pool {
            name: "shared".to_owned(),
            max_concurrent: rng.within(1, 2) as u32,
        }]
    } else {
        Vec::new()
    };
    let mut plan = Plan {
        name,
        owner: format!("owner{}", rng.below(3)),
        max_concurrent: rng.chance(250).then(|| rng.within(1, 3) as u32),
        fail_fast: rng.chance(250),
        timeout: rng.chance(150).then(|| Millis(1_000 * rng.within(60, 900))),
        pools,
        expected: expectations(upstream.len() as u64),
        ..Plan::default()
    };
    for (at, upstream) in upstream.iter().enumerate() {
        let task = task(rng, &plan, format!("t{at}"), upstream, strict);
        plan.tasks.push(task);
    }
    plan
}

/// Splits a plan into the parts that a client submits one after the other.
pub(crate) fn parts(rng: &mut Rng, mut plan: Plan) -> Vec<Arc<Plan>> {
    let mut parts = Vec::new();
    let mut rest = std::mem::take(&mut plan.tasks);
    while !rest.is_empty() {
        let tail = rest.split_off(rng.within(1, rest.len() as u64) as usize);
        let head = if parts.is_empty() {
            plan.clone()
        } else {
            Plan::default()
        };
        parts.push(Arc::new(Plan {
            tasks: std::mem::replace(&mut rest, tail),
            ..head
        }));
    }
    parts
}

/// Changes a plan as a user might before a resume.
pub(crate) fn change(rng: &mut Rng, plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for _ in 0..rng.within(1, 2) {
        match rng.below(7) {
            0 => change_work(rng, &mut plan),
            1 => {
                let upstream: Vec<u32> = (0..plan.tasks.len() as u32)
                    .filter(|_| rng.chance(300))
                    .collect();
                let name = fresh_name(rng);
                let task = task(rng, &plan, name, &upstream, 0);
                plan.tasks.push(task);
            }
            2 if plan.tasks.len() > 1 => drop(plan.tasks.pop()),
            3 => {
                plan.max_concurrent = rng.chance(500).then(|| rng.within(1, 3) as u32);
                plan.fail_fast = rng.chance(250);
            }
            4 | 5 => change_items(rng, &mut plan),
            _ => {
                // Every index shifts by one.
                let name = fresh_name(rng);
                let first = task(rng, &plan, name, &[], 0);
                for after in plan.tasks.iter_mut().flat_map(|it| &mut it.after) {
                    after.task += 1;
                }
                plan.tasks.insert(0, first);
            }
        }
    }
    plan
}

/// The number of items of a simulated task.
pub(crate) fn count(task: &PlanTask) -> u32 {
    match &task.items {
        Items::Range { count, .. } => *count,
        Items::Values(values) => values.len() as u32,
        _ => 1,
    }
}

/// The value of an item of a simulated task; none if the task has a single item without a value.
pub(crate) fn value(task: &PlanTask, item: u32) -> Option<u64> {
    match &task.items {
        Items::Range { .. } => Some(u64::from(item)),
        Items::Values(values) => values.get(item as usize)?.parse().ok(),
        _ => None,
    }
}

fn chain(length: u32) -> Vec<Vec<u32>> {
    (0..length)
        .map(|at| at.checked_sub(1).into_iter().collect())
        .collect()
}

fn random_graph(rng: &mut Rng) -> Vec<Vec<u32>> {
    let length = rng.within(2, 7) as u32;
    (0..length)
        .map(|at| (0..at).filter(|_| rng.chance(400)).collect())
        .collect()
}

fn fresh_name(rng: &mut Rng) -> String {
    format!("n{:08x}", rng.next() >> 32)
}

fn task(rng: &mut Rng, plan: &Plan, name: String, upstream: &[u32], strict: u64) -> PlanTask {
    let mut items = match rng.below(20) {
        0 => numbers(0),
        1..=9 => numbers(rng.within(1, 4) as u32),
        _ => Items::One,
    };
    // As many as upstream, so that they can be connected item by item.
    if let Some(first) = upstream.first()
        && rng.chance(300)
    {
        items = plan.tasks[*first as usize].items.clone();
    }
    let mut task = PlanTask {
        spec: Arc::new(spec(rng, &name, strict)),
        name,
        max_concurrent: rng.chance(150).then(|| rng.within(1, 2) as u32),
        pool: (!plan.pools.is_empty() && rng.chance(400)).then_some(0),
        ..PlanTask::default()
    };
    if matches!(items, Items::Range { .. }) && rng.chance(150) {
        task.when = Some(format!("{EXCLUDED_ITEM}{}", rng.below(4)));
    }
    task.items = items;
    for at in upstream {
        let theirs = count(&plan.tasks[*at as usize]);
        let edges = edges(rng, count(&task), theirs);
        let condition = match rng.below(8) {
            0 => Condition::Failure,
            1 => Condition::End,
            _ => Condition::Success,
        };
        task.after.push(Upstream {
            task: *at,
            condition,
            edges,
        });
    }
    task
}

const fn numbers(count: u32) -> Items {
    Items::Range {
        first: 0,
        step: 1,
        count,
    }
}

fn edges(rng: &mut Rng, own: u32, theirs: u32) -> Edges {
    if own == theirs && rng.chance(500) {
        return Edges::Same;
    }
    if !rng.chance(250) {
        return Edges::All;
    }
    let mut lists = EdgeLists::default();
    for _ in 0..own {
        let list: Vec<u32> = (0..theirs).filter(|_| rng.chance(500)).collect();
        // Simulated lists are too short to overflow.
        if lists.push(&list).is_err() {
            return Edges::All;
        }
    }
    Edges::Lists(lists)
}

fn spec(rng: &mut Rng, name: &str, strict: u64) -> InstanceSpec {
    let request = Resources {
        cpu_milli: 250 * rng.below(5),
        ..Resources::default()
    };
    InstanceSpec {
        work: Work::Command(vec![name.to_owned()]),
        request: ResourceRequest {
            resources: request,
            ..ResourceRequest::default()
        },
        exclusive: if rng.chance(strict) {
            Exclusive::Strict
        } else {
            Exclusive::Timed
        },
        retry: RetryBudget {
            failures_max: rng.below(3) as u32,
            losses_max: 1_000,
            backoff: RetryBackoff {
                first: Millis(rng.below(2_000)),
                max: Millis(3_000),
            },
            scale: Scale::default(),
            ..RetryBudget::default()
        },
        ..InstanceSpec::default()
    }
}

/// Changes the command of a task.
fn change_work(rng: &mut Rng, plan: &mut Plan) {
    let at = rng.below(plan.tasks.len() as u64) as usize;
    let task = &mut plan.tasks[at];
    let version = format!("{:08x}", rng.next() >> 32);
    let words = vec![task.name.clone(), version];
    Arc::make_mut(&mut task.spec).work = Work::Command(words);
}

/// Gives a task other values, and as many to every task that is connected with it by `each`. A
/// group with explicit edges, or with an item without a value, stays as it is.
fn change_items(rng: &mut Rng, plan: &mut Plan) {
    let by_item = |it: &PlanTask| it.after.iter().any(|it| it.edges == Edges::Same);
    let mut tasks = plan.tasks.iter();
    let first = tasks.position(|it| by_item(it) && rng.chance(500));
    let any = rng.below(plan.tasks.len() as u64) as u32;
    let group = each_group(plan, first.map_or(any, |at| at as u32));
    let has_values = |at: &u32| plan.tasks[*at as usize].items != Items::One;
    let listed = plan.tasks.iter().zip(0_u32..).any(|(task, at)| {
        let mut lists = task.after.iter();
        lists.any(|it| {
            let lists = matches!(it.edges, Edges::Lists(_));
            lists && (group.contains(&at) || group.contains(&it.task))
        })
    });
    if listed || !group.iter().all(has_values) {
        return;
    }
    let list = other_values(rng, &plan.tasks[group[0] as usize]);
    for at in group {
        let own = if rng.chance(800) {
            list.clone()
        } else {
            list.iter().map(|_| rng.below(VALUES)).collect()
        };
        let texts = own.iter().map(u64::to_string).collect();
        plan.tasks[at as usize].items = Items::Values(texts);
    }
}

/// A simulated value is below this.
const VALUES: u64 = 6;

/// A task with all that are connected with it by `each`, directly or through others.
fn each_group(plan: &Plan, first: u32) -> Vec<u32> {
    let mut group = vec![first];
    let mut at = 0;
    while at < group.len() {
        for (task, own) in plan.tasks.iter().zip(0_u32..) {
            for after in task.after.iter().filter(|it| it.edges == Edges::Same) {
                for (one, other) in [(own, after.task), (after.task, own)] {
                    if one == group[at] && !group.contains(&other) {
                        group.push(other);
                    }
                }
            }
        }
        at += 1;
    }
    group
}

/// One value more, one less, or other values in any order, some of them twice.
fn other_values(rng: &mut Rng, task: &PlanTask) -> Vec<u64> {
    let mut values: Vec<u64> = (0..count(task)).filter_map(|it| value(task, it)).collect();
    let at = rng.below(values.len() as u64 + 1) as usize;
    match rng.below(3) {
        0 if values.len() < 5 => values.insert(at, rng.below(VALUES)),
        1 if at < values.len() => drop(values.remove(at)),
        _ => values = (0..rng.below(6)).map(|_| rng.below(VALUES)).collect(),
    }
    values
}

/// Deadlines and run times that some of the work does not meet. Without a draw, so that the seeds of other
/// bugs stay.
pub(crate) fn expectations(number: u64) -> Expectations {
    let short = [5, 60, 600, 3_600][(number / 4 % 4) as usize];
    match number % 4 {
        0 => Expectations {
            deadline: Some(Deadline::After(Millis::from_secs(short))),
            ..Expectations::default()
        },
        1 => Expectations {
            min: Some(Millis::from_secs(short)),
            max: Some(Millis::from_secs(short)),
            ..Expectations::default()
        },
        _ => Expectations::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::workflow::check::check;

    #[test]
    fn every_plan_that_is_drawn_or_changed_is_one_and_its_parts_make_it_up() {
        let mut rng = Rng::new(7);
        for at in 0..500 {
            let plan = draw(&mut rng, format!("flow{at}"), 300);
            assert_eq!(check(&plan), Ok(()), "{plan:?}");
            let parts = parts(&mut rng, plan.clone());
            let mut whole = (*parts[0]).clone();
            for part in &parts[1..] {
                whole.tasks.extend_from_slice(&part.tasks);
            }
            assert_eq!(whole, plan);
            let mut changed = plan;
            for _ in 0..4 {
                changed = change(&mut rng, &changed);
                assert_eq!(check(&changed), Ok(()), "{changed:?}");
            }
        }
    }
}
