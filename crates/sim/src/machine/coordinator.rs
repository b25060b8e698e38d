//! The process of a coordinator: the real host, in the loop of the real coordinator.
//!
//! It can die at every write to its log, and at every effect.

use std::collections::{BTreeMap, VecDeque};

use baton_core::bugs::Bugs;
use baton_core::host::Host;
use baton_core::host::io::{Effect, HostStep, Input, Settings, StartFault, Urgency};
use baton_core::host::kernel::Kernel as _;
use baton_core::step::Outbox;
use baton_model::coordinator::{CoordinatorRecord, Launch, Reply, Request};
use baton_model::ids::{BootId, Epoch};
use baton_model::task::{Identity, RunKey};
use baton_model::time::{Mono, Now};

use super::disk::{Disk, PidNote};
use super::kernel::Calls;
use super::processes::{Parent, ProcessEvent, Processes};

const MARK: &str = "worker";
/// The epoch of the outbox: a coordinator has one log, and no other writes it.
const EPOCH: Epoch = Epoch(1);

/// The machine, as one turn of a coordinator finds it.
pub struct Machine<'a> {
    pub now: Now,
    pub boot: BootId,
    pub processes: &'a mut Processes,
    pub disk: &'a mut Disk,
    /// No process can be started.
    pub launches_fail: bool,
    /// As [`Calls::tells_statuses`].
    pub tells_statuses: bool,
}

/// What comes out of a turn.
#[derive(Debug, Default)]
pub struct Turned {
    /// The replies that were sent.
    pub replies: Vec<Reply>,
    /// It has killed processes, which takes time.
    pub has_killed: bool,
    /// It has died, or has exited because nothing is left to do.
    pub is_gone: bool,
}

/// A live coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    host: Host,
    step: HostStep,
    outbox: Outbox<Effect>,
    held: BTreeMap<RunKey, Identity>,
    /// Requests that it has not read.
    requests: VecDeque<Request>,
    is_connected: bool,
    /// Replies that it has not sent.
    replies: Vec<Reply>,
    /// Replies that have left in this turn.
    sent: Vec<Reply>,
    /// It has killed processes in this turn.
    has_killed: bool,
    /// It dies when it has done so much more.
    fuse: Option<u32>,
    is_dead: bool,
}

impl Coordinator {
    /// Starts a coordinator. `successor`: an earlier one may have left processes behind.
    pub fn start(machine: &mut Machine<'_>, successor: bool, bugs: Bugs) -> Self {
        let settings = Settings {
            mark: MARK.to_owned(),
            pid: 1,
            successor,
            guarded: true,
            bugs,
        };
        machine.disk.begin(CoordinatorRecord::Begun {
            mark: MARK.to_owned(),
            boot: machine.boot,
            pid: 1,
        });
        Self {
            host: Host::new(settings, machine.now.mono),
            step: HostStep::default(),
            outbox: Outbox::new(EPOCH),
            held: BTreeMap::new(),
            requests: VecDeque::new(),
            is_connected: false,
            replies: Vec::new(),
            sent: Vec::new(),
            has_killed: false,
            fuse: None,
            is_dead: false,
        }
    }

    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Lets it die when it has done so much more.
    pub const fn light_fuse(&mut self, fuse: u32) {
        self.fuse = Some(fuse);
    }

    pub const fn put_fuse_out(&mut self) {
        self.fuse = None;
    }

    /// Adds a request to its connection.
    pub fn send(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    #[must_use]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// True if it holds this process.
    #[must_use]
    pub fn holds(&self, start_ticks: u64) -> bool {
        let mut held = self.held.values();
        held.any(|identity| identity.start_ticks == start_ticks)
    }

    /// The time of its next turn without an event.
    pub fn next_due(&mut self, machine: &mut Machine<'_>) -> Option<Mono> {
        let due = self.with_calls(machine, |host, calls| host.next_due(calls));
        [self.host.replies_due(), due].into_iter().flatten().min()
    }

    /// An agent connects. Returns the turn in which it is greeted; the greeting comes first.
    pub fn connect(&mut self, machine: &mut Machine<'_>) -> Turned {
        self.turn_with(machine, true)
    }

    /// The agent is gone.
    pub fn disconnect(&mut self, machine: &mut Machine<'_>) -> Turned {
        self.turn_to_requests(machine);
        self.is_connected = false;
        self.handle(machine, Input::Disconnected);
        self.commit(machine);
        self.finish(machine)
    }

    /// One turn of its loop.
    pub fn turn(&mut self, machine: &mut Machine<'_>) -> Turned {
        self.turn_with(machine, false)
    }

    fn turn_with(&mut self, machine: &mut Machine<'_>, is_called: bool) -> Turned {
        self.turn_to_requests(machine);
        self.handle(machine, Input::Fill);
        if is_called {
            self.accept(machine);
        }
        let due = self.host.replies_due();
        if !(self.is_connected && due.is_some_and(|due| machine.now.mono < due)) {
            self.send_replies(machine);
        }
        self.finish(machine)
    }

    fn turn_to_requests(&mut self, machine: &mut Machine<'_>) {
        self.handle(machine, Input::Deadlines);
        self.take_exits(machine);
        let held = self.host.watched();
        let is_over = |run: &RunKey| {
            let identity = self.held.get(run);
            identity.is_some_and(|it| machine.processes.pid_of(it.start_ticks).is_none())
        };
        for run in held.filter(is_over).collect::<Vec<_>>() {
            self.handle(machine, Input::HeldEnded(run));
        }
        self.handle(machine, Input::Tick);
        self.handle(machine, Input::Fill);
        while !self.is_dead && !self.host.is_killing() {
            let Some(request) = self.requests.pop_front() else {
                break;
            };
            self.handle(machine, Input::Request(request));
        }
    }

    /// Passes on every child that has ended, one at a time: the host may reap others meanwhile.
    fn take_exits(&mut self, machine: &mut Machine<'_>) {
        let mut last = None;
        while let Some((pid, status)) = machine.processes.zombie_of(Parent::Coordinator) {
            if last.replace(pid) == Some(pid) {
                // It died before it could reap it.
                break;
            }
            self.handle(machine, Input::Exited { pid, status });
        }
        if last.is_some() {
            self.handle(machine, Input::ExitsTaken);
        }
    }

    /// Greets an agent. What the one before has sent is done, or waits for a kill and is dropped.
    fn accept(&mut self, machine: &mut Machine<'_>) {
        self.commit(machine);
        self.requests.clear();
        self.replies.clear();
        self.sent.clear();
        self.is_connected = true;
        self.handle(machine, Input::Connected);
    }

    /// Sends all replies; without an agent they are dropped, since a greeting repeats them.
    fn send_replies(&mut self, machine: &mut Machine<'_>) {
        self.commit(machine);
        if self.is_dead {
            return;
        }
        self.host.replies_sent(machine.now.mono);
        let replies = std::mem::take(&mut self.replies);
        if self.is_connected {
            self.sent.extend(replies);
        } else {
            machine.disk.sync();
        }
    }

    fn finish(&mut self, machine: &mut Machine<'_>) -> Turned {
        let is_unused = self.with_calls(machine, |host, calls| host.is_unused(calls));
        Turned {
            replies: std::mem::take(&mut self.sent),
            has_killed: std::mem::take(&mut self.has_killed),
            is_gone: self.is_dead || self.host.is_dismissed() || is_unused,
        }
    }

    /// Passes an input to the host, and carries out what cannot wait for the next replies.
    fn handle(&mut self, machine: &mut Machine<'_>, input: Input) {
        if !self.is_dead && self.decide(machine, input) == Urgency::Now {
            self.commit(machine);
        }
    }

    fn decide(&mut self, machine: &mut Machine<'_>, input: Input) -> Urgency {
        let mut step = std::mem::take(&mut self.step);
        let (urgency, has_killed) = self.with_calls(machine, |host, calls| {
            let urgency = host.handle(input, calls, &mut step);
            (urgency, calls.has_killed)
        });
        self.step = step;
        self.has_killed |= has_killed;
        urgency
    }

    /// Writes the records of all decisions, and carries out the effects that waited for them.
    fn commit(&mut self, machine: &mut Machine<'_>) {
        while !self.is_dead {
            let Some(answer) = self.commit_once(machine) else {
                return;
            };
            if self.decide(machine, answer) == Urgency::WithReplies {
                return;
            }
        }
    }

    fn commit_once(&mut self, machine: &mut Machine<'_>) -> Option<Input> {
        let batch = self.outbox.accept(std::mem::take(&mut self.step));
        let mut answer = None;
        if let Some(batch) = batch {
            // With records ahead of them, no effect is ready: one that is has leaked.
            let unsent = self.replies.len();
            answer = self.perform(machine);
            self.sent.extend(self.replies.drain(unsent..));
            if self.dies() {
                return None;
            }
            machine.disk.append(batch.facts());
            if machine.disk.must_compact(self.host.known_runs()) {
                let state = self.host.summary(machine.now.into());
                machine.disk.compact(state);
            }
            if self.dies() {
                return None;
            }
            self.outbox.release(batch.durable());
        }
        let answer = answer.or(self.perform(machine));
        if answer.is_some() && self.dies() {
            return None;
        }
        answer
    }

    /// Carries out the effects that are ready.
    fn perform(&mut self, machine: &mut Machine<'_>) -> Option<Input> {
        let mut answer = None;
        for effect in self.outbox.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Reply(reply) => self.replies.push(reply),
                Effect::Spawn { run, launch } => answer = Some(spawn(machine, run, launch)),
                Effect::Reap { pid } => {
                    let usage = self.with_calls(machine, |_, calls| calls.reap(pid));
                    answer = Some(Input::Reaped { pid, usage });
                }
            }
        }
        answer
    }

    /// Burns the fuse; true if it dies here.
    fn dies(&mut self) -> bool {
        self.is_dead |= self.fuse == Some(0);
        self.fuse = self.fuse.map(|left| left.saturating_sub(1));
        self.is_dead
    }

    fn with_calls<T>(
        &mut self,
        machine: &mut Machine<'_>,
        act: impl FnOnce(&mut Host, &mut Calls<'_>) -> T,
    ) -> T {
        let mut calls = Calls {
            now: machine.now,
            boot: machine.boot,
            processes: machine.processes,
            held: &mut self.held,
            tells_statuses: machine.tells_statuses,
            has_killed: false,
        };
        act(&mut self.host, &mut calls)
    }
}

/// Starts the process of a run.
fn spawn(machine: &mut Machine<'_>, run: RunKey, launch: Box<Launch>) -> Input {
    let at = machine.now.into();
    let result = if machine.launches_fail {
        let event = ProcessEvent::LaunchFailed {
            run,
            launch: launch.clone(),
        };
        machine.processes.note(event);
        Err(StartFault::Host("no room".to_owned()))
    } else {
        let parent = Parent::Coordinator;
        let (pid, start_ticks) = machine.processes.start(parent, Some(run), launch.term);
        machine.disk.note_launch(PidNote {
            run,
            at,
            pid,
            start_ticks,
        });
        machine.processes.note(ProcessEvent::Launched {
            run,
            launch: launch.clone(),
            start_ticks,
        });
        Ok(Identity {
            boot: machine.boot,
            pid,
            start_ticks,
        })
    };
    Input::Spawned {
        run,
        launch,
        at,
        rotators: Vec::new(),
        result,
    }
}
