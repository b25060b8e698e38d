//! A chapter as blocks of styled text.

use baton_terminal::output::Style;

use crate::codes::{
    BREAK, CODE, CODE_BLOCK, EMPHASIS, END, FIELD, HEADING, ITEM, LINK, PARAGRAPH, ROW, SEE,
    STRONG, TABLE, VERBATIM,
};

/// The blocks of a chapter, in order.
#[derive(Debug, Default)]
pub struct Page {
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug)]
pub(crate) enum Block {
    Heading {
        level: usize,
        text: Text,
    },
    Paragraph {
        indent: usize,
        text: Text,
    },
    Item {
        indent: usize,
        marker: String,
        text: Text,
    },
    Code {
        indent: usize,
        /// It is what commands have printed.
        is_output: bool,
        lines: Vec<String>,
    },
    /// Rows of cells; the first row is the heading, which may be empty.
    Table(Vec<Vec<Text>>),
    /// Topics that the chapter links to.
    See(Vec<String>),
}

/// Lines of styled pieces: one, unless the text has a line break.
pub(crate) type Text = Vec<Vec<(String, Style)>>;

impl Page {
    pub(crate) fn decode(encoded: &str) -> Self {
        let mut page = Self::default();
        for line in encoded.lines() {
            let mut chars = line.chars();
            if let Some(kind) = chars.next() {
                page.add(kind, chars.as_str());
            }
        }
        page
    }

    /// The headings, without styles.
    pub(crate) fn headings(&self) -> impl Iterator<Item = String> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Heading { text, .. } => Some(plain(text)),
            _ => None,
        })
    }

    fn add(&mut self, kind: char, rest: &str) {
        let block = match kind {
            HEADING => {
                let (level, rest) = number(rest);
                let text = text(rest, Style::Strong);
                Block::Heading { level, text }
            }
            PARAGRAPH => {
                let (indent, rest) = number(rest);
                let text = text(rest, Style::Plain);
                Block::Paragraph { indent, text }
            }
            ITEM => {
                let (indent, rest) = number(rest);
                let (marker, rest) = rest.split_once(FIELD).unwrap_or(("", rest));
                Block::Item {
                    indent,
                    marker: marker.to_owned(),
                    text: text(rest, Style::Plain),
                }
            }
            CODE_BLOCK => {
                let (indent, language) = number(rest);
                Block::Code {
                    indent,
                    is_output: language == "output",
                    lines: Vec::new(),
                }
            }
            CODE => {
                if let Some(Block::Code { lines, .. }) = self.blocks.last_mut() {
                    lines.push(rest.to_owned());
                }
                return;
            }
            TABLE => Block::Table(vec![row(rest, Style::Strong)]),
            ROW => {
                if let Some(Block::Table(rows)) = self.blocks.last_mut() {
                    rows.push(row(rest, Style::Plain));
                }
                return;
            }
            SEE => Block::See(rest.split(FIELD).map(str::to_owned).collect()),
            kind => unreachable!("the build script writes no {kind:?}"),
        };
        self.blocks.push(block);
    }
}

/// The digit with which a line begins.
fn number(rest: &str) -> (usize, &str) {
    let digit = rest.chars().next().and_then(|digit| digit.to_digit(10));
    let digit = digit.expect("the build script writes one digit");
    (digit as usize, &rest[1..])
}

fn row(rest: &str, style: Style) -> Vec<Text> {
    rest.split(FIELD).map(|cell| text(cell, style)).collect()
}

/// Decodes a text; styles within each other end where they began.
fn text(encoded: &str, base: Style) -> Text {
    let mut lines = vec![Vec::new()];
    let mut open = vec![base];
    let mut piece = String::new();
    for char in encoded.chars() {
        let style = match char {
            STRONG => Some(Style::Strong),
            // Terminals that cannot slant show it as they like; faint text is harder to read.
            EMPHASIS => Some(base),
            VERBATIM => Some(Style::Busy),
            LINK => Some(open.last().copied().unwrap_or(base)),
            END | BREAK => None,
            char => {
                piece.push(char);
                continue;
            }
        };
        let current = open.last().copied().unwrap_or(base);
        let ended = std::mem::take(&mut piece);
        if let Some(line) = lines.last_mut().filter(|_| !ended.is_empty()) {
            line.push((ended, current));
        }
        match (char, style) {
            (_, Some(style)) => open.push(style),
            (BREAK, None) => lines.push(Vec::new()),
            (_, None) => {
                open.pop();
            }
        }
    }
    if let Some(line) = lines.last_mut().filter(|_| !piece.is_empty()) {
        line.push((piece, base));
    }
    lines
}

/// A text without styles.
pub(crate) fn plain(text: &Text) -> String {
    let lines = text.iter().map(|line| {
        line.iter()
            .map(|(piece, _)| piece.as_str())
            .collect::<String>()
    });
    lines.collect::<Vec<_>>().join(" ")
}
