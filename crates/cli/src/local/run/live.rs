//! Live display on a terminal: a row for each process, redrawn in place.
//!
//! Past events scroll above; the current state is drawn below them, at most ten times a second. If
//! the terminal has too few lines, running, failed and waiting processes are shown first, and the
//! others are counted.

use std::io;

use baton_core::plan::{Plan, ProcessView, Wait};
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{Disposition, PlanChange, PlanEvent};
use baton_model::time::{Millis, Now};
use baton_observer::messages;
use baton_runner::record::Header;
use baton_runner::root::Root;
use baton_runner::task::Watcher;

use super::console::{self, ConsoleOutput};
use super::nonblocking::{self, NonblockingOutput};
use super::plain::ends;
use super::summary;
use crate::output::{Output, Style, clean};
use crate::painter::{NAME_WIDTH_MAX, Painter, done_bar, size, spinner};
use crate::text::{Line, display_width, fit};
use crate::time::{self, span};

const FRAME: Millis = Millis(100);

/// The live display of a task.
pub(super) struct Live {
    out: NonblockingOutput,
    header: Header,
    console: ConsoleOutput,
    painter: Painter,
    last: Option<Now>,
    over: bool,
}

impl Live {
    pub(super) fn new(out: Output, header: &Header, root: &Root) -> Self {
        let painter = Painter::new(out.colours);
        let mut live = Self {
            out: NonblockingOutput::new(out, nonblocking::dropped_notice),
            console: ConsoleOutput::new(&header.sandbox),
            header: header.clone(),
            painter,
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
        let (width, height) = size(io::stdout());
        let frame = plan.map(|(plan, now)| self.rows(plan, now, height));
        let frame = frame.unwrap_or_default();
        let text = self.painter.replace(lines, &frame, width);
        self.out.print(&text);
    }

    fn rows(&self, plan: &Plan, now: Now, height: usize) -> Vec<Line> {
        let room = height.saturating_sub(3).max(1);
        let views: Vec<ProcessView<'_>> = plan.processes(now).collect();
        let names = views.iter().map(|view| clean(&view.spec.name.0));
        let width = names.map(|name| display_width(&name)).max().unwrap_or(0);
        let width = width.min(NAME_WIDTH_MAX);
        let mut shown: Vec<&ProcessView<'_>> = views.iter().collect();
        let clipped = shown.len() > room;
        if clipped {
            shown.sort_by_key(|view| (rank(view), view.no));
            shown.truncate(room.saturating_sub(1));
            shown.sort_by_key(|view| view.no);
        }
        let mut rows: Vec<Line> = shown
            .iter()
            .map(|view| row(plan, view, width, now))
            .collect();
        if clipped {
            let more = views.len() - shown.len();
            let mut line = Line::new();
            line.add(Style::Faint, format!("    and {more} more"));
            rows.push(line);
        }
        if !self.over {
            rows.push(self.bar(plan, &views, now));
        }
        rows
    }

    fn bar(&self, plan: &Plan, views: &[ProcessView<'_>], now: Now) -> Line {
        let done = views
            .iter()
            .filter(|view| view.progress.disposition != Disposition::Open)
            .count();
        let elapsed = time::between(self.header.began.wall, now.wall);
        let state = plan.state();
        let mut line = Line::new();
        line.add(Style::Plain, "  ")
            .extend(done_bar(done as u64, views.len() as u64))
            .add(Style::Plain, format!(" {done}/{} ", views.len()))
            .add(Style::of_attempt(state), state.word())
            .add(Style::Faint, format!(" {}", span(elapsed)));
        if let (AttemptState::Cleaning | AttemptState::Finalizing, Some(ending)) =
            (state, plan.ending())
        {
            let left = span(ending.deadline.since(now.mono));
            let text = format!(" · ends as {}, {left} left for that", ending.verdict);
            line.add(Style::Faint, text);
        }
        line
    }

    fn output(&self, lines: Vec<console::Line>, plan: &Plan) -> Vec<String> {
        let one = |line: console::Line| {
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
        if self.over || (fresh && self.painter.is_shown()) || self.out.is_behind() {
            return;
        }
        self.last = Some(now);
        let lines = self.console.lines();
        let lines = self.output(lines, plan);
        self.above(&lines, Some((plan, now)));
    }

    fn finished(&mut self, plan: &Plan) {
        let lines = self.console.finish();
        let lines = self.output(lines, plan);
        self.above(&lines, Some((plan, plan.snapshot().at.into())));
        // The last frame stays.
        self.painter.keep();
        let summary = summary::lines(self.out.output(), &self.header, plan);
        self.above(&summary, None);
        self.out.finish();
    }

    fn refresh_every(&self) -> Option<Millis> {
        Some(FRAME)
    }
}

fn row(plan: &Plan, view: &ProcessView<'_>, width: usize, now: Now) -> Line {
    let (glyph, style) = glyph(view, now);
    let name_style = if style == Style::Faint {
        Style::Faint
    } else {
        Style::Plain
    };
    let took = took(view, now).map(span).unwrap_or_default();
    let mut line = Line::new();
    line.add(style, format!("  {glyph} "))
        .add(name_style, fit(&clean(&view.spec.name.0), width))
        .pad(4 + width)
        .add(Style::Faint, format!(" {took:>7}  "))
        .add(Style::Faint, details(plan, view, now));
    line
}

fn glyph(view: &ProcessView<'_>, now: Now) -> (&'static str, Style) {
    let progress = view.progress;
    match (progress.state, progress.disposition) {
        (_, Disposition::Failed) => ("✗", Style::Bad),
        (_, Disposition::Blocked) => ("⊘", Style::Faint),
        (ProcessState::Running | ProcessState::Forked, _) => (spinner(now.wall), Style::Busy),
        (ProcessState::Success, _) => ("✓", Style::Good),
        (ProcessState::Waiting, _) if progress.last.is_some() => ("↻", Style::Odd),
        (ProcessState::Waiting, _) => ("·", Style::Faint),
        (ProcessState::Failed, _) => ("✗", Style::Bad),
        (ProcessState::Killed | ProcessState::Lost, _) => ("■", Style::Odd),
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
