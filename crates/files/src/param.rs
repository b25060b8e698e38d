//! Parameters and their types.
//!
//! A value is a string everywhere: in templates, in variables, on a command line. Its kind
//! restricts the strings, and [`ParamKind::canonicalize`] returns their canonical spelling, so
//! that programs can compare values. `read::params` parses declarations; `binding` applies
//! arguments.

use std::fmt;
use std::num::IntErrorKind;

use serde::{Deserialize, Serialize};

use crate::error::{Kind, quote};
use crate::suggest;

/// A parameter of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Param {
    #[serde(flatten)]
    pub kind: ParamKind,
    /// `None` for a required parameter.
    #[serde(default)]
    pub default: Option<String>,
    /// Whether the default is a template that refers to the nominal time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nominal: bool,
    /// The description in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The type of a parameter, with its bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ParamKind {
    /// Any string.
    #[default]
    String,
    /// An integer.
    Int {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<i64>,
    },
    /// A number. It keeps its digits: `1.10` stays `1.10`.
    Float {
        /// A finite number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// A finite number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    /// `true` or `false`.
    Bool,
    /// A JSON list.
    List,
    /// One of a list of strings.
    OneOf {
        /// Not empty, without duplicates.
        one_of: Vec<String>,
    },
}

/// The error of a value that does not match its kind.
pub(crate) struct ParamError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl ParamKind {
    /// Returns a valid value; `None` if every string is valid.
    #[must_use]
    pub fn example(&self) -> Option<String> {
        match self {
            Self::String => None,
            Self::Int { min, max } => {
                let lowest = 0.max(min.unwrap_or(i64::MIN));
                Some(lowest.min(max.unwrap_or(i64::MAX)).to_string())
            }
            Self::Float { min, max } => {
                let lowest = 0_f64.max(min.unwrap_or(f64::MIN));
                Some(lowest.min(max.unwrap_or(f64::MAX)).to_string())
            }
            Self::Bool => Some(false.to_string()),
            Self::List => Some("[]".to_owned()),
            Self::OneOf { one_of } => one_of.first().cloned(),
        }
    }

    /// Returns the canonical spelling of a value. `verb` begins the hint: `write` for a file,
    /// `pass` for an argument.
    pub(crate) fn canonicalize(&self, text: &str, verb: &str) -> Result<String, ParamError> {
        let canonical = match self {
            Self::String => Ok(text.to_owned()),
            Self::Int { min, max } => integer(text).and_then(|number| {
                within(&number, min.as_ref(), max.as_ref())?;
                Ok(number.to_string())
            }),
            Self::Float { min, max } => finite(text).and_then(|number| {
                within(&number, min.as_ref(), max.as_ref())?;
                Ok(text.strip_prefix('+').unwrap_or(text).to_owned())
            }),
            Self::Bool => match &*text.to_ascii_lowercase() {
                truth @ ("true" | "false") => Ok(truth.to_owned()),
                _ => Err((Kind::BadValue, "is not a boolean".to_owned())),
            },
            Self::List => list(text),
            Self::OneOf { one_of } => {
                if one_of.iter().any(|value| value == text) {
                    Ok(text.to_owned())
                } else {
                    Err((Kind::BadValue, "is not an allowed value".to_owned()))
                }
            }
        };
        canonical.map_err(|(kind, reason)| ParamError {
            kind,
            message: format!("{} {reason}", quote(text)),
            hint: match self.nearest(text) {
                Some(value) => format!("did you mean {}?", quote(value)),
                None => format!("{verb} {self}"),
            },
        })
    }

    fn nearest(&self, text: &str) -> Option<&str> {
        match self {
            Self::OneOf { one_of } => suggest::nearest(text, one_of.iter().map(String::as_str)),
            _ => None,
        }
    }
}

impl fmt::Display for ParamKind {
    /// For a sentence: `an integer from 1 to 10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("a string"),
            Self::Int { min, max } => {
                f.write_str("an integer")?;
                bounds(f, min.as_ref(), max.as_ref())
            }
            Self::Float { min, max } => {
                f.write_str("a number")?;
                bounds(f, min.as_ref(), max.as_ref())
            }
            Self::Bool => f.write_str("true or false"),
            Self::List => f.write_str("a JSON list, or values separated by commas"),
            Self::OneOf { one_of } => {
                let values = one_of.iter().map(String::as_str);
                write!(f, "one of: {}", suggest::list(values))
            }
        }
    }
}

fn bounds<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    min: Option<&T>,
    max: Option<&T>,
) -> fmt::Result {
    match (min, max) {
        (Some(min), Some(max)) => write!(f, " from {min} to {max}"),
        (Some(min), None) => write!(f, " of at least {min}"),
        (None, Some(max)) => write!(f, " of at most {max}"),
        (None, None) => Ok(()),
    }
}

/// The kind of a problem and the predicate that follows the quoted value.
type Violation = (Kind, String);

fn integer(text: &str) -> Result<i64, Violation> {
    text.parse()
        .map_err(|error: std::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                (Kind::OutOfRange, "does not fit into 64 bits".to_owned())
            }
            _ => (Kind::BadValue, "is not an integer".to_owned()),
        })
}

/// The JSON list of a value that is one, or of strings that are separated by commas.
fn list(text: &str) -> Result<String, Violation> {
    if text.trim_start().starts_with('[') {
        let values: Result<Vec<serde_json::Value>, _> = serde_json::from_str(text);
        let values = values.map_err(|error| (Kind::BadValue, format!("is not JSON: {error}")))?;
        return Ok(serde_json::Value::from(values).to_string());
    }
    let values = text.split(',').map(str::trim);
    let values: Vec<&str> = values.filter(|_| !text.trim().is_empty()).collect();
    Ok(serde_json::Value::from(values).to_string())
}

/// Parses a number in digits: few programs accept `inf` and `nan`.
pub(crate) fn finite(text: &str) -> Result<f64, Violation> {
    let digits = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let number = text.parse::<f64>().ok().filter(|_| digits);
    match number {
        Some(number) if number.is_finite() => Ok(number),
        Some(_) => Err((Kind::OutOfRange, "is too large".to_owned())),
        None => Err((Kind::BadValue, "is not a number".to_owned())),
    }
}

fn within<T: PartialOrd + fmt::Display>(
    number: &T,
    min: Option<&T>,
    max: Option<&T>,
) -> Result<(), Violation> {
    let low = min.filter(|min| number < *min);
    let high = max.filter(|max| number > *max);
    let reason = match (low, high) {
        (Some(min), _) => format!("is less than {min}"),
        (None, Some(max)) => format!("is more than {max}"),
        (None, None) => return Ok(()),
    };
    Err((Kind::OutOfRange, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(min: Option<i64>, max: Option<i64>) -> ParamKind {
        ParamKind::Int { min, max }
    }

    fn float(min: Option<f64>, max: Option<f64>) -> ParamKind {
        ParamKind::Float { min, max }
    }

    fn one_of(values: &[&str]) -> ParamKind {
        ParamKind::OneOf {
            one_of: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    fn fit(kind: &ParamKind, text: &str) -> Result<String, String> {
        let error = |error: ParamError| format!("{}: {}", error.message, error.hint);
        kind.canonicalize(text, "pass").map_err(error)
    }

    #[test]
    fn a_value_that_fits_has_one_spelling() {
        for (kind, text, expected) in [
            (ParamKind::String, " +007 ", " +007 "),
            (int(None, None), "+007", "7"),
            (int(None, None), "-0", "0"),
            (int(Some(-3), Some(-3)), "-03", "-3"),
            (
                int(None, None),
                "-9223372036854775808",
                "-9223372036854775808",
            ),
            (float(None, None), "+1.10", "1.10"),
            (float(Some(0.0), Some(1e3)), "1E3", "1E3"),
            (ParamKind::Bool, "TRUE", "true"),
            (ParamKind::Bool, "false", "false"),
            (one_of(&["fast", ""]), "", ""),
            (ParamKind::List, "eu, us", r#"["eu","us"]"#),
            (ParamKind::List, "", "[]"),
            (ParamKind::List, r#" [ 1, {"a": "b"} ]"#, r#"[1,{"a":"b"}]"#),
        ] {
            assert_eq!(fit(&kind, text).as_deref(), Ok(expected), "{kind}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_hint() {
        for (kind, text, expected) in [
            (int(None, None), "", "`` is not an integer: pass an integer"),
            (
                int(None, None),
                " 1",
                "` 1` is not an integer: pass an integer",
            ),
            (
                int(Some(1), None),
                "1.0",
                "`1.0` is not an integer: pass an integer of at least 1",
            ),
            (
                int(Some(1), Some(10)),
                "0",
                "`0` is less than 1: pass an integer from 1 to 10",
            ),
            (
                int(None, Some(10)),
                "11",
                "`11` is more than 10: pass an integer of at most 10",
            ),
            (
                int(None, None),
                "9223372036854775808",
                "`9223372036854775808` does not fit into 64 bits: pass an integer",
            ),
            (
                float(None, None),
                "inf",
                "`inf` is not a number: pass a number",
            ),
            (
                float(None, None),
                "NaN",
                "`NaN` is not a number: pass a number",
            ),
            (float(None, None), "-", "`-` is not a number: pass a number"),
            (
                float(None, None),
                "1e999",
                "`1e999` is too large: pass a number",
            ),
            (
                float(Some(0.5), None),
                "0.49",
                "`0.49` is less than 0.5: pass a number of at least 0.5",
            ),
            (
                ParamKind::Bool,
                "yes",
                "`yes` is not a boolean: pass true or false",
            ),
            (
                one_of(&["fast", "full"]),
                "fsat",
                "`fsat` is not an allowed value: did you mean `fast`?",
            ),
            (
                one_of(&["fast", "full"]),
                "slow",
                "`slow` is not an allowed value: pass one of: fast, full",
            ),
        ] {
            assert_eq!(fit(&kind, text), Err(expected.to_owned()), "{kind}");
        }
    }

    #[test]
    fn an_example_fits() {
        for kind in [
            int(None, None),
            int(Some(3), None),
            int(None, Some(-3)),
            float(Some(0.5), Some(1.5)),
            float(None, Some(-1e300)),
            ParamKind::Bool,
            one_of(&["b", "a"]),
        ] {
            let example = kind.example().expect("it is not any text");
            assert!(fit(&kind, &example).is_ok(), "{kind}: {example}");
        }
        assert_eq!(ParamKind::String.example(), None);
    }

    #[test]
    fn the_form_for_programs_has_flat_fields_and_reads_back() {
        let param = Param {
            kind: int(Some(1), None),
            default: Some("3".to_owned()),
            ..Param::default()
        };
        let json = serde_json::to_value(&param).expect("plain data");
        let expected = serde_json::json!({ "type": "int", "min": 1, "default": "3" });
        assert_eq!(json, expected);
        for kind in [
            param.kind.clone(),
            float(Some(0.1), Some(2.0)),
            one_of(&["a"]),
            ParamKind::String,
            ParamKind::Bool,
        ] {
            let param = Param {
                kind,
                ..param.clone()
            };
            let json = serde_json::to_value(&param).expect("plain data");
            let again: Param = baton_model::json::from_value(&json).expect("same shape");
            assert_eq!(again, param);
        }
    }
}
