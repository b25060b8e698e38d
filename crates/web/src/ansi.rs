//! Output of tasks as HTML: colours and weights of the terminal become classes, everything else of
//! its control language is dropped.
//!
//! A line without an end is cut, because browsers are slow with lines of megabytes; the raw log has
//! the whole.

use crate::markup::{Markup, push_escaped};

/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 10_000;

/// How the terminal would print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pen {
    bold: bool,
    faint: bool,
    italic: bool,
    underline: bool,
    /// One of 16 colours.
    foreground: Option<u8>,
    background: Option<u8>,
}

/// Renders output: bytes that are no UTF-8 become the replacement character.
#[must_use]
pub fn render(output: &[u8]) -> Markup {
    let text = String::from_utf8_lossy(output);
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    let (mut pen, mut open, mut column) = (Pen::default(), Pen::default(), 0);
    let mut rest = &*text;
    while let Some(character) = rest.chars().next() {
        if character == '\u{1b}' {
            let (sequence, after) = escape_sequence(rest);
            if let Some(parameters) = sequence {
                pen.select(parameters);
            }
            rest = after;
            continue;
        }
        let end = rest.find(['\u{1b}', '\n']).unwrap_or(rest.len());
        let end = if end == 0 { character.len_utf8() } else { end };
        let (run, after) = rest.split_at(end);
        rest = after;
        if run == "\n" {
            column = 0;
            html.push('\n');
            continue;
        }
        switch(&mut html, &mut open, pen);
        column = push_line(&mut html, run, column);
    }
    switch(&mut html, &mut open, Pen::default());
    Markup(html)
}

/// Appends a part of a line, and returns how long the line is.
fn push_line(html: &mut String, run: &str, column: usize) -> usize {
    // A carriage return redraws the line on a terminal; here it is kept as a space.
    let clean = run.trim_end_matches('\r').replace('\r', " ");
    let length = clean.chars().count();
    let room = LINE_CHARS_MAX.saturating_sub(column);
    if length <= room {
        push_escaped(html, &clean);
    } else if room > 0 {
        let part: String = clean.chars().take(room).collect();
        push_escaped(html, &part);
        html.push_str("<span class=\"cut\">… the line is longer</span>");
    }
    column + length
}

/// Splits an escape sequence off: the parameters, if it selects how to print, and the rest.
fn escape_sequence(text: &str) -> (Option<&str>, &str) {
    let after = &text[1..];
    let Some(control) = after.strip_prefix('[') else {
        // An operating system command ends with a bell or a string terminator.
        if let Some(command) = after.strip_prefix(']') {
            let end = command.find(['\u{7}', '\u{1b}', '\n']);
            let end = end.unwrap_or(command.len());
            let skipped = command[end..].strip_prefix('\u{7}');
            let skipped = skipped.or_else(|| command[end..].strip_prefix("\u{1b}\\"));
            return (None, skipped.unwrap_or(&command[end..]));
        }
        let mut characters = after.chars();
        if characters.next().is_some_and(|next| next != '\n') {
            return (None, characters.as_str());
        }
        return (None, after);
    };
    let end = control.find(|c: char| !matches!(c, '0'..='9' | ';' | ':' | '?' | ' '..='/'));
    let Some(end) = end else {
        return (None, "");
    };
    let (parameters, rest) = control.split_at(end);
    match rest.strip_prefix('m') {
        Some(rest) => (Some(parameters), rest),
        None if rest.starts_with('\n') => (None, rest),
        None => {
            let mut rest = rest.chars();
            rest.next();
            (None, rest.as_str())
        }
    }
}

impl Pen {
    /// Applies the parameters of a "select graphic rendition".
    fn select(&mut self, parameters: &str) {
        let mut codes = parameters.split([';', ':']).map(|code| {
            if code.is_empty() {
                Some(0)
            } else {
                code.parse::<u16>().ok()
            }
        });
        while let Some(code) = codes.next() {
            match code {
                Some(0) => *self = Self::default(),
                Some(1) => self.bold = true,
                Some(2) => self.faint = true,
                Some(3) => self.italic = true,
                Some(4) => self.underline = true,
                Some(22) => (self.bold, self.faint) = (false, false),
                Some(23) => self.italic = false,
                Some(24) => self.underline = false,
                Some(code @ 30..=37) => self.foreground = Some((code - 30) as u8),
                Some(code @ 90..=97) => self.foreground = Some((code - 82) as u8),
                Some(39) => self.foreground = None,
                Some(code @ 40..=47) => self.background = Some((code - 40) as u8),
                Some(code @ 100..=107) => self.background = Some((code - 92) as u8),
                Some(49) => self.background = None,
                // Colours by number or by value: only the first 16 are shown.
                Some(extended @ (38 | 48)) => {
                    let colour = match codes.next().flatten() {
                        Some(5) => codes.next().flatten(),
                        Some(2) => {
                            codes.by_ref().take(3).for_each(drop);
                            None
                        }
                        _ => None,
                    };
                    let colour = colour.filter(|colour| *colour < 16).map(|it| it as u8);
                    if extended == 38 {
                        self.foreground = colour;
                    } else {
                        self.background = colour;
                    }
                }
                _ => {}
            }
        }
    }

    fn classes(self) -> String {
        let mut classes = Vec::new();
        for (set, class) in [
            (self.bold, "b"),
            (self.faint, "d"),
            (self.italic, "i"),
            (self.underline, "u"),
        ] {
            if set {
                classes.push(class.to_owned());
            }
        }
        classes.extend(self.foreground.map(|colour| format!("f{colour}")));
        classes.extend(self.background.map(|colour| format!("g{colour}")));
        classes.join(" ")
    }
}

/// Ends the open span and begins one for the pen, if they differ.
fn switch(html: &mut String, open: &mut Pen, pen: Pen) {
    if *open == pen {
        return;
    }
    if *open != Pen::default() {
        html.push_str("</span>");
    }
    if pen != Pen::default() {
        html.push_str("<span class=\"");
        html.push_str(&pen.classes());
        html.push_str("\">");
    }
    *open = pen;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(output: &str) -> String {
        render(output.as_bytes()).0
    }

    #[test]
    fn colours_are_classes_and_text_stays_text() {
        assert_eq!(
            shown("a\u{1b}[1;31m<b>\u{1b}[0m c\n"),
            "a<span class=\"b f1\">&lt;b&gt;</span> c\n"
        );
        assert_eq!(shown("\u{1b}[38;5;9mx"), "<span class=\"f9\">x</span>");
        assert_eq!(shown("\u{1b}[38;2;1;2;3;4mx"), "<span class=\"u\">x</span>");
    }

    #[test]
    fn other_control_sequences_are_dropped() {
        assert_eq!(shown("\u{1b}[2J\u{1b}]0;title\u{7}x\u{1b}cy\r\n"), "xy\n");
        assert_eq!(shown("x\u{1b}["), "x");
        assert_eq!(shown("x\u{1b}"), "x");
        assert_eq!(shown("\u{1b}[31"), "");
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_the_next_is_whole() {
        let html = shown(&format!("{}\nnext", "x".repeat(1 << 20)));
        assert!(html.len() < LINE_CHARS_MAX + 200, "{}", html.len());
        assert!(html.ends_with("\nnext"));
    }
}
