//! `baton`: thin commands over the crates below.
//!
//! | module | holds |
//! |---|---|
//! | [`local`] | tasks on this host, without a scheduler |
//! | [`mod@bench`] | what Baton costs on this machine |
//! | [`output`] | what a command prints, and how it ends |
//! | [`table`] | columns |
//! | [`time`] | the clock, and times as people read them |
//!
//! A command reads its arguments, asks a crate, and prints. It decides nothing.
//!
//! Exit codes: 0 fine; 1 failed, or nothing found; 2 wrong usage, or a file with
//! errors; 5 an error of Baton itself. A command that waits for work ends with the
//! status of the work.

mod bench;
mod local;
mod output;
mod table;
mod time;

use std::ffi::OsString;
use std::process::ExitCode;

use baton_runner::{coordinator, helpers};
use clap::{Parser, Subcommand};

/// Runs tasks, and survives whatever happens meanwhile.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Local(local::Local),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = hidden_command(&args) {
        std::process::exit(code);
    }
    let ended = match Cli::parse().command {
        Command::Local(command) => local::run(&command),
        Command::Bench(command) => bench::run(&command),
    };
    output::exit_code(ended)
}

/// Commands that Baton calls itself by. They come before everything else: such a
/// process lives long and should stay small.
fn hidden_command(args: &[OsString]) -> Option<i32> {
    let name = args
        .get(1)?
        .to_str()
        .filter(|name| name.starts_with("__"))?;
    let rest: Option<Vec<String>> = args[2..]
        .iter()
        .map(|arg| arg.to_str().map(str::to_owned))
        .collect();
    let rest = rest?;
    match name {
        coordinator::COMMAND => Some(coordinator::main(&rest)),
        name => helpers::main(name, &rest),
    }
}
