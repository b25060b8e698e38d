//! The leader: the ledger, the protocol and the bullpen as one machine.
//!
//! # Calling contract
//!
//! 1. [`Scheduler::new`] once per epoch, with the ledger that the store holds
//!    *after* the epoch was taken.
//!    If the store was found to be a copy, [`Input::CopyOpened`] is the first input.
//! 2. [`Scheduler::handle`] for every input, with times that never go back.
//!    Inputs that have already arrived come before [`Input::Tick`]: a scheduler
//!    that was stopped for a minute must read its messages before it looks at the
//!    clock, or it would take every worker for dead.
//! 3. Each [`Step`] goes through one [`crate::step::Outbox`] of the same epoch.
//! 4. [`Scheduler::next_due`] and [`Scheduler::next_tick`] return when the next
//!    [`Input::Tick`] is due.
//! 5. When a commit fails, drop the scheduler: it is ahead of its store. Start
//!    again at 1 with a new epoch.

pub(crate) mod alarms;
mod attempts;
mod backfill;
pub(crate) mod bullpen;
pub(crate) mod command;
pub(crate) mod context;
pub(crate) mod dependencies;
mod explain;
mod fallback;
mod fleets;
pub(crate) mod gate;
mod instances;
pub(crate) mod launch;
mod library;
mod limits;
mod run_view;
mod runs;
mod shares;
mod tallies;
pub(crate) mod timetable;
mod wait_groups;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::{CopyEvidence, Fact, Holder};
use baton_model::fleet::{FleetAnswer, FleetName, FleetSpec};
use baton_model::ids::{Epoch, InstanceId, LeaseId, RequestId, TaskNo, Term, WorkerName};
use baton_model::message::{Launch, ToScheduler, WorkerAddress};
use baton_model::placement::Capacity;
use baton_model::principal::{NameOwner, Principal};
use baton_model::rate::LimitValue;
use baton_model::time::{Mono, Now, Wall};

use crate::bugs::Bugs;
use crate::counts::Counts;
use crate::fleet::{Controller, FleetError, FleetView};
use crate::ledger::Ledger;
use crate::limits::{Limit, LimitKey};
use crate::protocol::scheduler::Protocol;
use crate::protocol::scheduler::seat::Seat;
use crate::scheduler::context::Cx;
use crate::step::Step;

use alarms::Alarms;
use backfill::BackfillDriver;
use bullpen::Bullpen;
use dependencies::Dependencies;
use runs::Deadlines;
use tallies::Tallies;
use timetable::Timetable;

pub use crate::config::{Config, StoreMode};
pub use crate::protocol::scheduler::context::SecretGrant;
pub use backfill::{BackfillCommand, BackfillError, BackfillReply, KnownLaunches};
pub use command::{Command, Reply};
pub use context::Effect;
pub use dependencies::EndMark;
pub use explain::Standing;
pub use fleets::FleetCommand;
pub use instances::{CancelCounts, Elements, KillError, RetryError, Submission, SubmitError};
pub use library::{
    Change, DefineCommand, DefineReply, LibraryError, PauseCommand, Precondition, RemoveCommand,
    TriggerCommand, TriggerError, TriggerReply, Trust,
};

pub use limits::{LimitError, LimitView};
pub use run_view::{RunView, TaskView};
pub use runs::{Obstacle, Resume, RunCommand, RunError};
pub use shares::ShareError;
pub use tallies::{QueueHead, TALLIES_MAX, Tally};
pub use wait_groups::{WaitGroup, WaitGroups};

/// An input of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Tick,
    /// The store is a copy of another, which may have gone on.
    CopyOpened(CopyEvidence),
    /// A message of a worker.
    Message(ToScheduler),
    /// A worker with this credential uses a name. [`Scheduler::foreign_name`] has allowed it.
    NameUsed(WorkerName, NameOwner),
    /// The answer to a call of a fleet's backend.
    FleetAnswered(FleetAnswer),
    /// The connection to a worker broke.
    Disconnected(WorkerAddress),
    /// A command of a client.
    Command {
        request: RequestId,
        /// The client, if it is known: the store records it with the facts that the command leads to.
        by: Option<Arc<Principal>>,
        command: Command,
    },
}

impl Input {
    /// A command of a client that is not known.
    #[must_use]
    pub const fn command(request: RequestId, command: Command) -> Self {
        Self::Command {
            request,
            by: None,
            command,
        }
    }
}

/// The part of a leader's state that its decisions depend on, for a model checker.
///
/// Which instances wait, are in backoff or are charged, and what is due, follows from the ledger,
/// the seats and the time. The rest of bullpen and timetable (fair-share turns, mean durations of
/// classes, launch rates) affects only the order: with it, states would differ by how often
/// something was placed before.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Projection<'a> {
    epoch: Epoch,
    config: &'a Config,
    ledger: &'a Ledger,
    protocol: &'a Protocol,
}

/// One leader, for the length of its epoch.
#[derive(Clone, Debug)]
pub struct Scheduler {
    epoch: Epoch,
    config: Config,
    ledger: Ledger,
    bullpen: Bullpen,
    dependencies: Dependencies,
    protocol: Protocol,
    timetable: Timetable,
    backfills: BackfillDriver,
    deadlines: Deadlines,
    alarms: Alarms,
    tallies: Tallies,
    fleets: Controller,
    counts: Counts,
}

impl Scheduler {
    /// All cluster-wide limits, by name.
    pub fn limits(&self, now: Now) -> impl Iterator<Item = LimitView> + '_ {
        limits::list(&self.bullpen, &self.ledger, now.mono)
    }

    /// The total and the use of any limit; none if there is no such limit.
    #[must_use]
    pub fn limit(&self, key: &LimitKey) -> Option<Limit> {
        limits::find(&self.ledger, &self.bullpen, key)
    }

    /// Checks a definition as the command does that would store it.
    ///
    /// # Errors
    /// [`FleetError`] with the first field that is wrong.
    pub fn check_fleet(&self, name: &FleetName, spec: &FleetSpec) -> Result<(), FleetError> {
        crate::fleet::check(self.ledger.fleets(), name, spec)
    }

    /// All fleets with their jobs, reasons and alarms, by name.
    #[must_use]
    pub fn fleets(&self, now: Now) -> Vec<FleetView> {
        let pilots = fleets::pilots(&self.ledger, self.seats());
        let scene = fleets::scene(&self.config, &self.ledger, &pilots, now);
        self.fleets.views(&scene)
    }

    /// Tallies of this leader by owner and entry, in this order.
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &str, Tally)> + '_ {
        self.tallies.iter()
    }

    /// The instances that are first in line in their queues, at most `max` of the oldest.
    #[must_use]
    pub fn queue_heads(&self, max: usize) -> Vec<QueueHead> {
        let mut heads: Vec<InstanceId> = self.bullpen.heads().collect();
        heads.sort_unstable();
        heads.dedup();
        heads.truncate(max);
        let heads = heads.into_iter().filter_map(|id| {
            let instance = self.ledger.find(id)?;
            let (owner, entry) = tallies::work(&self.ledger, &instance.spec);
            Some(QueueHead {
                instance: id,
                owner: owner.to_owned(),
                entry: entry.to_owned(),
            })
        });
        heads.collect()
    }

    /// What the attempts of a worker claim of its resources, in sum.
    #[must_use]
    pub fn used_by(&self, worker: &WorkerName) -> Option<Capacity> {
        self.bullpen.used(worker)
    }

    /// A leader under `epoch`, with the ledger that the store holds.
    #[must_use]
    pub fn new(config: Config, epoch: Epoch, ledger: Ledger, now: Now) -> Self {
        Self::with_limits(config, &[], epoch, ledger, now)
    }

    /// The same, with cluster-wide limits on resources.
    #[must_use]
    pub fn with_limits(
        config: Config,
        limits: &[(String, LimitValue)],
        epoch: Epoch,
        mut ledger: Ledger,
        now: Now,
    ) -> Self {
        ledger.begin_term(epoch);
        ledger.drop_all_ended();
        ledger.runs_mut().drop_all_ended();
        ledger.runs_mut().mark_all_dirty();
        ledger.library_mut().backfills_mut().mark_all_dirty();
        seeded! { crate::bugs::scheduler::forget_facts(config.bugs, &mut ledger); }
        let mut counts = Counts::default();
        let mut step = Step::default();
        let mut dependencies = Dependencies::restore(&ledger);
        seeded! { crate::bugs::scheduler::forget_dependencies(config.bugs, &mut dependencies); }
        let mut bullpen = Bullpen::restore(&ledger, &dependencies, limits, now);
        seeded! { crate::bugs::scheduler::forget_limits(config.bugs, &ledger, &mut bullpen, now); }
        let timetable = Timetable::restore(&ledger);
        seeded! {
            let timetable =
                crate::bugs::scheduler::move_due_times(config.bugs, &ledger, now, timetable);
        }
        let deadlines = Deadlines::restore(&ledger, now);
        let mut alarms = Alarms::restore(&ledger, now);
        let mut tallies = Tallies::default();
        let mut cx = Cx {
            now,
            epoch,
            config: &config,
            ledger: &mut ledger,
            bullpen: &mut bullpen,
            dependencies: &mut dependencies,
            alarms: &mut alarms,
            tallies: &mut tallies,
            step: &mut step,
            by: None,
            counts: &mut counts,
            done: &mut Vec::new(),
            stops: &mut Vec::new(),
        };
        let protocol = Protocol::new(&cx.protocol());
        let fleets = Controller::new(now.mono, ledger.known().last().is_none());
        Self {
            epoch,
            config,
            ledger,
            bullpen,
            dependencies,
            protocol,
            timetable,
            backfills: BackfillDriver::default(),
            deadlines,
            alarms,
            tallies,
            fleets,
            counts,
        }
    }

    /// Handles one input.
    pub fn handle(&mut self, now: Now, input: Input) -> Step<Fact, Effect> {
        let mut step = Step::default();
        let (mut done, mut stops) = (Vec::new(), Vec::new());
        let stuck = match input {
            Input::Tick => self.stuck(now),
            _ => Vec::new(),
        };
        let mut cx = Cx {
            now,
            epoch: self.epoch,
            config: &self.config,
            ledger: &mut self.ledger,
            bullpen: &mut self.bullpen,
            dependencies: &mut self.dependencies,
            alarms: &mut self.alarms,
            tallies: &mut self.tallies,
            step: &mut step,
            by: None,
            counts: &mut self.counts,
            done: &mut done,
            stops: &mut stops,
        };
        let (protocol, table) = (&mut self.protocol, &mut self.timetable);
        let (deadlines, backfills) = (&mut self.deadlines, &mut self.backfills);
        let fleets = &mut self.fleets;
        seeded! { table.record_late(&mut cx); }
        protocol.raise_lease_time(&mut cx.protocol());
        match input {
            Input::Tick => {
                cx.bullpen.end_backoffs(cx.ledger, now.mono);
                cx.bullpen.retry_overflow(cx.ledger);
                table.due(&mut cx);
                backfills.wake(&mut cx);
                deadlines.due(&mut cx);
                alarms::due(&mut cx, stuck);
                protocol.tick(&mut cx.protocol());
            }
            Input::CopyOpened(evidence) => protocol.open_copy(&mut cx.protocol(), evidence),
            Input::Message(message) => protocol.message(&mut cx.protocol(), message),
            Input::NameUsed(worker, owner) => {
                protocol.assign_name(&mut cx.protocol(), worker, owner);
            }
            Input::FleetAnswered(answer) => fleets::answered(&mut cx, protocol, fleets, answer),
            Input::Disconnected(who) => protocol.disconnected(&mut cx.protocol(), &who),
            Input::Command {
                request,
                by,
                command,
            } => {
                cx.by = by;
                let reply = command::execute(
                    &mut cx, protocol, table, deadlines, fleets, request, command,
                );
                // What follows from the command is decided without a client.
                cx.by = None;
                if let Some(reply) = reply {
                    cx.step.emit(Effect::Reply(request, reply));
                }
            }
        }
        let mut backfill_launches = 0;
        loop {
            for success in std::mem::take(cx.done) {
                table.launch_followers(&mut cx, &success);
            }
            // A run without an item to start is DONE at once, and may have followers itself.
            // This ends, because `after` has no cycles.
            for execution in std::mem::take(cx.stops) {
                gate::stop(&mut cx, protocol, execution);
            }
            if dependencies::advance(&mut cx, protocol) {
                continue;
            }
            if let Some(task) = cx.ledger.library_mut().next_freed() {
                gate::open(&mut cx, task);
            } else if let Some(run) = cx.ledger.runs_mut().next_dirty() {
                runs::reconcile(&mut cx, protocol, deadlines, run);
            } else if backfill_launches < backfill::STEP_LAUNCHES
                && let Some(id) = cx.ledger.library_mut().backfills_mut().next_dirty()
            {
                if backfills.advance(&mut cx, table, id) {
                    backfill_launches += 1;
                    cx.ledger.library_mut().backfills_mut().mark_dirty(id);
                }
            } else {
                break;
            }
        }
        protocol.end_initial_wait_if_safe(&mut cx.protocol());
        place_ready(&mut cx, protocol);
        alarms::settle(&mut cx);
        fleets::advance(&mut cx, protocol, fleets);
        step
    }

    /// Heads of queues that are stuck, with what they wait for.
    fn stuck(&mut self, now: Now) -> Vec<(InstanceId, String)> {
        let after = self.config.stuck_after;
        let stuck = self
            .alarms
            .look(&self.ledger, &self.bullpen, after, now.mono);
        let explained = stuck.into_iter().filter_map(|id| {
            let standing = self.explain(id, now)?;
            let wait = standing.wait().filter(|it| !it.reason.is_for_rate())?;
            Some((id, wait.text()))
        });
        explained.collect()
    }

    /// When [`Input::Tick`] is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        let backoff = self.bullpen.next_due();
        let protocol = self.protocol.next_due();
        let runs = self.deadlines.next();
        let backfills = self.backfills.next_due(&self.ledger);
        let has_waiting = self.bullpen.has_waiting();
        let fleets = self.fleets.next_due(self.ledger.fleets(), has_waiting);
        let alarms = self.alarms.next_due(has_waiting, self.config.stuck_after);
        let all = [backoff, protocol, runs, backfills, fleets, alarms];
        all.into_iter().flatten().min()
    }

    /// When [`Input::Tick`] is due because of a schedule. By the wall clock, which may be set: ask
    /// again before that time.
    #[must_use]
    pub fn next_tick(&self) -> Option<Wall> {
        self.timetable.next_due()
    }

    /// When a task of the library is due next.
    #[must_use]
    pub fn next_of(&self, task: TaskNo) -> Option<Wall> {
        self.timetable.next_of(task)
    }

    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The term that it leads.
    #[must_use]
    pub const fn term(&self) -> Term {
        self.protocol.term()
    }

    /// True if a worker has instances placed ahead: it does not idle while decisions become durable.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.bullpen.is_ahead()
    }

    /// The ledger, including facts that are still being committed.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A name that a heartbeat of this worker is about and that belongs to another credential, with its
    /// owner. The connection of such a worker must be refused. Credentials that are `void` own nothing.
    #[must_use]
    pub fn foreign_name(
        &self,
        worker: &Holder,
        credential: &NameOwner,
        is_void: &dyn Fn(&NameOwner) -> bool,
    ) -> Option<(WorkerName, &NameOwner)> {
        let protocol = &self.protocol;
        let name = protocol.foreign_name(&self.ledger, worker, credential, is_void)?;
        let owner = self.ledger.name_owners().get(&name)?;
        Some((name, owner))
    }

    /// The workers by name.
    #[must_use]
    pub const fn seats(&self) -> &BTreeMap<WorkerName, Seat> {
        self.protocol.seats()
    }

    /// When the first attempt of a worker is given up, if it stays silent.
    #[must_use]
    pub fn first_loss(&self, name: &WorkerName) -> Option<Mono> {
        self.protocol.first_loss(&self.ledger, name)
    }

    /// True while a scheduler without a store, or with a copy of one, may not place anything yet.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.protocol.is_waiting()
    }

    /// See [`Projection`].
    #[must_use]
    pub const fn projection(&self) -> Projection<'_> {
        Projection {
            epoch: self.epoch,
            config: &self.config,
            ledger: &self.ledger,
            protocol: &self.protocol,
        }
    }

    /// A mark of now: a submission with dependencies comes with the one from before the states of
    /// its upstream work were read.
    #[must_use]
    pub const fn end_mark(&self) -> EndMark {
        self.dependencies.mark(self.epoch)
    }

    /// Counts of events that were noticed and ignored.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The open leases: all attempts that may be running.
    pub fn running(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.ledger.open_leases().map(|lease| lease.id)
    }

    /// Checks the invariants that hold between any two inputs.
    ///
    /// # Panics
    /// With the offending state, if one is violated.
    pub fn assert_invariants(&self) {
        let runs = self.ledger.runs();
        assert!(
            runs.is_settled(),
            "the progress of restored runs was not computed: {runs:?}"
        );
        self.protocol.assert_invariants(&self.ledger);
        // A seeded bug must be found by a checker, not here.
        if self.config.bugs == Bugs::NONE {
            limits::assert_counts(&self.ledger, &self.bullpen);
        }
    }
}

/// Leases waiting instances to workers that can take them, and sends them out. The cost depends on
/// the number of placed instances, not of waiting ones.
fn place_ready(cx: &mut Cx<'_>, protocol: &mut Protocol) {
    if protocol.is_waiting() {
        return;
    }
    let mut launches: BTreeMap<WorkerName, Vec<Launch>> = BTreeMap::new();
    while let Some(decision) = cx.bullpen.next(cx.now.mono) {
        let name = decision.worker;
        let launch = protocol.grant(
            &mut cx.protocol(),
            decision.instance,
            &name,
            &decision.others,
        );
        launches.entry(name).or_default().push(launch);
    }
    for (name, launches) in launches {
        protocol.launch(&mut cx.protocol(), &name, &launches);
    }
}

#[cfg(test)]
mod tests;
