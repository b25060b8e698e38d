//! `baton report`: a run as one HTML file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use baton_client::Client;
use baton_model::api::{ItemFilter, RunItem};
use baton_model::ids::{InstanceId, RunId};
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::task::Resources;
use baton_web::gantt;
use baton_web::report::{Answers, REPORT_ITEMS_MAX, REPORT_REQUESTS_MAX, render};
use clap::Args;
use serde_json::Value;

use crate::connection::refused;
use crate::ids;
use crate::output::{CommandResult, Failure, Output};
use crate::time::now;

/// Write a report of a run as one HTML file
///
/// It has the state of the run, its parameters, graph, timeline, a table of its tasks with times and
/// usage, and its failures. The file needs nothing else: it can be mailed and kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton report r12 > r12.html
  baton report r12 -o r12.html")]
pub(crate) struct Report {
    /// Run id, such as r12
    #[arg(value_name = "RUN", value_parser = ids::run)]
    run: RunId,
    /// The file; standard output by default
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(in super::super) async fn run(command: &Report, client: &Client) -> CommandResult {
    let mut out = Output::new();
    if command.output.is_none() && out.terminal {
        let id = command.run;
        return Err(Failure::usage(format!(
            "a report is an HTML file, and standard output is a terminal; write it to a file: \
             `baton report {id} -o {id}.html`"
        )));
    }
    let html = fetch(command.run, client).await?;
    match &command.output {
        Some(path) => fs::write(path, html)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display()))),
        None => {
            out.write_all(html.as_bytes())?;
            out.done()
        }
    }
}

async fn fetch(id: RunId, client: &Client) -> Result<String, Failure> {
    let run = client.run(id).await.map_err(refused)?;
    let tasks = client.run_tasks(id, PLAN_TASKS_MAX).await;
    let tasks = tasks.map_err(refused)?;
    let errors = client.run_errors(id).await.map_err(refused)?;
    let every = ItemFilter::default();
    let items = client.run_items(id, &every, REPORT_ITEMS_MAX);
    let items = items.await.map_err(refused)?;
    let more_items = if items.len() < REPORT_ITEMS_MAX {
        0
    } else {
        gantt::begun(&run).saturating_sub(items.len() as u64)
    };
    let requests = requests(&items, client).await?;
    Ok(render(&Answers {
        run: &run,
        tasks: &tasks,
        items: &items,
        more_items,
        errors: &errors,
        requests: &requests,
        version: env!("CARGO_PKG_VERSION"),
        now: now(),
    }))
}

/// What the instances of the first tasks request, by one example each.
async fn requests(
    items: &[RunItem<Value>],
    client: &Client,
) -> Result<BTreeMap<String, Resources>, Failure> {
    let mut requests = BTreeMap::new();
    for item in items {
        if requests.len() >= REPORT_REQUESTS_MAX {
            break;
        }
        if requests.contains_key(&item.task) {
            continue;
        }
        let id: InstanceId = ids::span(&item.instance).map_err(Failure::usage)?.first;
        match client.instance(id).await {
            Ok(instance) => {
                let resources = instance.details.map(|it| it.resources);
                requests.insert(item.task.clone(), resources.unwrap_or_default());
            }
            // It was pruned meanwhile.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(requests)
}
