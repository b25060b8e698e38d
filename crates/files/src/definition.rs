//! From a task file to what a library keeps of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_model::library::{Definition, TaskName};

use crate::error::{Errors, Kind, Problem, quote};
use crate::file::{Binding, TaskFile};
use crate::instance::DEFAULT_OWNER;
use crate::limits::TASK_LIMITS;
use crate::source;
use crate::template::{Reference, Text};

/// Names that no owner may have. An owner is the first part of its tasks' addresses, and these
/// are what the HTTP API has there.
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

/// Stands for a parameter that nobody has given yet, and that may be any text.
const PLACEHOLDER: &str = "x";

impl TaskFile {
    /// The task as a revision of a library. `file` is the file of the library's directory
    /// that it comes from. The same values make the same source, in whatever order they are
    /// written.
    ///
    /// # Errors
    /// An owner whose tasks could not be addressed, and whatever [`TaskFile::instance`]
    /// would say of every instance, whichever parameters it is given.
    pub fn definition(&self, file: Option<String>) -> Result<(TaskName, Definition), Errors> {
        let fail = |problems| Errors::new(&self.file, problems);
        self.check_owner().map_err(|problem| fail(vec![problem]))?;
        // Aliases may unfold a file to more than what is read as JSON; better now than
        // when the first instance is made of it.
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
                "no owner can be called {}, which the HTTP API uses itself",
                quote(owner)
            ),
            format!("write another name, such as `{owner}-team`"),
        ))
    }

    /// Looks for what is wrong whatever the parameters are that must be given.
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
        // What a stand-in makes of a text says nothing about the text.
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
