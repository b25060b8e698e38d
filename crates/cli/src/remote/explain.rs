//! `baton explain`: why an instance or a run is in its state.

use std::io::{self, IsTerminal, Write};

use baton_client::{Client, View};
use baton_model::api::Instance;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use clap::Args;

use super::data::DataArgs;
use super::filters::InstanceFilterArgs;
use super::runs;
use super::selection::{self, Sequence, Unit};
use super::show::write_tail;
use crate::connection::refused;
use crate::ids;
use crate::ids::{IdArg, Target};
use crate::output::{CommandResult, Output, Style, clean, colours};
use crate::painter::size;
use crate::time::span as time_span;
use crate::views::rows;
use crate::views::summary::format_commands;

/// Explain the state of an instance or a run, and what to do next
///
/// For a run that has ended: why, which tasks were blocked by which, and what to do next.
///
/// With --json, an object: id, state, reason (one word), text, and details: worker, resource, short,
/// until, estimate. For a run: run (with problems, halting and timedOut), tasks (each with its item counts and
/// the reason why they wait), and errors (failures grouped by cause, each with one example).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton explain i12
  baton explain i12 --json | jq -r .reason
  baton explain i1..i9 r3
  baton explain --name nightly-report --state QUEUED
  baton explain r3                   what each task of a run waits for, or why it failed
  baton explain r3 --json | jq -r '.errors[].endText'")]
pub(crate) struct Explain {
    /// Instances (i12, i1..i9) and runs (r3)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    /// Print JSON; an array for several
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) data: DataArgs,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
}

pub(super) async fn run(command: &Explain, client: &Client) -> CommandResult {
    let views = &[View::Bullpen, View::Arena, View::History];
    let units = selection::resolve(&command.ids, &command.filter.filter(), views, client).await?;
    let targets = selection::expand(&units, selection::EXPANDED_MAX)?;
    let listed = matches!(&*units, [Unit::Matches(_)]) || targets.len() > 1;
    let mut results = Sequence::new(command.json && listed);
    for target in targets {
        results.begin()?;
        results.record(one(target, command, client).await)?;
    }
    results.end()
}

async fn one(target: Target, command: &Explain, client: &Client) -> CommandResult {
    let span = match target {
        Target::Run(id) => return runs::show::explain(id, command.json, client).await,
        Target::Instances(span) => span,
    };
    let explanation = client.explain(span.first).await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&explanation)?;
    } else {
        let id = out.paint(Style::Strong, &clean(&explanation.id));
        let state = out.paint(rows::style(explanation.state), explanation.state.word());
        writeln!(out, "{id} {state}: {}", clean(&explanation.text))?;
        if let Some(estimate) = explanation.estimate {
            let estimate = time_span(Millis(estimate));
            writeln!(out, "An attempt of its task usually takes {estimate}.")?;
        }
        let instance = client.instance(span.first).await.map_err(refused)?;
        if explanation.state == UniversalState::Failed {
            write_tail(&mut out, &instance)?;
        }
        if command.data.data.is_none() {
            let (width, _) = size(io::stdout());
            let colour = colours(io::stdout().is_terminal());
            for line in format_commands(next(&instance), width, colour) {
                writeln!(out, "{line}")?;
            }
        }
    }
    out.done()
}

/// Commands for an instance that has not succeeded, each with its effect.
fn next(instance: &Instance) -> Vec<(String, &'static str)> {
    let id = clean(&instance.id);
    let look = match instance.state {
        UniversalState::Failed => (format!("baton logs {id}"), "its output"),
        UniversalState::Halted => (format!("baton show {id}"), "its timeline"),
        _ => return Vec::new(),
    };
    // An item runs again with its run.
    let again = match &instance.run {
        Some(run) => (format!("baton explain {}", clean(run)), "its run"),
        None => (format!("baton retry {id}"), "runs it again"),
    };
    vec![look, again]
}
