//! The form that adds or changes an entry of the library: its definition as text, and what is wrong with
//! it or would change.

use askama::Template;
use baton_model::api::{FieldProblem, Problem};
use serde_json::Value;

use crate::diff;
use crate::frame::Frame;
use crate::markup::Markup;

/// The text of a new entry.
pub const NEW: &str = "task: NAME\nowner: OWNER\nrun: echo hello\n";

/// The form.
#[derive(Template)]
#[template(path = "edit.html")]
pub struct EditPage {
    pub frame: Frame,
    /// `OWNER/NAME`; empty for a new entry.
    pub entry: String,
    /// The page of the entry, or the library.
    pub back: String,
    /// The revision that is replaced; 0 if there must be none.
    pub revision: u32,
    pub text: String,
    pub errors: Vec<TextError>,
    /// Why the text is refused.
    pub problem: Option<String>,
    /// The change that *Save* would make, in words.
    pub outcome: Option<String>,
    /// The changes of the current revision by the text.
    pub changes: Markup,
}

/// What a text would do, or why it is refused.
#[derive(Debug, Default)]
pub struct Checked {
    pub errors: Vec<TextError>,
    pub problem: Option<String>,
    pub outcome: Option<String>,
    /// The current definition and that of the text.
    pub definitions: Option<(Value, Value)>,
}

/// An error of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct TextError {
    /// From 1, if it is known.
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub field: String,
    pub message: String,
    pub hint: String,
}

impl TextError {
    /// An error without a position.
    #[must_use]
    pub fn at_field(it: FieldProblem) -> Self {
        Self {
            line: None,
            column: None,
            field: it.field,
            message: it.message,
            hint: it.hint,
        }
    }
}

impl Checked {
    /// A refusal by the API.
    #[must_use]
    pub fn refused(problem: Problem) -> Self {
        Self {
            errors: problem
                .errors
                .into_iter()
                .map(TextError::at_field)
                .collect(),
            problem: Some(problem.detail),
            ..Self::default()
        }
    }
}

impl EditPage {
    #[must_use]
    pub fn new(
        frame: Frame,
        entry: String,
        revision: u32,
        text: String,
        back: String,
        checked: Checked,
    ) -> Self {
        let Checked {
            errors,
            problem,
            outcome,
            definitions,
        } = checked;
        let changes = definitions.map(|(current, typed)| diff::render(&current, &typed));
        Self {
            frame,
            entry,
            back,
            revision,
            text,
            errors,
            problem,
            outcome,
            changes: changes.unwrap_or_default(),
        }
    }

    /// The number of lines of the text field.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.text.lines().count().clamp(12, 40) + 2
    }
}
