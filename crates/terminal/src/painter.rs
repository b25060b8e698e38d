//! Progress drawn in place at the end of a terminal's output.
//!
//! A frame is a list of lines. [`Painter`] computes the text that replaces one frame by the next,
//! below lines that scroll; the caller writes it. [`Progress`] does so on standard error, and
//! prints a line for each change if that is no terminal.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use baton_model::time::Wall;
use baton_web::graph::shares;

use crate::output::{Style, colours, note};
use crate::text::Line;

/// Maximum width of the names in a frame.
pub const NAME_WIDTH_MAX: usize = 24;
/// Maximum width of a bar.
pub const BAR_WIDTH: usize = 24;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_MS: u64 = 100;
/// Size assumed for a terminal that does not report one.
const SIZE: (usize, usize) = (80, 24);

/// The mark of something that runs, at a time.
pub fn spinner(at: Wall) -> &'static str {
    SPINNER[(at.0 / SPINNER_MS % SPINNER.len() as u64) as usize]
}

/// Renders a bar whose pieces, each with its glyph and style, have lengths in proportion to their
/// numbers. Every piece that is not zero is visible if the bar is wide enough for all.
pub fn bar<const N: usize>(pieces: [(u64, &str, Style); N], width: usize) -> Vec<(String, Style)> {
    let cells = shares(&pieces.map(|(number, ..)| number), width);
    let cells = pieces.into_iter().zip(cells);
    let mut bar: Vec<(String, Style)> = cells
        .filter(|(_, cells)| *cells > 0)
        .map(|((_, glyph, style), cells)| (glyph.repeat(cells), style))
        .collect();
    if bar.is_empty() {
        bar.push(("┄".repeat(width), Style::Faint));
    }
    bar
}

/// Renders a bar of what is done and what is open.
pub fn done_bar(done: u64, all: u64) -> Vec<(String, Style)> {
    let open = all.saturating_sub(done);
    bar(
        [(done, "━", Style::Good), (open, "─", Style::Faint)],
        BAR_WIDTH,
    )
}

/// Width and height of a terminal.
pub fn size(terminal: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(terminal);
    size.map_or(SIZE, |size| match (size.ws_col, size.ws_row) {
        (0, _) | (_, 0) => SIZE,
        (columns, lines) => (columns.into(), lines.into()),
    })
}

/// Replaces frames. The cursor is always at the start of the line below the frame.
#[derive(Debug)]
pub struct Painter {
    colours: bool,
    /// Lines of the frame on the screen.
    shown: usize,
}

impl Painter {
    pub const fn new(colours: bool) -> Self {
        Self { colours, shown: 0 }
    }

    pub const fn is_shown(&self) -> bool {
        self.shown > 0
    }

    /// The text that replaces the frame by permanent lines, and draws another frame below them.
    pub fn replace(&mut self, above: &[String], frame: &[Line], width: usize) -> String {
        let mut text = self.erase();
        for line in above {
            text.push_str(line);
            text.push('\n');
        }
        for line in frame {
            text.push_str(&line.paint(width, self.colours));
            text.push('\n');
        }
        self.shown = frame.len();
        text
    }

    /// The text that removes the frame.
    pub fn erase(&mut self) -> String {
        match std::mem::take(&mut self.shown) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }

    /// Makes the frame permanent.
    pub const fn keep(&mut self) {
        self.shown = 0;
    }
}

/// Progress on standard error.
#[derive(Debug)]
pub struct Progress {
    pub terminal: bool,
    painter: Painter,
    frame: Vec<Line>,
    /// Without a terminal: the last line printed.
    last: String,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    pub fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            terminal,
            painter: Painter::new(colours(terminal)),
            frame: Vec::new(),
            last: String::new(),
        }
    }

    /// Shows `line`; on a terminal also `ticking`, which may change with every call.
    pub fn update(&mut self, mut line: Line, ticking: &str) {
        if self.terminal {
            line.add(Style::Plain, ticking);
            return self.draw(vec![line]);
        }
        let text = line.paint(usize::MAX, false);
        if self.last != text {
            note(&text);
            self.last = text;
        }
    }

    /// Draws a frame on the terminal.
    pub fn draw(&mut self, frame: Vec<Line>) {
        self.frame = frame;
        self.show();
    }

    /// Removes the frame before other lines are printed.
    pub fn hide(&mut self) {
        let text = self.painter.erase();
        write(&text);
    }

    /// Draws the frame again, below them.
    pub fn show(&mut self) {
        let (width, _) = size(io::stderr());
        let text = self.painter.replace(&[], &self.frame, width);
        write(&text);
    }

    /// Prints a message above the frame.
    pub fn note(&mut self, message: &str) {
        self.hide();
        note(message);
        self.show();
    }

    /// Removes the frame for good.
    pub fn clear(&mut self) {
        self.frame.clear();
        self.hide();
    }
}

fn write(text: &str) {
    // A closed standard error is ignored.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        let mut line = Line::new();
        line.add(Style::Good, text);
        line
    }

    #[test]
    fn a_frame_replaces_the_one_before_and_permanent_lines_stay() {
        let mut painter = Painter::new(false);
        assert_eq!(painter.erase(), "");
        let first = painter.replace(&[], &[line("a"), line("bcd")], 2);
        assert_eq!(first, "a\nb…\n");
        let second = painter.replace(&["above".to_owned()], &[line("c")], 2);
        assert_eq!(second, "\x1b[2A\r\x1b[Jabove\nc\n");
        assert!(painter.is_shown());
        painter.keep();
        assert_eq!(painter.replace(&[], &[line("d")], 2), "d\n");
        assert_eq!(painter.erase(), "\x1b[1A\r\x1b[J");
        assert!(!painter.is_shown());
        let coloured = Painter::new(true).replace(&[], &[line("a")], 2);
        assert_eq!(coloured, "\x1b[32ma\x1b[0m\n");
    }

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        let drawn = |done, all| {
            let pieces = done_bar(done, all).into_iter();
            pieces.map(|(piece, _)| piece).collect::<String>()
        };
        let (full, empty) = ("━".repeat(BAR_WIDTH), "─".repeat(BAR_WIDTH));
        assert_eq!(drawn(0, 10), empty);
        assert_eq!(drawn(10, 10), full);
        assert_eq!(drawn(5, 10), format!("{}{}", &full[..36], &empty[..36]));
        assert_eq!(drawn(u64::MAX, 0), full);
        assert_eq!(drawn(0, 0), "┄".repeat(BAR_WIDTH));
    }
}
