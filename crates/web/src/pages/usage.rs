//! Resources that owners have used, over time.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use baton_model::api::{FleetUsage, List, Usage};

use super::next;
use crate::chart::{self, Column};
use crate::frame::Frame;
use crate::markup::Markup;
use crate::text::{duration, encoded};
use crate::time::Stamp;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Above this the chart has a bar for each day instead of each hour.
const HOURS_MAX: u64 = 72;

/// Classes of the owners with the most usage; all others are one part.
const SERIES: [&str; 5] = ["o-1", "o-2", "o-3", "o-4", "o-5"];
const OTHERS: &str = "o-others";

/// Days of the periods that the page offers.
const PERIODS: [(&str, u64); 3] = [("Day", 1), ("Week", 7), ("30 days", 30)];

/// The page of usage.
#[derive(Template)]
#[template(path = "usage.html")]
pub struct UsagePage {
    pub frame: Frame,
    pub rows: Vec<UsageRow>,
    pub owner: String,
    /// The begin of the period, if the address has one.
    pub from: Option<u64>,
    /// Label, address, and whether it is the current one.
    pub periods: Vec<(&'static str, String, bool)>,
    pub chart: Markup,
    /// `hour` or `day`.
    pub step: &'static str,
    pub legend: Vec<LegendRow>,
    /// Whether there is more usage than the chart has.
    pub is_cut: bool,
    /// Fleets whose jobs ran.
    pub fleets: Vec<FleetRow>,
    pub next: Option<String>,
}

/// The usage of an owner in an hour.
#[derive(Debug)]
pub struct UsageRow {
    pub hour: Stamp,
    pub owner: String,
    pub done: u64,
    pub failed: u64,
    pub halted: u64,
    pub cpu_used: String,
    pub cpu_claimed: String,
    pub waited: String,
}

/// What the jobs of a fleet have used.
#[derive(Debug)]
pub struct FleetRow {
    pub name: String,
    pub href: String,
    pub jobs: u64,
    pub failed: u64,
    pub job_time: String,
    pub worker_time: String,
}

impl FleetRow {
    fn new(used: &FleetUsage) -> Self {
        Self {
            name: used.fleet.clone(),
            href: format!("/fleets/{}", encoded(&used.fleet)),
            jobs: used.jobs,
            failed: used.failed,
            job_time: duration(used.job_seconds),
            worker_time: duration(used.worker_seconds),
        }
    }
}

/// A part of the bars, with its sum.
#[derive(Debug, PartialEq, Eq)]
pub struct LegendRow {
    pub class: &'static str,
    pub label: String,
    /// Its own usage; none for that of several owners.
    pub href: Option<String>,
    pub cpu_used: String,
}

/// The part of the usage that an address asks for.
#[derive(Clone, Debug, Default)]
pub struct Period {
    pub owner: String,
    pub from: Option<u64>,
    pub to: Option<u64>,
}

/// Answers of the API about usage.
pub struct Answers {
    /// The page of the table.
    pub list: List<Usage>,
    /// What the chart shows: all of the period.
    pub all: Vec<Usage>,
    /// Whether there is more than that.
    pub is_cut: bool,
    pub fleets: Option<List<FleetUsage>>,
}

impl UsagePage {
    #[must_use]
    pub fn new(frame: Frame, period: Period, answers: Answers) -> Self {
        let Answers {
            list,
            all,
            is_cut,
            fleets,
        } = answers;
        let fleets = fleets.map(|list| list.items).unwrap_or_default();
        let rows = list.items.iter().map(|it| UsageRow {
            hour: Stamp(it.hour_at),
            owner: it.owner.clone(),
            done: it.done,
            failed: it.failed,
            halted: it.halted,
            cpu_used: duration(it.cpu_used_seconds),
            cpu_claimed: duration(it.cpu_claimed_seconds),
            waited: duration(it.waited_seconds),
        });
        let to = period.to.unwrap_or(frame.now);
        let from = period.from.unwrap_or(to.saturating_sub(DAY_MS));
        let step = if to.saturating_sub(from) > HOURS_MAX * HOUR_MS {
            DAY_MS
        } else {
            HOUR_MS
        };
        let shares = Shares::new(&all);
        Self {
            periods: periods(&period, from, to),
            chart: shares.chart(&all, from, to, step),
            legend: shares.legend(period.from),
            step: if step == DAY_MS { "day" } else { "hour" },
            rows: rows.collect(),
            owner: period.owner,
            from: period.from,
            is_cut,
            fleets: fleets.iter().map(FleetRow::new).collect(),
            next: next(&list.links),
            frame,
        }
    }
}

/// The address of the usage of an owner, or of all, in a period.
fn address(owner: &str, from: Option<u64>) -> String {
    let owner = (!owner.is_empty()).then(|| format!("owner={}", encoded(owner)));
    let from = from.map(|from| format!("from={from}"));
    let query: Vec<String> = owner.into_iter().chain(from).collect();
    format!("/usage/?{}", query.join("&"))
}

fn periods(period: &Period, from: u64, to: u64) -> Vec<(&'static str, String, bool)> {
    let shown = (to.saturating_sub(from) + DAY_MS / 2) / DAY_MS;
    let all = PERIODS.into_iter().map(|(label, days)| {
        // The begin of an hour, so that the address changes seldom.
        let begin = to.saturating_sub(days * DAY_MS) / HOUR_MS * HOUR_MS;
        let begin = (days > 1).then_some(begin);
        (label, address(&period.owner, begin), days == shown)
    });
    all.collect()
}

/// The owners with the most usage, with their CPU seconds, and the sum of all others. They are in the
/// order of their names, so that a small change of their usage does not change their colours.
struct Shares<'a> {
    owners: Vec<(&'a str, f64)>,
    others: (usize, f64),
}

impl<'a> Shares<'a> {
    fn new(all: &'a [Usage]) -> Self {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for it in all {
            *sums.entry(&it.owner).or_default() += it.cpu_used_seconds.max(0.0);
        }
        let mut owners: Vec<(&str, f64)> = sums.into_iter().collect();
        owners.sort_by(|a, b| b.1.total_cmp(&a.1));
        let others = owners.split_off(owners.len().min(SERIES.len()));
        owners.sort_by_key(|it| it.0);
        Self {
            owners,
            others: (others.len(), others.iter().map(|it| it.1).sum()),
        }
    }

    /// A bar for each step of the period, also of those in which nothing was used.
    fn chart(&self, all: &[Usage], from: u64, to: u64, step: u64) -> Markup {
        let classes: HashMap<&str, usize> = self
            .owners
            .iter()
            .enumerate()
            .map(|(at, it)| (it.0, at))
            .collect();
        let parts = SERIES.len() + 1;
        let steps = from / step..=to / step;
        let mut sums: BTreeMap<u64, Vec<f64>> = steps.map(|at| (at, vec![0.0; parts])).collect();
        for it in all {
            let class = classes.get(&*it.owner).copied().unwrap_or(SERIES.len());
            if let Some(sums) = sums.get_mut(&(it.hour_at / step)) {
                sums[class] += it.cpu_used_seconds.max(0.0);
            }
        }
        let columns = sums.into_iter().map(|(at, sums)| {
            let at = Stamp(at * step);
            let used = sums.iter().enumerate().filter(|(_, used)| **used > 0.0);
            let used: Vec<String> = used
                .map(|(class, used)| format!("{} {}", self.label(class), duration(*used)))
                .collect();
            let (label, begin) = if step == DAY_MS {
                (at.day(), at.day())
            } else {
                (at.hour(), at.utc())
            };
            let classes = SERIES.into_iter().chain([OTHERS]);
            Column {
                title: format!("{begin} {}", used.join(", ")),
                label,
                parts: classes.zip(sums).collect(),
            }
        });
        let columns: Vec<Column> = columns.collect();
        chart::columns("CPU time by owner", &columns, duration)
    }

    fn label(&self, class: usize) -> String {
        match self.owners.get(class) {
            Some((owner, _)) => (*owner).to_owned(),
            None => format!("{} others", self.others.0),
        }
    }

    fn legend(&self, from: Option<u64>) -> Vec<LegendRow> {
        let owners = self.owners.iter().zip(SERIES);
        let owners = owners.map(|((owner, used), class)| LegendRow {
            class,
            label: (*owner).to_owned(),
            href: Some(address(owner, from)),
            cpu_used: duration(*used),
        });
        let others = (self.others.0 > 0).then(|| LegendRow {
            class: OTHERS,
            label: self.label(SERIES.len()),
            href: None,
            cpu_used: duration(self.others.1),
        });
        owners.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(owner: &str, hour_at: u64, cpu_used_seconds: f64) -> Usage {
        Usage {
            hour_at,
            owner: owner.to_owned(),
            done: 1,
            failed: 0,
            halted: 0,
            attempts: 1,
            cpu_claimed_seconds: 0.0,
            cpu_used_seconds,
            memory_claimed_mib_seconds: 0.0,
            waited_seconds: 0.0,
        }
    }

    #[test]
    fn owners_with_the_most_usage_have_parts_of_their_own() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let all: Vec<Usage> = names
            .iter()
            .zip(1_u32..)
            .map(|(owner, used)| usage(owner, 0, f64::from(used)))
            .collect();
        let shares = Shares::new(&all);
        let legend = shares.legend(None);
        let labels: Vec<_> = legend.iter().map(|it| (it.class, &*it.label)).collect();
        assert_eq!(labels[0], ("o-1", "c"));
        assert_eq!(labels[4], ("o-5", "g"));
        assert_eq!(labels[5], ("o-others", "2 others"));
        assert_eq!(legend[5].cpu_used, "3.00 s");
        let svg = shares.chart(&all, 0, 2 * HOUR_MS, HOUR_MS).0;
        assert_eq!(
            svg.matches("<g>").count(),
            3,
            "hours without usage are there"
        );
        assert!(
            svg.contains("1970-01-01 00:00:00Z c 3.00 s, d 4.00 s"),
            "{svg}"
        );
        assert!(svg.contains("class=\"o-others\""), "{svg}");
    }

    #[test]
    fn a_long_period_has_a_bar_for_each_day() {
        let all = [usage("a", 0, 1.0), usage("a", 5 * HOUR_MS, 2.0)];
        let svg = Shares::new(&all).chart(&all, 0, 6 * DAY_MS, DAY_MS).0;
        assert_eq!(svg.matches("<g>").count(), 7);
        assert!(svg.contains("<title>1970-01-01 a 3.00 s</title>"), "{svg}");
        let period = Period {
            owner: "a b".to_owned(),
            ..Period::default()
        };
        let periods = periods(&period, 0, 7 * DAY_MS);
        assert_eq!(periods[0], ("Day", "/usage/?owner=a%20b".to_owned(), false));
        assert_eq!(
            periods[1],
            ("Week", "/usage/?owner=a%20b&from=0".to_owned(), true)
        );
    }
}
