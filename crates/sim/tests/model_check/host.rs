//! One worker host: the real agent and dead-man timer, and a coordinator with its
//! processes.
//!
//! Agent and coordinator exchange their calls at once: an agent that dies between a command and
//! its confirmation is equivalent to one whose next message was lost. A kill takes time, so a
//! killed process lives until an action ends it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::guard::{DeadMan, GuardAction};
use baton_core::protocol::worker::io::{Effect, Input, Record};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName};
use baton_model::message::{Heartbeat, Launch, ToScheduler, WorkerAddress};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

/// The time between two starts of an agent, so that the later one has later stamps.
const RESTART_PAUSE: Millis = Millis(1_000);

/// The state of a process on the coordinator's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Running,
    /// Killed, but may still run.
    Dying(KillCause),
    /// Ended, but not acknowledged.
    Ended(Outcome),
}

/// A process on the coordinator's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    spec: Arc<InstanceSpec>,
    pub stage: Stage,
}

impl Process {
    /// True if it may still run.
    pub(crate) const fn lives(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Dying(_))
    }
}

/// The effects of one input on a host.
#[derive(Debug, Default)]
pub(crate) struct HostEffects {
    /// Messages except heartbeats.
    pub sent: Vec<ToScheduler>,
    /// The heartbeat, if one was due.
    pub heartbeat: Option<Heartbeat>,
    /// Started processes.
    pub started: Vec<LeaseId>,
    /// Acknowledged records that were dropped.
    pub forgotten: Vec<LeaseId>,
}

/// Heartbeats sent since the last disruption, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Beats {
    /// To get an association.
    pub greeted: bool,
    /// To learn that it is HEALTHY.
    pub asked: bool,
    /// To report that it gives up.
    pub resigned: bool,
}

/// One host and the worker on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    worker: Worker,
    slots: u32,
    bugs: Bugs,
    guard: DeadMan<LeaseId>,
    /// Whether the dead-man timer has fired in this incarnation.
    pub guard_fired: bool,
    /// Whether everything was ordered to die.
    doomed: bool,
    /// Whether this incarnation has ended by itself.
    pub over: bool,
    /// The coordinator's record.
    pub processes: BTreeMap<LeaseId, Process>,
    /// Attempts that ran when the agent was last killed.
    pub readopted: BTreeSet<LeaseId>,
    pub beats: Beats,
    clock: Mono,
}

impl Host {
    /// A host whose worker begins its first incarnation.
    pub(crate) fn new(name: &str, number: u64, slots: u32, bugs: Bugs) -> Self {
        let me = Holder {
            worker: WorkerName::new(name),
            incarnation: Incarnation {
                lineage: Lineage(number),
                number: IncarnationNo(1),
            },
            host: HostId(number),
            boot: BootId(1),
        };
        let clock = Mono(0);
        Self {
            worker: Worker::begin(me, slots, Arc::default(), Vec::new(), clock).with_bugs(bugs),
            slots,
            bugs,
            guard: DeadMan::default(),
            guard_fired: false,
            doomed: false,
            over: false,
            processes: BTreeMap::new(),
            readopted: BTreeSet::new(),
            beats: Beats::default(),
            clock,
        }
    }

    pub(crate) fn name(&self) -> &WorkerName {
        &self.worker.me().worker
    }

    pub(crate) fn address(&self) -> WorkerAddress {
        WorkerAddress::from(self.worker.me())
    }

    /// The current incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.worker.me().incarnation
    }

    /// The health that the worker assumes.
    pub(crate) fn state(&self) -> WorkerState {
        self.worker.state()
    }

    /// Leases with a process that may still run.
    pub(crate) fn alive(&self) -> impl Iterator<Item = LeaseId> {
        self.processes
            .iter()
            .filter(|(_, process)| process.lives())
            .map(|(lease, _)| *lease)
    }

    /// Feeds an input to the agent and executes its effects.
    pub(crate) fn handle(&mut self, input: Input, effects: &mut HostEffects) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.worker.handle(self.clock, input) {
                inputs.extend(self.carry_out(effect, effects));
            }
        }
        drop(self.worker.take_counts());
    }

    /// Advances the clock until a heartbeat is due.
    pub(crate) fn beat(&mut self) -> Option<Heartbeat> {
        let mut effects = HostEffects::default();
        let soon = self.clock + Millis(1);
        self.clock = self.worker.next_due().map_or(soon, |due| due.max(soon));
        self.handle(Input::Tick, &mut effects);
        effects.heartbeat
    }

    /// Ends a process: by itself, or killed.
    pub(crate) fn end(&mut self, lease: LeaseId, outcome: Outcome, effects: &mut HostEffects) {
        if let Some(process) = self.processes.get_mut(&lease) {
            process.stage = Stage::Ended(outcome);
            self.guard.unwatch(lease);
            self.handle(Input::Ended(lease, outcome.into()), effects);
        }
    }

    /// Lets the time of the lease pass: the coordinator begins to kill.
    pub(crate) fn fire_guard(&mut self, effects: &mut HostEffects) {
        let Some(order) = self.guard.order() else {
            return;
        };
        self.clock = self.clock.max(order.deadline);
        self.guard_fired = true;
        if let Some(GuardAction::Terminate(leases)) = self.guard.poll(self.clock) {
            for lease in leases {
                self.order_dead(lease, KillCause::LeaseLapsed);
            }
        }
        self.handle(Input::Tick, effects);
    }

    /// True if no heartbeat was answered since the time of the lease has passed.
    pub(crate) fn is_past_lease(&self) -> bool {
        let order = self.guard.order();
        self.guard_fired && order.is_none_or(|order| self.clock >= order.deadline)
    }

    /// Kills and restarts the agent; the coordinator survives.
    pub(crate) fn restart_agent(&mut self) {
        self.clock += RESTART_PAUSE;
        let me = self.worker.me().clone();
        let order = self.guard.order();
        self.readopted = self.alive().collect();
        self.begin(me);
        if let Some(order) = order {
            self.worker.resume(order);
        }
        if self.doomed {
            self.handle(Input::GiveUp, &mut HostEffects::default());
        }
    }

    /// Kills everything of this incarnation; the next one begins with the recorded ends. Running
    /// processes leave no record of their outcome.
    pub(crate) fn next_incarnation(&mut self) {
        self.clock += RESTART_PAUSE;
        self.processes.retain(|_, process| !process.lives());
        let mut me = self.worker.me().clone();
        me.incarnation.number = me.incarnation.number.next();
        let obeyed = self.guard.order().map(|order| order.epoch);
        self.guard = DeadMan::default();
        self.guard_fired = false;
        self.doomed = false;
        self.over = false;
        self.begin(me);
        if let Some(epoch) = obeyed {
            self.worker.obeyed(epoch);
        }
    }

    fn begin(&mut self, me: Holder) {
        let records = self
            .processes
            .iter()
            .map(|(lease, process)| Record {
                lease: *lease,
                spec: Arc::clone(&process.spec),
                ended: match process.stage {
                    Stage::Ended(outcome) => Some(outcome.into()),
                    Stage::Running | Stage::Dying(_) => None,
                },
                devices: Vec::new(),
            })
            .collect();
        self.worker =
            Worker::begin(me, self.slots, Arc::default(), records, self.clock).with_bugs(self.bugs);
        self.beats = Beats::default();
    }

    /// Executes an effect as the coordinator, and returns its answer.
    fn carry_out(&mut self, effect: Effect, effects: &mut HostEffects) -> Option<Input> {
        match effect {
            Effect::Send(ToScheduler::ProcessHeartbeat(heartbeat)) => {
                effects.heartbeat = Some(heartbeat);
            }
            Effect::Send(message) => effects.sent.push(message),
            Effect::Launch(Launch { lease, spec, .. }) if !self.admits(&spec) => {
                return Some(Input::LaunchRefused(lease));
            }
            Effect::Launch(Launch { lease, spec, .. }) => {
                effects.started.push(lease);
                self.guard.watch(lease, LeaseTerm::of(&spec));
                self.processes.insert(
                    lease,
                    Process {
                        spec,
                        stage: Stage::Running,
                    },
                );
                return Some(Input::Launched(lease));
            }
            Effect::Kill(lease, _) => self.order_dead(lease, KillCause::Requested),
            Effect::KillAll(cause, _) => {
                self.doomed = true;
                self.order_all_dead(cause);
            }
            Effect::Guard(order) => self.guard.extend(order),
            Effect::Forget(lease) => {
                self.processes.remove(&lease);
                effects.forgotten.push(lease);
            }
            Effect::RunCheck(check) => return Some(Input::CheckDone(check, Ok(()))),
            Effect::ReadLogs(..) | Effect::ReadProcesses(..) => panic!("no client reads here"),
            Effect::EndLife => self.over = true,
            Effect::Left => panic!("no worker leaves here"),
        }
        None
    }

    fn admits(&self, spec: &InstanceSpec) -> bool {
        !self.doomed && self.guard.admits(self.clock, LeaseTerm::of(spec))
    }

    fn order_all_dead(&mut self, cause: KillCause) {
        let alive: Vec<LeaseId> = self.alive().collect();
        for lease in alive {
            self.order_dead(lease, cause);
        }
    }

    fn order_dead(&mut self, lease: LeaseId, cause: KillCause) {
        if let Some(process) = self.processes.get_mut(&lease)
            && process.stage == Stage::Running
        {
            process.stage = Stage::Dying(cause);
        }
    }
}
