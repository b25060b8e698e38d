//! `baton share`: shares of owners in fair turns.

use std::io::Write;

use baton_client::Client;
use baton_model::limits::SHARE_WEIGHT_MAX;
use clap::{Args, Subcommand};

use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};

/// List, set or remove the shares of owners in fair turns
///
/// Owners take turns. One with weight 3 gets three turns for each one of an owner with weight 1, while both
/// have work waiting of the same priority. Every owner without a share has weight 1. What runs is not touched.
///
/// With --json, the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton share set lab 3
  baton share ls
  baton share rm lab                 weight 1 again")]
pub(crate) struct ShareCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all shares that were set (the default)
    Ls,
    /// Set the share of an owner, or change it
    Set {
        /// The owner, as in task files
        owner: String,
        /// Turns for each one of an owner with weight 1, from 1 to 1000
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARE_WEIGHT_MAX)))]
        weight: u32,
    },
    /// Remove the share of an owner
    Rm {
        /// The owner
        owner: String,
    },
}

pub(super) async fn run(command: &ShareCommand, client: &Client) -> CommandResult {
    let mut out = Output::new();
    match &command.action {
        None | Some(Action::Ls) => {
            let shares = client.shares().await.map_err(refused)?;
            if command.json {
                out.json(&shares)?;
            } else if shares.is_empty() {
                note("no shares: every owner has weight 1; set one with `baton share set OWNER N`");
            } else {
                let mut table = Table::default();
                table.row(["OWNER", "WEIGHT"].map(|it| Cell::new(it, Style::Faint)));
                for share in &shares {
                    table.row([clean(&share.owner).into(), share.weight.to_string().into()]);
                }
                table.print(&mut out)?;
            }
        }
        Some(Action::Set { owner, weight }) => {
            let share = client.set_share(owner, *weight).await.map_err(refused)?;
            if command.json {
                out.json(&share)?;
            } else {
                writeln!(out, "{}: weight {}", clean(&share.owner), share.weight)?;
            }
        }
        Some(Action::Rm { owner }) => {
            client.remove_share(owner).await.map_err(refused)?;
            if command.json {
                out.json(&serde_json::json!({ "owner": owner, "weight": 1 }))?;
            } else {
                writeln!(out, "{}: weight 1 again", clean(owner))?;
            }
        }
    }
    out.done()
}
