//! A parsed task file, and binding its templates.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::task::{Condition, ProcessSpec, Resources, TaskSpec};
use baton_model::time::{Millis, Wall};

use crate::bind::Binder;
use crate::binding::{Arguments, NominalTime, check_ids};
use crate::error::{Errors, Kind, Location, Problem};
use crate::limits::BOUND_BYTES_MAX;
use crate::param::Param;
use crate::policy::Policy;
use crate::template::{Reference, Text, Values};

/// A parsed and checked task file with unbound templates.
#[derive(Clone, Debug)]
pub struct TaskFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    /// Everything except processes.
    pub policy: Policy,
    pub(crate) file: String,
    /// The parsed file as JSON.
    pub(crate) source: serde_json::Value,
    pub(crate) owner_location: Location,
    pub(crate) body: TaskBody,
}

/// The processes and variables of a task, from a task file or a workflow, with unbound templates.
#[derive(Clone, Debug)]
pub(crate) struct TaskBody {
    /// Everything without a template; `spec.processes` is empty.
    pub(crate) spec: TaskSpec,
    pub(crate) processes: Vec<UnboundProcess>,
    /// For every process; variables of the process take precedence.
    pub(crate) env: BTreeMap<String, Text>,
    /// Whether the file sets `resources.cpu`.
    pub(crate) requests_cpu: bool,
    /// The directory of processes that set none, and that of relative ones.
    pub(crate) cwd: Option<Text>,
    /// The files of its output.
    pub(crate) stdout: Option<Text>,
    pub(crate) stderr: Option<Text>,
}

/// A task with all templates rendered.
#[derive(Clone, Debug)]
pub(crate) struct BoundTask {
    pub(crate) spec: TaskSpec,
    pub(crate) stdout: Option<String>,
    pub(crate) stderr: Option<String>,
}

/// The arguments of one start of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Values that replace the defaults of parameters.
    pub params: BTreeMap<String, String>,
    /// Ports by name.
    pub ports: BTreeMap<String, u16>,
    /// The id of the task, once assigned.
    pub task_id: Option<String>,
    /// The time that defaults of parameters may refer to. Without one they stay templates, which
    /// only a library entry may have.
    pub nominal_time: Option<Wall>,
    /// The item of an element of an array.
    pub item: Option<serde_json::Value>,
}

/// A process with unbound templates.
#[derive(Clone, Debug)]
pub(crate) struct UnboundProcess {
    /// Everything without a template; the fields below replace theirs in it.
    pub(crate) spec: ProcessSpec,
    pub(crate) name_location: Location,
    pub(crate) run: UnboundRun,
    pub(crate) after: Vec<UnboundDependency>,
    pub(crate) ready: Option<UnboundCheck>,
    pub(crate) health: Option<UnboundCheck>,
    pub(crate) env: BTreeMap<String, Text>,
    pub(crate) cwd: Option<Text>,
}

#[derive(Clone, Debug)]
pub(crate) enum UnboundRun {
    Shell(Text),
    Exec(Vec<Text>),
}

#[derive(Clone, Debug)]
pub(crate) struct UnboundDependency {
    pub(crate) process: String,
    pub(crate) condition: Condition,
    pub(crate) location: Location,
}

#[derive(Clone, Debug)]
pub(crate) struct UnboundCheck {
    pub(crate) probe: UnboundProbe,
    pub(crate) delay: Millis,
    pub(crate) interval: Millis,
    pub(crate) timeout: Millis,
    pub(crate) successes_min: u32,
    pub(crate) failures_max: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum UnboundProbe {
    Command(UnboundRun),
    Http { port: Text, path: Text },
    Tcp { port: Text },
}

impl TaskFile {
    /// The name of the task.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.body.spec.name
    }

    /// The namespace of the task.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.body.spec.owner.as_deref()
    }

    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.body.spec.resources
    }

    /// The ports that templates refer to; [`TaskFile::bind`] needs all of them.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<&str> {
        self.body
            .texts()
            .flat_map(Text::references)
            .filter_map(|reference| match reference {
                Reference::Port(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Renders every template. The result satisfies the invariants of
    /// [`baton_model::task`] and can run as it is.
    ///
    /// # Errors
    /// Every reference without a value, every argument without a parameter, and every value
    /// that is invalid after rendering.
    pub fn bind(&self, binding: &Binding) -> Result<TaskSpec, Errors> {
        self.check_time(binding)?;
        self.bound(binding)
            .map(|task| task.spec)
            .map_err(|problems| Errors::new(&self.file, problems))
    }

    /// Reports a default that refers to an unknown nominal time.
    pub(crate) fn check_time(&self, binding: &Binding) -> Result<(), Errors> {
        let needs_time = |param: &Param| param.is_nominal;
        if binding.nominal_time.is_none() && self.params.values().any(needs_time) {
            let problem = Location::default().problem(
                Kind::Unbound,
                "a default refers to the nominal time, which is unknown".to_owned(),
                "pass a value for each such parameter",
            );
            return Err(Errors::new(&self.file, vec![problem]));
        }
        Ok(())
    }

    /// [`TaskFile::bind`] with unsorted problems.
    pub(crate) fn bound(&self, binding: &Binding) -> Result<BoundTask, Vec<Problem>> {
        let mut problems = Vec::new();
        let params = self.parameters(binding, &mut problems);
        check_ids(binding, &mut problems);
        let nominal = NominalTime::of(binding.nominal_time, &self.policy.trigger);
        let arguments = Arguments {
            values: &binding.params,
            nominal: &nominal,
        };
        let values = Values {
            late: arguments.late(&self.params),
            params: &params,
            ports: &binding.ports,
            task_id: binding.task_id.as_deref(),
            task_name: self.name(),
            workflow: None,
            item: binding.item.as_ref(),
        };
        let mut binder = Binder::new(values, problems, BOUND_BYTES_MAX);
        let env = binder.param_env();
        let task = binder.body(&self.body, &env);
        if binder.problems.is_empty() {
            Ok(task)
        } else {
            Err(binder.problems)
        }
    }
}

impl TaskBody {
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        let own = [&self.cwd, &self.stdout, &self.stderr];
        self.env
            .values()
            .chain(own.into_iter().flatten())
            .chain(self.processes.iter().flat_map(UnboundProcess::texts))
    }
}

impl UnboundProcess {
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

impl UnboundRun {
    fn texts(&self) -> &[Text] {
        match self {
            Self::Shell(text) => std::slice::from_ref(text),
            Self::Exec(words) => words,
        }
    }
}

impl UnboundProbe {
    fn texts(&self) -> Vec<&Text> {
        match self {
            Self::Command(run) => run.texts().iter().collect(),
            Self::Http { port, path } => vec![port, path],
            Self::Tcp { port } => vec![port],
        }
    }
}
