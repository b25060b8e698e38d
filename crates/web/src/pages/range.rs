//! A range of instances: their states as numbers and as a map, and why some have failed.
//!
//! The map leads to parts of the range, whose pages have the same actions: so some of an array can be
//! retried or cancelled.

use askama::Template;
use baton_model::api::{Alarm, ErrorGroup, List, RangePart, RangeSummary};
use baton_model::state::UniversalState;

use super::attention::{self, AttentionRow};
use super::{Offer, actions};
use crate::frame::{Action, Frame};

/// Parts of the map: more are too small to be hit.
pub const PARTS: u64 = 600;

/// A range of instances.
#[derive(Template)]
#[template(path = "range.html")]
pub struct RangePage {
    pub frame: Frame,
    /// They may follow later.
    pub counts: Option<RangeCounts>,
}

/// Their number by state, what has failed, and what can be done with them.
#[derive(Template)]
#[template(path = "range_counts.html")]
pub struct RangeCounts {
    pub frame: Frame,
    pub alarms: Vec<AttentionRow>,
    pub counts: Vec<(&'static str, u64)>,
    pub total: u64,
    pub ended: u64,
    pub cells: Vec<Cell>,
    /// Instances that a cell stands for, if several.
    pub each: u64,
    pub errors: Vec<ErrorGroup>,
    /// Failures that were not looked at.
    pub more_errors: u64,
    pub actions: Vec<Action>,
    /// Why there are no counts.
    pub problem: Option<String>,
}

/// A cell of the map.
#[derive(Debug, PartialEq, Eq)]
pub struct Cell {
    pub href: String,
    /// The state that stands for the cell: the one that needs a reader most.
    pub state: &'static str,
    /// Its instances and their states.
    pub label: String,
}

/// Answers of the API about a range.
pub struct Answers {
    pub summary: RangeSummary,
    /// If any have failed.
    pub errors: Option<List<ErrorGroup>>,
    /// Those of the owner of the first one.
    pub alarms: Option<List<Alarm>>,
}

impl RangeCounts {
    #[must_use]
    pub fn new(frame: Frame, answers: Answers) -> Self {
        let Answers {
            summary,
            errors,
            alarms,
        } = answers;
        let (errors, failed) = match errors {
            Some(list) => (list.items, list.total.unwrap_or(0)),
            None => (Vec::new(), 0),
        };
        let of_errors: u64 = errors.iter().map(|it| it.count).sum();
        let counts = summary.counts.iter();
        let ended = counts.clone().filter(|(state, _)| state.is_terminal());
        let range = format!("{}..{}", summary.first, summary.last);
        Self {
            alarms: attention::about(alarms, &range),
            total: counts.clone().map(|(_, count)| count).sum(),
            ended: ended.map(|(_, count)| count).sum(),
            counts: counts
                .map(|(state, count)| (state.word(), *count))
                .collect(),
            cells: summary.parts.iter().map(Cell::new).collect(),
            each: summary.parts.iter().map(size).max().unwrap_or(1),
            more_errors: failed.saturating_sub(of_errors),
            errors,
            actions: actions(&summary.links, OFFERED),
            ..Self::none(frame)
        }
    }

    /// Nothing is counted.
    #[must_use]
    pub fn none(frame: Frame) -> Self {
        Self {
            frame,
            alarms: Vec::new(),
            counts: Vec::new(),
            total: 0,
            ended: 0,
            cells: Vec::new(),
            each: 1,
            errors: Vec::new(),
            more_errors: 0,
            actions: Vec::new(),
            problem: None,
        }
    }
}

impl RangePage {
    /// The page before and after its counts, which follow later.
    ///
    /// # Errors
    /// If the page cannot be rendered.
    pub fn around_counts(frame: Frame) -> Result<(String, String), askama::Error> {
        // No text can contain it: askama escapes `<`.
        const PLACE: &str = "<!-- counts -->";
        let counts = None;
        let page = Self { frame, counts }.render()?;
        let (begin, end) = page.split_once(PLACE).unwrap_or((&page, ""));
        Ok((begin.to_owned(), end.to_owned()))
    }
}

const OFFERED: &[Offer] = &[
    ("retry", |target| {
        Action::new("Retry what has failed", target)
            .ask("Retry all of these that have failed?".to_owned())
    }),
    ("cancel", |target| {
        Action::new("Cancel", target).ask("Cancel all of these that have not ended?".to_owned())
    }),
];

/// From the state that needs a reader most to the one that needs one least.
const URGENCY: [UniversalState; 7] = [
    UniversalState::Failed,
    UniversalState::Running,
    UniversalState::Launched,
    UniversalState::Queued,
    UniversalState::Registering,
    UniversalState::Halted,
    UniversalState::Done,
];

impl Cell {
    fn new(part: &RangePart) -> Self {
        let urgent = URGENCY.iter().find(|it| part.counts.contains_key(it));
        let name = if part.first == part.last {
            part.first.clone()
        } else {
            format!("{}..{}", part.first, part.last)
        };
        let states = part.counts.iter().map(|(state, count)| match size(part) {
            1 => state.to_string(),
            _ => format!("{count} {state}"),
        });
        let states: Vec<String> = states.collect();
        Self {
            href: format!("/instances/{name}"),
            state: urgent.map_or("", |state| state.word()),
            label: format!("{name}: {}", states.join(", ")),
        }
    }
}

fn size(part: &RangePart) -> u64 {
    part.counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Mood, Refresh, Site, Viewer};

    #[test]
    fn a_cell_has_the_state_that_needs_a_reader_most() {
        let part = |last: &str, counts: &[(UniversalState, u64)]| RangePart {
            first: "i2".to_owned(),
            last: last.to_owned(),
            counts: counts.iter().copied().collect(),
        };
        let (done, failed) = (UniversalState::Done, UniversalState::Failed);
        let cell = Cell::new(&part("i9", &[(done, 7), (failed, 1)]));
        assert_eq!((cell.state, &*cell.href), ("FAILED", "/instances/i2..i9"));
        assert_eq!(cell.label, "i2..i9: 7 DONE, 1 FAILED");
        let single = Cell::new(&part("i2", &[(done, 1)]));
        assert_eq!(
            (&*single.href, &*single.label),
            ("/instances/i2", "i2: DONE")
        );
    }

    #[test]
    fn a_range_page_has_its_counts_between_its_two_parts() {
        let frame = Frame {
            site: Site::Scheduler,
            title: "i1..i9 <!-- counts -->".to_owned(),
            section: "",
            mood: Mood::Idle,
            viewer: Viewer::default(),
            here: "/instances/i1..i9".to_owned(),
            refresh: Refresh::Throttled,
            failures: Vec::new(),
            now: 0,
        };
        let (begin, end) = RangePage::around_counts(frame.clone()).expect("it renders");
        let counts = RangeCounts {
            counts: vec![("DONE", 9)],
            ..RangeCounts::none(frame.clone())
        };
        let between = counts.render().expect("it renders");
        assert!(between.contains("DONE"), "{between}");
        let counts = Some(counts);
        let whole = RangePage { frame, counts }.render();
        let whole = whole.expect("it renders");
        assert_eq!(format!("{begin}{between}{end}"), whole);
        assert!(begin.contains("<h1>") && end.ends_with("</html>"), "{end}");
    }
}
