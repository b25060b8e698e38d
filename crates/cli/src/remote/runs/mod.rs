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

use crate::ids;
use crate::output::{Failure, clean};

/// An internal error of Baton.
const INTERNAL: u8 = 5;

/// Parses the run id of a response.
pub(crate) fn accepted(accepted: &RunReply) -> Result<RunId, Failure> {
    ids::run(&accepted.id).map_err(|_| {
        let id = clean(&accepted.id);
        Failure::Message(
            INTERNAL,
            format!("the scheduler returned an invalid id, `{id}`"),
        )
    })
}
