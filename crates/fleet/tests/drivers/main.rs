//! The drivers against real managers: a Slurm, this host, an `sshd`, and commands.
//!
//! In place of `baton worker`, pilots run a stand-in that records its arguments and obeys SIGTERM.

mod commands;
mod local;
mod slurm;
mod ssh;
mod support;
