//! A task as it was read, and what becomes of it when its templates are bound.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::task::{
    Check, Condition, Dependency, Probe, ProcessName, ProcessSpec, Resources, Run, TaskSpec,
};
use baton_model::time::Millis;

use crate::error::{Errors, Kind, Place, Problem, quote};
use crate::given::{check_ids, given};
use crate::limits::{ARGUMENT_BYTES_MAX, BOUND_BYTES_MAX};
use crate::param::Param;
use crate::policy::Policy;
use crate::template::{Reference, Text, Values};

/// A task file that was read and checked, with its templates still open.
#[derive(Clone, Debug)]
pub struct TaskFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    /// What is not about processes.
    pub policy: Policy,
    pub(crate) file: String,
    /// What was read, as JSON.
    pub(crate) source: serde_json::Value,
    /// Everything without a template; its processes are in `drafts`.
    pub(crate) spec: TaskSpec,
    /// Where the owner is named.
    pub(crate) owner_place: Place,
    pub(crate) drafts: Vec<Draft>,
    /// For every process; its own variables go first.
    pub(crate) env: BTreeMap<String, Text>,
}

/// What is known only when a task is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Parameters instead of their defaults.
    pub params: BTreeMap<String, String>,
    /// Ports by name.
    pub ports: BTreeMap<String, u16>,
    /// The id of the task, if it has one yet.
    pub task_id: Option<String>,
}

/// A process with its templates still open.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Everything without a template; `run`, `after`, `ready`, `health`, `env` and
    /// `cwd` are beside it.
    pub(crate) spec: ProcessSpec,
    pub(crate) name_place: Place,
    pub(crate) run: DraftRun,
    pub(crate) after: Vec<DraftDependency>,
    pub(crate) ready: Option<DraftCheck>,
    pub(crate) health: Option<DraftCheck>,
    pub(crate) env: BTreeMap<String, Text>,
    pub(crate) cwd: Option<Text>,
}

#[derive(Clone, Debug)]
pub(crate) enum DraftRun {
    Shell(Text),
    Exec(Vec<Text>),
}

#[derive(Clone, Debug)]
pub(crate) struct DraftDependency {
    pub(crate) process: String,
    pub(crate) condition: Condition,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) struct DraftCheck {
    pub(crate) probe: DraftProbe,
    pub(crate) delay: Millis,
    pub(crate) interval: Millis,
    pub(crate) timeout: Millis,
    pub(crate) successes_min: u32,
    pub(crate) failures_max: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum DraftProbe {
    Command(DraftRun),
    Http { port: Text, path: Text },
    Tcp { port: Text },
}

impl TaskFile {
    /// The name of the task.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its namespace.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.spec.owner.as_deref()
    }

    /// What it may use.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.spec.resources
    }

    /// The names of its processes, in the order of the file.
    pub fn process_names(&self) -> impl Iterator<Item = &str> {
        self.drafts.iter().map(|draft| draft.spec.name.0.as_str())
    }

    /// The ports that its templates refer to, all of which [`TaskFile::bind`] needs.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<&str> {
        self.texts()
            .flat_map(Text::references)
            .filter_map(|reference| match reference {
                Reference::Port(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Fills in every template. What it returns keeps the invariants of
    /// [`baton_model::task`] and can be run as it is.
    ///
    /// # Errors
    /// Every reference without a value, every value that was given for nothing, and
    /// whatever is wrong only once it is filled in.
    pub fn bind(&self, binding: &Binding) -> Result<TaskSpec, Errors> {
        self.bound(binding)
            .map_err(|problems| Errors::new(&self.file, problems))
    }

    /// [`TaskFile::bind`], with its problems as they were found.
    pub(crate) fn bound(&self, binding: &Binding) -> Result<TaskSpec, Vec<Problem>> {
        let mut problems = Vec::new();
        let params = self.parameters(binding, &mut problems);
        check_ids(binding, &mut problems);
        let values = Values {
            params: &params,
            ports: &binding.ports,
            task_id: binding.task_id.as_deref(),
            task_name: &self.spec.name,
        };
        let mut binder = Binder {
            values,
            problems,
            bytes: 0,
        };
        let env = binder.task_env(&params, &self.env);
        let mut processes = Vec::with_capacity(self.drafts.len());
        for draft in &self.drafts {
            processes.push(binder.process(draft, &env));
            if binder.bytes > BOUND_BYTES_MAX {
                binder.problems.push(draft.name_place.problem(
                    Kind::TooLarge,
                    format!("with this process the task grows beyond {BOUND_BYTES_MAX} bytes"),
                    "use fewer or shorter parameters and variables of the whole task",
                ));
                break;
            }
        }
        if !binder.problems.is_empty() {
            return Err(binder.problems);
        }
        Ok(TaskSpec {
            processes,
            ports: binding.ports.clone(),
            ..self.spec.clone()
        })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.env
            .values()
            .chain(self.drafts.iter().flat_map(Draft::texts))
    }
}

/// The variable in which a process finds a parameter.
pub(crate) fn param_variable(name: &str) -> String {
    let name = name.to_ascii_uppercase().replace('-', "_");
    format!("BATON_PARAM_{name}")
}

impl Draft {
    fn texts(&self) -> impl Iterator<Item = &Text> {
        let checks = [&self.ready, &self.health].into_iter().flatten();
        self.run
            .texts()
            .iter()
            .chain(self.env.values())
            .chain(&self.cwd)
            .chain(checks.flat_map(|check| check.probe.texts()))
    }
}

impl DraftRun {
    fn texts(&self) -> &[Text] {
        match self {
            Self::Shell(text) => std::slice::from_ref(text),
            Self::Exec(words) => words,
        }
    }
}

impl DraftProbe {
    fn texts(&self) -> Vec<&Text> {
        match self {
            Self::Command(run) => run.texts().iter().collect(),
            Self::Http { port, path } => vec![port, path],
            Self::Tcp { port } => vec![port],
        }
    }
}

/// Fills in templates and checks what comes out.
struct Binder<'a> {
    values: Values<'a>,
    problems: Vec<Problem>,
    /// Bytes of what came out so far.
    bytes: usize,
}

impl Binder<'_> {
    /// The parameters as variables, and over them what the task says.
    fn task_env(
        &mut self,
        params: &BTreeMap<String, Option<String>>,
        env: &BTreeMap<String, Text>,
    ) -> BTreeMap<String, String> {
        let mut rendered: BTreeMap<String, String> = params
            .iter()
            .filter_map(|(name, value)| Some((param_variable(name), value.clone()?)))
            .collect();
        for (name, value) in &rendered {
            if let Some(why) = unfit_argument(value) {
                self.problems.push(given("params", name).problem(
                    Kind::BadValue,
                    format!("the value {why}"),
                    "give a shorter text, or the name of a file",
                ));
            }
        }
        for (name, text) in env {
            let value = self.argument(text);
            rendered.insert(name.clone(), value);
        }
        rendered
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

    fn run(&mut self, run: &DraftRun) -> Run {
        let before = self.problems.len();
        let (bound, first) = match run {
            DraftRun::Shell(text) => (Run::Shell(self.argument(text)), Some(text)),
            DraftRun::Exec(words) => (
                Run::Exec(words.iter().map(|word| self.argument(word)).collect()),
                words.first(),
            ),
        };
        let empty = match &bound {
            Run::Shell(command) => command.trim().is_empty(),
            Run::Exec(words) => words.first().is_none_or(String::is_empty),
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
                "write a number from 1 to 65535, or a template such as \"{{ ports.http }}\"",
            ));
        }
        port.unwrap_or_default()
    }

    /// It becomes a part of a request line, so it may hold nothing that ends one.
    fn http_path(&mut self, text: &Text) -> String {
        let before = self.problems.len();
        let path = self.argument(text);
        let fits = |c: char| c.is_ascii_graphic();
        if self.problems.len() == before && !(path.starts_with('/') && path.chars().all(fits)) {
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
        let outside = cwd.starts_with('/') || cwd.split('/').any(|part| part == "..");
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
