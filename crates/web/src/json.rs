//! Any JSON as HTML: indented, with classes for its parts, and with links where a text is the path
//! of a representation.

use serde_json::Value;

use crate::markup::{Markup, push_escaped};

/// Characters of a text that are shown.
const TEXT_CHARS_MAX: usize = 20_000;

/// Renders a value.
#[must_use]
pub fn render(value: &Value) -> Markup {
    let mut html = String::new();
    push(&mut html, value, 0);
    Markup(html)
}

fn push(html: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            html.push_str("{\n");
            for (at, (name, field)) in fields.iter().enumerate() {
                indent(html, depth + 1);
                html.push_str("<span class=\"key\">");
                push_text(html, name);
                html.push_str("</span>: ");
                push(html, field, depth + 1);
                html.push_str(if at + 1 < fields.len() { ",\n" } else { "\n" });
            }
            indent(html, depth);
            html.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            html.push_str("[\n");
            for (at, item) in items.iter().enumerate() {
                indent(html, depth + 1);
                push(html, item, depth + 1);
                html.push_str(if at + 1 < items.len() { ",\n" } else { "\n" });
            }
            indent(html, depth);
            html.push(']');
        }
        Value::String(text) => {
            let is_path = text.starts_with('/') && !text.starts_with("//");
            if is_path && !text.contains(char::is_whitespace) {
                html.push_str("<a href=\"");
                push_escaped(html, text);
                html.push_str("\">");
                push_text(html, text);
                html.push_str("</a>");
            } else {
                html.push_str("<span class=\"str\">");
                push_text(html, text);
                html.push_str("</span>");
            }
        }
        plain => {
            html.push_str("<span class=\"num\">");
            push_escaped(html, &plain.to_string());
            html.push_str("</span>");
        }
    }
}

fn push_text(html: &mut String, text: &str) {
    let shown: String = text.chars().take(TEXT_CHARS_MAX).collect();
    push_escaped(html, &Value::String(shown).to_string());
}

fn indent(html: &mut String, depth: usize) {
    for _ in 0..depth {
        html.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_escaped_and_paths_are_links() {
        let html = render(&json!({"a": "<x>", "b": ["/runs/r1", "//evil", 3]})).0;
        assert!(html.contains("&lt;x&gt;"), "{html}");
        assert!(html.contains("<a href=\"/runs/r1\">"), "{html}");
        assert!(!html.contains("href=\"//evil"), "{html}");
    }
}
