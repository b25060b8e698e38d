//! Rendering of instances, workers and runs: API values in, text out.
//!
//! | module | draws |
//! |---|---|
//! | [`live`] | live progress, for a terminal; and its changes line by line, for a pipe |
//! | [`summary`] | the outcome of a run, and what to do next |
//! | [`rows`] | table rows of instances and workers |
//! | [`explain`] | the explanation of a run's state |
//! | [`graph`] | the task graph, in box characters |
//! | [`dot`] | the task graph for Graphviz |
//! | [`timeline`] | the timeline of items, as text |
//!
//! Graph and timeline as SVG are the pictures of pages: [`baton_web::graph`], [`baton_web::gantt`].
//!
//! All functions are pure: they use no clock and no terminal. The caller determines the size of the
//! terminal, requests the data, and moves the cursor. No line exceeds the given width, and text from
//! other sources cannot control the terminal or break out of its element in DOT.

mod columns;
pub(crate) mod dot;
mod estimate;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod live;
pub(crate) mod rows;
pub(crate) mod summary;
pub(crate) mod task_state;
pub(crate) mod timeline;

pub(crate) use task_state::total;

use baton_web::graph::dag;

#[cfg(test)]
pub(crate) mod tests;
