//! `baton version`: versions of this binary and of its time zone data.

use std::io::Write as _;

use clap::Args;
use serde_json::json;

use crate::output::{CommandResult, Output};
use crate::tzdata::TzdataArgs;

/// Print the versions of Baton and of its time zone data
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton version
  baton version --tzdata built-in --json")]
pub(crate) struct Version {
    #[command(flatten)]
    tzdata: TzdataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Version) -> CommandResult {
    let version = env!("CARGO_PKG_VERSION");
    let tzdata = command.tzdata.load()?;
    let mut out = Output::new();
    if command.json {
        out.json(&json!({
            "version": version,
            "tzdata": { "version": tzdata.version, "source": tzdata.source },
        }))?;
    } else {
        writeln!(out, "baton {version}")?;
        writeln!(out, "time zone data {tzdata}")?;
    }
    out.done()
}
