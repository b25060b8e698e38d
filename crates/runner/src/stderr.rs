//! Standard error of processes that must not end because of it.

use std::fmt;
use std::io::{self, Write as _};

/// Writes a line to standard error. A full disk or a closed descriptor costs the line, and not the
/// process, as `eprintln!` would.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let text = format!("{text}\n");
    let _ = io::stderr().write_all(text.as_bytes());
}

/// [`line`] with the arguments of `format!`.
macro_rules! log_line {
    ($($text:tt)*) => {
        $crate::stderr::line(format_args!($($text)*))
    };
}

pub(crate) use log_line;
