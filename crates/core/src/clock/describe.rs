//! Descriptions of schedules, so that users see how theirs is interpreted.

use baton_model::time::Wall;

use super::Zone;
use super::civil::{ALL_60, ALL_MONTHS, Days, Numbers, Times, Weekdays};
use super::english::tokens::{MONTHS, WEEKDAYS};
use super::period::Period;
use super::rule::Rule;

/// Maximum number of times of a day that are listed.
const LISTED_MAX: usize = 8;

pub(super) fn rule(rule: &Rule, zone: &Zone) -> String {
    match rule {
        Rule::Pattern(pattern) => {
            let mut text = times(&pattern.times);
            let days = days(&pattern.days);
            if !(days.is_empty() && pattern.times.every_hour()) {
                text += " ";
                text += if days.is_empty() { "every day" } else { &days };
            }
            text
        }
        Rule::Period(period) => self::period(period, zone),
        Rule::Once(at) => format!("once, at {}", stamp(*at, zone)),
    }
}

fn stamp(second: u64, zone: &Zone) -> String {
    zone.format("%Y-%m-%d %H:%M:%S %:z", Wall(second * 1_000))
}

fn period(period: &Period, zone: &Zone) -> String {
    let mut left = period.seconds();
    let mut text = String::from("every ");
    for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if left >= length {
            text += &format!("{}{unit}", left / length);
            left %= length;
        }
    }
    match period.anchor() {
        0 => text + ", counted from 1970-01-01 00:00:00 +00:00",
        anchor => format!("{text}, counted from {}", stamp(anchor, zone)),
    }
}

fn times(times: &Times) -> String {
    let listed = listed(times);
    let Times::Fields {
        hours,
        minutes,
        seconds,
    } = times
    else {
        return format!("at {}", listed.unwrap_or_default());
    };
    if let Some(listed) = listed.filter(|_| !times.every_hour()) {
        return format!("at {listed}");
    }
    let hours = if times.every_hour() {
        String::new()
    } else {
        format!(" of the hours {}", numbers(u64::from(*hours)))
    };
    let within = match (*seconds, *minutes) {
        (ALL_60, ALL_60) => "every second".to_owned(),
        (1, ALL_60) => "every minute".to_owned(),
        (1, minutes) if hours.is_empty() && step(minutes).is_none() => {
            return format!("at {} of every hour", counted("minute", minutes));
        }
        (1, minutes) => every_nth("minute", minutes),
        (seconds, ALL_60) => every_nth("second", seconds),
        (seconds, minutes) => format!(
            "{} of {}",
            every_nth("second", seconds),
            counted("minute", minutes)
        ),
    };
    within + &hours
}

/// The list of all times, if they are few.
fn listed(times: &Times) -> Option<String> {
    let mut list = Vec::new();
    let mut from = 0;
    while let Some(at) = times.at_or_after(from) {
        let limit = match times {
            Times::Fields { .. } => LISTED_MAX,
            Times::List(list) => list.len(),
        };
        if list.len() == limit {
            return None;
        }
        let (hour, minute, second) = (at / 3_600, at / 60 % 60, at % 60);
        list.push(match second {
            0 => format!("{hour:02}:{minute:02}"),
            _ => format!("{hour:02}:{minute:02}:{second:02}"),
        });
        from = at + 1;
    }
    Some(and(&list))
}

/// `every 5 minutes`, or a list.
fn every_nth(unit: &str, set: u64) -> String {
    match step(set) {
        Some(step) => format!("every {step} {unit}s"),
        None => format!("at {}", counted(unit, set)),
    }
}

/// The step of a set that is an even division of sixty.
fn step(set: u64) -> Option<u32> {
    (2..=30).find(|step| {
        let even = (0..60).step_by(*step as usize);
        60 % step == 0 && set == even.fold(0, |set, number| set | 1 << number)
    })
}

/// `minute 5`, `minutes 5 and 7`.
fn counted(unit: &str, set: u64) -> String {
    let plural = if set.count_ones() > 1 { "s" } else { "" };
    format!("{unit}{plural} {}", numbers(set))
}

/// Members of a set, with three or more consecutive ones as a span.
fn numbers(set: u64) -> String {
    spans(set, &|number| number.to_string())
}

fn spans(set: u64, name: &dyn Fn(u32) -> String) -> String {
    let mut parts = Vec::new();
    let mut number = 0;
    while number < 64 {
        let length = (set >> number).trailing_ones();
        match length {
            0 => number += 1,
            1 | 2 => parts.extend((number..number + length).map(name)),
            _ => parts.push(format!("{} to {}", name(number), name(number + length - 1))),
        }
        number += length;
    }
    and(&parts)
}

fn days(days: &Days) -> String {
    let mut parts = Vec::new();
    if days.every > 1 {
        parts.push(format!("every {} days", days.every));
    }
    let numbers = days.numbers.as_ref().map(days_of_month);
    let weekdays = days.weekdays.as_ref().map(days_of_week);
    match (numbers, weekdays) {
        (Some(numbers), Some(weekdays)) => parts.push(format!("{numbers}, or {weekdays},")),
        (numbers, weekdays) => parts.extend(numbers.or(weekdays)),
    }
    if days.months != ALL_MONTHS {
        let name = |month: u32| capital(MONTHS, month as usize - 1);
        parts.push(format!("in {}", spans(u64::from(days.months), &name)));
    }
    parts.join(" ").trim_end_matches(',').to_owned()
}

fn days_of_month(days: &Numbers) -> String {
    let mut parts = Vec::new();
    if days.plain != 0 {
        parts.push(counted("day", u64::from(days.plain)));
    }
    if days.nearest != 0 {
        let near = counted("day", u64::from(days.nearest));
        parts.push(format!("the working day nearest to {near}"));
    }
    if days.last {
        parts.push("the last day".to_owned());
    }
    if days.last_working {
        parts.push("the last working day".to_owned());
    }
    format!("on {} of the month", and(&parts))
}

fn days_of_week(days: &Weekdays) -> String {
    let name = |day: u32| capital(WEEKDAYS, day as usize % 7);
    // Sunday ends the week here: `Friday to Sunday`.
    let names = |set: u8| spans(u64::from(set & !1) | u64::from(set & 1) << 7, &name);
    let mut parts = Vec::new();
    if days.plain != 0 {
        parts.push(names(days.plain));
    }
    let nth = ["first", "second", "third", "fourth", "fifth"];
    let of_month = days.nth.into_iter().zip(nth).chain([(days.last, "last")]);
    for (set, nth) in of_month.filter(|(set, _)| *set != 0) {
        parts.push(format!("the {nth} {} of the month", names(set)));
    }
    format!("on {}", and(&parts))
}

fn capital(names: &[&str], place: usize) -> String {
    let name = names.get(place).copied().unwrap_or_default();
    let (first, rest) = name.split_at(name.len().min(1));
    first.to_ascii_uppercase() + rest
}

fn and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
