//! Plain output for a pipe or a file: a line for each event.

use baton_core::plan::Plan;
use baton_model::task::{PlanChange, PlanEvent};
use baton_model::time::{Millis, Now};
use baton_observer::messages;
use baton_runner::record::Header;
use baton_runner::root::Root;
use baton_runner::task::Watcher;

use super::console::{ConsoleOutput, Line};
use super::nonblocking::{self, NonblockingOutput};
use super::summary;
use crate::output::{Output, clean};
use crate::time;

/// Interval at which the output of running processes is read.
const LOOK_EVERY: Millis = Millis(100);

/// Prints a line for each event.
pub(super) struct Plain {
    out: NonblockingOutput,
    header: Header,
    console: ConsoleOutput,
}

impl Plain {
    pub(super) fn new(out: Output, header: &Header, root: &Root) -> Self {
        let mut plain = Self {
            out: NonblockingOutput::new(out, nonblocking::dropped_notice),
            console: ConsoleOutput::new(&header.sandbox),
            header: header.clone(),
        };
        plain.print(&format!(
            "task {} in {}, root {}",
            clean(&header.task_id),
            clean(&header.sandbox),
            root.path().display()
        ));
        plain
    }

    fn print(&mut self, line: &str) {
        self.out.print(&format!("{line}\n"));
    }

    fn print_lines(&mut self, lines: Vec<Line>, plan: &Plan) {
        for line in lines {
            let text = format!("{} | {}", messages::name(plan, line.process), line.text);
            self.print(&text);
        }
    }
}

impl Watcher for Plain {
    fn event(&mut self, event: &PlanEvent, plan: &Plan) {
        let lines = self.console.event(event, plan);
        self.print_lines(lines, plan);
        if matters(&event.change, plan) {
            let since = time::between(self.header.began.wall, event.at.wall);
            let text = format!("{:>9} {}", time::since(since), messages::event(plan, event));
            self.print(&text);
        }
    }

    fn note(&mut self, text: &str) {
        self.print(&format!("baton: {text}"));
    }

    fn refresh(&mut self, plan: &Plan, _: Now) {
        let lines = self.console.lines();
        self.print_lines(lines, plan);
        self.out.flush_ready();
    }

    fn finished(&mut self, plan: &Plan) {
        let lines = self.console.finish();
        self.print_lines(lines, plan);
        for line in summary::lines(self.out.output(), &self.header, plan) {
            self.print(&line);
        }
        self.out.finish();
    }

    fn refresh_every(&self) -> Option<Millis> {
        let busy = self.console.is_busy() || self.out.is_behind();
        busy.then_some(LOOK_EVERY)
    }
}

/// True for the last event of a task.
pub(super) const fn ends(change: &PlanChange) -> bool {
    matches!(change, PlanChange::AttemptEnded | PlanChange::AttemptLost)
}

/// False for events that the next line implies.
fn matters(change: &PlanChange, plan: &Plan) -> bool {
    match change {
        PlanChange::RunOrdered { .. }
        | PlanChange::BudgetMarked
        | PlanChange::FinalizingBegun
        | PlanChange::AttemptEnded
        | PlanChange::AttemptLost => false,
        // Only of interest while processes still run.
        PlanChange::CleaningBegun { .. } => plan.live().next().is_some(),
        _ => true,
    }
}
