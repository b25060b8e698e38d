//! Filters of lists, read from the parameters of a request.
//!
//! The structs are those of [`baton_model::api`]. Their fields are the parameters that a list supports,
//! beside those of its pages; another parameter is an error. `since` and `until` are times, and `state`
//! is one of the states of the list, in any case.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use baton_model::state::UniversalState;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::extract::{Parameters, short};
use super::problem::{Answer, Fault};

/// Reads a filter, and the other parameters that a list supports.
pub(super) fn read<F: DeserializeOwned>(
    uri: &Uri,
    states: &[UniversalState],
    others: &[&str],
) -> Answer<(F, Parameters)> {
    let known = [field_names::<F>(), others].concat();
    let parameters = Parameters::of(uri, &known)?;
    let fields = field_names::<F>().iter().filter_map(|name| {
        let text = parameters.text(name)?;
        let parameter = ParameterText {
            name,
            text,
            states,
            parameters: &parameters,
        };
        Some((*name, parameter))
    });
    let filter = F::deserialize(MapDeserializer::new(fields));
    let filter = filter.map_err(|Error(fault)| fault)?;
    Ok((filter, parameters))
}

/// The names of the fields of a struct.
fn field_names<F: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It only asks for the fields, and fails.
    let _ = F::deserialize(FieldNames(&mut names));
    names
}

/// The error of a deserializer: the response to the request.
#[derive(Debug)]
struct Error(Fault);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.detail())
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Fault::bad_request(message.to_string()))
    }
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("no values"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The text of one parameter.
#[derive(Clone, Copy)]
struct ParameterText<'a> {
    name: &'static str,
    text: &'a str,
    states: &'a [UniversalState],
    parameters: &'a Parameters,
}

impl ParameterText<'_> {
    /// A number; a time is the number of its milliseconds.
    fn number<T: FromStr + TryFrom<u64>>(self) -> Result<T, Error> {
        let number = match self.name {
            "since" | "until" => {
                let time = self.parameters.time(self.name);
                time.map(|time| time.and_then(|time| T::try_from(time.0).ok()))
            }
            name => self.parameters.number(name),
        };
        let missing = || Error::custom(format!("{} has no value", self.name));
        number.map_err(Error)?.ok_or_else(missing)
    }

    fn state(self) -> Result<&'static str, Error> {
        let words = || self.states.iter().map(|state| state.word());
        let found = words().find(|word| word.eq_ignore_ascii_case(self.text));
        found.ok_or_else(|| {
            let words: Vec<&str> = words().collect();
            Error::custom(format!(
                "this list has no {} {:?}; supported: {}",
                self.name,
                short(self.text),
                words.join(", ")
            ))
        })
    }
}

impl<'de> IntoDeserializer<'de, Error> for ParameterText<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ParameterText<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(self.number()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.number()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.state()?.into_deserializer())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use baton_model::api::{InstanceFilter, ItemFilter, query_pairs};
    use baton_model::time::Wall;

    use super::*;

    fn of<F: DeserializeOwned>(query: &str) -> Result<F, String> {
        let uri: Uri = format!("/list?{query}").parse().expect("a URI");
        let states = [UniversalState::Done, UniversalState::Failed];
        let read = read(&uri, &states, &["cursor"]);
        read.map(|(filter, _)| filter)
            .map_err(|fault| fault.detail().to_owned())
    }

    #[test]
    fn a_filter_is_read_as_clients_write_it() {
        let filter = InstanceFilter {
            state: Some(UniversalState::Failed),
            owner: Some("a".to_owned()),
            name: Some("b-c".to_owned()),
            worker: Some("w1".to_owned()),
            since: Some(Wall(17)),
            until: Some(Wall(18)),
            ..InstanceFilter::default()
        };
        let pairs = query_pairs(&filter).into_iter();
        let pairs: Vec<String> = pairs.map(|(name, it)| format!("{name}={it}")).collect();
        assert_eq!(of(&pairs.join("&")), Ok(filter));
        let none = of::<InstanceFilter>("cursor=x");
        assert_eq!(none, Ok(InstanceFilter::default()));
        let item = ItemFilter {
            item: Some(3),
            ..ItemFilter::default()
        };
        assert_eq!(of("item=3"), Ok(item));
    }

    #[test]
    fn times_and_states_are_read_as_people_write_them() {
        let filter: InstanceFilter = of("since=1970-01-02&state=failed").expect("valid");
        assert_eq!(filter.since, Some(Wall(86_400_000)));
        assert_eq!(filter.state, Some(UniversalState::Failed));
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (query, error) in [
            (
                "colour=red",
                "unknown parameter \"colour\"; supported: task, item, state, cursor",
            ),
            ("task=a&task=b", "the parameter task is repeated"),
            ("item=x", "item must be a number, not \"x\""),
            ("item=-1", "item must be a number, not \"-1\""),
            (
                "item=4294967296",
                "item must be a number, not \"4294967296\"",
            ),
            (
                "state=QUEUED",
                "this list has no state \"QUEUED\"; supported: DONE, FAILED",
            ),
        ] {
            assert_eq!(of::<ItemFilter>(query), Err(error.to_owned()), "{query}");
        }
        let error = of::<InstanceFilter>("since=soon").expect_err("no time");
        assert!(error.starts_with("since: "), "{error}");
    }
}
