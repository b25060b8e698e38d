//! `baton version`: versions of this binary, of what it speaks and stores, and of its time zone data.

use std::env::consts::{ARCH, OS};
use std::io::Write as _;

use baton_model::limits::PROTOCOL_VERSION;
use baton_store::sqlite::SCHEMA_VERSION;
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

/// The commit that a release was built from. A build that does not state it has none: reading the
/// repository would rebuild the binary after every commit.
const COMMIT: Option<&str> = option_env!("BATON_COMMIT");

/// The C library that it was built for.
const LIBC: &str = if cfg!(target_env = "musl") {
    "musl"
} else {
    "gnu"
};

pub(crate) fn run(command: &Version) -> CommandResult {
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{ARCH}-{OS}-{LIBC}");
    let tzdata = command.tzdata.load()?;
    let mut out = Output::new();
    if command.json {
        out.json(&json!({
            "version": version,
            "commit": COMMIT,
            "build": baton_service::build_id(),
            "schema": SCHEMA_VERSION,
            "protocol": PROTOCOL_VERSION,
            "target": target,
            "tzdata": { "version": tzdata.version, "source": tzdata.source },
        }))?;
    } else {
        let commit = COMMIT.map(|commit| format!(" ({commit})"));
        let commit = commit.unwrap_or_default();
        writeln!(out, "baton {version}{commit} for {target}")?;
        writeln!(
            out,
            "store schema {SCHEMA_VERSION}, protocol {PROTOCOL_VERSION}"
        )?;
        writeln!(out, "time zone data {tzdata}")?;
    }
    out.done()
}
