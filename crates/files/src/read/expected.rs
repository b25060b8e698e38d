//! When work is late, and how long it is expected to run.

use baton_core::clock::Zone;
use baton_model::alarm::{Deadline, Expectations, TimeOfDay};
use baton_model::library::Trigger;

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::schema::Zero;
use crate::schema::task::RUN_TIME;
use crate::tree::Value;
use crate::units;

const HINT: &str = "write a duration such as 2h, or a time of day such as \"06:30 Europe/Berlin\"";

impl Reader {
    /// Reads the `expected` of a task or workflow.
    pub(super) fn expected(&mut self, fields: &Fields<'_>) -> Expectations {
        let Some(item) = fields.get("expected") else {
            return Expectations::default();
        };
        if matches!(item.tree.value, Value::String(_)) {
            return self.learned(&item);
        }
        let inner = self.fields(&item, &RUN_TIME, |_| None);
        let Some(inner) = inner else {
            return Expectations::default();
        };
        let (min, max) = (
            self.duration_field(&inner, "min"),
            self.duration_field(&inner, "max"),
        );
        if let (Some(least), Some(most)) = (min, max)
            && least > most
        {
            let message = format!("`min` ({least}) is longer than `max` ({most})");
            self.note(&item, Kind::Conflict, message, "exchange them");
        }
        Expectations {
            deadline: None,
            min,
            max,
            learned: false,
        }
    }

    /// Reads the one word that may stand for the run times.
    fn learned(&mut self, item: &Item<'_>) -> Expectations {
        const HINT: &str = "write `learned`, or run times such as { min: 30s, max: 40m }";
        let text = self.text(item, HINT);
        if let Some(text) = text.filter(|it| *it != "learned") {
            let message = format!("{} is no expectation", quote(text));
            self.note(item, Kind::BadValue, message, HINT);
        }
        Expectations {
            learned: text == Some("learned"),
            ..Expectations::default()
        }
    }

    /// Reads the `deadline` of a task or workflow. A time of day is in the zone of the schedule.
    pub(super) fn deadline(&mut self, fields: &Fields<'_>, trigger: &Trigger) -> Option<Deadline> {
        let item = fields.get("deadline")?;
        let text = self.text(&item, HINT)?;
        let Some((clock, zone)) = time_of_day(text) else {
            let after = units::duration(text).ok();
            if after.is_none() {
                let message = format!("{} is neither a duration nor a time of day", quote(text));
                self.note(&item, Kind::BadValue, message, HINT);
            }
            let after = self.not_zero(&item, after?, Zero::Refused)?;
            return Some(Deadline::After(after));
        };
        let Some(minute) = minute(clock) else {
            let message = format!("{} is no time of day", quote(clock));
            self.note(&item, Kind::BadValue, message, HINT);
            return None;
        };
        let schedule = trigger.schedule.as_ref();
        let zone = zone.or_else(|| schedule.map(|it| it.zone.as_str()));
        let zone = self.named_zone(&item, zone.unwrap_or("UTC"))?;
        Some(Deadline::Daily(TimeOfDay {
            minute,
            zone: zone.name().to_owned(),
        }))
    }

    fn named_zone(&mut self, item: &Item<'_>, name: &str) -> Option<Zone> {
        let zone = Zone::named(name);
        self.clock(item, zone)
    }
}

/// The time and the zone of a text that has a colon.
fn time_of_day(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim();
    let (clock, zone) = match text.split_once(char::is_whitespace) {
        Some((clock, zone)) => (clock, Some(zone.trim())),
        None => (text, None),
    };
    clock.contains(':').then_some((clock, zone))
}

/// Minutes since midnight.
fn minute(clock: &str) -> Option<u16> {
    let (hour, minute) = clock.split_once(':')?;
    let is_number = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    if !(1..=2).contains(&hour.len()) || minute.len() != 2 || !is_number(hour) || !is_number(minute)
    {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, parse_bytes, parse_workflow};

    fn deadline(text: &str) -> Result<Option<Deadline>, String> {
        let text = format!("task: t\nrun: x\n{text}");
        let file =
            parse_bytes(text.as_bytes(), Format::Yaml, "t.yaml").map_err(|it| it.to_string())?;
        Ok(file.policy.expected.deadline)
    }

    #[test]
    fn deadlines_are_durations_or_times_of_day() {
        use baton_model::time::Millis;
        let daily = |minute, zone: &str| {
            let zone = zone.to_owned();
            Ok(Some(Deadline::Daily(TimeOfDay { minute, zone })))
        };
        assert_eq!(
            deadline("deadline: 90m"),
            Ok(Some(Deadline::After(Millis::from_secs(5_400))))
        );
        assert_eq!(deadline("deadline: \"6:30\""), daily(390, "UTC"));
        assert_eq!(
            deadline("deadline: \"06:30 europe/berlin\""),
            daily(390, "Europe/Berlin")
        );
        let scheduled =
            "trigger: { schedule: \"0 4 * * *\", timezone: Asia/Tokyo }\ndeadline: \"23:59\"";
        assert_eq!(deadline(scheduled), daily(1_439, "Asia/Tokyo"));
    }

    #[test]
    fn wrong_expectations_are_refused_with_a_hint() {
        for (text, message) in [
            ("deadline: soon", "neither a duration nor a time of day"),
            ("deadline: \"24:00\"", "is no time of day"),
            ("deadline: \"06:30 Europe/Berlni\"", "unknown time zone"),
            ("deadline: 0s", "the duration is zero"),
            ("expected: { min: 2h, max: 1h }", "is longer than `max`"),
            ("expected: { least: 1h }", "least"),
            ("expected: leraned", "is no expectation"),
        ] {
            let error = deadline(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
        let misplaced = "workflow: w\ntasks: { a: { run: x, deadline: 1h } }";
        let error = parse_workflow(misplaced, Format::Yaml, "w.yaml").expect_err("misplaced");
        assert!(error.to_string().contains("top level"), "{error}");
    }

    #[test]
    fn run_times_may_be_learned() {
        let file = "task: t\nrun: x\nexpected: learned\ndeadline: 2h";
        let file = parse_bytes(file.as_bytes(), Format::Yaml, "t.yaml").expect("valid");
        let expected = &file.policy.expected;
        assert!(expected.learned && expected.deadline.is_some());
        assert_eq!((expected.min, expected.max), (None, None));
    }

    #[test]
    fn a_workflow_and_its_tasks_have_expectations() {
        let text = "workflow: w\ndeadline: 2h\nexpected: { max: 1h }\ntasks: { a: { run: x, expected: { min: 1s } } }";
        let file = parse_workflow(text, Format::Yaml, "w.yaml").expect("valid");
        let plan = file
            .plan(
                &std::collections::BTreeMap::new(),
                baton_model::time::Wall(0),
            )
            .expect("a plan");
        assert!(plan.expected.deadline.is_some() && plan.expected.max.is_some());
        assert!(plan.tasks[0].spec.expected.min.is_some());
    }
}
