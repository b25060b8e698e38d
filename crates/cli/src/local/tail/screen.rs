//! Filtering of a process's output for a terminal.
//!
//! A pipe or a file receives the bytes unchanged. A terminal interprets escape sequences, which
//! can make it send input, hide text or change its title. So on a terminal only text, tabs, line
//! ends and colours pass; everything else is escaped. So is a lone carriage return, which would
//! let a line overwrite itself.

use std::io::{self, Write};
use std::mem::take;

use anstyle_parse::{Params, Parser, Perform};

use crate::output::is_unsafe;

/// Prints the output stream of one process.
#[derive(Debug)]
pub(crate) struct StreamPrinter {
    /// Printed before each line.
    prefix: Option<String>,
    /// An incomplete line; used only with a prefix.
    line: Vec<u8>,
    sanitizer: Option<Sanitizer>,
}

/// Where output is printed by lines, a longer line is split.
const LINE_BYTES_MAX: usize = 64 * 1_024;

impl StreamPrinter {
    pub(crate) fn new(prefix: Option<String>, terminal: bool) -> Self {
        Self {
            prefix,
            line: Vec::new(),
            sanitizer: terminal.then(Sanitizer::default),
        }
    }

    pub(crate) fn print(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.prefix.is_none() {
            return self.write(bytes, out);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.line.pop();
                self.end_line(out)?;
            } else if self.line.len() >= LINE_BYTES_MAX {
                self.end_line(out)?;
            }
        }
        Ok(())
    }

    /// Prints what is held back; the stream has ended.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line(out)?;
        }
        match &mut self.sanitizer {
            Some(sanitizer) => out.write_all(&sanitizer.finish()),
            None => Ok(()),
        }
    }

    fn end_line(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(prefix) = &self.prefix {
            out.write_all(prefix.as_bytes())?;
        }
        let line = take(&mut self.line);
        self.write(&line, out)?;
        // Before the line end, so that a colour does not leak into the next process's line.
        if let Some(sanitizer) = &mut self.sanitizer {
            out.write_all(&sanitizer.finish())?;
        }
        out.write_all(b"\n")
    }

    fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        match &mut self.sanitizer {
            Some(sanitizer) => out.write_all(&sanitizer.clean(bytes)),
            None => out.write_all(bytes),
        }
    }
}

/// Passes text and colours, in pieces of any size, and escapes the rest.
#[derive(Debug, Default)]
struct Sanitizer {
    parser: Parser,
    /// An incomplete character or escape sequence.
    held: Vec<u8>,
    coloured: bool,
}

/// A longer escape sequence is escaped. It bounds what an unterminated one holds back.
const SEQUENCE_BYTES_MAX: usize = 64;

impl Sanitizer {
    fn clean(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(bytes.len());
        bytes.iter().for_each(|byte| self.pass(*byte, &mut clean));
        clean
    }

    fn pass(&mut self, byte: u8, clean: &mut Vec<u8>) {
        let line_end = byte == b'\n' && self.held == b"\r";
        // A control character ends what is incomplete, and so does a byte of another character.
        let in_character = self.held.first().is_some_and(|first| !first.is_ascii());
        let breaks = match byte {
            0x80..=0xbf => !in_character,
            _ => byte.is_ascii_control() || !byte.is_ascii(),
        };
        if breaks && !line_end {
            self.escape_held(clean);
        }
        self.held.push(byte);
        let mut token = Token::default();
        self.parser.advance(&mut token, byte);
        let is_held = |c: char| self.held == c.encode_utf8(&mut [0; 4]).as_bytes();
        match token {
            Token::Incomplete if self.held.len() < SEQUENCE_BYTES_MAX => return,
            // It depends on the next byte.
            Token::Control(b'\r') => return,
            Token::Text(c) if !is_unsafe(c) && is_held(c) => {}
            Token::Control(b'\n' | b'\t') => {}
            Token::Colour => self.coloured = true,
            _ => return self.escape_held(clean),
        }
        clean.append(&mut self.held);
    }

    fn escape_held(&mut self, clean: &mut Vec<u8>) {
        if self.held.is_empty() {
            return;
        }
        self.parser = Parser::default();
        for byte in self.held.drain(..) {
            match byte {
                b' '..=b'~' => clean.push(byte),
                _ => clean.extend(byte.escape_ascii()),
            }
        }
    }

    /// Escapes incomplete input, and resets colours.
    fn finish(&mut self) -> Vec<u8> {
        let mut clean = Vec::new();
        self.escape_held(&mut clean);
        if take(&mut self.coloured) {
            clean.extend_from_slice(b"\x1b[0m");
        }
        clean
    }
}

/// What the last byte has completed.
#[derive(Debug, Default)]
enum Token {
    #[default]
    Incomplete,
    Text(char),
    Control(u8),
    /// An SGR sequence.
    Colour,
    /// Any other sequence.
    Sequence,
}

impl Perform for Token {
    fn print(&mut self, c: char) {
        *self = Self::Text(c);
    }

    fn execute(&mut self, byte: u8) {
        *self = Self::Control(byte);
    }

    fn csi_dispatch(&mut self, _: &Params, intermediates: &[u8], ignore: bool, action: u8) {
        let colour = action == b'm' && intermediates.is_empty() && !ignore;
        *self = if colour { Self::Colour } else { Self::Sequence };
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        *self = Self::Sequence;
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, _: u8) {
        *self = Self::Sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one piece, and byte by byte: both must show the same.
    fn shown(prefix: Option<&str>, terminal: bool, bytes: &[u8]) -> String {
        let in_pieces = |size: usize| {
            let mut printer = StreamPrinter::new(prefix.map(str::to_owned), terminal);
            let mut out = Vec::new();
            for piece in bytes.chunks(size) {
                printer.print(piece, &mut out).expect("a buffer");
            }
            printer.finish(&mut out).expect("a buffer");
            String::from_utf8_lossy(&out).into_owned()
        };
        let whole = in_pieces(bytes.len().max(1));
        assert_eq!(in_pieces(1), whole);
        whole
    }

    #[test]
    fn a_pipe_gets_everything_as_it_is() {
        let bytes = b"a\x1b]0;title\x07\rb\0\n";
        assert_eq!(shown(None, false, bytes).as_bytes(), bytes);
    }

    #[test]
    fn a_terminal_gets_text_tabs_and_colours() {
        assert_eq!(
            shown(None, true, "a\tgrün €\r\n".as_bytes()),
            "a\tgrün €\r\n"
        );
        assert_eq!(
            shown(None, true, b"\x1b[1;31mred\x1b[m\n"),
            "\x1b[1;31mred\x1b[m\n\x1b[0m"
        );
    }

    #[test]
    fn a_terminal_is_told_nothing_else() {
        for (bytes, text) in [
            (&b"\x1b]0;title\x07"[..], "\\x1b]0;title\\x07"),
            (b"\x1b[2J", "\\x1b[2J"),
            (b"\x1b[?1049h", "\\x1b[?1049h"),
            (b"\x1b[6n", "\\x1b[6n"),
            (b"over\rwritten", "over\\rwritten"),
            (b"\x08\x7f\0", "\\x08\\x7f\\x00"),
            ("\u{9b}2J".as_bytes(), "\\xc2\\x9b2J"),
            ("\u{202e}x".as_bytes(), "\\xe2\\x80\\xaex"),
            (b"\xff\xc3(", "\\xff\\xc3("),
            (b"\xf0\x90(", "\\xf0\\x90("),
            (b"cut \xe2\x82", "cut \\xe2\\x82"),
            (b"cut \x1b[3", "cut \\x1b[3"),
            (b"\x1b[>4;2m\x1b[?1m", "\\x1b[>4;2m\\x1b[?1m"),
            (b"\x1bPq'\"\\\x1b\\", "\\x1bPq'\"\\\\x1b\\"),
            (b"\x1b[\x80m\x1b[3\xbf1m", "\\x1b[\\x80m\\x1b[3\\xbf1m"),
            (b"\x1b[3\nline", "\\x1b[3\nline"),
            (b"\x1b[3\x1b[2J", "\\x1b[3\\x1b[2J"),
            ("\u{1b}]0;grün".as_bytes(), "\\x1b]0;grün"),
            ("\u{1b}\u{20ac}".as_bytes(), "\\x1b€"),
        ] {
            assert_eq!(shown(None, true, bytes), text);
        }
        let long = format!("\x1b[{}m", "1;".repeat(40));
        assert!(!shown(None, true, long.as_bytes()).contains('\x1b'));
        // A string without end hides nothing for long.
        let endless = format!("\x1b]0;{}\n", "x".repeat(200));
        assert_eq!(
            shown(None, true, endless.as_bytes()),
            endless.replace('\x1b', "\\x1b")
        );
    }

    #[test]
    fn lines_of_several_processes_are_named_and_whole() {
        assert_eq!(
            shown(Some("p | "), false, b"a\n\nb"),
            "p | a\np | \np | b\n"
        );
        assert_eq!(
            shown(Some("p | "), true, b"\x1b[31mred\nplain\n"),
            "p | \x1b[31mred\x1b[0m\np | plain\n"
        );
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let long = vec![b'x'; LINE_BYTES_MAX * 2];
        let mut printer = StreamPrinter::new(Some("p | ".to_owned()), false);
        let mut out = Vec::new();
        printer
            .print(&long[..LINE_BYTES_MAX], &mut out)
            .expect("a buffer");
        assert_eq!(out.len(), LINE_BYTES_MAX + 5);
    }
}
