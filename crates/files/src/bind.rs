//! Renders the templates of a task and validates the results.

use std::collections::BTreeMap;

use baton_core::workflow::params;
use baton_model::paths::{self, PLACEHOLDERS, PathValues};
use baton_model::task::{
    Check, CommandLine, Dependency, Probe, ProcessName, ProcessSpec, TaskSpec,
};

use crate::binding::argument_location;
use crate::error::{Kind, Problem, quote};
use crate::file::{BoundTask, TaskBody, UnboundCheck, UnboundProbe, UnboundProcess, UnboundRun};
use crate::instance::is_plain;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::template::{Text, Values};

/// Renders templates and validates the results.
pub(crate) struct Binder<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) problems: Vec<Problem>,
    /// Bytes rendered so far.
    bytes: usize,
    bytes_max: usize,
}

impl<'a> Binder<'a> {
    /// `bytes_max` bounds all rendered values together.
    pub(crate) fn new(values: Values<'a>, problems: Vec<Problem>, bytes_max: usize) -> Self {
        Self {
            values,
            problems,
            bytes: 0,
            bytes_max,
        }
    }

    /// The parameters as environment variables.
    pub(crate) fn param_env(&mut self) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (name, value) in self.values.params {
            let Some(value) = value else { continue };
            if let Some(reason) = argument_defect(value) {
                self.problems
                    .push(argument_location("params", name).problem(
                        Kind::BadValue,
                        format!("the value {reason}"),
                        "pass a shorter value, or put it into a file and pass the file name",
                    ));
            }
            env.insert(params::variable(name), self.values.variable(name, value));
        }
        env
    }

    /// Binds a whole task. Every process gets `param_env`; the `env` of task and process override it.
    pub(crate) fn body(
        &mut self,
        body: &TaskBody,
        param_env: &BTreeMap<String, String>,
    ) -> BoundTask {
        let mut env = param_env.clone();
        for (name, text) in &body.env {
            let value = self.argument(text);
            env.insert(name.clone(), value);
        }
        let cwd = body.cwd.as_ref().map(|text| self.task_cwd(text));
        let mut processes = Vec::with_capacity(body.processes.len());
        for process in &body.processes {
            processes.push(self.process(process, &env, cwd.as_deref()));
            if self.is_full() {
                let what = match self.values.workflow {
                    None => "with this process, the task",
                    Some(_) => "with this task, the workflow",
                };
                self.problems.push(process.name_location.problem(
                    Kind::TooLarge,
                    format!("{what} exceeds {} bytes", self.bytes_max),
                    "use fewer or shorter parameters, or move variables from the task `env` into the processes that need them",
                ));
                break;
            }
        }
        let spec = TaskSpec {
            processes,
            ports: self.values.ports.clone(),
            ..body.spec.clone()
        };
        BoundTask {
            stdout: body.stdout.as_ref().map(|text| self.output(text, &spec)),
            stderr: body.stderr.as_ref().map(|text| self.output(text, &spec)),
            spec,
        }
    }

    /// True if the byte limit is exceeded.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    fn process(
        &mut self,
        process: &UnboundProcess,
        task_env: &BTreeMap<String, String>,
        task_cwd: Option<&str>,
    ) -> ProcessSpec {
        let mut env = task_env.clone();
        for (name, text) in &process.env {
            let value = self.argument(text);
            env.insert(name.clone(), value);
        }
        self.bytes += env.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        ProcessSpec {
            run: self.run(&process.run),
            after: process
                .after
                .iter()
                .map(|dependency| Dependency {
                    process: ProcessName(dependency.process.clone()),
                    condition: dependency.condition,
                })
                .collect(),
            ready: process.ready.as_ref().map(|check| self.check(check)),
            health: process.health.as_ref().map(|check| self.check(check)),
            env,
            cwd: self.cwd(process.cwd.as_ref(), task_cwd),
            ..process.spec.clone()
        }
    }

    /// Renders an argument, path or variable of a process.
    fn argument(&mut self, text: &Text) -> String {
        let value = text.render(&self.values, &mut self.problems);
        self.bytes += value.len();
        if let Some(reason) = argument_defect(&value) {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("the value {reason}"),
                "put the value into a file and pass the file name",
            ));
        }
        value
    }

    fn run(&mut self, run: &UnboundRun) -> CommandLine {
        let before = self.problems.len();
        let (bound, first) = match run {
            UnboundRun::Shell(text) => (CommandLine::Shell(self.argument(text)), Some(text)),
            UnboundRun::Exec(words) => (
                CommandLine::Exec(words.iter().map(|word| self.argument(word)).collect()),
                words.first(),
            ),
        };
        let empty = match &bound {
            CommandLine::Shell(command) => command.trim().is_empty(),
            CommandLine::Exec(words) => words.first().is_none_or(String::is_empty),
        };
        if let Some(first) = first
            && empty
            && self.problems.len() == before
        {
            self.problems.push(first.location.problem(
                Kind::BadValue,
                "the command is empty".to_owned(),
                "write the program to run",
            ));
        }
        bound
    }

    fn check(&mut self, check: &UnboundCheck) -> Check {
        let probe = match &check.probe {
            UnboundProbe::Command(run) => Probe::Command(self.run(run)),
            UnboundProbe::Http { port, path } => Probe::Http {
                port: self.port(port),
                path: self.http_path(path),
            },
            UnboundProbe::Tcp { port } => Probe::Tcp {
                port: self.port(port),
            },
        };
        Check {
            probe,
            delay: check.delay,
            interval: check.interval,
            timeout: check.timeout,
            successes_min: check.successes_min,
            failures_max: check.failures_max,
        }
    }

    fn port(&mut self, text: &Text) -> u16 {
        let before = self.problems.len();
        let value = text.render(&self.values, &mut self.problems);
        let port = value.parse().ok().filter(|port| *port > 0);
        if port.is_none() && self.problems.len() == before {
            self.problems.push(text.location.problem(
                Kind::OutOfRange,
                format!("{} is not a port", quote(&value)),
                match self.values.workflow {
                    None => {
                        "write a number from 1 to 65535, or a template such as \"{{ ports.http }}\""
                    }
                    Some(_) => "write a number from 1 to 65535",
                },
            ));
        }
        port.unwrap_or_default()
    }

    /// The path becomes part of an HTTP request line, so it must not contain spaces or line breaks.
    fn http_path(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let path = self.argument(text);
        let sample = self.values.sample(&path);
        let fits = |c: char| c.is_ascii_graphic();
        if self.problems.len() == before && !(sample.starts_with('/') && sample.chars().all(fits)) {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("{} is not a URL path", quote(&path)),
                "start with a slash and percent-encode other characters as %XX",
            ));
        }
        path
    }

    /// The directory of a process: its own, below that of its task unless it is absolute.
    fn cwd(&mut self, text: Option<&Text>, task: Option<&str>) -> Option<String> {
        let Some(text) = text else {
            return task.map(str::to_owned);
        };
        let before = self.problems.len();
        let cwd = self.argument(text);
        let sample = self.values.sample(&cwd);
        if self.problems.len() == before && (has_parent(&sample) || cwd.is_empty()) {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("{} is not a directory", quote(&cwd)),
                "write an absolute path, or one relative to the sandbox or the `cwd` of the task, without `..`",
            ));
        }
        match task {
            Some(task) if !sample.starts_with('/') => Some(format!("{task}/{cwd}")),
            _ => Some(cwd),
        }
    }

    /// The directory of a task.
    fn task_cwd(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let cwd = self.argument(text);
        let sample = self.values.sample(&cwd);
        let is_plain = sample.starts_with('/') && !has_parent(&sample);
        if self.problems.len() == before && !is_plain {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("{} is not an absolute path", quote(&cwd)),
                "write an absolute path without `..`; without `cwd` the task runs in an empty directory of its own",
            ));
        }
        cwd
    }

    /// A file of the task's output.
    fn output(&mut self, text: &Text, task: &TaskSpec) -> String {
        let path = self.argument(text);
        let mut refuse = |message: String, hint: &str| {
            self.problems
                .push(text.location.problem(Kind::BadValue, message, hint));
        };
        if path.is_empty() {
            refuse("the path is empty".to_owned(), "write the path of a file");
        } else if let Err(unknown) = paths::expand(&path, &PathValues::SAMPLE) {
            let known = PLACEHOLDERS.map(|(letter, meaning)| format!("%{letter} {meaning}"));
            refuse(
                format!("{} is no placeholder", quote(&unknown)),
                &format!("the placeholders are: {}", known.join(", ")),
            );
        } else if !is_plain(task) {
            refuse(
                "only the output of a single command can go to a file".to_owned(),
                "use `run` without `ports`, `max_failures` and `finalization_wait`, or redirect it in the commands of the processes: > FILE",
            );
        }
        path
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
