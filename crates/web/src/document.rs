//! A picture of a run as an SVG file of its own: with a heading, and with the style of pages in it.
//!
//! The colours are those of the light theme, as plain values: many viewers know no variables.

use baton_model::api::Run;

use crate::assets::{STYLE, STYLE_OF_PICTURES};
use crate::markup::escape;
use crate::text::{clean, display_width};

/// A font stack that works on all systems.
const FONT: &str = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif";
/// Height of the heading.
const HEAD: f64 = 34.0;
const MARGIN: f64 = 20.0;
/// Width of a character of the heading, estimated on the wide side.
const HEAD_CHAR: f64 = 9.5;

/// Width and height of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Wraps the body of a picture of this class into a document.
pub(crate) fn render(class: &str, run: &Run, size: Size, body: &str) -> String {
    let title = clean(&format!("{} {} {}", run.name, run.id, run.state));
    let heading = 2.0 * MARGIN + display_width(&title) as f64 * HEAD_CHAR;
    let width = coordinate(size.width.max(heading));
    let height = coordinate(HEAD + size.height);
    let title = escape(&title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{{FONT}}}.heading{{font-size:15px;font-weight:600}}\n{}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" style=\"fill:{}\"/>\n\
         <text class=\"heading\" x=\"{MARGIN}\" y=\"28\">{title}</text>\n\
         <g transform=\"translate(0 {HEAD})\">\n{body}</g>\n</svg>\n",
        with_values(&rules(class)),
        token("paper")
    )
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn coordinate(number: f64) -> String {
    let text = format!("{number:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// The rules for this class; each is a line.
fn rules(class: &str) -> String {
    let class = format!(".{class}");
    let lines = STYLE_OF_PICTURES.split_inclusive('\n');
    lines.filter(|line| line.contains(&class)).collect()
}

/// Replaces variables by their values.
fn with_values(style: &str) -> String {
    let mut values = String::with_capacity(style.len());
    let mut rest = style;
    while let Some((before, behind)) = rest.split_once("var(--") {
        let (name, after) = behind.split_once(')').unwrap_or((behind, ""));
        values.push_str(before);
        values.push_str(token(name));
        rest = after;
    }
    values.push_str(rest);
    values
}

/// The value of a variable in the light theme, which the style sheet has first.
fn token(name: &str) -> &'static str {
    let behind = STYLE.split_once(&format!("--{name}: "));
    behind
        .and_then(|(_, behind)| behind.split_once(';'))
        .map_or("currentColor", |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_values_in_the_place_of_variables() {
        for (class, other) in [("graph", ".gantt ."), ("gantt", ".graph .")] {
            let style = with_values(&rules(class));
            assert!(style.contains('#'), "{style}");
            for wrong in ["var(", "currentColor", "<", "&", other] {
                assert!(!style.contains(wrong), "{wrong} in {style}");
            }
        }
        assert_eq!(token("paper"), "#fff");
    }

    #[test]
    fn coordinates_have_one_decimal_if_they_need_it() {
        for (number, text) in [(1.0, "1"), (-0.01, "0"), (2.25, "2.2"), (-3.5, "-3.5")] {
            assert_eq!(coordinate(number), text);
        }
    }
}
