//! A chapter as lines of a terminal. No line is wider than the width, but lines of code: to break
//! them would make other commands of them.

use baton_terminal::output::Style;
use baton_terminal::text::{Line, display_width};

use crate::page::{Block, Page, Text};
use crate::table;

/// Text in longer lines is hard to read.
const WIDTH_MAX: usize = 100;

/// In shorter ones there is none to read.
const WIDTH_MIN: usize = 20;

/// Indentation of code.
const CODE_INDENT: usize = 4;

/// Renders a chapter. Tables may use the whole width, text at most 100 columns.
pub fn render(page: &Page, width: usize, colours: bool) -> String {
    let width = width.max(WIDTH_MIN);
    let mut renderer = Renderer {
        width,
        colours,
        text: String::new(),
    };
    let mut last: Option<&Block> = None;
    for block in &page.blocks {
        if last.is_some_and(|last| !is_tight(last, block)) {
            renderer.text.push('\n');
        }
        renderer.block(block);
        last = Some(block);
    }
    renderer.text
}

/// True if no empty line is between two blocks.
fn is_tight(last: &Block, next: &Block) -> bool {
    matches!((last, next), (Block::Item { .. }, Block::Item { .. }))
}

struct Renderer {
    width: usize,
    colours: bool,
    text: String,
}

impl Renderer {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading { level, text } => self.heading(*level, text),
            Block::Paragraph { indent, text } => self.paragraph(*indent, None, text),
            Block::Item {
                indent,
                marker,
                text,
            } => self.paragraph(*indent, Some(marker), text),
            Block::Code {
                indent,
                is_output,
                lines,
            } => {
                let style = if *is_output {
                    Style::Faint
                } else {
                    Style::Plain
                };
                for line in lines {
                    let text = style.paint(line, self.colours && !line.is_empty());
                    let indent = " ".repeat(indent + CODE_INDENT);
                    let line = format!("{indent}{text}");
                    self.push(line.trim_end());
                }
            }
            Block::Table(rows) => {
                for line in table::lines(rows, self.width) {
                    self.push(&line.paint(usize::MAX, self.colours));
                }
            }
            Block::See(topics) => {
                let topics: Vec<String> = topics
                    .iter()
                    .map(|topic| format!("baton help {topic}"))
                    .collect();
                let text = format!("See also: {}", topics.join(", "));
                self.paragraph(0, None, &vec![vec![(text, Style::Faint)]]);
            }
        }
    }

    /// The first heading is the title of the chapter; deeper ones are indented by nothing, as in a manual.
    fn heading(&mut self, level: usize, text: &Text) {
        for pieces in text {
            let mut line = Line::new();
            line.extend(pieces.clone());
            for line in line.wrap(self.text_width(), 0) {
                let painted = line.paint(usize::MAX, self.colours);
                let width = display_width(&line.paint(usize::MAX, false));
                self.push(&painted);
                let rule = match level {
                    1 => "═",
                    2 => "─",
                    _ => continue,
                };
                self.push(&Style::Faint.paint(&rule.repeat(width), self.colours));
            }
        }
    }

    fn paragraph(&mut self, indent: usize, marker: Option<&str>, text: &Text) {
        let hanging = indent + marker.map_or(0, |marker| display_width(marker) + 1);
        for (number, pieces) in text.iter().enumerate() {
            let mut line = Line::new();
            match marker.filter(|_| number == 0) {
                Some(marker) => line
                    .pad(indent)
                    .add(Style::Plain, format!("{marker}\u{a0}")),
                None => line.pad(hanging),
            };
            line.extend(pieces.clone());
            for line in line.wrap(self.text_width(), hanging) {
                let line = line.paint(usize::MAX, self.colours);
                self.push(&line.replace('\u{a0}', " "));
            }
        }
    }

    fn text_width(&self) -> usize {
        self.width.min(WIDTH_MAX)
    }

    fn push(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }
}
