//! What needs a person now: work that fails again and again, alarms, and workers, fleets and schedulers in
//! trouble.

use baton_model::alarm::AlarmKind;
use baton_model::api::{Alarm, Fleet, List, Scheduler, Worker};
use baton_model::conditions::Dependency;
use baton_model::state::WorkerState;

use super::fleet::WorkerRow;
use super::fleets::FleetRow;
use crate::time::Stamp;

/// Rows of each sort: a page with more of them would hide the rest.
const ROWS_MAX: usize = 8;

/// A line of the list, and where to look further.
#[derive(Debug, PartialEq, Eq)]
pub struct AttentionRow {
    /// What is wrong, in a word: `failing`, `late`, `LOST`.
    pub word: String,
    /// The class of its colour.
    pub class: &'static str,
    pub name: String,
    pub href: String,
    /// The rest of a sentence that begins with the name.
    pub text: String,
    pub since: Option<Stamp>,
    /// Another page: the last failure.
    pub example: Option<(String, String)>,
}

/// An entry of the library whose last executions have failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// `OWNER/NAME`, and the page of its entry.
    pub name: String,
    pub href: String,
    /// Failures in a row.
    pub failures: u64,
    /// True if there may be more than were looked at.
    pub is_cut: bool,
    /// Name and page of the last failure.
    pub last: (String, String),
    /// `exit 4`, for example.
    pub end_text: String,
    pub ended_at: u64,
}

impl AttentionRow {
    pub(crate) fn of_failing(it: &Failing) -> Self {
        let at_least = if it.is_cut { "at least " } else { "" };
        let times = match it.failures {
            1 => "failed".to_owned(),
            failures => format!("failed {at_least}{failures} times in a row"),
        };
        let end = match &*it.end_text {
            "" => String::new(),
            end => format!(": {end}"),
        };
        Self {
            word: "failing".to_owned(),
            class: "s-FAILED",
            name: it.name.clone(),
            href: it.href.clone(),
            text: format!("{times}{end}"),
            since: Some(Stamp(it.ended_at)),
            example: Some(it.last.clone()),
        }
    }

    #[must_use]
    pub fn of_alarm(alarm: &Alarm) -> Self {
        Self {
            word: alarm.kind.word().to_owned(),
            class: match alarm.kind {
                AlarmKind::Late | AlarmKind::Stuck => "s-FAILED",
                AlarmKind::Slow | AlarmKind::Short => "s-QUEUED",
            },
            name: format!("{}/{}", alarm.owner, alarm.name),
            href: alarm.links.get("subject").cloned().unwrap_or_default(),
            text: alarm.reason.clone(),
            since: Some(Stamp(alarm.raised_at)),
            example: None,
        }
    }

    fn of_worker(worker: &Worker) -> Self {
        let row = WorkerRow::new(worker);
        let (word, text) = if worker.state == WorkerState::Healthy {
            let fault = if row.fault.is_empty() {
                row.suspicion
            } else {
                row.fault
            };
            ("sick".to_owned(), fault)
        } else {
            (row.state.to_owned(), format!("heard {} ago", row.heard))
        };
        Self {
            word,
            class: "s-FAILED",
            name: row.name,
            href: row.href,
            text,
            since: worker.lost_at.map(Stamp),
            example: None,
        }
    }

    fn of_fleet(fleet: FleetRow) -> Self {
        Self {
            word: fleet.state.to_owned(),
            class: fleet.class,
            name: format!("fleet {}", fleet.name),
            href: fleet.href,
            text: fleet.alarms.join("; "),
            since: None,
            example: None,
        }
    }

    fn of_schedulers(text: String) -> Self {
        Self {
            word: "schedulers".to_owned(),
            class: "s-FAILED",
            name: "Schedulers".to_owned(),
            href: "/schedulers/".to_owned(),
            text,
            since: None,
            example: None,
        }
    }
}

/// The alarms about an instance or a run, also those of the array that the instance belongs to.
#[must_use]
pub(crate) fn about(alarms: Option<List<Alarm>>, id: &str) -> Vec<AttentionRow> {
    let alarms = alarms.map(|list| list.items).unwrap_or_default();
    let about = alarms.iter().filter(|it| is_about(&it.subject, id));
    about.map(AttentionRow::of_alarm).collect()
}

fn is_about(subject: &str, id: &str) -> bool {
    // Subjects are spelled as the conditions of `--after`.
    let instances = |text: &str| text.parse::<Dependency>().ok()?.upstream.instances();
    match (instances(subject), instances(id)) {
        (Some((first, last)), Some((instance, _))) => first <= instance && instance <= last,
        _ => subject == id,
    }
}

/// The list: schedulers first, because nothing else goes on without them, then what is sick, then work.
pub(crate) fn rows(
    schedulers: &[Scheduler],
    workers: &[Worker],
    fleets: &[Fleet],
    alarms: &[Alarm],
    failing: &[Failing],
) -> Vec<AttentionRow> {
    let mut rows = Vec::new();
    if !schedulers.is_empty() && super::schedulers::needs_attention(schedulers) {
        let text = super::schedulers::summary(schedulers);
        rows.push(AttentionRow::of_schedulers(text));
    }
    let sick = |it: &&Worker| {
        it.state != WorkerState::Healthy || it.fault.is_some() || it.suspicion.is_some()
    };
    add(
        &mut rows,
        "workers",
        "/workers/",
        workers.iter().filter(sick).map(AttentionRow::of_worker),
    );
    let fleets = FleetRow::in_trouble(fleets).into_iter();
    add(
        &mut rows,
        "fleets",
        "/fleets/",
        fleets.map(AttentionRow::of_fleet),
    );
    let alarms = alarms.iter().map(AttentionRow::of_alarm);
    add(&mut rows, "alarms", "/alarms/", alarms);
    let failing = failing.iter().map(AttentionRow::of_failing);
    add(&mut rows, "failures", "/history/?state=FAILED", failing);
    rows
}

/// Adds the first rows of a sort, and a link to the rest.
fn add(
    rows: &mut Vec<AttentionRow>,
    sort: &str,
    href: &str,
    found: impl Iterator<Item = AttentionRow>,
) {
    let mut found: Vec<AttentionRow> = found.collect();
    let rest = found.len().saturating_sub(ROWS_MAX);
    found.truncate(ROWS_MAX);
    rows.append(&mut found);
    if rest > 0 {
        rows.push(AttentionRow {
            word: "more".to_owned(),
            class: "s-HALTED",
            name: format!("{rest} more {sort}"),
            href: href.to_owned(),
            text: String::new(),
            since: None,
            example: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(failures: u64, is_cut: bool) -> Failing {
        Failing {
            name: "billing/nightly".to_owned(),
            href: "/billing/tasks/nightly".to_owned(),
            failures,
            is_cut,
            last: ("i7".to_owned(), "/instances/i7".to_owned()),
            end_text: "exit 1".to_owned(),
            ended_at: 5,
        }
    }

    #[test]
    fn a_failing_entry_tells_how_often_and_links_to_both_pages() {
        let row = |failures, is_cut| AttentionRow::of_failing(&failing(failures, is_cut));
        assert_eq!(row(1, false).text, "failed: exit 1");
        assert_eq!(row(3, false).text, "failed 3 times in a row: exit 1");
        assert_eq!(
            row(20, true).text,
            "failed at least 20 times in a row: exit 1"
        );
        assert_eq!(row(1, false).href, "/billing/tasks/nightly");
        let example = Some(("i7".to_owned(), "/instances/i7".to_owned()));
        assert_eq!(row(1, false).example, example);
    }

    #[test]
    fn an_alarm_of_an_array_is_about_each_of_its_instances() {
        assert!(is_about("i7", "i7") && is_about("r7", "r7"));
        assert!(!is_about("i7", "i8") && !is_about("r7", "i7") && !is_about("i7", "r7"));
        let inside = ["i2", "i9", "i20"].map(|id| is_about("i2..i20", id));
        assert_eq!(inside, [true, true, true]);
        assert!(!is_about("i2..i20", "i1") && !is_about("i2..i20", "i21"));
    }

    #[test]
    fn alarms_come_before_failures_and_what_is_too_much_is_a_link() {
        let alarm = |number: u64| Alarm {
            kind: AlarmKind::Late,
            subject: format!("r{number}"),
            owner: "a".to_owned(),
            name: "etl".to_owned(),
            raised_at: number,
            reason: "is late".to_owned(),
            links: [("subject".to_owned(), format!("/runs/r{number}"))].into(),
        };
        let alarms: Vec<Alarm> = (1..=10).map(alarm).collect();
        let rows = rows(&[], &[], &[], &alarms, &[failing(2, false)]);
        let words: Vec<&str> = rows.iter().map(|it| it.word.as_str()).collect();
        let (last, before) = words.split_last().expect("rows");
        assert_eq!(*last, "failing");
        assert_eq!(
            (before.len(), before[0], before[8]),
            (ROWS_MAX + 1, "late", "more")
        );
        assert_eq!(
            (rows[8].name.as_str(), rows[8].href.as_str()),
            ("2 more alarms", "/alarms/")
        );
        assert_eq!(rows[0].href, "/runs/r1");
    }
}
