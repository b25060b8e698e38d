//! Task ids: names of files, and arguments of commands.

use std::fmt;
use std::str::FromStr;

use baton_core::clock::Zone;
use baton_model::time::Wall;

use super::RootError;

/// The id of a task below one root.
///
/// It is a file name that needs no quoting in a shell, is no hidden file and no
/// option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

/// Room for a suffix in a file name of 255 bytes.
const BYTES_MAX: usize = 128;

impl TaskId {
    /// Checks a chosen id.
    ///
    /// # Errors
    /// [`RootError::BadId`] with the reason.
    pub fn new(text: &str) -> Result<Self, RootError> {
        match unfit(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(RootError::BadId {
                text: text.chars().take(BYTES_MAX).collect(),
                reason,
            }),
        }
    }

    /// Generates an id: the task's name, the start time, and four random digits, because two may
    /// start in the same second.
    #[must_use]
    pub fn generate(name: &str, began: Wall, random: u16) -> Self {
        let at = Zone::UTC.format("%Y%m%d-%H%M%S", began);
        let suffix = format!("-{at}-{random:04x}");
        // One byte for one character, so that the length is known.
        let fitting = name.chars().map(|c| if fits(c) { c } else { '-' });
        let room = BYTES_MAX.saturating_sub(suffix.len());
        let stem: String = fitting
            .skip_while(|c| matches!(c, '.' | '-'))
            .take(room)
            .collect();
        let stem = if stem.is_empty() { "task" } else { &stem };
        Self(format!("{stem}{suffix}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TaskId {
    type Err = RootError;
    fn from_str(text: &str) -> Result<Self, RootError> {
        Self::new(text)
    }
}

const fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn unfit(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > BYTES_MAX {
        Some("it is longer than 128 bytes")
    } else if text.starts_with('.') {
        Some("it begins with a dot; begin with a letter or a digit")
    } else if text.starts_with('-') {
        Some("it begins with a dash, as an option does; begin with a letter or a digit")
    } else if !text.chars().all(fits) {
        Some("it holds characters other than letters, digits, `.`, `_` and `-`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_plain_file_name() {
        for good in ["a", "A.b_c-9", "0", &"x".repeat(128)] {
            assert_eq!(TaskId::new(good).expect("good").as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_invalid_id_is_reported_without_control_characters() {
        let error = TaskId::new("a\u{1b}[2J").expect_err("a control character");
        assert_eq!(
            error.to_string(),
            "`a\\u{1b}[2J` is not a valid task id: it holds characters other than \
             letters, digits, `.`, `_` and `-`"
        );
    }

    #[test]
    fn a_generated_id_names_the_task_and_its_beginning() {
        let id = TaskId::generate("nightly", Wall(1_735_689_599_000), 0xab);
        assert_eq!(id.as_str(), "nightly-20241231-235959-00ab");
    }

    #[test]
    fn a_generated_id_is_always_an_id() {
        for name in ["", "-", "...", "a/b c", "Ärger", "\n", &"ü".repeat(300)] {
            let id = TaskId::generate(name, Wall(u64::MAX), u16::MAX);
            TaskId::new(id.as_str()).expect("checked by the same rules");
        }
        let odd = TaskId::generate("a/b c", Wall(0), 0);
        assert_eq!(odd.as_str(), "a-b-c-19700101-000000-0000");
    }
}
