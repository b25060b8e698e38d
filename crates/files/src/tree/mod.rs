//! The text of a file as a tree of values with positions.
//!
//! All three formats produce the same tree, so that the schema is implemented once and errors
//! are uniform. A number keeps its text, because `1.10` as a parameter means those four
//! characters.

mod item;
mod json;
mod toml;
mod yaml;

use crate::error::{Kind, Position, Problem};
use crate::format::Format;
use crate::limits::{DEPTH_MAX, SizeLimits};
pub(crate) use item::Item;

/// A value with its position.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) value: Value,
    pub(crate) position: Option<Position>,
}

/// A value of a file.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// The text, without underscores and in base ten.
    Number(String),
    String(String),
    List(Vec<Tree>),
    /// In the order of the file where the format keeps it; keys are unique.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) position: Option<Position>,
    pub(crate) value: Tree,
}

impl Tree {
    /// The value of a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key)?;
        Some(&entry.value)
    }

    /// True for a map with this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries of a map; empty for other values.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }
}

impl Value {
    /// The type, for error messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Parses the text. Duplicate keys, excessive depth and alias bombs are reported here, because
/// the tree no longer shows them.
pub(crate) fn parse(text: &str, format: Format, size: &SizeLimits) -> Result<Tree, Vec<Problem>> {
    let bytes_max = match format {
        Format::Toml => size.toml_bytes_max,
        Format::Yaml | Format::Json => size.file_bytes_max,
    };
    if text.len() > bytes_max {
        return Err(vec![too_large(size, &format!("{bytes_max} bytes"), None)]);
    }
    // A byte order mark, which some editors write.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml => yaml::parse(text, size).map_err(|problem| vec![problem]),
        Format::Toml => toml::parse(text),
        Format::Json => json::parse(text, size),
    }
}

/// Bytes between two cached character counts.
const BLOCK: usize = 1024;

/// Converts byte offsets to positions. A file may be one long line, so columns are looked up
/// instead of counted from the start of the line each time.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// Characters before each block.
    blocks: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0)
            .chain(breaks.map(|(at, _)| at + 1))
            .collect();
        let mut characters = 0;
        let blocks = text
            .as_bytes()
            .chunks(BLOCK)
            .map(|block| {
                let before = characters;
                characters += block.iter().filter(|byte| begins_character(**byte)).count();
                before
            })
            .collect();
        Self {
            text,
            starts,
            blocks,
        }
    }

    fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts[line - 1];
        let column = self.characters_before(offset) - self.characters_before(start) + 1;
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        // The end of the text may lie behind the last block.
        let block = (offset / BLOCK).min(self.blocks.len().saturating_sub(1));
        let rest = &self.text.as_bytes()[block * BLOCK..offset];
        let counted = rest.iter().filter(|byte| begins_character(**byte)).count();
        self.blocks.get(block).copied().unwrap_or(0) + counted
    }
}

fn begins_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

fn syntax(format: &str, message: &str, position: Option<Position>, hint: &str) -> Problem {
    Problem {
        kind: Kind::Syntax,
        position,
        path: String::new(),
        message: format!("invalid {format}: {}", crate::error::clean(message)),
        hint: hint.to_owned(),
    }
}

/// `bound` is the exceeded limit.
pub(crate) fn too_large(size: &SizeLimits, bound: &str, position: Option<Position>) -> Problem {
    Problem {
        kind: Kind::TooLarge,
        position,
        path: String::new(),
        message: format!("the {} file has more than {bound}", size.what),
        hint: size.hint.to_owned(),
    }
}

pub(crate) fn too_deep(position: Option<Position>) -> Problem {
    Problem {
        kind: Kind::TooDeep,
        position,
        path: String::new(),
        message: format!("lists and maps are nested more than {DEPTH_MAX} levels deep"),
        hint: "check for an extra bracket or indent".to_owned(),
    }
}

fn duplicate_key(key: &str, position: Option<Position>) -> Problem {
    Problem {
        kind: Kind::DuplicateKey,
        position,
        path: String::new(),
        message: format!("duplicate key {}", crate::error::quote(key)),
        hint: "remove or rename one of the two".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let lines = Lines::new("ab\nä€c\n");
        let at = |offset| {
            let Position { line, column } = lines.position(offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at("ab\nä€".len()), (2, 3));
        assert_eq!(at("ab\nä€c\n".len()), (3, 1));
        // Neither the middle of a character nor beyond the end is a panic.
        assert_eq!(at(4).0, 2);
        assert_eq!(at(999).0, 3);
    }

    #[test]
    fn columns_of_a_long_line_are_those_that_one_counts() {
        let text = "aä€".repeat(BLOCK);
        let lines = Lines::new(&text);
        for (column, (offset, _)) in text.char_indices().enumerate() {
            let found = lines.position(offset);
            assert_eq!(usize::try_from(found.column), Ok(column + 1));
        }
        assert_eq!(Lines::new("").position(0).column, 1);
    }
}
