//! Names of tasks, processes and parameters, which are also names of files.

use crate::limits::NAME_BYTES_MAX;

/// Returns why a string is not a valid name.
pub(crate) fn bad_name(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.starts_with('.') {
        Some("it starts with a dot")
    } else if text.contains('/') {
        Some("it contains a slash")
    } else if text.contains(char::is_whitespace) {
        Some("it contains a space")
    } else if text.contains(char::is_control) {
        Some("it contains a control character")
    } else if text.len() > NAME_BYTES_MAX {
        Some("it is too long for a file name")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_a_file_name() {
        for good in ["a", "build-1", "a.b", "Ärger", "a:b"] {
            assert_eq!(bad_name(good), None, "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "a\tb",
            "a\u{7}",
            &"x".repeat(300),
        ] {
            assert!(bad_name(bad).is_some(), "{bad}");
        }
    }
}
