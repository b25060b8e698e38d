//! Tables by kind of expression, walks against brute force, and the accounts of a clock.

mod accounts;
mod brute;
mod cron;
mod descriptions;
mod dst;
mod english;
mod errors;
mod hints;
mod policies;

use super::{Dst, Schedule, Wall, Zone};

fn zone(name: &str) -> Zone {
    Zone::named(name).expect("a zone of the database")
}

fn schedule(text: &str, zone_name: &str, dst: Dst) -> Schedule {
    match Schedule::parse(text, &zone(zone_name), dst) {
        Ok(schedule) => schedule,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// The instant of a text in UTC.
fn utc(text: &str) -> Wall {
    Zone::UTC.instant(text).expect("an instant")
}

/// The first due times after an instant of the zone, as its clocks show them.
fn occurrences(text: &str, zone_name: &str, dst: Dst, from: &str, n: usize) -> Vec<String> {
    let zone = zone(zone_name);
    let schedule = schedule(text, zone_name, dst);
    let mut at = zone.instant(from).expect("an instant");
    let mut shown = Vec::new();
    while shown.len() < n
        && let Some(occurrence) = schedule.after(at)
    {
        assert!(occurrence.at > at, "{text} does not go on after {at:?}");
        at = occurrence.at;
        shown.push(zone.rfc3339(at));
    }
    shown
}

/// Checks the first due times after the beginning of 2026, without their offset. Dates
/// and times that are left out are those of the line before.
#[track_caller]
fn check(text: &str, zone_name: &str, expected: &[&str]) {
    let from = "2025-12-31 23:59:59";
    let shown = occurrences(text, zone_name, Dst::default(), from, expected.len());
    let shown: Vec<&str> = shown.iter().map(|at| &at[..19]).collect();
    let expected: Vec<String> = expected.iter().map(|at| whole(at)).collect();
    assert_eq!(shown, expected, "{text}");
}

/// `01-05 09:00` in full.
fn whole(short: &str) -> String {
    let (date, time) = short.split_once(' ').expect("a date and a time");
    let date = if date.len() == 5 {
        format!("2026-{date}")
    } else {
        date.to_owned()
    };
    let time = if time.len() == 5 {
        format!("{time}:00")
    } else {
        time.to_owned()
    };
    format!("{date}T{time}")
}
