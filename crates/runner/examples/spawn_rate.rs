//! The cost of an attempt in the coordinator of a worker.
//!
//! Pushes launches of `/bin/true`, each with paths, a tag and a claim, through a coordinator with
//! room for four at a time, and forgets each end as an agent would. For comparison: a plain loop of
//! the [`Spawner`] with four children at a time, without logs, records or directories.
//!
//! ```text
//! cargo run --release -p baton-runner --example spawn_rate -- 10000
//! ```
//!
//! Wall time means little on a machine that does other things too. The processor time is that of
//! the launching process alone, so the difference of both rows is what the coordinator adds to
//! clone and exec.

use std::error::Error;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_model::ids::Epoch;
use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::{Millis, Mono, Stamp};
use baton_runner::coordinator::{self, CoordinatorSpec, Discovery, Link};
use baton_runner::sys::spawn::{Command, Spawner};
use baton_runner::sys::{clock, proc, random, reap};
use baton_runner::wire::{AttemptPaths, Guard, Launch, Reply, Request, RunKey, Sink};
use rustix::event::{PollFd, PollFlags, poll};

/// The number of concurrent runs.
const WIDTH: u64 = 4;
/// The number of launches ordered ahead of those that have ended.
const AHEAD: u64 = 64;
const LAUNCHES_DEFAULT: u64 = 10_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    // The coordinator is this very program.
    if args.get(1).is_some_and(|word| word == coordinator::COMMAND) {
        std::process::exit(coordinator::main(&args[2..]));
    }
    let count = args
        .get(1)
        .map_or(Ok(LAUNCHES_DEFAULT), |word| word.parse())?;
    let directory = std::env::temp_dir().join(format!("baton-spawn-rate-{}", random::number()));
    fs::create_dir(&directory)?;
    let measured = base(count).and_then(|base| Ok((base, worker(count, &directory)?)));
    fs::remove_dir_all(&directory)?;
    let (base, worker) = measured?;
    print("spawner alone", count, base);
    print("coordinator", count, worker);
    let more = cpu_us(worker.1, count) - cpu_us(base.1, count);
    println!("the coordinator adds {more:.0} us of processor time to each");
    Ok(())
}

/// Wall time, and processor time in ticks.
type Cost = (Duration, u64);

fn base(count: u64) -> Result<Cost> {
    let mut spawner = Spawner::new()?;
    let argv = ["/bin/true".to_owned()];
    let command = Command::new(&argv, &[]);
    let (begun, before) = (Instant::now(), ticks(std::process::id())?);
    let (mut started, mut ended) = (0, 0);
    while ended < count {
        while started < count && started - ended < WIDTH {
            spawner.spawn(&command)?;
            started += 1;
        }
        // As the coordinator does: sleep until one ends, then take all that have.
        wait_for_any()?;
        while reap::reap_next()?.is_some() {
            ended += 1;
        }
    }
    Ok((begun.elapsed(), ticks(std::process::id())? - before))
}

/// Sleeps until a child has ended.
fn wait_for_any() -> Result<()> {
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::All, options)?;
    Ok(())
}

fn worker(count: u64, directory: &Path) -> Result<Cost> {
    let (checkpoint, sandbox) = (directory.join("checkpoint"), directory.join("sandbox"));
    fs::create_dir(&checkpoint)?;
    fs::create_dir(&sandbox)?;
    let start = CoordinatorSpec {
        binary: std::env::current_exe()?,
        checkpoint,
        sandbox,
        mark: format!("rate{}", random::number()),
        cgroup: None,
        guarded: true,
    };
    let Discovery::Absent(permit) = start.discover()? else {
        return Err("a coordinator in a new directory".into());
    };
    let (mut link, _) = permit.start(&start, &mut Spawner::new()?.as_fn(), false)?;
    let guard = Guard {
        deadline: clock::now().mono + Millis::from_secs(3_600),
        grace: Millis(0),
        kill_max: Millis(0),
        epoch: Epoch(1),
        stamp: Stamp(Mono(1)),
    };
    let amounts = vec![WIDTH];
    let capacity = Request::Capacity {
        core_nodes: Vec::new(),
        amounts,
        devices: std::collections::BTreeMap::new(),
    };
    link.send_all(&[Request::Guard(guard), capacity])?;
    let (begun, before) = (Instant::now(), ticks(link.pid())?);
    push(&mut link, count)?;
    let cost = (begun.elapsed(), ticks(link.pid())? - before);
    link.send(&Request::Exit)?;
    reap::wait(link.pid())?;
    Ok(cost)
}

fn push(link: &mut Link, count: u64) -> Result<()> {
    let (mut ordered, mut ended) = (0, 0);
    let mut orders = Vec::new();
    while ended < count {
        while ordered < count && ordered - ended < AHEAD {
            orders.push(order(ordered));
            ordered += 1;
        }
        link.send_all(&orders)?;
        orders.clear();
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, link.wants_write());
        poll(&mut [PollFd::new(&link.as_fd(), flags)], None)?;
        let (replies, alive) = link.receive()?;
        for reply in replies {
            if let Reply::Ended(end) = reply {
                if !end.outcome.is_success() {
                    return Err(format!("{}: {}", end.run, end.outcome).into());
                }
                orders.push(Request::Forget { run: end.run });
                ended += 1;
            }
        }
        if !alive {
            return Err("the coordinator is gone".into());
        }
    }
    Ok(())
}

fn order(number: u64) -> Request {
    let run = RunKey {
        process: ProcessNo(0),
        run: RunNo(number),
    };
    let launch = Launch {
        argv: vec!["/bin/true".to_owned()],
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        stdout: Sink::File,
        stderr: Sink::File,
        tag: format!("attempt {number} of some task, with its lease"),
        claim: vec![1],
        timeout: Some(Millis::from_secs(3_600)),
        paths: Some(AttemptPaths {
            dir: number.to_string(),
            stdout: format!("{number}.stdout"),
            stderr: format!("{number}.stderr"),
        }),
        ..Launch::default()
    };
    Request::Launch {
        run,
        launch: Box::new(launch),
    }
}

/// The processor time of a process so far.
fn ticks(pid: u32) -> Result<u64> {
    let stat = proc::stat(pid)?.ok_or("a process of ours is gone")?;
    Ok(stat.cpu_ticks)
}

fn cpu_us(ticks: u64, count: u64) -> f64 {
    ticks as f64 * 1e6 / proc::ticks_per_second() as f64 / count as f64
}

fn print(what: &str, count: u64, (wall, ticks): Cost) {
    let rate = count as f64 / wall.as_secs_f64();
    let cpu = cpu_us(ticks, count);
    println!("{what:14} {rate:8.0} per second  {cpu:6.0} us of processor time each");
}
