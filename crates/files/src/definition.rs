//! From a task or workflow file to a revision in the library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::library::{Definition, EntryKind, RESERVED_OWNERS, TaskName};

use crate::error::{Errors, Kind, Location, Problem, quote};
use crate::file::{Binding, TaskFile};
use crate::instance::{DEFAULT_OWNER, instance};
use crate::limits::TASK_LIMITS;
use crate::param::Param;
use crate::source;
use crate::template::LocatedReference;
use crate::workflow::WorkflowFile;
use crate::{AnyFile, Trigger};

/// Placeholder value of a required string parameter.
const PLACEHOLDER: &str = "x";

impl AnyFile {
    /// Returns the entry as a library revision. `file` is its file in the library directory.
    /// Equal values make an equal source, regardless of the order of fields.
    ///
    /// # Errors
    /// A reserved owner, and every problem that a launch would report for all parameter values.
    pub fn definition(&self, file: Option<String>) -> Result<(TaskName, Definition), Errors> {
        match self {
            Self::Task(task) => task.definition(file),
            Self::Workflow(workflow) => workflow.definition(file),
        }
    }

    /// The name of the task or workflow.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Task(task) => task.name(),
            Self::Workflow(workflow) => workflow.name(),
        }
    }

    /// The parsed file with unbound templates. [`crate::any_from_json`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Task(task) => task.to_json(),
            Self::Workflow(workflow) => workflow.to_json(),
        }
    }
}

impl TaskFile {
    /// As [`AnyFile::definition`].
    ///
    /// # Errors
    /// A reserved owner, and every problem that [`TaskFile::instance`] would report for all
    /// parameter values.
    pub fn definition(&self, file: Option<String>) -> Result<(TaskName, Definition), Errors> {
        let fail = |problems| Errors::new(&self.file, problems);
        let entry = self.entry();
        entry.check().map_err(fail)?;
        let spec = if is_closed(&self.params) {
            let task = self.bound(&Binding::default()).map_err(fail)?;
            Some(Arc::new(instance(task, &self.policy)))
        } else {
            let bind = |params| {
                let binding = Binding {
                    params,
                    ..Binding::default()
                };
                self.bound(&binding).map(drop)
            };
            check_unbound(&self.params, self.references.iter(), bind).map_err(fail)?;
            None
        };
        Ok(entry.definition(Definition {
            kind: EntryKind::Task,
            spec,
            file,
            ..Definition::default()
        }))
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name(),
            owner: self.owner(),
            owner_location: &self.owner_location,
            source: self.to_json(),
            params: &self.params,
            trigger: &self.policy.trigger,
        }
    }
}

impl WorkflowFile {
    /// As [`AnyFile::definition`].
    ///
    /// # Errors
    /// A reserved owner, and every problem that [`WorkflowFile::plan`] would report for all
    /// parameter values.
    pub fn definition(&self, file: Option<String>) -> Result<(TaskName, Definition), Errors> {
        let fail = |problems| Errors::new(&self.file, problems);
        let entry = self.entry();
        entry.check().map_err(fail)?;
        let plan = if is_closed(&self.params) {
            Some(Arc::new(self.bound(&BTreeMap::new(), None).map_err(fail)?))
        } else {
            let bind = |params| self.bound(&params, None).map(drop);
            let references = self.tasks.iter().flat_map(|task| &task.references);
            check_unbound(&self.params, references, bind).map_err(fail)?;
            None
        };
        Ok(entry.definition(Definition {
            kind: EntryKind::Workflow,
            plan,
            file,
            ..Definition::default()
        }))
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name(),
            owner: self.owner(),
            owner_location: &self.owner_location,
            source: self.to_json(),
            params: &self.params,
            trigger: &self.trigger,
        }
    }
}

/// What tasks and workflows have in common.
struct Entry<'a> {
    name: &'a str,
    owner: Option<&'a str>,
    owner_location: &'a Location,
    source: serde_json::Value,
    params: &'a BTreeMap<String, Param>,
    trigger: &'a Trigger,
}

impl Entry<'_> {
    /// Reports a reserved owner, or a file that is too large for the library.
    fn check(&self) -> Result<(), Vec<Problem>> {
        if let Some(owner) = self.owner.filter(|owner| RESERVED_OWNERS.contains(owner)) {
            return Err(vec![self.owner_location.problem(
                Kind::BadName,
                format!(
                    "{} cannot be an owner: the HTTP API reserves this name",
                    quote(owner)
                ),
                format!("use another name, such as `{owner}-team`"),
            )]);
        }
        // Aliases may expand a file beyond the JSON limits; report that now rather than when
        // it is launched. A workflow may be larger than an entry of the library, which is written
        // to the store with each revision and with each run.
        source::from_json(&self.source, &TASK_LIMITS).map(drop)
    }

    /// The defaults that a launch renders.
    fn nominal_params(&self) -> BTreeMap<String, String> {
        let nominal = self.params.iter().filter(|(_, param)| param.is_nominal);
        let nominal = nominal.map(|(name, param)| Some((name.clone(), param.default.clone()?)));
        nominal.flatten().collect()
    }

    fn definition(mut self, definition: Definition) -> (TaskName, Definition) {
        self.source.sort_all_objects();
        let name = TaskName {
            owner: self.owner.unwrap_or(DEFAULT_OWNER).to_owned(),
            name: self.name.to_owned(),
        };
        let definition = Definition {
            source: self.source.to_string().into(),
            trigger: self.trigger.clone(),
            nominal_params: self.nominal_params(),
            ..definition
        };
        (name, definition)
    }
}

/// True if every parameter has a default.
fn is_closed(params: &BTreeMap<String, Param>) -> bool {
    params.values().all(|param| param.default.is_some())
}

/// Reports problems that do not depend on the values of required parameters. `bind` renders the
/// templates with placeholders for these values.
fn check_unbound<'a>(
    params: &BTreeMap<String, Param>,
    references: impl Iterator<Item = &'a LocatedReference>,
    bind: impl FnOnce(BTreeMap<String, String>) -> Result<(), Vec<Problem>>,
) -> Result<(), Vec<Problem>> {
    let open = |name: &str| {
        let param = params.get(name);
        param.is_some_and(|param| param.default.is_none())
    };
    let placeholders = params.iter().filter(|(name, _)| open(name));
    let placeholders = placeholders.map(|(name, param)| {
        let example = param.kind.example();
        let example = example.unwrap_or_else(|| PLACEHOLDER.to_owned());
        (name.clone(), example)
    });
    let Err(mut problems) = bind(placeholders.collect()) else {
        return Ok(());
    };
    // A problem of a value that contains a placeholder may not exist with a real argument.
    let is_open = |located: &&LocatedReference| located.reference.param().is_some_and(open);
    let unsure: BTreeSet<&str> = references
        .filter(is_open)
        .map(|located| &*located.location.path)
        .collect();
    problems.retain(|problem| {
        let is_reference = matches!(problem.kind, Kind::Unbound | Kind::UnknownReference);
        is_reference || !unsure.contains(&*problem.path)
    });
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}
