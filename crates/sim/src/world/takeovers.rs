//! Incarnations: agents that start, resume, take coordinators over, and end.
//!
//! The real supervisor decides; this collects the evidence, as the real agent does.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::Supervisor;
use baton_core::supervision::attempts::Attempt;
use baton_core::supervision::io::{Ending, Event as AgentEvent, Sighting};
use baton_core::supervision::takeover::{
    CoordinatorState, Inventory, KnownAttempt, Remnant, ReportedRun,
};
use baton_core::takeover::{self, Witness};
use baton_model::coordinator::{KnownRun, Reply, Request};
use baton_model::ids::LeaseId;
use baton_model::outcome::{ExitStatus, KillCause};
use baton_model::task::{Identity as ProcessIdentity, Moment, RunKey};
use baton_model::time::Millis;

use super::agents::with_outputs;
use super::coordinators::Coordinator;
use super::hosts::{Handover, Host};
use super::{Event, World};
use crate::machine::coordinator::Coordinator as Process;
use crate::time::SECOND;

/// Turns in which everything must be dead that is killed without a grace.
const KILL_TURNS: usize = 8;

/// What an agent finds of its coordinator.
struct Remains {
    runs: Vec<KnownRun>,
    guard: Option<GuardOrder>,
    state: CoordinatorState,
    /// What it sends after its greeting.
    replies: Vec<Reply>,
}

impl World {
    /// Starts an agent. If its coordinator is intact, or dead and the lease still runs, it resumes
    /// the same incarnation; otherwise it kills what is left of the old one and begins the next.
    pub(super) fn agent_start(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.destroyed || host.agent.is_some() {
            return;
        }
        if host.is_new_incarnation {
            let ended = std::mem::take(&mut host.handover.attempts);
            self.start_coordinator(index, false);
            self.begin_incarnation(index, ended);
        } else {
            self.start_or_resume(index);
        }
        let incarnation = self.hosts[index].me().incarnation;
        self.note(&incarnation, || {
            format!("h{index} agent starts as {incarnation}")
        });
        let first = if self.hosts[index].is_dying {
            AgentEvent::GiveUp
        } else {
            AgentEvent::Tick
        };
        self.agent_handle(index, first);
        self.agent_reads(index);
    }

    fn start_or_resume(&mut self, index: usize) {
        self.kill_stopped_coordinator(index);
        self.reaper_start(index);
        let found = self.find_coordinator(index);
        let host = &self.hosts[index];
        let dying = host.is_dying.then_some(KillCause::Suicide);
        let handover = host.handover.clone();
        let guard = found.guard.or(handover.guard);
        let owned = owned(&found);
        let existed = host.incarnation.0 > 0;
        let remnant = Remnant {
            is_of_this_boot: existed && host.incarnation_boot == host.boot,
            is_dying: host.is_dying,
            coordinator: match found.state {
                CoordinatorState::Dead { .. } => CoordinatorState::Dead {
                    has_order: guard.is_some(),
                },
                other => other,
            },
        };
        let has_predecessor = existed || found.state != CoordinatorState::Unknown;
        let runs = self.reported(found.runs, &handover.attempts);
        let inventory = Inventory::new(handover.attempts, runs, dying);
        if found.state != CoordinatorState::Running {
            self.save_handover_of(index, &inventory, guard);
            self.start_coordinator(index, has_predecessor);
        }
        if !remnant.is_resumable() {
            if has_predecessor {
                self.kill_leftovers(index);
            }
            return self.begin_incarnation(index, inventory.into_ended());
        }
        let sightings = self.sightings(index, &inventory);
        let now = self.hosts[index].clock.mono(self.now);
        let (mut supervisor, actions) = Supervisor::resume(
            &self.identity(index),
            inventory,
            &owned,
            dying,
            |attempt| sightings(attempt),
            now,
        );
        let epoch = self.hosts[index].epoch;
        match guard {
            Some(order) => supervisor.worker_mut().resume(GuardOrder {
                epoch: order.epoch.max(epoch),
                ..order
            }),
            None => supervisor.worker_mut().obeyed(epoch),
        }
        self.install(index, supervisor, guard);
        self.pass_on(index, found.replies);
        self.agent_perform_all(index, actions);
        if found.state != CoordinatorState::Running {
            self.stop_successor(index);
        }
    }

    /// Begins the next incarnation, with the ends of the one before. All its processes are dead.
    fn begin_incarnation(&mut self, index: usize, ended: Vec<KnownAttempt>) {
        let host = &mut self.hosts[index];
        host.leases = ended
            .iter()
            .map(|known| (known.run, known.assignment.lease))
            .collect();
        host.handover = Handover {
            guard: None,
            attempts: ended.clone(),
        };
        host.is_new_incarnation = false;
        host.is_dying = false;
        host.incarnation = host.incarnation.next();
        host.incarnation_boot = host.boot;
        let (epoch, now) = (host.epoch, host.clock.mono(self.now));
        self.hosts[index].lifetime = self.draw_lifetime(now);
        self.reaper_start(index);
        let mut supervisor = Supervisor::begin(&self.identity(index), ended, now);
        supervisor.worker_mut().obeyed(epoch);
        self.install(index, supervisor, None);
    }

    /// The worker reports that everything of this incarnation has ended.
    pub(super) fn incarnation_ends(&mut self, index: usize) {
        let incarnation = self.hosts[index].me().incarnation;
        self.note(&incarnation, || {
            format!("h{index} incarnation {incarnation} ends")
        });
        let alive = self.hosts[index].workload.leases().first().copied();
        self.checkers.incarnation_ended(incarnation, alive);
        self.reaper_guard(index, None);
        let host = &mut self.hosts[index];
        let agent = host.agent.take();
        host.coordinator = None;
        host.exits.clear();
        host.is_new_incarnation = true;
        let attempts = agent.iter().flat_map(|it| it.supervisor.attempts().iter());
        let over = attempts.filter(|attempt| attempt.is_over());
        host.handover = Handover {
            guard: None,
            attempts: over.map(KnownAttempt::from).collect(),
        };
        if agent.is_some_and(|agent| agent.supervisor.worker().is_copy()) {
            self.renew_lineage(index);
        }
        if self.has_namesake(index) {
            // Two machines with one name: the operator switches off the condemned one.
            self.hosts[index].destroyed = true;
            return;
        }
        let pause = 5 * SECOND + self.fault_rng.below(10 * SECOND);
        self.at(pause, Event::AgentStart(index));
    }

    /// Whether another machine of the same name can take over.
    fn has_namesake(&self, index: usize) -> bool {
        self.hosts.iter().enumerate().any(|(other, host)| {
            other != index
                && host.name == self.hosts[index].name
                && !host.destroyed
                && !self.links.is_severed(other)
        })
    }

    /// The agent replaces a dead coordinator, in the same incarnation.
    pub(super) fn replace_coordinator(&mut self, index: usize) {
        let found = self.find_coordinator(index);
        let owned = owned(&found);
        let runs = self.reported(found.runs, &[]);
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        agent.requests.clear();
        let (inventory, guard) = (agent.supervisor.inventory(runs), agent.guard);
        if found.state != CoordinatorState::Running {
            self.save_handover_of(index, &inventory, guard);
            self.start_coordinator(index, true);
        }
        self.attach(index);
        let sightings = self.sightings(index, &inventory);
        let now = self.hosts[index].clock.mono(self.now);
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        let actions = agent
            .supervisor
            .take_over(now, inventory, &owned, |attempt| sightings(attempt));
        self.pass_on(index, found.replies);
        self.agent_perform_all(index, actions);
    }

    /// What a coordinator has sent after its greeting is on its way to the agent.
    fn pass_on(&mut self, index: usize, replies: Vec<Reply>) {
        for reply in replies {
            self.agent_inbox(index, Some(reply));
        }
    }

    fn save_handover_of(&mut self, index: usize, inventory: &Inventory, guard: Option<GuardOrder>) {
        self.hosts[index].handover = Handover {
            guard,
            attempts: inventory.attempts().cloned().collect(),
        };
    }

    /// Finds the coordinator, alive or dead.
    fn find_coordinator(&mut self, index: usize) -> Remains {
        if let Some(greeting) = self.connect(index) {
            return greeting;
        }
        self.hosts[index].take_exits();
        let host = &self.hosts[index];
        let reaped = |pid| {
            let mut of = host.exits.range((pid, 0)..=(pid, u64::MAX));
            of.next_back().map(|((_, ticks), _)| *ticks)
        };
        match host.disk.evidence(host.boot, &host.processes, reaped) {
            Some(evidence) => Remains {
                runs: evidence.runs,
                guard: evidence.guard.map(Into::into),
                state: CoordinatorState::Dead { has_order: false },
                replies: Vec::new(),
            },
            None => Remains {
                runs: Vec::new(),
                guard: None,
                state: CoordinatorState::Unknown,
                replies: Vec::new(),
            },
        }
    }

    /// Connects to a coordinator that runs. It may die over it.
    fn connect(&mut self, index: usize) -> Option<Remains> {
        self.note_overdue(index);
        let (coordinator, mut machine) = self.hosts[index].machine(self.now);
        let mut turned = coordinator?.process.connect(&mut machine);
        let mut replies = std::mem::take(&mut turned.replies).into_iter();
        let greeting = replies.next().filter(|_| !turned.is_gone);
        self.coordinator_turned(index, turned);
        match greeting {
            Some(Reply::Hello { runs, guard, .. }) => Some(Remains {
                runs,
                guard: guard.map(Into::into),
                state: CoordinatorState::Running,
                replies: replies.collect(),
            }),
            Some(other) => panic!("h{index} was greeted with {other:?}"),
            None => None,
        }
    }

    /// Starts a coordinator, and connects to it.
    fn start_coordinator(&mut self, index: usize, successor: bool) {
        let bugs = self.config.bugs;
        let (_, mut machine) = self.hosts[index].machine(self.now);
        let process = Process::start(&mut machine, successor, bugs);
        self.hosts[index].coordinator = Some(Coordinator::new(process));
        let greeting = self.connect(index);
        assert!(greeting.is_some(), "h{index}: a new coordinator greets");
    }

    /// Kills the leftovers of earlier incarnations by identity.
    fn kill_leftovers(&mut self, index: usize) {
        self.everything_dies(index, KillCause::Suicide);
        let (id, grace) = (1, Millis(0));
        for turn in 0..KILL_TURNS {
            let (coordinator, mut machine) = self.hosts[index].machine(self.now);
            let Some(coordinator) = coordinator else {
                return;
            };
            if turn == 0 {
                coordinator
                    .process
                    .send(Request::KillEverything { id, grace });
            }
            let turned = coordinator.process.turn(&mut machine);
            let is_killed = |reply: &Reply| matches!(reply, Reply::EverythingKilled { .. });
            let is_done = turned.replies.iter().any(is_killed);
            self.coordinator_turned(index, turned);
            if is_done {
                return;
            }
        }
        panic!("h{index}: an earlier incarnation could not be killed");
    }

    /// What is known of a run that no coordinator watches.
    pub(super) fn sight(
        &mut self,
        index: usize,
        lease: LeaseId,
        started: Option<(Moment, ProcessIdentity)>,
    ) -> Sighting {
        let Some((at, identity)) = started else {
            return Sighting::Unknown;
        };
        let host = &mut self.hosts[index];
        let (boot, now) = (host.boot, host.clock.read(self.now));
        let sighting = takeover::Sighting::of(Some(&identity), boot, host);
        sighting.map(|outcome| with_outputs(Some(lease), Ending::found(outcome, at, now)))
    }

    /// What is known of all runs of an inventory.
    fn sightings(
        &mut self,
        index: usize,
        inventory: &Inventory,
    ) -> impl Fn(&Attempt) -> Sighting + use<> {
        let known = inventory.attempts();
        let known: Vec<_> = known
            .map(|it| (it.run, it.assignment.lease, it.started))
            .collect();
        let seen: BTreeMap<RunKey, Sighting> = known
            .into_iter()
            .map(|(run, lease, started)| (run, self.sight(index, lease, started)))
            .collect();
        move |attempt| seen.get(&attempt.run).cloned().unwrap_or(Sighting::Unknown)
    }

    /// Decodes the runs that a coordinator has on record. Ends come with their outputs.
    fn reported(&self, runs: Vec<KnownRun>, known: &[KnownAttempt]) -> Vec<ReportedRun> {
        let runs = runs.into_iter().map(|run| {
            let assignment = self.assignment_of(&run.tag);
            let handed_over = || known.iter().find(|known| known.run == run.run);
            let lease = assignment.as_ref().map(|it| it.lease);
            let lease = lease.or_else(|| handed_over().map(|it| it.assignment.lease));
            ReportedRun {
                run: run.run,
                assignment,
                started: run.started,
                waiting: run.waiting,
                devices: run.devices,
                ended: run
                    .ended
                    .map(|end| with_outputs(lease, Ending::recorded(&end))),
            }
        });
        runs.collect()
    }
}

/// The runs that a coordinator reports itself.
fn owned(found: &Remains) -> BTreeSet<RunKey> {
    match found.state {
        CoordinatorState::Running => found.runs.iter().map(|known| known.run).collect(),
        CoordinatorState::Dead { .. } | CoordinatorState::Unknown => BTreeSet::new(),
    }
}

impl Host {
    /// Takes the exit statuses that the reaper keeps.
    fn take_exits(&mut self) {
        let new = self.reaper.as_mut().map(|reaper| reaper.take_exits());
        self.exits.extend(new.unwrap_or_default());
    }
}

impl Witness for Host {
    fn is_present(&self, identity: &ProcessIdentity) -> bool {
        self.processes.exists(identity, self.boot)
    }

    fn exit_of(&mut self, identity: &ProcessIdentity) -> Option<ExitStatus> {
        self.take_exits();
        let key = (identity.pid, identity.start_ticks);
        self.exits.get(&key).copied()
    }
}
