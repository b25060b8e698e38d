//! How a run looks: values of the API in, text out.
//!
//! | module | draws |
//! |---|---|
//! | [`live`] | a run under way, for a terminal; and its changes line by line, for a pipe |
//! | [`summary`] | the last word about a run, and what to do next |
//! | [`explain`] | why a run is where it is |
//! | [`graph`] | the tasks and what comes after what, in box characters |
//! | [`dot`], [`svg`] | the same for Graphviz, and as a picture |
//! | [`timeline`], [`timeline_svg`] | when what ran |
//!
//! Everything here is a function of its arguments: no clock, no terminal, no colours unless
//! asked for. Whoever calls knows the size of the terminal, asks the scheduler, and moves the
//! cursor. No line is wider than it may be, and text that others wrote cannot drive a
//! terminal or leave its place in a picture.

mod columns;
mod dag;
pub(crate) mod dot;
mod estimate;
pub(crate) mod explain;
pub(crate) mod graph;
mod layout;
pub(crate) mod live;
pub(crate) mod summary;
pub(crate) mod svg;
mod task_state;
mod text;
pub(crate) mod timeline;
pub(crate) mod timeline_svg;
mod xml;

pub(crate) use task_state::total;
pub(crate) use text::{fit, shell};

#[cfg(test)]
pub(crate) mod tests;
