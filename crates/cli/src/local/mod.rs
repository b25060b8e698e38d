//! `baton local`: tasks on this host, without a scheduler.
//!
//! | module | command |
//! |---|---|
//! | `run` | run a task, or a single command, in the foreground |
//! | `kill` | end tasks |
//! | `inspect` | validate and describe a task file |
//! | `status` | list tasks with their state |
//! | `read` | print the log of a task |
//! | `tail` | show the output of processes |
//! | `gc` | remove finished tasks |
//! | `observe` | web pages of the tasks |
//!
//! Shared by them: `binding`, options that bind a task file; `resume`, options of a runner. States and
//! events in words are those of [`baton_observer`].

mod binding;
mod gc;
mod inspect;
mod kill;
mod observe;
mod read;
mod resume;
mod run;
mod status;
mod tail;

use std::path::PathBuf;

use baton_runner::root::{Root, default_root};
use clap::{Args, Subcommand};

use crate::output::{CommandResult, Failure};
pub(crate) use binding::{pair, params, variable, variable_or_name};
pub(crate) use run::{code, failure_code};
pub(crate) use tail::StreamPrinter;

/// Run and manage tasks on this host, without a scheduler
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local simplerun -- sh -c 'sleep 1; echo done'
  baton local status")]
pub(crate) struct Local {
    /// Root directory of the tasks [default: $BATON_ROOT, or baton in the user's state directory]
    #[arg(long = "root", global = true, value_name = "DIR")]
    roots: Vec<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    #[command(name = "simplerun")]
    SimpleRun(run::SimpleRun),
    Kill(kill::Kill),
    Inspect(inspect::Inspect),
    Status(status::Status),
    Read(read::Read),
    Tail(tail::Tail),
    Gc(gc::Gc),
    Observe(observe::Observe),
}

/// Runs one of the commands.
pub(crate) fn run(local: &Local) -> CommandResult {
    match &local.command {
        Command::Run(command) => run::run(command, &own_root(local)?),
        Command::SimpleRun(command) => run::simplerun(command, &own_root(local)?),
        Command::Kill(command) => kill::run(command, &own_root(local)?),
        Command::Inspect(command) => inspect::run(command),
        Command::Status(command) => status::run(command, || root(local)),
        Command::Read(command) => read::run(command, || root(local)),
        Command::Tail(command) => tail::run(command, &root(local)?),
        Command::Gc(command) => gc::run(command, &own_root(local)?),
        Command::Observe(command) => observe::run(command, &local.roots, root(local).ok()),
    }
}

fn root(local: &Local) -> Result<Root, Failure> {
    let dir = match &*local.roots {
        [] => default_root(|name| std::env::var_os(name))?,
        [dir] => dir.clone(),
        [..] => {
            return Err(Failure::usage(
                "--root is repeated; only `baton local observe` reads several roots",
            ));
        }
    };
    Ok(Root::new(dir)?)
}

/// The root of a command that runs, ends or removes tasks. Those of a worker's attempt are not
/// touched: what ran here would run without its lease and its dead-man timer.
fn own_root(local: &Local) -> Result<Root, Failure> {
    let root = root(local)?;
    let Some(attempt) = root.attempt() else {
        return Ok(root);
    };
    let instance = attempt.split('.').next().unwrap_or_default();
    Err(Failure::usage(format!(
        "{} belongs to an attempt of a worker, which alone runs, ends and removes it; use `baton \
         cancel {instance}`, `baton kill {instance}` or `baton retry {instance}`",
        root.path().display()
    )))
}
