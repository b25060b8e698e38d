//! Triggers: schedule, upstream tasks, remote starts, and launch limits.
//!
//! A schedule is validated here and stored as text; later parsing of the text cannot fail.

use std::collections::BTreeSet;

use baton_core::clock::{self, Dst, ScheduleError, Zone};
use baton_model::library::{Overlap, Rate, Schedule, TaskName, Trigger};
use baton_model::limits::AFTER_MAX;

use super::scalars::hash;
use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::name::bad_name;
use crate::schema::task::TRIGGER;
use crate::tree::Value;
use crate::units;

/// Fields that have no effect without a schedule.
const SCHEDULE_ONLY: &[&str] = &["timezone", "slack", "catch_up", "jitter", "gap", "fold"];

const SECRET_HINT: &str = "a file never contains the secret itself: write `secret_sha256` with the output of \
                           `printf %s \"$SECRET\" | sha256sum`";
const HASH_HINT: &str = "write the 64 hexadecimal digits that `printf %s \"$SECRET\" | \
                         sha256sum` prints, in quotes";
const AFTER_HINT: &str =
    "write NAME for a task or workflow of the same owner, OWNER/NAME, or a list of them";

impl Reader {
    /// `owner` and `name` are those of the task or workflow itself.
    pub(super) fn trigger(
        &mut self,
        item: &Item<'_>,
        owner: &str,
        name: Option<&str>,
    ) -> Option<Trigger> {
        let fields = self.fields(item, &TRIGGER, |key| {
            (key == "secret").then(|| SECRET_HINT.to_owned())
        })?;
        let schedule = self.schedule(&fields);
        let get = |name| fields.get(name);
        let trigger = Trigger {
            schedule,
            max_instances: self.integer_field(&fields, "max_instances"),
            overlap: self.word_field(&fields, "overlap").unwrap_or_default(),
            launch_rate: get("launch_rate").and_then(|item| self.launch_rate(&item)),
            remote: get("remote").is_some_and(|item| {
                // Treat an invalid value, which is already reported, as true.
                self.boolean(&item).unwrap_or(true)
            }),
            secret_sha256: get("secret_sha256").and_then(|item| self.secret_hash(&item)),
            after: match get("after") {
                Some(item) => self.after_tasks(&item, owner, name),
                None => Vec::new(),
            },
        };
        if fields.has("secret_sha256") && !trigger.remote {
            self.problems.push(fields.key_problem(
                "secret_sha256",
                Kind::Conflict,
                "`secret_sha256` has no effect: it cannot be triggered over HTTP".to_owned(),
                "add `remote: true`, or remove it",
            ));
        }
        if trigger.overlap != Overlap::Skip && !fields.has("max_instances") {
            self.problems.push(fields.key_problem(
                "overlap",
                Kind::Conflict,
                "`overlap` has no effect without `max_instances`".to_owned(),
                "add `max_instances: 1`, or remove it",
            ));
        }
        Some(trigger)
    }

    fn schedule(&mut self, fields: &Fields<'_>) -> Option<Schedule> {
        let dst = Dst {
            gap: self.word_field(fields, "gap").unwrap_or_default(),
            fold: self.word_field(fields, "fold").unwrap_or_default(),
        };
        let mut span = |name| self.duration_field(fields, name).unwrap_or_default();
        let (slack, jitter) = (span("slack"), span("jitter"));
        let catch_up = self.word_field(fields, "catch_up").unwrap_or_default();
        // Check the schedule even if the zone is invalid, so that both are reported.
        let zone = match fields.get("timezone") {
            Some(item) => self.zone(&item).unwrap_or(Zone::UTC),
            None => Zone::UTC,
        };
        let Some(item) = fields.get("schedule") else {
            self.needs_schedule(fields);
            return None;
        };
        let hint =
            "write it in English, such as \"every monday at 12:00\", or as a cron expression";
        let text = self.text(&item, hint)?;
        let parsed = clock::Schedule::parse(text, &zone, dst);
        self.clock(&item, parsed)?;
        Some(Schedule {
            text: text.to_owned(),
            zone: zone.name().to_owned(),
            dst,
            slack,
            catch_up,
            jitter,
        })
    }

    fn needs_schedule(&mut self, fields: &Fields<'_>) {
        for name in SCHEDULE_ONLY {
            if fields.has(name) {
                self.problems.push(fields.key_problem(
                    name,
                    Kind::Conflict,
                    format!("`{name}` has no effect without a schedule"),
                    "add `schedule`, or remove it",
                ));
            }
        }
    }

    fn zone(&mut self, item: &Item<'_>) -> Option<Zone> {
        let hint = "write the name of a time zone, such as Europe/Berlin";
        let name = self.text(item, hint)?;
        let zone = Zone::named(name);
        self.clock(item, zone)
    }

    /// Reports an error of the schedule parser.
    pub(super) fn clock<T>(
        &mut self,
        item: &Item<'_>,
        parsed: Result<T, ScheduleError>,
    ) -> Option<T> {
        parsed
            .map_err(|error| self.note(item, Kind::BadValue, error.message, error.hint))
            .ok()
    }

    fn launch_rate(&mut self, item: &Item<'_>) -> Option<Rate> {
        let text = self.text(item, units::RATE_HINT)?;
        match units::rate(text) {
            Ok(rate) => Some(rate),
            Err(error) => {
                self.note(item, error.kind, error.message, &error.hint);
                None
            }
        }
    }

    /// Errors never repeat the value: it may be the secret itself.
    fn secret_hash(&mut self, item: &Item<'_>) -> Option<String> {
        let Value::String(text) = &item.tree.value else {
            self.wrong_type(item, "a string", HASH_HINT);
            return None;
        };
        let sum = hash(text);
        if sum.is_none() {
            let message = "the value is not a SHA-256 hash".to_owned();
            self.note(item, Kind::BadValue, message, HASH_HINT);
        }
        sum
    }

    /// Reads one task or a non-empty list.
    fn after_tasks(&mut self, item: &Item<'_>, owner: &str, name: Option<&str>) -> Vec<TaskName> {
        let items = match item.tree.value {
            Value::List(_) => self.list(item, AFTER_HINT),
            _ => vec![item.clone()],
        };
        if items.is_empty() {
            let message = "the list of tasks is empty".to_owned();
            self.note(item, Kind::BadValue, message, AFTER_HINT);
        }
        if items.len() > AFTER_MAX {
            let message = format!(
                "{} tasks are listed, at most {AFTER_MAX} are allowed",
                items.len()
            );
            let hint = "add an intermediate task that runs after some of them";
            self.note(item, Kind::TooLarge, message, hint);
            return Vec::new();
        }
        let mut known = BTreeSet::new();
        let mut tasks = Vec::with_capacity(items.len());
        for item in &items {
            let Some(task) = self.task_name(item, owner) else {
                continue;
            };
            if task.owner == owner && name == Some(&*task.name) {
                let message = "it would trigger itself in an endless loop".to_owned();
                let hint = "use another task, or a schedule such as \"every 5 minutes\"";
                self.note(item, Kind::Cycle, message, hint);
            } else if !known.insert(task.clone()) {
                let message = format!("{} is listed twice", quote(&task.to_string()));
                self.note(item, Kind::DuplicateName, message, "remove one of them");
            }
            tasks.push(task);
        }
        tasks
    }

    fn task_name(&mut self, item: &Item<'_>, owner: &str) -> Option<TaskName> {
        let text = self.text(item, AFTER_HINT)?;
        let (owner, name) = text.split_once('/').unwrap_or((owner, text));
        if let Some(reason) = bad_name(owner).or_else(|| bad_name(name)) {
            let message = format!("{} is not a valid task name: {reason}", quote(text));
            self.note(item, Kind::BadName, message, AFTER_HINT);
            return None;
        }
        Some(TaskName {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }
}
