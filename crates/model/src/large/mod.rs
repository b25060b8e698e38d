//! Numbers above 2⁵³ in JSON.
//!
//! JavaScript, jq and others read a JSON number as a double, which is exact up to 2⁵³ only. Random
//! ids and digests need all 64 bits, so representations of the API carry them as texts of decimal
//! digits. Stores and the worker protocol keep numbers, which earlier versions can read.
//!
//! A field that may be so large has `#[serde(with = "crate::large")]`: it is written as a number,
//! with a mark that [`texts`] recognises, and read from a number or a text. [`texts`] writes a
//! whole value with every marked number as a text.

pub mod pair;
pub mod texts;

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The mark: a name of a newtype, which formats ignore.
const MARK: &str = "$baton::large";

/// Writes a number that may be above 2⁵³.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(MARK, number)
}

/// Reads a number, or a text of its decimal digits.
///
/// # Errors
/// Those of the deserializer, and for a text that is no number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(NumberOrText)
    } else {
        u64::deserialize(deserializer)
    }
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text of its decimal digits")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// A number of a larger value.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Large(#[serde(with = "crate::large")] u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Unit,
        One(Vec<Sample>),
        Two(u64, Option<bool>),
        Fields { at: u64 },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        #[serde(with = "crate::large")]
        id: u64,
        count: u64,
        #[serde(with = "pair")]
        digest: (u64, u64),
        kinds: std::collections::BTreeMap<String, Kind>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Representation {
        #[serde(with = "texts")]
        sample: Sample,
    }

    fn sample(id: u64) -> Sample {
        Sample {
            id,
            count: u64::MAX,
            digest: (1, u64::MAX),
            kinds: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn a_store_has_numbers_and_the_api_texts_and_both_are_read() {
        let mut sample = sample(u64::MAX);
        let inner = |id| Kind::One(vec![self::sample(id)]);
        sample.kinds.insert("a".to_owned(), inner(1 << 60));
        sample
            .kinds
            .insert("b".to_owned(), Kind::Two(5, Some(true)));
        sample.kinds.insert("c".to_owned(), Kind::Fields { at: 6 });
        sample.kinds.insert("d".to_owned(), Kind::Unit);
        let stored = serde_json::to_string(&sample).expect("JSON");
        assert_eq!(
            stored,
            concat!(
                r#"{"id":18446744073709551615,"count":18446744073709551615,"#,
                r#""digest":[1,18446744073709551615],"kinds":{"a":{"One":["#,
                r#"{"id":1152921504606846976,"count":18446744073709551615,"#,
                r#""digest":[1,18446744073709551615],"kinds":{}}]},"#,
                r#""b":{"Two":[5,true]},"c":{"Fields":{"at":6}},"d":"Unit"}}"#
            )
        );
        assert_eq!(
            serde_json::from_str::<Sample>(&stored).ok().as_ref(),
            Some(&sample)
        );

        let sent = Representation { sample };
        let json = serde_json::to_string(&sent).expect("JSON");
        assert_eq!(
            json,
            concat!(
                r#"{"sample":{"id":"18446744073709551615","count":18446744073709551615,"#,
                r#""digest":["1","18446744073709551615"],"kinds":{"a":{"One":["#,
                r#"{"id":"1152921504606846976","count":18446744073709551615,"#,
                r#""digest":["1","18446744073709551615"],"kinds":{}}]},"#,
                r#""b":{"Two":[5,true]},"c":{"Fields":{"at":6}},"d":"Unit"}}}"#
            )
        );
        assert_eq!(serde_json::from_str(&json).ok(), Some(sent));
    }

    #[test]
    fn a_text_that_is_no_number_is_refused() {
        for text in [
            r#""""#,
            r#""+1""#,
            r#""1x""#,
            r#""18446744073709551616""#,
            "-1",
            "1.5",
        ] {
            assert!(serde_json::from_str::<Large>(text).is_err(), "{text}");
        }
    }
}
