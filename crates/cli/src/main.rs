//! `baton`: the command-line interface, a thin layer over the other crates.
//!
//! | module | holds |
//! |---|---|
//! | [`local`] | tasks on this host, without a scheduler |
//! | [`mod@run`] | a task or workflow on this host, with its own scheduler and worker |
//! | [`up`], [`scheduler`], [`worker`] | server processes: both together, the scheduler, a worker |
//! | [`down`] | the end of a server process |
//! | [`doctor`] | examination of this host and of its scheduler |
//! | [`remote`] | client commands, which call a scheduler's API |
//! | [`schedule`] | preview of a schedule's due times |
//! | [`check`] | validation of files |
//! | [`schema`] | JSON Schemas of task and workflow files |
//! | [`import`] | conversion of workflows from other formats |
//! | [`views`] | rendering of a run as text, graph or timeline |
//! | [`token`] | creating, listing and revoking tokens |
//! | [`config`] | the configuration file, and what it makes of a command line |
//! | [`connection`], [`credentials`] | the client of a command; token and TLS files of clients and workers |
//! | [`mod@book`] | help of commands, and chapters of the book |
//! | [`completions`], [`manual`] | shell completions; manual pages |
//! | [`version`] | versions of the binary and of its time zone data |
//! | [`tzdata`] | loading of time zone data |
//! | [`attempt`] | hidden command that a worker starts for an attempt |
//! | [`help`] | commands in groups, aliases, suggestions |
//! | [`logging`] | the log of server processes |
//! | [`time`] | the wall clock, and formatting of times and sizes |
//!
//! What commands share that are no commands, such as output, tables and ids, is in
//! [`baton_terminal`].
//!
//! A command parses its arguments, calls a crate, and prints the result. It holds no logic of its
//! own.
//!
//! Exit codes: 0 success; 1 failed, or nothing found; 2 wrong usage, or a file with errors; 3 the
//! scheduler cannot be reached, or refuses; 5 an internal error of Baton. A command that waits for
//! work exits with the status of the work.

mod attempt;
mod book;
mod check;
mod completions;
mod config;
mod connection;
mod credentials;
mod deploy;
mod doctor;
#[cfg(test)]
mod documents;
mod down;
mod help;
mod host_key;
mod import;
mod lifetime;
mod local;
mod logging;
mod manual;
mod remote;
mod run;
mod schedule;
mod scheduler;
mod schema;
mod store;
mod time;
mod token;
mod tzdata;
mod up;
mod version;
mod views;
mod worker;
mod worker_name;

use std::ffi::OsString;
use std::process::ExitCode;

use baton_runner::{coordinator, helpers, reaper};
use baton_terminal::{ids, output, painter, runtime, table, text};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  baton run report.yaml                run a task or a workflow on this machine, and wait for it
  baton up                             start a scheduler and a worker on this machine
  baton submit -- echo hello           submit a command to the scheduler
  baton local run report.yaml          run a task without a scheduler";

/// Durable job and workflow scheduler
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true, disable_help_subcommand = true, after_help = EXAMPLES)]
struct Cli {
    /// URL of the scheduler's API; of several schedulers, URLs separated by commas [default:
    /// $BATON_URL, or http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL", help_heading = help::CONNECTION, display_order = help::LAST)]
    url: Option<String>,
    /// Show times in UTC [default: in the time zone of $TZ, or of this host]
    #[arg(long, global = true, help_heading = help::OUTPUT, display_order = help::LAST)]
    utc: bool,
    /// Profile of the configuration file with the connection to use [default: $BATON_PROFILE, or that
    /// of `baton context use`]
    #[arg(long, global = true, value_name = "NAME", help_heading = help::CONNECTION, display_order = help::LAST)]
    profile: Option<String>,
    #[command(flatten)]
    credentials: credentials::CredentialArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Up(up::Up),
    Down(down::Down),
    Doctor(doctor::Doctor),
    Scheduler(scheduler::Scheduler),
    Worker(worker::Worker),
    #[command(flatten)]
    Remote(remote::Remote),
    Token(token::Token),
    Store(store::Store),
    Local(local::Local),
    Config(config::ConfigCommand),
    Context(config::context::Context),
    Check(check::Check),
    Schedule(schedule::Schedule),
    Schema(schema::Schema),
    Import(import::Import),
    Bench(baton_bench::Bench),
    Help(book::Help),
    Completions(completions::Completions),
    Man(manual::Man),
    Version(version::Version),
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = hidden_command(&args) {
        std::process::exit(code);
    }
    let configured = match config::configured(Cli::command(), &args) {
        Ok(configured) => configured,
        Err(failure) => return output::exit_code(Err(failure)),
    };
    let matches = help::parse(configured.cli, args).unwrap_or_else(|error| error.exit());
    if let Err(failure) = config::reject_password(&matches) {
        return output::exit_code(Err(failure));
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if cli.utc {
        time::use_utc();
    }
    let (url, credentials) = (cli.url.as_deref(), &cli.credentials);
    let result = match cli.command {
        Command::Run(command) => run::run(&command),
        Command::Up(command) => up::run(&command, credentials, configured.worker_arguments),
        Command::Down(command) => down::run(&command),
        Command::Doctor(command) => {
            doctor::run(&command, url, credentials, cli.profile, &Cli::command())
        }
        Command::Scheduler(command) => scheduler::run(&command, credentials),
        Command::Worker(command) => worker::run(&command, credentials),
        Command::Remote(command) => remote::run(&command, url, credentials),
        Command::Token(command) => token::run(&command, url, credentials),
        Command::Store(command) => store::run(&command),
        Command::Local(command) => local::run(&command),
        Command::Config(command) => config::run(&command, cli.profile, &Cli::command()),
        Command::Context(command) => config::context::run(&command, &Cli::command()),
        Command::Check(command) => check::run(&command),
        Command::Schedule(command) => schedule::run(&command),
        Command::Schema(command) => schema::run(&command),
        Command::Import(command) => import::run(&command),
        Command::Bench(command) => baton_bench::run(&command),
        Command::Help(command) => book::run(&command, &Cli::command()),
        Command::Completions(command) => completions::run(&command, help::arrange(Cli::command())),
        Command::Man(command) => manual::run(&command, help::arrange(Cli::command())),
        Command::Version(command) => version::run(&command),
    };
    output::exit_code(result)
}

/// Runs the hidden commands with which Baton starts itself. They are handled before argument
/// parsing: such a process is long-lived and must stay small.
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
        reaper::COMMAND => Some(reaper::main(&rest)),
        baton_agent::ATTEMPT_COMMAND => Some(attempt::main(&rest)),
        baton_agent::FETCH_COMMAND => Some(baton_fetch::main(&rest)),
        baton_embedded::TETHER => Some(baton_embedded::tether(&rest)),
        name => helpers::main(name, &rest),
    }
}
