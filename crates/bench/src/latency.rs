//! `baton bench latency`: time from a submission to the start of its process, on an idle system.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_terminal::output::{CommandResult, Failure, Output};
use clap::Args;
use serde::Serialize;

use crate::cluster::{BenchDir, Scheduler, Worker, block_on, finish, submit, wait_until_healthy};
use crate::rig::io_failure;

/// Measure the time from a submission to the start of its process, one after another
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton bench latency -n 500 --json")]
pub(crate) struct Latency {
    /// Number of submissions
    #[arg(short = 'n', long, default_value_t = 200)]
    count: u32,
    /// Directory to work in; the speed of its disk affects the result [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct LatencyResult {
    count: u32,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// One durable write on this disk; there are two between submission and start.
    fsync_p50_ms: f64,
}

/// Measures, and prints.
pub(crate) fn run(command: &Latency) -> CommandResult {
    let dir = BenchDir::new(command.place.as_deref())?;
    let fsync_p50_ms = fsync(&dir)?;
    let scheduler = Scheduler::start(&dir.path().join("data"))?;
    let worker = Worker::start(&scheduler, &dir.path().join("worker"), 2)?;
    let stamp = dir.path().join("started");
    let script = format!("date +%s%N > {}", stamp.display());
    let count = command.count.max(1);
    let mut all = block_on(async {
        wait_until_healthy(&scheduler.client).await?;
        let mut all = Vec::new();
        for round in 0..=count {
            let begun = now()?;
            let argv = ["/bin/sh", "-c", &script];
            let span = submit(&scheduler.client, "latency", &argv, None).await?;
            finish(&scheduler.client, span).await?;
            let started = std::fs::read_to_string(&stamp)
                .map_err(|error| io_failure("read the start time", &error))?;
            let started: u128 = started.trim().parse().map_err(Failure::failed)?;
            // The first is a warm-up.
            if round > 0 {
                all.push(started.saturating_sub(begun) as f64 / 1e6);
            }
        }
        Ok::<_, Failure>(all)
    })?;
    worker.stop();
    all.sort_by(f64::total_cmp);
    let result = LatencyResult {
        count,
        p50_ms: percentile(&all, 50),
        p99_ms: percentile(&all, 99),
        max_ms: percentile(&all, 100),
        fsync_p50_ms,
    };
    let mut out = Output::new();
    if command.json {
        out.json(&result)?;
        return out.done();
    }
    writeln!(
        out,
        "submission to start: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms; this includes two durable \
         writes of {:.2} ms each, and the start of a shell and of `date`",
        result.p50_ms, result.p99_ms, result.max_ms, result.fsync_p50_ms
    )?;
    out.flush()?;
    out.done()
}

pub(crate) fn now() -> Result<u128, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|it| it.as_nanos()).map_err(Failure::failed)
}

/// Median duration of one durable 4 KiB write on this disk, in milliseconds.
fn fsync(dir: &BenchDir) -> Result<f64, Failure> {
    let path = dir.path().join("fsync");
    let tried = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create(&path)?;
        let mut all = Vec::new();
        for _ in 0..50 {
            std::io::Write::write_all(&mut file, &[7; 4_096])?;
            let begun = std::time::Instant::now();
            file.sync_data()?;
            all.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(all)
    };
    let mut all = tried().map_err(|error| io_failure("write durably", &error))?;
    all.sort_by(f64::total_cmp);
    Ok(percentile(&all, 50))
}

pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (sorted.len() * percent / 100).min(last);
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_what_was_measured() {
        let all: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(
            (
                percentile(&all, 50),
                percentile(&all, 99),
                percentile(&all, 100)
            ),
            (101.0, 199.0, 200.0)
        );
        assert_eq!(percentile(&[], 50), 0.0);
    }
}
