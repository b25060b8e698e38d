//! Descriptions of schedules.

use super::schedule;
use crate::clock::Dst;

const DESCRIPTIONS: &[(&str, &str)] = &[
    ("0 12 * * 1", "at 12:00 on Monday"),
    (
        "every day at 9:00 and 17:30",
        "at 09:00 and 17:30 every day",
    ),
    ("30 9 * * 1-5", "at 09:30 on Monday to Friday"),
    ("weekends at noon", "at 12:00 on Saturday and Sunday"),
    ("0 0 * * fri-sun", "at 00:00 on Friday to Sunday"),
    ("*/5 * * * *", "every 5 minutes"),
    ("* * * * *", "every minute"),
    ("* * * * * *", "every second"),
    ("*/10 * * * * *", "every 10 seconds"),
    ("every 60 minutes", "every hour"),
    ("15 * * * *", "at minute 15 past every hour"),
    ("0,7,9 * * * *", "at minutes 0, 7 and 9 past every hour"),
    (
        "*/15 9-17 * * 1-5",
        "every 15 minutes from 09:00 to 17:45 on Monday to Friday",
    ),
    ("5 9-17 * * *", "every hour from 09:05 to 17:05 every day"),
    ("0 */2 * * *", "every 2 hours from 00:00 to 22:00 every day"),
    (
        "*/2 1 * * *",
        "every 2 minutes from 01:00 to 01:58 every day",
    ),
    (
        "*/5 1,5-6 * * *",
        "every 5 minutes from 01:00 to 01:55 and from 05:00 to 06:55 every day",
    ),
    (
        "1,2,3,5,7,11,13,17,19 1,5 * * *",
        "at minutes 1 to 3, 5, 7, 11, 13, 17 and 19 past hours 1 and 5 every day",
    ),
    (
        "1,2,3,5,7,11,13,17,19 1 * * *",
        "at minutes 1 to 3, 5, 7, 11, 13, 17 and 19 past hour 1 every day",
    ),
    (
        "*/10 30 9-17 * * *",
        "every 10 seconds of minute 30 past every hour from 9 to 17 every day",
    ),
    (
        "every 5 minutes from 10:00 to 14:00 on weekdays",
        "every 5 minutes from 10:00 to 14:00 on Monday to Friday",
    ),
    (
        "every 7 minutes between 22:00 and 2:00",
        "every 7 minutes from 22:00 to 01:58 every day",
    ),
    (
        "0 0 L-3,L-2W * *",
        "at 00:00 on the day 3 days before the last and the working day nearest to the day \
         2 days before the last of the month",
    ),
    ("30 5 0 * * *", "at 00:05:30 every day"),
    (
        "0 0 13 * 5",
        "at 00:00 on day 13 of the month, or on Friday",
    ),
    (
        "0 0 13 6 5",
        "at 00:00 on day 13 of the month, or on Friday, in June",
    ),
    (
        "0 0 1,15,L * *",
        "at 00:00 on days 1 and 15 and the last day of the month",
    ),
    (
        "0 0 15W * *",
        "at 00:00 on the working day nearest to day 15 of the month",
    ),
    (
        "0 0 LW 1-3 *",
        "at 00:00 on the last working day of the month in January to March",
    ),
    (
        "0 6 * * 1#1,5L",
        "at 06:00 on the first Monday of the month and the last Friday of the month",
    ),
    (
        "january 1st at 00:00",
        "at 00:00 on day 1 of the month in January",
    ),
    ("every 3 days at 4:00", "at 04:00 every 3 days"),
    ("* * * 12 *", "every minute in December"),
    (
        "every 90 minutes",
        "every 1h30m, counted from 1970-01-01 00:00:00 +00:00",
    ),
    (
        "every 36h from 2026-01-01 00:00",
        "every 1d12h, counted from 2026-01-01 00:00:00 +01:00",
    ),
    ("at 2026-11-14 06:00", "once, at 2026-11-14 06:00:00 +01:00"),
];

#[test]
fn a_schedule_says_how_it_was_understood() {
    for (text, description) in DESCRIPTIONS {
        let schedule = schedule(text, "Europe/Berlin", Dst::default());
        assert_eq!(schedule.describe(), *description, "{text}");
    }
}
