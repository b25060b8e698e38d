//! Live progress of a run: frames for a terminal, or one line per change.
//!
//! A frame has at most `height` lines: the state of the run, its tasks, and the most frequent
//! failures. If not all tasks fit, running, failed and ready ones are shown first, in the order of
//! the workflow so that they do not jump; the others are counted. A caller that ends each line with
//! a line feed must ask for one line less than the terminal has.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::api::{ErrorGroup, ItemCounts, Run, RunTask};
use baton_model::time::{Millis, Wall};

use super::estimate;
use super::task_state::{self, TaskState};
use crate::output::{Style, clean};
use crate::painter::{BAR_WIDTH, NAME_WIDTH_MAX, spinner};
use crate::text::grouped;
use crate::text::{self, Line, fit};
use crate::time::{between, span, time_of_day};
use crate::views::rows;

const ERRORS_MAX: usize = 3;
/// How long nothing runs before lines tell why: most items start sooner.
const REASON_WAIT: Millis = Millis::from_secs(3);

/// The input of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) run: &'a Run,
    /// Its tasks, in the order of the workflow.
    pub(crate) tasks: &'a [RunTask],
    /// Groups of failures, most frequent first.
    pub(crate) errors: &'a [ErrorGroup],
    pub(crate) now: Wall,
}

/// Renders a frame for a width, in at most `height` lines.
pub(crate) fn render(frame: &Frame<'_>, width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![header(frame), overall(frame, width)];
    let room = height.saturating_sub(lines.len());
    // Failures take at most half of the lines, and never the only line for tasks.
    let errors = errors(frame.errors, ERRORS_MAX.min(room / 2));
    lines.extend(rows(frame, width, room - errors.len()));
    lines.extend(errors);
    lines.truncate(height);
    lines
}

fn header(frame: &Frame<'_>) -> Line {
    let run = frame.run;
    let mut line = Line::new();
    line.add(Style::Strong, clean(&run.name))
        .add(Style::Faint, format!(" {} ", clean(&run.id)))
        .add(rows::style(run.state), run.state.word());
    if let Some(word) = task_state::halting_word(run) {
        line.add(Style::Odd, format!(", {word}"));
    }
    if run.generation > 1 {
        line.add(Style::Faint, format!(" · generation {}", run.generation));
    }
    line.add(Style::Faint, format!(" · {}", span(elapsed(frame))));
    if let Some(text) = estimate::remaining(run, frame.tasks).and_then(estimate::describe) {
        line.add(Style::Faint, format!(" · {text}"));
    }
    line
}

/// In whole seconds: the frame is redrawn several times a second.
fn elapsed(frame: &Frame<'_>) -> Millis {
    let end = frame.run.ended_at.map_or(frame.now, Wall);
    Millis::from_secs(between(Wall(frame.run.begun_at), end).0 / 1_000)
}

fn overall(frame: &Frame<'_>, width: usize) -> Line {
    let items = frame.run.items.unwrap_or_else(|| sum(frame.tasks));
    let total = task_state::total(&items);
    let mut line = Line::new();
    let words = format!(" {}/{} items", grouped(items.done), grouped(total));
    line.add(Style::Plain, "  ")
        .extend(task_state::bar(&items, bar_width(width)))
        .add(Style::Plain, words);
    let remarks = task_state::remarks(frame.run, &items);
    if !remarks.is_empty() {
        line.add(Style::Faint, " · ");
        task_state::add_remarks(&mut line, remarks);
    }
    line
}

fn sum(tasks: &[RunTask]) -> ItemCounts {
    let of = |field: fn(&ItemCounts) -> u64| task_state::add(tasks.iter().map(|t| field(&t.items)));
    ItemCounts {
        waiting: of(|items| items.waiting),
        ready: of(|items| items.ready),
        queued: of(|items| items.queued),
        running: of(|items| items.running),
        done: of(|items| items.done),
        failed: of(|items| items.failed),
        halted: of(|items| items.halted),
        skipped: of(|items| items.skipped),
        blocked: of(|items| items.blocked),
    }
}

/// On a narrow terminal the bar is shorter: text has precedence.
fn bar_width(width: usize) -> usize {
    (width / 4).clamp(4, BAR_WIDTH)
}

fn rows(frame: &Frame<'_>, width: usize, room: usize) -> Vec<Line> {
    let mut shown: Vec<usize> = (0..frame.tasks.len()).collect();
    // The run may have more tasks than were fetched.
    let all = frame.run.tasks.unwrap_or_default().max(shown.len() as u64);
    if all <= room as u64 && all == shown.len() as u64 {
        return aligned(frame, &shown, width);
    }
    shown.sort_by_key(|place| (rank(frame.run, &frame.tasks[*place]), *place));
    let hidden = shown.split_off(shown.len().min(room.saturating_sub(1)));
    shown.sort_unstable();
    let number = all - shown.len() as u64;
    let mut lines = aligned(frame, &shown, width);
    lines.extend((room > 0).then(|| hidden_line(frame, &hidden, number)));
    lines
}

/// Display priority if not all tasks fit; lower is shown first.
fn rank(run: &Run, task: &RunTask) -> u8 {
    let open = task_state::open(&task.items) > 0;
    match TaskState::of(run, task) {
        TaskState::Running => 0,
        TaskState::Failed if open => 0,
        TaskState::Failed => 1,
        TaskState::Ready => 2,
        TaskState::Waiting => 3,
        TaskState::Halted | TaskState::Blocked => 4,
        TaskState::Done | TaskState::Skipped | TaskState::Empty => 5,
    }
}

/// `… 37 more tasks: 30 waiting, 7 done`.
fn hidden_line(frame: &Frame<'_>, hidden: &[usize], number: u64) -> Line {
    let kinds = TaskState::ALL.into_iter().filter_map(|kind| {
        let alike = |place: &&usize| TaskState::of(frame.run, &frame.tasks[**place]) == kind;
        let number = hidden.iter().filter(alike).count() as u64;
        (number > 0).then(|| format!("{} {}", grouped(number), kind.word()))
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let colon = if kinds.is_empty() { "" } else { ": " };
    let number = text::count(number, "more task", "more tasks");
    let mut line = Line::new();
    line.add(Style::Faint, format!("  … {number}{colon}{kinds}"));
    line
}

fn aligned(frame: &Frame<'_>, shown: &[usize], width: usize) -> Vec<Line> {
    let tasks = || shown.iter().map(|place| &frame.tasks[*place]);
    let names: Vec<String> = tasks().map(|task| clean(&task.name)).collect();
    let names_max = NAME_WIDTH_MAX.min(width * 3 / 10);
    let names_width = task_state::names_width(names.iter().map(String::as_str), names_max);
    let fractions: Vec<String> = tasks().map(task_state::fraction).collect();
    let numbers = fractions.iter().map(String::len).max().unwrap_or(0);
    let row = |((task, name), fraction): ((&RunTask, &String), &String)| {
        let state = TaskState::of(frame.run, task);
        let mark = match state {
            TaskState::Running => spinner(frame.now),
            other => other.mark(),
        };
        let mut line = Line::new();
        line.add(task_state::style(state), format!("  {mark} "))
            .add(Style::Plain, fit(name, names_width))
            .pad(4 + names_width + 2)
            .extend(task_state::bar(&task.items, bar_width(width)))
            .add(Style::Plain, format!(" {fraction:>numbers$}  "));
        task_state::add_remarks(&mut line, remarks(frame.run, task));
        line
    };
    tasks().zip(&names).zip(&fractions).map(row).collect()
}

/// Counts of a task's items, and why they wait. The reason follows the most urgent counts, so that
/// it is not truncated.
fn remarks(run: &Run, task: &RunTask) -> Vec<(String, Style)> {
    let mut remarks = task_state::task_remarks(run, task);
    remarks.extend(task_state::progress(task));
    let waits = task_state::unbegun(&task.items) > 0 || task.unmapped;
    if let Some(reason) = task.reason.as_ref().filter(|_| waits) {
        let urgent = |(_, style): &(String, Style)| matches!(style, Style::Bad | Style::Busy);
        let place = remarks.iter().take_while(|remark| urgent(remark)).count();
        remarks.insert(place, (clean(reason), Style::Faint));
    }
    remarks
}

fn errors(groups: &[ErrorGroup], room: usize) -> Vec<Line> {
    let mut shown: Vec<Line> = groups.iter().take(room).map(error).collect();
    if let Some(last) = shown.last_mut()
        && groups.len() > room
    {
        let more = groups.len() - room;
        last.add(Style::Faint, format!(" · and {more} other kinds"));
    }
    shown
}

/// `✗ 2× extract: exit code 1 (i5)`.
pub(super) fn error(group: &ErrorGroup) -> Line {
    let mut line = Line::new();
    line.add(Style::Bad, format!("  ✗ {}× ", grouped(group.count)))
        .add(Style::Plain, format!("{}: ", clean(&group.task)))
        .add(Style::Plain, clean(&group.end_text))
        .add(Style::Faint, format!(" ({})", clean(&group.example)));
    line
}

/// Progress line by line, for output that cannot be redrawn: a line for each change since the
/// previous frame, with the time of day.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    run: String,
    tasks: BTreeMap<String, String>,
    /// Since when items wait and none runs.
    stuck_since: Option<Wall>,
    /// Tasks whose reason was told since then.
    explained: BTreeSet<String>,
}

impl Plain {
    /// Returns a line for each change. Tasks that have not started are left out.
    pub(crate) fn lines(&mut self, frame: &Frame<'_>) -> Vec<String> {
        let at = time_of_day(frame.now);
        let mut lines = Vec::new();
        let over = frame.run.state.is_terminal();
        let halting = task_state::halting_word(frame.run).filter(|_| !over);
        let halting = halting.map_or_else(String::new, |word| format!(", {word}"));
        let run = format!("{} {}{halting}", clean(&frame.run.id), frame.run.state);
        let news = self.run != run;
        if news && !over {
            lines.push(format!("{at} {run}"));
        }
        for task in frame.tasks {
            let Some(text) = task_line(frame.run, task) else {
                continue;
            };
            if self.tasks.get(&task.name) != Some(&text) {
                lines.push(format!("{at} {} {text}", clean(&task.name)));
                self.tasks.insert(task.name.clone(), text);
            }
        }
        let reasons = self.reasons(frame).into_iter();
        lines.extend(reasons.map(|(task, reason)| format!("{at} {task} waits: {reason}")));
        // The final state of the run comes last.
        if news && over {
            lines.push(format!("{at} {run}"));
        }
        self.run = run;
        lines
    }

    /// Why the queued tasks of a run wait, once each, if none of its items has run for a while: a
    /// reason of busy moments changes too often for a log.
    fn reasons(&mut self, frame: &Frame<'_>) -> Vec<(String, String)> {
        let waits = |items: &ItemCounts| items.ready + items.queued > 0;
        let items = sum(frame.tasks);
        if items.running > 0 || !waits(&items) {
            self.stuck_since = None;
            self.explained.clear();
            return Vec::new();
        }
        let since = *self.stuck_since.get_or_insert(frame.now);
        if between(since, frame.now) < REASON_WAIT {
            return Vec::new();
        }
        let tasks = frame.tasks.iter().filter(|task| waits(&task.items));
        let mut reasons = Vec::new();
        for task in tasks {
            if let Some(reason) = &task.reason
                && self.explained.insert(task.name.clone())
            {
                reasons.push((clean(&task.name), clean(reason)));
            }
        }
        reasons
    }
}

fn task_line(run: &Run, task: &RunTask) -> Option<String> {
    let begun = task_state::total(&task.items) > task.items.waiting;
    let known_empty = task_state::total(&task.items) == 0 && !task.unmapped;
    (begun || known_empty).then(|| task_state::sentence(run, task))
}
