//! The kernel, as safe functions.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | both clocks |
//! | [`exits`] | how our own children ended, kept until somebody asks |
//! | [`identity`] | who a process is, and how it ended, whoever its parent is |
//! | [`children`] | the children of this process, as one short list |
//! | [`proc`] | what `/proc` says: one process, all of them, their tree |
//! | [`spawn`] | launching, with every failure known at once and by name |
//! | [`reap`] | looking at children that have ended, and letting them go |
//! | [`signals`] | signals as a descriptor, and their names |
//! | [`users`] | users and their groups |
//! | [`kill`] | process groups and whole trees |
//! | [`cgroup`] | control groups, where they are writable |
//! | [`inherit`] | descriptors from whoever started us, and who is at the other end |
//! | [`memory`] | staying small |
//! | [`socket`] | unix sockets with paths of any length |
//! | [`random`] | random numbers |
//!
//! Three rules hold everywhere here. A pid is never enough to signal a process: it is
//! held by a pidfd, and its start time is read again, before anything is sent. Nobody
//! but [`reap`] and [`identity::Handle::exit`] takes an exit status away. What has
//! gone meanwhile is an answer, not an error.
//!
//! Nothing here knows tasks, runs or logs. `unsafe` is allowed in `raw`, `spawn`,
//! `signals`, `users`, `inherit` and `memory`, and nowhere else in the crate.

pub mod cgroup;
pub mod children;
pub mod clock;
pub mod exits;
pub mod identity;
pub mod inherit;
pub mod kill;
pub mod memory;
pub mod proc;
pub mod random;
mod raw;
pub mod reap;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod users;
