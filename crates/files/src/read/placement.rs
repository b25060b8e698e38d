//! Placement: priority and constraints on workers.

use std::collections::BTreeSet;

use baton_model::placement::{Constraint, FLEET_LABEL, Rule};

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{CONSTRAINTS_MAX, NAME_BYTES_MAX};
use crate::name::bad_name;
use crate::schema::task::{CONSTRAINT, RETRY};
use crate::tree::Value;

const RULE_HINT: &str = "write a value, a list of values, { not: VALUE }, true for any value, or \
                         false for a worker without the label";
const VALUE_HINT: &str = "write a string; quote `true` and `false` to use them as values";

impl Reader {
    pub(super) fn constraints(&mut self, item: &Item<'_>) -> Vec<Constraint> {
        let hint = "write labels with their values, such as { zone: eu, disk: [ssd, nvme] }";
        let entries = self.entries(item, hint);
        self.at_most(item, entries.len(), "constraints");
        let mut constraints = Vec::with_capacity(entries.len());
        for (label, value, position) in entries {
            let parts_fit = label.split('/').all(|part| bad_name(part).is_none());
            if !parts_fit || label.len() > NAME_BYTES_MAX {
                let mut problem = value.problem(
                    Kind::BadName,
                    format!("{} is not a valid label name", quote(label)),
                    "use a name such as `zone` or `disk/kind`",
                );
                problem.position = position;
                self.problems.push(problem);
                continue;
            }
            if let Some(rule) = self.rule(&value) {
                constraints.push(Constraint {
                    label: label.to_owned(),
                    rule,
                });
            }
        }
        // Not every format keeps the order of a map, and it has no meaning.
        constraints.sort();
        constraints
    }

    /// Reads the fleets of the attempts. A constraint on their label beside them would contradict them, or
    /// say the same.
    pub(super) fn fleets(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let Some(item) = fields.get("fleets") else {
            return Vec::new();
        };
        let constraints = fields.get("constraints");
        let fallback = fields.get("retry").and_then(|retry| {
            let item = Fields {
                item: retry.clone(),
                entries: retry.tree.entries(),
                table: &RETRY,
            };
            item.get("fallback")
        });
        let places = match fallback.as_ref().map(|item| &item.tree.value) {
            Some(Value::List(places)) => places.as_slice(),
            _ => &[],
        };
        let mut trees = constraints.iter().map(|item| item.tree).chain(places);
        if trees.any(|tree| tree.has(FLEET_LABEL)) {
            self.note(
                &item,
                Kind::Conflict,
                "a task has either `fleets` or constraints on the label `fleet`".to_owned(),
                "remove the constraints on `fleet`: `fleets` adds one to each attempt",
            );
            return Vec::new();
        }
        let hint = "write the names of fleets in the order of attempts, such as [short, long]";
        let items = self.steps(&item, hint);
        items.iter().filter_map(|item| self.name(item)).collect()
    }

    fn rule(&mut self, item: &Item<'_>) -> Option<Rule> {
        match &item.tree.value {
            Value::Bool(true) => Some(Rule::Present),
            Value::Bool(false) => Some(Rule::Absent),
            Value::Map(_) => {
                let fields = self.fields(item, &CONSTRAINT, |_| None)?;
                match fields.get("not") {
                    Some(not) => self.values(&not).map(Rule::NoneOf),
                    None => {
                        self.missing(&fields, "not", RULE_HINT);
                        None
                    }
                }
            }
            Value::Null => {
                self.wrong_type(item, "a value for the label", RULE_HINT);
                None
            }
            Value::String(_) | Value::Number(_) | Value::List(_) => {
                self.values(item).map(Rule::OneOf)
            }
        }
    }

    /// Reads one value or a non-empty list.
    fn values(&mut self, item: &Item<'_>) -> Option<BTreeSet<String>> {
        if !matches!(item.tree.value, Value::List(_)) {
            return Some(BTreeSet::from([self.value(item)?]));
        }
        let items = self.list(item, RULE_HINT);
        self.at_most(item, items.len(), "values");
        if items.is_empty() {
            let message = "the list of values is empty".to_owned();
            self.note(item, Kind::BadValue, message, RULE_HINT);
        }
        let values: BTreeSet<String> = items.iter().filter_map(|item| self.value(item)).collect();
        (!values.is_empty()).then_some(values)
    }

    fn value(&mut self, item: &Item<'_>) -> Option<String> {
        match &item.tree.value {
            Value::Number(text) => Some(text.clone()),
            Value::String(_) => self.text(item, VALUE_HINT).map(str::to_owned),
            _ => {
                self.wrong_type(item, "a string", VALUE_HINT);
                None
            }
        }
    }

    fn at_most(&mut self, item: &Item<'_>, count: usize, what: &str) {
        if count > CONSTRAINTS_MAX {
            self.note(
                item,
                Kind::TooLarge,
                format!("{count} {what} are listed, at most {CONSTRAINTS_MAX} are allowed"),
                "give the workers one label that covers them all",
            );
        }
    }
}
