//! A digest of 128 bits, as two numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Large;

/// Writes both numbers.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(pair: &(u64, u64), serializer: S) -> Result<S::Ok, S::Error> {
    (Large(pair.0), Large(pair.1)).serialize(serializer)
}

/// Reads both, each from a number or a text.
///
/// # Errors
/// Those of the deserializer, and for a text that is no number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(u64, u64), D::Error> {
    let (first, second) = <(Large, Large)>::deserialize(deserializer)?;
    Ok((first.0, second.0))
}
