//! Due times against an independent implementation: croniter, by way of
//! `scripts/croniter-fixture.py`.

use baton_core::clock::{Dst, Schedule, Zone};
use baton_model::time::Wall;

const FIXTURE: &str = include_str!("fixtures/croniter.txt");

/// When the fixture begins: 2026, less a second.
const START: &str = "2025-12-31T23:59:59Z";

/// The first due time, and the distances of those that follow, in seconds.
fn unpack(first: &str, runs: &str) -> Vec<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let mut times = vec![number(first)];
    for run in runs.split(' ') {
        let (step, count) = run.split_once('*').unwrap_or((run, "1"));
        for _ in 0..number(count) {
            let last = times.last().copied().unwrap_or_default();
            times.push(last + number(step));
        }
    }
    times
}

#[test]
fn a_thousand_due_times_of_every_expression_agree_with_croniter() {
    let (mut lines, mut disagree) = (0, Vec::new());
    for line in FIXTURE.lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [text, zone, first, runs] = parts[..] else {
            panic!("no line of a fixture: {line}");
        };
        let expected = unpack(first, runs);
        assert_eq!(expected.len(), 1_000, "{text}");
        let zone = Zone::named(zone).expect("a zone");
        let schedule = Schedule::parse(text, &zone, Dst::default());
        let schedule = schedule.unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut at = Zone::UTC.instant(START).expect("an instant");
        for second in expected {
            let next = schedule.after(at).expect("another one").at;
            let expected = Wall(second * 1_000);
            if next != expected {
                let (ours, theirs) = (zone.shown(next), zone.shown(expected));
                disagree.push(format!("{text} in {zone:?}: {ours}, croniter {theirs}"));
                break;
            }
            at = next;
        }
        lines += 1;
    }
    assert!(disagree.is_empty(), "{}", disagree.join("\n"));
    assert!(lines >= 60, "only {lines} lines");
}
