//! `baton bench backlog`: cost of a placement decision, by size of the backlog.
//!
//! Drives the scheduler core on one thread against a worker that finishes every attempt at once:
//! each round reports the end of everything that was placed, and places as much again. There is
//! no store and no socket, so that only the cost that could grow with the backlog is measured.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use baton_core::ledger::Ledger;
use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::io as worker_io;
use baton_core::scheduler::{Command, Config, Effect, Input, Scheduler, Submission};
use baton_core::step::Outbox;
use baton_model::fact::Holder;
use baton_model::ids::{
    BootId, Epoch, HostId, Incarnation, IncarnationNo, Lineage, RequestId, WorkerName,
};
use baton_model::message::{ToScheduler, ToWorker};
use baton_model::outcome::{AttemptStats, Outcome, Report};
use baton_model::placement::{Capacity, Offer, ResourceRequest};
use baton_model::spec::InstanceSpec;
use baton_model::task::Resources;
use baton_model::time::{Millis, Mono, Now, Wall};
use baton_terminal::output::{CommandResult, Failure, Output};
use baton_terminal::table::Table;
use clap::Args;
use serde::Serialize;

/// Measure placement decisions per second with 1,000 to 1,000,000 queued instances
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton bench backlog --json")]
pub(crate) struct Backlog {
    /// Decisions to measure at each backlog size
    #[arg(long, default_value_t = 200_000)]
    decisions: u64,
    /// Submit separate instances instead of one array
    #[arg(long)]
    separate: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct BacklogResult {
    waiting: u64,
    decisions: u64,
    per_second: f64,
}

/// Runs the benchmark and prints the result.
pub(crate) fn run(command: &Backlog) -> CommandResult {
    let mut all = Vec::new();
    for waiting in [1_000, 10_000, 100_000, 1_000_000] {
        all.push(measure(waiting, command.decisions, command.separate)?);
    }
    let mut out = Output::new();
    if command.json {
        out.json(&all)?;
        return out.done();
    }
    let mut table = Table::indented(0);
    for result in &all {
        table.row([
            format!("{} waiting", result.waiting).into(),
            format!("{:.0} decisions/s", result.per_second).into(),
        ]);
    }
    table.print(&mut out)?;
    out.flush()?;
    out.done()
}

/// Attempts that the worker runs at once.
const SLOTS: u64 = 512;

/// A scheduler core and one worker that finishes every attempt at once, connected in memory.
struct Loopback {
    leader: Scheduler,
    outbox: Outbox<Effect>,
    worker: Worker,
    now: Now,
    placed: u64,
}

fn measure(waiting: u64, decisions: u64, separate: bool) -> Result<BacklogResult, Failure> {
    let mut loopback = Loopback::new();
    // The worker's slots are filled before anything is queued.
    loopback.submit(1, SLOTS + waiting, separate);
    let mut next = SLOTS + waiting + 1;
    // The backlog keeps its size: for each placed instance another one is submitted.
    let (begun, from) = (Instant::now(), loopback.placed);
    while loopback.placed - from < decisions {
        let before = loopback.placed;
        loopback.round();
        let placed = loopback.placed - before;
        if placed == 0 {
            return Err(Failure::failed(
                "nothing was placed; this is a bug in Baton",
            ));
        }
        loopback.submit(next, placed, separate);
        next += placed;
    }
    let took = begun.elapsed();
    let decisions = loopback.placed - from;
    Ok(BacklogResult {
        waiting,
        decisions,
        per_second: decisions as f64 / took.as_secs_f64().max(1e-9),
    })
}

impl Loopback {
    fn new() -> Self {
        let now = Now {
            mono: Mono(1_000),
            wall: Wall(1_000),
        };
        let epoch = Epoch(1);
        let holder = Holder {
            worker: WorkerName::new("bench"),
            incarnation: Incarnation {
                lineage: Lineage(1),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BootId(1),
        };
        let offer = Offer {
            capacity: Capacity {
                cpu_milli: 1_000 * SLOTS,
                ..Capacity::default()
            },
            ..Offer::default()
        };
        let mut loopback = Self {
            leader: Scheduler::new(Config::default(), epoch, Ledger::default(), now),
            outbox: Outbox::new(epoch),
            worker: Worker::begin(holder, 4_096, Arc::new(offer), Vec::new(), now.mono),
            now,
            placed: 0,
        };
        // Until it is HEALTHY on both sides.
        for _ in 0..10 {
            loopback.advance(50);
        }
        loopback
    }

    fn submit(&mut self, first: u64, count: u64, separate: bool) {
        let request = Resources {
            cpu_milli: 1_000,
            ..Resources::default()
        };
        let spec = InstanceSpec {
            request: ResourceRequest {
                resources: request,
                ..ResourceRequest::default()
            },
            ..InstanceSpec::default()
        };
        let (submissions, array) = if separate {
            (count, None)
        } else {
            (1, Some((count, 0)))
        };
        for number in 0..submissions {
            let submission = Submission {
                spec: Box::new(spec.clone()),
                array,
                more: Vec::new(),
                key: None,
            };
            let request = RequestId(first + number);
            let messages = self.leader(Input::command(
                request,
                Command::Submit {
                    submission,
                    mark: None,
                },
            ));
            self.deliver(messages);
        }
    }

    /// Ends everything that runs; the scheduler then places as much again.
    fn round(&mut self) {
        let held: Vec<_> = self.worker.held().collect();
        let report = Report {
            outcome: Outcome::Exited(0),
            stats: Some(AttemptStats {
                started: self.now.wall,
                ended: self.now.wall,
                elapsed: Millis::from_secs(1),
                cpu: Millis(0),
                memory_peak: 0,
            }),
            outputs: None,
            stderr_tail: None,
            progress: None,
        };
        let mut effects = Vec::new();
        for lease in held {
            let input = worker_io::Input::Ended(lease, report.clone());
            effects.extend(self.worker.handle(self.now.mono, input));
        }
        self.apply(effects);
        self.advance(1);
    }

    fn advance(&mut self, millis: u64) {
        self.now.mono += Millis(millis);
        self.now.wall = Wall(self.now.wall.0 + millis);
        let effects = self.worker.handle(self.now.mono, worker_io::Input::Tick);
        self.apply(effects);
        let messages = self.leader(Input::Tick);
        self.deliver(messages);
    }

    /// Carries out the worker's effects: launches succeed at once, and statuses are batched as an
    /// agent batches them.
    fn apply(&mut self, effects: Vec<worker_io::Effect>) {
        let mut statuses = Vec::new();
        let mut verdicts = Vec::new();
        let mut under = None;
        let mut others = Vec::new();
        for effect in effects {
            match effect {
                worker_io::Effect::Send(ToScheduler::UpdateStatus {
                    association,
                    statuses: some,
                }) => {
                    under = Some(association);
                    statuses.extend(some);
                }
                worker_io::Effect::Send(ToScheduler::RunTaskReply {
                    association,
                    verdicts: some,
                }) => {
                    under = Some(association);
                    verdicts.extend(some);
                }
                worker_io::Effect::Send(message) => others.push(message),
                worker_io::Effect::RunCheck(check) => {
                    let input = worker_io::Input::CheckDone(check, Ok(()));
                    let effects = self.worker.handle(self.now.mono, input);
                    self.apply(effects);
                }
                worker_io::Effect::Launch(launch) => {
                    self.placed += 1;
                    let input = worker_io::Input::Launched(launch.lease);
                    for effect in self.worker.handle(self.now.mono, input) {
                        if let worker_io::Effect::Send(ToScheduler::RunTaskReply {
                            association,
                            verdicts: some,
                        }) = effect
                        {
                            under = Some(association);
                            verdicts.extend(some);
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some(association) = under {
            others.extend((!verdicts.is_empty()).then_some(ToScheduler::RunTaskReply {
                association,
                verdicts,
            }));
            others.extend((!statuses.is_empty()).then_some(ToScheduler::UpdateStatus {
                association,
                statuses,
            }));
        }
        for message in others {
            let messages = self.leader(Input::Message(message));
            self.deliver(messages);
        }
    }

    fn leader(&mut self, input: Input) -> Vec<ToWorker> {
        let step = self.leader.handle(self.now, input);
        if let Some(batch) = self.outbox.accept(step) {
            self.outbox.release(batch.durable());
        }
        let effects = self.outbox.drain();
        effects
            .filter_map(|effect| match effect {
                Effect::Send(_, message) => Some(message),
                _ => None,
            })
            .collect()
    }

    fn deliver(&mut self, messages: Vec<ToWorker>) {
        for message in messages {
            let input = worker_io::Input::Message(message);
            let effects = self.worker.handle(self.now.mono, input);
            self.apply(effects);
        }
    }
}
