//! JSON output: one object per line for each event.
//!
//! Every object has `kind` and `wall_ms`. The first is `task`; then `change` for each record of
//! the log, as stored there, with the `process` by name; `output` for each line of a process that
//! logs to the console; `note`; and `ended` at the end, which is the only one for a task that had
//! ended before. If the reader is too slow, objects are dropped, and a `lost` object has their
//! number; the log has them all.

use baton_core::plan::Plan;
use baton_model::task::PlanEvent;
use baton_model::time::{Millis, Now, Wall};
use baton_runner::record::Header;
use baton_runner::task::Watcher;
use serde_json::{Value, json};

use super::code;
use super::console::{ConsoleOutput, Line};
use super::nonblocking::NonblockingOutput;
use crate::output::Output;
use crate::time;

const LOOK_EVERY: Millis = Millis(100);

/// Prints an object for each event.
pub(super) struct Json {
    out: NonblockingOutput,
    console: ConsoleOutput,
    began: Wall,
}

impl Json {
    pub(super) fn new(out: Output, header: &Header) -> Self {
        let mut json = Self {
            out: NonblockingOutput::new(out, dropped_notice),
            console: ConsoleOutput::new(&header.sandbox),
            began: header.began.wall,
        };
        json.print(&json!({
            "kind": "task",
            "wall_ms": header.began.wall,
            "task_id": header.task_id,
            "name": header.spec.name,
            "sandbox": header.sandbox,
        }));
        json
    }

    fn print(&mut self, value: &Value) {
        self.out.print(&format!("{value}\n"));
    }

    fn print_lines(&mut self, lines: Vec<Line>, plan: &Plan) {
        for line in lines {
            self.print(&json!({
                "kind": "output",
                "wall_ms": time::now(),
                "process": name(plan, line.process.index()),
                "run": line.run,
                "stream": line.stream,
                "text": line.text,
            }));
        }
    }
}

impl Watcher for Json {
    fn event(&mut self, event: &PlanEvent, plan: &Plan) {
        let lines = self.console.event(event, plan);
        self.print_lines(lines, plan);
        let change = serde_json::to_value(&event.change).unwrap_or_default();
        let process = change
            .as_object()
            .and_then(|variants| variants.values().next()?.get("process")?.as_u64())
            .and_then(|no| usize::try_from(no).ok());
        self.print(&json!({
            "kind": "change",
            "wall_ms": event.at.wall,
            "process": process.and_then(|no| name(plan, no)),
            "change": change,
        }));
    }

    fn note(&mut self, text: &str) {
        self.print(&json!({ "kind": "note", "wall_ms": time::now(), "text": text }));
    }

    fn refresh(&mut self, plan: &Plan, _: Now) {
        let lines = self.console.lines();
        self.print_lines(lines, plan);
        self.out.flush_ready();
    }

    fn finished(&mut self, plan: &Plan) {
        let lines = self.console.finish();
        self.print_lines(lines, plan);
        let ended = plan.snapshot().at.wall;
        self.print(&json!({
            "kind": "ended",
            "wall_ms": ended,
            "state": plan.state(),
            "exit_code": code(plan.state()),
            "took_ms": time::between(self.began, ended),
        }));
        self.out.finish();
    }

    fn refresh_every(&self) -> Option<Millis> {
        let busy = self.console.is_busy() || self.out.is_behind();
        busy.then_some(LOOK_EVERY)
    }
}

fn dropped_notice(messages: u64) -> String {
    json!({ "kind": "lost", "wall_ms": time::now(), "messages": messages }).to_string()
}

fn name(plan: &Plan, no: usize) -> Option<&str> {
    Some(plan.spec().processes.get(no)?.name.0.as_str())
}
