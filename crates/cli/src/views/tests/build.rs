//! Pieces of runs.

use std::collections::BTreeMap;

use baton_client::RunItem;
use baton_model::api::{ErrorGroup, ItemCounts, Run, RunEdge, RunTask};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::Condition;

/// 2026-11-15 12:00:00Z.
pub(crate) const BEGUN: u64 = 1_794_744_000_000;

/// A run with everything that is drawn of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) run: Run,
    pub(crate) tasks: Vec<RunTask>,
    pub(crate) errors: Vec<ErrorGroup>,
    pub(crate) items: Vec<RunItem>,
    pub(crate) failures: Vec<RunItem>,
    /// Items that were not asked for.
    pub(crate) more: u64,
    pub(crate) now: Wall,
}

impl Case {
    /// One that has been RUNNING for 65 seconds.
    pub(crate) fn new(name: &str, tasks: Vec<RunTask>) -> Self {
        let run = Run {
            id: "r1".to_owned(),
            name: name.to_owned(),
            owner: "analytics".to_owned(),
            state: UniversalState::Running,
            generation: 1,
            halting: None,
            timed_out: false,
            replaced: false,
            revision: None,
            nominal_at: None,
            backfill: None,
            after: None,
            submitted_at: BEGUN,
            submitted_by: None,
            begun_at: BEGUN,
            ended_at: None,
            params: BTreeMap::new(),
            tasks: Some(tasks.len() as u64),
            items: None,
            problems: Vec::new(),
            links: BTreeMap::new(),
        };
        Self {
            run,
            tasks,
            errors: Vec::new(),
            items: Vec::new(),
            failures: Vec::new(),
            more: 0,
            now: Wall(BEGUN + 65_400),
        }
    }

    pub(super) fn ended(mut self, state: UniversalState) -> Self {
        self.run.state = state;
        self.run.ended_at = Some(BEGUN + 125_000);
        self
    }

    pub(super) fn totals(mut self) -> Self {
        let mut sum = ItemCounts::default();
        for task in &self.tasks {
            let items = &task.items;
            sum.waiting += items.waiting;
            sum.ready += items.ready;
            sum.queued += items.queued;
            sum.running += items.running;
            sum.done += items.done;
            sum.failed += items.failed;
            sum.halted += items.halted;
            sum.skipped += items.skipped;
            sum.blocked += items.blocked;
        }
        self.run.items = Some(sum);
        self
    }
}

/// `3w 1r 2d`: waiting, held back (h), queued, running, done, failed, stopped (x), skipped,
/// blocked.
pub(crate) fn counts(text: &str) -> ItemCounts {
    let mut items = ItemCounts::default();
    for word in text.split_whitespace() {
        let (number, kind) = word.split_at(word.len() - 1);
        let number = number.parse().expect("a number");
        match kind {
            "w" => items.waiting = number,
            "h" => items.ready = number,
            "q" => items.queued = number,
            "r" => items.running = number,
            "d" => items.done = number,
            "f" => items.failed = number,
            "x" => items.halted = number,
            "s" => items.skipped = number,
            "b" => items.blocked = number,
            other => panic!("no such count: {other}"),
        }
    }
    items
}

pub(crate) fn after(task: &str, condition: Condition, by_item: bool) -> RunEdge {
    RunEdge {
        task: task.to_owned(),
        condition,
        by_item,
    }
}

pub(crate) fn task(name: &str, items: ItemCounts, before: &[&str]) -> RunTask {
    RunTask {
        name: name.to_owned(),
        index: 0,
        items,
        unmapped: false,
        after: before
            .iter()
            .map(|task| after(task, Condition::Success, false))
            .collect(),
        when: None,
        reason: None,
        mean_seconds: (items.done > 0).then_some(12.5),
        progress: None,
    }
}

/// From and to in milliseconds since the run began.
pub(crate) fn item(
    task: &str,
    item: u32,
    from: u64,
    to: Option<u64>,
    state: UniversalState,
) -> RunItem {
    RunItem {
        task: task.to_owned(),
        item,
        value: None,
        instance: format!("i{item}"),
        state,
        generation: 1,
        attempts: 1,
        started_at: Some(BEGUN + from),
        ended_at: to.map(|to| BEGUN + to),
        worker: Some("w1".to_owned()),
        end_text: None,
        cpu_seconds: None,
        memory_peak_bytes: None,
        outputs: None,
        links: BTreeMap::new(),
    }
}

pub(super) fn error(task: &str, text: &str, count: u64, example: &str) -> ErrorGroup {
    ErrorGroup {
        task: task.to_owned(),
        end_text: text.to_owned(),
        count,
        example: example.to_owned(),
        stderr_tail: None,
        links: BTreeMap::new(),
    }
}

pub(super) fn reason(mut task: RunTask, reason: &str) -> RunTask {
    task.reason = Some(reason.to_owned());
    task
}
