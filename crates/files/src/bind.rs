//! Renders the templates of a task and validates the results.

use std::collections::BTreeMap;

use baton_model::task::{
    Check, CommandLine, Dependency, Probe, ProcessName, ProcessSpec, TaskSpec,
};

use crate::binding::argument_location;
use crate::error::{Kind, Problem, quote};
use crate::file::{
    TaskBody, UnboundCheck, UnboundProbe, UnboundProcess, UnboundRun, param_variable,
};
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
            if let Some(why) = argument_defect(value) {
                self.problems
                    .push(argument_location("params", name).problem(
                        Kind::BadValue,
                        format!("the value {why}"),
                        "pass a shorter value, or put it into a file and pass the file name",
                    ));
            }
            env.insert(param_variable(name), self.values.variable(name, value));
        }
        env
    }

    /// Binds a whole task. Every process gets `param_env`; the `env` of task and process override it.
    pub(crate) fn body(
        &mut self,
        body: &TaskBody,
        param_env: &BTreeMap<String, String>,
    ) -> TaskSpec {
        let mut env = param_env.clone();
        for (name, text) in &body.env {
            let value = self.argument(text);
            env.insert(name.clone(), value);
        }
        let mut processes = Vec::with_capacity(body.processes.len());
        for process in &body.processes {
            processes.push(self.process(process, &env));
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
        TaskSpec {
            processes,
            ports: self.values.ports.clone(),
            ..body.spec.clone()
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
            cwd: process.cwd.as_ref().map(|text| self.cwd(text)),
            ..process.spec.clone()
        }
    }

    /// Renders an argument, path or variable of a process.
    fn argument(&mut self, text: &Text) -> String {
        let value = text.render(&self.values, &mut self.problems);
        self.bytes += value.len();
        if let Some(why) = argument_defect(&value) {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("the value {why}"),
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

    /// Ensures that the directory stays below the sandbox for any parameter value.
    fn cwd(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let cwd = self.argument(text);
        let sample = self.values.sample(&cwd);
        let outside = sample.starts_with('/') || sample.split('/').any(|part| part == "..");
        if self.problems.len() == before && (outside || cwd.is_empty()) {
            self.problems.push(text.location.problem(
                Kind::BadValue,
                format!("{} is not a directory below the sandbox", quote(&cwd)),
                "write a relative path without `..`, or use `cd` in the command",
            ));
        }
        cwd
    }
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
