//! Problems of a file, for people and for programs.
//!
//! The reader collects problems instead of stopping at the first, so that the user fixes a file
//! in one go. Text from the file is repeated only through [`quote`], which keeps it short and
//! free of control characters: errors are printed to a terminal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{PROBLEMS_MAX, QUOTED_CHARS_MAX};

/// The kind of a problem, for programs; people read [`Problem::message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The file could not be read.
    Unreadable,
    /// The file name has no known extension.
    UnknownFormat,
    /// The file, or its expansion, is too large.
    TooLarge,
    /// The file is not UTF-8.
    NotUtf8,
    /// The text is not YAML, TOML or JSON.
    Syntax,
    /// Lists and maps are nested too deep.
    TooDeep,
    /// A key occurs twice in one map.
    DuplicateKey,
    /// An unknown field.
    UnknownField,
    /// A required field is missing.
    MissingField,
    /// Two fields that exclude each other.
    Conflict,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that is not valid.
    BadValue,
    /// A number, duration or size outside its bounds.
    OutOfRange,
    /// An invalid name.
    BadName,
    /// A name that is already used.
    DuplicateName,
    /// A task without processes.
    NoProcesses,
    /// A dependency on a process that does not exist.
    UnknownProcess,
    /// A dependency cycle.
    Cycle,
    /// A dependency on the end of a daemon.
    DaemonDependency,
    /// A dependency on an ephemeral process.
    EphemeralDependency,
    /// A dependency between a final and a regular process.
    FinalDependency,
    /// A malformed template, or one in a field without templates.
    Template,
    /// A reference to an unknown name.
    UnknownReference,
    /// A reference or parameter without a value.
    Unbound,
    /// An argument for a parameter that the file does not declare.
    UnknownParam,
    /// A reference to a task that the workflow does not have.
    UnknownTask,
    /// A reference to outputs of a task that is not upstream.
    NotUpstream,
    /// Item edges that do not match the items.
    BadEdges,
    /// A file that several items would write their output to.
    SharedFile,
}

/// A line and column of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// One problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub kind: Kind,
    /// Line and column, if known.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// The field, such as `processes[2].after[0]`; empty for the whole file.
    #[serde(rename = "field")]
    pub path: String,
    pub message: String,
    pub hint: String,
}

/// A field and its position in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) path: String,
    pub(crate) position: Option<Position>,
}

impl Location {
    /// The location of an argument of a start: a field without a position in the file.
    pub(crate) fn argument(what: &str, name: &str) -> Self {
        Self {
            path: format!("{what}.{}", clean(name)),
            position: None,
        }
    }

    pub(crate) fn problem(&self, kind: Kind, message: String, hint: impl Into<String>) -> Problem {
        Problem {
            kind,
            position: self.position,
            path: self.path.clone(),
            message,
            hint: hint.into(),
        }
    }
}

/// All problems of one file; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The file name as the caller passed it.
    pub file: String,
    /// In the order of the text.
    pub problems: Vec<Problem>,
    /// The number of further problems that are not listed.
    pub left_off: usize,
}

impl Errors {
    /// Sorts and deduplicates the problems of one file. There must be at least one.
    pub(crate) fn new(file: &str, mut problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "errors without a problem");
        // Problems without a position concern the whole file and come first. The sort is
        // stable: problems of one position keep the order in which they were found.
        problems.sort_by_key(|problem| problem.position);
        problems.dedup();
        let left_off = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        Self {
            file: file.to_owned(),
            problems,
            left_off,
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{}", clean(&self.file))?;
            if let Some(Position { line, column }) = problem.position {
                write!(f, ":{line}:{column}")?;
            }
            if !problem.path.is_empty() {
                write!(f, ": {}", problem.path)?;
            }
            write!(f, "\n  {}\n  hint: {}", problem.message, problem.hint)?;
        }
        if self.left_off > 0 {
            write!(f, "\n\nand {} more", self.left_off)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Returns user text in backquotes, shortened and without control characters.
pub(crate) fn quote(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{}`", clean(&short))
}

/// Escapes line breaks and control characters.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        // Also escape the invisible characters that reorder a line.
        let reorders = matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: Option<u32>, message: &str) -> Problem {
        Problem {
            kind: Kind::BadValue,
            position: line.map(|line| Position { line, column: 1 }),
            path: "x".to_owned(),
            message: message.to_owned(),
            hint: "do".to_owned(),
        }
    }

    #[test]
    fn problems_stand_in_the_order_of_the_text_and_once_each() {
        let errors = Errors::new(
            "f",
            vec![
                problem(Some(3), "c"),
                problem(None, "a"),
                problem(Some(1), "b"),
                problem(Some(1), "b"),
            ],
        );
        let messages: Vec<&str> = errors.problems.iter().map(|p| &*p.message).collect();
        assert_eq!(messages, ["a", "b", "c"]);
    }

    #[test]
    fn beyond_the_limit_problems_are_counted() {
        let many = (1..=u32::try_from(PROBLEMS_MAX).expect("small") + 7)
            .map(|line| problem(Some(line), "x"))
            .collect();
        let errors = Errors::new("f", many);
        assert_eq!((errors.problems.len(), errors.left_off), (PROBLEMS_MAX, 7));
        assert!(errors.to_string().ends_with("\n\nand 7 more"));
    }

    #[test]
    fn what_is_quoted_can_neither_flood_nor_drive_a_terminal() {
        assert_eq!(quote("a\u{1b}[2J\nb"), "`a\\u{1b}[2J\\nb`");
        assert!(quote(&"x".repeat(1000)).chars().count() < 70);
    }

    #[test]
    fn the_form_for_programs_has_flat_fields_and_reads_back() {
        let errors = Errors::new("f", vec![problem(Some(2), "b"), problem(None, "a")]);
        let json = serde_json::to_value(&errors).expect("plain data");
        assert_eq!(json["problems"][1]["line"], 2);
        assert_eq!(json["problems"][1]["kind"], "bad-value");
        assert_eq!(json["problems"][1]["field"], "x");
        assert_eq!(
            baton_model::json::from_value::<Errors>(&json).expect("same shape"),
            errors
        );
    }
}
