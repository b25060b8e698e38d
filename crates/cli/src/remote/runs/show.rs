//! `baton show RUN`: summary, graph, timeline or items; `baton explain RUN`.

use std::io::{self, Write};

use baton_client::Client;
use baton_model::api::{ErrorGroup, ItemFilter, Run, RunTask};
use baton_model::ids::RunId;
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::state::UniversalState;
use baton_web::gantt;
use clap::Args;
use serde::Serialize;

use super::items::{self, ItemListArgs};
use crate::connection::refused;
use crate::output::{CommandResult, Output};
use crate::painter::size;
use crate::time::now;
use crate::views::{dot, explain, graph, summary, timeline};

/// Items of a timeline: more than a reader can distinguish.
const ITEMS_MAX: usize = 20_000;
/// Failures searched for the first one of each task.
const FAILURES_MAX: usize = 10_000;
/// Width of output to a file or a pipe.
const PLAIN_WIDTH: usize = 120;

/// Options that select the view of a run.
#[derive(Debug, Args)]
pub(in super::super) struct RunViewArgs {
    /// Of a run: the task graph, as text
    #[arg(long, conflicts_with_all = ["dot", "timeline", "json"])]
    graph: bool,
    /// Of a run: the task graph, for Graphviz (DOT)
    #[arg(long, conflicts_with_all = ["svg", "timeline", "json"])]
    dot: bool,
    /// Of a run: the task graph, or with --timeline the timeline, as SVG
    #[arg(long, conflicts_with_all = ["graph", "json"])]
    svg: bool,
    /// Of a run: a timeline of its items
    #[arg(long)]
    timeline: bool,
    #[command(flatten)]
    pub(in super::super) items_args: ItemListArgs,
}

impl RunViewArgs {
    /// True if an option is set that applies to runs only.
    pub(in super::super) const fn is_some(&self) -> bool {
        self.graph || self.dot || self.svg || self.timeline || self.items_args.items
    }
}

#[derive(Serialize)]
struct RunDetails<'a> {
    run: &'a Run,
    tasks: &'a [RunTask],
    errors: &'a [ErrorGroup],
}

pub(in super::super) async fn run(
    id: RunId,
    view: &RunViewArgs,
    json: bool,
    client: &Client,
) -> CommandResult {
    if view.items_args.items {
        return items::list(id, &view.items_args, json, client).await;
    }
    let run_info = client.run(id).await.map_err(refused)?;
    if view.timeline {
        return timeline(&run_info, id, view.svg, json, client).await;
    }
    let mut out = Output::new();
    let (width, _) = room(&out);
    let colours = out.colours;
    let tasks = client
        .run_tasks(id, PLAN_TASKS_MAX)
        .await
        .map_err(refused)?;
    if view.dot {
        out.write_all(dot::render(&run_info, &tasks).as_bytes())?;
    } else if view.svg {
        out.write_all(baton_web::graph::document(&run_info, &tasks).as_bytes())?;
    } else if view.graph {
        lines(&mut out, graph::render(&run_info, &tasks, width, colours))?;
    } else {
        let errors = client.run_errors(id).await.map_err(refused)?;
        if json {
            out.json(&RunDetails {
                run: &run_info,
                tasks: &tasks,
                errors: &errors,
            })?;
        } else {
            let all = summary::Summary {
                run: &run_info,
                tasks: &tasks,
                errors: &errors,
                local: None,
                whole: true,
                now: now(),
            };
            lines(&mut out, summary::render(&all, width, colours))?;
        }
    }
    out.done()
}

/// Width and height to draw in.
fn room(out: &Output) -> (usize, usize) {
    if out.terminal {
        size(io::stdout())
    } else {
        (PLAIN_WIDTH, usize::MAX)
    }
}

async fn timeline(run: &Run, id: RunId, svg: bool, json: bool, client: &Client) -> CommandResult {
    let mut out = Output::new();
    let most = if json { usize::MAX } else { ITEMS_MAX };
    let items = client.run_items(id, &ItemFilter::default(), most).await;
    let items = items.map_err(refused)?;
    if json {
        out.json(&items)?;
        return out.done();
    }
    let more = if items.len() < ITEMS_MAX {
        0
    } else {
        gantt::begun(run).saturating_sub(items.len() as u64)
    };
    let timeline = gantt::Timeline {
        run,
        items: &items,
        more,
        now: now(),
    };
    let (width, height) = room(&out);
    if svg {
        out.write_all(gantt::document(&timeline).as_bytes())?;
    } else {
        let colours = out.colours;
        let drawn = timeline::render(&timeline, width, height, colours);
        lines(&mut out, drawn)?;
    }
    out.done()
}

fn lines(out: &mut Output, lines: Vec<String>) -> CommandResult {
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Explains the state of a run: what its tasks wait for, or why it ended.
pub(in super::super) async fn explain(id: RunId, json: bool, client: &Client) -> CommandResult {
    let run_info = client.run(id).await.map_err(refused)?;
    let tasks = client.run_tasks(id, PLAN_TASKS_MAX).await;
    let tasks = tasks.map_err(refused)?;
    let errors = client.run_errors(id).await.map_err(refused)?;
    let mut out = Output::new();
    if json {
        out.json(&RunDetails {
            run: &run_info,
            tasks: &tasks,
            errors: &errors,
        })?;
        return out.done();
    }
    let filter = ItemFilter {
        state: Some(UniversalState::Failed),
        ..ItemFilter::default()
    };
    let failures = if errors.is_empty() {
        Vec::new()
    } else {
        let failures = client.run_items(id, &filter, FAILURES_MAX).await;
        failures.map_err(refused)?
    };
    let (width, _) = room(&out);
    let explanation = explain::Explanation {
        run: &run_info,
        tasks: &tasks,
        errors: &errors,
        failures: &failures,
    };
    let colours = out.colours;
    lines(&mut out, explain::render(&explanation, width, colours))?;
    out.done()
}
