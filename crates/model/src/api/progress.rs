//! Progress that tasks report of themselves.

use serde::{Deserialize, Serialize};

use crate::progress::Progress as Reported;

/// How far an attempt has come: the newest line that it has written to the file `$BATON_PROGRESS`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Steps that are done; absent if the line has only a message. It may be above `total`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// All steps; 100 for a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The rest of the line, at most 200 bytes, with control characters escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was written, by the clock of the worker.
    pub at: u64,
    /// Of a task of a run: the id of the running instance that was the last to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

impl From<&Reported> for Progress {
    fn from(it: &Reported) -> Self {
        Self {
            done: it.done,
            total: it.total,
            message: it.message.to_string(),
            at: it.at.0,
            instance: None,
        }
    }
}

impl Progress {
    /// The same as one line of text: `42/100 message`.
    #[must_use]
    pub fn text(&self) -> String {
        self.reported().text()
    }

    /// Steps that are done, and all of them: never more than all.
    #[must_use]
    pub fn steps(&self) -> Option<(u64, u64)> {
        self.reported().steps()
    }

    fn reported(&self) -> Reported {
        Reported {
            done: self.done,
            total: self.total,
            message: self.message.as_str().into(),
            at: crate::time::Wall(self.at),
        }
    }
}
