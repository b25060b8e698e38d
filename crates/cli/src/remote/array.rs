//! `baton array`: arrays while they run.

use std::io::Write;

use baton_client::{Client, Span};
use clap::{Args, Subcommand};

use crate::connection::refused;
use crate::ids;
use crate::output::{CommandResult, Output, note};
use crate::text::grouped;

/// Change an array while it runs
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Array {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Limit(Limit),
}

/// Change how many elements of an array run at once
///
/// It takes the place of the %N, or --max-concurrent, of the submission, durably. A limit below what is in
/// flight kills nothing: no further element starts until fewer are. An element stands for its whole array.
///
/// With --json, an object in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton array limit i1..i1000 50
  baton array limit i1..i1000 none")]
struct Limit {
    /// The array (i1..i1000), or one of its elements
    #[arg(value_name = "IDS", value_parser = ids::span)]
    span: Span,
    /// How many elements may run at once; `none` for no limit
    #[arg(value_name = "N", value_parser = number)]
    limit: Number,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The limit; none if there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number(Option<u32>);

fn number(text: &str) -> Result<Number, String> {
    let wrong = || "expected a number of at least 1, or `none`".to_owned();
    match text {
        "none" => Ok(Number(None)),
        text => match text.parse().map_err(|_| wrong())? {
            0 => Err(wrong()),
            number => Ok(Number(Some(number))),
        },
    }
}

pub(super) async fn run(command: &Array, client: &Client) -> CommandResult {
    let Action::Limit(command) = &command.action;
    let mut out = Output::new();
    let set = client.limit_array(command.span, command.limit.0).await;
    let set = set.map_err(refused)?;
    if command.json {
        out.json(&set)?;
        return out.done();
    }
    let array = format!("{}..{}", set.first, set.last);
    match set.max_concurrent {
        Some(limit) => {
            writeln!(out, "{array}: at most {} at once", grouped(limit.into()))?;
            if set.in_flight > u64::from(limit) {
                note(&format!(
                    "{} are in flight: nothing more starts until that is less",
                    grouped(set.in_flight)
                ));
            }
        }
        None => writeln!(out, "{array}: no limit")?,
    }
    out.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(number("50"), Ok(Number(Some(50))));
        assert_eq!(number("none"), Ok(Number(None)));
        for bad in ["0", "-1", "", "all"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
