//! JSON as YAML, for definitions that were written in YAML: as text, and as HTML with classes for its
//! parts. Comments and layout are not restored.

use serde_json::Value;

use crate::markup::{Markup, push_escaped};

/// Renders an object as a YAML document.
#[must_use]
pub fn render(value: &Value) -> String {
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

/// Renders an object as a YAML document with classes for its keys and values.
#[must_use]
pub fn highlight(value: &Value) -> Markup {
    let mut html = String::new();
    // The indent of the key of a literal block, while its lines follow.
    let mut block: Option<usize> = None;
    for line in render(value).lines() {
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|block| line.trim().is_empty() || indent > block) {
            push_part(&mut html, "str", line);
        } else {
            let begins = line.ends_with(" |") || line.ends_with(" |-");
            block = begins.then_some(indent);
            push_line(&mut html, line);
        }
        html.push('\n');
    }
    Markup(html)
}

/// A line outside of a block: a key, a dash, a value, or several of them.
fn push_line(html: &mut String, line: &str) {
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let (lead, rest) = line.split_at(start);
    html.push_str(lead);
    let rest = match key_end(rest) {
        Some(end) => {
            push_part(html, "key", &rest[..end]);
            html.push(':');
            &rest[end + 1..]
        }
        None => rest,
    };
    let value = rest.trim_start();
    html.push_str(&rest[..rest.len() - value.len()]);
    let is_plain = !value.starts_with('"');
    let is_literal = serde_json::from_str::<Value>(value).is_ok();
    match value {
        "" | "|" | "|-" => html.push_str(value),
        value if is_plain && is_literal => push_part(html, "num", value),
        value => push_part(html, "str", value),
    }
}

/// Where the key of a line ends, if it has one: at a colon before a space or the end.
fn key_end(text: &str) -> Option<usize> {
    if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        values.next()?.ok()?;
        let end = values.byte_offset();
        return text[end..].starts_with(':').then_some(end);
    }
    let end = text.find(':')?;
    (text[end + 1..].is_empty() || text[end + 1..].starts_with(' ')).then_some(end)
}

fn push_part(html: &mut String, class: &str, text: &str) {
    html.push_str(&format!("<span class=\"{class}\">"));
    push_escaped(html, text);
    html.push_str("</span>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_values_have_classes_and_are_escaped() {
        let definition = json!({"run": "set -e\nkey: <b>\n", "count": 3, "x: y": "a: <i>",
            "list": ["plain", {"k": true}]});
        let html = highlight(&definition).0;
        for part in [
            "<span class=\"key\">run</span>: |\n<span class=\"str\">  set -e</span>\n\
             <span class=\"str\">  key: &lt;b&gt;</span>\n",
            "<span class=\"key\">count</span>: <span class=\"num\">3</span>",
            "<span class=\"key\">&quot;x: y&quot;</span>: <span class=\"str\">&quot;a: &lt;i&gt;&quot;</span>",
            "  - <span class=\"str\">plain</span>\n",
            "    <span class=\"key\">k</span>: <span class=\"num\">true</span>\n",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
