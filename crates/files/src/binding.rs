//! Arguments of a start: parameters, ports, an id. They are not part of a file, so their
//! problems have a field and no line.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::clock::{Zone, nominal};
use baton_model::library::Trigger;
use baton_model::time::Wall;

use crate::error::{Kind, Location, Problem, clean, quote};
use crate::file::{Binding, TaskFile};
use crate::name::bad_name;
use crate::param::{Param, ParamError};
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
        let nominal = NominalTime::of(binding.nominal_time, &self.policy.trigger);
        let arguments = Arguments {
            values: &binding.params,
            nominal: &nominal,
        };
        parameters("task", &self.params, &arguments, &referred, problems)
    }
}

/// The nominal time that defaults of parameters may refer to.
pub(crate) enum NominalTime {
    At(Wall, Zone),
    /// It is known only at a launch: such defaults stay references to their parameters.
    AtLaunch,
}

impl NominalTime {
    /// `at` in the zone of the schedule, if it is known.
    pub(crate) fn of(at: Option<Wall>, trigger: &Trigger) -> Self {
        let Some(at) = at else {
            return Self::AtLaunch;
        };
        let zone = trigger.schedule.as_ref();
        let zone = zone.and_then(|schedule| Zone::named(&schedule.zone).ok());
        Self::At(at, zone.unwrap_or(Zone::UTC))
    }

    fn default(&self, param: &Param) -> Option<String> {
        match (self, &param.default) {
            (Self::At(at, zone), Some(text)) if param.is_nominal => {
                Some(nominal::render(text, *at, zone))
            }
            (_, default) => default.clone(),
        }
    }
}

/// The arguments of a start.
pub(crate) struct Arguments<'a> {
    pub(crate) values: &'a BTreeMap<String, String>,
    pub(crate) nominal: &'a NominalTime,
}

impl Arguments<'_> {
    /// The parameters that only a launch can render.
    pub(crate) fn late<'p>(&self, declared: &'p BTreeMap<String, Param>) -> BTreeSet<&'p str> {
        let is_late = |(name, param): &(&String, &Param)| {
            matches!(self.nominal, NominalTime::AtLaunch)
                && param.is_nominal
                && !self.values.contains_key(*name)
        };
        let late = declared.iter().filter(is_late);
        late.map(|(name, _)| name.as_str()).collect()
    }
}

/// Returns the value of each parameter of `declared`: the argument, or else the default.
/// `what` names the kind of file. A parameter in `referred` without a value is reported at its
/// reference instead.
pub(crate) fn parameters(
    what: &str,
    declared: &BTreeMap<String, Param>,
    arguments: &Arguments<'_>,
    referred: &BTreeSet<&str>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Option<String>> {
    let mut params: BTreeMap<String, Option<String>> = declared
        .iter()
        .map(|(name, param)| (name.clone(), arguments.nominal.default(param)))
        .collect();
    for (name, value) in arguments.values {
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
        && let Some(reason) = bad_name(id)
    {
        problems.push(argument_location("task", "id").problem(
            Kind::BadName,
            format!("{} is not a valid task id: {reason}", quote(id)),
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
