//! Safe wrappers of kernel interfaces.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | both clocks |
//! | [`exits`] | exit statuses of our own children, kept until they are asked for |
//! | [`identity`] | process identity, and the exit status of any process |
//! | [`children`] | the list of children of this process |
//! | [`proc`] | `/proc`: one process, all processes, their tree |
//! | [`spawn`] | launching, with every failure reported synchronously and by step |
//! | [`reap`] | waiting for and reaping children |
//! | [`signals`] | signals as a descriptor, and their names |
//! | [`users`] | users and their groups |
//! | [`kill`] | killing process groups and process trees |
//! | [`cgroup`] | control groups, where they are writable |
//! | [`inherit`] | inherited descriptors, and the peer of a socket |
//! | [`listeners`] | the process that listens at a port |
//! | [`memory`] | returning unused memory |
//! | [`socket`] | unix sockets with paths of any length |
//! | [`packets`] | unix sockets that carry whole messages, with descriptors |
//! | [`random`] | random numbers |
//!
//! Three rules hold everywhere here. A pid is never enough to signal a process: it is held by a
//! pidfd, and its start time is read again, before anything is sent. Only [`reap`] and
//! [`identity::Handle::exit`] consume an exit status. A process that is gone is a result, not an
//! error.
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
pub mod listeners;
pub mod memory;
pub mod packets;
pub mod proc;
pub mod random;
mod raw;
pub mod reap;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod users;
