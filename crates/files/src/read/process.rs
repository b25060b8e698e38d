//! One process.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::task::{
    CommandLine, Condition, Dependency, LogMode, Logger, ProcessName, ProcessSpec, Stop,
};

use super::{Fields, Item, Reader};
use crate::error::{Kind, Location, quote};
use crate::graph::LocatedProcess;
use crate::schema::process::{DEPENDENCY, HEALTH, LOG, PROCESS, READY, SIGNALS, STOP};
use crate::suggest;
use crate::tree::Value;

/// The signal that no program can handle.
const KILL: i32 = 9;
/// The signal that stops a process by default.
const TERM: i32 = 15;
/// From SIGRTMIN to SIGRTMAX.
const REAL_TIME_SIGNALS: std::ops::RangeInclusive<i32> = 34..=64;

/// The defaults of Thermos: 100 MiB, five backups.
const ROTATE_BYTES: u64 = 100 << 20;
const ROTATE_BACKUPS: u32 = 5;

const RUN_HINT: &str =
    "write a shell command, such as \"make test\", or a list, such as [\"make\", \"test\"]";

/// The variables and the directory that the processes of a task inherit from it.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
}

impl Reader {
    /// `misplaced` returns a hint for a field that belongs elsewhere.
    pub(super) fn process(
        &mut self,
        item: &Item<'_>,
        inherited: &Inherited,
        misplaced: impl Fn(&str) -> Option<String>,
    ) -> Option<LocatedProcess> {
        let fields = self.fields(item, &PROCESS, misplaced)?;
        let mut spec = inherited.process("", CommandLine::Exec(Vec::new()));
        let mut name_location = item.location();
        match fields.get("name") {
            Some(item) => {
                name_location = item.location();
                // Other processes may refer to an invalid name, too.
                let name = self.name(&item).unwrap_or_else(|| raw_text(&item));
                spec.name = ProcessName(name);
            }
            None => self.missing(&fields, "name", "add `name: NAME`"),
        }
        self.policies(&fields, &mut spec);
        self.host_settings(&fields, &mut spec);
        match fields.get("run") {
            Some(item) => spec.run = self.run(&item).unwrap_or(spec.run),
            None => self.missing(&fields, "run", RUN_HINT),
        }
        let after = fields.get("after");
        let after = after.map_or_else(Vec::new, |item| self.after(&item));
        let after_locations;
        (spec.after, after_locations) = after.into_iter().unzip();
        let mut check = |name, table| self.check(&fields.get(name)?, table);
        spec.ready = check("ready", &READY);
        spec.health = check("health", &HEALTH);
        if let Some(item) = fields.get("env") {
            spec.env.extend(self.env(&item));
        }
        if let Some(item) = fields.get("cwd") {
            spec.cwd = self.process_cwd(&item, inherited.cwd.as_deref());
        }
        self.count_variables(&spec.env, &name_location);
        Some(LocatedProcess {
            spec,
            name_location,
            after_locations,
        })
    }

    fn policies(&mut self, fields: &Fields<'_>, spec: &mut ProcessSpec) {
        let mut flag = |name| self.bool_field(fields, name).unwrap_or_default();
        spec.daemon = flag("daemon");
        spec.ephemeral = flag("ephemeral");
        spec.is_final = flag("final");
        spec.max_failures = self
            .integer_field(fields, "max_failures")
            .unwrap_or_default();
        spec.min_duration = self
            .duration_field(fields, "min_duration")
            .unwrap_or_default();
        spec.backoff = fields.get("backoff").and_then(|item| self.backoff(&item));
        spec.timeout = self.duration_field(fields, "timeout");
        spec.retryable = fields.get("retryable").map(|item| self.exit_codes(&item));
        spec.on_kill = self.word_field(fields, "on_kill").unwrap_or_default();
        if let Some(stop) = fields.get("stop").and_then(|item| self.stop(&item)) {
            spec.stop = stop;
        }
    }

    fn host_settings(&mut self, fields: &Fields<'_>, spec: &mut ProcessSpec) {
        spec.user = fields.get("user").and_then(|item| self.user(&item));
        spec.umask = fields.get("umask").and_then(|item| self.umask(&item));
        spec.nice = self.integer_field(fields, "nice");
        spec.oom_score = self.integer_field(fields, "oom_score");
        if let Some(item) = fields.get("rlimits") {
            spec.rlimits = self.rlimits(&item);
        }
        spec.logger = fields.get("log").and_then(|item| self.log(&item));
    }

    pub(super) fn run(&mut self, item: &Item<'_>) -> Option<CommandLine> {
        let before = self.problems.len();
        let is_empty = match &item.tree.value {
            Value::String(text) => text.trim().is_empty(),
            Value::List(words) => words.is_empty(),
            _ => {
                self.wrong_type(item, "a command", RUN_HINT);
                return None;
            }
        };
        if is_empty {
            let message = "the command is empty".to_owned();
            self.note(item, Kind::BadValue, message, RUN_HINT);
            return None;
        }
        let (run, first) = if matches!(item.tree.value, Value::List(_)) {
            let items = self.list(item, RUN_HINT);
            let words = items.iter();
            let words =
                words.filter_map(|word| self.template(word, "write each argument as a string"));
            (CommandLine::Exec(words.collect()), items[0].clone())
        } else {
            let command = self.template(item, RUN_HINT)?;
            (CommandLine::Shell(command), item.clone())
        };
        self.check_command(&run, &first, before);
        Some(run)
    }

    fn after(&mut self, item: &Item<'_>) -> Vec<(Dependency, Location)> {
        let hint = "write a list, such as [fetch, { process: db, condition: healthy }]";
        let mut after = Vec::new();
        let mut seen = BTreeSet::new();
        for item in self.list(item, hint) {
            let Some((dependency, location)) = self.dependency(&item) else {
                continue;
            };
            if !seen.insert((dependency.process.clone(), dependency.condition)) {
                let message = format!("{} is listed twice", quote(&dependency.process.0));
                self.note(&item, Kind::DuplicateName, message, "remove one of the two");
                continue;
            }
            after.push((dependency, location));
        }
        after
    }

    fn dependency(&mut self, item: &Item<'_>) -> Option<(Dependency, Location)> {
        let hint = "write the name of a process, or { process: NAME, condition: exit }";
        let (name, condition) = match &item.tree.value {
            Value::Map(_) => {
                let fields = self.fields(item, &DEPENDENCY, |_| None)?;
                let condition = self.word_field(&fields, "condition")?;
                let Some(name) = fields.get("process") else {
                    self.missing(&fields, "process", hint);
                    return None;
                };
                (name, condition)
            }
            _ => (item.clone(), Condition::Success),
        };
        let process = ProcessName(self.text(&name, hint)?.to_owned());
        Some((Dependency { process, condition }, name.location()))
    }

    /// Reads the environment variables of a process or a task.
    pub(super) fn env(&mut self, item: &Item<'_>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let hint = "write variables, such as { LANG: C.UTF-8 }";
        for (name, value, position) in self.entries(item, hint) {
            let fits = |c: char| !(c == '=' || c == '\0' || c.is_whitespace());
            if name.is_empty() || !name.chars().all(fits) {
                let mut problem = value.problem(
                    Kind::BadName,
                    format!("{} is not a valid variable name", quote(name)),
                    "use a name without spaces and `=`, such as LANG",
                );
                problem.position = position;
                self.problems.push(problem);
                continue;
            }
            if let Some(text) = self.template(&value, "write a string; use \"\" for an empty one") {
                env.insert(name.to_owned(), text);
            }
        }
        env
    }

    pub(super) fn user(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, "write the name of a user on the worker host")?;
        Some(text.to_owned())
    }

    fn umask(&mut self, item: &Item<'_>) -> Option<u32> {
        const HINT: &str = "write the octal number in quotes, such as \"022\"";
        let Value::String(text) = &item.tree.value else {
            self.wrong_type(item, "an octal string", HINT);
            return None;
        };
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let octal = digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let mask = u32::from_str_radix(digits, 8).ok().filter(|_| octal);
        match mask {
            Some(mask) if mask <= 0o777 => Some(mask),
            Some(_) => {
                let message = format!("{} is more than 777", quote(text));
                self.note(item, Kind::OutOfRange, message, HINT);
                None
            }
            None => {
                let message = format!("{} is not an octal number", quote(text));
                self.note(item, Kind::BadValue, message, HINT);
                None
            }
        }
    }

    fn exit_codes(&mut self, item: &Item<'_>) -> Vec<i32> {
        let mut codes: Vec<i32> = self
            .list(item, "write a list of exit codes, such as [1, 75]")
            .iter()
            .filter_map(|item| self.integer(item, 1, 255))
            .filter_map(|code| i32::try_from(code).ok())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    fn stop(&mut self, item: &Item<'_>) -> Option<Stop> {
        let fields = self.fields(item, &STOP, |_| None)?;
        let signal = fields.get("signal").and_then(|item| self.signal(&item));
        Some(Stop {
            signal: signal.unwrap_or(TERM),
            grace: self.duration_field(&fields, "grace").unwrap_or_default(),
        })
    }

    /// The signal of a warning without one: USR1.
    pub(super) const WARNING_SIGNAL: i32 = 10;

    /// A signal that a program can handle.
    pub(super) fn catchable_signal(&mut self, item: &Item<'_>) -> Option<i32> {
        let signal = self.signal(item)?;
        if signal == KILL {
            let message = "no program can handle KILL".to_owned();
            self.note(
                item,
                Kind::BadValue,
                message,
                "write another signal, such as USR1",
            );
            return None;
        }
        Some(signal)
    }

    fn signal(&mut self, item: &Item<'_>) -> Option<i32> {
        let names = || SIGNALS.iter().map(|(name, _)| *name);
        let (signal, text) = match &item.tree.value {
            Value::String(text) => {
                let name = text.strip_prefix("SIG").unwrap_or(text);
                let known = SIGNALS.iter().find(|(known, _)| *known == name);
                (known.map(|(_, number)| *number), text)
            }
            Value::Number(text) => {
                let known = |number: &i32| {
                    SIGNALS.iter().any(|(_, known)| known == number)
                        || REAL_TIME_SIGNALS.contains(number)
                };
                (text.parse().ok().filter(known), text)
            }
            _ => {
                let hint = format!("write one of: {}", suggest::list(names()));
                self.wrong_type(item, "a signal", &hint);
                return None;
            }
        };
        if signal.is_none() {
            let message = format!("{} is not a signal that can stop a process", quote(text));
            let hint = suggest::hint(
                self.problems.len(),
                text,
                names(),
                "write a number or one of:",
            );
            self.note(item, Kind::BadValue, message, hint);
        }
        signal
    }

    fn log(&mut self, item: &Item<'_>) -> Option<Logger> {
        let fields = self.fields(item, &LOG, |_| None)?;
        let destination = self.word_field(&fields, "destination").unwrap_or_default();
        let mode: Option<String> = self.word_field(&fields, "mode");
        let rotates = mode.map(|mode| mode == "rotate");
        let size = fields.get("size").and_then(|item| self.log_size(&item));
        let backups = self.integer_field(&fields, "backups");
        if rotates == Some(false) {
            for name in ["size", "backups"]
                .into_iter()
                .filter(|name| fields.has(name))
            {
                self.problems.push(fields.key_problem(
                    name,
                    Kind::Conflict,
                    format!("`{name}` has no effect without log rotation"),
                    "add `mode: rotate`, or remove it",
                ));
            }
        }
        let mode = if rotates == Some(true) {
            LogMode::Rotate {
                size: size.unwrap_or(ROTATE_BYTES),
                backups: backups.unwrap_or(ROTATE_BACKUPS),
            }
        } else {
            LogMode::Standard
        };
        Some(Logger { destination, mode })
    }

    fn log_size(&mut self, item: &Item<'_>) -> Option<u64> {
        let size = self.size(item)?;
        if size == 0 {
            let message = "the log size is zero".to_owned();
            self.note(
                item,
                Kind::OutOfRange,
                message,
                "write a size such as 100MiB",
            );
            return None;
        }
        Some(size)
    }
}

impl Inherited {
    /// A process with these variables and this directory.
    pub(super) fn process(&self, name: &str, run: CommandLine) -> ProcessSpec {
        ProcessSpec {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            ..ProcessSpec::new(name, run)
        }
    }
}

fn raw_text(item: &Item<'_>) -> String {
    match &item.tree.value {
        Value::String(text) | Value::Number(text) => text.clone(),
        _ => String::new(),
    }
}
