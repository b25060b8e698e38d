//! The task graph of a run: layers, positions, and its picture as SVG.

pub mod dag;
pub mod layout;
mod picture;

pub use picture::render;
pub(crate) use picture::{state, total};
