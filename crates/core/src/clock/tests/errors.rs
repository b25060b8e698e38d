//! What people are told. The texts are part of the product: a change is seen here.

use super::zone;
use crate::clock::{Dst, Gap, Schedule, Zone};

#[track_caller]
fn refused(text: &str, message: &str) {
    let refused = Schedule::parse(text, &zone("Europe/Berlin"), Dst::default());
    match refused {
        Ok(schedule) => panic!("{text:?} was understood: {}", schedule.describe()),
        Err(error) => assert_eq!(error.to_string(), message, "{text:?}"),
    }
}

const CRON: &[(&str, &str)] = &[
    (
        "75 * * * *",
        "minute: 75 is more than 59; write a number from 0 to 59",
    ),
    (
        "* 24 * * *",
        "hour: 24 is more than 23; write a number from 0 to 23",
    ),
    (
        "* * 0 * *",
        "day of month: 0 is less than 1; write a number from 1 to 31",
    ),
    (
        "* * * 13 *",
        "month: 13 is more than 12; write a number from 1 to 12, or a name",
    ),
    (
        "* * * foo *",
        "month: `foo` is not understood; write a number from 1 to 12, or a name",
    ),
    (
        "* * * * 8",
        "day of week: 8 is more than 7; write a number from 0 to 7, or a name",
    ),
    (
        "60 * * * * *",
        "second: 60 is more than 59; write a number from 0 to 59",
    ),
    (
        "*/75 * * * *",
        "minute: a step of 75 is more than 59; write `every 75 minutes`",
    ),
    (
        "*/0 * * * *",
        "minute: a step of 0 is not possible; write at least 1",
    ),
    (
        "*/x * * * *",
        "minute: `x` is not a step; write a number from 1 to 59",
    ),
    (
        "*/75 9-17 * * *",
        "minute: a step of 75 is more than 59; write a step from 1 to 59",
    ),
    (
        "0 */48 * * *",
        "hour: a step of 48 is more than 23; write `every 48 hours`",
    ),
    (
        "30 6 */40 * *",
        "day of month: a step of 40 is more than 30; write `every 40 days at 6:30`",
    ),
    (
        "10/75 * * * *",
        "minute: `75` is not a step; write a number from 1 to 59",
    ),
    (
        "* * L-31 * *",
        "day of month: `L-31` is not understood; write `L` for the last day of a month, or `L-3` for the third before it (0 to 30)",
    ),
    (
        "? * * * *",
        "minute: `?` is allowed for days only; write `*`",
    ),
    (
        "1,,2 * * * *",
        "minute: `` is not understood; write a number from 0 to 59",
    ),
    (
        "-5 * * * *",
        "minute: `` is not understood; write a number from 0 to 59",
    ),
    (
        "99999999999 * * * *",
        "minute: 99999999999 is more than 59; write a number from 0 to 59",
    ),
    (
        "* * * * 5#6",
        "day of week: `5#6` is not a week of a month; write a number from 1 to 5 after the `#`",
    ),
    (
        "* * * * L",
        "day of week: `L` does not say which day; write `5L` for the last Friday of a month",
    ),
    (
        "* * 32W * *",
        "day of month: 32 is more than 31; write a number from 1 to 31",
    ),
    (
        "* * * *",
        "`* * * *` has 4 fields; write five, minute hour day month weekday, or six with seconds first",
    ),
    (
        "* * * * * * *",
        "`* * * * * * *` has 7 fields; write five, minute hour day month weekday, or six with seconds first",
    ),
    (
        "5",
        "`5` has 1 fields; write five, minute hour day month weekday, or six with seconds first",
    ),
    (
        "0 0 30 2 *",
        "`0 0 30 2 *` never happens; name days that the months have",
    ),
    (
        "0 0 31W 2,4 *",
        "`0 0 31W 2,4 *` never happens; name days that the months have",
    ),
    (
        "@reboot",
        "there is no `@reboot`; write one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every_minute",
    ),
    (
        "@every 1h30m",
        "there is no `@every 1h30m`; write `every 1h30m`",
    ),
];

#[test]
fn cron_errors_name_the_field_and_the_hint() {
    for (text, message) in CRON {
        refused(text, message);
    }
}

const ENGLISH: &[(&str, &str)] = &[
    (
        "",
        "the schedule is empty; write one such as `every day at 9:00` or `0 9 * * *`",
    ),
    (
        "every monday",
        "`every monday` has no time of day; write `every monday at 9:00`",
    ),
    (
        "every 3 days",
        "`every 3 days` has no time of day; write `every 3 days at 9:00`",
    ),
    (
        "every month on the 1st",
        "`every month on the 1st` has no time of day; write `every month on the 1st at 9:00`",
    ),
    (
        "every mnday at 9:00",
        "`mnday` is not understood after `every`; did you mean `every monday at 9:00`?",
    ),
    (
        "biweekly on friday at 5pm",
        "`biweekly on friday at 5pm`: weeks are not counted; write a period from a date: every 14d from YYYY-MM-DD HH:MM",
    ),
    (
        "bimonthly on the 1st at 9:00",
        "`bimonthly` is not understood; write days and a time, an interval such as 5 minutes, or cron fields",
    ),
    (
        "every quarter on the 1st at 00:00",
        "`on` is not understood after `every quarter`; name its day, such as the 1st of every quarter",
    ),
    (
        "every 5 minutes during business hours",
        "`business` is not understood after `every 5 minutes during`; name the hours, such as from 9:00 to 17:00, or the months",
    ),
    (
        "evry monday at 9:00",
        "`evry` is not understood; did you mean `every monday at 9:00`?",
    ),
    (
        "every monday at 9:00 please",
        "`please` is not understood after `every monday at 9:00`; leave it out",
    ),
    (
        "every day at 9:00 UTC",
        "`utc` is not understood after `every day at 9:00`; set the time zone in its own field, not in the schedule",
    ),
    (
        "every day at 9:00 Europe/Berlin",
        "`europe/berlin` is not understood after `every day at 9:00`; set the time zone in its own field, not in the schedule",
    ),
    (
        "every day at 25:00",
        "`25:00` is not a time; write a time such as 9:00, 17:30 or 6pm",
    ),
    (
        "every day at 9:5",
        "`9:5` is not a time; write a time such as 9:00, 17:30 or 6pm",
    ),
    (
        "every day at 24:00",
        "`24:00` is the midnight of the next day; write 00:00 of that day",
    ),
    (
        "every day at 13pm",
        "`13pm` is not a time; write it without am and pm, or from 1 to 12",
    ),
    (
        "every day at 13 pm",
        "`13 pm` is not a time; write it without am and pm, or from 1 to 12",
    ),
    (
        "every day at",
        "`every day at` is not complete; write a time such as 9:00, 6pm, noon or midnight",
    ),
    (
        "every day at 9:00 and",
        "`and` is not understood after `every day at 9:00`; only days, times, a window or an exception may follow",
    ),
    (
        "weekly",
        "`weekly` does not name the day; write `every monday at 9:00`",
    ),
    (
        "monthly",
        "`monthly` does not name the day; write `every month on the 1st at 9:00`",
    ),
    (
        "every week",
        "`every week` does not name the day; write `every monday at 9:00`",
    ),
    (
        "every 2 weeks",
        "`every 2 weeks`: weeks are not counted; write a period from a date: every 14d from YYYY-MM-DD HH:MM",
    ),
    (
        "every 3 months",
        "`every 3 months` does not name the months; name days and months, such as the 1st of january and july",
    ),
    (
        "every 0 minutes",
        "`every 0 minutes` never comes; write at least 1",
    ),
    (
        "every 0s",
        "a period of 0 is not possible; write at least `every 1s`",
    ),
    (
        "every 20000d",
        "a period of more than ten years is too long; write at most 3660d",
    ),
    (
        "every 400 days at 9:00",
        "400 days are more than a year; write at most 366",
    ),
    (
        "every 5x",
        "`5x` is not a duration; write a duration such as 90s, 15m, 1h30m or 2d",
    ),
    (
        "every 30m1h",
        "`30m1h` has its units out of order; write a duration such as 90s, 15m, 1h30m or 2d",
    ),
    (
        "every 1h30",
        "`1h30` has a number without a unit; write a duration such as 90s, 15m, 1h30m or 2d",
    ),
    (
        "every 5",
        "`every 5` is not complete; name the unit, such as minutes or hours",
    ),
    (
        "sixth monday of the month at 8:00",
        "`sixth monday`: no month has that many; write first to fifth, or last",
    ),
    (
        "6th monday of the month at 8:00",
        "`6th monday`: no month has that many; write first to fifth, or last",
    ),
    (
        "second weekday of the month at 8:00",
        "`second weekday` is not understood; only the first and the last weekday of a month have a name here",
    ),
    (
        "last of the month at 8:00",
        "`of` is not understood after `last`; name what is counted, such as `last day`",
    ),
    (
        "february 30th at 8:00",
        "`february 30th at 8:00` never happens; name days that the months have",
    ),
    (
        "january at 8:00",
        "`at` is not understood after `january`; write a day of the month, such as 1st or 15th",
    ),
    (
        "once",
        "`once` is not complete; write a date and a time, such as once at 2026-11-14 06:00",
    ),
    (
        "once at 2026-11-14",
        "`2026-11-14` is not a date with a time; write an instant such as `2026-11-14 06:00` or `2026-11-14T06:00:00Z`",
    ),
    (
        "once at 2026-02-30 06:00",
        "`2026-02-30 06:00` is not a date with a time; write an instant such as `2026-11-14 06:00` or `2026-11-14T06:00:00Z`",
    ),
    (
        "once at 1960-01-01 06:00",
        "`1960-01-01 06:00` is before 1970, or too far ahead; write an instant such as `2026-11-14 06:00` or `2026-11-14T06:00:00Z`",
    ),
    (
        "at 2026-11-14 06:00 and so on",
        "`2026-11-14 06:00 and so on` is not a date with a time; write an instant such as `2026-11-14 06:00` or `2026-11-14T06:00:00Z`",
    ),
    (
        "every year on mondays at 9:00",
        "`every year on mondays` does not name the month; name the day, such as `on january 1st`",
    ),
    (
        "every hour at 15",
        "`every hour at 15` has an interval and a time; write days with the time, or the interval with a window such as from 9:00 to 17:00",
    ),
    (
        "every night at 2:30",
        "`night` is not exact; write `every day at 2:30`",
    ),
    (
        "every morning",
        "`morning` is not exact; write `every day at 9:00`",
    ),
    (
        "nightly at 11pm",
        "`nightly` is not exact; write `every day at 11pm`",
    ),
    (
        "every monday morning at 8:00",
        "`morning` is not exact; write `every monday at 8:00`",
    ),
    // In the evening 8:00 is hardly meant.
    (
        "every evening at 8:00",
        "`evening` is not exact; name the days, and the time as 8:00 and 20:00, or as 8am and 8pm",
    ),
    (
        "daily 6",
        "`6` is not understood after `daily`; write `daily at 6`",
    ),
    ("18:00", "`18:00` has no days; write `every day 18:00`"),
    (
        "weekly at 6pm",
        "`weekly` does not name the day; write `every monday at 6pm`",
    ),
    (
        "every 2 weeks on monday at 9:00",
        "`every 2 weeks on monday at 9:00`: weeks are not counted; write a period from a date: every 14d from YYYY-MM-DD HH:MM",
    ),
    (
        "every other monday at 9:00",
        "`every other monday at 9:00`: weeks are not counted; write a period from a date: every 14d from YYYY-MM-DD HH:MM",
    ),
    (
        "every second tuesday at 9:00",
        "`every second tuesday` does not say of what; add `of every month` if you count within a month; weeks cannot be counted",
    ),
    (
        "every 24 hours at 6pm",
        "`every 24 hours at 6pm` has an interval and a time; write `every day at 6pm`",
    ),
    (
        "every 7 minutes on weekdays",
        "`every 7 minutes on weekdays` does not divide its days evenly; write `every 7 minutes on weekdays from 0:00 to 23:59`",
    ),
    (
        "every 7 minutes synchronized",
        "`every 7 minutes synchronized` does not divide a day; write an interval that does, such as 5 minutes or 2 hours",
    ),
    (
        "every 5 minutes from 10:00",
        "`every 5 minutes from 10:00` is not complete; write `to` and the end of the window, such as `to 17:00`",
    ),
    (
        "every hour from 9 to 5",
        "`every hour from 9 to 5` goes over midnight; write both times with am or pm, or as 9:00 and 17:00",
    ),
    (
        "every hour from 22:00 to 2:00 on fridays",
        "`every hour from 22:00 to 2:00 on fridays` goes over midnight, into other days; leave out the days, or end the window at 23:59",
    ),
    (
        "weekdays from 9:00 to 17:00",
        "`weekdays from 9:00 to 17:00` does not say how often; add an interval, such as every 30 minutes",
    ),
    (
        "on the 1st except sunday at 9:00",
        "`on the 1st except sunday at 9:00` excepts days of the week; except them from days of the week or from every day, not from days of the month",
    ),
    (
        "weekends except saturday and sunday at 9:00",
        "`weekends except saturday and sunday at 9:00` excepts all its days; leave some",
    ),
    (
        "every monday at 9:00 except holidays",
        "`holidays` is not understood after `every monday at 9:00 except`; only days of the week and months can be excepted",
    ),
    (
        "every monday on tuesday at 9:00",
        "`every monday on tuesday` has days twice; join them with `and`, or write two schedules",
    ),
    (
        "every day at 0930",
        "`0930` has no colon; write it as 09:30",
    ),
    // Monday and Sunday are equally near.
    (
        "every munday at 9:00",
        "`munday` is not understood after `every`; write days and a time, an interval such as 5 minutes, or cron fields",
    ),
    (
        "evry wedensday at 9:00",
        "`evry` is not understood; did you mean `every wednesday at 9:00`?",
    ),
    (
        "\u{1b}[2J",
        "`\\u{1b}[2j` is not understood; write days and a time, an interval such as 5 minutes, or cron fields",
    ),
];

#[test]
fn english_errors_say_what_was_understood_and_what_to_write() {
    for (text, message) in ENGLISH {
        refused(text, message);
    }
}

#[test]
fn a_single_time_that_clocks_never_show_is_refused_where_it_would_be_skipped() {
    let dst = Dst {
        gap: Gap::Skip,
        ..Dst::default()
    };
    let refused = Schedule::parse("at 2026-03-29 02:30", &zone("Europe/Berlin"), dst);
    assert_eq!(
        refused.expect_err("it never comes").to_string(),
        "2026-03-29T02:30:00 does not exist in Europe/Berlin; clocks are set forward there: \
         write another time"
    );
}

#[test]
fn an_unknown_zone_gets_the_nearest_one() {
    for (name, meant) in [
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Mars/Olympus_Mons", "Europe/Berlin or UTC"),
    ] {
        let error = Zone::named(name).expect_err("no such zone");
        assert_eq!(error.message, format!("unknown time zone `{name}`"));
        assert_eq!(
            error.hint,
            format!("write a name of the IANA database, such as {meant}")
        );
    }
    assert_eq!(zone("europe/BERLIN").name(), "Europe/Berlin");
}

#[test]
fn a_text_of_any_length_and_kind_ends_in_an_answer() {
    let mut rng = baton_testing::Rng::new(7);
    let parts = [
        "every",
        "monday",
        "at",
        "9:00",
        "*",
        "*/5",
        "5L",
        "first",
        "of",
        "the",
        "month",
        ",",
        "and",
        "90",
        "s",
        "é",
        "from",
        "2026-01-01",
        "on",
        "last",
        "january",
        "#",
        "-",
        "w",
        "1st",
        ":",
        "",
    ];
    for _ in 0..20_000 {
        let words: Vec<&str> = (0..rng.below(9)).map(|_| rng.pick(&parts)).collect();
        let glue = rng.pick(&[" ", "", " "]);
        let text = words.join(glue);
        if let Ok(schedule) = Schedule::parse(&text, &Zone::UTC, Dst::default()) {
            assert!(!schedule.describe().is_empty(), "{text}");
        }
    }
    let long = "1,".repeat(1_000_000);
    let error = Schedule::parse(&long, &Zone::UTC, Dst::default()).expect_err("too long");
    assert_eq!(error.hint, "keep it below 512");
}
