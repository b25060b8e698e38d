//! Arguments of a start: parameters, ports, an id. They are not part of a file, so their
//! problems have a field and no line.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Kind, Location, Problem, clean, quote};
use crate::file::{Binding, TaskFile};
use crate::param::{Param, ParamError};
use crate::read::bad_name;
use crate::suggest;
use crate::template::{Reference, Text};

impl TaskFile {
    /// The value of each parameter: the argument, or else the default.
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

/// Returns the value of each parameter of `declared`: the argument, or else the default.
/// `what` names the kind of file. A parameter in `referred` without a value is reported at its
/// reference instead.
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
            .canonicalize(value, "pass")
            .unwrap_or_else(|error| {
                let ParamError {
                    kind,
                    message,
                    hint,
                } = error;
                problems.push(argument_location("params", name).problem(kind, message, hint));
                // A bad value is not also reported as missing.
                value.clone()
            });
        params.insert(name.clone(), Some(value));
    }
    for (name, value) in &params {
        if value.is_none() && !referred.contains(name.as_str()) {
            problems.push(argument_location("params", name).problem(
                Kind::Unbound,
                format!("the parameter {} has no value", quote(name)),
                format!("pass -p {name}=VALUE, or add a default in `params`"),
            ));
        }
    }
    params
}

/// The location of an argument: a field without a position in the file.
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
            format!("{} is not a valid task id: {why}", quote(id)),
            "use an id without spaces or slashes that does not start with a dot",
        ));
    }
    for (name, port) in &binding.ports {
        if *port == 0 {
            problems.push(argument_location("ports", name).problem(
                Kind::OutOfRange,
                "0 is not a port".to_owned(),
                "pass a number from 1 to 65535",
            ));
        }
    }
}
