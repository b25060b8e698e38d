//! Explanation of a run's state: what each task waits for; for an ended run, why it ended, and what
//! to do next.

use std::collections::{BTreeMap, BTreeSet};

use baton_client::RunItem;
use baton_model::api::{ErrorGroup, Run, RunTask};
use baton_model::limits::REGISTERING_MS_MAX;
use baton_model::state::UniversalState;

use super::dag::Dag;
use super::summary::{commands, format_commands, more_line, problems};
use super::task_state::{self, TaskState};
use crate::output::{Style, clean};
use crate::text::{Line, count, fit, grouped, shell};
use crate::views::rows;

const NAME_WIDTH_MAX: usize = 32;
/// Maximum number of tasks shown, by importance; the others are counted.
const TASKS_MAX: usize = 50;
/// Maximum number of blocking tasks named per task.
const ROOTS_MAX: usize = 3;

/// The input of an explanation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explanation<'a> {
    pub(crate) run: &'a Run,
    /// Its tasks, in the order of the workflow.
    pub(crate) tasks: &'a [RunTask],
    /// Groups of failures, most frequent first.
    pub(crate) errors: &'a [ErrorGroup],
    /// Failed items.
    pub(crate) failures: &'a [RunItem],
}

/// Renders lines of at most `width` columns; commands to copy are never truncated.
pub(crate) fn render(explanation: &Explanation<'_>, width: usize, colour: bool) -> Vec<String> {
    let run = explanation.run;
    let mut head = Line::new();
    head.add(Style::Strong, format!("{} ", clean(&run.id)))
        .add(rows::style(run.state), run.state.word())
        .add(Style::Plain, ": ")
        .add(Style::Plain, run_reason(run));
    let mut lines = head.wrap(width, 4);
    lines.extend(tasks(explanation, width));
    lines.extend(problems(&run.problems, width));
    let mut lines: Vec<String> = lines.iter().map(|line| line.paint(width, colour)).collect();
    lines.extend(format_commands(next(explanation), width, colour));
    lines
}

/// Explains the state of the run as a whole.
fn run_reason(run: &Run) -> String {
    if let Some(halting) = task_state::halting(run) {
        return halting.to_owned();
    }
    let items = task_state::effective_counts(run, &run.items.unwrap_or_default());
    let minutes = REGISTERING_MS_MAX / 60_000;
    match run.state {
        UniversalState::Registering => {
            format!("it is being defined; after {minutes} minutes without a request it is ABORTED")
        }
        UniversalState::Aborted => format!(
            "it never started: it was stopped while being defined, or there was no request for \
             {minutes} minutes"
        ),
        UniversalState::Done if items.skipped > 0 => {
            let skipped = count(items.skipped, "item was", "items were");
            format!("everything required is done; {skipped} skipped")
        }
        UniversalState::Done => "everything is done".to_owned(),
        UniversalState::Failed if run.timed_out => {
            "it exceeded its timeout: running items were killed, and nothing more was started"
                .to_owned()
        }
        UniversalState::Halted if run.replaced => {
            "a later run of its workflow took its place (`overlap: replace`)".to_owned()
        }
        UniversalState::Halted => {
            "it was halted (`baton halt` or `baton cancel`); nothing more was started".to_owned()
        }
        UniversalState::Failed => failed(items.failed, items.halted),
        _ => {
            let all = count(task_state::total(&items), "item", "items");
            format!("{} of {all} done", grouped(items.done))
        }
    }
}

fn failed(failed: u64, halted: u64) -> String {
    let one = |number| count(number, "item", "items");
    match (failed, halted) {
        (0, 0) => "some items could not be started".to_owned(),
        (0, halted) => format!("{} stopped by request", items_were(halted)),
        (failed, 0) => format!("{} failed", one(failed)),
        (failed, halted) => format!("{} failed, and {} stopped", one(failed), items_were(halted)),
    }
}

fn items_were(number: u64) -> String {
    count(number, "item was", "items were")
}

/// A row for each task that has not ended, or has not succeeded.
fn tasks(explanation: &Explanation<'_>, width: usize) -> Vec<Line> {
    let (run, tasks) = (explanation.run, explanation.tasks);
    let goes_on = |task: &RunTask| {
        let open = task_state::open(&task.items) > 0 || task.unmapped;
        open && !run.state.is_terminal()
    };
    let is_listed = |index: &usize| {
        let task = &tasks[*index];
        let badly = matches!(
            TaskState::of(run, task),
            TaskState::Failed | TaskState::Halted | TaskState::Blocked | TaskState::Waiting
        );
        badly || goes_on(task)
    };
    let mut shown: Vec<usize> = (0..tasks.len()).filter(is_listed).collect();
    let number = shown.len();
    if number > TASKS_MAX {
        shown.sort_by_key(|index| TaskState::of(run, &tasks[*index]));
        shown.truncate(TASKS_MAX);
    }
    let names: Vec<String> = shown.iter().map(|at| clean(&tasks[*at].name)).collect();
    let names_max = NAME_WIDTH_MAX.min(width / 2);
    let names_width = task_state::names_width(names.iter().map(String::as_str), names_max);
    let causes = Causes::new(explanation);
    let row = |(index, name): (&usize, &String)| {
        let task = &tasks[*index];
        let state = TaskState::of(run, task);
        let reason = if goes_on(task) {
            waits(run, task)
        } else {
            causes.of(*index)
        };
        let mut line = Line::new();
        line.add(task_state::style(state), format!("  {} ", state.mark()))
            .add(Style::Plain, fit(name, names_width))
            .pad(4 + names_width + 2)
            .add(Style::Plain, reason);
        line.wrap(width, (4 + names_width + 2).min(width / 2))
    };
    let mut lines: Vec<Line> = shown.iter().zip(&names).flat_map(row).collect();
    lines.extend(more_line(number, shown.len(), "task", "tasks"));
    lines
}

/// Describes what an unfinished task does, or waits for.
fn waits(run: &Run, task: &RunTask) -> String {
    let remarks = task_state::task_remarks(run, task);
    let words: Vec<String> = remarks.into_iter().map(|(text, _)| text).collect();
    let words = Some(words.join(", ")).filter(|words| !words.is_empty());
    let both = words.into_iter().chain(task.reason.as_deref().map(clean));
    both.collect::<Vec<_>>().join("; ")
}

/// Causes of tasks that have ended without success.
struct Causes<'a> {
    explanation: &'a Explanation<'a>,
    dag: Dag<'a>,
    /// By task: its first failed item.
    first: BTreeMap<&'a str, &'a RunItem>,
}

impl<'a> Causes<'a> {
    fn new(explanation: &'a Explanation<'a>) -> Self {
        let mut first: BTreeMap<&str, &RunItem> = BTreeMap::new();
        let when = |item: &RunItem| (item.ended_at.unwrap_or(u64::MAX), item.item);
        for item in explanation.failures {
            let known = first.entry(&item.task).or_insert(item);
            if when(item) < when(known) {
                *known = item;
            }
        }
        Self {
            explanation,
            dag: Dag::new(explanation.tasks),
            first,
        }
    }

    fn of(&self, index: usize) -> String {
        let run = self.explanation.run;
        let task = &self.explanation.tasks[index];
        let items = task_state::effective_counts(run, &task.items);
        let mut text = task_state::sentence(run, task);
        let roots = match items.blocked {
            0 => Vec::new(),
            _ => self.roots(index),
        };
        if !roots.is_empty() {
            text += &format!(": needs {}", join_names(&roots));
        }
        if items.failed > 0
            && let Some(reason) = self.failure(task)
        {
            text += &format!("; {reason}");
        }
        text
    }

    /// Describes the first failure of a task.
    fn failure(&self, task: &RunTask) -> Option<String> {
        if let Some(item) = self.first.get(task.name.as_str()) {
            let end = item
                .end_text
                .as_deref()
                .unwrap_or("its outcome is not stored");
            let which = match task_state::total(&task.items) {
                1 => String::new(),
                _ => format!("first item {}: ", item.item),
            };
            return Some(format!("{which}{} ({})", clean(end), clean(&item.instance)));
        }
        let mut groups = self.explanation.errors.iter();
        let group = groups.find(|group| group.task == task.name)?;
        let (end, id) = (clean(&group.end_text), clean(&group.example));
        Some(format!("{end} ({id})"))
    }

    /// The upstream tasks that failed or were halted themselves, and so block this one.
    fn roots(&self, index: usize) -> Vec<String> {
        let run = self.explanation.run;
        let mut roots = Vec::new();
        let mut seen = BTreeSet::from([index]);
        let mut open = vec![index];
        while let Some(at) = open.pop() {
            for from in &self.dag.upstream[at] {
                if !seen.insert(*from) {
                    continue;
                }
                let task = &self.explanation.tasks[*from];
                match TaskState::of(run, task) {
                    TaskState::Failed | TaskState::Halted => roots.push((*from, clean(&task.name))),
                    TaskState::Blocked => open.push(*from),
                    _ => {}
                }
            }
        }
        roots.sort();
        roots.into_iter().map(|(_, name)| name).collect()
    }
}

/// Formats names: `a, b and 7 more`.
fn join_names(names: &[String]) -> String {
    let more = names.len().saturating_sub(ROOTS_MAX);
    let first = names[..names.len() - more].join(", ");
    match more {
        0 => first,
        more => format!("{first} and {} more", grouped(more as u64)),
    }
}

fn next(explanation: &Explanation<'_>) -> Vec<(String, &'static str)> {
    let mut commands = commands(explanation.run, explanation.errors);
    if let Some(group) = explanation.errors.first().filter(|_| !commands.is_empty()) {
        let command = format!("baton logs {} --stderr", shell(&clean(&group.example)));
        commands.insert(0, (command, "output of one of them"));
    }
    commands
}
