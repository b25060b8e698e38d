//! `baton bench trigger`: library tasks triggered over HTTP: time to the start of one, and
//! triggers accepted durably per second while tasks run.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_client::{Client, Condition, Span, TriggerRequest};
use baton_model::ids::InstanceId;
use baton_model::library::TaskName;
use baton_model::outcome::KillMode;
use baton_terminal::output::{CommandResult, Failure, Output};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cluster::{BenchDir, Scheduler, Worker, block_on, finish, wait_until_healthy};
use crate::latency::{now, percentile};
use crate::rig::io_failure;

/// Measure triggers of library tasks over HTTP: time to start, and triggers per second
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton bench trigger -n 200 --seconds 5 --clients 64 --json")]
pub(crate) struct Triggers {
    /// Triggers sent one after another, for the time to start
    #[arg(short = 'n', long, default_value_t = 200)]
    count: u32,
    /// Seconds during which as many triggers as possible are sent
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Concurrent clients
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// Directory to work in; the speed of its disk affects the result [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct TriggerResult {
    count: u32,
    start_p50_ms: f64,
    start_p99_ms: f64,
    clients: u32,
    accepted: u64,
    accepted_per_second: f64,
    answer_p50_ms: f64,
    answer_p99_ms: f64,
    /// Accepted triggers whose instance had ended when the last was accepted.
    ended_meanwhile: u64,
}

/// Measures, and prints.
pub(crate) fn run(command: &Triggers) -> CommandResult {
    let dir = BenchDir::new(command.place.as_deref())?;
    let scheduler = Scheduler::start(&dir.path().join("data"))?;
    let _worker = Worker::start(&scheduler, &dir.path().join("worker"), 2)?;
    let result = block_on(measure(command, &scheduler.client, &dir))?;
    let mut out = Output::new();
    if command.json {
        out.json(&result)?;
        return out.done();
    }
    writeln!(
        out,
        "trigger to start, idle: p50 {:.2} ms, p99 {:.2} ms\n\
         accepted durably from {} clients: {:.0} per second ({} in all; response time p50 {:.2} ms, \
         p99 {:.2} ms), while {} of them ran to completion",
        result.start_p50_ms,
        result.start_p99_ms,
        result.clients,
        result.accepted_per_second,
        result.accepted,
        result.answer_p50_ms,
        result.answer_p99_ms,
        result.ended_meanwhile,
    )?;
    out.done()
}

async fn measure(
    command: &Triggers,
    client: &Client,
    dir: &BenchDir,
) -> Result<TriggerResult, Failure> {
    wait_until_healthy(client).await?;
    let stamp = dir.path().join("started");
    let script = format!("date +%s%N > {}", stamp.display());
    let dated = define(client, "dated", &["/bin/sh", "-c", &script]).await?;
    let nothing = define(client, "nothing", &["/bin/true"]).await?;
    let count = command.count.max(1);
    let mut starts = Vec::new();
    for round in 0..=count {
        let begun = now()?;
        let id = trigger(client, &dated).await?;
        finish(
            client,
            Span {
                first: id,
                last: id,
            },
        )
        .await?;
        let started = std::fs::read_to_string(&stamp)
            .map_err(|error| io_failure("read the start time", &error))?;
        let started: u128 = started.trim().parse().map_err(Failure::failed)?;
        // The first is a warm-up.
        if round > 0 {
            starts.push(started.saturating_sub(begun) as f64 / 1e6);
        }
    }
    starts.sort_by(f64::total_cmp);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(command.seconds.max(1));
    let mut senders = JoinSet::new();
    for _ in 0..command.clients.max(1) {
        // Each has its own connection.
        let (client, task) = (client.clone(), nothing.clone());
        senders.spawn(async move {
            let mut answers = Vec::new();
            let mut last = InstanceId(0);
            while Instant::now() < end {
                let sent = Instant::now();
                last = last.max(trigger(&client, &task).await?);
                answers.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            Ok::<_, Failure>((answers, last))
        });
    }
    let (mut answers, mut last) = (Vec::new(), InstanceId(0));
    while let Some(sender) = senders.join_next().await {
        let (more, id) = sender.map_err(Failure::failed)??;
        answers.extend(more);
        last = last.max(id);
    }
    let took = begun.elapsed().as_secs_f64();
    answers.sort_by(f64::total_cmp);
    let accepted = answers.len() as u64;
    let first = InstanceId(last.0.saturating_sub(accepted.saturating_sub(1)));
    let summary = client
        .range(Span { first, last })
        .await
        .map_err(Failure::failed)?;
    let done = summary
        .counts
        .iter()
        .filter(|(state, _)| state.is_terminal());
    let ended_meanwhile = done.map(|(_, count)| *count).sum();
    client
        .cancel(Span { first, last }, KillMode::Graceful)
        .await
        .map_err(Failure::failed)?;
    Ok(TriggerResult {
        count,
        start_p50_ms: percentile(&starts, 50),
        start_p99_ms: percentile(&starts, 99),
        clients: command.clients.max(1),
        accepted,
        accepted_per_second: accepted as f64 / took,
        answer_p50_ms: percentile(&answers, 50),
        answer_p99_ms: percentile(&answers, 99),
        ended_meanwhile,
    })
}

async fn define(client: &Client, name: &str, run: &[&str]) -> Result<TaskName, Failure> {
    let task = TaskName {
        owner: "bench".to_owned(),
        name: name.to_owned(),
    };
    let file = json!({
        "task": name,
        "run": run,
        "resources": { "cpu": 1 },
        "trigger": { "remote": true },
    });
    let defined = client.define(&task, &file, Condition::Absent, false).await;
    defined.map_err(Failure::failed)?;
    Ok(task)
}

async fn trigger(client: &Client, task: &TaskName) -> Result<InstanceId, Failure> {
    let request = TriggerRequest {
        remote: true,
        ..TriggerRequest::default()
    };
    let reply = client
        .trigger(task, &request)
        .await
        .map_err(Failure::failed)?;
    let number = reply.id.trim_start_matches('i').parse().map(InstanceId);
    number.map_err(|_| Failure::failed(format!("`{}` is not an instance id", reply.id)))
}
