//! Commands of workflow runs.
//!
//! | module | command |
//! |---|---|
//! | `list` | `baton runs` |
//! | `follow` | `baton watch`, and waiting for a run |
//! | `change` | `baton halt`, `resume`, and `retry` of a run |
//! | `items` | `baton show RUN --items`; the instance of an item |
//! | `report` | `baton report` |
//! | `show` | `baton show RUN`, as text, graph, timeline or SVG; `baton explain RUN` |
//! | `submit` | `baton submit` of a workflow |
//!
//! [`crate::views`] renders runs.

pub(super) mod change;
pub(crate) mod follow;
pub(super) mod items;
pub(super) mod list;
pub(super) mod report;
pub(super) mod show;
pub(crate) mod submit;
