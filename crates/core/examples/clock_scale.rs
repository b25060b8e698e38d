//! What many schedules cost on this machine: `cargo run --release -p baton-core --example
//! clock_scale`.
//!
//! Prints bytes for each schedule, where all are different and where all are the same, and
//! what a tick costs among a thousand and among a million schedules with as many due.

// An example is a driver: it may look at clocks and print, as the core may not.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is a driver"
)]

use std::error::Error;
use std::fs;

use baton_core::clock::{Clock, Dst, Key, Policy, Schedules};
use baton_model::time::Wall;

type MeasureResult<T> = Result<T, Box<dyn Error>>;

/// The beginning of 2026.
const START: Wall = Wall(1_767_225_600_000);

/// Schedules that are due together, whatever else there is.
const DUE: u64 = 1_000;

/// How often they are due while we look.
const ROUNDS: u64 = 500;

const MANY: u64 = 1_000_000;

fn main() -> MeasureResult<()> {
    println!(
        "{:>10} {:>10} {:>14}",
        "schedules", "different", "bytes each"
    );
    // Kept to the end: memory that is given back hides what the next one takes.
    let mut kept = Vec::new();
    for different in [false, true] {
        let before = resident()?;
        let (clock, schedules) = filled(MANY, different)?;
        let bytes = resident()?.saturating_sub(before) / MANY;
        println!("{MANY:>10} {:>10} {bytes:>14}", schedules.len());
        kept.push((clock, schedules));
    }
    println!();
    println!(
        "{:>10} {:>10} {:>14}",
        "schedules", "ticks", "ns for a tick"
    );
    for count in [1_000, MANY] {
        let (mut clock, mut schedules) = filled(count, true)?;
        let minutely = schedules.parse("* * * * *", "Europe/Berlin", Dst::default())?;
        for key in 0..DUE {
            let minutely = minutely.clone();
            clock.insert(Key(u64::MAX - key), minutely, Policy::default(), START);
        }
        let mut ticks = 0_u64;
        let began = processor_ns()?;
        for round in 1..=ROUNDS {
            let now = Wall(START.0 + round * 60_000);
            while clock.next_due().is_some_and(|due| due <= now) {
                clock.due(now, &mut |_| ticks += 1);
            }
        }
        let each = (processor_ns()? - began) / ticks.max(1);
        println!("{count:>10} {ticks:>10} {each:>14}");
    }
    Ok(())
}

/// A clock with schedules of once a year, in December: not due while we look.
fn filled(count: u64, different: bool) -> MeasureResult<(Clock, Schedules)> {
    let mut schedules = Schedules::new();
    let mut clock = Clock::new();
    for key in 0..count {
        let n = if different { key } else { 0 };
        let (second, minute, hour, day) =
            (n % 60, n / 60 % 60, n / 3_600 % 24, 1 + n / 86_400 % 28);
        let text = format!("{second} {minute} {hour} {day} 12 *");
        let schedule = schedules.parse(&text, "Europe/Berlin", Dst::default())?;
        clock.insert(Key(key), schedule, Policy::default(), START);
    }
    Ok((clock, schedules))
}

/// Bytes of this process that are in memory.
fn resident() -> MeasureResult<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no VmRSS")?.parse::<u64>()? * 1_024)
}

/// How long this thread has had a processor: others may be at work on this machine.
fn processor_ns() -> MeasureResult<u64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split_whitespace().next().ok_or("no time")?.parse()?)
}
