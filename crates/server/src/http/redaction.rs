//! Environment values are for operators and admins: they often are secrets.
//!
//! Viewers see the names of variables, and [`MASK`] in place of each value, in every representation that
//! has an environment: timelines, events, and definitions of the library.

use std::borrow::Cow;

use baton_model::api::Representation;
use baton_model::token::Role;
use serde::Serialize;
use serde_json::Value;

use crate::access::Caller;

/// Stands for a value.
pub(super) const MASK: &str = "***";

/// The key of an environment, in files, specifications and facts.
const ENVIRONMENT: &str = "env";
/// The key of a file as JSON text, in the facts of definitions.
const SOURCE: &str = "source";

/// A representation as a caller may see it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Visible<'a, T> {
    Whole(&'a T),
    Masked(Value),
}

impl<T: Representation> Representation for Visible<'_, T> {
    fn schema() -> Cow<'static, str> {
        T::schema()
    }

    fn schema_of(&self) -> Cow<'static, str> {
        match self {
            Self::Whole(body) => body.schema_of(),
            Self::Masked(_) => T::schema(),
        }
    }
}

/// Masks the environments of a representation, unless the caller may see them.
pub(super) fn visible<'a, T: Serialize>(caller: &Caller, body: &'a T) -> Visible<'a, T> {
    if caller.role.covers(Role::Operator) {
        return Visible::Whole(body);
    }
    // Plain data always serializes.
    let mut value = serde_json::to_value(body).unwrap_or_default();
    mask(&mut value);
    Visible::Masked(value)
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Object(variables) if key == ENVIRONMENT => {
                        for value in variables.values_mut() {
                            *value = MASK.into();
                        }
                    }
                    Value::String(text) if key == SOURCE => mask_source(text),
                    value => mask(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

fn mask_source(text: &mut String) {
    if let Ok(mut file @ Value::Object(_)) = serde_json::from_str(text) {
        mask(&mut file);
        *text = file.to_string();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_masked_at_every_depth_and_names_stay() {
        let source = json!({ "run": "x", "env": { "A": "secret" } }).to_string();
        let mut value = json!({
            "items": [{ "fact": { "defined": { "source": source, "spec": { "env": { "B": "secret" } } } } }],
            "processes": [{ "env": { "C": "secret", "D": "" }, "run": "y" }],
            "params": { "env": "prod" },
        });
        mask(&mut value);
        let text = value.to_string();
        assert!(!text.contains("secret"), "{text}");
        for name in ["A", "B", "C", "D"] {
            let shown = format!("\"{name}\"");
            assert!(text.replace('\\', "").contains(&shown), "{name}: {text}");
        }
        assert_eq!(value["params"]["env"], "prod");
        assert_eq!(value["processes"][0]["env"]["D"], "***");
    }
}
