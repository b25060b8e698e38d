//! `baton bench local`: latency, recovery and memory of the runner and its coordinator.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_model::json;
use baton_model::task::Moment;
use baton_runner::log::{Kind, read};
use baton_runner::record::CoordinatorRecord;
use baton_terminal::output::{CommandResult, Failure, Output};
use baton_terminal::table::Table;
use baton_web::text::size;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::rig::{Rig, io_failure};

/// Measure `baton local`: latency between processes, recovery time, coordinator memory
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton bench local --json")]
pub(crate) struct Local {
    /// Processes in the chain whose latency is measured
    #[arg(long, default_value_t = 200)]
    chain: u32,
    /// Running processes that a new runner takes over
    #[arg(long, default_value_t = 1_000)]
    recovery: u32,
    /// Running processes of the coordinator whose memory is measured
    #[arg(long, default_value_t = 100)]
    children: u32,
    /// Directory to work in; the speed of its disk affects the result [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct LocalResult {
    /// `true` after `true`: from the start of one to the start of the next.
    chain: u32,
    hop_median_ms: u64,
    hop_p99_ms: u64,
    hop_mean_ms: f64,
    /// From the start of a new runner until it has taken over all processes.
    recovery: u32,
    recovery_ms: f64,
    /// Resident memory of a coordinator with so many children.
    children: u32,
    coordinator_rss_bytes: u64,
}

/// Measures, and prints.
pub(crate) fn run(command: &Local) -> CommandResult {
    let dir = command.place.clone().unwrap_or_else(std::env::temp_dir);
    let rig = Rig::new(&dir)?;
    let hops = chain(&rig, command.chain)?;
    let (recovery_ms, _) = crowd(&rig, "recovery", command.recovery)?;
    let (_, rss) = crowd(&rig, "children", command.children)?;
    let result = LocalResult {
        chain: command.chain,
        hop_median_ms: hops.median_ms,
        hop_p99_ms: hops.p99_ms,
        hop_mean_ms: hops.mean_ms,
        recovery: command.recovery,
        recovery_ms,
        children: command.children,
        coordinator_rss_bytes: rss,
    };
    let mut out = Output::new();
    if command.json {
        out.json(&result)?;
        return out.done();
    }
    let mut table = Table::indented(0);
    let chain = format!("chain of {} × true, per hop", result.chain);
    let hop = format!(
        "median {} ms, p99 {} ms, mean {:.2} ms",
        result.hop_median_ms, result.hop_p99_ms, result.hop_mean_ms
    );
    table.row([chain.into(), hop.into()]);
    let recovery = format!("recovery of {} running processes", result.recovery);
    table.row([recovery.into(), format!("{recovery_ms:.1} ms").into()]);
    let children = format!("coordinator with {} children", result.children);
    table.row([children.into(), format!("{} resident", size(rss)).into()]);
    table.print(&mut out)?;
    out.flush()?;
    out.done()
}

struct Hops {
    median_ms: u64,
    p99_ms: u64,
    mean_ms: f64,
}

fn chain(rig: &Rig, length: u32) -> Result<Hops, Failure> {
    let name = |no: u32| format!("p{no}");
    let processes = (0..length.max(2)).map(|no| {
        let after: Vec<String> = no.checked_sub(1).map(name).into_iter().collect();
        json!({ "name": name(no), "run": ["true"], "after": after })
    });
    let file = rig.task("chain", processes.collect())?;
    let mut running = rig.run("chain", Some(&file))?;
    let changes = running.until(|value| value["kind"] == "ended")?;
    running.wait()?;
    let mut starts: Vec<u64> = Vec::new();
    for change in &changes {
        let started = &change["change"]["run-started"]["started"];
        if let Ok(at) = json::from_value::<Moment>(started) {
            starts.push(at.mono.0);
        }
    }
    starts.sort_unstable();
    let mut hops: Vec<u64> = starts.windows(2).map(|two| two[1] - two[0]).collect();
    hops.sort_unstable();
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
        return Err(Failure::failed("no process of the chain was started"));
    };
    Ok(Hops {
        median_ms: hops[hops.len() / 2],
        p99_ms: hops[hops.len() * 99 / 100],
        mean_ms: (last - first) as f64 / hops.len() as f64,
    })
}

/// Returns how long a new runner takes to take over `count` processes (ms), and the resident
/// memory of their coordinator.
fn crowd(rig: &Rig, id: &str, count: u32) -> Result<(f64, u64), Failure> {
    let processes =
        (0..count.max(1)).map(|no| json!({ "name": format!("p{no}"), "run": ["sleep", "600"] }));
    let file = rig.task(id, processes.collect())?;
    let mut running = rig.run(id, Some(&file))?;
    let mut started = 0;
    running.until(|value| {
        started += u32::from(value["change"]["run-started"].is_object());
        started == count.max(1)
    })?;
    let rss = coordinator_rss(&rig.checkpoint(id))?;
    running.kill_runner()?;
    let begun = Instant::now();
    let mut resumed = rig.run(id, None)?;
    resumed.until(|value| value["change"]["resumed"].is_object())?;
    let took = begun.elapsed();
    resumed.kill_runner()?;
    rig.kill(id)?;
    Ok((took.as_secs_f64() * 1_000.0, rss))
}

/// Resident memory of a task's coordinator, as the kernel reports it.
fn coordinator_rss(checkpoint: &Path) -> Result<u64, Failure> {
    let log = read::<CoordinatorRecord>(&checkpoint.join("coordinator"), Kind::Coordinator);
    let records = log.map_err(Failure::failed)?.records;
    let pid = records.iter().find_map(|record| match record {
        CoordinatorRecord::Begun { pid, .. } => Some(*pid),
        _ => None,
    });
    let status = format!("/proc/{}/status", pid.unwrap_or_default());
    let status =
        std::fs::read_to_string(status).map_err(|error| io_failure("read /proc", &error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1_024)
        .ok_or_else(|| Failure::failed("/proc does not report the coordinator's memory"))
}
