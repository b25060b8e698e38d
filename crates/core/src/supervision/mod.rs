//! A worker, whole: its half of the protocol, and what it decides about its attempts at their
//! coordinator.
//!
//! ```text
//!   scheduler ◀── messages ──▶ protocol::worker ◀── inputs, effects ──▶ Supervisor
//!                                                                          │
//!                                      coordinator ◀── actions, events ────┘
//! ```
//!
//! The protocol knows attempts by their lease. The coordinator knows runs: the runner of a task that
//! dies is started again as the next run of the same attempt. What is decided here:
//!
//! * A launch that finds no room at the coordinator is given back after [`WAIT_MAX`]; one that a
//!   fault of the host prevents, at once, with the reason.
//! * A dead runner is restarted, with a growing delay, [`RUNNER_RESTARTS_MAX`] times at most.
//! * A kill lets a task end by its own rules: its runner stops the processes and runs the final
//!   ones. The worker only watches the time that this may take, and then kills hard. A runner that
//!   dies meanwhile is restarted at once, with what is left of that time.
//! * A success whose outputs cannot be read is a failure.
//! * An attempt that uses more memory than it may is killed.
//! * When it ends in order: at the end of its lifetime, when it is idle, or when it is told to. It then
//!   drains: it warns its attempts, and kills what is left just before its end.
//! * What cannot be killed is killed again, and the incarnation ends only when nothing is left.
//! * After the death of a coordinator or an agent, which evidence about an attempt counts.
//!
//! | file | concern |
//! |---|---|
//! | [`io`] | what goes in and comes out |
//! | `calls` | actions as requests to the coordinator, and its replies as events |
//! | [`attempts`] | the attempts, and their runs at the coordinator |
//! | `runs` | what the coordinator and the host report |
//! | `orders` | what the protocol wants done |
//! | `secrets` | launches that wait for the secrets of their attempt |
//! | [`takeover`] | taking attempts over from a dead agent or coordinator |
//! | [`backoff`] | delays before runners and incarnations start again |
//! | [`lifetime`] | when a worker ends by itself, and its drain |
//! | `casualties` | ends that may be due to the end of the worker |
//! | `warnings` | signals to attempts whose end is near |
//! | `kill` | the order to kill everything |
//!
//! # Calling contract
//!
//! 1. [`Supervisor::begin`] for a new incarnation, [`Supervisor::resume`] for one that goes on.
//! 2. [`Supervisor::handle`] for every event, with times of one boot's monotonic clock that never
//!    go back. Its actions are carried out in their order.
//! 3. [`Supervisor::next_due`] is the next time for [`io::Event::Tick`].
//! 4. [`Supervisor::take_over`] when the coordinator was replaced.

pub mod attempts;
pub mod backoff;
mod calls;
mod casualties;
pub mod io;
mod kill;
pub mod lifetime;
mod orders;
mod runs;
mod secrets;
pub mod takeover;
mod warnings;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_model::fact::Holder;
use baton_model::ids::{CheckId, ExecutorId};
use baton_model::message::HostSize;
use baton_model::outcome::{KillCause, Report};
use baton_model::placement::Offer;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};

use crate::bugs::Bugs;
use crate::protocol::worker::Worker;
use crate::protocol::worker::io::{Input, Record};

use attempts::{Attempt, Attempts, Phase};
use io::{Action, Event};
use kill::KillOrder;
use lifetime::{Drain, Lifetime};
use takeover::KnownAttempt;

pub use backoff::RUNNER_RESTARTS_MAX;

/// A launch that finds no room for this long is given back: another worker may have room.
pub const WAIT_MAX: Millis = Millis::from_secs(1);

/// What a worker is, for as long as its agent runs.
#[derive(Clone, Debug)]
pub struct Identity {
    pub me: Holder,
    /// Its agent, as operators read it.
    pub executor: Option<ExecutorId>,
    /// Maximum number of concurrent attempts.
    pub slots: u32,
    pub offer: Arc<Offer>,
    /// The version of its binary.
    pub version: Arc<str>,
    /// What it may use of its host, whatever it offers.
    pub host: HostSize,
    pub lifetime: Lifetime,
    pub bugs: Bugs,
}

impl Identity {
    fn machine(&self, records: Vec<Record>, now: Mono) -> Worker {
        let (me, offer) = (self.me.clone(), Arc::clone(&self.offer));
        let worker = Worker::begin(me, self.slots, offer, records, now);
        seeded! { let worker = worker.with_bugs(self.bugs); }
        let closes_at = self.lifetime.closes_at();
        let worker = worker.with_tenure(Arc::clone(&self.version), closes_at);
        let worker = worker.with_host(self.host);
        worker.with_executor(self.executor.clone())
    }
}

/// One incarnation of a worker, with its attempts.
#[derive(Debug)]
pub struct Supervisor {
    worker: Worker,
    attempts: Attempts,
    bugs: Bugs,
    /// Inputs for the protocol, in this order.
    inputs: VecDeque<Input>,
    /// Runs that wait for room, and until when.
    waiting: VecDeque<(Mono, RunKey)>,
    /// Runs whose runner is started again, and when.
    restarts: BTreeSet<(Mono, RunKey)>,
    checks: BTreeMap<RunKey, CheckId>,
    /// Why everything was or is being killed.
    dying: Option<KillCause>,
    kill_order: KillOrder,
    /// When processes of unknown runs that could not be killed are killed again.
    strays_retry_at: Option<Mono>,
    /// The protocol has ended this incarnation.
    life_over: bool,
    /// The driver was told.
    ended: bool,
    lifetime: Lifetime,
    /// When its last attempt ended; none while one runs.
    idle_since: Option<Mono>,
    drain: Option<Drain>,
    /// Running attempts that want a warning, and when. Drained ones were warned already.
    warnings: BTreeSet<(Mono, RunKey)>,
    /// Attempts whose end may be due to that of the worker, and when it is reported.
    kept_back: BTreeSet<(Mono, RunKey)>,
    /// Attempts that wait for their secrets, and when these are requested again.
    secrets_due: BTreeSet<(Mono, RunKey)>,
}

impl Supervisor {
    /// Begins an incarnation. All processes of the previous one are dead; its unacknowledged ends
    /// are carried over.
    #[must_use]
    pub fn begin(identity: &Identity, carried: Vec<KnownAttempt>, now: Mono) -> Self {
        let mut attempts = Attempts::default();
        for known in carried.into_iter().filter(|known| known.ended.is_some()) {
            attempts.insert(Attempt {
                inherited: true,
                ..known.into()
            });
        }
        Self::new(identity, attempts, None, now)
    }

    fn new(identity: &Identity, attempts: Attempts, dying: Option<KillCause>, now: Mono) -> Self {
        let records = attempts.iter().map(Attempt::record).collect();
        Self {
            worker: identity.machine(records, now),
            attempts,
            bugs: identity.bugs,
            inputs: VecDeque::new(),
            waiting: VecDeque::new(),
            restarts: BTreeSet::new(),
            checks: BTreeMap::new(),
            dying,
            kill_order: KillOrder::default(),
            strays_retry_at: None,
            life_over: false,
            ended: false,
            lifetime: identity.lifetime,
            idle_since: None,
            drain: None,
            warnings: BTreeSet::new(),
            kept_back: BTreeSet::new(),
            secrets_due: BTreeSet::new(),
        }
    }

    /// Decides about one event.
    pub fn handle(&mut self, now: Mono, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        self.observe(now, event, &mut out);
        self.feed_worker(now, &mut out);
        self.watch_lifetime(now, &mut out);
        out
    }

    /// The next time for [`Event::Tick`].
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        let due = [
            self.worker.next_due(),
            self.waiting.front().map(|(at, _)| *at),
            self.restarts.first().map(|(at, _)| *at),
            self.kill_order.next_due(),
            self.strays_retry_at,
            self.warnings.first().map(|(at, _)| *at),
            self.kept_back.first().map(|(at, _)| *at),
            self.secrets_due.first().map(|(at, _)| *at),
            self.next_of_lifetime(),
        ];
        due.into_iter().flatten().min()
    }

    /// The protocol's half.
    #[must_use]
    pub const fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The same, for what concerns the protocol alone.
    pub const fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    #[must_use]
    pub const fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// True if there is nothing that the coordinator runs or has on record.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.checks.is_empty()
    }

    #[must_use]
    pub const fn dying(&self) -> Option<KillCause> {
        self.dying
    }

    /// True once after an attempt was settled that only the handover had on record.
    pub fn take_handover_changed(&mut self) -> bool {
        self.attempts.take_handover_changed()
    }

    /// Passes all inputs to the protocol, and carries its effects out.
    fn feed_worker(&mut self, now: Mono, out: &mut Vec<Action>) {
        while let Some(input) = self.inputs.pop_front() {
            for effect in self.worker.handle(now, input) {
                self.apply(now, effect, out);
            }
        }
        if self.life_over && self.kill_order.is_done() && !self.ended {
            self.ended = true;
            if self.worker.is_leaving() {
                self.inputs.push_back(Input::AllDead);
                self.feed_worker(now, out);
            } else {
                out.push(Action::EndLife);
            }
        }
    }

    fn observe(&mut self, now: Mono, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Tick => self.tick(now, out),
            Event::Message(message) => self.inputs.push_back(Input::Message(message)),
            Event::GiveUp => self.inputs.push_back(Input::GiveUp),
            Event::LogsRead(request, answer) => {
                self.inputs.push_back(Input::LogsRead(request, answer));
            }
            Event::ProcessesRead(request, answer) => {
                self.inputs.push_back(Input::ProcessesRead(request, answer));
            }
            Event::Accepted(run) => self.accepted(now, run, out),
            Event::Started {
                run,
                at,
                identity,
                devices,
            } => self.started(run, (at, identity), devices, out),
            Event::Ended(run, ending) => self.ended(now, run, ending, out),
            Event::Unknown(run, sighting) => self.unknown(now, run, sighting, out),
            Event::Refused(run) => self.refused(run, out),
            Event::HostFault(run, reason) => self.host_fault(now, run, reason),
            Event::EverythingKilled { id, left } => {
                self.kill_order.acknowledge(id, left, now);
                if self.kill_order.is_done() {
                    self.end_concluded();
                }
            }
            Event::StraysKilled { left } => self.strays_killed(now, left),
            Event::LaunchImpossible(run, reason) => self.launch_impossible(run, reason),
            Event::SecretsHere(lease) => self.secrets_here(lease, out),
            Event::SecretsMissing(lease, reason) => self.secrets_missing(lease, reason),
            Event::MemoryUsed(run, bytes) => self.memory_used(now, run, bytes, out),
            Event::Leave(cause) => self.leave(now, cause, out),
        }
    }

    fn tick(&mut self, now: Mono, out: &mut Vec<Action>) {
        if self.worker.next_due().is_some_and(|due| due <= now) {
            self.inputs.push_back(Input::Tick);
        }
        self.withdraw_overdue(now, out);
        while let Some((at, run)) = self.restarts.first().copied().filter(|(at, _)| *at <= now) {
            self.restarts.remove(&(at, run));
            self.start_next_run(now, run, out);
        }
        if let Some((id, grace)) = self.kill_order.take_retry(now) {
            out.push(Action::KillEverything { id, grace });
        }
        self.send_warnings(now, out);
        self.request_secrets_again(now, out);
        self.end_kept_back(now);
        if self.strays_retry_at.take_if(|at| *at <= now).is_some() {
            out.push(Action::KillStrays);
        }
    }

    /// Ends an attempt, and reports it.
    fn end(&mut self, run: RunKey, report: Report) {
        if let Some(attempt) = self.attempts.get(run) {
            let lease = attempt.assignment.lease;
            let report = attempt.lost_with_worker(report, self.drain.is_some());
            self.attempts.set_phase(run, Phase::Ended(report.clone()));
            self.inputs.push_back(Input::Ended(lease, report));
        }
    }
}
