//! The order of fields in the committed description: for its readers, and for small diffs.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Fields that come first, in this order; all others follow by name.
const FIRST: &[&str] = &[
    "openapi",
    "info",
    "paths",
    "components",
    "tags",
    "summary",
    "name",
    "in",
    "type",
    "title",
    "format",
    "items",
    "prefixItems",
    "description",
    "license",
    "version",
    "operationId",
    "parameters",
    "requestBody",
    "default",
    "enum",
    "required",
    "schema",
    "headers",
    "content",
    "responses",
    "properties",
];

/// Fields whose keys are names, by which they are sorted.
const BY_NAME: &[&str] = &[
    "properties",
    "schemas",
    "paths",
    "responses",
    "content",
    "headers",
];

/// A part of the description in that order.
pub(super) struct Ordered<'a> {
    value: &'a Value,
    is_by_name: bool,
}

impl<'a> Ordered<'a> {
    pub(super) const fn new(value: &'a Value) -> Self {
        Self {
            value,
            is_by_name: false,
        }
    }
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                let place = |key: &str| FIRST.iter().position(|it| *it == key);
                if !self.is_by_name {
                    fields.sort_by_key(|(key, _)| (place(key).unwrap_or(FIRST.len()), *key));
                }
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    let is_by_name = !self.is_by_name && BY_NAME.contains(&key.as_str());
                    map.serialize_entry(key, &Ordered { value, is_by_name })?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Self::new)),
            other => other.serialize(serializer),
        }
    }
}
