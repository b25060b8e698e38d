//! Binding: the values of a start and the checked tree of a task file become a `TaskSpec`.
//!
//! Arguments (parameters, ports, an id) are not part of a file, so their problems have a field
//! and no line.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::clock::{Zone, nominal};
use baton_core::workflow::template::plain;
use baton_model::library::Trigger;
use baton_model::spec::InstanceSpec;
use baton_model::task::TaskSpec;
use baton_model::time::Wall;

use crate::error::{Errors, Kind, Location, Problem, quote};
use crate::file::{Binding, TaskBody, TaskFile};
use crate::instance::{ITEM_VARIABLE, instance};
use crate::limits::BOUND_BYTES_MAX;
use crate::name::bad_name;
use crate::param::{Param, ParamError};
use crate::read::{self, Reader};
use crate::suggest;
use crate::template::Values;

impl TaskFile {
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

    /// Binds the task and applies the scheduler's defaults: one core, the owner
    /// [`DEFAULT_OWNER`](crate::DEFAULT_OWNER), a backoff of 1s to 1m. A task of one process
    /// without process policies becomes a plain command; a worker runs it without a runner.
    ///
    /// # Errors
    /// As [`TaskFile::bind`].
    pub fn instance(&self, binding: &Binding) -> Result<InstanceSpec, Errors> {
        self.check_time(binding)?;
        let task = self.bound(binding);
        let task = task.map_err(|problems| Errors::new(&self.file, problems))?;
        let mut spec = instance(task, &self.policy);
        if let Some(item) = &binding.item {
            let text = plain(item).into_owned();
            spec.env.insert(ITEM_VARIABLE.to_owned(), text);
        }
        Ok(spec)
    }

    /// Reports a default that refers to an unknown nominal time.
    fn check_time(&self, binding: &Binding) -> Result<(), Errors> {
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
    pub(crate) fn bound(&self, binding: &Binding) -> Result<TaskBody, Vec<Problem>> {
        let mut problems = Vec::new();
        let nominal = NominalTime::of(binding.nominal_time, &self.policy.trigger);
        let arguments = Arguments {
            values: &binding.params,
            nominal: &nominal,
        };
        let references = self.references.iter();
        let referred = references.filter_map(|located| located.reference.param());
        let referred = referred.collect();
        let params = parameters("task", &self.params, &arguments, &referred, &mut problems);
        check_ids(binding, &mut problems);
        let values = Values {
            params,
            ports: binding.ports.clone(),
            task_id: binding.task_id.clone(),
            task_name: self.name.clone(),
            workflow: None,
            item: binding.item.clone(),
            late: arguments.late(&self.params),
        };
        let reader = Reader::with_values(values, problems, BOUND_BYTES_MAX);
        read::bound_task(self, reader)
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
    pub(crate) fn late(&self, declared: &BTreeMap<String, Param>) -> BTreeSet<String> {
        let is_late = |(name, param): &(&String, &Param)| {
            matches!(self.nominal, NominalTime::AtLaunch)
                && param.is_nominal
                && !self.values.contains_key(*name)
        };
        let late = declared.iter().filter(is_late);
        late.map(|(name, _)| name.clone()).collect()
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
            problems.push(Location::argument("params", name).problem(
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
                problems.push(Location::argument("params", name).problem(kind, message, hint));
                // A bad value is not also reported as missing.
                value.clone()
            });
        params.insert(name.clone(), Some(value));
    }
    for (name, value) in &params {
        if value.is_none() && !referred.contains(name.as_str()) {
            problems.push(Location::argument("params", name).problem(
                Kind::Unbound,
                format!("the parameter {} has no value", quote(name)),
                format!("pass -p {name}=VALUE, or add a default in `params`"),
            ));
        }
    }
    params
}

fn check_ids(binding: &Binding, problems: &mut Vec<Problem>) {
    if let Some(id) = &binding.task_id
        && let Some(reason) = bad_name(id)
    {
        problems.push(Location::argument("task", "id").problem(
            Kind::BadName,
            format!("{} is not a valid task id: {reason}", quote(id)),
            "use an id without spaces or slashes that does not start with a dot",
        ));
    }
    for (name, port) in &binding.ports {
        if *port == 0 {
            problems.push(Location::argument("ports", name).problem(
                Kind::OutOfRange,
                "0 is not a port".to_owned(),
                "pass a number from 1 to 65535",
            ));
        }
    }
}
