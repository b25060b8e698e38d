//! The items of a run over time, as SVG.

use std::fmt::Write as _;

use baton_model::api::RunItem;

use crate::markup::{Markup, escape};
use crate::text::duration;

const WIDTH: f64 = 900.0;
const ROW: f64 = 22.0;
/// Space for names.
const LEFT: f64 = 220.0;
/// Width of the shortest bar.
const BAR_MIN: f64 = 2.0;
/// Characters of a name that fit.
const NAME_CHARS: usize = 28;

/// Draws the items that have started; nothing if there are none.
#[must_use]
pub fn render<V>(items: &[RunItem<V>], now: u64) -> Markup {
    let bars: Vec<(&RunItem<V>, u64, u64)> = items
        .iter()
        .filter_map(|item| {
            let started = item.started_at?;
            Some((item, started, item.ended_at.unwrap_or(now).max(started)))
        })
        .collect();
    let (Some(first), Some(last)) = (
        bars.iter().map(|bar| bar.1).min(),
        bars.iter().map(|bar| bar.2).max(),
    ) else {
        return Markup::default();
    };
    let span = (last - first).max(1) as f64;
    let height = ROW * bars.len() as f64;
    let mut svg = format!(
        "<svg class=\"gantt\" role=\"group\" aria-label=\"Timeline of {} items over {}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\">",
        bars.len(),
        duration(span / 1_000.0)
    );
    for (at, (item, started, ended)) in bars.iter().enumerate() {
        let scale = |time: u64| LEFT + (WIDTH - LEFT) * (time - first) as f64 / span;
        let y = ROW * at as f64;
        let width = (scale(*ended) - scale(*started)).max(BAR_MIN);
        // The bar of a short item at the end would lie beyond the edge.
        let x = scale(*started).min(WIDTH - width);
        let name = format!("{}[{}]", item.task, item.item);
        let short: String = name.chars().take(NAME_CHARS).collect();
        let took = duration((ended - started) as f64 / 1_000.0);
        let _ = write!(
            svg,
            "<a href=\"/instances/{}\"><title>{} {} {took}</title>\
             <text x=\"0\" y=\"{:.1}\">{}</text>\
             <rect class=\"s-{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"3\"/></a>",
            escape(&item.instance),
            escape(&name),
            item.state.word(),
            y + ROW * 0.7,
            escape(&short),
            item.state.word(),
            y + 3.0,
            ROW - 6.0
        );
    }
    svg.push_str("</svg>");
    Markup(svg)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_short_last_item_lies_within_the_picture() {
        let item = |started: u64, ended: u64| {
            json!({"task": "t", "item": 0, "instance": "i1", "state": "DONE", "generation": 1,
                "startedAt": started, "endedAt": ended, "links": {}})
        };
        let items = json!([item(0, 60_000), item(59_999, 60_000), item(60_000, 60_000)]);
        let items: Vec<RunItem<Value>> = baton_model::json::from_value(&items).expect("items");
        let svg = render(&items, 60_000).0;
        let number = |text: &str, name: &str| -> f64 {
            let (_, rest) = text.split_once(&format!(" {name}=\"")).expect("there");
            let (number, _) = rest.split_once('"').expect("closed");
            number.parse().expect("a number")
        };
        let bars: Vec<_> = svg.split("<rect").skip(1).collect();
        assert_eq!(bars.len(), 3);
        for bar in bars {
            let end = number(bar, "x") + number(bar, "width");
            assert!(end <= WIDTH, "{bar}");
        }
    }
}
