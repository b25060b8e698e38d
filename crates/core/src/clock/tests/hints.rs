//! Hints never change the meaning: phrases are generated together with what they mean, then spoiled,
//! and every schedule that a hint suggests must agree with the meaning.

use baton_testing::Rng;

use super::schedule;
use crate::clock::{Dst, Schedule, Zone};

/// Days in words, and the last three fields of cron.
const DAYS: &[(&str, &str)] = &[
    ("every day", "* * *"),
    ("daily", "* * *"),
    ("every monday", "* * 1"),
    ("every tuesday and thursday", "* * 2,4"),
    ("on sundays", "* * 0"),
    ("every weekday", "* * 1-5"),
    ("weekends", "* * 0,6"),
    ("monday to friday", "* * 1-5"),
    ("every business day", "* * 1-5"),
    ("every day except sunday", "* * 1-6"),
    ("every weekday in june", "* 6 1-5"),
    ("first monday of the month", "* * 1#1"),
    ("last friday of march", "* 3 5L"),
    ("last day of the month", "L * *"),
    ("on the 1st and 15th of every month", "1,15 * *"),
    ("every month on the 2nd", "2 * *"),
    ("january 1st", "1 1 *"),
    ("24 december", "24 12 *"),
    ("1 of jan,july", "1 1,7 *"),
];

/// Times in words, and the first two fields of cron.
const TIMES: &[(&str, &str)] = &[
    ("18:00", "0 18"),
    ("6pm", "0 18"),
    ("07:45", "45 7"),
    ("9 am", "0 9"),
    ("noon", "0 12"),
    ("9:00 and 17:00", "0 9,17"),
    ("23:10", "10 23"),
    ("2:30", "30 2"),
];

/// Intervals in words, and the first two fields of cron.
const INTERVALS: &[(&str, &str)] = &[
    ("every 5 minutes", "*/5 *"),
    ("every ten mins", "*/10 *"),
    ("every hour", "0 *"),
    ("every 2 hours", "0 */2"),
    ("hourly", "0 *"),
    ("every half hour", "*/30 *"),
];

/// A phrase, what it means, and whether its time was left out: then any time agrees.
#[derive(Debug)]
struct Typed {
    text: String,
    meaning: Schedule,
    has_time: bool,
}

fn cron(time: &str, days: &str) -> Schedule {
    schedule(&format!("{time} {days}"), "UTC", Dst::default())
}

/// A correct phrase, or one with a known mistake, but correctly spelled.
fn typed(rng: &mut Rng) -> Typed {
    let (days, days_cron) = rng.pick(DAYS);
    let (time, time_cron) = rng.pick(TIMES);
    let (interval, interval_cron) = rng.pick(INTERVALS);
    let (text, meaning) = match rng.below(12) {
        0 => (format!("{days} at {time}"), cron(time_cron, days_cron)),
        1 => (format!("{days} {time}"), cron(time_cron, days_cron)),
        2 => (format!("at {time} {days}"), cron(time_cron, days_cron)),
        3 => (format!("{time} {days}"), cron(time_cron, days_cron)),
        4 => (format!("run {days} at {time}"), cron(time_cron, days_cron)),
        5 => (
            format!("{days} at {time} please"),
            cron(time_cron, days_cron),
        ),
        6 => (format!("{interval} {days}"), cron(interval_cron, days_cron)),
        7 => (interval.to_owned(), cron(interval_cron, "* * *")),
        8 => {
            let part = rng.pick(&["morning", "afternoon", "evening", "night"]);
            (format!("every {part} at {time}"), cron(time_cron, "* * *"))
        }
        9 => (format!("at {time}"), cron(time_cron, "* * *")),
        10 => (
            format!("every 24 hours at {time}"),
            cron(time_cron, "* * *"),
        ),
        _ => {
            return Typed {
                text: days.to_owned(),
                meaning: cron("0 9", days_cron),
                has_time: false,
            };
        }
    };
    Typed {
        text,
        meaning,
        has_time: true,
    }
}

/// One letter more, one less, another one, or two exchanged.
fn misspell(rng: &mut Rng, text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let words: Vec<usize> = (0..letters.len())
        .filter(|at| letters[*at].is_ascii_alphabetic())
        .collect();
    let at = rng.pick(&words);
    let letter = char::from(b'a' + u8::try_from(rng.below(26)).expect("a letter"));
    match rng.below(4) {
        0 => letters.insert(at, letter),
        1 => drop(letters.remove(at)),
        2 => letters[at] = letter,
        _ if letters.get(at + 1).is_some_and(char::is_ascii_alphabetic) => letters.swap(at, at + 1),
        _ => letters[at] = letter,
    }
    letters.into_iter().collect()
}

/// The texts in backquotes of a hint that are schedules.
fn suggestions(hint: &str) -> Vec<(String, Schedule)> {
    hint.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|text| {
            let schedule = Schedule::parse(text, &Zone::UTC, Dst::default()).ok()?;
            Some((text.to_owned(), schedule))
        })
        .collect()
}

#[test]
fn what_is_spelled_correctly_is_understood_or_gets_a_hint_with_the_same_meaning() {
    let mut rng = Rng::new(20_261_116);
    let (mut understood, mut suggested) = (0, 0);
    for _ in 0..2_000 {
        let typed = typed(&mut rng);
        match Schedule::parse(&typed.text, &Zone::UTC, Dst::default()) {
            Ok(schedule) => {
                assert_eq!(schedule, typed.meaning, "{}", typed.text);
                understood += 1;
            }
            Err(error) => suggested += checked(&typed, &typed.text, &error.hint),
        }
    }
    assert!(
        understood > 500 && suggested > 250,
        "{understood} {suggested}"
    );
}

#[test]
fn a_misspelled_word_is_corrected_to_the_same_meaning_or_not_at_all() {
    let mut rng = Rng::new(7);
    let mut suggested = 0;
    for _ in 0..5_000 {
        let typed = typed(&mut rng);
        let text = misspell(&mut rng, &typed.text);
        // A word may become another one, which is then understood: there is no hint to judge.
        if let Err(error) = Schedule::parse(&text, &Zone::UTC, Dst::default()) {
            suggested += checked(&typed, &text, &error.hint);
        }
    }
    assert!(suggested > 1_000, "only {suggested} hints were judged");
}

/// Asserts that all suggestions of a hint agree with a meaning. Returns their number.
fn checked(typed: &Typed, text: &str, hint: &str) -> usize {
    let suggestions = suggestions(hint);
    for (suggestion, meaning) in &suggestions {
        assert_eq!(*meaning, typed.meaning, "{text}: {hint}");
        let own_time = !typed.has_time || !suggestion.contains("9:00") || text.contains("9:00");
        assert!(own_time, "{text}: {hint}");
    }
    suggestions.len()
}
