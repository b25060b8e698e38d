//! Summary of a run: its outcome, unfinished tasks, failures, and what to do next.

use baton_model::api::{ErrorGroup, ItemCounts, Run, RunProblem, RunTask};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::live;
use super::task_state::{self, TaskState};
use crate::output::{Style, clean};
use crate::text::{Line, count, display_width, fit, grouped, shell};
use crate::time::{between, span, stamp};
use crate::views::rows;

const NAME_WIDTH_MAX: usize = 32;
/// Maximum number of rows of each kind: a summary must stay short.
const TASKS_MAX: usize = 20;
const ERRORS_MAX: usize = 5;
const PROBLEMS_MAX: usize = 5;
/// Lines of standard error of each kind of failure.
const TAIL_LINES_MAX: usize = 5;
/// Space reserved for the comment of a command.
const COMMENT_WIDTH: usize = 32;
const RESUMES: &str = "runs everything not DONE";

/// The input of a summary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary<'a> {
    pub(crate) run: &'a Run,
    /// Its tasks, in the order of the workflow.
    pub(crate) tasks: &'a [RunTask],
    /// Groups of failures, most frequent first.
    pub(crate) errors: &'a [ErrorGroup],
    /// For `baton run`, whose scheduler ends with it.
    pub(crate) local: Option<LocalCommands<'a>>,
    /// Whether tasks that are DONE, parameters and the start are shown as well.
    pub(crate) whole: bool,
    /// The current time, for a run that has not ended.
    pub(crate) now: Wall,
}

/// How to go on with a run of `baton run`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalCommands<'a> {
    /// The command that resumes it.
    pub(crate) resume: &'a str,
    /// Its data directory, as a word of the shell.
    pub(crate) data: &'a str,
}

/// Renders lines of at most `width` columns; commands to copy are never truncated.
pub(crate) fn render(summary: &Summary<'_>, width: usize, colour: bool) -> Vec<String> {
    let mut lines = headline(summary).wrap(width, 4);
    lines.extend(origin(summary.run).into_iter().flat_map(|text| {
        let mut line = Line::new();
        line.add(Style::Faint, format!("  {text}"));
        line.wrap(width, 4)
    }));
    lines.extend(
        task_state::halting(summary.run)
            .into_iter()
            .flat_map(|text| {
                let mut line = Line::new();
                line.add(Style::Odd, format!("  {text}"));
                line.wrap(width, 4)
            }),
    );
    lines.extend(start(summary).iter().flat_map(|line| line.wrap(width, 4)));
    lines.extend(tasks(summary, width));
    lines.extend(problems(&summary.run.problems, width));
    let mut lines: Vec<String> = lines.iter().map(|line| line.paint(width, colour)).collect();
    lines.extend(errors(summary, width, colour));
    lines.extend(next(summary, width, colour));
    lines
}

/// `FAILED etl r1 in 2m05s: 3 tasks, 40/45 items done, 2 failed`.
fn headline(summary: &Summary<'_>) -> Line {
    let run = summary.run;
    let end = run.ended_at.map_or(summary.now, Wall);
    let took = span(between(Wall(run.begun_at), end));
    let so_far = if run.ended_at.is_some() { "in" } else { "for" };
    let mut line = Line::new();
    line.add(rows::style(run.state), run.state.word())
        .add(Style::Strong, format!(" {}", clean(&run.name)))
        .add(Style::Plain, format!(" {} {so_far} {took}", clean(&run.id)));
    if run.generation > 1 {
        line.add(Style::Plain, format!(" (generation {})", run.generation));
    }
    line.add(
        Style::Plain,
        format!(
            ": {}",
            count(run.tasks.unwrap_or_default(), "task", "tasks")
        ),
    );
    if let Some(items) = &run.items {
        let all = count(task_state::total(items), "item", "items");
        let done = grouped(items.done);
        line.add(Style::Plain, format!(", {done}/{all} done"));
        for (text, style) in task_state::remarks(run, items) {
            line.add(Style::Plain, ", ").add(style, text);
        }
    }
    if run.timed_out && run.state.is_terminal() {
        line.add(Style::Odd, ", timed out");
    }
    line
}

/// `revision 3 of analytics/etl, due 2026-11-16 02:30:00`, for a run of a library workflow.
fn origin(run: &Run) -> Option<String> {
    let revision = run.revision?;
    let entry = clean(&format!("{}/{}", run.owner, run.name));
    let backfill = run.backfill.as_deref();
    let backfill = backfill.map(|id| format!(", by backfill {}", clean(id)));
    let due = run.nominal_at.map(|at| {
        let due = stamp(Wall(at));
        format!("{}, due {due}", backfill.unwrap_or_default())
    });
    let after = run.after.as_deref();
    let after = after.map(|after| format!(", after {}", clean(after)));
    let cause = due.or(after).unwrap_or_default();
    Some(format!("revision {revision} of {entry}{cause}"))
}

/// The start of a run, and its parameters.
fn start(summary: &Summary<'_>) -> Vec<Line> {
    let run = summary.run;
    if !summary.whole {
        return Vec::new();
    }
    let begun = stamp(Wall(run.begun_at));
    let submitted = match run.revision {
        Some(_) => "triggered",
        None => "submitted",
    };
    let by = run.submitted_by.as_ref();
    let by = by.map(|it| format!(", {submitted} by {}", clean(&it.text)));
    let (owner, by) = (clean(&run.owner), by.unwrap_or_default());
    let mut texts = vec![format!("owner {owner}{by}, started {begun}")];
    if let Some(at) = run.ended_at {
        texts.push(format!("ended {}", stamp(Wall(at))));
    }
    let params = run.params.iter();
    texts.extend(params.map(|(name, value)| format!("{}={}", clean(name), clean(value))));
    let lines = texts.into_iter().map(|text| {
        let mut line = Line::new();
        line.add(Style::Faint, format!("  {text}"));
        line
    });
    lines.collect()
}

/// A row for each task with items that are not DONE, or for every task.
fn tasks(summary: &Summary<'_>, width: usize) -> Vec<Line> {
    let (run, tasks) = (summary.run, summary.tasks);
    let odd = |task: &&RunTask| {
        summary.whole || task_state::total(&task.items) != task.items.done || task.unmapped
    };
    let mut shown: Vec<&RunTask> = tasks.iter().filter(odd).collect();
    let number = shown.len();
    if number > TASKS_MAX {
        shown.sort_by_key(|task| TaskState::of(run, task));
        shown.truncate(TASKS_MAX);
    }
    let names: Vec<String> = shown.iter().map(|task| clean(&task.name)).collect();
    let names_max = NAME_WIDTH_MAX.min(width / 2);
    let names_width = task_state::names_width(names.iter().map(String::as_str), names_max);
    let fractions: Vec<String> = shown
        .iter()
        .map(|task| task_state::fraction(task))
        .collect();
    let numbers = fractions.iter().map(String::len).max().unwrap_or(0);
    let row = |((task, name), fraction): ((&&RunTask, &String), &String)| {
        let state = TaskState::of(run, task);
        let mut line = Line::new();
        line.add(task_state::style(state), format!("  {} ", state.mark()))
            .add(Style::Plain, fit(name, names_width))
            .pad(4 + names_width + 2)
            .add(Style::Plain, format!("{fraction:>numbers$}  "));
        let mut remarks = task_state::task_remarks(run, task);
        remarks.extend(task_state::progress(task));
        if let Some(mean) = task.mean_seconds {
            let mean = span(Millis((mean * 1_000.0) as u64));
            remarks.push((format!("{mean} each"), Style::Faint));
        }
        task_state::add_remarks(&mut line, remarks);
        line
    };
    let rows = shown.iter().zip(&names).zip(&fractions);
    let mut lines: Vec<Line> = rows.map(row).collect();
    let number = number.saturating_add(unseen(summary));
    lines.extend(more_line(number, shown.len(), "task", "tasks"));
    lines
}

/// Number of tasks missing from the response; 0 if all items are DONE.
fn unseen(summary: &Summary<'_>) -> usize {
    let done = |items: &ItemCounts| task_state::total(items) == items.done;
    if summary.run.items.as_ref().is_some_and(done) {
        return 0;
    }
    let all = summary.run.tasks.unwrap_or_default();
    let unseen = all.saturating_sub(summary.tasks.len() as u64);
    usize::try_from(unseen).unwrap_or(usize::MAX)
}

/// A line that counts what is not shown: `  … 3 more tasks`.
pub(super) fn more_line(number: usize, shown: usize, one: &str, many: &str) -> Option<Line> {
    let more = number.checked_sub(shown).filter(|more| *more > 0)?;
    let (one, many) = (format!("more {one}"), format!("more {many}"));
    let mut line = Line::new();
    let text = format!("  … {}", count(more as u64, &one, &many));
    line.add(Style::Faint, text);
    Some(line)
}

/// Items that could not be started, with the problem.
pub(super) fn problems(problems: &[RunProblem], width: usize) -> Vec<Line> {
    let line = |problem: &RunProblem| {
        let mut line = Line::new();
        let place = format!("{}[{}]: ", clean(&problem.task), problem.item);
        line.add(Style::Bad, "  ! ")
            .add(Style::Plain, place)
            .add(Style::Plain, clean(&problem.text));
        line.wrap(width, 6)
    };
    let shown = problems.iter().take(PROBLEMS_MAX).flat_map(line);
    let rest = more_line(problems.len(), PROBLEMS_MAX, "problem", "problems");
    shown.chain(rest).collect()
}

/// Groups of failures, with a command to read more.
fn errors(summary: &Summary<'_>, width: usize, colour: bool) -> Vec<String> {
    let groups = summary.errors;
    let mut lines = Vec::new();
    for group in groups.iter().take(ERRORS_MAX) {
        let words = live::error(group).wrap(width, 6);
        lines.extend(words.iter().map(|line| line.paint(width, colour)));
        for line in tail(group) {
            let mut words = Line::new();
            words.add(Style::Plain, format!("      | {}", clean(line)));
            lines.push(words.paint(width, colour));
        }
        let mut command = format!("baton logs {} --stderr", shell(&clean(&group.example)));
        if let Some(local) = summary.local {
            command.push_str(&format!(" --data {}", local.data));
        }
        lines.push(format!("      {}", Style::Faint.paint(&command, colour)));
    }
    let rest = more_line(
        groups.len(),
        ERRORS_MAX,
        "kind of failure",
        "kinds of failure",
    );
    lines.extend(rest.map(|line| line.paint(width, colour)));
    lines
}

/// The last lines of standard error of a group's example.
fn tail(group: &ErrorGroup) -> impl Iterator<Item = &str> {
    let tail = group.stderr_tail.as_deref().unwrap_or_default();
    let skipped = tail.lines().count().saturating_sub(TAIL_LINES_MAX);
    tail.lines().skip(skipped)
}

fn next(summary: &Summary<'_>, width: usize, colour: bool) -> Vec<String> {
    let commands = match summary.local {
        None => commands(summary.run, summary.errors),
        Some(local) if is_resumable(summary.run.state) => {
            vec![(local.resume.to_owned(), RESUMES)]
        }
        Some(_) => Vec::new(),
    };
    format_commands(commands, width, colour)
}

const fn is_resumable(state: UniversalState) -> bool {
    matches!(state, UniversalState::Failed | UniversalState::Halted)
}

/// Suggested commands, each with its effect.
pub(super) fn commands(run: &Run, errors: &[ErrorGroup]) -> Vec<(String, &'static str)> {
    if !is_resumable(run.state) {
        return Vec::new();
    }
    let id = shell(&clean(&run.id));
    let mut commands = vec![(format!("baton resume {id}"), RESUMES)];
    if let Some(group) = errors.first() {
        let command = format!("baton retry {id} --task {}", shell(&clean(&group.task)));
        commands.push((command, "reruns that task entirely"));
    }
    commands
}

/// Formats commands to copy, which are never truncated, with comments if they fit.
pub(crate) fn format_commands(
    commands: Vec<(String, &'static str)>,
    width: usize,
    colour: bool,
) -> Vec<String> {
    let longest = commands.iter().map(|(command, _)| display_width(command));
    let longest = longest.max().unwrap_or(0);
    let head = "  next: ";
    let commented = head.len() + longest + COMMENT_WIDTH <= width;
    let line = |(place, (command, what)): (usize, (String, &str))| {
        let head = if place == 0 { head } else { "        " };
        let mut line = Line::new();
        line.add(Style::Plain, head).add(Style::Plain, command);
        if commented {
            line.pad(head.len() + longest + 2)
                .add(Style::Faint, format!("# {what}"));
        }
        line.paint(usize::MAX, colour)
    };
    commands.into_iter().enumerate().map(line).collect()
}
