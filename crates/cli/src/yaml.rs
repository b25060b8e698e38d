//! JSON as YAML, for definitions that were written in YAML. Comments and layout are not restored.

use serde_json::Value;

/// Renders an object as a YAML document.
pub(crate) fn render(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes the lines of a value, each indented.
fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                text.push_str(&format!("{pad}{}:", scalar(&Value::from(key.as_str()))));
                entry(value, indent + 2, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{pad}-"));
                entry(item, indent + 2, text);
            }
        }
        other => text.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

/// Writes what follows a key or a dash.
fn entry(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(value, indent, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(value, indent, text);
        }
        // A literal block keeps scripts readable; its lines must need no escapes.
        Value::String(lines) if is_script(lines) => {
            let keep = if lines.ends_with('\n') { "|" } else { "|-" };
            text.push_str(&format!(" {keep}\n"));
            for line in lines.trim_end_matches('\n').split('\n') {
                text.push_str(&format!("{}{line}\n", " ".repeat(indent)));
            }
        }
        other => text.push_str(&format!(" {}\n", scalar(other))),
    }
}

fn is_script(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n'])
        && !body.chars().any(|c| c.is_control() && c != '\n')
}

/// A scalar, or an empty collection. Texts that could be read as anything else are quoted; a JSON
/// string is a YAML string.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/_.-+ ".contains(c))
        && !text.ends_with(' ')
        && !words.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_is_read_back_as_it_was() {
        let definition = json!({
            "task": "t",
            "params": { "day": "1.10", "flag": "yes", "none": null },
            "env": { "A": "x: {y} # z", "EMPTY": "" },
            "processes": [
                { "name": "a", "run": "set -e\nmake all\n" },
                { "name": "b", "run": ["echo", "- a", "tab\t"], "after": ["a"] },
            ],
            "retry": {},
            "priority": -5,
        });
        let text = render(&definition);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.yaml");
        std::fs::write(&path, &text).expect("written");
        let read = baton_files::load(&path).expect(&text).to_json();
        assert_eq!(read, definition, "{text}");
        assert!(
            text.contains("    run: |\n      set -e\n      make all\n"),
            "{text}"
        );
    }
}
