//! `baton bench`: what Baton costs, measured on this machine.
//!
//! Numbers are for reading and comparing, on one machine in one run; nothing here passes or
//! fails. Everything is done by real commands of this very binary.

mod local;
mod rig;

use clap::{Args, Subcommand};

use crate::output::Ended;

/// Measure what Baton costs on this machine
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Local(local::Local),
}

/// Runs one of the benchmarks.
pub(crate) fn run(bench: &Bench) -> Ended {
    match &bench.command {
        Command::Local(command) => local::run(command),
    }
}
