//! What becomes of due times, by policy.

use std::sync::Arc;

use baton_model::time::{Millis, Wall};

use super::{schedule, utc};
use crate::clock::{CatchUp, Clock, Dst, Key, Policy, Schedule, SkipReason, Tick, TickVerdict};

const KEY: Key = Key(1);

fn utc_schedule(text: &str) -> Arc<Schedule> {
    Arc::new(schedule(text, "UTC", Dst::default()))
}

fn policy(slack_s: u64, catch_up: CatchUp) -> Policy {
    Policy {
        slack: Millis::from_secs(slack_s),
        catch_up,
        jitter: Millis(0),
    }
}

fn clock(text: &str, policy: Policy, accounted: &str) -> Clock {
    let mut clock = Clock::new();
    clock.insert(KEY, utc_schedule(text), policy, utc(accounted));
    clock
}

fn due(clock: &mut Clock, now: Wall) -> Vec<Tick> {
    let mut ticks = Vec::new();
    clock.due(now, &mut |tick| ticks.push(tick));
    ticks
}

/// Minutes past twelve, how many, and what becomes of them.
fn told(ticks: &[Tick]) -> Vec<(u64, u64, u64, TickVerdict)> {
    let noon = utc("2026-01-01 12:00");
    let minute = |at: Wall| at.since(noon).0 / 60_000;
    ticks
        .iter()
        .map(|tick| {
            (
                minute(tick.first),
                minute(tick.last),
                tick.count,
                tick.verdict,
            )
        })
        .collect()
}

const MISSED: TickVerdict = TickVerdict::Skip(SkipReason::Missed);
const CATCH_UP: TickVerdict = TickVerdict::Skip(SkipReason::CatchUp);

const fn late(minutes: u64) -> TickVerdict {
    TickVerdict::Late {
        by: Millis(minutes * 60_000),
    }
}

#[test]
fn on_time_is_launched_and_nothing_before() {
    let mut clock = clock("*/5 * * * *", policy(0, CatchUp::None), "2026-01-01 12:00");
    assert_eq!(clock.next_due(), Some(utc("2026-01-01 12:05")));
    assert_eq!(due(&mut clock, Wall(utc("2026-01-01 12:05").0 - 1)), []);
    let ticks = due(&mut clock, Wall(utc("2026-01-01 12:05").0 + 999));
    assert_eq!(told(&ticks), [(5, 5, 1, TickVerdict::Launch)]);
    assert_eq!(clock.next_of(KEY), Some(utc("2026-01-01 12:10")));
}

#[test]
fn after_an_outage_the_policy_says_what_is_made_up_for() {
    let after = |catch_up| {
        let mut clock = clock("*/5 * * * *", policy(720, catch_up), "2026-01-01 12:00");
        due(&mut clock, utc("2026-01-01 12:32"))
    };
    // Slack reaches back to 12:20, with it.
    assert_eq!(
        told(&after(CatchUp::None)),
        [(5, 15, 3, MISSED), (20, 30, 3, CATCH_UP)]
    );
    assert_eq!(
        told(&after(CatchUp::Last)),
        [
            (5, 15, 3, MISSED),
            (20, 25, 2, CATCH_UP),
            (30, 30, 1, late(2))
        ]
    );
    assert_eq!(
        told(&after(CatchUp::All)),
        [
            (5, 15, 3, MISSED),
            (20, 20, 1, late(12)),
            (25, 25, 1, late(7)),
            (30, 30, 1, late(2))
        ]
    );
}

#[test]
fn the_last_one_is_not_made_up_for_when_a_newer_one_is_on_time() {
    let mut clock = clock(
        "*/5 * * * *",
        policy(720, CatchUp::Last),
        "2026-01-01 12:00",
    );
    let ticks = due(&mut clock, utc("2026-01-01 12:30"));
    assert_eq!(
        told(&ticks),
        [
            (5, 15, 3, MISSED),
            (20, 25, 2, CATCH_UP),
            (30, 30, 1, TickVerdict::Launch)
        ]
    );
}

#[test]
fn a_year_forward_is_one_record_and_not_a_storm() {
    let mut clock = clock("* * * * * *", policy(10, CatchUp::Last), "2026-01-01 12:00");
    let now = utc("2027-01-01 12:00");
    let ticks = due(&mut clock, now);
    let counts: Vec<(u64, TickVerdict)> = ticks
        .iter()
        .map(|tick| (tick.count, tick.verdict))
        .collect();
    let year = 365 * 86_400;
    assert_eq!(
        counts,
        [
            (year - 11, MISSED),
            (9, CATCH_UP),
            (1, TickVerdict::Launch),
            (1, TickVerdict::Launch)
        ]
    );
    assert_eq!(ticks[3].last, now);
}

#[test]
fn a_call_hands_out_a_bounded_number_and_others_have_their_turn() {
    let all = policy(100_000, CatchUp::All);
    let mut clock = clock("* * * * * *", all, "2026-01-01 12:00");
    clock.insert(
        Key(2),
        utc_schedule("* * * * *"),
        all,
        utc("2026-01-01 12:00"),
    );
    let now = utc("2026-01-01 13:00");
    let first = due(&mut clock, now);
    assert_eq!(first.len(), 1_000);
    let of_second = first.iter().filter(|tick| tick.key == Key(2)).count();
    assert_eq!(of_second, 60, "the other one waited");
    assert_eq!(clock.next_due(), Some(now));
    let mut all = first.len();
    while clock.next_due().is_some_and(|due| due <= now) {
        all += due(&mut clock, now).len();
    }
    assert_eq!(all, 3_600 + 60);
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing() {
    let mut clock = clock("*/5 * * * *", policy(0, CatchUp::None), "2026-01-01 12:00");
    assert_eq!(due(&mut clock, utc("2026-01-01 12:05")).len(), 1);
    assert_eq!(due(&mut clock, utc("2026-01-01 11:00")), []);
    assert_eq!(due(&mut clock, utc("2026-01-01 12:05")), []);
    let ticks = due(&mut clock, utc("2026-01-01 12:10"));
    assert_eq!(told(&ticks), [(10, 10, 1, TickVerdict::Launch)]);
}

#[test]
fn replacing_a_schedule_keeps_its_account_and_removing_ends_it() {
    let mut clock = clock("*/5 * * * *", policy(0, CatchUp::None), "2026-01-01 12:00");
    due(&mut clock, utc("2026-01-01 12:05"));
    let hourly = utc_schedule("* * * * *");
    clock.insert(
        KEY,
        hourly,
        policy(600, CatchUp::All),
        utc("2026-01-01 11:00"),
    );
    assert_eq!(
        (clock.len(), clock.next_due()),
        (1, Some(utc("2026-01-01 12:06")))
    );
    assert_eq!(clock.remove(KEY), Some(utc("2026-01-01 12:05")));
    assert_eq!((clock.next_due(), clock.remove(KEY)), (None, None));
    assert!(clock.is_empty());
}

#[test]
fn what_is_over_stays_without_a_due_time() {
    let mut clock = clock(
        "once at 2026-01-01 12:05",
        policy(0, CatchUp::None),
        "2026-01-01 12:00",
    );
    assert_eq!(due(&mut clock, utc("2026-01-01 12:05")).len(), 1);
    assert_eq!(
        (clock.next_due(), clock.next_of(KEY), clock.len()),
        (None, None, 1)
    );
    assert_eq!(due(&mut clock, utc("2030-01-01 00:00")), []);
}

#[test]
fn jitter_delays_by_the_same_part_for_ever_and_keeps_the_nominal_time() {
    let jittered = Policy {
        jitter: Millis::from_secs(60),
        ..policy(0, CatchUp::None)
    };
    let delays: Vec<u64> = (0..200)
        .map(|key| {
            let mut clock = Clock::new();
            clock.insert(
                Key(key),
                utc_schedule("@daily"),
                jittered,
                utc("2026-01-01 12:00"),
            );
            let planned = clock.next_due().expect("due");
            assert_eq!(due(&mut clock, Wall(planned.0 - 1)), []);
            let ticks = due(&mut clock, planned);
            assert_eq!(ticks[0].first, utc("2026-01-02 00:00"));
            assert_eq!(ticks[0].verdict, TickVerdict::Launch);
            planned.since(ticks[0].first).0
        })
        .collect();
    assert!(delays.iter().all(|delay| *delay < 60_000));
    let early = delays.iter().filter(|delay| **delay < 30_000).count();
    assert!(
        (60..140).contains(&early),
        "{early} of 200 in the first half"
    );
    // Fixed: another build must not change the delay of a launch.
    assert_eq!(delays[..3], [27_244, 46_517, 4_612]);
}

#[test]
fn jitter_ends_before_the_next_due_time() {
    let jittered = Policy {
        jitter: Millis::from_secs(3_600),
        ..policy(0, CatchUp::None)
    };
    let mut clock = clock("* * * * *", jittered, "2026-01-01 12:00");
    for minute in 1..500 {
        let nominal = Wall(utc("2026-01-01 12:00").0 + minute * 60_000);
        let planned = clock.next_due().expect("due");
        assert!(planned.since(nominal).0 < 60_000 && planned >= nominal);
        assert_eq!(due(&mut clock, planned)[0].first, nominal);
    }
}

fn closed(clock: &mut Clock, now: Wall) -> Vec<Tick> {
    let mut ticks = Vec::new();
    clock.close(KEY, now, SkipReason::Replaced, &mut |tick| ticks.push(tick));
    ticks
}

#[test]
fn closing_gives_everything_that_is_due_one_record_and_the_rest_goes_on() {
    let replaced = TickVerdict::Skip(SkipReason::Replaced);
    let policy = policy(3_600, CatchUp::All);
    let mut clock = clock("*/5 * * * *", policy, "2026-01-01 12:00");
    assert_eq!(closed(&mut clock, utc("2026-01-01 12:04:59")), []);
    let ticks = closed(&mut clock, utc("2026-01-01 12:15"));
    assert_eq!(told(&ticks), [(5, 15, 3, replaced)]);
    assert_eq!(clock.accounted(KEY), Some(utc("2026-01-01 12:15")));
    assert_eq!(closed(&mut clock, utc("2026-01-01 12:15")), []);
    assert_eq!(clock.next_due(), Some(utc("2026-01-01 12:20")));
    let ticks = due(&mut clock, utc("2026-01-01 12:20"));
    assert_eq!(told(&ticks), [(20, 20, 1, TickVerdict::Launch)]);
    // Nothing before the last record, and nothing for an unknown schedule.
    assert_eq!(closed(&mut clock, utc("2026-01-01 11:00")), []);
    clock.remove(KEY);
    assert_eq!(closed(&mut clock, utc("2027-01-01 12:00")), []);
}

#[test]
fn closing_takes_what_jitter_has_put_off_and_the_last_there_is() {
    let policy = Policy {
        jitter: Millis::from_secs(3_600),
        ..policy(3_600, CatchUp::All)
    };
    let mut clock = clock("once at 2026-01-01 12:30", policy, "2026-01-01 12:00");
    let nominal = utc("2026-01-01 12:30");
    assert!(
        clock.next_due() > Some(nominal),
        "its jitter is not nothing"
    );
    let ticks = closed(&mut clock, nominal);
    assert_eq!(
        told(&ticks),
        [(30, 30, 1, TickVerdict::Skip(SkipReason::Replaced))]
    );
    assert_eq!((clock.next_due(), clock.next_of(KEY)), (None, None));
    assert_eq!(due(&mut clock, utc("2027-01-01 12:00")), []);
}
