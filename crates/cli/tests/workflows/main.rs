//! Workflows from outside: the real binary, real processes, and what they leave behind.
//!
//! | module | proves |
//! |---|---|
//! | `shapes` | order, failures, conditions, timeouts |
//! | `items` | what items a task has, and what its commands are told |
//! | `limits` | how many are on their way at once |
//! | `halting` | runs stop, go on, and do again what was asked for and nothing else |
//! | `races` | of two who want the same, one gets it |
//! | `kills` | `kill -9` of anything loses nothing and doubles nothing |
//! | `people` | what is shown, and that the commands it names work |
//! | `looking` | what of a run can be looked up, and that nobody waits for nothing |
//! | `http` | what is refused, and to whom |
//!
//! A task proves that it ran by a line in a file: see [`place`], and [`layers`] for the workflow
//! that the kills are tried on.

#[path = "../cluster_support/mod.rs"]
mod cluster_support;
#[path = "../remote_support/mod.rs"]
mod remote_support;

mod halting;
mod http;
mod items;
mod kills;
mod layers;
mod limits;
mod looking;
mod people;
mod place;
mod races;
mod shapes;
