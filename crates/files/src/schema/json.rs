//! The JSON Schema of a file, from the tables.

use serde_json::{Map, Value, json};

use super::{Field, Object, Type, Zero};
use crate::limits::NAME_BYTES_MAX;

/// The schema of a file whose root is `root`.
pub(super) fn schema(root: &'static Object, title: &str) -> Value {
    let mut objects = Vec::new();
    collect(root, &mut objects);
    let definitions = objects.iter().map(|it| (key(it), of_object(it)));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$ref": reference(root),
        "$defs": definitions.collect::<Map<_, _>>(),
    })
}

/// `found`, and after it every object that `object` refers to and that is not there yet.
pub(super) fn collect(object: &'static Object, found: &mut Vec<&'static Object>) {
    if found.iter().any(|it| it.title == object.title) {
        return;
    }
    found.push(object);
    for field in object.fields {
        collect_type(&field.kind, found);
    }
}

fn collect_type(kind: &'static Type, found: &mut Vec<&'static Object>) {
    match kind {
        Type::Object(object) => collect(object, found),
        Type::List(kind, ..) | Type::Map(kind, _) => collect_type(kind, found),
        Type::AnyOf(kinds) => kinds.iter().for_each(|kind| collect_type(kind, found)),
        _ => {}
    }
}

/// The name of an object in the schema, and its anchor in the docs.
pub(super) fn key(object: &Object) -> String {
    object.title.to_lowercase().replace(' ', "-")
}

fn reference(object: &Object) -> String {
    format!("#/$defs/{}", key(object))
}

fn of_object(object: &Object) -> Value {
    let fields = object.fields.iter();
    let properties = fields.map(|field| (field.name.to_owned(), of_field(field)));
    let mut schema = json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": object.others.as_ref().map_or(Value::Bool(false), of_type),
    });
    let fields = object.fields.iter().filter(|field| field.required);
    let required: Vec<&str> = fields.map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !object.any_of.is_empty() {
        let groups = object.any_of.iter();
        schema["anyOf"] = groups.map(|names| json!({ "required": names })).collect();
    }
    let pairs: Vec<Value> = object
        .exclusive
        .iter()
        .enumerate()
        .flat_map(|(at, one)| object.exclusive[at + 1..].iter().map(move |two| (one, two)))
        .map(|pair| json!({ "required": pair }))
        .collect();
    if !pairs.is_empty() {
        schema["not"] = json!({ "anyOf": pairs });
    }
    schema
}

fn of_field(field: &Field) -> Value {
    let mut schema = of_type(&field.kind);
    schema["description"] = json!(field.about);
    if !field.default.is_empty() {
        // A number or boolean, or else a string without its quotes.
        let default = serde_json::from_str(field.default);
        schema["default"] = default.unwrap_or_else(|_| json!(field.default));
    }
    schema
}

fn of_type(kind: &Type) -> Value {
    match kind {
        Type::Any => json!({}),
        Type::Null => json!({ "type": "null" }),
        Type::Bool => json!({ "type": "boolean" }),
        Type::Number => json!({ "type": "number" }),
        Type::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Type::Factor(min, max) => {
            let [min, max] = [min, max].map(|milli| *milli as f64 / 1e3);
            json!({ "type": "number", "minimum": min, "maximum": max })
        }
        Type::Text => json!({ "type": "string", "minLength": 1 }),
        Type::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Type::Name => json!({
            "type": "string",
            "pattern": "^[^./\\s][^/\\s]*$",
            "maxLength": NAME_BYTES_MAX,
        }),
        Type::Duration(Zero::Allowed) => json!({ "anyOf": [duration(), { "const": 0 }] }),
        Type::Duration(Zero::Refused) => duration(),
        Type::Word(keywords) => json!({ "enum": keywords }),
        Type::Pattern(about, pattern) => {
            json!({ "type": "string", "pattern": pattern, "description": about })
        }
        Type::ByteLimit => limit(concat!("(", bytes!(), "|unlimited)")),
        Type::NumberLimit => limit("([0-9]+|unlimited)"),
        Type::List(kind, min, max) => {
            let mut schema = json!({ "type": "array", "items": of_type(kind), "minItems": min });
            if *max < usize::MAX {
                schema["maxItems"] = json!(max);
            }
            schema
        }
        Type::Map(kind, min) => json!({
            "type": "object",
            "additionalProperties": of_type(kind),
            "minProperties": min,
        }),
        Type::Object(object) => json!({ "$ref": reference(object) }),
        Type::AnyOf(kinds) => json!({ "anyOf": kinds.iter().map(of_type).collect::<Value>() }),
    }
}

/// One limit, or a range of two.
fn limit(one: &str) -> Value {
    let pattern = format!("^\\s*{one}\\s*(\\.\\.\\s*{one}\\s*)?$");
    json!({ "anyOf": [{ "type": "string", "pattern": pattern }, { "type": "integer", "minimum": 0 }] })
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": concat!("^(0|", span!(), ")$") })
}
