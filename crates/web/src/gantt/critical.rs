//! The critical path of a run: the chain of items that decided when it ended.
//!
//! From the item that ended last backwards: each item of the chain is the one that ended last of those
//! that the next one waited for. Without it, the next one could have begun earlier.

use std::collections::BTreeMap;

use baton_model::api::{Run, RunItem, RunTask};
use serde_json::Value;

/// The instances of the critical path, the first item first; none if fewer than two items have run.
#[must_use]
pub fn critical_path<'a>(
    run: &Run,
    tasks: &'a [RunTask],
    items: &'a [RunItem<Value>],
) -> Vec<&'a RunItem<Value>> {
    let tasks: BTreeMap<&str, &RunTask> = tasks.iter().map(|it| (it.name.as_str(), it)).collect();
    let mut of_task: BTreeMap<&str, Vec<&RunItem<Value>>> = BTreeMap::new();
    let has_run =
        |item: &&RunItem<Value>| item.started_at.is_some() && item.generation == run.generation;
    for item in items.iter().filter(has_run) {
        of_task.entry(&item.task).or_default().push(item);
    }
    if of_task.len() < 2 {
        return Vec::new();
    }
    let mut path = Vec::new();
    let mut next = of_task
        .values()
        .flatten()
        .copied()
        .max_by_key(|item| end(item));
    while let Some(item) = next {
        path.push(item);
        let after = tasks.get(item.task.as_str()).map(|task| &*task.after);
        let upstream = after.unwrap_or_default().iter().flat_map(|edge| {
            let items = of_task.get(edge.task.as_str()).into_iter().flatten();
            let is_upstream = move |it: &&RunItem<Value>| !edge.by_item || it.item == item.item;
            items.copied().filter(is_upstream)
        });
        // A plan has no cycles, but what an API answers is not a plan.
        next = upstream
            .filter(|it| it.ended_at.is_some() && path.len() < items.len())
            .max_by_key(|it| end(it));
    }
    path.reverse();
    path
}

/// When an item ended; an item that runs ends last.
fn end(item: &RunItem<Value>) -> (u64, u64) {
    (
        item.ended_at.unwrap_or(u64::MAX),
        item.started_at.unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use baton_model::json::from_value;
    use serde_json::json;

    use super::*;

    fn item(task: &str, number: u32, from: u64, to: Option<u64>) -> Value {
        let state = if to.is_some() { "DONE" } else { "RUNNING" };
        let mut item = json!({"task": task, "item": number, "instance": format!("{task}{number}"),
            "state": state, "generation": 1, "startedAt": from, "links": {}});
        if let Some(to) = to {
            item["endedAt"] = to.into();
        }
        item
    }

    fn path(tasks: &Value, items: &[Value]) -> Vec<String> {
        let run = json!({"id": "r1", "name": "w", "owner": "o", "state": "RUNNING",
            "generation": 1, "submittedAt": 0, "begunAt": 0, "links": {}});
        let run: Run = from_value(&run).expect("a run");
        let tasks: Vec<RunTask> = from_value(tasks).expect("tasks");
        let items: Vec<RunItem<Value>> = from_value(&json!(items)).expect("items");
        let path = critical_path(&run, &tasks, &items);
        path.iter().map(|item| item.instance.clone()).collect()
    }

    fn task(name: &str, after: &[(&str, bool)]) -> Value {
        let after: Vec<Value> = after
            .iter()
            .map(|(task, by_item)| json!({"task": task, "condition": "success", "byItem": by_item}))
            .collect();
        json!({"name": name, "index": 0, "after": after,
            "items": baton_model::api::ItemCounts::default()})
    }

    #[test]
    fn each_item_is_the_last_that_the_next_waited_for() {
        let tasks = json!([
            task("a", &[]),
            task("b", &[]),
            task("c", &[("a", false), ("b", false)]),
            task("d", &[("a", false)]),
        ]);
        let items = [
            item("a", 0, 0, Some(10)),
            item("a", 1, 0, Some(40)),
            item("b", 0, 0, Some(30)),
            item("d", 0, 40, Some(50)),
            item("c", 0, 41, Some(90)),
        ];
        assert_eq!(path(&tasks, &items), ["a1", "c0"]);
    }

    #[test]
    fn items_that_depend_pairwise_wait_for_their_own_and_one_that_runs_ends_last() {
        let tasks = json!([task("a", &[]), task("b", &[("a", true)])]);
        let items = [
            item("a", 0, 0, Some(10)),
            item("a", 1, 0, Some(40)),
            item("b", 0, 10, None),
            item("b", 1, 40, Some(60)),
        ];
        assert_eq!(path(&tasks, &items), ["a0", "b0"]);
        assert_eq!(path(&tasks, &items[..2]), Vec::<String>::new());
    }
}
