//! A parsed task file, and the arguments that its templates are rendered with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::task::{Resources, TaskSpec};
use baton_model::time::Wall;

use crate::error::Location;
use crate::param::Param;
use crate::policy::Policy;
use crate::source;
use crate::template::{LocatedReference, Reference};
use crate::tree::Tree;

/// A checked task file. Its processes and variables are read again with each binding.
#[derive(Clone, Debug)]
pub struct TaskFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    /// Everything except processes.
    pub policy: Policy,
    pub(crate) file: String,
    pub(crate) tree: Arc<Tree>,
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) owner_location: Location,
    pub(crate) resources: Resources,
    /// The references of all templates.
    pub(crate) references: Vec<LocatedReference>,
}

/// The processes, variables and output files of a task, from a task file or a workflow.
#[derive(Debug)]
pub(crate) struct TaskBody {
    pub(crate) spec: TaskSpec,
    /// Whether the file sets `resources.cpu`.
    pub(crate) requests_cpu: bool,
    pub(crate) stdout: Option<OutputFile>,
    pub(crate) stderr: Option<OutputFile>,
}

/// A file of the output of a task.
#[derive(Debug)]
pub(crate) struct OutputFile {
    pub(crate) path: String,
    pub(crate) location: Location,
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

impl TaskFile {
    /// The name of the task.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the task.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The ports that templates refer to; [`TaskFile::bind`] needs all of them.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<&str> {
        let references = self.references.iter();
        let ports = references.filter_map(|located| match &located.reference {
            Reference::Port(name) => Some(name.as_str()),
            _ => None,
        });
        ports.collect()
    }

    /// The parsed task with unbound templates. [`crate::from_json`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        source::task_to_json(&self.tree)
    }
}
