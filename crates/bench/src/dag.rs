//! `baton bench dag`: workflow throughput with a thousand to a million tasks, and the latency of
//! one hop of a chain on an idle system.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_model::api::{ItemFilter, SubmitRun};
use baton_model::ids::RunId;
use baton_model::state::UniversalState;
use baton_terminal::connection::accepted_run;
use baton_terminal::output::{CommandResult, Failure, Output};
use baton_terminal::table::Table;
use baton_terminal::text::grouped;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cluster::{BenchDir, Scheduler, TIMEOUT, Worker, block_on, wait_until_healthy};
use crate::compare::{BenchStore, CompareArgs, Figure, Unit};
use crate::instant_worker::InstantWorker;

/// Attempts that the worker holds at once.
const SLOTS: u32 = 4_096;

/// Measure workflow throughput, and the latency from one task of a chain to the next
///
/// Throughput: layered DAGs in which each item depends on three others, on a worker that finishes
/// every attempt at once. Latency: a chain of `true` on a real worker.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  baton bench dag\n  baton bench dag -n 1000 -n 1000000 --json\n  \
    baton bench dag -n 10000 --store postgres://baton@localhost/baton_bench"
)]
pub(crate) struct Dag {
    /// Size of a DAG, in tasks; may be repeated [default: 1000, 10000, 100000, 1000000]
    #[arg(short = 'n', long = "tasks", value_name = "N")]
    sizes: Vec<u64>,
    /// Length of the chain; 0 skips it
    #[arg(long, default_value_t = 100)]
    chain: u64,
    /// Directory to work in; the speed of its disk affects the result [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    #[command(flatten)]
    compare: CompareArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct DagResult {
    graphs: Vec<Graph>,
    chain: Option<Chain>,
}

#[derive(Debug, Serialize)]
struct Graph {
    tasks: u64,
    layers: u64,
    /// From the request until the submission was durable.
    submit_seconds: f64,
    /// From there until all were DONE.
    run_seconds: f64,
    /// `run_seconds` per task.
    microseconds_per_task: f64,
    /// CPU time of the scheduler per task.
    scheduler_microseconds_per_task: f64,
    scheduler_peak_mib: f64,
}

#[derive(Debug, Serialize)]
struct Chain {
    hops: u64,
    /// From the submission until all were DONE, per hop.
    milliseconds_per_hop: f64,
}

impl Graph {
    fn figures(&self) -> [Figure; 2] {
        let tasks = grouped(self.tasks);
        [
            Figure {
                name: format!("submission of {tasks} tasks"),
                value: self.submit_seconds,
                unit: Unit::Seconds,
            },
            Figure {
                name: format!("run of {tasks} tasks"),
                value: self.run_seconds,
                unit: Unit::Seconds,
            },
        ]
    }
}

/// Measures, and prints.
pub(crate) fn run(command: &Dag) -> CommandResult {
    let sizes = match &*command.sizes {
        [] => &[1_000, 10_000, 100_000, 1_000_000],
        sizes => sizes,
    };
    let compared = command
        .compare
        .run(command.place.as_deref(), command.json, |scratch, dir| {
            let mut figures = Vec::new();
            for (at, tasks) in sizes.iter().enumerate() {
                let data = dir.join(format!("graph-{at}"));
                figures.extend(graph(scratch.fresh()?, &data, (*tasks).max(1))?.figures());
            }
            if command.chain > 0 {
                let chain = chain(scratch.fresh()?, dir, command.chain)?;
                figures.push(Figure {
                    name: format!("hop of a chain of {}", grouped(chain.hops)),
                    value: chain.milliseconds_per_hop,
                    unit: Unit::Milliseconds,
                });
            }
            Ok(figures)
        });
    if let Some(compared) = compared {
        return compared;
    }
    let dir = BenchDir::new(command.place.as_deref())?;
    let mut graphs = Vec::new();
    for (at, tasks) in sizes.iter().enumerate() {
        let data = dir.path().join(format!("graph-{at}"));
        graphs.push(graph(&BenchStore::Sqlite, &data, (*tasks).max(1))?);
        // Frees the disk space for the next, larger one.
        let _ = std::fs::remove_dir_all(&data);
    }
    let chain = match command.chain {
        0 => None,
        hops => Some(chain(&BenchStore::Sqlite, dir.path(), hops)?),
    };
    let result = DagResult { graphs, chain };
    let mut out = Output::new();
    if command.json {
        out.json(&result)?;
        return out.done();
    }
    table(&result).print(&mut out)?;
    if let Some(chain) = &result.chain {
        let (hops, each) = (chain.hops, chain.milliseconds_per_hop);
        writeln!(
            out,
            "chain of {hops} × `true`: {each:.2} ms per hop, end to end"
        )?;
    }
    out.flush()?;
    out.done()
}

fn table(result: &DagResult) -> Table {
    let mut table = Table::indented(0);
    let heads = [
        "tasks",
        "submission",
        "run",
        "each",
        "scheduler cpu",
        "scheduler memory",
    ];
    table.row(heads.map(Into::into));
    for graph in &result.graphs {
        table.row([
            grouped(graph.tasks).into(),
            format!("{:.2} s", graph.submit_seconds).into(),
            format!("{:.1} s", graph.run_seconds).into(),
            format!("{:.0} us", graph.microseconds_per_task).into(),
            format!("{:.0} us", graph.scheduler_microseconds_per_task).into(),
            format!("{:.0} MiB", graph.scheduler_peak_mib).into(),
        ]);
    }
    table
}

fn graph(store: &BenchStore, data: &Path, tasks: u64) -> Result<Graph, Failure> {
    let (file, layers) = layered(tasks);
    let scheduler = Scheduler::start_with(data, store)?;
    let _worker = InstantWorker::start(&scheduler.workers, SLOTS)?;
    block_on(async {
        let client = &scheduler.client;
        wait_until_healthy(client).await?;
        let cpu = scheduler.cpu()?;
        let begun = Instant::now();
        let run = submit(client, file).await?;
        let submitted = begun.elapsed();
        finish(client, run).await?;
        let run_time = begun.elapsed() - submitted;
        let cpu = scheduler.cpu()? - cpu;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / tasks as f64;
        Ok(Graph {
            tasks,
            layers,
            submit_seconds: submitted.as_secs_f64(),
            run_seconds: run_time.as_secs_f64(),
            microseconds_per_task: each(run_time),
            scheduler_microseconds_per_task: each(cpu),
            scheduler_peak_mib: scheduler.memory()?.1 as f64 / f64::from(1 << 20),
        })
    })
}

/// Builds a workflow of about as many layers as items per layer. Each item depends on three items
/// of the previous layer, spread across it.
fn layered(tasks: u64) -> (Value, u64) {
    let layers = (tasks as f64).sqrt().round().max(1.0) as u64;
    let width = tasks.div_ceil(layers);
    let mut file = Map::new();
    let mut left = tasks;
    let mut before = 0;
    for layer in 0..layers {
        let count = width.min(left);
        left -= count;
        let mut task = json!({
            "run": ["true"],
            "for_each": { "range": [0, count] },
            "resources": { "cpu": 1 },
        });
        if layer > 0 && before > 0 {
            let mut edges = String::new();
            for item in 0..count {
                let separator = if item > 0 { ";" } else { "" };
                let of = |step: u64| (item + step * 37) % before;
                let (a, b, c) = (of(0), of(1), of(2));
                // Writing to a string does not fail.
                let _ = write!(edges, "{separator}{a},{b},{c}");
            }
            let name = format!("layer-{}", layer - 1);
            task["after"] = json!([{ "task": name, "items": edges }]);
        }
        file.insert(format!("layer-{layer}"), task);
        before = count;
        if left == 0 {
            return (json!({ "workflow": "dag", "tasks": file }), layer + 1);
        }
    }
    (json!({ "workflow": "dag", "tasks": file }), layers)
}

fn chain(store: &BenchStore, place: &Path, hops: u64) -> Result<Chain, Failure> {
    let mut tasks = Map::new();
    for hop in 0..hops {
        let after: Vec<String> = hop
            .checked_sub(1)
            .map(|it| format!("t{it}"))
            .into_iter()
            .collect();
        tasks.insert(
            format!("t{hop}"),
            json!({ "run": ["true"], "after": after }),
        );
    }
    let file = json!({ "workflow": "chain", "tasks": tasks });
    let scheduler = Scheduler::start_with(&place.join("chain"), store)?;
    let worker = Worker::start(&scheduler, &place.join("worker"), 2)?;
    let chain = block_on(async {
        let client = &scheduler.client;
        wait_until_healthy(client).await?;
        // Warm-up.
        let warm = json!({ "workflow": "warm", "tasks": { "t": { "run": ["true"] } } });
        let warm = submit(client, warm).await?;
        finish(client, warm).await?;
        let run = submit(client, file).await?;
        finish(client, run).await?;
        let run_info = client.run(run).await.map_err(Failure::failed)?;
        let items = client
            .run_items(run, &ItemFilter::default(), usize::MAX)
            .await;
        let items = items.map_err(Failure::failed)?;
        if items.len() as u64 != hops {
            return Err(Failure::failed(format!(
                "the run has {} items, expected {hops}",
                items.len()
            )));
        }
        let ended = run_info.ended_at.unwrap_or(run_info.begun_at);
        Ok(Chain {
            hops,
            milliseconds_per_hop: (ended - run_info.begun_at) as f64 / hops as f64,
        })
    })?;
    worker.stop();
    Ok(chain)
}

async fn submit(client: &Client, file: Value) -> Result<RunId, Failure> {
    let submit = SubmitRun {
        file,
        ..SubmitRun::default()
    };
    let answer = client.submit_run(&submit).await.map_err(Failure::failed)?;
    accepted_run(&answer)
}

async fn finish(client: &Client, run: RunId) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        let run_info = client.wait_run(run, Duration::from_secs(30)).await;
        let run_info = run_info.map_err(Failure::failed)?;
        match run_info.state {
            UniversalState::Done => return Ok(()),
            state if state.is_terminal() => {
                return Err(Failure::failed(format!("{run} is {state}")));
            }
            _ => {}
        }
    }
    Err(Failure::failed(format!(
        "{run} did not end within {} s",
        TIMEOUT.as_secs()
    )))
}
