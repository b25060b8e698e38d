//! JSON, parsed by `serde_json` level by level.
//!
//! `serde_json` does not report positions of values, but a raw value borrows its text, whose
//! offset in the whole text is the position of the value. Each level is scanned once more by its
//! parent; with bounded depth that costs a bounded factor.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Entry, Lines, Tree, Value, duplicate_key, syntax, too_deep, too_large};
use crate::error::{Kind, Position, Problem, clean};
use crate::limits::{DEPTH_MAX, SizeLimits};

pub(super) fn parse(text: &str, size: &SizeLimits) -> Result<Tree, Vec<Problem>> {
    let lines = Lines::new(text);
    // Parse the whole text first: a syntax error then has its true position.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| vec![explain(&error, 0, &lines)])?;
    // Each value costs many times its bytes. A text has no more values than bytes, so a short
    // one need not be counted.
    if text.len() > size.json_values_max && values(text) > size.json_values_max {
        let bound = format!("{} values", size.json_values_max);
        return Err(vec![too_large(size, &bound, None)]);
    }
    let mut reader = Reader {
        lines,
        problems: Vec::new(),
    };
    let root = reader.tree(text, 0);
    if reader.problems.is_empty() {
        Ok(root)
    } else {
        Err(reader.problems)
    }
}

/// Returns an upper bound of the number of values in a JSON text.
fn values(text: &str) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

struct Reader<'a> {
    lines: Lines<'a>,
    problems: Vec<Problem>,
}

/// One object with duplicate keys and the raw text of each value.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }

        deserializer.deserialize_map(ObjectVisitor)
    }
}

impl<'a> Reader<'a> {
    /// `text` is a slice of the whole text with exactly one value.
    fn tree(&mut self, text: &'a str, depth: usize) -> Tree {
        let text = text.trim_ascii();
        let position = Some(self.lines.position(self.offset(text)));
        if depth > DEPTH_MAX {
            self.problems.push(too_deep(position));
            return Tree {
                value: Value::Null,
                position,
            };
        }
        let value = match text.as_bytes().first() {
            Some(b'{') => self.map(text, depth),
            Some(b'[') => {
                let items: Vec<&'a RawValue> = self.part(text).unwrap_or_default();
                let items = items.iter().enumerate().map(|(at, item)| {
                    let known = self.problems.len();
                    let tree = self.tree(item.get(), depth + 1);
                    self.prefix_paths(known, || format!("[{at}]"));
                    tree
                });
                Value::List(items.collect())
            }
            Some(b'"') => self.part(text).map_or(Value::Null, Value::String),
            Some(b't' | b'f') => Value::Bool(text == "true"),
            Some(b'n') | None => Value::Null,
            Some(_) => Value::Number(text.to_owned()),
        };
        Tree { value, position }
    }

    fn map(&mut self, text: &'a str, depth: usize) -> Value {
        let Some(Object(raw)) = self.part(text) else {
            return Value::Null;
        };
        // A key begins with the first quote after the previous value.
        let mut before = self.offset(text);
        let mut seen = std::collections::BTreeSet::new();
        let mut entries = Vec::with_capacity(raw.len());
        for (key, value) in raw {
            let position = self.next_quote(before);
            before = self.offset(value.get()) + value.get().len();
            let known = self.problems.len();
            if !seen.insert(key.clone()) {
                self.problems.push(duplicate_key(&key, position));
            }
            let value = self.tree(value.get(), depth + 1);
            self.prefix_paths(known, || clean(&key));
            entries.push(Entry {
                key,
                position,
                value,
            });
        }
        Value::Map(entries)
    }

    /// Parses a slice of the text and reports its errors.
    fn part<T: Deserialize<'a>>(&mut self, text: &'a str) -> Option<T> {
        match serde_json::from_str(text) {
            Ok(value) => Some(value),
            Err(error) => {
                let problem = explain(&error, self.offset(text), &self.lines);
                self.problems.push(problem);
                None
            }
        }
    }

    /// Prefixes the paths of duplicate keys after the first `known` problems with their field.
    /// A problem of depth keeps no path: it would be too long to read.
    fn prefix_paths(&mut self, known: usize, field: impl Fn() -> String) {
        let behind = self.problems.iter_mut().skip(known);
        for problem in behind.filter(|it| it.kind == Kind::DuplicateKey) {
            let dot = match problem.path.chars().next() {
                None | Some('[') => "",
                Some(_) => ".",
            };
            problem.path = format!("{}{dot}{}", field(), problem.path);
        }
    }

    fn next_quote(&self, from: usize) -> Option<Position> {
        let rest = self.lines.text.get(from..)?;
        Some(self.lines.position(from + rest.find('"')?))
    }

    /// The offset of a borrowed slice in the text.
    fn offset(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.lines.text.as_ptr() as usize)
    }
}

/// `start` is the offset of the parsed slice in the whole text.
fn explain(error: &serde_json::Error, start: usize, lines: &Lines<'_>) -> Problem {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let position = error_position(error, start, lines);
    if message.contains("recursion limit") {
        return too_deep(position);
    }
    syntax(
        "JSON",
        message,
        position,
        "check commas, quotes and brackets here; JSON has no comments",
    )
}

fn error_position(error: &serde_json::Error, start: usize, lines: &Lines<'_>) -> Option<Position> {
    let line = u32::try_from(error.line()).ok().filter(|line| *line > 0)?;
    let first = lines.position(start);
    // `serde_json` counts bytes from the start of its slice; positions count characters.
    let line_start = match line {
        1 => start,
        _ => {
            let index = usize::try_from(first.line + line - 2).ok()?;
            *lines.starts.get(index)?
        }
    };
    let mut offset = line_start + error.column().saturating_sub(1);
    while !lines.text.is_char_boundary(offset) {
        offset -= 1;
    }
    Some(lines.position(offset.min(lines.text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_what_stands_in_texts_is_none() {
        for (text, expected) in [
            ("1", 1),
            (r#"[1, 2, "a,b[{\\"]"#, 4),
            (r#"{"a": {"b": [1]}, "c,\"": 2}"#, 5),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
    }
}
