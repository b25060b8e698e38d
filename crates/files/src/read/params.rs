//! Parameters: a default value, or a map with type and bounds.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::clock::{Zone, nominal};
use baton_core::workflow::params;
use baton_model::library::Trigger;
use baton_model::time::Wall;
use serde::Deserialize;

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::CHOICES_MAX;
use crate::param::{self, Param, ParamKind};
use crate::schema::task::PARAM;
use crate::source;
use crate::template::{self, is_name};
use crate::tree::Value;

const PARAMS_HINT: &str = "write parameters with their defaults, such as { day: yesterday }";
const PARAM_HINT: &str =
    "write a default, null for a required parameter, or a map such as { type: int }";
const DEFAULT_HINT: &str =
    "write the value itself, or remove `default` to make the parameter required";
const CHOICES_HINT: &str = "write a list of strings, such as [fast, full]";

/// The values of `type`.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Type {
    String,
    Int,
    Float,
    Bool,
    List,
}

impl Reader {
    pub(super) fn params(&mut self, item: &Item<'_>) -> BTreeMap<String, Param> {
        let mut params = BTreeMap::new();
        let mut variables: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value, position) in self.entries(item, PARAMS_HINT) {
            let other = variables.insert(params::variable(name), name);
            let reason = if !is_name(name) {
                Some("is not a valid parameter name".to_owned())
            } else {
                other.map(|other| {
                    format!(
                        "differs from {} only in case or in `-` and `_`",
                        quote(other)
                    )
                })
            };
            if let Some(reason) = reason {
                let mut problem = value.problem(
                    Kind::BadName,
                    format!("{} {reason}", quote(name)),
                    "use letters, digits, `_` and `-`, and names that differ in more than case and dashes",
                );
                problem.position = position;
                self.problems.push(problem);
                continue;
            }
            if let Some(param) = self.param(&value) {
                params.insert(name.to_owned(), param);
            }
        }
        params
    }

    /// Reports each required parameter of a task that a schedule or another task starts.
    /// `item` is the map that `params` were read from.
    pub(super) fn check_unattended_params(
        &mut self,
        item: &Item<'_>,
        params: &BTreeMap<String, Param>,
        trigger: &Trigger,
    ) {
        let starter = match trigger {
            Trigger {
                schedule: Some(_), ..
            } => "its schedule",
            Trigger { after, .. } if !after.is_empty() => "`after`",
            _ => return,
        };
        // `params` may not be a map, which is already reported.
        if params.is_empty() {
            return;
        }
        for (name, value, position) in self.entries(item, PARAMS_HINT) {
            let is_open = |param: &Param| param.default.is_none();
            if params.get(name).is_some_and(is_open) {
                let mut problem = value.problem(
                    Kind::MissingField,
                    format!(
                        "the parameter {} has no default, but {starter} starts it and passes no \
                         parameters",
                        quote(name)
                    ),
                    match value.tree.value {
                        Value::Map(_) => "add `default: VALUE`".to_owned(),
                        _ => format!("write a default: `{name}: VALUE`"),
                    },
                );
                problem.position = position;
                self.problems.push(problem);
            }
        }
    }

    fn param(&mut self, item: &Item<'_>) -> Option<Param> {
        if !matches!(item.tree.value, Value::Map(_)) {
            let kind = match item.tree.value {
                Value::List(_) => ParamKind::List,
                _ => ParamKind::String,
            };
            let (default, is_nominal) = self.default(item, &kind, PARAM_HINT)?;
            return Some(Param {
                default,
                is_nominal,
                kind,
                description: None,
            });
        }
        let fields = self.fields(item, &PARAM, |_| None)?;
        let kind = self.kind(&fields);
        let description = fields.get("description").and_then(|item| {
            let hint = "write one sentence about the parameter";
            self.text(&item, hint).map(str::to_owned)
        });
        let kind = kind?;
        let (default, is_nominal) = match fields.get("default") {
            Some(item) => self.default(&item, &kind, DEFAULT_HINT)?,
            None => (None, false),
        };
        Some(Param {
            default,
            is_nominal,
            kind,
            description,
        })
    }

    /// Returns the default, if there is one, and whether it refers to the nominal time; `None` for
    /// an invalid one.
    fn default(
        &mut self,
        item: &Item<'_>,
        kind: &ParamKind,
        hint: &str,
    ) -> Option<(Option<String>, bool)> {
        if matches!(item.tree.value, Value::Null) {
            return Some((None, false));
        }
        if *kind == ParamKind::List && matches!(item.tree.value, Value::List(_)) {
            let before = self.problems.len();
            template::reject_templates(item, &mut self.problems);
            let list = source::value_to_json(item.tree).to_string();
            return (self.problems.len() == before).then_some((Some(list), false));
        }
        let text = self.scalar_text(item, hint)?;
        let text = match self.nominal_default(item, kind, text)? {
            (text, true) => return Some((Some(text), true)),
            (text, false) => text,
        };
        match kind.canonicalize(&text, "write") {
            Ok(text) => Some((Some(text), false)),
            Err(error) => {
                self.note(item, error.kind, error.message, error.hint);
                None
            }
        }
    }

    /// Returns a default that refers to the nominal time as it is, any other without escapes. It
    /// cannot refer to anything else.
    fn nominal_default(
        &mut self,
        item: &Item<'_>,
        kind: &ParamKind,
        text: String,
    ) -> Option<(String, bool)> {
        match nominal::check(&text) {
            Err(error) => {
                self.note(item, Kind::Template, error.message, error.hint);
                None
            }
            Ok(false) => Some((nominal::render(&text, Wall(0), &Zone::UTC), false)),
            Ok(true) if *kind != ParamKind::String => {
                let message = "only a string can refer to the nominal time".to_owned();
                let hint = "remove `type` and `one_of`, or write the value itself";
                self.note(item, Kind::Template, message, hint);
                None
            }
            Ok(true) => Some((text, true)),
        }
    }

    fn kind(&mut self, fields: &Fields<'_>) -> Option<ParamKind> {
        let named: Type = self.word_field(fields, "type")?;
        if let Some(choices) = fields.get("one_of") {
            if named != Type::String {
                self.problems.push(fields.key_problem(
                    "one_of",
                    Kind::Conflict,
                    "`one_of` needs `type: string`".to_owned(),
                    "remove `type`, or use `min` and `max` instead of `one_of`",
                ));
                return None;
            }
            self.unbounded(fields)?;
            return self.choices(&choices);
        }
        match named {
            Type::String | Type::Bool | Type::List => {
                self.unbounded(fields)?;
                Some(match named {
                    Type::Bool => ParamKind::Bool,
                    Type::List => ParamKind::List,
                    _ => ParamKind::String,
                })
            }
            Type::Int => {
                let whole =
                    |reader: &mut Self, item: &Item<'_>| reader.integer(item, i64::MIN, i64::MAX);
                let (min, max) = self.bounds_of(fields, whole)?;
                Some(ParamKind::Int { min, max })
            }
            Type::Float => {
                let (min, max) = self.bounds_of(fields, Self::number)?;
                Some(ParamKind::Float { min, max })
            }
        }
    }

    /// Reports bounds of a type without bounds.
    fn unbounded(&mut self, fields: &Fields<'_>) -> Option<()> {
        let before = self.problems.len();
        for name in ["min", "max"] {
            if fields.has(name) {
                self.problems.push(fields.key_problem(
                    name,
                    Kind::Conflict,
                    format!("`{name}` needs a numeric type"),
                    "write `type: int` or `type: float`, or remove it",
                ));
            }
        }
        (self.problems.len() == before).then_some(())
    }

    fn bounds_of<T: PartialOrd + std::fmt::Display>(
        &mut self,
        fields: &Fields<'_>,
        read: impl Fn(&mut Self, &Item<'_>) -> Option<T>,
    ) -> Option<(Option<T>, Option<T>)> {
        let before = self.problems.len();
        let min = fields.get("min").and_then(|item| read(self, &item));
        let max = fields.get("max").and_then(|item| read(self, &item));
        if let (Some(low), Some(high)) = (&min, &max)
            && low > high
        {
            self.problems.push(fields.key_problem(
                "max",
                Kind::OutOfRange,
                format!("min {low} is greater than max {high}"),
                "swap `min` and `max`",
            ));
        }
        (self.problems.len() == before).then_some((min, max))
    }

    fn number(&mut self, item: &Item<'_>) -> Option<f64> {
        const HINT: &str = "write a number, such as 0.5";
        let Value::Number(text) = &item.tree.value else {
            self.wrong_type(item, "a number", HINT);
            return None;
        };
        match param::finite(text) {
            Ok(number) => Some(number),
            Err((kind, reason)) => {
                self.note(item, kind, format!("{} {reason}", quote(text)), HINT);
                None
            }
        }
    }

    fn choices(&mut self, item: &Item<'_>) -> Option<ParamKind> {
        let before = self.problems.len();
        let items = self.list(item, CHOICES_HINT);
        if items.len() > CHOICES_MAX {
            let message = format!(
                "{} values are listed, at most {CHOICES_MAX} are allowed",
                items.len()
            );
            let hint = "remove `one_of` and check the value in the task";
            self.note(item, Kind::TooLarge, message, hint);
            return None;
        }
        if items.is_empty() && self.problems.len() == before {
            let message = "the list of values is empty".to_owned();
            self.note(item, Kind::BadValue, message, CHOICES_HINT);
        }
        let mut one_of = Vec::with_capacity(items.len());
        let mut known = BTreeSet::new();
        for item in &items {
            template::reject_template(item, &mut self.problems);
            let Some(value) = self.scalar_text(item, CHOICES_HINT) else {
                continue;
            };
            if !known.insert(value.clone()) {
                let message = format!("{} is listed twice", quote(&value));
                self.note(item, Kind::DuplicateName, message, "remove one of them");
            }
            one_of.push(value);
        }
        (self.problems.len() == before).then_some(ParamKind::OneOf { one_of })
    }
}
