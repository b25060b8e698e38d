//! Markup that a module has built itself, and the escape of text in it.

use std::fmt;

/// Markup that is printed as it is. The module that builds it escapes all text in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(pub(crate) String);

impl askama::filters::HtmlSafe for Markup {}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Markup {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Escapes a text for an element or an attribute. Characters that no document may contain become the replacement character.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    push_escaped(&mut escaped, text);
    escaped
}

/// Appends a text, escaped.
pub fn push_escaped(to: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            '\t' | '\n' => to.push(character),
            '\u{fffe}' | '\u{ffff}' => to.push('\u{fffd}'),
            _ if character.is_control() => to.push('\u{fffd}'),
            _ => to.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escape("<b a=\"x\" b='y'>&\u{1b}[0m\n</b>"),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}[0m\n&lt;/b&gt;"
        );
    }
}
