//! A whole cluster in one process and in virtual time.
//!
//! | file | simulates |
//! |---|---|
//! | `network` | links that lose, duplicate, delay and partition |
//! | `store` | the shared store: an epoch row, a ledger, commits that tear |
//! | `copies` | a store that goes back in time |
//! | `failover` | a shared store that loses replies, and fails over to a standby |
//! | `schedulers` | scheduler processes: election, leader, outbox |
//! | `hosts` | machines: boots, disks, clones and deaths |
//! | `agents` | agents: their events, and what they do about decisions |
//! | `takeovers` | incarnations: agents that start, resume, take coordinators over, and end |
//! | `coordinators` | coordinators: when they take turns, stop and die |
//! | `work` | the processes of attempts: how long they run, and how they react to signals |
//! | `client` | clients that submit and cancel, and the operator |
//! | `arrays` | clients that submit arrays with limits, and changes of a named limit |
//! | `dependents` | arrays that start after others, retries of elements, and several ends in one message |
//! | `workflows` | clients that submit, halt and resume workflows |
//! | `recovery` | the ledger of a new leader, restored from rows |
//! | `reapers` | the parents of coordinators, which remain when agent and coordinator die |
//! | `suspend` | hosts that sleep |
//! | `gangs` | groups of workers, and instances of several nodes |
//! | `faults` | fault injection and recovery |
//!
//! All decisions are made by the real core; this module only simulates its environment. One
//! queue orders all events by time and then by insertion, so a seed always gives the same run.

mod agents;
mod arrays;
mod client;
mod coordinators;
mod copies;
mod dependents;
mod failover;
mod faults;
mod gangs;
mod hosts;
mod network;
mod reapers;
mod recovery;
mod schedulers;
mod store;
mod suspend;
mod takeovers;
mod tenures;
mod work;
mod workflows;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use baton_core::bugs::Bugs;
use baton_core::host::kernel::SIGTERM;
use baton_core::scheduler::{Config, RunCommand, StoreMode};
use baton_core::supervision::attempts::Assignment;
use baton_model::ids::{Lineage, RequestId};
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};

use crate::checkers::Checkers;
use crate::rng::Rng;
use crate::swarm::{FaultKind, Mix, NetworkMix, Shape};
use crate::time::{Clock, Micros, SECOND, Time};
use crate::trace::{Detail, Trace};

use arrays::ArrayClients;
use client::Client;
use gangs::Gangs;
use hosts::Host;
use network::Links;
use schedulers::SchedulerProcess;
use store::{Store, StoreOp, StoreReply};
use tenures::Tenures;
use workflows::WorkflowClients;

pub const SAFETY_PHASE: Micros = 3_600 * SECOND;
/// The longest time to settle after the faults: three leases of 90 s to detect and repair a
/// loss, twice that without a store, and the work.
pub const LIVENESS_BOUND: Micros = 1_200 * SECOND;
/// The additional time with workflows: ten minutes until an incomplete plan is aborted, by a
/// clock that may run at half speed.
pub const REGISTERING_BOUND: Micros = 1_200 * SECOND;

/// The number of seeds in a thousand, of those with a store that is not shared and without workflows,
/// in which the store is restored from backups.
const STORE_COPIED: u64 = 300;

/// The number of seeds in a thousand in which machines are cloned.
const HOST_CLONED: u64 = 150;

/// The number of seeds in a thousand in which hosts cannot launch anything for a while.
const LAUNCHES_FAIL: u64 = 250;

/// The number of seeds in a thousand in which all work fails on some hosts for a while.
const WORK_FAILS: u64 = 200;

#[derive(Debug)]
enum Event {
    ToScheduler {
        scheduler: usize,
        message: ToScheduler,
    },
    ToHost {
        host: usize,
        to: WorkerAddress,
        message: ToWorker,
    },
    Disconnect {
        scheduler: usize,
        who: WorkerAddress,
    },
    SchedulerWake(usize),
    SchedulerStart(usize),
    SchedulerResume(usize),
    StoreOp {
        scheduler: usize,
        term: u64,
        seq: u64,
        op: StoreOp,
    },
    StoreReply {
        scheduler: usize,
        term: u64,
        reply: StoreReply,
    },
    StoreHeals,
    Vacancy(usize),
    RestoreStore,
    AgentWake(usize),
    AgentStart(usize),
    AgentResume(usize),
    /// An agent reads what its coordinator has sent.
    AgentReads(usize),
    CoordinatorWake(usize),
    CoordinatorResume(usize),
    ReaperWake(usize),
    StatusesLeave {
        host: usize,
        scheduler: usize,
    },
    /// The program of the process with this start time ends.
    ProcessEnds {
        host: usize,
        ticks: u64,
    },
    /// A process ends of SIGTERM.
    ProcessTerminated {
        host: usize,
        ticks: u64,
    },
    RunnerKills {
        host: usize,
        ticks: u64,
    },
    RunnerDies {
        host: usize,
        ticks: u64,
    },
    ChecksHeal(usize),
    LaunchesHeal(usize),
    WorkHeals(usize),
    HostResume(usize),
    LinkHeals {
        host: usize,
        scheduler: usize,
    },
    LinkFlaps {
        host: usize,
        scheduler: usize,
        left: u32,
    },
    CrashAgain {
        host: usize,
        left: u32,
    },
    Strike(FaultKind, Micros),
    Isolate {
        host: usize,
        span: Micros,
    },
    CrashScheduler {
        scheduler: usize,
        downtime: Micros,
    },
    ClientWake,
    ClientNotices,
    RunRequest {
        request: RequestId,
        command: Box<RunCommand>,
    },
    Calm,
}

struct Queued {
    at: Time,
    order: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The cluster of one seed.
pub struct World {
    now: Time,
    queue: BinaryHeap<Reverse<Queued>>,
    order: u64,
    mix: Mix,
    config: Config,
    network_rng: Rng,
    fault_rng: Rng,
    work_rng: Rng,
    copies_rng: Rng,
    clones_rng: Rng,
    sick_rng: Rng,
    bad_rng: Rng,
    failover_rng: Rng,
    host_rng: Rng,
    tenure: Tenures,
    gangs: Gangs,
    /// Whether several schedulers may use the store, on a server of its own.
    is_shared: bool,
    links: Links,
    store: Store,
    schedulers: Vec<SchedulerProcess>,
    hosts: Vec<Host>,
    /// The attempts that launches were stored with: a tag is a number of them.
    tags: Vec<Assignment>,
    /// The machines that have, or had, each state directory.
    by_lineage: BTreeMap<Lineage, Vec<usize>>,
    client: Client,
    workflows: WorkflowClients,
    arrays: ArrayClients,
    /// The fault phase is over.
    calm: bool,
    /// Without a store: the epoch of the latest scheduler.
    memory_epoch: u64,
    pub checkers: Checkers,
    pub trace: Trace,
}

impl World {
    #[must_use]
    pub fn new(seed: u64, shape: Shape, bugs: Bugs, detail: Detail) -> Self {
        let mut rng = Rng::new(seed);
        let mut mix = Mix::draw(&mut rng, shape);
        let config = Config {
            store: mix.store_mode,
            allow_bump_unhealthy: mix.allow_bump_unhealthy,
            bugs,
            ..Config::default()
        };
        // A separate stream: faults of a shared store do not change other draws of a seed.
        let mut failover_rng = Rng::new(seed ^ (1 << 61));
        let is_durable = mix.store_mode == StoreMode::Durable;
        let is_shared = is_durable && failover_rng.chance(failover::SHARED);
        // Likewise for arrays, and for what starts after them.
        let [of_arrays, of_dependents, of_rates] =
            [60, 59, 55].map(|bit| Rng::new(seed ^ (1 << bit)));
        let arrays = ArrayClients::new(&mix, of_arrays, of_dependents, of_rates);
        mix.failing = dependents::failing(&mix, &arrays);
        let mut world = Self {
            now: Time(0),
            queue: BinaryHeap::new(),
            order: 0,
            config,
            network_rng: rng.fork(),
            fault_rng: rng.fork(),
            work_rng: rng.fork(),
            // A separate stream: copies do not change other draws of a seed.
            copies_rng: Rng::new(seed ^ (1 << 63)),
            // Likewise.
            clones_rng: Rng::new(seed ^ (1 << 62)),
            sick_rng: Rng::new(seed ^ (1 << 60)),
            bad_rng: Rng::new(seed ^ (1 << 59)),
            failover_rng,
            host_rng: Rng::new(seed ^ (1 << 58)),
            tenure: Tenures::new(seed),
            gangs: Gangs::new(seed, &mix),
            is_shared,
            links: Links::default(),
            store: Store::default(),
            schedulers: Vec::new(),
            hosts: Vec::new(),
            tags: Vec::new(),
            by_lineage: BTreeMap::new(),
            client: Client::new(&mix, &mut rng),
            // A separate stream: workflows do not change other draws of a seed.
            workflows: WorkflowClients::new(&mix, Rng::new(!seed)),
            arrays,
            mix,
            calm: false,
            memory_epoch: 0,
            checkers: Checkers::default(),
            trace: Trace::new(detail),
        };
        world.populate(&mut rng);
        world
    }

    /// Runs the cluster until an invariant is violated or everything is done.
    pub fn run(&mut self) {
        while self.checkers.violation.is_none() {
            let Some(Reverse(next)) = self.queue.pop() else {
                break;
            };
            if self.is_over(next.at) {
                break;
            }
            self.now = next.at;
            self.handle(next.event);
            self.checkers.check_orders(self.now);
        }
        if self.checkers.violation.is_none() {
            self.check_end();
        }
    }

    /// The virtual time so far.
    #[must_use]
    pub const fn elapsed(&self) -> Time {
        self.now
    }

    fn populate(&mut self, rng: &mut Rng) {
        let wild = self
            .mix
            .wild_clock
            .then(|| rng.below(u64::from(self.mix.workers) + 1));
        for index in 0..self.mix.schedulers {
            let clock = draw_clock(rng, wild == Some(0) && index == 0);
            let fastest_ppm = if clock.in_bounds() {
                1_100_000
            } else {
                2_000_000
            };
            let rates = &mut self.checkers.rates;
            rates.fastest_ppm = rates.fastest_ppm.max(fastest_ppm);
            self.schedulers.push(SchedulerProcess::new(clock));
            self.at(index.into(), Event::SchedulerStart(index as usize));
        }
        for index in 0..self.mix.workers {
            let clock = draw_clock(rng, wild == Some(u64::from(index) + 1));
            let host = self.add_host(&format!("w{index}"), clock);
            let start = rng.below(10 * SECOND);
            self.at(start, Event::AgentStart(host));
        }
        for (kind, mean) in self.mix.faults.clone() {
            let first = self.fault_rng.below(2 * mean);
            self.at(first, Event::Strike(kind, mean));
        }
        if !self.mix.only_crashes {
            self.populate_rare_faults();
        }
        self.populate_tenures();
        self.populate_gangs();
        self.at(0, Event::ClientWake);
        self.at(SAFETY_PHASE, Event::Calm);
    }

    /// The faults that are drawn apart from the others.
    fn populate_rare_faults(&mut self) {
        let is_private = self.is_durable() && !self.is_shared;
        if is_private && self.copies_rng.chance(STORE_COPIED) {
            let mean = 600 * SECOND;
            let first = self.copies_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::StoreCopied, mean));
        }
        self.populate_failover();
        if self.clones_rng.chance(HOST_CLONED) {
            let mean = 400 * SECOND;
            let first = self.clones_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::HostCloned, mean));
        }
        if self.sick_rng.chance(LAUNCHES_FAIL) {
            let mean = 300 * SECOND;
            let first = self.sick_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::LaunchesFail, mean));
        }
        if self.bad_rng.chance(WORK_FAILS) {
            let mean = 600 * SECOND;
            let first = self.bad_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::WorkFails, mean));
        }
    }

    /// True once the liveness phase is complete.
    fn is_over(&self, at: Time) -> bool {
        let bound = match self.mix.runs {
            0 => LIVENESS_BOUND,
            _ => LIVENESS_BOUND + REGISTERING_BOUND,
        };
        self.calm && (at.0 > SAFETY_PHASE + bound || self.is_settled())
    }

    /// Queues an event `span` from now.
    fn at(&mut self, span: Micros, event: Event) {
        self.at_time(self.now.after(span), event);
    }

    fn at_time(&mut self, at: Time, event: Event) {
        self.order += 1;
        let queued = Queued {
            at: at.max(self.now),
            order: self.order,
            event,
        };
        self.queue.push(Reverse(queued));
    }

    fn note(&mut self, item: &impl std::hash::Hash, text: impl FnOnce() -> String) {
        self.trace.note(self.now, item, text);
    }

    fn network_mix(&self) -> NetworkMix {
        if self.calm {
            NetworkMix::CALM
        } else {
            self.mix.network
        }
    }

    fn is_durable(&self) -> bool {
        self.mix.store_mode == StoreMode::Durable
    }

    fn handle(&mut self, event: Event) {
        if let Some(at) = self.deferral(&event) {
            return self.at_time(at, event);
        }
        match event {
            Event::ToScheduler { scheduler, message } => {
                self.deliver_to_scheduler(scheduler, message)
            }
            Event::ToHost { host, to, message } => self.deliver_to_host(host, &to, message),
            Event::Disconnect { scheduler, who } => self.disconnect(scheduler, who),
            Event::SchedulerWake(index) => self.scheduler_wake(index),
            Event::SchedulerStart(index) => self.scheduler_start(index),
            Event::SchedulerResume(index) => self.scheduler_resume(index),
            Event::StoreOp {
                scheduler,
                term,
                seq,
                op,
            } => {
                self.store_execute(scheduler, term, seq, op);
            }
            Event::StoreReply {
                scheduler,
                term,
                reply,
            } => {
                self.store_replied(scheduler, term, reply);
            }
            Event::StoreHeals => self.store.failing = false,
            Event::Vacancy(index) => self.vacancy(index),
            Event::RestoreStore => self.restore_store(),
            Event::AgentWake(host) => self.agent_wake(host),
            Event::AgentStart(host) => self.agent_start(host),
            Event::AgentResume(host) => self.agent_resume(host),
            Event::AgentReads(host) => self.agent_reads(host),
            Event::CoordinatorWake(host) => self.coordinator_wake(host),
            Event::CoordinatorResume(host) => self.coordinator_resume(host),
            Event::ReaperWake(host) => self.reaper_wake(host),
            Event::StatusesLeave { host, scheduler } => self.statuses_leave(host, scheduler),
            Event::ProcessEnds { host, ticks } => self.process_ends(host, ticks),
            Event::ProcessTerminated { host, ticks } => self.process_killed(host, ticks, SIGTERM),
            Event::RunnerKills { host, ticks } => self.runner_kills(host, ticks),
            Event::RunnerDies { host, ticks } => self.runner_dies(host, ticks),
            Event::ChecksHeal(host) => self.hosts[host].checks_fail = false,
            Event::LaunchesHeal(host) => self.hosts[host].launches_fail = false,
            Event::WorkHeals(host) => self.hosts[host].work_fails = false,
            Event::HostResume(host) => self.host_resume(host),
            Event::LinkHeals { host, scheduler } => self.links.heal(host, scheduler),
            Event::LinkFlaps {
                host,
                scheduler,
                left,
            } => self.link_flaps(host, scheduler, left),
            Event::CrashAgain { host, left } => self.crash_again(host, left),
            Event::Strike(kind, mean) => self.strike(kind, mean),
            Event::Isolate { host, span } => self.isolate(host, span),
            Event::CrashScheduler {
                scheduler,
                downtime,
            } => {
                self.crash_scheduler(scheduler, downtime);
            }
            Event::ClientWake => self.client_wake(),
            Event::ClientNotices => self.client_round(),
            Event::RunRequest { request, command } => self.run_request(request, command),
            Event::Calm => self.become_calm(),
        }
    }
}

/// Draws a rate within 10 % of true time; a wild clock runs at half or double speed.
fn draw_clock(rng: &mut Rng, wild: bool) -> Clock {
    let rate = if wild {
        rng.pick(&[500_000, 2_000_000])
    } else {
        rng.within(900_000, 1_100_000)
    };
    Clock::new(rate, rng.below(1_000_000))
}
