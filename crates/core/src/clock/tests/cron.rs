//! Cron expressions, each with the due times from the beginning of 2026, a Thursday.

use super::{check, schedule, utc};
use crate::clock::{Dst, Schedule, Zone};

#[test]
fn numbers_lists_ranges_and_steps() {
    check("30 4 * * *", "UTC", &["01-01 04:30", "01-02 04:30"]);
    check(
        "0,30 9-10 * * *",
        "UTC",
        &[
            "01-01 09:00",
            "01-01 09:30",
            "01-01 10:00",
            "01-01 10:30",
            "01-02 09:00",
        ],
    );
    check(
        "*/20 0 * * *",
        "UTC",
        &["01-01 00:00", "01-01 00:20", "01-01 00:40", "01-02 00:00"],
    );
    check(
        "10-50/20 0 * * *",
        "UTC",
        &["01-01 00:10", "01-01 00:30", "01-01 00:50"],
    );
    check(
        "5/25 0 * * *",
        "UTC",
        &["01-01 00:05", "01-01 00:30", "01-01 00:55", "01-02 00:05"],
    );
    check(
        "0 0 31 * *",
        "UTC",
        &["01-31 00:00", "03-31 00:00", "05-31 00:00"],
    );
}

#[test]
fn six_fields_have_seconds_first() {
    check(
        "*/30 0 0 * * *",
        "UTC",
        &["01-01 00:00:00", "01-01 00:00:30", "01-02 00:00:00"],
    );
    check(
        "59 59 23 31 12 ?",
        "UTC",
        &["12-31 23:59:59", "2027-12-31 23:59:59"],
    );
}

#[test]
fn names_and_ranges_over_the_end_of_a_week_or_a_year() {
    check(
        "0 0 * JAN mon",
        "UTC",
        &[
            "01-05 00:00",
            "01-12 00:00",
            "01-19 00:00",
            "01-26 00:00",
            "2027-01-04 00:00",
        ],
    );
    check(
        "0 0 * * fri-mon",
        "UTC",
        &[
            "01-02 00:00",
            "01-03 00:00",
            "01-04 00:00",
            "01-05 00:00",
            "01-09 00:00",
        ],
    );
    check(
        "0 0 * * fri-mon/2",
        "UTC",
        &["01-02 00:00", "01-04 00:00", "01-09 00:00"],
    );
    check(
        "0 0 1 nov-feb *",
        "UTC",
        &[
            "01-01 00:00",
            "02-01 00:00",
            "11-01 00:00",
            "12-01 00:00",
            "2027-01-01 00:00",
        ],
    );
    check("0 0 * * SUNDAY", "UTC", &["01-04 00:00"]);
}

#[test]
fn ranges_wrap_in_every_field() {
    for (text, same) in [
        ("50-10 0 * * *", "0-10,50-59 0 * * *"),
        ("50-10/10 0 * * *", "0,10,50 0 * * *"),
        ("0 22-4 * * *", "0 0-4,22,23 * * *"),
        ("0 22-4/2 * * *", "0 22,0,2,4 * * *"),
        ("0 0 30-2 * *", "0 0 1,2,30,31 * *"),
        ("0 0 28-5/3 * *", "0 0 28,31,3 * *"),
        ("58-1 0 0 * * *", "0,1,58,59 0 0 * * *"),
        ("0 0 * 11-2 *", "0 0 * 1,2,11,12 *"),
        ("0 0 * * 5-1", "0 0 * * 0,1,5,6"),
    ] {
        let same = schedule(same, "UTC", Dst::default());
        assert_eq!(schedule(text, "UTC", Dst::default()), same, "{text}");
    }
}

#[test]
fn sunday_is_0_and_7() {
    let zero = schedule("0 0 * * 0", "UTC", Dst::default());
    assert_eq!(zero, schedule("0 0 * * 7", "UTC", Dst::default()));
    let weekend = schedule("0 0 * * 6-7", "UTC", Dst::default());
    assert_eq!(weekend, schedule("0 0 * * sat-sun", "UTC", Dst::default()));
    let all = schedule("0 0 1 * 0-7", "UTC", Dst::default());
    assert_eq!(all, schedule("0 0 1 * 0-6", "UTC", Dst::default()));
    assert_eq!(
        schedule("0 0 * * 7-2", "UTC", Dst::default()),
        schedule("0 0 * * 0-2", "UTC", Dst::default())
    );
}

#[test]
fn a_day_of_the_month_or_a_day_of_the_week_will_do_if_both_are_given() {
    check(
        "0 0 13 * fri",
        "UTC",
        &["01-02 00:00", "01-09 00:00", "01-13 00:00", "01-16 00:00"],
    );
    // A step restricts: this is not every second Friday.
    check(
        "0 0 */10 * fri",
        "UTC",
        &["01-01 00:00", "01-02 00:00", "01-09 00:00", "01-11 00:00"],
    );
    check("0 0 ? * fri", "UTC", &["01-02 00:00", "01-09 00:00"]);
    check("0 0 13 * ?", "UTC", &["01-13 00:00", "02-13 00:00"]);
}

#[test]
fn last_days_and_last_weekdays_of_a_month() {
    check(
        "0 0 L * *",
        "UTC",
        &["01-31 00:00", "02-28 00:00", "03-31 00:00"],
    );
    check(
        "0 0 1,L 2 *",
        "UTC",
        &["02-01 00:00", "02-28 00:00", "2027-02-01 00:00"],
    );
    check(
        "0 0 L 2 *",
        "UTC",
        &["02-28 00:00", "2027-02-28 00:00", "2028-02-29 00:00"],
    );
    check(
        "0 0 * * 5L",
        "UTC",
        &["01-30 00:00", "02-27 00:00", "03-27 00:00"],
    );
    check("0 0 * 12 friL", "UTC", &["12-25 00:00"]);
    check(
        "0 0 LW * *",
        "UTC",
        &["01-30 00:00", "02-27 00:00", "03-31 00:00"],
    );
}

#[test]
fn days_before_the_last_of_a_month() {
    check(
        "0 0 L-3 * *",
        "UTC",
        &["01-28 00:00", "02-25 00:00", "03-28 00:00"],
    );
    check("0 0 L-1,L 2 *", "UTC", &["02-27 00:00", "02-28 00:00"]);
    // The first of a month with 31 days; February has no such day.
    check("0 0 L-30 * *", "UTC", &["01-01 00:00", "03-01 00:00"]);
    // 28 February 2026 is a Saturday, 1 March a Sunday, 28 March a Saturday.
    check("0 0 L-3W 3 *", "UTC", &["03-27 00:00"]);
    check("0 0 L-0 2 *", "UTC", &["02-28 00:00"]);
    check("0 0 L-0W 2 *", "UTC", &["02-27 00:00"]);
    check("0 0 L-30W 3,8 *", "UTC", &["03-02 00:00", "08-03 00:00"]);
    let last = schedule("0 0 LW * *", "UTC", Dst::default());
    assert_eq!(schedule("0 0 lw * *", "UTC", Dst::default()), last);
}

#[test]
fn working_days_nearest_to_a_day_stay_in_its_month() {
    // 15 Feb 2026 is a Sunday, 15 Aug a Saturday, 1 Feb a Sunday, 1 Aug a Saturday.
    check(
        "0 0 15W 2,8,9 *",
        "UTC",
        &["02-16 00:00", "08-14 00:00", "09-15 00:00"],
    );
    check("0 0 1W 2,8 *", "UTC", &["02-02 00:00", "08-03 00:00"]);
    // 31 May 2026 is a Sunday, and April has no 31st.
    check("0 0 31W 4,5 *", "UTC", &["05-29 00:00"]);
}

#[test]
fn nth_weekdays_of_a_month() {
    check(
        "0 0 * * 5#2",
        "UTC",
        &["01-09 00:00", "02-13 00:00", "03-13 00:00"],
    );
    check(
        "0 0 * * mon#1,mon#3",
        "UTC",
        &["01-05 00:00", "01-19 00:00", "02-02 00:00"],
    );
    check(
        "0 0 * * 5#5",
        "UTC",
        &["01-30 00:00", "05-29 00:00", "07-31 00:00"],
    );
    // A fifth Tuesday in February needs a leap year that suits.
    check(
        "0 0 * 2 2#5",
        "UTC",
        &["2028-02-29 00:00", "2056-02-29 00:00"],
    );
}

#[test]
fn words_for_fields() {
    for (word, fields) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
        ("@every_minute", "* * * * *"),
    ] {
        let whole = schedule(fields, "UTC", Dst::default());
        assert_eq!(schedule(word, "UTC", Dst::default()), whole, "{word}");
    }
}

#[test]
fn leap_days_are_found_over_the_turn_of_a_century() {
    let leap = schedule("0 0 29 2 *", "Europe/Berlin", Dst::default());
    let occurrence = leap.after(utc("2096-03-01 00:00")).expect("another one");
    assert_eq!(
        leap.zone().rfc3339(occurrence.at),
        "2104-02-29T00:00:00+01:00"
    );
}

#[test]
fn nothing_is_due_after_the_end_of_the_calendar_and_the_search_ends() {
    for text in [
        "* * * * *",
        "0 0 29 2 *",
        "every 90 minutes",
        "every 3 days at 4:00",
    ] {
        for zone_name in [
            "UTC",
            "Europe/Berlin",
            "Pacific/Kiritimati",
            "Pacific/Pago_Pago",
        ] {
            let schedule = schedule(text, zone_name, Dst::default());
            let end = utc("9998-12-31 23:59:59");
            assert_eq!(schedule.after(end), None, "{text} {zone_name}");
            assert_eq!(schedule.after(baton_model::time::Wall(u64::MAX)), None);
            let last = schedule.last(utc("9990-01-01 00:00"), end).expect("some");
            assert!(last <= end && schedule.after(last).is_none());
        }
    }
}

#[test]
fn a_schedule_takes_little_memory() {
    assert!(size_of::<Schedule>() <= 96, "{}", size_of::<Schedule>());
    assert!(size_of::<Zone>() <= 8);
}
