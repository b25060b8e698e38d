//! Filtering of a process's output for a terminal.
//!
//! A pipe or a file receives the bytes unchanged. A terminal interprets escape sequences, which
//! can make it send input, hide text or change its title. So on a terminal only text, tabs, line
//! ends and colours pass; everything else is escaped. So is a lone carriage return, which would
//! let a line overwrite itself.

use std::io::{self, Write};
use std::mem::take;

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
            Some(sanitizer) => sanitizer.finish(out),
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
            sanitizer.finish(out)?;
        }
        out.write_all(b"\n")
    }

    fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        match &mut self.sanitizer {
            Some(sanitizer) => sanitizer.write(bytes, out),
            None => out.write_all(bytes),
        }
    }
}

/// Passes text and colours, in pieces of any size, and escapes the rest.
#[derive(Debug, Default)]
struct Sanitizer {
    /// An incomplete character or escape sequence.
    pending: Vec<u8>,
    coloured: bool,
}

/// The first token of a byte string, with its length.
enum Piece {
    Text(usize),
    /// An SGR escape sequence.
    Colour(usize),
    /// Bytes to escape.
    Escaped(usize),
    /// A token that continues beyond the end.
    Incomplete,
}

/// Longest accepted colour sequence.
const COLOUR_BYTES_MAX: usize = 32;

impl Sanitizer {
    fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut held = take(&mut self.pending);
        held.extend_from_slice(bytes);
        let mut rest = &held[..];
        while !rest.is_empty() {
            match piece(rest) {
                Piece::Incomplete => {
                    self.pending = rest.to_vec();
                    break;
                }
                piece => rest = self.pass(rest, &piece, out)?,
            }
        }
        Ok(())
    }

    fn pass<'a>(
        &mut self,
        bytes: &'a [u8],
        piece: &Piece,
        out: &mut impl Write,
    ) -> io::Result<&'a [u8]> {
        let length = match *piece {
            Piece::Text(length) => {
                out.write_all(&bytes[..length])?;
                length
            }
            Piece::Colour(length) => {
                self.coloured = true;
                out.write_all(&bytes[..length])?;
                length
            }
            Piece::Escaped(length) => {
                escape(&bytes[..length], out)?;
                length
            }
            Piece::Incomplete => {
                escape(bytes, out)?;
                bytes.len()
            }
        };
        Ok(&bytes[length..])
    }

    /// Escapes incomplete input, and resets colours.
    fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        let held = take(&mut self.pending);
        self.pass(&held, &Piece::Incomplete, out)?;
        if take(&mut self.coloured) {
            out.write_all(b"\x1b[0m")?;
        }
        Ok(())
    }
}

fn escape(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    bytes
        .iter()
        .try_for_each(|byte| write!(out, "{}", byte.escape_ascii()))
}

/// `bytes` is not empty.
fn piece(bytes: &[u8]) -> Piece {
    match bytes[0] {
        b'\n' | b'\t' => Piece::Text(1),
        b'\r' => match bytes.get(1) {
            None => Piece::Incomplete,
            Some(b'\n') => Piece::Text(2),
            Some(_) => Piece::Escaped(1),
        },
        0x1b => colour(bytes),
        byte if byte.is_ascii_control() => Piece::Escaped(1),
        byte if byte.is_ascii() => {
            let end = bytes
                .iter()
                .position(|byte| !byte.is_ascii() || byte.is_ascii_control());
            Piece::Text(end.unwrap_or(bytes.len()))
        }
        _ => character(bytes),
    }
}

/// ESC, `[`, numbers, `m`.
fn colour(bytes: &[u8]) -> Piece {
    let body = match bytes.get(1) {
        None => return Piece::Incomplete,
        Some(b'[') => &bytes[2..],
        Some(_) => return Piece::Escaped(1),
    };
    let end = body
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'));
    match end {
        Some(end) if body[end] == b'm' && end < COLOUR_BYTES_MAX => Piece::Colour(end + 3),
        None if body.len() < COLOUR_BYTES_MAX => Piece::Incomplete,
        _ => Piece::Escaped(1),
    }
}

/// One character beyond ASCII.
fn character(bytes: &[u8]) -> Piece {
    let window = &bytes[..bytes.len().min(4)];
    let (text, error) = match std::str::from_utf8(window) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = std::str::from_utf8(&window[..error.valid_up_to()]);
            (valid.unwrap_or_default(), Some(error))
        }
    };
    match text.chars().next() {
        Some(c) if is_unsafe(c) => Piece::Escaped(c.len_utf8()),
        Some(c) => Piece::Text(c.len_utf8()),
        // Truncated by the end of the buffer, or invalid.
        None => match error.and_then(|error| error.error_len()) {
            None => Piece::Incomplete,
            Some(_) => Piece::Escaped(1),
        },
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
            (b"cut \xe2\x82", "cut \\xe2\\x82"),
            (b"cut \x1b[3", "cut \\x1b[3"),
        ] {
            assert_eq!(shown(None, true, bytes), text);
        }
        let long = format!("\x1b[{}m", "1;".repeat(40));
        assert!(!shown(None, true, long.as_bytes()).contains('\x1b'));
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
