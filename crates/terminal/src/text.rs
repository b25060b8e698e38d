//! Lines of styled text, measured in terminal columns. A line may be shorter than its bound, never
//! longer.

use baton_web::text::cut;
pub use baton_web::text::{display_width, fit, grouped, shell};

use crate::output::Style;

/// One line of styled pieces.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<(String, Style)>,
    width: usize,
}

impl Line {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, style: Style, text: impl Into<String>) -> &mut Self {
        let text = text.into();
        self.width += display_width(&text);
        self.pieces.push((text, style));
        self
    }

    /// Adds several pieces.
    pub fn extend(&mut self, pieces: Vec<(String, Style)>) -> &mut Self {
        for (text, style) in pieces {
            self.add(style, text);
        }
        self
    }

    /// Adds another line behind this one.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.extend(other.pieces.clone())
    }

    /// Pads with spaces up to a column.
    pub fn pad(&mut self, to: usize) -> &mut Self {
        let missing = to.saturating_sub(self.width);
        self.add(Style::Plain, " ".repeat(missing))
    }

    /// Wraps the line between words; all lines but the first are indented. A word may consist of
    /// several pieces: pieces without a space between them stay together.
    pub fn wrap(&self, width: usize, indent: usize) -> Vec<Self> {
        let indent = if indent < width { indent } else { 0 };
        let mut lines = Vec::new();
        let mut line = Self::new();
        let mut begun = false;
        for word in self.words() {
            let ends = word.pieces.last().map_or("", |(piece, _)| piece);
            let spaces = display_width(ends) - display_width(ends.trim_end());
            if begun && line.width + word.width - spaces > width {
                lines.push(std::mem::take(&mut line));
                line.pad(indent);
                begun = false;
            }
            begun |= !word.pieces.iter().all(|(piece, _)| blank(piece));
            for (piece, style) in word.pieces {
                line.add(style, piece);
            }
        }
        lines.push(line);
        lines
    }

    /// Breaks the line at a width, also within a word; spaces at the end of a part are dropped.
    pub fn chop(&self, width: usize) -> Vec<Self> {
        let mut lines = vec![Self::new()];
        let mut spaces = Self::new();
        for (piece, style) in &self.pieces {
            for char in piece.chars() {
                if char == ' ' {
                    spaces.add(*style, char);
                    continue;
                }
                let char = char.to_string();
                let needed = spaces.width + display_width(&char);
                if lines.last().is_some_and(|it| it.width + needed > width) {
                    lines.push(Self::new());
                    spaces = Self::new();
                }
                if let Some(line) = lines.last_mut() {
                    line.append(&std::mem::take(&mut spaces));
                    line.join(*style, &char);
                }
            }
        }
        lines
    }

    /// Adds text to the last piece, if that has the same style.
    fn join(&mut self, style: Style, text: &str) {
        match self.pieces.last_mut() {
            Some((piece, last)) if *last == style => {
                piece.push_str(text);
                self.width += display_width(text);
            }
            _ => {
                self.add(style, text);
            }
        }
    }

    /// Splits the line into words, each with its trailing space.
    fn words(&self) -> Vec<Self> {
        let mut words = vec![Self::new()];
        let mut ended = false;
        for (piece, style) in &self.pieces {
            for part in piece.split_inclusive(' ') {
                if ended {
                    words.push(Self::new());
                }
                if let Some(word) = words.last_mut() {
                    word.add(*style, part);
                }
                ended = part.ends_with(' ');
            }
        }
        words
    }

    /// Renders the line, truncated to a width, without trailing spaces.
    pub fn paint(&self, width: usize, colour: bool) -> String {
        let mut text = String::new();
        let last = self.pieces.iter().rposition(|(piece, _)| !blank(piece));
        let used = &self.pieces[..last.map_or(0, |last| last + 1)];
        let total: usize = used.iter().map(|(piece, _)| display_width(piece)).sum();
        let mut left = width;
        for (place, (piece, style)) in used.iter().enumerate() {
            let rest = place + 1 == used.len();
            let piece = if rest { piece.trim_end() } else { piece };
            let fitted = if total <= width {
                piece.to_owned()
            } else {
                cut(piece, left, !rest)
            };
            left = left.saturating_sub(display_width(&fitted));
            if !fitted.is_empty() {
                text += &style.paint(&fitted, colour && !blank(&fitted));
            }
            if fitted != piece {
                break;
            }
        }
        text
    }
}

fn blank(text: &str) -> bool {
    text.chars().all(|c| c == ' ')
}

/// Formats a count: `1 task`, `1,200 tasks`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_that_it_was_cut_also_between_two_pieces() {
        let mut line = Line::new();
        line.add(Style::Good, "abc").add(Style::Bad, "def");
        assert_eq!(line.paint(6, false), "abcdef");
        assert_eq!(line.paint(3, false), "ab…");
        assert_eq!(line.paint(4, false), "abc…");
        assert_eq!(line.paint(0, false), "");
        assert_eq!(line.paint(3, true), "\u{1b}[32mab…\u{1b}[0m");
    }

    #[test]
    fn a_line_is_broken_between_words() {
        let mut line = Line::new();
        line.add(Style::Bad, "  ! ")
            .add(Style::Plain, "one two three abcdefghijklm x");
        let lines = line.wrap(10, 4);
        let text: Vec<String> = lines.iter().map(|line| line.paint(10, false)).collect();
        assert_eq!(
            text,
            ["  ! one", "    two", "    three", "    abcde…", "    x"]
        );
    }

    #[test]
    fn a_long_word_is_broken_at_the_width() {
        let mut line = Line::new();
        line.add(Style::Bad, "ab").add(Style::Plain, "cdef g  ");
        let chopped = |width| -> Vec<String> {
            let lines = line.chop(width);
            lines.iter().map(|it| it.paint(width, false)).collect()
        };
        assert_eq!(chopped(3), ["abc", "def", "g"]);
        assert_eq!(chopped(8), ["abcdef g"]);
        assert_eq!(chopped(3)[0].len(), 3);
    }

    #[test]
    fn no_line_begins_with_the_comma_of_the_one_before() {
        let mut line = Line::new();
        line.add(Style::Plain, "one two")
            .add(Style::Odd, ", out of time");
        let lines = line.wrap(9, 2);
        let text: Vec<String> = lines.iter().map(|line| line.paint(9, false)).collect();
        assert_eq!(text, ["one two,", "  out of", "  time"]);
        let narrow: Vec<String> = line
            .wrap(7, 0)
            .iter()
            .map(|it| it.paint(7, false))
            .collect();
        assert_eq!(narrow, ["one", "two,", "out of", "time"]);
    }
}
