//! The tasks of one host, as `baton local observe` reads them from their roots, without a scheduler.

use askama::Template;
use baton_model::api::Process;
use baton_model::state::AttemptState;
use serde_json::Value;

use super::instance::{LogView, ProcessRow};
use crate::frame::{Frame, Mood};
use crate::json;
use crate::markup::Markup;
use crate::text::{duration, encoded};
use crate::time::Stamp;

/// Phases of a task, as the filter names them.
pub const PHASES: [&str; 2] = ["active", "finished"];

/// The state of a task whose log cannot be read.
const UNREADABLE: &str = "UNREADABLE";

/// The list of tasks.
#[derive(Template)]
#[template(path = "host.html")]
pub struct HostPage {
    pub frame: Frame,
    pub host: String,
    /// Tasks that match, on all pages.
    pub total: usize,
    pub phases: [&'static str; 2],
    /// The phase that is shown; empty for any.
    pub phase: String,
    /// The pattern of ids; empty for any.
    pub pattern: String,
    pub is_filtered: bool,
    /// The roots, for a host without tasks.
    pub roots_text: String,
    pub rows: Vec<TaskRow>,
    pub next: Option<String>,
}

/// What is known of a task.
#[derive(Clone, Debug)]
pub struct TaskSummary {
    /// Names its root in addresses; not the path.
    pub root_key: String,
    pub root: String,
    pub id: String,
    /// `None` if its log cannot be read.
    pub state: Option<AttemptState>,
    /// What to do, what it is about to do, or why it cannot be read.
    pub note: String,
    /// Numbers of processes by what became of them.
    pub processes: String,
    pub user: String,
    pub began_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

/// A row of the list.
#[derive(Debug)]
pub struct TaskRow {
    pub key: String,
    pub id: String,
    pub href: String,
    pub state: &'static str,
    pub note: String,
    pub processes: String,
    pub user: String,
    pub root: String,
    pub began: Option<Stamp>,
    pub began_ms: u64,
    pub duration: String,
    pub duration_ms: u64,
}

/// The page of a task.
#[derive(Template)]
#[template(path = "task.html")]
pub struct TaskPage {
    pub frame: Frame,
    pub id: String,
    pub name: String,
    pub state: &'static str,
    pub note: String,
    pub facts: Vec<(&'static str, String)>,
    pub times: Vec<(&'static str, Stamp)>,
    /// The output of its process, if it has only one.
    pub logs: Vec<LogView>,
    pub processes: Vec<ProcessRow>,
    /// Processes that are not shown.
    pub omitted: u32,
    pub timeline: Vec<(Stamp, String)>,
    /// Earlier events that are not shown.
    pub left_out: usize,
    pub definition: Markup,
}

/// The files of a task, as far as its page shows them.
pub struct TaskAnswers {
    pub summary: TaskSummary,
    /// The name in its definition.
    pub name: String,
    pub facts: Vec<(&'static str, String)>,
    /// Each with what it does or waits for.
    pub processes: Vec<(Process, String)>,
    pub omitted: u32,
    pub logs: Vec<LogView>,
    /// Time and text.
    pub events: Vec<(u64, String)>,
    pub left_out: usize,
    pub definition: Value,
}

/// The page of a process.
#[derive(Template)]
#[template(path = "process.html")]
pub struct ProcessPage {
    pub frame: Frame,
    pub task: String,
    pub task_href: String,
    pub process: ProcessRow,
    pub facts: Vec<(&'static str, String)>,
    /// The run whose output is shown.
    pub run: Option<u64>,
    /// Number, address, and whether it is shown.
    pub runs: Vec<(u64, String, bool)>,
    pub logs: Vec<LogView>,
}

impl TaskSummary {
    /// The address of its page.
    #[must_use]
    pub fn href(&self) -> String {
        format!("/tasks/{}/{}", self.root_key, encoded(&self.id))
    }

    /// The address of the page of a process.
    #[must_use]
    pub fn process_href(&self, process: &str) -> String {
        format!("{}/processes/{}", self.href(), encoded(process))
    }

    fn word(&self) -> &'static str {
        self.state.map_or(UNREADABLE, AttemptState::word)
    }

    fn mood(&self) -> Mood {
        match self.state {
            Some(AttemptState::Success) => Mood::Idle,
            Some(state) if !state.is_terminal() => Mood::Busy,
            Some(_) | None => Mood::Failed,
        }
    }

    fn duration_ms(&self, now: u64) -> u64 {
        let began = self.began_ms.unwrap_or(now);
        self.ended_ms.unwrap_or(now).saturating_sub(began)
    }
}

impl TaskRow {
    #[must_use]
    pub fn new(task: TaskSummary, now: u64) -> Self {
        let duration_ms = task.duration_ms(now);
        Self {
            key: format!("{}-{}", task.root_key, task.id),
            href: task.href(),
            state: task.word(),
            began: task.began_ms.map(Stamp),
            began_ms: task.began_ms.unwrap_or(0),
            duration: match task.began_ms {
                Some(_) => duration(duration_ms as f64 / 1e3),
                None => String::new(),
            },
            duration_ms,
            id: task.id,
            note: task.note,
            processes: task.processes,
            user: task.user,
            root: task.root,
        }
    }
}

impl TaskPage {
    #[must_use]
    pub fn new(mut frame: Frame, answers: TaskAnswers) -> Self {
        let TaskAnswers {
            summary,
            name,
            mut facts,
            processes,
            omitted,
            logs,
            events,
            left_out,
            definition,
        } = answers;
        frame.mood = summary.mood();
        frame.title = format!("{} {}", summary.id, summary.word());
        let took = duration(summary.duration_ms(frame.now) as f64 / 1e3);
        facts.insert(0, ("Duration", took));
        facts.retain(|(_, value)| !value.is_empty());
        let times = [("Began", summary.began_ms), ("Ended", summary.ended_ms)];
        let times = times.into_iter();
        let rows = processes.into_iter();
        Self {
            state: summary.word(),
            times: times
                .filter_map(|(label, at)| Some((label, Stamp(at?))))
                .collect(),
            processes: rows
                .map(|(process, note)| process_row(&summary, &process, note))
                .collect(),
            timeline: events
                .into_iter()
                .map(|(at, text)| (Stamp(at), text))
                .collect(),
            definition: json::render(&definition),
            id: summary.id,
            note: summary.note,
            name,
            facts,
            logs,
            omitted,
            left_out,
            frame,
        }
    }
}

impl ProcessPage {
    /// The page of a process, with the output of one of its runs.
    #[must_use]
    pub fn new(
        mut frame: Frame,
        task: &TaskSummary,
        (process, note): (Process, String),
        mut facts: Vec<(&'static str, String)>,
        (runs, run): (Vec<u64>, Option<u64>),
        logs: Vec<LogView>,
    ) -> Self {
        frame.mood = task.mood();
        frame.title = format!("{} of {} {}", process.name, task.id, process.state.word());
        facts.retain(|(_, value)| !value.is_empty());
        let href = task.process_href(&process.name);
        let runs = runs.into_iter();
        Self {
            task: task.id.clone(),
            task_href: task.href(),
            runs: runs
                .map(|number| (number, format!("{href}?run={number}"), Some(number) == run))
                .collect(),
            process: process_row(task, &process, note),
            facts,
            run,
            logs,
            frame,
        }
    }
}

fn process_row(task: &TaskSummary, process: &Process, note: String) -> ProcessRow {
    ProcessRow {
        href: Some(task.process_href(&process.name)),
        note,
        ..ProcessRow::new(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_root_by_its_key_and_never_by_its_path() {
        let task = TaskSummary {
            root_key: "1a2b3c".to_owned(),
            root: "/srv/ann".to_owned(),
            id: "etl-1".to_owned(),
            state: None,
            note: "no log".to_owned(),
            processes: String::new(),
            user: String::new(),
            began_ms: None,
            ended_ms: None,
        };
        assert_eq!(
            task.process_href("../x y"),
            "/tasks/1a2b3c/etl-1/processes/..%2Fx%20y"
        );
        let row = TaskRow::new(task, 9);
        assert_eq!(
            (row.href.as_str(), row.state),
            ("/tasks/1a2b3c/etl-1", "UNREADABLE")
        );
        assert_eq!(row.duration, "");
    }
}
