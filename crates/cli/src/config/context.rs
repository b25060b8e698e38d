//! `baton context`: the profile that clients use unless `--profile` names another.

use std::io::Write as _;

use clap::{Args, Command, Subcommand};
use serde_json::json;

use super::layers::{Config, Places};
use super::{failure, variable};
use crate::output::{CommandResult, Failure, Output, note};
use crate::table::{Cell, Table};

/// List and select the profiles of clients
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton context ls
  baton context use lab
  baton context clear

A profile is a table [profiles.NAME] of a configuration file, with the keys of [client].")]
pub(crate) struct Context {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(Ls),
    Use(Use),
    Clear(Clear),
}

/// List the profiles
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton context ls")]
struct Ls {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Select a profile for the commands to come
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton context use lab")]
struct Use {
    /// Name of the profile
    name: String,
}

/// Select no profile
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton context clear")]
struct Clear {}

pub(crate) fn run(command: &Context, cli: &Command) -> CommandResult {
    let places = Places::of(&variable);
    match &command.command {
        Action::Ls(command) => list(command, &places, cli),
        Action::Use(command) => {
            let name = Some(command.name.clone());
            // It refuses a profile that is not there.
            Config::read(&places, name, &variable, cli).map_err(failure)?;
            write(&places, &command.name)
        }
        Action::Clear(Clear {}) => write(&places, ""),
    }
}

fn list(command: &Ls, places: &Places, cli: &Command) -> CommandResult {
    let config = Config::read(places, None, &variable, cli).map_err(failure)?;
    let selected = config.profile().map(|(name, _)| name);
    let mut out = Output::new();
    if command.json {
        out.json(&json!({"selected": selected, "profiles": config.profiles()}))?;
        return out.done();
    }
    let mut table = Table::headed(&["", "PROFILE", "URL"]);
    for name in config.profiles() {
        let mark = if selected == Some(name) { "*" } else { "" };
        let url = config.profile_value(name, "url").unwrap_or("-");
        table.row([mark, name, url].map(Cell::from));
    }
    for line in table.lines(&out) {
        writeln!(out, "{line}")?;
    }
    if let Some((name, by)) = config.profile() {
        note(&format!("{by} selects {name}"));
    }
    out.done()
}

fn write(places: &Places, name: &str) -> CommandResult {
    let Some(file) = &places.context else {
        return Err(Failure::usage(
            "there is no home directory; use --profile or the variable BATON_PROFILE",
        ));
    };
    let failed = |error| Failure::failed(format!("cannot write {}: {error}", file.display()));
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    std::fs::write(file, format!("{name}\n")).map_err(failed)
}
