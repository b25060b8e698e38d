//! `baton bench`: benchmarks on this machine.
//!
//! A room below the commands: its options and its entry are here, and no command calls it but
//! `baton bench`.
//!
//! The numbers are for comparison on one machine; no benchmark passes or fails. All but `backlog`,
//! which drives the scheduler core alone, start real commands of this binary.
//!
//! | module | measures |
//! |---|---|
//! | `throughput`, `peers` | trivial processes per second, compared with the kernel and others |
//! | `latency` | time from a submission to the start of its process |
//! | `trigger` | library tasks triggered over HTTP |
//! | `backlog` | placement decisions per second, by size of the backlog |
//! | `scale` | submission of and recovery with a million instances |
//! | `dag` | workflows of a thousand to a million tasks |
//! | `local` | the runner and its coordinator |
//! | `compare` | SQLite and PostgreSQL in turns |
//! | `cluster`, `rig` | server processes and local tasks that the others start and stop |
//! | `instant_worker` | a worker that finishes every attempt at once |

mod backlog;
mod cluster;
mod compare;
mod dag;
mod instant_worker;
mod latency;
mod local;
mod peers;
mod rig;
mod scale;
mod throughput;
mod trigger;

use baton_terminal::output::CommandResult;
use clap::{Args, Subcommand};

/// Run a benchmark on this machine
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton bench throughput -n 1000")]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Throughput(throughput::Throughput),
    Latency(latency::Latency),
    Trigger(trigger::Triggers),
    Backlog(backlog::Backlog),
    Submit(scale::SubmitArray),
    Recovery(scale::Recovery),
    Dag(dag::Dag),
    Local(local::Local),
}

/// Runs one of the benchmarks.
pub fn run(bench: &Bench) -> CommandResult {
    match &bench.command {
        Command::Throughput(command) => throughput::run(command),
        Command::Latency(command) => latency::run(command),
        Command::Trigger(command) => trigger::run(command),
        Command::Backlog(command) => backlog::run(command),
        Command::Submit(command) => scale::submit_array(command),
        Command::Recovery(command) => scale::recovery(command),
        Command::Dag(command) => dag::run(command),
        Command::Local(command) => local::run(command),
    }
}
