//! Refinement of the description, for programs that generate clients from it.
//!
//! utoipa repeats the schema of a generic's parameter in place, and describes what serde writes for an
//! enum as objects without names. Generators name a type by its schema: so each object gets one schema
//! with a name, once. Nothing is described less exactly than before.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Before the name of a schema.
const SCHEMAS: &str = "#/components/schemas/";

/// After the names of generic types of JSON, which have no other parameter.
const OF_JSON: &str = "_Value";

/// The media type of bytes.
const BYTES: &str = "application/octet-stream";

/// The same description, with a name for each object.
pub(super) fn refined(document: Value) -> Value {
    let mut document = renamed(document);
    let schemas = match document.pointer_mut("/components/schemas") {
        Some(Value::Object(schemas)) => std::mem::take(schemas),
        _ => Map::new(),
    };
    let mut names = Names::new(&schemas);
    for (name, mut schema) in schemas {
        names.refine(&mut schema, &name);
        names.insert(name, schema);
    }
    document["components"]["schemas"] = Value::Object(names.schemas);
    describe_bytes(&mut document["paths"]);
    document
}

/// Drops the parameter of generic types of JSON from their names.
fn renamed(document: Value) -> Value {
    match document {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                let key = key.strip_suffix(OF_JSON).map_or(key.clone(), str::to_owned);
                (key, renamed(value))
            });
            // Two schemas of one name would be one.
            let (count, fields) = (fields.len(), fields.collect::<Map<_, _>>());
            assert_eq!(fields.len(), count, "two schemas have the same name");
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(renamed).collect(),
        Value::String(text) if text.starts_with(SCHEMAS) => {
            text.strip_suffix(OF_JSON).unwrap_or(&text).into()
        }
        other => other,
    }
}

/// The schemas with names.
struct Names {
    /// Names by schema, as it was generated.
    known: BTreeMap<String, String>,
    /// Schemas by name, refined.
    schemas: Map<String, Value>,
}

impl Names {
    fn new(schemas: &Map<String, Value>) -> Self {
        let known = schemas.iter().filter(|(_, schema)| is_object(schema));
        Self {
            known: known
                .map(|(name, schema)| (schema.to_string(), name.clone()))
                .collect(),
            schemas: Map::new(),
        }
    }

    fn insert(&mut self, name: String, schema: Value) {
        let before = self.schemas.insert(name.clone(), schema);
        assert!(before.is_none(), "two schemas have the name {name}");
    }

    /// Refines the parts of a schema, which has this name or is below it.
    fn refine(&mut self, schema: &mut Value, name: &str) {
        let Value::Object(fields) = schema else {
            return;
        };
        limit_length(fields);
        open(fields);
        if let Some(Value::Object(properties)) = fields.get_mut("properties") {
            for (property, schema) in properties {
                self.place(schema, &format!("{name}{}", capitalized(property)));
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(schema) = fields.get_mut(key) {
                self.place(schema, name);
            }
        }
        for key in ["oneOf", "anyOf", "allOf", "prefixItems"] {
            let schemas = fields.get_mut(key).and_then(Value::as_array_mut);
            for schema in schemas.into_iter().flatten() {
                entitle(schema, name);
                self.refine(schema, name);
            }
        }
    }

    /// Replaces an object in place by a reference to the schema with its name.
    fn place(&mut self, schema: &mut Value, name: &str) {
        if !is_object(schema) {
            self.refine(schema, name);
            return;
        }
        let name = match self.known.get(&schema.to_string()) {
            Some(name) => name.clone(),
            None => {
                let item = name.strip_prefix("List_");
                let item = item.and_then(|name| name.strip_suffix("Items"));
                let (name, mut schema) = (item.unwrap_or(name).to_owned(), schema.clone());
                self.known.insert(schema.to_string(), name.clone());
                self.refine(&mut schema, &name);
                self.insert(name.clone(), schema);
                name
            }
        };
        *schema = json!({ "$ref": format!("{SCHEMAS}{name}") });
    }
}

/// Whether a schema is of an object with fields.
fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some()
}

/// An array of a fixed length: generators read no `items: false`.
fn limit_length(fields: &mut Map<String, Value>) {
    let length = fields.get("prefixItems").and_then(Value::as_array);
    if let Some(length) = length.map(Vec::len)
        && fields.get("items") == Some(&Value::Bool(false))
    {
        fields.remove("items");
        fields.insert("minItems".to_owned(), length.into());
        fields.insert("maxItems".to_owned(), length.into());
    }
}

/// An object of any fields: without this, generators take it for one without fields.
fn open(fields: &mut Map<String, Value>) {
    let is_object = match fields.get("type") {
        Some(Value::Array(types)) => types.contains(&json!("object")),
        one => one == Some(&json!("object")),
    };
    if is_object && !fields.contains_key("properties") {
        fields
            .entry("additionalProperties")
            .or_insert(Value::Bool(true));
    }
}

/// Gives a title to a variant of an enum that is an object with one field: what it is called there.
fn entitle(schema: &mut Value, name: &str) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some((variant, 1)) = properties.and_then(|it| Some((it.keys().next()?, it.len()))) else {
        return;
    };
    schema["title"] = format!("{name}{}Variant", capitalized(variant)).into();
}

/// Bytes are no array of numbers.
fn describe_bytes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == BYTES {
                    value["schema"] = json!({ "type": "string", "format": "binary" });
                } else {
                    describe_bytes(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(describe_bytes),
        _ => {}
    }
}

/// Words in one, each with a capital.
fn capitalized(words: &str) -> String {
    let words = words.split(['-', '_']).map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_one_schema_with_a_name() {
        let object =
            |field: &str| json!({"type": "object", "properties": {field: {"type": "string"}}});
        let document = json!({
            "paths": {"/x": {"$ref": "#/components/schemas/Task_Value"}},
            "components": {"schemas": {
                "Task_Value": object("a"),
                "List_Task_Value": {"type": "object", "properties": {"items": {"type": "array", "items": object("a")}}},
                "List_Alarm": {"type": "object", "properties": {"items": {"type": "array", "items": object("b")}}},
                "Fact": {"oneOf": [{"type": "object", "properties": {"run-ended": object("c")}}]},
                "Free": {"type": ["object", "null"]},
                "Pair": {"type": "array", "items": false, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            }},
        });
        let list = |of: &str| {
            let item = json!({"$ref": format!("{SCHEMAS}{of}")});
            json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}})
        };
        let ended = json!({"run-ended": {"$ref": "#/components/schemas/FactRunEnded"}});
        let expected = json!({
            "paths": {"/x": {"$ref": "#/components/schemas/Task"}},
            "components": {"schemas": {
                "Task": object("a"),
                "Alarm": object("b"),
                "FactRunEnded": object("c"),
                "List_Task": list("Task"),
                "List_Alarm": list("Alarm"),
                "Fact": {"oneOf": [{"type": "object", "title": "FactRunEndedVariant", "properties": ended}]},
                "Free": {"type": ["object", "null"], "additionalProperties": true},
                "Pair": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            }},
        });
        assert_eq!(refined(document), expected);
    }
}
