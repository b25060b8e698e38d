//! `baton bench submit` and `baton bench recovery`: submission of, and recovery with, a million
//! instances.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Command, Config, Effect, Input, Scheduler as Core, Submission};
use baton_core::step::{Outbox, Step};
use baton_model::ids::{Epoch, RequestId};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::{Mono, Now, Wall};
use baton_store::{Store, TakeOutcome};
use baton_terminal::output::{CommandResult, Failure, Output};
use baton_web::text::size;
use clap::Args;
use serde::Serialize;

use crate::cluster::{BenchDir, Scheduler, block_on, submit};
use crate::compare::{BenchStore, CompareArgs, Figure, Scratch, Unit};

/// Measure the time until a large array is accepted durably
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  baton bench submit --json\n  \
    baton bench submit --store postgres://baton@localhost/baton_bench")]
pub(crate) struct SubmitArray {
    #[command(flatten)]
    common: Common,
}

/// Measure the restart of a scheduler with many separate queued instances
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  baton bench recovery --json\n  \
    baton bench recovery --store postgres://baton@localhost/baton_bench")]
pub(crate) struct Recovery {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Number of instances
    #[arg(short = 'n', long, default_value_t = 1_000_000)]
    count: u64,
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
struct SubmitResult {
    count: u64,
    accepted_ms: f64,
    scheduler_rss_bytes: u64,
    scheduler_peak_bytes: u64,
}

#[derive(Debug, Serialize)]
struct RecoveryResult {
    count: u64,
    ready_ms: f64,
    scheduler_rss_bytes: u64,
    scheduler_peak_bytes: u64,
}

/// Runs the submission benchmark and prints the result.
pub(crate) fn submit_array(command: &SubmitArray) -> CommandResult {
    let common = &command.common;
    let count = common.count.max(1);
    let compared = common.compare(|scratch, dir| {
        let name = format!("{count} accepted");
        let value = accept(scratch.fresh()?, dir, count)?.accepted_ms;
        let unit = Unit::Milliseconds;
        Ok(vec![Figure { name, value, unit }])
    });
    if let Some(compared) = compared {
        return compared;
    }
    let dir = BenchDir::new(common.place.as_deref())?;
    let measured = accept(&BenchStore::Sqlite, dir.path(), count)?;
    let text = format!(
        "an array of {count} was accepted in {:.1} ms; the scheduler's memory is {}, peak {}",
        measured.accepted_ms,
        size(measured.scheduler_rss_bytes),
        size(measured.scheduler_peak_bytes)
    );
    print(common.json, &measured, &text)
}

fn accept(store: &BenchStore, dir: &Path, count: u64) -> Result<SubmitResult, Failure> {
    let scheduler = Scheduler::start_with(&dir.join("data"), store)?;
    let took = block_on(async {
        let begun = Instant::now();
        submit(&scheduler.client, "array", &["/bin/true"], Some(count)).await?;
        Ok::<_, Failure>(begun.elapsed())
    })?;
    let (rss, peak) = scheduler.memory()?;
    scheduler.kill()?;
    Ok(SubmitResult {
        count,
        accepted_ms: took.as_secs_f64() * 1e3,
        scheduler_rss_bytes: rss,
        scheduler_peak_bytes: peak,
    })
}

impl Common {
    fn compare(
        &self,
        measure: impl Fn(&Scratch<'_>, &Path) -> Result<Vec<Figure>, Failure>,
    ) -> Option<CommandResult> {
        self.compare.run(self.place.as_deref(), self.json, measure)
    }
}

fn print(json: bool, measured: &impl Serialize, text: &str) -> CommandResult {
    let mut out = Output::new();
    if json {
        out.json(measured)?;
        return out.done();
    }
    writeln!(out, "{text}")?;
    out.flush()?;
    out.done()
}

/// Runs the restart benchmark and prints the result.
pub(crate) fn recovery(command: &Recovery) -> CommandResult {
    let common = &command.common;
    let count = common.count.max(1);
    let compared = common.compare(|scratch, dir| {
        let name = format!("ready with {count} instances");
        let value = recover(scratch.fresh()?, dir, count)?.ready_ms / 1e3;
        let unit = Unit::Seconds;
        Ok(vec![Figure { name, value, unit }])
    });
    if let Some(compared) = compared {
        return compared;
    }
    let dir = BenchDir::new(common.place.as_deref())?;
    let measured = recover(&BenchStore::Sqlite, dir.path(), count)?;
    let text = format!(
        "a scheduler with {count} separate instances was ready after {:.2} s; its memory is {}, peak {}",
        measured.ready_ms / 1e3,
        size(measured.scheduler_rss_bytes),
        size(measured.scheduler_peak_bytes)
    );
    print(common.json, &measured, &text)
}

fn recover(store: &BenchStore, dir: &Path, count: u64) -> Result<RecoveryResult, Failure> {
    let data = dir.join("data");
    std::fs::create_dir_all(&data).map_err(Failure::failed)?;
    fill(&*store.open(&data)?, count)?;
    let scheduler = Scheduler::start_with(&data, store)?;
    let ready = scheduler.ready_after;
    let (rss, peak) = scheduler.memory()?;
    scheduler.kill()?;
    Ok(RecoveryResult {
        count,
        ready_ms: ready.as_secs_f64() * 1e3,
        scheduler_rss_bytes: rss,
        scheduler_peak_bytes: peak,
    })
}

/// Fills a store with `count` instances, each with its own command, as a leader that accepted
/// their submissions would have written it.
fn fill(store: &dyn Store, count: u64) -> Result<(), Failure> {
    let row = store.read_row().map_err(Failure::failed)?;
    let TakeOutcome::Won(epoch, _) = store
        .take(row.epoch, Epoch::new(1, 1))
        .map_err(Failure::failed)?
    else {
        return Err(Failure::failed("another process uses the store"));
    };
    let now = Now {
        mono: Mono(1),
        wall: Wall(1),
    };
    let mut core = Core::new(Config::default(), epoch, Ledger::default(), now);
    let mut outbox: Outbox<Effect> = Outbox::new(epoch);
    let spec = |id: u64| InstanceSpec {
        name: "recovery".to_owned(),
        owner: "bench".to_owned(),
        work: Work::Command(vec!["/bin/true".to_owned(), format!("--shard={id}")]),
        ..InstanceSpec::default()
    };
    let mut id = 1;
    while id <= count {
        let last = (id + 9_999).min(count);
        let mut step = Step::default();
        for id in id..=last {
            let submission = Submission {
                spec: Box::new(spec(id)),
                array: None,
                more: Vec::new(),
                key: None,
            };
            let command = Command::Submit {
                submission,
                mark: None,
            };
            step.append(core.handle(now, Input::command(RequestId(id), command)));
        }
        if let Some(batch) = outbox.accept(step) {
            let receipt = store.commit(batch, now.wall).map_err(Failure::failed)?;
            outbox.release(receipt);
        }
        outbox.drain().for_each(drop);
        id = last + 1;
    }
    Ok(())
}
