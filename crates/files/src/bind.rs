//! Fills in the templates of a task, and checks what only then can be checked.

use std::collections::BTreeMap;

use baton_model::task::{
    Check, CommandLine, Dependency, Probe, ProcessName, ProcessSpec, TaskSpec,
};

use crate::error::{Kind, Problem, quote};
use crate::file::{Body, Draft, DraftCheck, DraftProbe, DraftRun, param_variable};
use crate::given::given;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::template::{Text, Values};

/// Fills in templates and checks what comes out.
pub(crate) struct Binder<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) problems: Vec<Problem>,
    /// Bytes of what came out so far.
    bytes: usize,
    bytes_max: usize,
}

impl<'a> Binder<'a> {
    /// `bytes_max` is what everything together may grow to.
    pub(crate) fn new(values: Values<'a>, problems: Vec<Problem>, bytes_max: usize) -> Self {
        Self {
            values,
            problems,
            bytes: 0,
            bytes_max,
        }
    }

    /// The parameters as variables.
    pub(crate) fn param_env(&mut self) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (name, value) in self.values.params {
            let Some(value) = value else { continue };
            if let Some(why) = unfit_argument(value) {
                self.problems.push(given("params", name).problem(
                    Kind::BadValue,
                    format!("the value {why}"),
                    "give a shorter text, or the name of a file",
                ));
            }
            env.insert(param_variable(name), self.values.literal(value));
        }
        env
    }

    /// A whole task. `param_env` goes to every process, below what the task says.
    pub(crate) fn body(&mut self, body: &Body, param_env: &BTreeMap<String, String>) -> TaskSpec {
        let mut env = param_env.clone();
        for (name, text) in &body.env {
            let value = self.argument(text);
            env.insert(name.clone(), value);
        }
        let mut processes = Vec::with_capacity(body.drafts.len());
        for draft in &body.drafts {
            processes.push(self.process(draft, &env));
            if self.is_full() {
                let what = match self.values.workflow {
                    None => "with this process the task",
                    Some(_) => "with this task the workflow",
                };
                self.problems.push(draft.name_place.problem(
                    Kind::TooLarge,
                    format!("{what} grows beyond {} bytes", self.bytes_max),
                    "use fewer or shorter parameters and variables of the whole task",
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

    /// True if nothing more may come out.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    fn process(&mut self, draft: &Draft, task_env: &BTreeMap<String, String>) -> ProcessSpec {
        let mut env = task_env.clone();
        for (name, text) in &draft.env {
            let value = self.argument(text);
            env.insert(name.clone(), value);
        }
        self.bytes += env.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        ProcessSpec {
            run: self.run(&draft.run),
            after: draft
                .after
                .iter()
                .map(|dependency| Dependency {
                    process: ProcessName(dependency.process.clone()),
                    condition: dependency.condition,
                })
                .collect(),
            ready: draft.ready.as_ref().map(|check| self.check(check)),
            health: draft.health.as_ref().map(|check| self.check(check)),
            env,
            cwd: draft.cwd.as_ref().map(|text| self.cwd(text)),
            ..draft.spec.clone()
        }
    }

    /// A text that a process is given.
    fn argument(&mut self, text: &Text) -> String {
        let value = text.render(&self.values, &mut self.problems);
        self.bytes += value.len();
        if let Some(why) = unfit_argument(&value) {
            self.problems.push(text.place.problem(
                Kind::BadValue,
                format!("the text {why}"),
                "put it into a file, and name that file",
            ));
        }
        value
    }

    fn run(&mut self, run: &DraftRun) -> CommandLine {
        let before = self.problems.len();
        let (bound, first) = match run {
            DraftRun::Shell(text) => (CommandLine::Shell(self.argument(text)), Some(text)),
            DraftRun::Exec(words) => (
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
            self.problems.push(first.place.problem(
                Kind::BadValue,
                "the command is empty".to_owned(),
                "name a program",
            ));
        }
        bound
    }

    fn check(&mut self, check: &DraftCheck) -> Check {
        let probe = match &check.probe {
            DraftProbe::Command(run) => Probe::Command(self.run(run)),
            DraftProbe::Http { port, path } => Probe::Http {
                port: self.port(port),
                path: self.http_path(path),
            },
            DraftProbe::Tcp { port } => Probe::Tcp {
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
            self.problems.push(text.place.problem(
                Kind::OutOfRange,
                format!("{} is no port", quote(&value)),
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

    /// It becomes a part of a request line, so it may hold nothing that ends one.
    fn http_path(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let path = self.argument(text);
        let shape = self.values.shape(&path);
        let fits = |c: char| c.is_ascii_graphic();
        if self.problems.len() == before && !(shape.starts_with('/') && shape.chars().all(fits)) {
            self.problems.push(text.place.problem(
                Kind::BadValue,
                format!("{} is no path of an address", quote(&path)),
                "begin with a slash, and write everything but plain letters and signs as %XX",
            ));
        }
        path
    }

    /// Below the sandbox, whatever a parameter says.
    fn cwd(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let cwd = self.argument(text);
        let shape = self.values.shape(&cwd);
        let outside = shape.starts_with('/') || shape.split('/').any(|part| part == "..");
        if self.problems.len() == before && (outside || cwd.is_empty()) {
            self.problems.push(text.place.problem(
                Kind::BadValue,
                format!("{} is no directory below the sandbox", quote(&cwd)),
                "write a relative path without `..`, or `cd` within the command",
            ));
        }
        cwd
    }
}

/// Why the kernel would not take a text, if it would not.
fn unfit_argument(text: &str) -> Option<String> {
    if text.contains('\0') {
        Some("holds a zero byte, which no program can be given".to_owned())
    } else if text.len() >= ARGUMENT_BYTES_MAX {
        Some(format!(
            "is longer than the {ARGUMENT_BYTES_MAX} bytes that a program can be given at once"
        ))
    } else {
        None
    }
}
