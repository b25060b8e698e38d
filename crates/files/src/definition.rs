//! From a task file to a revision in the library.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_model::library::{Definition, TaskName};

use crate::error::{Errors, Kind, Problem, quote};
use crate::file::{Binding, TaskFile};
use crate::instance::DEFAULT_OWNER;
use crate::limits::TASK_LIMITS;
use crate::source;
use crate::template::{Reference, Text};

/// Names that no owner may have: an owner is the first path segment of its tasks' URLs, and
/// the HTTP API uses these segments itself.
const RESERVED_OWNERS: &[&str] = &[
    "arena",
    "bullpen",
    "docs",
    "events",
    "healthz",
    "history",
    "instances",
    "library",
    "metrics",
    "openapi.json",
    "readyz",
    "runs",
    "ticks",
    "tokens",
    "usage",
    "workers",
];

/// Placeholder value of a required string parameter.
const PLACEHOLDER: &str = "x";

impl TaskFile {
    /// Returns the task as a library revision. `file` is its file in the library directory.
    /// Equal values make an equal source, regardless of the order of fields.
    ///
    /// # Errors
    /// A reserved owner, and every problem that [`TaskFile::instance`] would report for all
    /// parameter values.
    pub fn definition(&self, file: Option<String>) -> Result<(TaskName, Definition), Errors> {
        let fail = |problems| Errors::new(&self.file, problems);
        self.check_owner().map_err(|problem| fail(vec![problem]))?;
        // Aliases may expand a file beyond the JSON limits; report that now rather than when
        // the first instance is created.
        source::from_json(&self.source, &TASK_LIMITS).map_err(fail)?;
        let is_closed = self.params.values().all(|param| param.default.is_some());
        let spec = if is_closed {
            Some(Arc::new(self.instance(&Binding::default())?))
        } else {
            self.check_unbound().map_err(fail)?;
            None
        };
        let mut source = self.to_json();
        source.sort_all_objects();
        let name = TaskName {
            owner: self.owner().unwrap_or(DEFAULT_OWNER).to_owned(),
            name: self.name().to_owned(),
        };
        let definition = Definition {
            source: source.to_string().into(),
            spec,
            trigger: self.policy.trigger.clone(),
            file,
        };
        Ok((name, definition))
    }

    fn check_owner(&self) -> Result<(), Problem> {
        let Some(owner) = self.owner().filter(|owner| RESERVED_OWNERS.contains(owner)) else {
            return Ok(());
        };
        Err(self.owner_location.problem(
            Kind::BadName,
            format!(
                "{} cannot be an owner: the HTTP API reserves this name",
                quote(owner)
            ),
            format!("use another name, such as `{owner}-team`"),
        ))
    }

    /// Reports problems that do not depend on the values of required parameters.
    fn check_unbound(&self) -> Result<(), Vec<Problem>> {
        let open = |name: &str| {
            let param = self.params.get(name);
            param.is_some_and(|param| param.default.is_none())
        };
        let placeholders = self.params.iter().filter(|(name, _)| open(name));
        let binding = Binding {
            params: placeholders
                .map(|(name, param)| {
                    let example = param.kind.example();
                    (
                        name.clone(),
                        example.unwrap_or_else(|| PLACEHOLDER.to_owned()),
                    )
                })
                .collect(),
            ..Binding::default()
        };
        let Err(mut problems) = self.bound(&binding) else {
            return Ok(());
        };
        // A problem of a value that contains a placeholder may not exist with a real argument.
        let is_open = |text: &&Text| {
            let mut references = text.references();
            references.any(|reference| matches!(reference, Reference::Param(name) if open(name)))
        };
        let unsure: BTreeSet<&str> = self
            .body
            .texts()
            .filter(is_open)
            .map(|text| &*text.location.path)
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
}
