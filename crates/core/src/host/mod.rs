//! The worker host: the coordinator of a worker's attempts, or of one task, as a state machine.
//!
//! It launches on request, takes every exit, kills process trees, queues launches that do not fit
//! beside what runs, and holds the dead-man timer. It knows nothing about plans and leases.
//!
//! ```text
//!   requests, exits, time ──▶ Host::handle ──▶ Step { records, effects } ──▶ Outbox
//!                                │                                            │
//!               Kernel calls ◀───┘          log ◀── records     receipt ──▶ effects
//! ```
//!
//! **Invariants.**
//! * Replies, launches and the reaping of attempts are effects of a [step](crate::step): they leave
//!   when the records before them are in the log. So an attempt that may have started is on record, and
//!   the status of one that has ended is on record before its zombie is gone.
//! * Signals are calls of the [`Kernel`]: no record is needed to kill.
//! * A run is launched once, however often it is ordered.
//! * No signal goes to a number that may have been reused: to a group only while its first process
//!   is a child that is not reaped, to a held process through what holds it, to others by a walk.
//! * An attempt of a worker (a launch with paths) is over only when none of its processes is left:
//!   see `orphans`.
//! * The claim of a run is occupied from its start to its end, and no longer; for devices see `devices`.
//! * The cost of an input depends on the input, not on the number of known or waiting runs.
//!
//! | file | concern |
//! |---|---|
//! | [`io`] | inputs and effects |
//! | [`kernel`] | the calls of the machine |
//! | `runs` | the state of each run |
//! | `queue` | launches that wait for capacity |
//! | `devices` | which devices a launch gets |
//! | `cores` | which cores, and the CPUs that follow from them |
//! | `launches` | requests to launch, to adopt, to withdraw and to forget |
//! | `stops` | stops, timeouts, and checks |
//! | `ends` | exits, and the ends of runs |
//! | `orphans` | surviving descendants of an attempt, and the wait for their end |
//! | `deadlines` | the dead-man timer |
//! | `kill_all` | the order to kill everything |
//! | `sweeps` | membership of processes in runs |
//! | `records` | the full state as records |
//! | `reply_pace` | when replies are sent |
//!
//! # Calling contract
//!
//! 1. In each turn of the loop: [`Input::Deadlines`]; [`Input::Exited`] for every child that has
//!    ended, then [`Input::ExitsTaken`]; [`Input::HeldEnded`]; [`Input::Tick`]; [`Input::Fill`]; requests, and
//!    [`Input::Fill`] again.
//! 2. A step with [`Urgency::Now`] is committed at once, and its effects are carried out and answered
//!    before the next input. Any other may be committed with the next replies.
//! 3. While [`Host::is_killing`], no request is passed.
//! 4. [`Host::next_due`] is the time of the next turn without an event.

mod cores;
mod deadlines;
mod devices;
mod ends;
pub mod io;
pub mod kernel;
mod kill_all;
mod launches;
mod orphans;
mod queue;
mod records;
mod reply_pace;
mod runs;
mod stops;
mod sweeps;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use baton_model::coordinator::{AttemptPaths, CoordinatorRecord, Launch, Reply, Request};
use baton_model::outcome::ExitStatus;
use baton_model::task::{ProcessNo, RunKey};
use baton_model::time::{Millis, Mono};

use crate::protocol::worker::guard::DeadMan;
use crate::protocol::worker::io::GuardOrder;

use devices::Devices;
use io::{Effect, HostStep, Input, Settings, Urgency};
use kernel::Kernel;
use kill_all::KillAll;
use orphans::Orphans;
use queue::Queue;
use reply_pace::ReplyPace;
use runs::{RunTable, Timer};

/// A host without a runner and without runs ends after this time: everything it knows is in the
/// log.
pub const IDLE_MAX: Millis = Millis::from_secs(60);

/// The state of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    settings: Settings,
    table: RunTable,
    queue: Queue,
    devices: Devices,
    orphans: Orphans,
    /// Paths of attempts that are over, recycled once waiting launches have started.
    recyclable: Vec<AttemptPaths>,
    killing: Option<KillAll>,
    guard: DeadMan<ProcessNo>,
    /// Attempts that have outlived the dead-man timer, and when they are killed again.
    guard_retry: Option<(Mono, BTreeSet<ProcessNo>)>,
    /// Processes that an earlier coordinator may have launched without recording are gone.
    strays_killed: bool,
    awaited: Option<Awaited>,
    /// Waiting launches are being started.
    is_filling: bool,
    /// Attempts whose first process was reaped in this turn.
    gone: Vec<(RunKey, ExitStatus)>,
    /// Orphans have ended in this turn.
    orphans_ended: bool,
    pace: ReplyPace,
    is_connected: bool,
    exit_requested: bool,
    idle_since: Mono,
}

/// The effect whose answer is the next input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Awaited {
    /// The process of a run with this tag.
    Spawn(RunKey, String),
    /// The first process of an attempt has ended with this status.
    Exit(RunKey, u32, ExitStatus),
    /// The process of a run was killed before its program began.
    Retraction(RunKey, u32),
}

/// What one input has to work with.
struct Turn<'a> {
    kernel: &'a mut dyn Kernel,
    step: &'a mut HostStep,
    urgency: Urgency,
    pace: ReplyPace,
    #[cfg(feature = "seeded-bugs")]
    bugs: crate::bugs::Bugs,
}

impl Turn<'_> {
    fn now(&self) -> Mono {
        self.kernel.now().mono
    }

    fn record(&mut self, record: CoordinatorRecord) {
        self.step.record(record);
    }

    fn reply(&mut self, reply: Reply) {
        self.pace.note(&reply);
        self.emit(Effect::Reply(reply));
    }

    fn spawn(&mut self, run: RunKey, launch: Box<Launch>) {
        self.urgency = Urgency::Now;
        self.emit(Effect::Spawn { run, launch });
    }

    fn reap(&mut self, pid: u32) {
        self.urgency = Urgency::Now;
        self.emit(Effect::Reap { pid });
    }

    fn emit(&mut self, effect: Effect) {
        seeded!(self.bugs, EffectBeforeRecord => return self.step.leak(effect));
        self.step.emit(effect);
    }
}

impl Host {
    #[must_use]
    pub fn new(settings: Settings, now: Mono) -> Self {
        Self {
            strays_killed: !settings.successor,
            settings,
            table: RunTable::default(),
            queue: Queue::default(),
            devices: Devices::default(),
            orphans: Orphans::default(),
            recyclable: Vec::new(),
            killing: None,
            guard: DeadMan::default(),
            guard_retry: None,
            awaited: None,
            is_filling: false,
            gone: Vec::new(),
            orphans_ended: false,
            pace: ReplyPace::default(),
            is_connected: false,
            exit_requested: false,
            idle_since: now,
        }
    }

    /// Decides about one input. Its records and effects are appended to `step`.
    pub fn handle(
        &mut self,
        input: Input,
        kernel: &mut dyn Kernel,
        step: &mut HostStep,
    ) -> Urgency {
        let turn = &mut Turn {
            kernel,
            step,
            urgency: Urgency::WithReplies,
            pace: ReplyPace::default(),
            #[cfg(feature = "seeded-bugs")]
            bugs: self.settings.bugs,
        };
        let is_answer = matches!(input, Input::Spawned { .. } | Input::Reaped { .. });
        assert_eq!(
            is_answer,
            self.awaited.is_some(),
            "{input:?} while {:?} is awaited",
            self.awaited
        );
        match input {
            Input::Deadlines => self.poll_deadlines(turn),
            Input::Exited { pid, status } => self.exited(turn, pid, status),
            Input::Reaped { pid, usage } => self.reaped(turn, pid, usage),
            Input::ExitsTaken => self.settle_exits(turn),
            Input::HeldEnded(run) => self.poll_held(turn, run),
            Input::Tick => self.tick(turn),
            Input::Fill => self.fill(turn),
            Input::Request(request) => self.request(turn, request),
            Input::Spawned {
                run,
                launch,
                at,
                rotators,
                result,
            } => self.spawned(turn, run, launch, at, rotators, result),
            Input::Connected => self.greet(turn),
            Input::Disconnected => {
                self.is_connected = false;
                self.idle_since = turn.now();
            }
        }
        self.pace.merge(turn.pace);
        turn.urgency
    }

    /// The next time of a turn.
    #[must_use]
    pub fn next_due(&self, kernel: &dyn Kernel) -> Option<Mono> {
        let due = [
            self.table.next_due(),
            self.guard.next_due(),
            self.guard_retry.as_ref().map(|(at, _)| *at),
            self.killing.as_ref().map(KillAll::next_poll_at),
            self.is_idle(kernel).then(|| self.idle_since + IDLE_MAX),
        ];
        due.into_iter().flatten().min()
    }

    /// True while everything is being killed.
    #[must_use]
    pub const fn is_killing(&self) -> bool {
        self.killing.is_some()
    }

    /// True if launches wait that will be started.
    fn has_waiting(&self) -> bool {
        self.queue.len() > 0 && self.killing.is_none() && !self.exit_requested
    }

    /// When replies are to be sent; `None` if there are none. Steps are committed by then.
    #[must_use]
    pub fn replies_due(&self) -> Option<Mono> {
        self.pace.due(self.has_waiting())
    }

    /// All replies were sent, or dropped because no runner is connected.
    pub fn replies_sent(&mut self, now: Mono) {
        self.pace.sent(now);
    }

    /// True if the runner has asked for the exit.
    #[must_use]
    pub const fn is_dismissed(&self) -> bool {
        self.exit_requested && self.killing.is_none()
    }

    /// True if it has been without a runner and without runs for [`IDLE_MAX`].
    #[must_use]
    pub fn is_unused(&self, kernel: &dyn Kernel) -> bool {
        self.is_idle(kernel) && kernel.now().mono >= self.idle_since + IDLE_MAX
    }

    fn is_idle(&self, kernel: &dyn Kernel) -> bool {
        let quiet = !self.is_connected && self.killing.is_none();
        // A remaining child has daemonised, and only we can find it.
        quiet && !self.table.has_live() && self.queue.len() == 0 && !kernel.has_children()
    }

    /// The runs whose first process is held; their ends are to be observed.
    pub fn watched(&self) -> impl Iterator<Item = RunKey> + '_ {
        self.table.watched()
    }

    /// The runs whose first process is held, also those that have just ended.
    pub fn held(&self) -> impl Iterator<Item = RunKey> + '_ {
        self.table.held()
    }

    /// The order of the dead-man timer that is in force.
    #[must_use]
    pub const fn guard_order(&self) -> Option<GuardOrder> {
        self.guard.order()
    }

    /// True if an attempt holds a device.
    #[must_use]
    pub fn holds_devices(&self) -> bool {
        !self.devices.are_free()
    }

    /// The number of runs that are known or wait.
    #[must_use]
    pub fn known_runs(&self) -> usize {
        self.table.runs.len() + self.queue.len()
    }

    /// True for a child that rotates a log; it does not belong to the task.
    #[must_use]
    pub fn is_rotator(&self, pid: u32) -> bool {
        matches!(self.table.children.get(&pid), Some(runs::Role::Rotator(_)))
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        while let Some(due) = self.table.pop_due(now) {
            match due {
                Timer::Kill(run) => self.kill_after_grace(turn, run),
                Timer::Poll(run) => self.poll_run(turn, run),
                Timer::Timeout(run) => self.reach_timeout(turn, run, now),
                Timer::Probe(id) => self.kill_late_probe(turn, id),
            }
        }
        self.retry_deadlines(turn, now);
        if self.killing.is_some() {
            self.continue_killing(turn, now);
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, request: Request) {
        assert!(
            self.killing.is_none(),
            "{request:?} while everything is killed"
        );
        let now = turn.now();
        match request {
            Request::Attach { spared, reaper } => turn.kernel.attach(spared, reaper),
            Request::Capacity {
                amounts,
                devices,
                core_nodes,
            } => {
                self.queue.set_capacity(amounts);
                self.devices.set_lists(devices, core_nodes);
            }
            // The handover has them on record until the next run has.
            Request::HoldDevices { run, devices } => self.devices.hold(run.process, devices),
            Request::Launch { run, launch } => self.launch(turn, run, launch),
            Request::Withdraw { run } => self.withdraw(turn, run),
            Request::Stop {
                run,
                signal,
                grace,
                cause,
            } => self.stop(turn, run, signal, now + grace, cause),
            Request::Signal { run, signal } => self.pass_signal(turn, run, signal),
            Request::KillRun { run } => self.kill_run(turn, run),
            Request::KillStrays => self.kill_strays_for_agent(turn),
            Request::KillEverything { id, grace } => self.kill_everything(turn, now, grace, id),
            Request::Probe {
                id,
                run,
                launch,
                timeout,
            } => self.start_probe(turn, id, run, *launch, now + timeout),
            Request::Adopt {
                run,
                at,
                identity,
                attempt,
            } => self.adopt(turn, run, at, identity, attempt.map(|it| *it)),
            Request::Forget { run } => self.forget(turn, run),
            Request::Guard(order) => self.extend_guard(turn, order),
            Request::Exit => self.exit_requested = true,
        }
    }
}
