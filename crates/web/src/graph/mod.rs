//! The task graph of a run: layers, positions, states of tasks, and its picture as SVG.
//!
//! One picture serves pages and `baton show --svg`: on a page, colours are those of the style sheet
//! and boxes are links; a file (`document`) brings its own style.

pub mod dag;
pub mod layout;
mod picture;
pub mod task_state;

pub use picture::{document, render, render_unlinked};
pub use task_state::{TaskState, shares, total};
