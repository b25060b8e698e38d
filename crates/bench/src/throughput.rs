//! `baton bench throughput`: trivial processes per second, compared with a bare spawn loop, xargs
//! and HyperQueue.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_terminal::output::{CommandResult, Failure, Output};
use baton_terminal::table::Table;
use clap::Args;
use serde::Serialize;

use crate::cluster::{
    BenchDir, Scheduler, Worker, WorkerCpu, block_on, finish, submit, wait_until_healthy,
};
use crate::compare::{BenchStore, CompareArgs, Figure, Unit};
use crate::peers;
use crate::rig::io_failure;

/// Measure how many processes per second Baton runs, compared with a bare spawn loop, xargs and
/// HyperQueue
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  baton bench throughput\n  \
    baton bench throughput -n 50000 --json\n  \
    baton bench throughput --store postgres://baton@localhost/baton_bench")]
pub(crate) struct Throughput {
    /// Number of processes (/bin/true)
    #[arg(short = 'n', long, default_value_t = 10_000)]
    count: u64,
    /// Processes at once, in each of them [default: two per core]
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// Skip HyperQueue even if it is installed
    #[arg(long)]
    without_hyperqueue: bool,
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
struct ThroughputResult {
    count: u64,
    at_once: usize,
    /// A bare loop of vfork and exec; half of it before Baton, half after.
    raw_per_second: f64,
    xargs_per_second: f64,
    /// From the submission until all are DONE and durable.
    baton_per_second: f64,
    /// CPU time per process, without that of the process itself.
    scheduler_us: f64,
    agent_us: f64,
    coordinator_us: f64,
    reaper_us: f64,
    /// `None` if it is not installed.
    hyperqueue_per_second: Option<f64>,
    ratio_to_raw: f64,
    ratio_to_xargs: f64,
    ratio_to_hyperqueue: Option<f64>,
}

/// Measures, and prints.
pub(crate) fn run(command: &Throughput) -> CommandResult {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = command.at_once.unwrap_or(2 * cores).max(1);
    let count = command.count.max(1);
    let compared = command
        .compare
        .run(command.place.as_deref(), command.json, |scratch, dir| {
            let baton = baton(scratch.fresh()?, dir, count, at_once)?;
            Ok(vec![
                Figure {
                    name: "processes".to_owned(),
                    value: rate(count, baton.took),
                    unit: Unit::PerSecond,
                },
                Figure {
                    name: "scheduler's CPU time per process".to_owned(),
                    value: micros_each(baton.scheduler, count),
                    unit: Unit::Microseconds,
                },
            ])
        });
    if let Some(compared) = compared {
        return compared;
    }
    let dir = BenchDir::new(command.place.as_deref())?;
    let xargs = rate(count, xargs(count, at_once)?);
    let hyperqueue = if command.without_hyperqueue {
        None
    } else {
        peers::hyperqueue(dir.path(), count, at_once)?
    };
    // The speed of a shared machine drifts from second to second. Both sides of the ratio are
    // measured around the same moment: one half of the bare loop before, the other half after.
    let before = peers::raw(count - count / 2, at_once)?;
    let baton = baton(&BenchStore::Sqlite, dir.path(), count, at_once)?;
    let raw = rate(count, before + peers::raw(count / 2, at_once)?);
    let per_second = rate(count, baton.took);
    let each = |time: Duration| micros_each(time, count);
    let hyperqueue = hyperqueue.map(|took| rate(count, took));
    let result = ThroughputResult {
        count,
        at_once,
        raw_per_second: raw,
        xargs_per_second: xargs,
        baton_per_second: per_second,
        scheduler_us: each(baton.scheduler),
        agent_us: each(baton.worker.agent),
        coordinator_us: each(baton.worker.coordinator),
        reaper_us: each(baton.worker.reaper),
        hyperqueue_per_second: hyperqueue,
        ratio_to_raw: per_second / raw,
        ratio_to_xargs: per_second / xargs,
        ratio_to_hyperqueue: hyperqueue.map(|rate| per_second / rate),
    };
    print(command.json, &result)
}

fn print(json: bool, result: &ThroughputResult) -> CommandResult {
    let mut out = Output::new();
    if json {
        out.json(result)?;
        return out.done();
    }
    let mut table = Table::indented(0);
    let row = |name: &str, rate: f64| {
        let ratio = format!("{:.0} % of raw", 100.0 * rate / result.raw_per_second);
        [
            name.to_owned().into(),
            format!("{rate:.0}/s").into(),
            ratio.into(),
        ]
    };
    let raw = format!("raw vfork loop, {} at once", result.at_once);
    table.row(row(&raw, result.raw_per_second));
    table.row(row("xargs -P", result.xargs_per_second));
    table.row(row("baton, durable", result.baton_per_second));
    match result.hyperqueue_per_second {
        Some(rate) => table.row(row("HyperQueue", rate)),
        None => table.row([
            "HyperQueue".to_owned().into(),
            "not installed".to_owned().into(),
            "pip install hyperqueue".to_owned().into(),
        ]),
    }
    table.print(&mut out)?;
    writeln!(
        out,
        "CPU time per process: scheduler {:.0} µs, agent {:.0} µs, coordinator {:.0} µs, reaper {:.0} µs",
        result.scheduler_us, result.agent_us, result.coordinator_us, result.reaper_us
    )?;
    out.flush()?;
    out.done()
}

struct Baton {
    took: Duration,
    scheduler: Duration,
    worker: WorkerCpu,
}

fn baton(store: &BenchStore, dir: &Path, count: u64, at_once: usize) -> Result<Baton, Failure> {
    let scheduler = Scheduler::start_with(&dir.join("data"), store)?;
    let worker = Worker::start(&scheduler, &dir.join("worker"), at_once)?;
    let measured = block_on(async {
        let client = &scheduler.client;
        wait_until_healthy(client).await?;
        let warm = submit(client, "warm", &["/bin/true"], Some(100)).await?;
        finish(client, warm).await?;
        let before = (scheduler.cpu()?, worker.cpu()?);
        let begun = Instant::now();
        let span = submit(client, "true", &["/bin/true"], Some(count)).await?;
        finish(client, span).await?;
        let took = begun.elapsed();
        let after = (scheduler.cpu()?, worker.cpu()?);
        Ok(Baton {
            took,
            scheduler: after.0.saturating_sub(before.0),
            worker: after.1.since(before.1),
        })
    })?;
    worker.stop();
    Ok(measured)
}

fn xargs(count: u64, at_once: usize) -> Result<Duration, Failure> {
    let mut child = Command::new("xargs")
        .args(["-P", &at_once.to_string(), "-n", "1", "/bin/true"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| io_failure("start xargs", &error))?;
    let begun = Instant::now();
    if let Some(mut input) = child.stdin.take() {
        let lines = "x\n".repeat(usize::try_from(count).unwrap_or(usize::MAX));
        std::io::Write::write_all(&mut input, lines.as_bytes())
            .map_err(|error| io_failure("feed xargs", &error))?;
    }
    let status = child
        .wait()
        .map_err(|error| io_failure("wait for xargs", &error))?;
    if status.success() {
        Ok(begun.elapsed())
    } else {
        Err(Failure::failed(format!("xargs failed: {status}")))
    }
}

fn micros_each(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
