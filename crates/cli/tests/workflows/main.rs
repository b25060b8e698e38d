//! Workflows end to end: the real binary and real processes.
//!
//! | module | proves |
//! |---|---|
//! | `dependencies` | order, failures, conditions, timeouts |
//! | `items` | items of a task, and the environment of commands |
//! | `limits` | concurrency limits |
//! | `halting` | halting, resuming and retrying rerun the requested items only |
//! | `races` | of two concurrent commands one succeeds |
//! | `kills` | `kill -9` of any process loses no item and runs none twice |
//! | `views` | terminal output, and that the commands it names work |
//! | `inspection` | items, logs and explanations of a run |
//! | `http` | refusals of the API |
//!
//! A task proves that it ran by a line in a file: see [`workspace`], and [`layers`] for the workflow
//! that the kills are tried on.

mod dependencies;
mod halting;
mod http;
mod inspection;
mod items;
mod kills;
mod layers;
mod limits;
mod races;
mod views;
mod workspace;
