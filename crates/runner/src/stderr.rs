//! Standard error of processes that must not end because of it.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;

/// The variable that says how log lines look: `text` or `json`.
pub const FORMAT_VARIABLE: &str = "BATON_LOG_FORMAT";

/// Writes a line to standard error. A full disk or a closed descriptor costs the line, and not the
/// process, as `eprintln!` would.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let text = if is_json() {
        let line = serde_json::json!({
            "level": "INFO",
            "target": "baton_runner",
            "message": text.to_string(),
        });
        format!("{line}\n")
    } else {
        format!("{text}\n")
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// True if log lines are objects, as the server that has started this process was told.
fn is_json() -> bool {
    static IS_JSON: OnceLock<bool> = OnceLock::new();
    *IS_JSON.get_or_init(|| std::env::var(FORMAT_VARIABLE).is_ok_and(|value| value == "json"))
}

/// [`line`] with the arguments of `format!`.
macro_rules! log_line {
    ($($text:tt)*) => {
        $crate::stderr::line(format_args!($($text)*))
    };
}

pub(crate) use log_line;
