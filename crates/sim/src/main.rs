//! `baton-sim`: runs seeds and reports violations.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use baton_core::bugs::{Bug, Bugs};
use baton_sim::campaign::{Outcome, Totals, run_seed};
use baton_sim::checkers::Violation;
use baton_sim::swarm::Shape;
use baton_sim::trace::Detail;
use baton_sim::{chronos, fleets};
use clap::Parser;
use serde_json::json;

/// Injects faults into a simulated Baton cluster and checks its guarantees.
#[derive(Parser, Debug)]
#[command(
    name = "baton-sim",
    after_help = "Examples:
  baton-sim --seeds 1000 --workers 10 --instances 200
  baton-sim --bug sequence-unchecked --seeds 2000
  baton-sim --seed 17 --trace
  baton-sim --workflows --seeds 1000
  baton-sim --crashes --seeds 1000
  baton-sim --schedules --seeds 5000
  baton-sim --fleets --seeds 2000

Exit status: 0 clean, 1 violation found, 2 bad usage."
)]
struct Args {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run this seed only, or start with it if --seeds is set, too.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of workers, instead of a random one.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    workers: Option<u32>,
    /// Number of instances, instead of a random one.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    instances: Option<u32>,
    /// Also submit, halt and resume workflows.
    #[arg(long)]
    workflows: bool,
    /// Kill the processes of workers all the time, and let nothing else go wrong.
    #[arg(long)]
    crashes: bool,
    /// Simulate schedules of a library over years instead of a cluster.
    #[arg(long, conflicts_with_all = ["workers", "instances", "workflows", "crashes"])]
    schedules: bool,
    /// Simulate fleets and their cluster manager instead of a cluster.
    #[arg(long, conflicts_with_all = ["workers", "instances", "workflows", "crashes", "schedules"])]
    fleets: bool,
    /// Enable this seeded bug; stop at the first seed that detects it.
    #[arg(long, value_name = "NAME", value_parser = parse_bug)]
    bug: Option<Bug>,
    /// List the seeded bugs and exit.
    #[arg(long)]
    list_bugs: bool,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// Print one JSON object instead of text.
    #[arg(long, conflicts_with = "trace")]
    json: bool,
}

fn parse_bug(name: &str) -> Result<Bug, String> {
    Bug::by_name(name).ok_or_else(|| "unknown bug; see --list-bugs".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_bugs {
        for bug in Bug::ALL {
            println!("{:<28} {}", bug.name(), bug.what());
        }
        return ExitCode::SUCCESS;
    }
    // A panic of the core is caught and reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let totals = run(&args);
    let wall_seconds = started.elapsed().as_secs_f64();
    if args.json {
        print_json(&args, &totals, wall_seconds);
    } else {
        print_summary(&totals, wall_seconds);
    }
    if totals.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Args {
    fn shape(&self) -> Shape {
        let asked = Shape {
            workers: self.workers,
            instances: self.instances,
            workflows: self.workflows,
            crashes: self.crashes,
        };
        self.bug.map_or(asked, |bug| asked.for_bug(bug))
    }

    /// A bug of schedules implies `--schedules`.
    fn is_about_schedules(&self) -> bool {
        self.schedules || self.bug.is_some_and(|bug| chronos::BUGS.contains(&bug))
    }

    /// A bug of fleets implies `--fleets`.
    fn is_about_fleets(&self) -> bool {
        self.fleets || self.bug.is_some_and(|bug| fleets::BUGS.contains(&bug))
    }

    fn run_seed(&self, seed: u64, detail: Detail) -> Outcome {
        if self.is_about_schedules() {
            chronos::run_seed(seed, self.bugs(), detail).0
        } else if self.is_about_fleets() {
            fleets::run_seed(seed, self.bugs(), detail)
        } else {
            run_seed(seed, self.shape(), self.bugs(), detail)
        }
    }

    fn bugs(&self) -> Bugs {
        self.bug.map_or(Bugs::NONE, Bugs::only)
    }

    /// The seeds to run: `--seed S` alone is one seed.
    fn seeds(&self) -> std::ops::Range<u64> {
        let has_count = std::env::args().any(|arg| arg == "--seeds" || arg.starts_with("--seeds="));
        match self.seed {
            Some(first) if has_count => first..first.saturating_add(self.seeds),
            Some(only) => only..only.saturating_add(1),
            None => 0..self.seeds,
        }
    }
}

fn run(args: &Args) -> Totals {
    let mut totals = Totals::default();
    let seeds = args.seeds();
    let count = seeds.end - seeds.start;
    let progress = std::io::stderr().is_terminal() && !args.trace && count > 1;
    let detail = if args.trace {
        Detail::Print
    } else {
        Detail::Hash
    };
    for seed in seeds {
        let outcome = args.run_seed(seed, detail);
        totals.add(seed, &outcome);
        if let Some(violation) = &outcome.violation {
            if progress {
                eprint!("\r\x1b[K");
            }
            if !args.json {
                report(args, seed, violation);
            }
            break;
        }
        if progress && totals.seeds.is_multiple_of(10) {
            eprint!("\r{} of {count} seeds", totals.seeds);
            // A progress line is optional.
            let _ = std::io::stderr().flush();
        }
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    totals
}

/// Reruns the seed with its last events recorded, and prints a report.
fn report(args: &Args, seed: u64, violation: &Violation) {
    let replay = args.run_seed(seed, Detail::Tail);
    if !args.trace {
        for line in &replay.tail {
            println!("{line}");
        }
    }
    println!();
    println!("seed {seed} violates a guarantee");
    println!("checker: {}", violation.checker);
    println!("  {}", violation.what);
    println!("replay:  {}", replay_command(args, seed));
}

fn replay_command(args: &Args, seed: u64) -> String {
    let mut command = format!("cargo sim --seed {seed}");
    if let Some(workers) = args.workers {
        command += &format!(" --workers {workers}");
    }
    if let Some(instances) = args.instances {
        command += &format!(" --instances {instances}");
    }
    if args.workflows {
        command += " --workflows";
    }
    if args.crashes {
        command += " --crashes";
    }
    if args.schedules {
        command += " --schedules";
    }
    if args.fleets {
        command += " --fleets";
    }
    if let Some(bug) = args.bug {
        command += &format!(" --bug {}", bug.name());
    }
    command + " --trace"
}

fn print_summary(totals: &Totals, wall_seconds: f64) {
    let times = totals.virtual_seconds as f64 / wall_seconds.max(1e-9);
    println!(
        "{} seeds, {} violations, {} events, {:.1} virtual hours in {:.1} s ({times:.0} times real time), trace {:016x}",
        totals.seeds,
        totals.violations.len(),
        totals.events,
        totals.virtual_seconds as f64 / 3_600.0,
        wall_seconds,
        totals.trace_hash,
    );
}

fn print_json(args: &Args, totals: &Totals, wall_seconds: f64) {
    let found: Vec<_> = totals
        .violations
        .iter()
        .map(|(seed, it)| {
            json!({
                "seed": seed,
                "checker": it.checker,
                "what": it.what,
                "replay": replay_command(args, *seed),
            })
        })
        .collect();
    println!(
        "{}",
        json!({
            "seeds": totals.seeds,
            "violations": found.len(),
            "found": found,
            "events": totals.events,
            "virtual_seconds": totals.virtual_seconds,
            "wall_seconds": wall_seconds,
            "trace_hash": format!("{:016x}", totals.trace_hash),
        })
    );
}
