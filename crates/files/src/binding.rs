//! What is given when a task is started: parameters, ports, an id. It stands in no file, so
//! its problems have a field and no line.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Kind, Location, Problem, clean, quote};
use crate::file::{Binding, TaskFile};
use crate::param::{Param, ParamError};
use crate::read::bad_name;
use crate::suggest;
use crate::template::{Reference, Text};

impl TaskFile {
    /// The defaults, with what was given instead.
    pub(crate) fn parameters(
        &self,
        binding: &Binding,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<String, Option<String>> {
        let referred = self.body.texts().flat_map(Text::references);
        let referred = referred.filter_map(Reference::param).collect();
        parameters("task", &self.params, &binding.params, &referred, problems)
    }
}

/// The defaults of `declared`, with what was given instead. `what` has them, and its texts
/// refer to those of `referred`: one without a value is reported where that stands.
pub(crate) fn parameters(
    what: &str,
    declared: &BTreeMap<String, Param>,
    binding: &BTreeMap<String, String>,
    referred: &BTreeSet<&str>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Option<String>> {
    let mut params: BTreeMap<String, Option<String>> = declared
        .iter()
        .map(|(name, param)| (name.clone(), param.default.clone()))
        .collect();
    for (name, value) in binding {
        let Some(param) = declared.get(name) else {
            let known = declared.keys().map(String::as_str);
            problems.push(argument_location("params", name).problem(
                Kind::UnknownParam,
                format!("the {what} has no parameter {}", quote(name)),
                suggest::hint(problems.len(), name, known, "its parameters are:"),
            ));
            continue;
        };
        let value = param
            .kind
            .canonicalize(value, "give")
            .unwrap_or_else(|error| {
                let ParamError {
                    kind,
                    message,
                    hint,
                } = error;
                problems.push(argument_location("params", name).problem(kind, message, hint));
                // It was given, badly: nobody need be told that it is missing.
                value.clone()
            });
        params.insert(name.clone(), Some(value));
    }
    for (name, value) in &params {
        if value.is_none() && !referred.contains(name.as_str()) {
            problems.push(argument_location("params", name).problem(
                Kind::Unbound,
                format!("the parameter {} has no value", quote(name)),
                format!("give one with -p {name}=VALUE, or a default in `params`"),
            ));
        }
    }
    params
}

/// A place outside the file: what was given when the task was started.
pub(crate) fn argument_location(what: &str, name: &str) -> Location {
    Location {
        path: format!("{what}.{}", clean(name)),
        position: None,
    }
}

pub(crate) fn check_ids(binding: &Binding, problems: &mut Vec<Problem>) {
    if let Some(id) = &binding.task_id
        && let Some(why) = bad_name(id)
    {
        problems.push(argument_location("task", "id").problem(
            Kind::BadName,
            format!("{} is no id for a task: {why}", quote(id)),
            "give an id without spaces and slashes that begins with no dot",
        ));
    }
    for (name, port) in &binding.ports {
        if *port == 0 {
            problems.push(argument_location("ports", name).problem(
                Kind::OutOfRange,
                "no port has the number 0".to_owned(),
                "give a number from 1 to 65535",
            ));
        }
    }
}
