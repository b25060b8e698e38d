//! The attempts of an instance over time: a row for each with its text, and with a bar as SVG.
//!
//! A bar has three parts, which differ in shape and not only in colour: a thin one while it waited, a
//! hollow one while it was assigned and not yet started, and a full one while it ran. All bars have the
//! same scale.

use std::fmt::Write as _;

use baton_model::api::Event;
use baton_model::fact::{Fact, Verdict};
use baton_model::outcome::{AttemptEnd, AttemptStats, Synthetic};
use baton_model::state::UniversalState;

use crate::markup::Markup;
use crate::text::duration;
use crate::time::Stamp;

/// Attempts on a page; earlier ones are in the timeline.
const ROWS_MAX: usize = 50;

/// Width and height of a bar; the style sheet stretches it.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 20.0;
/// A part is never narrower than this, so that it can be seen.
const WIDTH_MIN: f64 = 4.0;

/// The attempts of an instance, the latest first.
#[derive(Debug, PartialEq, Eq)]
pub struct Attempts {
    pub rows: Vec<AttemptRow>,
    /// Number of earlier attempts that are left out.
    pub omitted: usize,
    /// The begin of all bars.
    pub from: Stamp,
    /// The time that they span.
    pub span: String,
}

/// One attempt.
#[derive(Debug, PartialEq, Eq)]
pub struct AttemptRow {
    pub number: u32,
    /// Its output on the page of the instance; none if it waits for a worker. That of the latest is
    /// the page itself, which also shows the attempts after it.
    pub href: Option<String>,
    pub state: &'static str,
    /// Its worker; empty if it waits for one.
    pub worker: String,
    /// Its times and its end.
    pub text: String,
    pub bar: Markup,
    /// Whether its output is the one on the page.
    pub is_selected: bool,
}

/// An attempt, as the timeline tells it. Times are in milliseconds since 1970.
#[derive(Clone, Debug)]
struct Attempt {
    number: u32,
    worker: String,
    waits_from: u64,
    assigned: Option<u64>,
    started: Option<u64>,
    ended: Option<Ended>,
}

#[derive(Clone, Debug)]
struct Ended {
    at: u64,
    state: &'static str,
    text: String,
    stats: Option<AttemptStats>,
}

impl Attempts {
    /// The attempts in a timeline that begins with the first event of the instance.
    #[must_use]
    pub fn new(timeline: &[Event], state: UniversalState, selected: u32, now: u64) -> Self {
        let mut attempts = attempts(timeline);
        let is_open = |it: &Attempt| it.assigned.is_none() || it.ended.is_none();
        if state.is_terminal() {
            // It was halted while it waited, or its last attempt has ended.
            attempts.retain(|it| it.assigned.is_some());
        }
        let until = match attempts.last() {
            Some(last) if is_open(last) => now,
            Some(last) => last.end(now),
            None => now,
        };
        let omitted = attempts.len().saturating_sub(ROWS_MAX);
        attempts.drain(..omitted);
        let from = attempts.first().map_or(now, |first| first.waits_from);
        let scale = Scale { from, until };
        let latest = attempts.iter().rev().find(|it| it.assigned.is_some());
        let latest = latest.map(|it| it.number);
        let rows = attempts.iter().rev().map(|it| AttemptRow {
            number: it.number,
            href: it.assigned.map(|_| match it.number {
                number if Some(number) == latest => "?#h-output".to_owned(),
                number => format!("?attempt={number}#h-output"),
            }),
            state: it.state(),
            worker: it.worker.clone(),
            text: it.text(now),
            bar: it.bar(scale, now),
            is_selected: it.number == selected,
        });
        Self {
            rows: rows.collect(),
            omitted,
            from: Stamp(from),
            span: duration(scale.span() / 1_000.0),
        }
    }
}

/// The attempts of a timeline, the oldest first. The last one may still wait for a worker.
fn attempts(timeline: &[Event]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for event in timeline {
        let last = attempts.last_mut();
        match &event.fact {
            Fact::InstancesSubmitted { .. } | Fact::InstanceRetried { .. } => {
                let number = last.map_or(1, |last| last.number + 1);
                attempts.push(Attempt::waiting(number, event.at));
            }
            Fact::LeaseGranted { lease, holder, .. }
            | Fact::AttemptAdopted { lease, holder, .. } => {
                let number = lease.attempt.number.0;
                let waiting = attempts.pop_if(|last| last.assigned.is_none());
                attempts.push(Attempt {
                    worker: holder.worker.to_string(),
                    assigned: Some(event.at),
                    ..Attempt::waiting(number, waiting.map_or(event.at, |it| it.waits_from))
                });
            }
            Fact::AttemptConfirmed { .. } => {
                if let Some(last) = last {
                    last.started = Some(event.at);
                }
            }
            Fact::AttemptEnded {
                end,
                verdict,
                stats,
                ..
            } => {
                let Some(last) = last else { continue };
                last.ended = Some(Ended {
                    at: event.at,
                    state: end_state(*end, *verdict),
                    text: end.to_string(),
                    stats: *stats,
                });
                if *verdict == Verdict::Requeued {
                    let next = last.number + 1;
                    attempts.push(Attempt::waiting(next, event.at));
                }
            }
            _ => {}
        }
    }
    attempts
}

fn end_state(end: AttemptEnd, verdict: Verdict) -> &'static str {
    let is_lost = match end {
        AttemptEnd::Real(outcome) => outcome.is_loss(),
        AttemptEnd::Synthetic(
            Synthetic::WorkerLost(_) | Synthetic::WasNotRunning | Synthetic::HostFault,
        ) => true,
        AttemptEnd::Synthetic(Synthetic::NeverStarted) => false,
    };
    match verdict {
        Verdict::Done => "DONE",
        Verdict::Stopped => "HALTED",
        Verdict::Requeued | Verdict::GaveUp if is_lost => "LOST",
        Verdict::Requeued | Verdict::GaveUp => "FAILED",
    }
}

impl Attempt {
    fn waiting(number: u32, waits_from: u64) -> Self {
        Self {
            number,
            worker: String::new(),
            waits_from,
            assigned: None,
            started: None,
            ended: None,
        }
    }

    /// The start of its first process: as its worker measured it, or else when it was reported.
    fn start(&self) -> Option<u64> {
        let stats = self.ended.as_ref().and_then(|ended| ended.stats);
        let started = stats.map(|stats| stats.started.0).or(self.started)?;
        // Clocks of hosts differ.
        Some(started.max(self.assigned?))
    }

    fn end(&self, now: u64) -> u64 {
        let Some(ended) = &self.ended else { return now };
        let at = ended.stats.map_or(ended.at, |stats| stats.ended.0);
        at.min(ended.at)
            .max(self.start().or(self.assigned).unwrap_or(0))
    }

    fn state(&self) -> &'static str {
        match (&self.ended, self.assigned, self.started) {
            (Some(ended), _, _) => ended.state,
            (None, None, _) => UniversalState::Queued.word(),
            (None, Some(_), None) => UniversalState::Launched.word(),
            (None, Some(_), Some(_)) => UniversalState::Running.word(),
        }
    }

    fn text(&self, now: u64) -> String {
        let since = |from: u64, to: u64| duration(to.saturating_sub(from) as f64 / 1_000.0);
        let Some(assigned) = self.assigned else {
            return format!("has waited {}", since(self.waits_from, now));
        };
        let mut text = format!("waited {}", since(self.waits_from, assigned));
        let stats = self.ended.as_ref().and_then(|ended| ended.stats);
        let run_time = match (stats, self.start()) {
            (Some(stats), _) => Some(duration(stats.elapsed.0 as f64 / 1_000.0)),
            (None, started) => started.map(|started| since(started, self.end(now))),
        };
        match (run_time, &self.ended) {
            (Some(run_time), Some(_)) => text = format!("{text}, ran {run_time}"),
            (Some(run_time), None) => text = format!("{text}, has run {run_time}"),
            (None, _) => {}
        }
        if let Some(ended) = &self.ended {
            let _ = write!(text, ": {}", ended.text);
        }
        text
    }

    fn bar(&self, scale: Scale, now: u64) -> Markup {
        let mut svg = format!(
            "<svg class=\"span\" aria-hidden=\"true\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\">"
        );
        let mut part = |class: &str, from: u64, to: u64, height: f64| {
            let (x, width) = scale.place(from, to);
            let y = (HEIGHT - height) / 2.0;
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"/>"
            );
        };
        let end = self.end(now);
        let assigned = self.assigned.unwrap_or(now);
        part("waited", self.waits_from, assigned, 4.0);
        if self.assigned.is_some() {
            part("assigned", assigned, self.start().unwrap_or(end), 10.0);
        }
        if let Some(start) = self.start() {
            part(&format!("s-{}", self.state()), start, end, 18.0);
        }
        svg.push_str("</svg>");
        Markup(svg)
    }
}

/// The common scale of all bars.
#[derive(Clone, Copy)]
struct Scale {
    from: u64,
    until: u64,
}

impl Scale {
    fn span(self) -> f64 {
        self.until.saturating_sub(self.from).max(1) as f64
    }

    /// Begin and width of a part.
    fn place(self, from: u64, to: u64) -> (f64, f64) {
        let at = |time: u64| WIDTH * (time.saturating_sub(self.from) as f64 / self.span()).min(1.0);
        let begin = at(from).min(WIDTH - WIDTH_MIN);
        (begin, (at(to) - begin).max(WIDTH_MIN))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(at: u64, kind: &str, number: u32, more: Value) -> Event {
        let lease = json!({"attempt": {"instance": 1, "number": number}, "epoch": "1"});
        let mut fact = json!({"instance": 1, "lease": lease});
        let fields = fact.as_object_mut().expect("an object");
        fields.extend(more.as_object().cloned().unwrap_or_default());
        let fact = json!({ kind: fact });
        let event = json!({"seq": at, "at": at, "epoch": 1, "text": "", "fact": fact});
        baton_model::json::from_value(&event).expect("an event")
    }

    fn granted(at: u64, number: u32) -> Event {
        let incarnation = json!({"lineage": "1", "number": 1});
        let holder = json!({"worker": "w1", "incarnation": incarnation, "host": "1", "boot": "1"});
        event(at, "lease-granted", number, json!({ "holder": holder }))
    }

    fn ended(at: u64, number: u32, end: &Value, verdict: &str, stats: &Value) -> Event {
        let more = json!({"end": end, "verdict": verdict, "stats": stats, "next_attempt": null});
        event(at, "attempt-ended", number, more)
    }

    fn timeline() -> Vec<Event> {
        let stats =
            json!({"started": 3_000, "ended": 8_000, "elapsed": 5_000, "cpu": 1, "memory_peak": 1});
        vec![
            event(1_000, "instance-retried", 0, Value::Null),
            granted(2_000, 1),
            event(3_500, "attempt-confirmed", 1, Value::Null),
            ended(
                8_100,
                1,
                &json!({"real": {"exited": 3}}),
                "requeued",
                &stats,
            ),
            granted(10_100, 2),
            ended(
                12_100,
                2,
                &json!({"synthetic": {"worker-lost": "forgotten"}}),
                "requeued",
                &Value::Null,
            ),
        ]
    }

    #[test]
    fn each_attempt_has_its_times_its_worker_and_its_end() {
        let found = Attempts::new(&timeline(), UniversalState::Queued, 2, 21_000);
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|it| (it.number, it.state, &*it.worker, &*it.text))
            .collect();
        assert_eq!(
            rows,
            [
                (3, "QUEUED", "", "has waited 8.90 s"),
                (
                    2,
                    "LOST",
                    "w1",
                    "waited 2.00 s: worker lost, forgotten by operator"
                ),
                (1, "FAILED", "w1", "waited 1.00 s, ran 5.00 s: exit 3"),
            ]
        );
        assert_eq!((found.from, &*found.span), (Stamp(1_000), "20 s"));
        let selected: Vec<_> = found.rows.iter().map(|it| it.is_selected).collect();
        assert_eq!(selected, [false, true, false]);
        let links: Vec<_> = found.rows.iter().map(|it| it.href.as_deref()).collect();
        assert_eq!(
            links,
            [None, Some("?#h-output"), Some("?attempt=1#h-output")]
        );
        let bar = &found.rows[2].bar.0;
        assert!(
            bar.contains("<rect class=\"waited\" x=\"0.0\" y=\"8\" width=\"50.0\""),
            "{bar}"
        );
        assert!(
            bar.contains("<rect class=\"s-FAILED\" x=\"100.0\" y=\"1\" width=\"250.0\""),
            "{bar}"
        );
    }

    #[test]
    fn an_instance_that_has_ended_waits_for_no_attempt() {
        let found = Attempts::new(&timeline(), UniversalState::Halted, 2, 21_000);
        let numbers: Vec<_> = found.rows.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [2, 1]);
        assert_eq!(found.span, "11 s", "the bars end with the last attempt");
        assert!(
            Attempts::new(&[], UniversalState::Queued, 0, 1)
                .rows
                .is_empty()
        );
    }

    #[test]
    fn the_latest_attempts_are_shown() {
        let timeline: Vec<Event> = (1..=60)
            .map(|number| granted(u64::from(number) * 1_000, number))
            .collect();
        let found = Attempts::new(&timeline, UniversalState::Launched, 60, 70_000);
        assert_eq!((found.rows.len(), found.omitted), (50, 10));
        assert_eq!(found.rows[0].number, 60);
        for row in &found.rows {
            let bar = &row.bar.0;
            assert!(!bar.contains("NaN") && !bar.contains("=\"-"), "{bar}");
        }
    }
}
