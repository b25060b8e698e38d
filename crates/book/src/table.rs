//! Tables within a width: columns share it, and cells are wrapped. Where columns would be too narrow
//! to read, each row becomes a paragraph for each of its cells, with the name of its column.

use baton_terminal::output::Style;
use baton_terminal::text::{Line, display_width};

use crate::page::{Text, plain};

/// Between columns.
const GAP: usize = 2;

/// A column that needs more is not made narrower than this.
const COLUMN_MIN: usize = 14;

/// Indentation of the further cells of a row that is written as paragraphs.
const INDENT: usize = 2;

pub(crate) fn lines(rows: &[Vec<Text>], width: usize) -> Vec<Line> {
    let Some((head, body)) = rows.split_first() else {
        return Vec::new();
    };
    let has_head = head.iter().any(|cell| !plain(cell).is_empty());
    let needed: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| cell_width(row, column)).max())
        .map(Option::unwrap_or_default)
        .collect();
    let gaps = GAP * head.len().saturating_sub(1);
    let Some(widths) = width.checked_sub(gaps).and_then(|it| share(&needed, it)) else {
        return paragraphs(head, body, width);
    };
    let mut lines = Vec::new();
    if has_head {
        lines.extend(row_lines(head, &widths));
        let mut rule = Line::new();
        let total = widths.iter().sum::<usize>() + gaps;
        rule.add(Style::Faint, "─".repeat(total));
        lines.push(rule);
    }
    let mut was_wrapped = false;
    for (number, row) in body.iter().enumerate() {
        let row = row_lines(row, &widths);
        // Rows of several lines would run into each other.
        if number > 0 && (was_wrapped || row.len() > 1) {
            lines.push(Line::new());
        }
        was_wrapped = row.len() > 1;
        lines.extend(row);
    }
    lines
}

fn cell_width(row: &[Text], column: usize) -> usize {
    let lines = row.get(column).map(Vec::as_slice).unwrap_or_default();
    let widths = lines.iter().map(|line| {
        line.iter()
            .map(|(piece, _)| display_width(piece))
            .sum::<usize>()
    });
    widths.max().unwrap_or_default()
}

/// The widths of columns: what each needs, or an equal share of what the small ones leave. None if a
/// share would be too small.
fn share(needed: &[usize], width: usize) -> Option<Vec<usize>> {
    let mut widths = needed.to_vec();
    let mut order: Vec<usize> = (0..needed.len()).collect();
    order.sort_by_key(|column| needed[*column]);
    let mut left = width;
    for (place, column) in order.iter().enumerate() {
        let fair = left / (order.len() - place);
        widths[*column] = needed[*column].min(fair);
        if widths[*column] < needed[*column] && widths[*column] < COLUMN_MIN {
            return None;
        }
        left -= widths[*column];
    }
    Some(widths)
}

fn row_lines(row: &[Text], widths: &[usize]) -> Vec<Line> {
    let cells: Vec<Vec<Line>> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrapped(cell, *width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    (0..height)
        .map(|number| {
            let mut line = Line::new();
            let mut column = 0;
            for (cell, width) in cells.iter().zip(widths) {
                line.pad(column);
                if let Some(part) = cell.get(number) {
                    line.append(part);
                }
                column += width + GAP;
            }
            line
        })
        .collect()
}

/// The lines of a cell; a word that is wider than its column is broken.
fn wrapped(cell: &Text, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for pieces in cell {
        let mut line = Line::new();
        line.extend(pieces.clone());
        lines.extend(line.wrap(width, 0).iter().flat_map(|it| it.chop(width)));
    }
    lines
}

fn paragraphs(head: &[Text], body: &[Vec<Text>], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, row) in body.iter().enumerate() {
        if number > 0 {
            lines.push(Line::new());
        }
        for (column, cell) in row.iter().enumerate() {
            if plain(cell).is_empty() {
                continue;
            }
            let indent = if column == 0 { 0 } else { INDENT };
            let name = head.get(column).map(plain).unwrap_or_default();
            for (place, pieces) in cell.iter().enumerate() {
                let mut line = Line::new();
                line.pad(indent);
                if place == 0 && column > 0 && !name.is_empty() {
                    line.add(Style::Faint, format!("{name}: "));
                }
                line.extend(pieces.clone());
                let wrapped = line.wrap(width, indent);
                lines.extend(wrapped.iter().flat_map(|it| it.chop(width)));
            }
        }
    }
    lines
}
