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
    let text = format!("every {}", duration(period.seconds()));
    match period.anchor() {
        0 => text + ", counted from 1970-01-01 00:00:00 +00:00",
        anchor => format!("{text}, counted from {}", stamp(anchor, zone)),
    }
}

fn times(times: &Times) -> String {
    if let Times::Steps(steps) = times {
        let span = span(u64::from(steps.step()));
        return format!(
            "{span} from {} to {}",
            clock(steps.first()),
            clock(steps.last())
        );
    }
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
    let hours = u64::from(*hours);
    let within = match (*seconds, *minutes) {
        (ALL_60, ALL_60) => "every second".to_owned(),
        (1, ALL_60) => "every minute".to_owned(),
        (1, minutes) if step(minutes, 60).is_some() => every_nth("minute", minutes),
        (1, minutes) => {
            return hourly(hours, minutes)
                .unwrap_or_else(|| format!("at {} {}", counted("minute", minutes), past(hours)));
        }
        (seconds, ALL_60) => every_nth("second", seconds),
        (seconds, minutes) => {
            let seconds = every_nth("second", seconds);
            let minutes = counted("minute", minutes);
            return format!("{seconds} of {minutes} {}", past(hours));
        }
    };
    if times.every_hour() {
        return within;
    }
    // It fills its hours: each run of consecutive ones is a window.
    let first = minutes.trailing_zeros() * 60 + seconds.trailing_zeros();
    let last = minutes.ilog2() * 60 + seconds.ilog2();
    let windows: Vec<String> = runs(hours)
        .map(|(from, to)| {
            let (from, to) = (clock(from * 3_600 + first), clock(to * 3_600 + last));
            format!("from {from} to {to}")
        })
        .collect();
    format!("{within} {}", and(&windows))
}

/// `every hour from 09:05 to 17:05`, `every 2 hours from 00:00 to 22:00`: one minute of some hours.
fn hourly(hours: u64, minutes: u64) -> Option<String> {
    let step = match runs(hours).collect::<Vec<_>>()[..] {
        [(0, 23)] if minutes == 1 => return Some("every hour".to_owned()),
        [(from, to)] if (1..23).contains(&(to - from)) => 1,
        _ => step(hours, 24)?,
    };
    let minute = (minutes.count_ones() == 1).then(|| minutes.trailing_zeros() * 60)?;
    let (first, last) = (hours.trailing_zeros(), hours.ilog2());
    let (first, last) = (clock(first * 3_600 + minute), clock(last * 3_600 + minute));
    Some(format!(
        "{} from {first} to {last}",
        span(u64::from(step) * 3_600)
    ))
}

/// `past every hour`, `past every hour from 9 to 17`, `past hours 1 and 5`.
fn past(hours: u64) -> String {
    let runs: Vec<(u32, u32)> = runs(hours).collect();
    match runs[..] {
        [(0, 23)] => "past every hour".to_owned(),
        [(from, to)] if from < to => format!("past every hour from {from} to {to}"),
        _ => match step(hours, 24) {
            Some(step) => format!("past every {step} hours"),
            None => format!("past {}", counted("hour", hours)),
        },
    }
}

/// Runs of consecutive members of a set, each by its first and last one.
fn runs(set: u64) -> impl Iterator<Item = (u32, u32)> {
    let starts = set & !(set << 1);
    (0..u64::BITS)
        .filter(move |bit| starts >> bit & 1 == 1)
        .map(move |bit| (bit, bit + (set >> bit).trailing_ones() - 1))
}

/// `09:00`, `23:59:58`.
fn clock(time: u32) -> String {
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    match second {
        0 => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// `every 5 minutes`, or as a duration: `every 1h30m`.
fn span(seconds: u64) -> String {
    match seconds {
        1 => "every second".to_owned(),
        60 => "every minute".to_owned(),
        3_600 => "every hour".to_owned(),
        _ if seconds.is_multiple_of(3_600) => format!("every {} hours", seconds / 3_600),
        2..60 => format!("every {seconds} seconds"),
        _ if seconds < 3_600 && seconds.is_multiple_of(60) => {
            format!("every {} minutes", seconds / 60)
        }
        _ => format!("every {}", duration(seconds)),
    }
}

/// `1d12h`.
fn duration(seconds: u64) -> String {
    let mut left = seconds;
    let mut text = String::new();
    for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if left >= length {
            text += &format!("{}{unit}", left / length);
            left %= length;
        }
    }
    text
}

/// The list of all times, if they are few.
fn listed(times: &Times) -> Option<String> {
    let mut list = Vec::new();
    let mut from = 0;
    while let Some(at) = times.at_or_after(from) {
        let limit = match times {
            Times::Fields { .. } => LISTED_MAX,
            Times::List(list) => list.len(),
            Times::Steps(_) => return None,
        };
        if list.len() == limit {
            return None;
        }
        list.push(clock(at));
        from = at + 1;
    }
    Some(and(&list))
}

/// `every 5 minutes`, or a list.
fn every_nth(unit: &str, set: u64) -> String {
    match step(set, 60) {
        Some(step) => format!("every {step} {unit}s"),
        None => format!("at {}", counted(unit, set)),
    }
}

/// The step of a set that is an even division of the whole.
fn step(set: u64, whole: u32) -> Option<u32> {
    (2..=whole / 2).find(|step| {
        let even = (0..whole).step_by(*step as usize);
        whole.is_multiple_of(*step) && set == even.fold(0, |set, number| set | 1 << number)
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
    let parts: Vec<String> = runs(set)
        .flat_map(|(from, to)| match to - from {
            0 | 1 => (from..=to).map(name).collect(),
            _ => vec![format!("{} to {}", name(from), name(to))],
        })
        .collect();
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
    for before in (0..31).filter(|before| days.before_end & 1 << before != 0) {
        parts.push(before_end(before));
    }
    for before in (0..31).filter(|before| days.nearest_before_end & 1 << before != 0) {
        parts.push(match before {
            0 => "the last working day".to_owned(),
            _ => format!("the working day nearest to {}", before_end(before)),
        });
    }
    format!("on {} of the month", and(&parts))
}

fn before_end(days: u32) -> String {
    match days {
        0 => "the last day".to_owned(),
        1 => "the day before the last".to_owned(),
        _ => format!("the day {days} days before the last"),
    }
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
