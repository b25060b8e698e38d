//! `baton show RUN`: how it stands, its graph, its timeline; `baton explain RUN`.

use std::io::Write;

use baton_client::{Client, ItemFilter};
use baton_model::api::{ErrorGroup, Run, RunTask};
use baton_model::ids::RunId;
use clap::Args;
use serde::Serialize;

use super::super::refused;
use super::follow::size;
use crate::output::{Ended, Output, Style, clean};
use crate::table::{Cell, Table};
use crate::time::now;
use crate::views::{dot, graph, summary, svg, timeline, timeline_svg};

/// Tasks that are shown.
const TASKS_MAX: usize = 200_000;
/// Items of a timeline: more than anybody can tell apart.
const ITEMS_MAX: usize = 20_000;
/// The width of what goes into a file or a pipe.
const PLAIN_WIDTH: usize = 120;

/// How a run is shown.
#[derive(Debug, Args)]
pub(in super::super) struct Shape {
    /// Of a run: its tasks as a graph
    #[arg(long, conflicts_with_all = ["dot", "timeline", "json"])]
    graph: bool,
    /// Of a run: its graph for Graphviz
    #[arg(long, conflicts_with_all = ["svg", "timeline", "json"])]
    dot: bool,
    /// Of a run: its graph, or with --timeline its timeline, as a picture
    #[arg(long, conflicts_with_all = ["graph", "json"])]
    svg: bool,
    /// Of a run: when what ran
    #[arg(long)]
    timeline: bool,
}

impl Shape {
    /// True if something was asked for that only runs have.
    pub(in super::super) const fn is_some(&self) -> bool {
        self.graph || self.dot || self.svg || self.timeline
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    run: &'a Run,
    tasks: &'a [RunTask],
    errors: &'a [ErrorGroup],
}

pub(in super::super) async fn run(id: RunId, shape: &Shape, json: bool, client: &Client) -> Ended {
    let mut out = Output::new();
    let seen = client.run(id).await.map_err(refused)?;
    let (width, height) = match out.terminal {
        true => size(),
        false => (PLAIN_WIDTH, usize::MAX),
    };
    let colours = out.colours;
    if shape.timeline {
        let filter = ItemFilter::default();
        let items = client.run_items(id, &filter, ITEMS_MAX).await;
        let items = items.map_err(refused)?;
        if json {
            out.json(&items)?;
            return out.done();
        }
        let timeline = timeline::Timeline {
            run: &seen,
            items: &items,
            now: now(),
        };
        if shape.svg {
            out.write_all(timeline_svg::render(&timeline).as_bytes())?;
        } else {
            lines(
                &mut out,
                timeline::render(&timeline, width, height, colours),
            )?;
        }
        return out.done();
    }
    let tasks = client.run_tasks(id, TASKS_MAX).await.map_err(refused)?;
    if shape.dot {
        out.write_all(dot::render(&seen, &tasks).as_bytes())?;
    } else if shape.svg {
        out.write_all(svg::render(&seen, &tasks).as_bytes())?;
    } else if shape.graph {
        lines(&mut out, graph::render(&tasks, width, colours))?;
    } else {
        let errors = client.run_errors(id).await.map_err(refused)?;
        if json {
            out.json(&Whole {
                run: &seen,
                tasks: &tasks,
                errors: &errors,
            })?;
        } else {
            let all = summary::Summary {
                run: &seen,
                tasks: &tasks,
                errors: &errors,
                again: None,
                now: now(),
            };
            lines(&mut out, summary::render(&all, width, colours))?;
        }
    }
    out.done()
}

fn lines(out: &mut Output, lines: Vec<String>) -> Ended {
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Why a run is where it is: each task that is not over, with what it waits for.
pub(in super::super) async fn explain(id: RunId, json: bool, client: &Client) -> Ended {
    let seen = client.run(id).await.map_err(refused)?;
    let tasks = client.run_tasks(id, TASKS_MAX).await.map_err(refused)?;
    let mut out = Output::new();
    if json {
        out.json(&Whole {
            run: &seen,
            tasks: &tasks,
            errors: &[],
        })?;
        return out.done();
    }
    if seen.state.is_terminal() {
        writeln!(out, "{} is {}: it is over", clean(&seen.id), seen.state)?;
    }
    let mut table = Table::default();
    for task in &tasks {
        let items = task.items;
        let open = items.waiting + items.ready + items.queued + items.running;
        if open == 0 || seen.state.is_terminal() {
            continue;
        }
        let reason = match &task.reason {
            Some(reason) => clean(reason),
            None if items.running > 0 => format!("{} run", items.running),
            None => String::new(),
        };
        table.row([Cell::new(clean(&task.name), Style::Strong), reason.into()]);
    }
    for problem in &seen.problems {
        let text = format!("item {}: {}", problem.item, clean(&problem.text));
        table.row([Cell::new(clean(&problem.task), Style::Bad), text.into()]);
    }
    table.print(&mut out)?;
    out.done()
}
