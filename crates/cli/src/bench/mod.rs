//! `baton bench`: what Baton costs, measured on this machine.
//!
//! Numbers are for reading and comparing, on one machine in one run; nothing here passes or
//! fails. Everything but `backlog`, which is about the leader alone, is done by real commands
//! of this very binary.
//!
//! | module | measures |
//! |---|---|
//! | `throughput`, `peers` | trivial processes a second, beside the kernel and others |
//! | `latency` | from a submission to the start of its process |
//! | `trigger` | tasks of the library, launched over HTTP |
//! | `backlog` | decisions a second, with little and with much waiting |
//! | `scale` | a million instances, accepted and taken over |
//! | `dag` | tasks of a workflow, from a thousand to a million |
//! | `local` | the runner and its coordinator |
//! | `cluster`, `rig` | what the others start and stop |
//! | `instant_worker` | a worker that finishes everything at once |

mod backlog;
mod cluster;
mod dag;
mod instant_worker;
mod latency;
mod local;
mod peers;
mod rig;
mod scale;
mod throughput;
mod trigger;

use clap::{Args, Subcommand};

use crate::output::CommandResult;

/// Measure what Baton costs on this machine
#[derive(Debug, Args)]
pub(crate) struct Bench {
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
pub(crate) fn run(bench: &Bench) -> CommandResult {
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
