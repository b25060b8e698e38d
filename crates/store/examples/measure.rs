//! Benchmark of the store on this machine: `cargo run --release --example measure -- DIR [URL…]`.
//!
//! Each URL names an empty PostgreSQL database; the rates and the cost of attempts are measured in it, too.
//!
//! Prints facts per second with one submitter and with many, how much readers and the writer slow
//! each other down, the CPU cost of the attempts of an array, and how long a new leader needs to
//! load a million instances.

mod common;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use baton_core::step::{Outbox, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::Wall;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::view::{Query, View};
use baton_store::{
    FactLog as _, Retention, SqliteStore, Store, StoreError, TakeOutcome, Views as _,
};
use rustix::time::{ClockId, clock_gettime};

use common::{done, granted};

/// How long each rate is measured.
const SPAN: Duration = Duration::from_secs(3);

type BenchResult<T> = Result<T, Box<dyn Error>>;

fn main() -> BenchResult<()> {
    let mut args = std::env::args();
    let dir = args.nth(1).ok_or("usage: measure DIR [URL…]")?;
    let dir = PathBuf::from(dir).join("baton-store-measure");
    fs::create_dir(&dir)?;
    for url in args {
        postgres(&StoreUrl::from(&*url))?;
    }
    let measured = measure(&dir);
    fs::remove_dir_all(&dir)?;
    measured
}

/// The rates in an empty PostgreSQL database.
fn postgres(url: &StoreUrl) -> BenchResult<()> {
    let store = PostgresStore::connect(url)?;
    println!("{}:", store.place());
    attempts(&store)?;
    drop(store);
    let store = PostgresStore::connect(url)?;
    for (submitters, facts) in [(1, 1), (64, 1), (64, 1_000)] {
        let rate = commits(&store, submitters, facts, 0)?.0;
        println!("{submitters:>3} submitters, batches of {facts:>5}: {rate:>9.0} facts/s");
    }
    println!("sqlite:");
    Ok(())
}

fn measure(dir: &Path) -> BenchResult<()> {
    for (submitters, facts) in [(1, 1), (64, 1), (1, 1_000), (64, 1_000)] {
        let store = SqliteStore::open(&dir.join(format!("{submitters}-{facts}.db")))?;
        let rate = commits(&store, submitters, facts, 0)?.0;
        println!("{submitters:>3} submitters, batches of {facts:>5}: {rate:>9.0} facts/s");
    }
    for readers in [0, 1, 4] {
        let store = SqliteStore::open(&dir.join(format!("readers-{readers}.db")))?;
        let (facts, reads) = commits(&store, 64, 10, readers)?;
        println!("{readers:>3} readers: {facts:>9.0} facts/s, {reads:>7.0} pages of 100 /s");
    }
    attempts(&SqliteStore::open(&dir.join("attempts.db"))?)?;
    array(&dir.join("array.db"))?;
    restore(&dir.join("million.db"))
}

/// The cost of the three facts of each attempt of an array: granted in one group, confirmed and
/// ended in a later one, some hundred facts in a group.
fn attempts(store: &dyn Store) -> BenchResult<()> {
    const ATTEMPTS: u64 = 50_000;
    const GROUP: u64 = 34;
    let epoch = elect(store)?;
    let mut outbox: Outbox<()> = Outbox::new(epoch);
    let mut commit = |facts| -> BenchResult<()> {
        if let Some(batch) = outbox.accept(Step::keeping(facts)) {
            outbox.release(store.commit(batch, Wall(0))?);
        }
        Ok(())
    };
    let Fact::InstancesSubmitted { spec, .. } = submitted(0) else {
        return Err("not a submission".into());
    };
    commit(vec![Fact::InstancesSubmitted {
        first: InstanceId(1),
        last: InstanceId(ATTEMPTS),
        spec,
    }])?;
    let groups: Vec<Vec<Fact>> = attempt_groups(epoch, ATTEMPTS, GROUP);
    let (began, busy) = (Instant::now(), processor_time());
    for facts in groups {
        commit(facts)?;
    }
    let busy = processor_time().saturating_sub(busy);
    println!(
        "an attempt of an array: {:.1} us of processor time, {:.0} attempts/s",
        busy.as_secs_f64() * 1e6 / ATTEMPTS as f64,
        ATTEMPTS as f64 / began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn attempt_groups(epoch: Epoch, attempts: u64, group: u64) -> Vec<Vec<Fact>> {
    let mut groups = Vec::new();
    for first in (1..=attempts).step_by(group as usize) {
        // The attempts of the previous group end while these start.
        let begin = (first..first + group).filter(|id| *id <= attempts);
        let mut facts: Vec<_> = begin.map(|id| granted(epoch, id)).collect();
        for id in (first.saturating_sub(group)..first).filter(|id| *id > 0) {
            facts.extend(done(epoch, id));
        }
        groups.push(facts);
    }
    groups
}

/// How long an array of a million takes to be accepted and halted.
fn array(path: &Path) -> BenchResult<()> {
    let store = SqliteStore::open(path)?;
    let mut outbox: Outbox<()> = Outbox::new(elect(&store)?);
    let (first, last) = (InstanceId(1), InstanceId(1_000_000));
    let submitted = Fact::InstancesSubmitted {
        first,
        last,
        spec: Arc::default(),
    };
    for fact in [
        submitted,
        Fact::InstancesHalted {
            first,
            last,
            reason: None,
        },
    ] {
        let what = fact.to_string();
        let began = Instant::now();
        if let Some(batch) = outbox.accept(Step::keeping(vec![fact])) {
            outbox.release(store.commit(batch, Wall(0))?);
        }
        println!("{what} in {:.1?}", began.elapsed());
    }
    Ok(())
}

/// CPU time of this process so far, all threads.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

struct Maker {
    outbox: Outbox<()>,
    next: u64,
}

/// Facts and pages read per second.
fn commits(
    store: &dyn Store,
    submitters: u64,
    facts: u64,
    readers: u64,
) -> BenchResult<(f64, f64)> {
    // No term uses the ids of another one.
    let epoch = elect(store)?;
    let maker = Mutex::new(Maker {
        outbox: Outbox::new(epoch),
        next: u64::from(epoch.number()) << 32,
    });
    let stop = AtomicBool::new(false);
    let (written, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..submitters {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if submit(store, &maker, facts).is_err() {
                        stop.store(true, Ordering::Relaxed);
                    } else {
                        written.fetch_add(facts, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..readers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if store.page(&Query::first(View::Bullpen, 100)).is_ok() {
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(SPAN);
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = began.elapsed().as_secs_f64();
    let rate = |count: AtomicU64| count.into_inner() as f64 / seconds;
    Ok((rate(written), rate(read)))
}

fn submit(store: &dyn Store, maker: &Mutex<Maker>, count: u64) -> Result<(), StoreError> {
    let (sender, receiver) = mpsc::channel();
    let Ok(mut making) = maker.lock() else {
        return Err(StoreError::Closed);
    };
    let facts = (making.next..making.next + count).map(submitted).collect();
    making.next += count;
    if let Some(batch) = making.outbox.accept(Step::keeping(facts)) {
        // Fails only if this thread is gone.
        let done = move |outcome: Result<_, _>| drop(sender.send(outcome));
        store.submit(batch, Wall(0), Box::new(done));
    }
    drop(making);
    let receipt = receiver.recv().unwrap_or(Err(StoreError::Closed))?;
    if let Ok(mut making) = maker.lock() {
        making.outbox.release(receipt);
    }
    Ok(())
}

fn restore(path: &Path) -> BenchResult<()> {
    let store = SqliteStore::open(path)?;
    let maker = Mutex::new(Maker {
        outbox: Outbox::new(elect(&store)?),
        next: 0,
    });
    let began = Instant::now();
    for _ in 0..200 {
        submit(&store, &maker, 5_000)?;
    }
    println!("a million instances written in {:.1?}", began.elapsed());
    drop(store);
    println!("the file has {} MiB", fs::metadata(path)?.len() >> 20);
    let store = SqliteStore::open(path)?;
    let row = store.read_row()?;
    let before = resident_kib()?;
    let began = Instant::now();
    let TakeOutcome::Won(epoch, ledger) = store.take(row.epoch, Epoch(row.epoch.0 + 1))? else {
        return Err("overtaken".into());
    };
    println!(
        "restored {} instances in {:.1?}, with {} MiB",
        ledger.waiting().count(),
        began.elapsed(),
        (resident_kib()? - before) >> 10
    );
    for view in [View::Bullpen, View::History] {
        let began = Instant::now();
        let page = store.page(&Query::first(view, 100))?;
        let (items, took) = (page.items.len(), began.elapsed());
        println!("a page of {items} of {view:?} read in {took:.1?}");
    }
    let began = Instant::now();
    store.counts()?;
    println!("counted in {:.1?}", began.elapsed());
    // Kept until here: freeing a million small allocations takes time, too.
    drop(ledger);
    prune(&store, epoch)
}

/// Halts everything, and prunes half of it.
fn prune(store: &dyn Store, epoch: Epoch) -> BenchResult<()> {
    let mut outbox: Outbox<()> = Outbox::new(epoch);
    for some in (0..1_000_000).step_by(5_000) {
        let halted = |id| Fact::InstancesHalted {
            first: InstanceId(id),
            last: InstanceId(id),
            reason: None,
        };
        let facts = (some..some + 5_000).map(halted).collect();
        if let Some(batch) = outbox.accept(Step::keeping(facts)) {
            outbox.release(store.commit(batch, Wall(0))?);
        }
    }
    let half = Retention {
        terminal_instances_max: Some(500_000),
        ..Retention::default()
    };
    let began = Instant::now();
    let pruned = store.prune(epoch, Wall(0), &half, usize::MAX)?;
    println!(
        "pruned {} instances in {:.1?}, returned {} MiB",
        pruned.instances,
        began.elapsed(),
        pruned.returned >> 20
    );
    Ok(())
}

fn elect(store: &dyn Store) -> BenchResult<Epoch> {
    let row = store.read_row()?;
    match store.take(row.epoch, Epoch(row.epoch.0 + 1))? {
        TakeOutcome::Won(epoch, _) => Ok(epoch),
        TakeOutcome::Overtaken => Err("overtaken".into()),
    }
}

fn submitted(id: u64) -> Fact {
    let command = vec!["simulate".to_owned(), format!("--shard={id}")];
    Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(command),
            ..InstanceSpec::default()
        }),
    }
}

fn resident_kib() -> BenchResult<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
