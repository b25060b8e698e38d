//! Exhaustive check of one machine: the real host, killed at every record and every effect.
//!
//! An agent requests two launches, one of which may have to wait, and stops one. Processes end at
//! any time. The coordinator may be killed at every write to its log and every effect, and the agent
//! be replaced; the real supervisor decides from the evidence what becomes of the attempts. The
//! reaper lives, so no exit status is lost. Time passes from one timer to the next.
//!
//! Messages between agent and coordinator take no time: one that is late is equivalent to an event
//! that comes earlier.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::host::kernel::{SIGKILL, SIGTERM};
use baton_core::supervision::attempts::{Assignment, Attempt, LOST};
use baton_core::supervision::io::{Action, Ending, Sighting};
use baton_core::supervision::lifetime::Lifetime;
use baton_core::supervision::takeover::{Inventory, KnownAttempt, ReportedRun};
use baton_core::supervision::{Identity, Supervisor};
use baton_core::takeover::{self, Witness};
use baton_model::coordinator::{
    AttemptPaths, DeviceClaim, Guard, KnownRun, Launch, Reply, Request,
};
use baton_model::device::DeviceLists;
use baton_model::fact::Holder;
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, WorkerName,
};
use baton_model::message::HostSize;
use baton_model::outcome::{ExitStatus, KillCause, Outcome};
use baton_model::task::{Identity as ProcessIdentity, ProcessNo, RunKey, RunNo};
use baton_model::time::{Millis, Mono, Now, Stamp, Wall};
use baton_sim::machine::coordinator::{Coordinator, Machine as Place, Turned};
use baton_sim::machine::disk::Disk;
use baton_sim::machine::processes::{Parent, ProcessEvent, Processes};

const BOOT: BootId = BootId(1);
/// A lease that does not end within the check.
const FAR: Mono = Mono(1_000_000_000);
const GRACE: Millis = Millis(50);

/// The bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Attempts that find room at once.
    pub(crate) room: u64,
    /// Coordinators that are killed.
    pub(crate) deaths: u8,
    /// Agents that are replaced while the coordinator lives.
    pub(crate) agents: u8,
    pub(crate) bugs: Bugs,
}

/// What became of an exploration.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// The first violation, with the steps to it.
    pub(crate) violation: Option<(String, Vec<String>)>,
    /// An attempt survived the death of its coordinator, and its end was learned.
    pub(crate) survived: bool,
    /// The end of an attempt was known from its exit as a child of the reaper alone.
    pub(crate) reaped: bool,
}

/// The truth about an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Truth {
    starts: u8,
    ticks: u64,
    status: Option<ExitStatus>,
    is_stopped: bool,
    /// It is not killed before.
    kill_at: Mono,
}

/// One state of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Machine {
    clock: Mono,
    processes: Processes,
    disk: Disk,
    coordinator: Option<Coordinator>,
    /// Exit statuses that the reaper keeps, by pid and start time.
    exits: BTreeMap<(u32, u64), ExitStatus>,
    handover: Vec<KnownAttempt>,
    launches: u32,
    deaths: u8,
    agents: u8,
    truth: BTreeMap<RunKey, Truth>,
    /// The ends that the agent has learned.
    learned: BTreeMap<RunKey, Outcome>,
    forgotten: BTreeSet<RunKey>,
    violation: Option<String>,
    survived: bool,
    reaped: bool,
}

/// One transition.
#[derive(Clone, Copy, Debug)]
enum Step {
    Launch,
    Stop(RunKey),
    End(RunKey, ExitStatus),
    Forget(RunKey),
    /// Time passes until the next timer of the coordinator.
    Wait,
    /// Another agent connects to the coordinator, or starts one where it is dead.
    TakeOver,
}

/// Visits every state within the bounds.
pub(crate) fn explore(bound: Bound) -> Explored {
    let mut seen = HashSet::new();
    let mut stack = vec![(Machine::new(bound), Vec::new())];
    let mut explored = Explored {
        states: 0,
        violation: None,
        survived: false,
        reaped: false,
    };
    while let Some((machine, path)) = stack.pop() {
        if !seen.insert(digest(&machine)) {
            continue;
        }
        explored.states += 1;
        explored.survived |= machine.survived;
        explored.reaped |= machine.reaped;
        if let Some(what) = machine.violation.clone() {
            explored.violation = Some((what, path));
            return explored;
        }
        for step in machine.steps(bound) {
            for (fuse, next) in machine.follow(step, bound) {
                let mut path = path.clone();
                path.push(format!("{step:?}, dies at {fuse:?}"));
                stack.push((next, path));
            }
        }
    }
    explored
}

/// States are compared by two independent hashes.
fn digest(machine: &Machine) -> (u64, u64) {
    let hash = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        machine.hash(&mut hasher);
        hasher.finish()
    };
    (hash(0), hash(1))
}

const fn run(number: u32) -> RunKey {
    RunKey {
        process: ProcessNo(number),
        run: RunNo(0),
    }
}

fn assignment(run: RunKey) -> Assignment {
    Assignment {
        lease: LeaseId {
            attempt: AttemptId {
                instance: InstanceId(run.process.0.into()),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        },
        spec: Arc::default(),
        timeout: None,
        memory_min: 0,
        memory_max: 0,
        requests: Vec::new(),
        began: None,
        trace: None,
    }
}

fn identity() -> Identity {
    Identity {
        me: Holder {
            worker: WorkerName::new("w"),
            incarnation: Incarnation {
                lineage: Lineage(1),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BOOT,
        },
        executor: None,
        slots: 2,
        offer: Arc::default(),
        version: Arc::default(),
        lifetime: Lifetime::default(),
        host: HostSize::default(),
        bugs: Bugs::NONE,
    }
}

struct Evidence<'a>(&'a Machine);

impl Witness for Evidence<'_> {
    fn is_present(&self, identity: &ProcessIdentity) -> bool {
        self.0.processes.exists(identity, BOOT)
    }

    fn exit_of(&mut self, identity: &ProcessIdentity) -> Option<ExitStatus> {
        self.0.exit_of(identity)
    }
}

impl Machine {
    fn new(bound: Bound) -> Self {
        let mut machine = Self {
            clock: Mono(0),
            processes: Processes::default(),
            disk: Disk::new(0),
            coordinator: None,
            exits: BTreeMap::new(),
            handover: Vec::new(),
            launches: 0,
            deaths: 0,
            agents: 0,
            truth: BTreeMap::new(),
            learned: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            violation: None,
            survived: false,
            reaped: false,
        };
        machine.start_coordinator(bound, false);
        machine.turn();
        machine
    }

    fn place<T>(&mut self, act: impl FnOnce(Option<&mut Coordinator>, &mut Place<'_>) -> T) -> T {
        let place = &mut Place {
            now: Now {
                mono: self.clock,
                wall: Wall(0),
            },
            boot: BOOT,
            processes: &mut self.processes,
            disk: &mut self.disk,
            launches_fail: false,
            tells_statuses: false,
        };
        act(self.coordinator.as_mut(), place)
    }

    fn start_coordinator(&mut self, bound: Bound, successor: bool) {
        let started = self.place(|_, place| Coordinator::start(place, successor, bound.bugs));
        self.coordinator = Some(started);
        self.place(|coordinator, place| coordinator.map(|it| it.connect(place)));
        self.send(Request::Capacity {
            amounts: vec![bound.room],
            devices: DeviceLists::new(),
            core_nodes: Vec::new(),
        });
        self.send(Request::Guard(Guard {
            deadline: FAR,
            grace: GRACE,
            kill_max: GRACE,
            epoch: Epoch(1),
            stamp: Stamp(Mono(0)),
        }));
    }

    fn send(&mut self, request: Request) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.send(request);
        }
    }

    /// The transitions of this state.
    fn steps(&self, bound: Bound) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.coordinator.is_none() || self.agents < bound.agents {
            steps.push(Step::TakeOver);
        }
        for (key, truth) in &self.truth {
            if truth.starts > 0 && truth.status.is_none() {
                steps.push(Step::End(*key, ExitStatus::Code(7)));
                if truth.is_stopped {
                    steps.push(Step::End(*key, ExitStatus::Signal(SIGTERM)));
                }
            }
        }
        if self.coordinator.is_none() {
            return steps;
        }
        if self.launches < 2 {
            steps.push(Step::Launch);
        }
        let is_open = |key: &RunKey| !self.learned.contains_key(key);
        let first = self.truth.get(&run(1)).filter(|it| !it.is_stopped);
        if first.is_some() && is_open(&run(1)) {
            steps.push(Step::Stop(run(1)));
        }
        let ended = self
            .learned
            .keys()
            .filter(|it| !self.forgotten.contains(it));
        steps.extend(ended.map(|key| Step::Forget(*key)));
        steps.push(Step::Wait);
        steps
    }

    /// The states after a step: one for each point at which the coordinator may die, and one in
    /// which it does not.
    fn follow(&self, step: Step, bound: Bound) -> Vec<(Option<u32>, Self)> {
        let mut next = self.clone();
        next.prepare(step, bound);
        let mut states = Vec::new();
        if next.coordinator.is_some() && next.deaths < bound.deaths {
            for fuse in 0.. {
                let mut dying = next.clone();
                if let Some(coordinator) = &mut dying.coordinator {
                    coordinator.light_fuse(fuse);
                }
                dying.turn();
                if dying.coordinator.is_some() {
                    break;
                }
                dying.deaths += 1;
                states.push((Some(fuse), dying));
            }
        }
        next.turn();
        states.push((None, next));
        states
    }

    /// What happens before the coordinator takes its turn.
    fn prepare(&mut self, step: Step, bound: Bound) {
        match step {
            Step::Launch => {
                self.launches += 1;
                let key = run(self.launches);
                self.truth.insert(key, Truth::default());
                let attempt = Attempt::new(key, assignment(key));
                let tag = key.process.0.to_string();
                let launch = Launch {
                    paths: Some(AttemptPaths {
                        dir: tag.clone(),
                        stdout: String::new(),
                        stderr: String::new(),
                    }),
                    ..attempt.launch(tag, vec![1], DeviceClaim::default(), self.clock)
                };
                let launch = Box::new(launch);
                self.send(Request::Launch { run: key, launch });
            }
            Step::Stop(key) => {
                if let Some(truth) = self.truth.get_mut(&key) {
                    truth.is_stopped = true;
                    truth.kill_at = self.clock + GRACE;
                }
                self.send(Request::Stop {
                    run: key,
                    signal: SIGTERM,
                    grace: GRACE,
                    cause: KillCause::Requested,
                });
            }
            Step::End(key, status) => {
                let ticks = self.truth.get(&key).map(|it| it.ticks);
                if let Some(pid) = ticks.and_then(|ticks| self.processes.pid_of(ticks)) {
                    self.processes.end(pid, status);
                }
            }
            Step::Forget(key) => {
                self.forgotten.insert(key);
                self.handover.retain(|known| known.run != key);
                self.send(Request::Forget { run: key });
            }
            Step::Wait => {
                let due = self.place(|coordinator, place| coordinator?.next_due(place));
                let due = due.filter(|due| *due < FAR);
                self.clock = due.map_or(self.clock, |due| due.max(self.clock));
            }
            Step::TakeOver => self.take_over(bound),
        }
    }

    /// The coordinator takes turns until nothing more happens at this time.
    fn turn(&mut self) {
        loop {
            let turned = self.place(|coordinator, place| coordinator.map(|it| it.turn(place)));
            let turned = turned.unwrap_or_default();
            if !self.turned(turned) {
                return;
            }
        }
    }

    /// True if something has happened.
    fn turned(&mut self, turned: Turned) -> bool {
        if turned.is_gone {
            self.coordinator = None;
            self.processes.reparent(Parent::Coordinator, Parent::Reaper);
        }
        for (pid, _) in self.processes.zombies_of(Parent::Reaper) {
            if let Some((ticks, status)) = self.processes.reap(pid) {
                self.exits.insert((pid, ticks), status);
            }
        }
        let events = self.processes.take_events();
        let is_active = !events.is_empty() || !turned.replies.is_empty();
        for event in events {
            self.note(event);
        }
        for reply in turned.replies {
            self.replied(reply);
        }
        is_active
    }

    fn note(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::Launched {
                run, start_ticks, ..
            } => {
                let truth = self.truth.entry(run).or_default();
                truth.starts += 1;
                truth.ticks = start_ticks;
                if truth.starts > 1 {
                    self.violate(format!("{run} was launched again"));
                }
            }
            ProcessEvent::Ended {
                start_ticks,
                status,
            } => {
                let mut all = self.truth.values_mut();
                if let Some(truth) = all.find(|it| it.ticks == start_ticks) {
                    truth.status = Some(status);
                }
            }
            ProcessEvent::Signalled {
                start_ticks,
                signal,
            } => {
                let mut all = self.truth.iter();
                let found = all.find(|(_, it)| it.ticks == start_ticks);
                let is_early = |truth: &Truth| signal == SIGKILL && self.clock < truth.kill_at;
                let is_wrong = |truth: &Truth| !truth.is_stopped || is_early(truth);
                if let Some((run, _)) = found.filter(|(_, it)| is_wrong(it)) {
                    let what = format!("{run} got signal {signal} without a reason");
                    self.violate(what);
                }
            }
            ProcessEvent::LaunchFailed { .. } => {}
        }
    }

    fn replied(&mut self, reply: Reply) {
        match reply {
            Reply::Ended(end) => self.learn(end.run, end.outcome),
            Reply::Unknown { run } => {
                let known = self.handover.iter().find(|known| known.run == run);
                let started = known.and_then(|known| known.started);
                match started.and_then(|(_, identity)| self.exit_of(&identity)) {
                    Some(status) => {
                        self.reaped = true;
                        self.learn(run, status.into());
                    }
                    None => self.violate(format!("nothing tells how {run} has ended")),
                }
            }
            _ => {}
        }
    }

    fn exit_of(&self, identity: &ProcessIdentity) -> Option<ExitStatus> {
        let key = (identity.pid, identity.start_ticks);
        self.exits.get(&key).copied()
    }

    /// The agent learns the end of a run. It must be the true one.
    fn learn(&mut self, run: RunKey, outcome: Outcome) {
        let truth = self.truth.get(&run).copied().unwrap_or_default();
        let is_true = match (truth.status.map(Outcome::from), outcome) {
            (Some(Outcome::Signaled(_)), Outcome::Killed(KillCause::Requested)) => truth.is_stopped,
            (Some(truth), learned) => truth == learned,
            // It was stopped while it waited, or the request was lost with a coordinator.
            (None, Outcome::Killed(_)) => truth.starts == 0,
            (None, _) => false,
        };
        if !is_true {
            self.violate(format!("{run} has ended as {outcome}; in truth: {truth:?}"));
        }
        self.survived |= self.deaths > 0 && truth.starts > 0;
        self.learned.insert(run, outcome);
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Another agent takes the coordinator over, or what a dead one has left behind.
    fn take_over(&mut self, bound: Bound) {
        let (runs, owned) = self.find(bound);
        let reported = runs.iter().map(|known| {
            let number: Option<u32> = known.tag.parse().ok();
            ReportedRun {
                run: known.run,
                assignment: number.map(|number| assignment(run(number))),
                started: known.started,
                waiting: known.waiting,
                ended: known.ended.as_ref().map(Ending::recorded),
                devices: known.devices.clone(),
            }
        });
        let inventory = Inventory::new(self.handover.clone(), reported.collect(), None);
        let sight = |attempt: &Attempt| self.sight(attempt);
        let (supervisor, actions) =
            Supervisor::resume(&identity(), inventory, &owned, None, sight, self.clock);
        let attempts: Vec<KnownAttempt> = supervisor
            .attempts()
            .iter()
            .map(KnownAttempt::from)
            .collect();
        self.compare(&attempts);
        self.handover = attempts;
        for action in actions {
            let request = match action {
                Action::Adopt(run) => {
                    let attempt = supervisor.attempts().get(run);
                    let tag = run.process.0.to_string();
                    attempt.and_then(|it| it.adoption(tag, vec![1], self.clock))
                }
                other => other.request(),
            };
            if let Some(request) = request {
                self.send(request);
            }
        }
    }

    fn sight(&self, attempt: &Attempt) -> Sighting {
        let Some((at, identity)) = attempt.started else {
            return Sighting::Unknown;
        };
        let now = Now {
            mono: self.clock,
            wall: Wall(0),
        };
        let sighting = takeover::Sighting::of(Some(&identity), BOOT, &mut Evidence(self));
        sighting.map(|outcome| Ending::found(outcome, at, now))
    }

    /// What the next agent knows must be the truth.
    fn compare(&mut self, attempts: &[KnownAttempt]) {
        for (key, truth) in self.truth.clone() {
            if self.forgotten.contains(&key) {
                continue;
            }
            let known = attempts.iter().find(|known| known.run == key);
            match known.and_then(|known| known.ended.as_ref()) {
                Some(report) if !self.learned.contains_key(&key) => {
                    self.learn(key, report.outcome);
                }
                Some(_) => {}
                None if known.is_none() && truth.starts > 0 => {
                    self.violate(format!("{key} was launched, and no agent knows it"));
                }
                // The request was lost with the coordinator, which had nothing of it on record.
                None if known.is_none() => {
                    self.learned.insert(key, LOST);
                    self.forgotten.insert(key);
                }
                None => {}
            }
        }
    }

    /// The runs that are known, and those of them that the coordinator reports itself.
    fn find(&mut self, bound: Bound) -> (Vec<KnownRun>, BTreeSet<RunKey>) {
        if self.coordinator.is_some() {
            self.agents += 1;
            let turned = self.place(|coordinator, place| coordinator.map(|it| it.connect(place)));
            let mut turned = turned.unwrap_or_default();
            let greeting = turned.replies.remove(0);
            let Reply::Hello { runs, .. } = greeting else {
                panic!("the agent was greeted with {greeting:?}");
            };
            self.turned(turned);
            let owned = runs.iter().map(|known| known.run).collect();
            return (runs, owned);
        }
        let reaped = |pid| {
            let mut of = self.exits.range((pid, 0)..=(pid, u64::MAX));
            of.next_back().map(|((_, ticks), _)| *ticks)
        };
        let evidence = self.disk.evidence(BOOT, &self.processes, reaped);
        self.start_coordinator(bound, true);
        (evidence.unwrap_or_default().runs, BTreeSet::new())
    }
}
