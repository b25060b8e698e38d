//! Charts as SVG: stacked bars by hour, and curves of samples. Colours are classes of the style
//! sheet. Each has a description for readers who do not see it.

use std::fmt::Write as _;

use crate::markup::{Markup, escape};
use crate::time::Stamp;

/// A picture of its own.
const LARGE: Size = Size {
    width: 640.0,
    height: 120.0,
    left: 48.0,
};
/// The same, with long labels at the left.
const WIDE: Size = Size {
    width: 640.0,
    height: 120.0,
    left: 84.0,
};
/// A picture in a row of a table.
const SMALL: Size = Size {
    width: 230.0,
    height: 48.0,
    left: 70.0,
};
/// Space for labels below.
const FOOT: f64 = 18.0;

#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
    /// Space for labels at the left.
    left: f64,
}

/// One bar: an hour, and the parts of the bar from below with the class of each.
#[derive(Clone, Debug)]
pub struct Bar {
    pub hour: Stamp,
    pub parts: Vec<(&'static str, u64)>,
}

/// Stacked bars of numbers.
#[must_use]
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let columns = bars.iter().map(|bar| {
        let parts = bar.parts.iter();
        let sizes: Vec<String> = parts
            .map(|(class, size)| format!("{size} {class}"))
            .collect();
        let parts = bar.parts.iter();
        Column {
            title: format!("{} {}", bar.hour.utc(), sizes.join(", ")),
            label: bar.hour.hour(),
            parts: parts.map(|(class, size)| (*class, *size as f64)).collect(),
        }
    });
    let columns: Vec<Column> = columns.collect();
    columns_of(LARGE, title, &columns, |highest| highest.to_string())
}

/// One bar of any quantity.
#[derive(Clone, Debug)]
pub struct Column {
    /// The text of the bar.
    pub title: String,
    /// The text below it.
    pub label: String,
    /// The parts of the bar from below with the class of each.
    pub parts: Vec<(&'static str, f64)>,
}

/// Stacked bars of a quantity that `text` formats.
#[must_use]
pub fn columns(title: &str, columns: &[Column], text: fn(f64) -> String) -> Markup {
    columns_of(WIDE, title, columns, text)
}

fn columns_of(size: Size, title: &str, columns: &[Column], text: fn(f64) -> String) -> Markup {
    let total = |column: &Column| column.parts.iter().map(|(_, size)| size).sum::<f64>();
    let highest = columns.iter().map(total).fold(0.0, f64::max);
    if highest <= 0.0 {
        return Markup::default();
    }
    let mut svg = open(size, title, &format!("highest {}", text(highest)));
    axis(size, &mut svg, &text(highest));
    let step = (size.width - size.left) / columns.len() as f64;
    for (at, column) in columns.iter().enumerate() {
        let x = size.left + step * at as f64;
        let mut y = size.height;
        let _ = write!(svg, "<g><title>{}</title>", escape(&column.title));
        for (class, part) in &column.parts {
            if *part <= 0.0 {
                continue;
            }
            let height = size.height * part / highest;
            y -= height;
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                (step - 2.0).max(1.0)
            );
        }
        svg.push_str("</g>");
        if at % columns.len().div_ceil(7).max(1) == 0 {
            // The last label ends with its bar: beyond is no space.
            let (x, anchor) = if at + 1 == columns.len() {
                (size.width, "end")
            } else {
                (x, "start")
            };
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                size.height + FOOT - 4.0,
                escape(&column.label)
            );
        }
    }
    svg.push_str("</svg>");
    Markup(svg)
}

/// A curve through points of time and value, in a row of a table; `label` formats the highest value.
#[must_use]
pub fn curve(title: &str, points: &[(u64, f64)], label: &str) -> Markup {
    draw(SMALL, title, points, label)
}

/// The same as a picture of its own, with the times of its ends in UTC.
#[must_use]
pub fn large_curve(title: &str, points: &[(u64, f64)], label: &str) -> Markup {
    draw(LARGE, title, points, label)
}

fn draw(size: Size, title: &str, points: &[(u64, f64)], label: &str) -> Markup {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Markup::default();
    };
    let highest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if last.0 <= first.0 || highest <= 0.0 {
        return Markup::default();
    }
    let mut svg = open(size, title, &format!("highest {label}"));
    axis(size, &mut svg, label);
    let span = (last.0 - first.0) as f64;
    let mut path = String::new();
    for (time, value) in points {
        let x = size.left + (size.width - size.left) * time.saturating_sub(first.0) as f64 / span;
        let y = size.height * (1.0 - value / highest);
        let _ = write!(path, "{x:.1},{y:.1} ");
    }
    if size.width == LARGE.width {
        let y = size.height + FOOT - 4.0;
        for (x, anchor, at) in [(size.left, "start", first.0), (size.width, "end", last.0)] {
            let time = Stamp(at).minute();
            let _ = write!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{time}</text>"
            );
        }
    }
    let _ = write!(
        svg,
        "<polyline class=\"curve\" points=\"{}\"/></svg>",
        path.trim_end()
    );
    Markup(svg)
}

fn open(size: Size, title: &str, detail: &str) -> String {
    format!(
        "<svg class=\"chart\" role=\"img\" aria-label=\"{}, {}\" viewBox=\"0 -6 {} {}\">",
        escape(title),
        escape(detail),
        size.width,
        size.height + FOOT + 6.0
    )
}

fn axis(size: Size, svg: &mut String, highest: &str) {
    let Size {
        width,
        height,
        left,
    } = size;
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{left}\" y1=\"{height}\" x2=\"{width}\" y2=\"{height}\"/>\
         <text x=\"0\" y=\"8\">{}</text>",
        escape(highest)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_without_data_is_nothing() {
        assert!(bars("x", &[]).is_empty());
        assert!(curve("x", &[(1, 1.0)], "1").is_empty());
        assert!(curve("x", &[(1, 0.0), (2, 0.0)], "0").is_empty());
        let svg = large_curve("Queue", &[(0, 1.0), (3_660_000, 2.0)], "2").0;
        assert!(svg.contains(">00:00<") && svg.contains(">01:01<"), "{svg}");
    }

    #[test]
    fn the_highest_bar_has_the_full_height() {
        let bar = |hour: u64, done| Bar {
            hour: Stamp(hour * 3_600_000),
            parts: vec![("done", done), ("failed", 1)],
        };
        let svg = bars("Ends", &[bar(1, 9), bar(2, 4)]).0;
        assert!(
            svg.contains("height=\"108.0\"") && svg.contains("height=\"12.0\""),
            "{svg}"
        );
        assert!(svg.contains("Ends, highest 10"), "{svg}");
    }
}
