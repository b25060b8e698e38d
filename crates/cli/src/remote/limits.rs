//! `baton limits`: cluster-wide limits of resources.

use std::io::Write;

use baton_client::Client;
use baton_model::api::{Limit, LimitOrigin};
use clap::{Args, Subcommand};

use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::grouped;

/// List, set or remove cluster-wide limits of resources
///
/// Tasks request a limited resource by its name, as in `resources: { db/orders: 1 }`. A value that is
/// set here is durable and takes the place of the scheduler's --limit until it is removed.
///
/// With --json, an array of limits, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton limits
  baton limits set db/orders 4       at most 4 in use at once; lowering it kills nothing
  baton limits rm db/orders          back to --limit of the scheduler, if it has one")]
pub(crate) struct Limits {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a limit, or change it
    Set {
        /// Name of the resource, such as db/orders
        name: String,
        /// How much may be in use at once
        #[arg(value_name = "N")]
        capacity: u64,
    },
    /// Remove a limit that was set
    Rm {
        /// Name of the resource
        name: String,
    },
}

pub(super) async fn run(command: &Limits, client: &Client) -> CommandResult {
    let mut out = Output::new();
    match &command.action {
        None => list(
            &client.limits().await.map_err(refused)?,
            command.json,
            &mut out,
        )?,
        Some(Action::Set { name, capacity }) => {
            let limit = client.set_limit(name, *capacity).await.map_err(refused)?;
            if command.json {
                out.json(&limit)?;
            } else {
                writeln!(out, "{}: {}", clean(&limit.name), limit.capacity)?;
            }
            if limit.used > limit.capacity {
                note(&format!(
                    "{} are in use: nothing more starts until that is less",
                    grouped(limit.used)
                ));
            }
        }
        Some(Action::Rm { name }) => {
            let removed = client.remove_limit(name).await.map_err(refused)?;
            let name = clean(&removed.name);
            match removed.capacity {
                _ if command.json => out.json(&removed)?,
                None => writeln!(out, "{name}: removed")?,
                Some(total) => writeln!(out, "{name}: {total} again, by --limit")?,
            }
        }
    }
    out.done()
}

fn list(limits: &[Limit], json: bool, out: &mut Output) -> CommandResult {
    if json {
        out.json(&limits)?;
    } else if limits.is_empty() {
        note("no limits; set one with `baton limits set NAME N`");
    } else {
        table(limits).print(out)?;
    }
    Ok(())
}

fn table(limits: &[Limit]) -> Table {
    let mut table = Table::default();
    let head = ["NAME", "CAPACITY", "USED", "WAITING", "ORIGIN"];
    table.row(head.map(|it| Cell::new(it, Style::Faint)));
    for limit in limits {
        let style = if limit.used >= limit.capacity {
            Style::Odd
        } else {
            Style::Plain
        };
        table.row([
            clean(&limit.name).into(),
            grouped(limit.capacity).into(),
            Cell::new(grouped(limit.used), style),
            grouped(limit.waiting).into(),
            origin(limit).into(),
        ]);
    }
    table
}

fn origin(limit: &Limit) -> String {
    match (limit.origin, limit.default) {
        (LimitOrigin::Flag, _) => "--limit".to_owned(),
        (LimitOrigin::RunTime, None) => "run time".to_owned(),
        (LimitOrigin::RunTime, Some(default)) => format!("run time, --limit is {default}"),
    }
}
