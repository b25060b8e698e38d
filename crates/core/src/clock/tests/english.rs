//! English schedules: against cron where cron can say it, by their due times where not.

use super::{check, occurrences, schedule};
use crate::clock::Dst;

/// English, and the cron that means the same.
const SAME: &[(&str, &str)] = &[
    ("every monday at 12:00", "0 12 * * 1"),
    ("every monday and thursday at 9am", "0 9 * * 1,4"),
    ("every 5 minutes", "*/5 * * * *"),
    ("every 5 Minutes", "*/5 * * * *"),
    ("every minute", "* * * * *"),
    ("every second", "* * * * * *"),
    ("every 30 seconds", "*/30 * * * * *"),
    ("every 2 hours", "0 */2 * * *"),
    ("every 6 hours at :30", "30 */6 * * *"),
    ("every hour", "0 * * * *"),
    ("hourly", "0 * * * *"),
    ("every hour at :15", "15 * * * *"),
    ("every hour at :15 and :45", "15,45 * * * *"),
    ("every day at 6pm", "0 18 * * *"),
    ("Every Day At 6 PM", "0 18 * * *"),
    ("daily at 6", "0 6 * * *"),
    ("weekdays at 9:30", "30 9 * * 1-5"),
    ("every weekday at 9am", "0 9 * * 1-5"),
    ("weekends at noon", "0 12 * * 0,6"),
    ("monday to friday at 9:00", "0 9 * * 1-5"),
    ("fri-mon at 9:00", "0 9 * * fri-mon"),
    ("midnight", "0 0 * * *"),
    ("noon", "0 12 * * *"),
    ("every day at midnight", "0 0 * * *"),
    ("daily at 12am", "0 0 * * *"),
    ("daily at 12:30pm", "30 12 * * *"),
    ("daily at 23:59:58", "58 59 23 * * *"),
    ("first monday of the month at 6am", "0 6 * * 1#1"),
    (
        "first and third monday of every month at 6am",
        "0 6 * * 1#1,1#3",
    ),
    ("every second tuesday of the month at 6am", "0 6 * * 2#2"),
    ("last friday of the month at 17:00", "0 17 * * 5L"),
    ("last friday of march at 17:00", "0 17 * 3 5L"),
    ("last day of the month at 18:00", "0 18 L * *"),
    ("on the last day of february at 18:00", "0 18 L 2 *"),
    ("last weekday of the month at 18:00", "0 18 LW * *"),
    ("first weekday of the month at 18:00", "0 18 1W * *"),
    ("on the 15th of every month at 8:00", "0 8 15 * *"),
    ("on the 1st and 15th of every month at 8:00", "0 8 1,15 * *"),
    ("every month on the 1st at 00:00", "0 0 1 * *"),
    ("every month on the last friday at 00:00", "0 0 * * 5L"),
    ("january 1st at 00:00", "0 0 1 1 *"),
    ("every january 1st at 00:00", "0 0 1 1 *"),
    ("every year on january 1st at 00:00", "0 0 1 1 *"),
    ("on the 1st of january and july at 00:00", "0 0 1 1,7 *"),
    ("24 december at 18:00", "0 18 24 12 *"),
    ("every 24 december at 18:00", "0 18 24 12 *"),
    ("dec 24 and 31 at 18:00", "0 18 24,31 12 *"),
    ("monday, wednesday and friday at 8:15pm", "15 20 * * 1,3,5"),
    ("mon,wed, and fri at 20:15", "15 20 * * 1,3,5"),
    ("on mondays at 9:00", "0 9 * * 1"),
    ("every day at 9:00 and 17:00", "0 9,17 * * *"),
    (
        "every day at 9:00, 9:30, 17:00 and 17:30",
        "0,30 9,17 * * *",
    ),
    // Without `at`.
    ("every monday 09:00", "0 9 * * 1"),
    ("daily 18:00", "0 18 * * *"),
    ("weekdays noon", "0 12 * * 1-5"),
    ("weekdays 9am and 5pm", "0 9,17 * * 1-5"),
    ("every monday, 9:00", "0 9 * * 1"),
    ("on the 1st 8 pm", "0 20 1 * *"),
    // The time first.
    ("at 6pm daily", "0 18 * * *"),
    ("5pm on fridays", "0 17 * * 5"),
    ("9:00 every day", "0 9 * * *"),
    ("at 9 on weekdays", "0 9 * * 1-5"),
    ("noon on the 1st of every month", "0 12 1 * *"),
    ("at noon", "0 12 * * *"),
    // Days beside an interval.
    ("every 5 minutes on weekdays", "*/5 * * * 1-5"),
    ("weekdays every 5 minutes", "*/5 * * * 1-5"),
    ("every hour on monday and friday", "0 * * * 1,5"),
    ("every 2 hours at :30 on weekends", "30 */2 * * 0,6"),
    ("every minute in december", "* * * 12 *"),
    ("every 15m on the last day of the month", "*/15 * L * *"),
    ("every second on january 1st", "* * * 1 1 *"),
    // Windows.
    ("every hour between 9am and 5pm", "0 9-17 * * *"),
    (
        "every hour from 9:00 to 17:00 on weekdays",
        "0 9-17 * * 1-5",
    ),
    ("every 30 minutes from 9:00 to 9:30", "*/30 9 * * *"),
    ("every 2 hours from 22:00 to 4:00", "0 22,0,2,4 * * *"),
    ("every hour at :15 from 9:00 to 17:00", "15 9-16 * * *"),
    ("every minute between 10pm and 11:59pm", "* 22,23 * * *"),
    // Units and number words.
    ("every 5 mins", "*/5 * * * *"),
    ("every 5 min", "*/5 * * * *"),
    ("every 5min", "*/5 * * * *"),
    ("every min", "* * * * *"),
    ("every 30 secs", "*/30 * * * * *"),
    ("every 10sec", "*/10 * * * * *"),
    ("every 2 h", "0 */2 * * *"),
    ("every 2hrs", "0 */2 * * *"),
    ("every five minutes", "*/5 * * * *"),
    ("every two hours", "0 */2 * * *"),
    ("every half hour", "*/30 * * * *"),
    ("every quarter of an hour", "*/15 * * * *"),
    ("every other hour", "0 */2 * * *"),
    ("every third hour", "0 */3 * * *"),
    ("every day at six", "0 6 * * *"),
    ("every day at nine pm", "0 21 * * *"),
    ("every 60 minutes", "0 * * * *"),
    ("every 60 seconds", "* * * * *"),
    ("every 24 hours", "0 0 * * *"),
    ("every 1 hour", "0 * * * *"),
    // Other words for days.
    ("everyday at 9:00", "0 9 * * *"),
    ("every business day at 9:00", "0 9 * * 1-5"),
    ("on working days at 9:00", "0 9 * * 1-5"),
    ("workdays at 9:00", "0 9 * * 1-5"),
    ("last business day of the month at 18:00", "0 18 LW * *"),
    ("every day except sunday at 9:00", "0 9 * * 1-6"),
    ("daily at 9:00 except on weekends", "0 9 * * 1-5"),
    ("every weekday except friday at 9:00", "0 9 * * 1-4"),
    ("every 5 minutes except sundays", "*/5 * * * 1-6"),
    (
        "every day at 9:00 except in july and august",
        "0 9 * 1-6,9-12 *",
    ),
    ("every day but not mondays at 9:00", "0 9 * * 0,2-6"),
    ("weekly on monday at 9:00", "0 9 * * 1"),
    ("every week on tues and thurs at 9:00", "0 9 * * 2,4"),
    ("monthly on the 1st at 00:00", "0 0 1 * *"),
    ("yearly on january 1st at 00:00", "0 0 1 1 *"),
    ("every 15th at 8:00", "0 8 15 * *"),
    ("on the 1st and fifteenth at 8:00", "0 8 1,15 * *"),
    ("every monday in june at 9:00", "0 9 * 6 1"),
    ("run every day at 9:00", "0 9 * * *"),
    ("run at 6pm daily", "0 18 * * *"),
    // App Engine.
    ("every 12 hours", "0 */12 * * *"),
    ("every 30 mins synchronized", "*/30 * * * *"),
    ("every 24 hours synchronized", "0 0 * * *"),
    ("every day 00:00", "0 0 * * *"),
    (
        "2nd,third mon,wed,thu of march 17:00",
        "0 17 * 3 1#2,3#2,4#2,1#3,3#3,4#3",
    ),
    ("1st monday of sep,oct,nov 17:00", "0 17 * 9-11 1#1"),
    ("1 of jan,april,july,oct 00:00", "0 0 1 1,4,7,10 *"),
    ("1,15 of month 09:00", "0 9 1,15 * *"),
    ("every monday of march 09:00", "0 9 * 3 1"),
    ("first tue 10:00", "0 10 * * 2#1"),
    ("first monday of quarter 10:00", "0 10 * 1,4,7,10 1#1"),
    ("1 of third month of quarter 00:00", "0 0 1 3,6,9,12 *"),
];

#[test]
fn english_means_the_same_as_its_cron() {
    for (english, cron) in SAME {
        let meant = schedule(cron, "UTC", Dst::default());
        assert_eq!(schedule(english, "UTC", Dst::default()), meant, "{english}");
    }
}

#[test]
fn an_interval_in_a_window_is_counted_from_its_start_and_includes_its_end() {
    check(
        "every 5 minutes from 10:00 to 10:10",
        "UTC",
        &["01-01 10:00", "01-01 10:05", "01-01 10:10", "01-02 10:00"],
    );
    check(
        "every 7 minutes between 10:02 and 10:20 on mondays",
        "UTC",
        &["01-05 10:02", "01-05 10:09", "01-05 10:16", "01-12 10:02"],
    );
    check(
        "every 1h30m from 9:00 to 12:00",
        "UTC",
        &["01-01 09:00", "01-01 10:30", "01-01 12:00", "01-02 09:00"],
    );
    check(
        "every 90 minutes synchronized",
        "UTC",
        &["01-01 00:00", "01-01 01:30", "01-01 03:00"],
    );
    // Over midnight.
    check(
        "every 25 minutes from 23:00 to 0:30",
        "UTC",
        &[
            "01-01 00:15",
            "01-01 23:00",
            "01-01 23:25",
            "01-01 23:50",
            "01-02 00:15",
        ],
    );
    let window = schedule("every 25 minutes from 23:00 to 0:30", "UTC", Dst::default());
    let day = |day: u64| super::Wall(day * 86_400_000);
    assert_eq!(window.count(day(100), day(110)), 40);
}

#[test]
fn every_other_day_counts_days() {
    for (text, same) in [
        ("every other day at 9:00", "every 2 days at 9:00"),
        ("every second day at 9:00", "every 2 days at 9:00"),
        ("every third day 9:00", "every 3 days at 9:00"),
    ] {
        let same = schedule(same, "UTC", Dst::default());
        assert_eq!(schedule(text, "UTC", Dst::default()), same, "{text}");
    }
}

#[test]
fn several_times_are_those_times_and_no_others() {
    check(
        "every day at 17:30 and 9:00",
        "UTC",
        &["01-01 09:00", "01-01 17:30", "01-02 09:00", "01-02 17:30"],
    );
}

#[test]
fn every_few_days_counts_civil_days_from_1970() {
    // 20454 days before 2026 are divisible by 3.
    check(
        "every 3 days at 4:00",
        "UTC",
        &["01-01 04:00", "01-04 04:00", "01-07 04:00"],
    );
    check(
        "every 3 days at 4:00",
        "Asia/Tokyo",
        &["01-01 04:00", "01-04 04:00"],
    );
    check(
        "every 14 days at 4:00",
        "UTC",
        &["01-01 04:00", "01-15 04:00"],
    );
    check(
        "every 1 day at 4:00",
        "UTC",
        &["01-01 04:00", "01-02 04:00"],
    );
    // Over the change of clocks it stays at four.
    let over = occurrences(
        "every 2 days at 4:00",
        "Europe/Berlin",
        Dst::default(),
        "2026-03-27 05:00",
        2,
    );
    assert_eq!(
        over,
        ["2026-03-28T04:00:00+01:00", "2026-03-30T04:00:00+02:00"]
    );
}

#[test]
fn a_fixed_period_counts_from_the_epoch_and_ignores_clocks() {
    let berlin = |text, from, n| occurrences(text, "Europe/Berlin", Dst::default(), from, n);
    assert_eq!(
        berlin("every 90 minutes", "2026-03-29 00:00", 3),
        [
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T03:30:00+02:00",
            "2026-03-29T05:00:00+02:00"
        ]
    );
    let meant = schedule("every 90 minutes", "UTC", Dst::default());
    assert_eq!(schedule("every 1h30m", "UTC", Dst::default()), meant);
    assert_eq!(schedule("every 5400s", "UTC", Dst::default()), meant);
    // Sevens do not divide a day: no cron can say this.
    check(
        "every 7 hours",
        "UTC",
        &[
            "01-01 00:00",
            "01-01 07:00",
            "01-01 14:00",
            "01-01 21:00",
            "01-02 04:00",
        ],
    );
    check("every 2d", "UTC", &["01-01 00:00", "01-03 00:00"]);
}

#[test]
fn a_fixed_period_begins_with_its_anchor() {
    check(
        "every 36h from 2026-02-01T00:00:00Z",
        "UTC",
        &["02-01 00:00", "02-02 12:00", "02-04 00:00"],
    );
    // In the zone of the schedule, unless it says otherwise.
    let tokyo = |text| occurrences(text, "Asia/Tokyo", Dst::default(), "2026-01-01 00:00", 2);
    assert_eq!(
        tokyo("every 10 minutes from 2026-02-01 00:05"),
        ["2026-02-01T00:05:00+09:00", "2026-02-01T00:15:00+09:00"]
    );
    assert_eq!(
        tokyo("every 1h from 2026-02-01T00:05:00-05:00")[0],
        "2026-02-01T14:05:00+09:00"
    );
}

#[test]
fn a_single_time_comes_once() {
    let berlin = |text| occurrences(text, "Europe/Berlin", Dst::default(), "2026-01-01 00:00", 5);
    for text in [
        "at 2026-11-14 06:00",
        "once at 2026-11-14T06:00:00",
        "once on 2026-11-14 06:00:00",
        "once at 2026-11-14T05:00:00Z",
        "at 2026-11-14 00:00:00-05:00",
    ] {
        assert_eq!(berlin(text), ["2026-11-14T06:00:00+01:00"], "{text}");
    }
    assert!(berlin("once at 2025-01-01 00:00").is_empty());
}
