//! `baton limits`: cluster-wide limits of resources.

use std::io::Write;

use baton_client::Client;
use baton_files::units;
use baton_model::api::{Limit, LimitOrigin, SetLimit};
use baton_model::rate::Rate;
use clap::{Args, Subcommand};

use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::grouped;

/// List, set or remove cluster-wide limits of resources
///
/// Tasks request a limited resource by its name, as in `resources: { db/orders: 1 }`. A number limits how much
/// is in use at once; a rate, such as 10/s, how much starts per time: each start takes its part, also that of
/// a retry, and its end gives nothing back. A value that is set here is durable and takes the place of the
/// scheduler's --limit until it is removed.
///
/// With --json, an array of limits, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton limits
  baton limits set db/orders 4       at most 4 in use at once; lowering it kills nothing
  baton limits set api 10/s          at most 10 starts per second, in even steps
  baton limits set api 100/h --burst 20
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
    /// List all limits (the default)
    Ls,
    /// Set a limit, or change it
    Set {
        /// Name of the resource, such as db/orders
        name: String,
        /// How much may be in use at once, or a rate of starts: 10/s, 600/m, 100/h, 5/30s
        #[arg(value_name = "N|RATE", value_parser = value)]
        value: Value,
        /// How much of a rate may start at once after a pause [default: what a tenth of a second brings, at
        /// least 1]
        #[arg(long, value_name = "N")]
        burst: Option<u64>,
    },
    /// Remove a limit that was set
    Rm {
        /// Name of the resource
        name: String,
    },
}

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Capacity(u64),
    Rate(Rate),
}

fn value(text: &str) -> Result<Value, String> {
    if text.contains('/') {
        let rate = units::rate(text);
        return rate.map(Value::Rate).map_err(|error| error.to_string());
    }
    let capacity = text.parse().map(Value::Capacity);
    capacity.map_err(|_| "expected a number such as 4, or a rate such as 10/s".to_owned())
}

pub(super) async fn run(command: &Limits, client: &Client) -> CommandResult {
    let mut out = Output::new();
    match &command.action {
        None | Some(Action::Ls) => list(
            &client.limits().await.map_err(refused)?,
            command.json,
            &mut out,
        )?,
        Some(Action::Set { name, value, burst }) => {
            let (capacity, rate) = match value {
                Value::Capacity(capacity) => (Some(*capacity), None),
                Value::Rate(rate) => (None, Some(rate.to_string())),
            };
            let body = SetLimit {
                capacity,
                rate,
                burst: *burst,
            };
            let limit = client.set_limit(name, &body).await.map_err(refused)?;
            if command.json {
                out.json(&limit)?;
            } else {
                writeln!(out, "{}: {}", clean(&limit.name), limit.value())?;
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
            match removed.value() {
                _ if command.json => out.json(&removed)?,
                None => writeln!(out, "{name}: removed")?,
                Some(value) => writeln!(out, "{name}: {value} again, by --limit")?,
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
    let head = [
        "NAME",
        "CAPACITY",
        "RATE",
        "USED",
        "NEXT START",
        "WAITING",
        "ORIGIN",
    ];
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
            limit.rate.as_deref().map(clean).unwrap_or_default().into(),
            Cell::new(grouped(limit.used), style),
            next_start(limit).into(),
            grouped(limit.waiting).into(),
            origin(limit).into(),
        ]);
    }
    table
}

/// When a rate lets the next start.
fn next_start(limit: &Limit) -> String {
    match (&limit.rate, limit.next_start_seconds) {
        (None, _) => String::new(),
        (Some(_), None) => "now".to_owned(),
        (Some(_), Some(seconds)) => format!("in {seconds:.1} s"),
    }
}

fn origin(limit: &Limit) -> String {
    match (limit.origin, limit.default_value()) {
        (LimitOrigin::Flag, _) => "--limit".to_owned(),
        (LimitOrigin::RunTime, None) => "run time".to_owned(),
        (LimitOrigin::RunTime, Some(default)) => format!("run time, --limit is {default}"),
    }
}

#[cfg(test)]
mod tests {
    use baton_model::time::Millis;

    use super::*;

    #[test]
    fn a_value_is_a_number_or_a_rate() {
        assert_eq!(value("4"), Ok(Value::Capacity(4)));
        let rate = |count, per| {
            let per = Millis(per);
            Ok(Value::Rate(Rate { count, per }))
        };
        assert_eq!(value("10/s"), rate(10, 1_000));
        assert_eq!(value("600/m"), rate(600, 60_000));
        assert_eq!(value("5/30s"), rate(5, 30_000));
        for bad in ["", "x", "-1", "0/s", "10/", "10/x", "1.5/s"] {
            assert!(value(bad).is_err(), "{bad}");
        }
    }
}
