//! Text tables: each column is as wide as its widest cell, with two spaces between columns.

use std::io::{self, Write};

use crate::output::{Output, Style};
use crate::text::{Line, display_width};

/// Rows of cells. The last cell of a row has no maximum width.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

/// A styled text.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Style::Plain)
    }
}

impl Table {
    /// An empty table, indented by this many spaces.
    pub fn indented(indent: usize) -> Self {
        Self {
            rows: Vec::new(),
            indent,
        }
    }

    /// A table with a heading row.
    pub fn headed(names: &[&str]) -> Self {
        let head = names.iter().map(|name| Cell::new(*name, Style::Faint));
        Self {
            rows: vec![head.collect()],
            indent: 0,
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Formats the rows.
    pub fn lines(&self, out: &Output) -> Vec<String> {
        let lines = self.styled().into_iter();
        lines
            .map(|line| line.paint(usize::MAX, out.colours))
            .collect()
    }

    /// The rows as lines that a painter can truncate.
    pub fn styled(&self) -> Vec<Line> {
        let widths = self.widths();
        let line = |row: &Vec<Cell>| {
            let mut line = Line::new();
            let mut column = self.indent;
            for (cell, width) in row.iter().zip(&widths) {
                line.pad(column).add(cell.style, &*cell.text);
                column += width + 2;
            }
            line
        };
        self.rows.iter().map(line).collect()
    }

    pub fn print(&self, out: &mut Output) -> io::Result<()> {
        for line in self.lines(out) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            // A row of one cell is a remark, and does not widen the column.
            let rows = self.rows.iter().filter(|row| row.len() > 1);
            let cells = rows.filter_map(|row| row.get(column));
            cells
                .map(|cell| display_width(&cell.text))
                .max()
                .unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_with_their_text() {
        let mut table = Table::headed(&["A", "LONG", "C"]);
        table.row(["wide".into(), "x".into(), "end".into()]);
        table.row(["数据".into(), "".into(), "x".into()]);
        table.row(["ü".into(), "".into(), "".into()]);
        let out = Output::new();
        assert_eq!(
            table.lines(&out),
            ["A     LONG  C", "wide  x     end", "数据        x", "ü"]
        );
    }
}
