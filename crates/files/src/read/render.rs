//! Strings with templates. A reader with values renders them and validates the results; one
//! without values checks only how they are written, and collects their references.

use std::collections::BTreeMap;

use baton_core::workflow::params;
use baton_model::paths::{self, PLACEHOLDERS, PathValues};
use baton_model::task::{CommandLine, TaskSpec};

use super::{Item, Reader};
use crate::error::{Kind, Location, Problem, quote};
use crate::file::OutputFile;
use crate::instance::is_plain;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::template::{Reference, Scope, Template, Values};

/// The values that a reader renders templates with.
#[derive(Debug)]
pub(crate) struct Rendering {
    pub(crate) values: Values,
    /// The parameters as environment variables.
    pub(super) env: BTreeMap<String, String>,
    /// Bytes rendered so far.
    bytes: usize,
    bytes_max: usize,
}

/// A problem of a rendered value: its message and hint.
type Defect = (String, String);

impl Reader {
    /// A reader with values. `bytes_max` bounds all rendered values together.
    pub(crate) fn with_values(
        values: Values,
        mut problems: Vec<Problem>,
        bytes_max: usize,
    ) -> Self {
        let scope = match values.workflow {
            None => Scope::Task,
            Some(_) => Scope::Workflow,
        };
        let mut env = BTreeMap::new();
        for (name, value) in &values.params {
            let Some(value) = value else { continue };
            if let Some(reason) = argument_defect(value) {
                problems.push(Location::argument("params", name).problem(
                    Kind::BadValue,
                    format!("the value {reason}"),
                    "pass a shorter value, or put it into a file and pass the file name",
                ));
            }
            env.insert(params::variable(name), values.variable(name, value));
        }
        Self {
            problems,
            scope,
            rendering: Some(Rendering {
                values,
                env,
                bytes: 0,
                bytes_max,
            }),
            ..Self::default()
        }
    }

    /// Reads a string with templates: an argument, a path or a variable of a process. Without
    /// values it stays as it is written; beyond the byte limit nothing more is rendered.
    pub(super) fn template(&mut self, item: &Item<'_>, hint: &str) -> Option<String> {
        if self.is_full() {
            return None;
        }
        let text = self.scalar_text(item, hint)?;
        let template = Template::parse(&text, item, self.scope, &mut self.problems);
        let Some(rendering) = &mut self.rendering else {
            self.references.extend(template.references(item));
            return Some(text);
        };
        let value = template.render(item, &rendering.values, &mut self.problems);
        rendering.bytes += value.len();
        if let Some(reason) = argument_defect(&value) {
            let message = format!("the value {reason}");
            let hint = "put the value into a file and pass the file name";
            self.note(item, Kind::BadValue, message, hint);
        }
        Some(value)
    }

    /// Reads a string with templates. `defect` validates the rendered value, if rendering it has
    /// reported nothing.
    fn valid_template(
        &mut self,
        item: &Item<'_>,
        hint: &str,
        defect: impl FnOnce(&Values, &str) -> Option<Defect>,
    ) -> Option<String> {
        let before = self.problems.len();
        let value = self.template(item, hint)?;
        if let Some(rendering) = &self.rendering
            && self.problems.len() == before
            && let Some((message, hint)) = defect(&rendering.values, &value)
        {
            self.note(item, Kind::BadValue, message, hint);
        }
        Some(value)
    }

    /// Counts the variables of a process, and reports if the task or workflow is too large with it.
    pub(super) fn count_variables(&mut self, env: &BTreeMap<String, String>, process: &Location) {
        let Some(rendering) = &mut self.rendering else {
            return;
        };
        let bytes = env.iter().map(|(name, value)| name.len() + value.len());
        rendering.bytes += bytes.sum::<usize>();
        if rendering.bytes > rendering.bytes_max {
            let what = match rendering.values.workflow {
                None => "with this process, the task",
                Some(_) => "with this task, the workflow",
            };
            self.problems.push(process.problem(
                Kind::TooLarge,
                format!("{what} exceeds {} bytes", rendering.bytes_max),
                "use fewer or shorter parameters, or move variables from the task `env` into the processes that need them",
            ));
        }
    }

    /// True if the byte limit is exceeded.
    pub(crate) fn is_full(&self) -> bool {
        let rendering = self.rendering.as_ref();
        rendering.is_some_and(|rendering| rendering.bytes > rendering.bytes_max)
    }

    /// Reports a command that is empty after rendering. `first` is its first word, `before` the
    /// number of problems before it was read.
    pub(super) fn check_command(&mut self, run: &CommandLine, first: &Item<'_>, before: usize) {
        let is_empty = match run {
            CommandLine::Shell(command) => command.trim().is_empty(),
            CommandLine::Exec(words) => words.first().is_none_or(String::is_empty),
        };
        let is_read = self.rendering.is_some() && !self.is_full();
        if is_empty && is_read && self.problems.len() == before {
            let message = "the command is empty".to_owned();
            self.note(first, Kind::BadValue, message, "write the program to run");
        }
    }

    /// Reads a port, which must be a number after rendering; 0 without values.
    pub(super) fn port(&mut self, item: &Item<'_>, hint: &str) -> Option<u16> {
        let before = (self.problems.len(), self.references.len());
        let text = self.template(item, hint)?;
        let Some(rendering) = &self.rendering else {
            let mut references = self.references[before.1..].iter().map(|it| &it.reference);
            let runtime = references.find(|it| matches!(it, Reference::Runtime(_)));
            if let Some(reference) = runtime {
                let message = format!("{reference} is known only at run time and cannot be a port");
                self.note(
                    item,
                    Kind::Template,
                    message,
                    "write the number, or a parameter",
                );
                return None;
            }
            return Some(0);
        };
        let port = text.parse().ok().filter(|port| *port > 0);
        if port.is_none() && self.problems.len() == before.0 {
            let hint = match rendering.values.workflow {
                None => {
                    "write a number from 1 to 65535, or a template such as \"{{ ports.http }}\""
                }
                Some(_) => "write a number from 1 to 65535",
            };
            let message = format!("{} is not a port", quote(&text));
            self.note(item, Kind::OutOfRange, message, hint);
        }
        port
    }

    /// Reads a path that becomes part of an HTTP request line, so it must not contain spaces or
    /// line breaks.
    pub(super) fn http_path(&mut self, item: &Item<'_>) -> Option<String> {
        self.valid_template(item, "write a path, such as /health", |values, path| {
            let sample = values.sample(path);
            let fits = |c: char| c.is_ascii_graphic();
            let is_path = sample.starts_with('/') && sample.chars().all(fits);
            (!is_path).then(|| {
                let hint = "start with a slash and percent-encode other characters as %XX";
                (
                    format!("{} is not a URL path", quote(path)),
                    hint.to_owned(),
                )
            })
        })
    }

    /// Reads the directory of a process, which is below that of its task unless it is absolute.
    pub(super) fn process_cwd(&mut self, item: &Item<'_>, task: Option<&str>) -> Option<String> {
        let cwd = self.valid_template(item, "write the path of a directory", |values, cwd| {
            (has_parent(&values.sample(cwd)) || cwd.is_empty()).then(|| {
                let hint = "write an absolute path, or one relative to the sandbox or the `cwd` of the task, without `..`";
                (format!("{} is not a directory", quote(cwd)), hint.to_owned())
            })
        })?;
        let rendering = self.rendering.as_ref();
        let is_absolute =
            rendering.is_some_and(|rendering| rendering.values.sample(&cwd).starts_with('/'));
        match task {
            Some(task) if !is_absolute => Some(format!("{task}/{cwd}")),
            _ => Some(cwd),
        }
    }

    /// Reads the directory of a task.
    pub(super) fn task_cwd(&mut self, item: &Item<'_>) -> Option<String> {
        self.valid_template(item, PATH_HINT, |values, cwd| {
            let sample = values.sample(cwd);
            let is_plain = sample.starts_with('/') && !has_parent(&sample);
            (!is_plain).then(|| {
                let hint = "write an absolute path without `..`; without `cwd` the task runs in an empty directory of its own";
                (format!("{} is not an absolute path", quote(cwd)), hint.to_owned())
            })
        })
    }

    /// Reads a file of the output of `task`.
    pub(super) fn output(&mut self, item: &Item<'_>, task: &TaskSpec) -> Option<OutputFile> {
        let path = self.template(item, PATH_HINT)?;
        if self.rendering.is_some()
            && let Some((message, hint)) = output_defect(&path, task)
        {
            self.note(item, Kind::BadValue, message, hint);
        }
        Some(OutputFile {
            path,
            location: item.location(),
        })
    }
}

const PATH_HINT: &str = "write a path";

/// Returns why the output of a task cannot go to a file, if it cannot.
fn output_defect(path: &str, task: &TaskSpec) -> Option<Defect> {
    if path.is_empty() {
        let hint = "write the path of a file";
        Some(("the path is empty".to_owned(), hint.to_owned()))
    } else if let Err(unknown) = paths::expand(path, &PathValues::SAMPLE) {
        let known = PLACEHOLDERS.map(|(letter, meaning)| format!("%{letter} {meaning}"));
        Some((
            format!("{} is no placeholder", quote(&unknown)),
            format!("the placeholders are: {}", known.join(", ")),
        ))
    } else if !is_plain(task) {
        let hint = "use `run` without `ports`, `max_failures` and `finalization_wait`, or redirect it in the commands of the processes: > FILE";
        let message = "only the output of a single command can go to a file";
        Some((message.to_owned(), hint.to_owned()))
    } else {
        None
    }
}

fn has_parent(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Returns why `execve` would reject a string, if it would.
fn argument_defect(text: &str) -> Option<String> {
    if text.contains('\0') {
        Some("contains a NUL byte, which cannot be passed to a program".to_owned())
    } else if text.len() >= ARGUMENT_BYTES_MAX {
        Some(format!(
            "is longer than {ARGUMENT_BYTES_MAX} bytes, the limit for one argument or variable"
        ))
    } else {
        None
    }
}
