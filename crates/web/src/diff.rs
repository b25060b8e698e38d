//! Changes from one definition to the next, as lines.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::markup::{Markup, push_escaped};
use crate::yaml;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Renders the changed lines of two definitions with their surroundings; nothing if they are equal.
pub(crate) fn render(before: &Value, after: &Value) -> Markup {
    let (before, after) = (yaml::render(before), yaml::render(after));
    let diff = TextDiff::from_lines(&before, &after);
    let mut html = String::new();
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            html.push_str("<span class=\"cut\">…</span>\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (class, sign) = match change.tag() {
                ChangeTag::Delete => ("del", "- "),
                ChangeTag::Insert => ("ins", "+ "),
                ChangeTag::Equal => ("same", "  "),
            };
            html.push_str("<span class=\"");
            html.push_str(class);
            html.push_str("\">");
            html.push_str(sign);
            push_escaped(&mut html, change.value().trim_end_matches('\n'));
            html.push_str("</span>\n");
        }
    }
    Markup(html)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_lines_are_shown_and_escaped() {
        let (before, after) = (
            json!({"run": "a", "task": "t"}),
            json!({"run": "<b>", "task": "t"}),
        );
        let html = render(&before, &after).0;
        assert!(
            html.contains("<span class=\"del\">- run: a</span>"),
            "{html}"
        );
        assert!(html.contains("+ run: &quot;&lt;b&gt;&quot;"), "{html}");
        assert!(render(&before, &before).is_empty());
    }
}
