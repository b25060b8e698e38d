//! `baton runs`: the list of workflow runs.

use baton_client::Client;
use baton_model::api::{Run, RunFilter};
use baton_model::time::Wall;
use clap::Args;

use super::super::filters::RunFilterArgs;
use crate::connection::refused;
use crate::ids;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::{fit, grouped};
use crate::time::{between, now, span};
use crate::views::rows;
use crate::views::task_state;

/// Rows with the progress and the parameters of their runs.
const WHOLE_MAX: usize = 100;
/// Width of the parameters.
const PARAMS_WIDTH: usize = 40;

/// List workflow runs, latest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton runs
  baton runs --state FAILED --json | jq -r '.[].id'
  baton runs --name nightly --since 7d --sort submitted")]
pub(crate) struct Runs {
    /// Maximum number of rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    number: usize,
    #[command(flatten)]
    filter: RunFilterArgs,
    /// Order of the rows: -submitted, or submitted for the oldest first
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Print a JSON array of runs, in the API's format
    #[arg(long)]
    json: bool,
}

pub(in super::super) async fn run(command: &Runs, client: &Client) -> CommandResult {
    let filter = command.filter.filter();
    let runs = client
        .runs(&filter, command.sort.as_deref(), command.number)
        .await
        .map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&runs)?;
        return out.done();
    }
    if runs.is_empty() {
        if let Some(text) = empty_notice(command) {
            note(text);
        }
        return out.done();
    }
    let mut table = Table::default();
    table.row(
        [
            "RUN",
            "WORKFLOW",
            "OWNER",
            "STATE",
            "GENERATION",
            "AGE",
            "TOOK",
            "ITEMS",
            "PARAMS",
        ]
        .map(|it| Cell::new(it, Style::Faint)),
    );
    for (place, run) in runs.iter().enumerate() {
        // Lists have neither counts nor parameters.
        let whole = match ids::run(&run.id) {
            Ok(id) if place < WHOLE_MAX => client.run(id).await.ok(),
            _ => None,
        };
        table.row(row(whole.as_ref().unwrap_or(run), now()));
    }
    table.print(&mut out)?;
    out.done()
}

/// The notice for an empty list.
fn empty_notice(command: &Runs) -> Option<&'static str> {
    let filter = command.filter.filter();
    match (command.number, filter == RunFilter::default()) {
        // `-n 0` asks for none.
        (0, _) => None,
        (_, true) => Some("no runs; start one with `baton submit workflow.yaml`"),
        (_, false) => Some("no such runs; list the latest with `baton runs`"),
    }
}

fn row(run: &Run, now: Wall) -> [Cell; 9] {
    let until = run.ended_at.map_or(now, Wall);
    let state = match run.halting {
        Some(_) => format!("{}, halting", run.state),
        None => run.state.to_string(),
    };
    [
        Cell::new(clean(&run.id), Style::Strong),
        clean(&run.name).into(),
        clean(&run.owner).into(),
        Cell::new(state, rows::style(run.state)),
        run.generation.to_string().into(),
        span(between(Wall(run.submitted_at), now)).into(),
        span(between(Wall(run.begun_at), until)).into(),
        progress(run).into(),
        params(run).into(),
    ]
}

/// `3/5, 1 failed, 1 skipped`.
fn progress(run: &Run) -> String {
    let Some(items) = &run.items else {
        return "-".to_owned();
    };
    let total = task_state::total(items);
    let mut text = format!("{}/{}", grouped(items.done), grouped(total));
    for (number, word) in [(items.failed, "failed"), (items.skipped, "skipped")] {
        if number > 0 {
            text.push_str(&format!(", {} {word}", grouped(number)));
        }
    }
    text
}

fn params(run: &Run) -> String {
    let params = run.params.iter();
    let params = params.map(|(name, value)| format!("{}={}", clean(name), clean(value)));
    fit(&params.collect::<Vec<_>>().join(" "), PARAMS_WIDTH)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        runs: Runs,
    }

    fn notice(args: &[&str]) -> Option<&'static str> {
        let all = [&["runs"], args].concat();
        empty_notice(&Cli::try_parse_from(all).expect("arguments").runs)
    }

    #[test]
    fn an_empty_list_says_why_it_is_empty() {
        assert!(notice(&[]).is_some_and(|text| text.contains("submit")));
        assert!(notice(&["--since", "1h"]).is_some_and(|text| text.contains("no such")));
        assert!(notice(&["--name", "nosuch"]).is_some_and(|text| text.contains("no such")));
        assert!(notice(&["-n", "0"]).is_none());
    }
}
