//! What serde would read otherwise: maps whose keys stand once, and values that are there.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Characters of a key that are repeated in an error.
const QUOTED_CHARS_MAX: usize = 60;

/// Texts by name. Of two values of one name nobody knows which is meant.
pub(super) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Texts;

    impl<'de> Visitor<'de> for Texts {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("texts by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut texts = BTreeMap::new();
            while let Some((name, text)) = access.next_entry::<String, String>()? {
                if texts.contains_key(&name) {
                    let name: String = name.chars().take(QUOTED_CHARS_MAX).collect();
                    return Err(A::Error::custom(format!("the key `{name}` stands twice")));
                }
                texts.insert(name, text);
            }
            Ok(texts)
        }
    }

    deserializer.deserialize_map(Texts)
}

/// A value that is there, also if it is `null`.
pub(super) fn present<'de, D, V>(deserializer: D) -> Result<Option<V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    V::deserialize(deserializer).map(Some)
}
