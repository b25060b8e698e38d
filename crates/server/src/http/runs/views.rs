//! Conversion of runs to types of the API.

use std::collections::BTreeMap;

use baton_core::ledger::RunHead;
use baton_core::workflow::Dag;
use baton_model::api::{ItemCounts, Links, Run, RunEdge, RunItem, RunReply, RunTask, Submitter};
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::state::UniversalState;
use baton_model::workflow::{Edges, HaltCause, ItemEnd};
use baton_store::view::{ItemRecord, Record, RunRecord};
use serde_json::Value;

use super::super::views;
use super::path;

pub(super) fn accepted(run: RunId, generation: Generation) -> RunReply {
    RunReply {
        id: run.to_string(),
        generation: generation.0,
        links: views::links([("control", path(run))]),
    }
}

/// A run; in lists without its plan.
pub(super) fn run(record: &RunRecord, dag: Option<&Dag>) -> Run {
    let head = &record.head;
    let over = head.state.is_terminal();
    Run {
        id: head.id.to_string(),
        name: head.name.clone(),
        owner: head.owner.clone(),
        state: head.state,
        generation: head.generation.0,
        halting: head.halting.map(|(mode, _)| mode).filter(|_| !over),
        timed_out: matches!(head.halting, Some((_, HaltCause::TimedOut))),
        replaced: matches!(head.halting, Some((_, HaltCause::Replaced))),
        submitted_at: head.submitted.0,
        submitted_by: record.submitted_by.as_deref().map(Submitter::from),
        begun_at: head.begun.0,
        ended_at: over.then_some(record.changed_at.0),
        revision: head.origin.map(|origin| origin.revision.0),
        nominal_at: head.origin.and_then(|it| it.due).map(|due| due.nominal.0),
        backfill: None,
        after: head
            .origin
            .and_then(|it| it.after)
            .map(|after| after.to_string()),
        params: dag.map_or_else(BTreeMap::new, |it| it.plan.params.clone()),
        tasks: dag.map(|it| it.plan.tasks.len() as u64),
        items: None,
        problems: Vec::new(),
        links: links(head),
    }
}

fn links(head: &RunHead) -> Links {
    let path = path(head.id);
    let mut links = views::links([
        ("self", path.clone()),
        ("tasks", format!("{path}/tasks/")),
        ("items", format!("{path}/items/")),
        ("errors", format!("{path}/errors")),
    ]);
    if head.origin.is_some() {
        let entry = views::task_path(&head.owner, &head.name);
        links.insert("task".to_owned(), entry);
    }
    let mut add = |relation: &str| {
        links.insert(relation.to_owned(), format!("POST {path}/{relation}"));
    };
    match head.state {
        UniversalState::Registering => {
            add("start");
            add("halt");
            links.insert("extend".to_owned(), format!("POST {path}/tasks"));
        }
        UniversalState::Failed | UniversalState::Halted => {
            add("resume");
            add("retry");
        }
        UniversalState::Done | UniversalState::Aborted => {}
        _ => add("halt"),
    }
    links
}

/// A task, without the reason that it waits for.
pub(super) fn task(dag: &Dag, at: u32, items: ItemCounts, mapped: bool) -> RunTask {
    let own = &dag.plan.tasks[at as usize];
    let edges = own.after.iter().map(|after| RunEdge {
        task: dag.plan.tasks[after.task as usize].name.clone(),
        condition: after.condition,
        by_item: after.edges != Edges::All,
    });
    RunTask {
        name: own.name.clone(),
        index: at,
        items,
        unmapped: !mapped,
        after: edges.collect(),
        when: own.when.clone(),
        reason: None,
        mean_seconds: None,
        progress: None,
    }
}

/// An ended item, without its value.
pub(super) fn ended(dag: &Dag, item: &ItemRecord) -> RunItem<Value> {
    let state = match item.end {
        ItemEnd::Done => UniversalState::Done,
        ItemEnd::Failed => UniversalState::Failed,
        ItemEnd::Halted => UniversalState::Halted,
    };
    let place = (item.task, item.item);
    let mut shown = row(dag, place, item.instance, state, item.record.as_ref());
    shown.generation = item.generation.0;
    shown.outputs = item.outputs.as_deref().map(str::to_owned);
    shown
}

/// An item in flight, without its value.
pub(super) fn live(dag: &Dag, place: (u32, u32), record: &Record) -> RunItem<Value> {
    let it = &record.instance;
    let mut shown = row(dag, place, it.id, it.state, Some(record));
    shown.generation = it.spec.part.map_or(0, |part| part.generation.0);
    shown
}

fn row(
    dag: &Dag,
    (task, item): (u32, u32),
    instance: InstanceId,
    state: UniversalState,
    record: Option<&Record>,
) -> RunItem<Value> {
    let named = dag.plan.tasks.get(task as usize);
    let it = record.map(|record| views::instance(record, record.changed_at));
    // While an attempt is open, the times of the previous one are not shown.
    let open = record.is_some_and(|record| record.instance.lease.is_some());
    let last = record.and_then(|record| record.last.as_ref());
    let stats = last.and_then(|last| last.stats).filter(|_| !open);
    RunItem {
        task: named.map_or_else(String::new, |task| task.name.clone()),
        item,
        value: None,
        instance: instance.to_string(),
        state,
        generation: 0,
        attempts: it.as_ref().map_or(0, |it| it.attempts),
        started_at: it.as_ref().and_then(|it| it.started_at),
        ended_at: stats.map(|stats| stats.ended.0),
        worker: it.as_ref().and_then(|it| it.worker.clone()),
        cpu_seconds: it.as_ref().and_then(|it| it.cpu_seconds),
        memory_peak_bytes: it.as_ref().and_then(|it| it.memory_peak_bytes),
        end_text: it.and_then(|it| it.end_text),
        outputs: None,
        links: views::links([("instance", views::path(instance, instance))]),
    }
}
