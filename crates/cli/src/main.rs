//! `baton`: thin commands over the crates below.
//!
//! | module | holds |
//! |---|---|
//! | [`local`] | tasks on this host, without a scheduler |
//! | [`mod@run`] | a task here, with a scheduler and a worker of its own |
//! | [`up`], [`scheduler`], [`worker`] | a server and its halves, each for as long as it runs |
//! | [`remote`] | what clients say to a scheduler |
//! | [`schedule`] | when a schedule is due |
//! | [`import`] | workflows of others |
//! | [`views`] | how a run looks |
//! | [`token`] | tokens made and revoked |
//! | [`credentials`] | what is shown to a scheduler, and whom it is trusted to be |
//! | [`completions`] | what shells complete |
//! | [`mod@bench`] | what Baton costs on this machine |
//! | [`attempt`], [`fetch`] | hidden: the work of a worker's attempt |
//! | [`logging`] | what servers tell their operators |
//! | [`output`] | what a command prints, and how it ends |
//! | [`table`] | columns |
//! | [`time`] | the clock, and times as people read them |
//!
//! A command reads its arguments, asks a crate, and prints. It decides nothing.
//!
//! Exit codes: 0 fine; 1 failed, or nothing found; 2 wrong usage, or a file with
//! errors; 3 no answer from a scheduler; 5 an error of Baton itself. A command that waits for work ends with the
//! status of the work.

mod attempt;
mod bench;
mod completions;
mod credentials;
mod fetch;
mod import;
mod local;
mod logging;
mod output;
mod remote;
mod run;
mod schedule;
mod scheduler;
mod table;
mod time;
mod token;
mod up;
mod views;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use baton_runner::{coordinator, helpers};
use clap::{CommandFactory, Parser, Subcommand};

/// Runs tasks, and survives whatever happens meanwhile.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true)]
struct Cli {
    /// Where the scheduler is, for its clients [default: $BATON_URL, or http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    credentials: credentials::CredentialArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Up(up::Up),
    Scheduler(scheduler::Scheduler),
    Worker(worker::Worker),
    #[command(flatten)]
    Remote(remote::Remote),
    Token(token::Token),
    Local(local::Local),
    Schedule(schedule::Schedule),
    Import(import::Import),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = hidden_command(&args) {
        std::process::exit(code);
    }
    let cli = Cli::parse();
    let (url, credentials) = (cli.url.as_deref(), &cli.credentials);
    let ended = match cli.command {
        Command::Run(command) => run::run(&command),
        Command::Up(command) => up::run(&command, credentials),
        Command::Scheduler(command) => scheduler::run(&command, credentials),
        Command::Worker(command) => worker::run(&command, credentials),
        Command::Remote(command) => remote::run(&command, url, credentials),
        Command::Token(command) => token::run(&command, url, credentials),
        Command::Local(command) => local::run(&command),
        Command::Schedule(command) => schedule::run(&command),
        Command::Import(command) => import::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Completions(command) => completions::run(&command, Cli::command()),
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
        baton_agent::ATTEMPT_COMMAND => Some(attempt::main(&rest)),
        baton_agent::FETCH_COMMAND => Some(fetch::main(&rest)),
        run::TETHER => Some(run::tether(&rest)),
        name => helpers::main(name, &rest),
    }
}
