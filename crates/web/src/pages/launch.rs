//! The form that launches an entry: a field for each parameter, by its type.
//!
//! A field sends a string, as the API expects it, and nothing if it is unchanged: a default may refer
//! to the time of the launch, which an argument cannot. A list is sent as lines.

use std::collections::BTreeMap;

use baton_model::api::Problem;
use serde_json::Value;

use crate::markup::{Markup, escape};

/// The form of an entry.
#[derive(Debug, Default)]
pub struct LaunchForm {
    /// The operation: `POST /ann/tasks/daily/run`.
    pub target: String,
    pub fields: Vec<Field>,
    /// Why a launch was refused, if no field tells it.
    pub problem: Option<String>,
}

/// A launch that the API has refused: what was typed, by parameter, and why.
#[derive(Debug)]
pub struct Refusal {
    pub typed: BTreeMap<String, String>,
    pub problem: Problem,
}

/// A parameter, as a field of the form.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub control: Control,
    /// The text of an unchanged field.
    pub default: String,
    /// The text of the field: the default, or what was typed.
    pub value: String,
    pub is_required: bool,
    pub description: String,
    /// Its type and its bounds in words.
    pub note: String,
    pub error: Option<String>,
}

/// The control of a field.
#[derive(Debug, PartialEq, Eq)]
pub enum Control {
    Text,
    /// A text of several lines.
    Lines,
    /// A day, as `2026-01-31`.
    Date,
    Number {
        min: String,
        max: String,
        /// `1` or `any`.
        step: &'static str,
    },
    Checkbox,
    Select(Vec<String>),
    /// The values of a list, one in each line.
    List,
}

impl LaunchForm {
    /// The form of a definition, after a launch that was refused, if there was one.
    #[must_use]
    pub fn new(target: String, definition: &Value, refusal: Option<Refusal>) -> Self {
        let params = definition.get("params").and_then(Value::as_object);
        let params = params.into_iter().flatten();
        let mut fields: Vec<Field> = params
            .map(|(name, value)| Field::new(name, value))
            .collect();
        let Some(Refusal { mut typed, problem }) = refusal else {
            return Self {
                target,
                fields,
                problem: None,
            };
        };
        let mut others = problem.errors;
        for field in &mut fields {
            if let Some(typed) = typed.remove(&field.name) {
                field.value = typed;
            }
            let path = format!("params.{}", field.name);
            let mine = others.iter().position(|error| error.field == path);
            field.error = mine.map(|at| sentence(&others.remove(at).message));
        }
        let is_told = others.is_empty() && fields.iter().any(|field| field.error.is_some());
        let others = others
            .iter()
            .map(|it| format!("{}: {}", it.field, it.message));
        let others: Vec<String> = others.collect();
        let detail = [problem.detail].into_iter().chain(others);
        Self {
            target,
            fields,
            problem: (!is_told).then(|| detail.collect::<Vec<_>>().join("; ")),
        }
    }
}

impl Field {
    fn new(name: &str, value: &Value) -> Self {
        let details = value.as_object();
        let detail = |field: &str| details.and_then(|details| details.get(field));
        let default = if details.is_some() {
            detail("default")
        } else {
            Some(value)
        };
        let default = default.filter(|default| !default.is_null());
        let bound = |name: &str| detail(name).map(plain).unwrap_or_default();
        let (min, max) = (bound("min"), bound("max"));
        let kind = match detail("type").and_then(Value::as_str) {
            None if value.is_array() => "list",
            kind => kind.unwrap_or("string"),
        };
        let choices = detail("one_of").and_then(Value::as_array);
        let text = default.map(|default| match default {
            Value::Array(values) => lines(values),
            other => plain(other),
        });
        let text = text.unwrap_or_default();
        let (control, note) = match (kind, choices) {
            (_, Some(choices)) => (
                Control::Select(choices.iter().map(plain).collect()),
                String::new(),
            ),
            ("int", _) => {
                let note = bounded("an integer", &min, &max);
                (
                    Control::Number {
                        min,
                        max,
                        step: "1",
                    },
                    note,
                )
            }
            ("float", _) => {
                let note = bounded("a number", &min, &max);
                (
                    Control::Number {
                        min,
                        max,
                        step: "any",
                    },
                    note,
                )
            }
            // A checkbox always has a value.
            ("bool", _) if default.is_none() => {
                let both = ["true", "false"].map(str::to_owned);
                (Control::Select(both.to_vec()), String::new())
            }
            ("bool", _) => (Control::Checkbox, String::new()),
            ("list", _) => (
                Control::List,
                "one value in each line, or a JSON list".to_owned(),
            ),
            _ if is_nominal(&text) => {
                return Self::nominal(name, &text, bound("description"));
            }
            _ if text.contains('\n') => (Control::Lines, String::new()),
            _ => (Control::Text, String::new()),
        };
        Self {
            name: name.to_owned(),
            control,
            is_required: default.is_none(),
            value: text.clone(),
            default: text,
            description: bound("description"),
            note,
            error: None,
        }
    }

    /// A parameter whose default refers to the time of the launch: an empty field stands for it.
    fn nominal(name: &str, default: &str, description: String) -> Self {
        let is_day = default.ends_with("as %Y-%m-%d }}");
        Self {
            name: name.to_owned(),
            control: if is_day { Control::Date } else { Control::Text },
            default: String::new(),
            value: String::new(),
            is_required: false,
            description,
            note: format!("if empty: {default}"),
            error: None,
        }
    }

    /// Attributes that join its control with its hint and its error.
    #[must_use]
    pub fn attributes(&self) -> Markup {
        let hint = self.has_hint().then(|| format!("hint-{}", self.name));
        let error = self.error.as_ref().map(|_| format!("error-{}", self.name));
        let ids: Vec<String> = hint.into_iter().chain(error).collect();
        let mut attributes = String::new();
        if !ids.is_empty() {
            attributes = format!(" aria-describedby=\"{}\"", escape(&ids.join(" ")));
        }
        if self.error.is_some() {
            attributes.push_str(" aria-invalid=\"true\"");
        }
        Markup(attributes)
    }

    #[must_use]
    pub fn has_hint(&self) -> bool {
        !self.description.is_empty() || !self.note.is_empty()
    }
}

/// Whether a default refers to the time of a launch.
fn is_nominal(text: &str) -> bool {
    text.contains("{{") && text.contains("nominal_time")
}

fn bounded(noun: &str, min: &str, max: &str) -> String {
    match (min, max) {
        ("", "") => noun.to_owned(),
        (min, "") => format!("{noun} of at least {min}"),
        ("", max) => format!("{noun} of at most {max}"),
        (min, max) => format!("{noun} from {min} to {max}"),
    }
}

/// A list as lines, if lines can express it, otherwise as JSON.
fn lines(values: &[Value]) -> String {
    let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
    let is_plain = |text: &&str| !text.is_empty() && text.trim() == *text && !text.contains('\n');
    match texts {
        Some(texts)
            if texts.iter().all(is_plain) && !texts.iter().any(|it| it.starts_with('[')) =>
        {
            texts.join("\n")
        }
        _ => Value::from(values).to_string(),
    }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use baton_model::api::FieldProblem;
    use serde_json::json;

    use super::*;

    fn form(params: Value, refusal: Option<Refusal>) -> LaunchForm {
        LaunchForm::new(String::new(), &json!({ "params": params }), refusal)
    }

    #[test]
    fn a_field_has_the_control_of_its_type() {
        let number = |min: &str, max: &str, step| Control::Number {
            min: min.to_owned(),
            max: max.to_owned(),
            step,
        };
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        for (param, control, value, is_required) in [
            (json!(null), Control::Text, "", true),
            (json!("today"), Control::Text, "today", false),
            (json!(3), Control::Text, "3", false),
            (json!("a\nb"), Control::Lines, "a\nb", false),
            (
                json!({"type": "int", "min": 1, "max": 10}),
                number("1", "10", "1"),
                "",
                true,
            ),
            (
                json!({"type": "float", "min": 0.5, "default": 1.5}),
                number("0.5", "", "any"),
                "1.5",
                false,
            ),
            (
                json!({"type": "bool", "default": true}),
                Control::Checkbox,
                "true",
                false,
            ),
            (
                json!({"type": "bool"}),
                Control::Select(words(&["true", "false"])),
                "",
                true,
            ),
            (
                json!({"one_of": ["fast", "full"], "default": "full"}),
                Control::Select(words(&["fast", "full"])),
                "full",
                false,
            ),
            (json!(["eu", "us"]), Control::List, "eu\nus", false),
            (
                json!({"type": "list", "default": [1, 2]}),
                Control::List,
                "[1,2]",
                false,
            ),
            (
                json!("{{ nominal_time - 1d as %Y-%m-%d }}"),
                Control::Date,
                "",
                false,
            ),
            (json!("{{ nominal_time }}"), Control::Text, "", false),
        ] {
            let field = Field::new("x", &param);
            assert_eq!(
                (&field.control, &*field.value, field.is_required),
                (&control, value, is_required),
                "{param}"
            );
            assert_eq!(field.value, field.default, "{param}");
        }
    }

    #[test]
    fn bounds_are_told_in_words() {
        let note = |param: Value| Field::new("x", &param).note;
        assert_eq!(note(json!({"type": "int"})), "an integer");
        assert_eq!(
            note(json!({"type": "int", "min": 1})),
            "an integer of at least 1"
        );
        assert_eq!(
            note(json!({"type": "float", "min": 0, "max": 1})),
            "a number from 0 to 1"
        );
    }

    #[test]
    fn a_refused_form_keeps_what_was_typed_and_has_each_error_at_its_field() {
        let problem = |errors: Vec<FieldProblem>| Problem {
            kind: "invalid".to_owned(),
            title: "Invalid".to_owned(),
            status: 422,
            detail: "the launch is refused".to_owned(),
            errors,
        };
        let at = |field: &str| FieldProblem {
            field: field.to_owned(),
            message: "it is wrong".to_owned(),
            hint: String::new(),
        };
        let refusal = |errors| Refusal {
            typed: [("n".to_owned(), "11".to_owned())].into(),
            problem: problem(errors),
        };
        let params = json!({"n": {"type": "int", "max": 10, "default": 3}, "m": 1});
        let told = form(params.clone(), Some(refusal(vec![at("params.n")])));
        assert_eq!(told.problem, None);
        let n = &told.fields[1];
        assert_eq!(
            (&*n.value, &*n.default, n.error.as_deref()),
            ("11", "3", Some("It is wrong"))
        );
        let joined = " aria-describedby=\"hint-n error-n\" aria-invalid=\"true\"";
        assert_eq!(n.attributes().0, joined);
        assert_eq!(told.fields[0].value, "1");
        let other = form(params, Some(refusal(vec![at("run")])));
        assert_eq!(
            other.problem.as_deref(),
            Some("the launch is refused; run: it is wrong")
        );
    }
}
