//! Live display on a terminal: a row for each process, redrawn in place.
//!
//! Past events scroll above; the current state is drawn below them, at most ten times a second. If
//! the terminal has too few lines, running, failed and waiting processes are shown first, and the
//! others are counted.

use baton_core::plan::{Plan, ProcessView, Wait};
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{Disposition, PlanChange, PlanEvent};
use baton_model::time::{Millis, Now};
use baton_runner::record::Header;
use baton_runner::root::Root;
use baton_runner::task::Watcher;

use super::super::messages;
use super::console::{ConsoleOutput, Line};
use super::nonblocking::{self, NonblockingOutput};
use super::plain::ends;
use super::summary;
use crate::output::{Output, Style, clean};
use crate::time::{self, span};

const FRAME: Millis = Millis(100);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Size assumed for a terminal that does not report one.
const SIZE: (usize, usize) = (80, 24);
const NAME_WIDTH_MAX: usize = 24;
const BAR_WIDTH: usize = 24;

/// The live display of a task.
pub(super) struct Live {
    out: NonblockingOutput,
    header: Header,
    console: ConsoleOutput,
    /// Number of lines that the next frame overwrites.
    drawn: usize,
    frame: usize,
    last: Option<Now>,
    over: bool,
}

/// One line of styled pieces.
type Row = Vec<(String, Style)>;

impl Live {
    pub(super) fn new(out: Output, header: &Header, root: &Root) -> Self {
        let mut live = Self {
            out: NonblockingOutput::new(out, nonblocking::dropped_notice),
            console: ConsoleOutput::new(&header.sandbox),
            header: header.clone(),
            drawn: 0,
            frame: 0,
            last: None,
            over: false,
        };
        let place = format!("{} · {}", clean(&header.sandbox), root.path().display());
        let line = format!(
            "{} {}",
            live.out.paint(Style::Strong, &clean(&header.task_id)),
            live.out.paint(Style::Faint, &place)
        );
        live.above(&[line], None);
        live
    }

    /// Prints permanent lines, and redraws the display below them.
    fn above(&mut self, lines: &[String], plan: Option<(&Plan, Now)>) {
        let mut text = self.erase();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        if let Some((plan, now)) = plan {
            text.push_str(&self.draw(plan, now));
        }
        self.out.print(&text);
    }

    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }

    fn draw(&mut self, plan: &Plan, now: Now) -> String {
        let (width, height) = size();
        let views: Vec<ProcessView<'_>> = plan.processes(now).collect();
        let room = height.saturating_sub(3).max(1);
        let rows = self.rows(plan, &views, now, room);
        let mut text = String::new();
        self.drawn = rows.len();
        for row in rows {
            text.push_str(&self.line(&row, width));
            text.push('\n');
        }
        text
    }

    fn rows(&self, plan: &Plan, views: &[ProcessView<'_>], now: Now, room: usize) -> Vec<Row> {
        let names = views.iter().map(|view| view.spec.name.0.chars().count());
        let width = names.max().unwrap_or(0).min(NAME_WIDTH_MAX);
        let mut shown: Vec<&ProcessView<'_>> = views.iter().collect();
        let clipped = shown.len() > room;
        if clipped {
            shown.sort_by_key(|view| (rank(view), view.no));
            shown.truncate(room.saturating_sub(1));
            shown.sort_by_key(|view| view.no);
        }
        let mut rows: Vec<Row> = shown
            .iter()
            .map(|view| self.row(plan, view, width, now))
            .collect();
        if clipped {
            let more = views.len() - shown.len();
            rows.push(vec![(format!("    and {more} more"), Style::Faint)]);
        }
        if !self.over {
            rows.push(self.bar(plan, views, now));
        }
        rows
    }

    fn row(&self, plan: &Plan, view: &ProcessView<'_>, width: usize, now: Now) -> Row {
        let (glyph, style) = self.glyph(view);
        let name = fit(&clean(&view.spec.name.0), width);
        let name_style = if style == Style::Faint {
            Style::Faint
        } else {
            Style::Plain
        };
        let took = took(view, now).map(span).unwrap_or_default();
        vec![
            (format!("  {glyph} "), style),
            (format!("{name:<width$}"), name_style),
            (format!(" {took:>7}  "), Style::Faint),
            (details(plan, view, now), Style::Faint),
        ]
    }

    fn glyph(&self, view: &ProcessView<'_>) -> (&'static str, Style) {
        let progress = view.progress;
        match (progress.state, progress.disposition) {
            (_, Disposition::Failed) => ("✗", Style::Bad),
            (_, Disposition::Blocked) => ("⊘", Style::Faint),
            (ProcessState::Running | ProcessState::Forked, _) => {
                (SPINNER[self.frame % SPINNER.len()], Style::Busy)
            }
            (ProcessState::Success, _) => ("✓", Style::Good),
            (ProcessState::Waiting, _) if progress.last.is_some() => ("↻", Style::Odd),
            (ProcessState::Waiting, _) => ("·", Style::Faint),
            (ProcessState::Failed, _) => ("✗", Style::Bad),
            (ProcessState::Killed | ProcessState::Lost, _) => ("■", Style::Odd),
        }
    }

    fn bar(&self, plan: &Plan, views: &[ProcessView<'_>], now: Now) -> Row {
        let done = views
            .iter()
            .filter(|view| view.progress.disposition != Disposition::Open)
            .count();
        let filled = done * BAR_WIDTH / views.len().max(1);
        let elapsed = time::between(self.header.began.wall, now.wall);
        let state = plan.state();
        let mut row = vec![
            ("  ".to_owned(), Style::Plain),
            ("━".repeat(filled), Style::Good),
            ("─".repeat(BAR_WIDTH - filled), Style::Faint),
            (format!(" {done}/{} ", views.len()), Style::Plain),
            (state.word().to_owned(), Style::of_attempt(state)),
            (format!(" {}", span(elapsed)), Style::Faint),
        ];
        if let (AttemptState::Cleaning | AttemptState::Finalizing, Some(ending)) =
            (state, plan.ending())
        {
            let left = span(ending.deadline.since(now.mono));
            row.push((
                format!(" · ends as {}, {left} left for that", ending.verdict),
                Style::Faint,
            ));
        }
        row
    }

    /// Renders a row, truncated to the width of the terminal.
    fn line(&self, row: &Row, width: usize) -> String {
        let mut left = width;
        let mut text = String::new();
        for (piece, style) in row {
            let piece = fit(piece, left);
            left -= piece.chars().count();
            text.push_str(&self.out.paint(*style, &piece));
        }
        text
    }

    fn output(&self, lines: Vec<Line>, plan: &Plan) -> Vec<String> {
        let one = |line: Line| {
            let name = self
                .out
                .paint(Style::Busy, &messages::name(plan, line.process));
            format!("{name} {} {}", self.out.paint(Style::Faint, "|"), line.text)
        };
        lines.into_iter().map(one).collect()
    }
}

impl Watcher for Live {
    fn event(&mut self, event: &PlanEvent, plan: &Plan) {
        let lines = self.console.event(event, plan);
        let mut lines = self.output(lines, plan);
        if let PlanChange::Resumed { .. } = event.change {
            lines.push(self.out.paint(Style::Odd, &messages::event(plan, event)));
        }
        self.over |= ends(&event.change);
        if self.over || !lines.is_empty() {
            self.above(&lines, Some((plan, event.at.into())));
        }
    }

    fn note(&mut self, text: &str) {
        let line = self.out.paint(Style::Odd, &format!("baton: {text}"));
        self.above(&[line], None);
    }

    fn refresh(&mut self, plan: &Plan, now: Now) {
        let fresh = self
            .last
            .is_some_and(|last| now.mono.since(last.mono) < FRAME);
        self.out.flush_ready();
        // While the previous frame is still unwritten, no newer one is queued.
        if self.over || (fresh && self.drawn > 0) || self.out.is_behind() {
            return;
        }
        self.last = Some(now);
        self.frame += 1;
        let lines = self.console.lines();
        let lines = self.output(lines, plan);
        self.above(&lines, Some((plan, now)));
    }

    fn finished(&mut self, plan: &Plan) {
        let lines = self.console.finish();
        let lines = self.output(lines, plan);
        self.above(&lines, Some((plan, plan.snapshot().at.into())));
        // The last frame stays.
        self.drawn = 0;
        let summary = summary::lines(self.out.output(), &self.header, plan);
        self.above(&summary, None);
        self.out.finish();
    }

    fn refresh_every(&self) -> Option<Millis> {
        Some(FRAME)
    }
}

/// Display priority if there are too few lines; lower is shown first.
fn rank(view: &ProcessView<'_>) -> u8 {
    let progress = view.progress;
    match (progress.state, progress.disposition) {
        (_, Disposition::Failed) => 0,
        (ProcessState::Running | ProcessState::Forked, _) => 1,
        (ProcessState::Waiting, Disposition::Open) if progress.last.is_some() => 2,
        (ProcessState::Waiting, Disposition::Open) => 3,
        _ => 4,
    }
}

/// Duration of the current run, or of the last one.
fn took(view: &ProcessView<'_>, now: Now) -> Option<Millis> {
    let progress = view.progress;
    if let Some(started) = progress.live.and_then(|live| live.started) {
        return Some(now.mono.since(started.mono));
    }
    let last = progress.last?;
    Some(last.ended.mono.since(last.started?.mono))
}

fn details(plan: &Plan, view: &ProcessView<'_>, now: Now) -> String {
    let progress = view.progress;
    let mut parts = Vec::new();
    if let Some(live) = progress.live {
        if live.run.0 > 0 {
            parts.push(format!("run {}", live.run.0 + 1));
        }
        match live.stopping {
            Some(cause) => parts.push(format!("stopping: {}", messages::stop(cause))),
            None if live.ready => parts.push("ready".to_owned()),
            None => {}
        }
    }
    if let Some(wait) = &view.wait {
        let short = !matches!(wait, Wait::Launch);
        parts.extend(short.then(|| messages::wait(plan, wait, now)));
    }
    let finished = progress.disposition == Disposition::Finished;
    if let Some(last) = progress.last.as_ref().filter(|_| !finished) {
        let before = if progress.live.is_some() || view.wait.is_some() {
            "before: "
        } else {
            ""
        };
        parts.push(format!("{before}{}", messages::last(last)));
    }
    match (finished, progress.failures) {
        (_, 0) | (false, 1) => {}
        (true, 1) => parts.push("after a failure".to_owned()),
        (true, many) => parts.push(format!("after {many} failures")),
        (false, many) => parts.push(format!("{many} failures")),
    }
    parts.join(" · ")
}

/// Truncates a text to a width.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => SIZE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_width() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("abcd", 1), "…");
        assert_eq!(fit("abcd", 0), "");
    }
}
