//! Parameters that differ between two plans of a run, and whether a task refers to one of them.
//!
//! The environment of every task has the variable of every parameter, so a difference there says
//! nothing. A task refers to a parameter if
//! * a text of it (command, environment, directory, check) had `{{ params.NAME }}`: the plan has
//!   the value in its place, so the texts differ;
//! * a text of it has the name of the variable;
//! * a text of it has the prefix of the variables without the name of a parameter after it, such
//!   as `env | grep BATON_PARAM_`: that refers to every parameter;
//! * its `when` has `params.NAME`.
//!
//! A program that reads the variable by itself is not seen.

use std::collections::BTreeSet;

use baton_model::spec::{InstanceSpec, Work};
use baton_model::workflow::{Plan, PlanTask};

use super::template::Reference;
use super::texts::texts;
use super::when::WhenExpr;

const PREFIX: &str = "BATON_PARAM_";

/// The environment variable of a parameter.
#[must_use]
pub fn variable(name: &str) -> String {
    let name = name.to_ascii_uppercase().replace('-', "_");
    format!("{PREFIX}{name}")
}

/// The parameters that differ between two plans.
#[derive(Debug)]
pub(super) struct ParamChanges<'a> {
    /// Names of those that differ.
    names: BTreeSet<&'a str>,
    /// Their variables.
    variables: BTreeSet<String>,
    /// The variables of all parameters of both plans.
    known: BTreeSet<String>,
}

impl<'a> ParamChanges<'a> {
    pub(super) fn new(before: &'a Plan, after: &'a Plan) -> Self {
        let all = before.params.keys().chain(after.params.keys());
        let differs = |name: &&String| before.params.get(*name) != after.params.get(*name);
        let names: BTreeSet<&str> = all.clone().filter(differs).map(String::as_str).collect();
        Self {
            variables: names.iter().map(|name| variable(name)).collect(),
            known: all.map(|name| variable(name)).collect(),
            names,
        }
    }

    /// Whether work, environment and condition of two tasks are the same, apart from parameters
    /// that they do not refer to.
    pub(super) fn same(&self, old: &PlanTask, new: &PlanTask) -> bool {
        let same = |was: &InstanceSpec, is: &InstanceSpec| {
            was.work == is.work && was.env == is.env && was.paths == is.paths
        };
        if old.when != new.when || self.in_condition(new.when.as_deref()) {
            return false;
        }
        self.names.is_empty() && same(&old.spec, &new.spec)
            || !self.names.is_empty() && same(&self.referred(&old.spec), &self.referred(&new.spec))
    }

    /// Whether a condition refers to one of them. One that does not parse never held.
    fn in_condition(&self, when: Option<&str>) -> bool {
        let parsed = when.and_then(|when| WhenExpr::parse(when).ok());
        let changed =
            |it: &&Reference| matches!(it, Reference::Param(name) if self.names.contains(&**name));
        parsed.is_some_and(|parsed| parsed.references().iter().any(changed))
    }

    /// The spec without the variables that it does not refer to.
    fn referred(&self, spec: &InstanceSpec) -> InstanceSpec {
        let mut bare = spec.clone();
        remove(&mut bare, &self.variables);
        let mut mentioned = BTreeSet::new();
        texts(&mut bare, &mut |text| self.collect(text, &mut mentioned));
        if mentioned.is_empty() {
            return bare;
        }
        let mut rest = spec.clone();
        remove(
            &mut rest,
            &self.variables.difference(&mentioned).cloned().collect(),
        );
        rest
    }

    /// Collects the variables to which a text refers.
    fn collect(&self, text: &str, mentioned: &mut BTreeSet<String>) {
        for (at, _) in text.match_indices(PREFIX) {
            let rest = &text[at..];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let name = &rest[..end];
            if self.variables.contains(name) {
                mentioned.insert(name.to_owned());
            } else if !self.known.contains(name) {
                mentioned.extend(self.variables.iter().cloned());
            }
        }
    }
}

fn remove(spec: &mut InstanceSpec, variables: &BTreeSet<String>) {
    spec.env.retain(|name, _| !variables.contains(name));
    if let Work::Task(task) = &mut spec.work {
        for process in &mut task.processes {
            process.env.retain(|name, _| !variables.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn plan(day: &str, depth: &str) -> Plan {
        let params = [("day", day), ("max-depth", depth)];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Plan {
            params: params.into(),
            ..Plan::default()
        }
    }

    /// A task as its file makes it: with a variable for every parameter.
    fn task(plan: &Plan, command: &str, when: Option<&str>) -> PlanTask {
        let env = plan.params.iter();
        let env = env.map(|(name, value)| (variable(name), value.clone()));
        PlanTask {
            spec: Arc::new(InstanceSpec {
                work: Work::Command(vec![command.to_owned()]),
                env: env.collect(),
                ..InstanceSpec::default()
            }),
            when: when.map(str::to_owned),
            ..PlanTask::default()
        }
    }

    #[test]
    fn a_task_differs_if_it_refers_to_what_differs() {
        let (before, after) = (plan("14", "2"), plan("15", "2"));
        for (command, when, same) in [
            ("true", None, true),
            ("echo $BATON_PARAM_DAY", None, false),
            ("echo ${BATON_PARAM_DAY:-x}", None, false),
            ("echo $BATON_PARAM_MAX_DEPTH", None, true),
            ("env | grep BATON_PARAM_", None, false),
            ("echo $BATON_PARAM_DAYS", None, false),
            ("true", Some("params.day == '14'"), false),
            ("true", Some("params.max-depth == 2"), true),
        ] {
            let changes = ParamChanges::new(&before, &after);
            let (old, new) = (task(&before, command, when), task(&after, command, when));
            assert_eq!(changes.same(&old, &new), same, "{command} {when:?}");
            let none = ParamChanges::new(&before, &before);
            assert!(none.same(&old, &old), "{command} {when:?}");
        }
        let changes = ParamChanges::new(&before, &after);
        let (old, new) = (
            task(&before, "echo 14", None),
            task(&after, "echo 15", None),
        );
        assert!(!changes.same(&old, &new), "the values are in the command");
    }

    #[test]
    fn a_parameter_that_is_new_or_gone_differs() {
        let (before, after) = (Plan::default(), plan("14", "2"));
        for (before, after) in [(&before, &after), (&after, &before)] {
            let changes = ParamChanges::new(before, after);
            let tasks = |command| (task(before, command, None), task(after, command, None));
            let (old, new) = tasks("true");
            assert!(changes.same(&old, &new));
            let (old, new) = tasks("echo $BATON_PARAM_DAY");
            assert!(!changes.same(&old, &new));
        }
    }
}
