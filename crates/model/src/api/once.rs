//! Stricter deserialization than serde's: maps without duplicate keys, and explicit `null`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Characters of a key that an error quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// Reads a map of strings; refuses duplicate keys, since it is unclear which value is meant.
pub(super) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Texts;

    impl<'de> Visitor<'de> for Texts {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut texts = BTreeMap::new();
            while let Some((name, text)) = access.next_entry::<String, String>()? {
                if texts.contains_key(&name) {
                    let name: String = name.chars().take(QUOTED_CHARS_MAX).collect();
                    return Err(A::Error::custom(format!("the key `{name}` is repeated")));
                }
                texts.insert(name, text);
            }
            Ok(texts)
        }
    }

    deserializer.deserialize_map(Texts)
}

/// Reads a value that is present, even if it is `null`.
pub(super) fn present<'de, D, V>(deserializer: D) -> Result<Option<V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    V::deserialize(deserializer).map(Some)
}
