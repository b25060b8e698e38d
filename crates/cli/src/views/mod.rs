//! Rendering of instances, workers and runs: API values in, text out.
//!
//! | module | draws |
//! |---|---|
//! | [`live`] | live progress, for a terminal; and its changes line by line, for a pipe |
//! | [`summary`] | the outcome of a run, and what to do next |
//! | [`rows`] | table rows of instances and workers |
//! | [`explain`] | the explanation of a run's state |
//! | [`graph`] | the task graph, in box characters |
//! | [`dot`], [`svg`] | the task graph for Graphviz, and as SVG |
//! | [`timeline`], [`timeline_svg`] | the timeline of items, as text and as SVG |
//!
//! All functions are pure: they use no clock and no terminal. The caller determines the size of the
//! terminal, requests the data, and moves the cursor. No line exceeds the given width, and text from
//! other sources cannot control the terminal or break out of its element in SVG or DOT.

mod columns;
pub(crate) mod dot;
mod estimate;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod live;
pub(crate) mod rows;
pub(crate) mod summary;
pub(crate) mod svg;
pub(crate) mod task_state;
pub(crate) mod timeline;
pub(crate) mod timeline_svg;
mod xml;

pub(crate) use task_state::total;

use baton_web::graph::{dag, layout};

#[cfg(test)]
pub(crate) mod tests;
