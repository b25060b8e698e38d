//! Helpers for writing SVG.

use std::fmt::{self, Write as _};

use crate::output::is_unsafe;

/// A font stack that works on all systems.
pub(super) const FONT: &str =
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif";

/// Escapes text for an element or an attribute. Characters that XML forbids, or that reorder text,
/// are replaced.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push_str("&#10;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if is_unsafe(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a coordinate with one decimal.
pub(super) fn n(number: f64) -> String {
    let text = format!("{number:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Appends a line.
pub(super) fn line(body: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(body, "{text}");
}

/// [`line()`] with the arguments of `format!`.
macro_rules! element {
    ($body:expr, $($text:tt)*) => {
        $crate::views::xml::line($body, format_args!($($text)*))
    };
}

pub(super) use element;

/// Wraps a body into an SVG document with a size and a title.
pub(super) fn document(width: f64, height: f64, title: &str, style: &str, body: &str) -> String {
    let (width, height, title) = (n(width), n(height), escape(title));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{{FONT};font-size:12px;fill:#212121}}{style}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         {body}</svg>\n"
    )
}
