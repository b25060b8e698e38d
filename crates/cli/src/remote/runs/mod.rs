//! Commands of workflow runs.
//!
//! | module | command |
//! |---|---|
//! | `list` | `baton runs` |
//! | `follow` | `baton watch`, and waiting for a run |
//! | `change` | `baton halt`, `resume`, and `retry` of a run |
//! | `items` | `baton show RUN --items`; the instance of an item |
//! | `show` | `baton show RUN`, as text, graph, timeline or SVG; `baton explain RUN` |
//! | `submit` | `baton submit` of a workflow |
//!
//! [`crate::views`] renders runs.

pub(super) mod change;
pub(crate) mod follow;
pub(super) mod items;
pub(super) mod list;
pub(super) mod show;
pub(crate) mod submit;

use baton_model::api::RunReply;
use baton_model::ids::RunId;

use crate::output::{Failure, clean};

/// An internal error of Baton.
const INTERNAL: u8 = 5;

/// Parses a run id such as `r12`. The letter distinguishes it from an instance.
pub(crate) fn id(text: &str) -> Result<RunId, String> {
    let digits = text.strip_prefix('r').unwrap_or_default();
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    number
        .map(RunId)
        .ok_or_else(|| "expected a run such as r12".to_owned())
}

/// Parses the run id of a response.
pub(crate) fn accepted(accepted: &RunReply) -> Result<RunId, Failure> {
    id(&accepted.id).map_err(|_| {
        let id = clean(&accepted.id);
        Failure::Message(
            INTERNAL,
            format!("the scheduler returned an invalid id, `{id}`"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_letter() {
        assert_eq!(id("r12"), Ok(RunId(12)));
        for bad in ["", "r", "12", "i12", "r-1", "rr1", "r99999999999999999999"] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }
}
