//! Coordinators and the processes they started.
//!
//! A coordinator records every start and end on disk before it informs the agent, holds the
//! dead-man timer, and outlives the agent. If it is killed while its agent lives, the agent (the
//! subreaper) adopts the children and starts another; if both are gone, the children run
//! unguarded until the service manager restarts the agent.

use std::sync::Arc;

use baton_core::protocol::worker::guard::{DeadMan, GuardAction};
use baton_core::protocol::worker::io::{Effect, Input};
use baton_model::ids::{AttemptNo, LeaseId};
use baton_model::outcome::{AttemptStats, KillCause, Outcome, Report};
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Mono, Wall};

use super::{Event, World};
use crate::checkers::{Execution, outputs_of};
use crate::time::{MILLI, SECOND};

/// An attempt in the coordinator's log.
#[derive(Clone, Debug)]
pub(super) struct DiskRecord {
    pub(super) spec: Arc<InstanceSpec>,
    /// The start on the host's clock.
    pub(super) began: Mono,
    pub(super) ended: Option<Report>,
}

/// A live process tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    exit: i32,
    ignores_term: bool,
    killed_by: Option<KillCause>,
}

/// A live coordinator.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    pub(super) guard: DeadMan,
    pub(super) paused: bool,
    /// Commands that arrived while it was stopped.
    orders: Vec<Effect>,
    /// Children that ended while it was stopped.
    zombies: Vec<(LeaseId, Outcome)>,
}

impl World {
    pub(super) fn coordinator_command(&mut self, index: usize, command: Effect) {
        match &mut self.hosts[index].coordinator {
            Some(coordinator) if coordinator.paused => coordinator.orders.push(command),
            Some(_) => self.coordinator_execute(index, command),
            None => {}
        }
    }

    fn coordinator_execute(&mut self, index: usize, command: Effect) {
        match command {
            Effect::Launch(launch) => self.launch(index, launch.lease, launch.spec),
            Effect::Kill(lease, grace) => {
                self.terminate(index, lease, KillCause::Requested);
                self.kill_later(index, lease, grace);
            }
            Effect::KillAll(cause, grace) => {
                let now = self.hosts[index].clock.mono(self.now);
                if let Some(coordinator) = &mut self.hosts[index].coordinator {
                    coordinator.guard.fire(now, grace);
                }
                self.terminate_all(index, cause);
            }
            Effect::Guard(order) => {
                if let Some(coordinator) = &mut self.hosts[index].coordinator {
                    coordinator.guard.extend(order);
                }
            }
            Effect::Forget(lease) => {
                self.hosts[index].records.remove(&lease);
                let wanted = self.still_wanted(lease);
                self.checkers.forgotten(lease, wanted);
            }
            Effect::Send(_) | Effect::RunCheck(_) | Effect::ReadLogs(..) | Effect::EndLife => {}
        }
        self.rearm_guard(index);
    }

    /// Whether the store (or, without one, the scheduler) still expects this attempt to run, or
    /// would run its instance again.
    fn still_wanted(&self, lease: LeaseId) -> bool {
        let instance = self.store.ledger.instance(lease.attempt.instance);
        match instance {
            None => !self.is_durable(),
            Some(it) => match &it.lease {
                Some(open) => open.id == lease,
                // Without a store, a scheduler that never leased the instance must still ask about it.
                None => {
                    let untouched = it.attempts == AttemptNo(0) && !it.state.is_terminal();
                    !self.is_durable() && untouched
                }
            },
        }
    }

    fn launch(&mut self, index: usize, lease: LeaseId, spec: Arc<InstanceSpec>) {
        let now = self.hosts[index].clock.mono(self.now);
        let admitted = self.hosts[index]
            .coordinator
            .as_ref()
            .is_some_and(|it| it.guard.admits(now));
        if !admitted {
            self.agent_input(index, Input::LaunchRefused(lease));
            return;
        }
        let calm_work = if self.calm {
            3 * SECOND
        } else {
            self.mix.work_max
        };
        let work = self.work_rng.within(MILLI, calm_work);
        let child = Child {
            exit: i32::from(self.work_rng.chance(self.mix.failing)),
            ignores_term: self.work_rng.chance(300),
            killed_by: None,
        };
        let leased = !self.is_durable() || self.store.ledger.open_lease(lease).is_some();
        let execution = Execution {
            host: index,
            exclusive: spec.exclusive,
            excused: self.hosts[index].excused,
            outcome: None,
        };
        self.note(&lease, || format!("h{index} starts {lease}"));
        self.checkers.started(lease, execution, leased);
        let host = &mut self.hosts[index];
        host.records.insert(
            lease,
            DiskRecord {
                spec,
                began: now,
                ended: None,
            },
        );
        host.children.insert(lease, child);
        self.at(work, Event::ChildEnds { host: index, lease });
        self.agent_input(index, Input::Launched(lease));
    }

    /// SIGTERM: most processes exit within two seconds, some never.
    fn terminate(&mut self, index: usize, lease: LeaseId, cause: KillCause) {
        let Some(child) = self.hosts[index].children.get_mut(&lease) else {
            return;
        };
        child.killed_by.get_or_insert(cause);
        if !child.ignores_term {
            let reaction = self.work_rng.below(2 * SECOND);
            self.at(reaction, Event::ChildTerminated { host: index, lease });
        }
    }

    fn terminate_all(&mut self, index: usize, cause: KillCause) {
        let all: Vec<LeaseId> = self.hosts[index].children.keys().copied().collect();
        for lease in all {
            self.terminate(index, lease, cause);
        }
    }

    fn kill_later(&mut self, index: usize, lease: LeaseId, grace: Millis) {
        let clock = &self.hosts[index].clock;
        let at = clock.when(clock.mono(self.now) + grace);
        self.at_time(at, Event::ChildKilled { host: index, lease });
    }

    /// A process ends by itself.
    pub(super) fn child_ends(&mut self, index: usize, lease: LeaseId) {
        if let Some(child) = self.hosts[index].children.get(&lease) {
            let outcome = match child.killed_by {
                Some(cause) => Outcome::Killed(cause),
                None => Outcome::Exited(child.exit),
            };
            self.child_dead(index, lease, outcome);
        }
    }

    /// A signal takes effect, if the process was sent one and still lives.
    pub(super) fn child_killed(&mut self, index: usize, lease: LeaseId) {
        let killed_by = self.hosts[index]
            .children
            .get(&lease)
            .and_then(|child| child.killed_by);
        if let Some(cause) = killed_by {
            self.child_dead(index, lease, Outcome::Killed(cause));
        }
    }

    fn child_dead(&mut self, index: usize, lease: LeaseId, outcome: Outcome) {
        self.note(&(lease, outcome), || {
            format!("h{index} {lease} ends: {outcome}")
        });
        self.hosts[index].children.remove(&lease);
        self.checkers.truth.end(lease, outcome);
        match &mut self.hosts[index].coordinator {
            Some(coordinator) if coordinator.paused => coordinator.zombies.push((lease, outcome)),
            Some(_) => self.record_end(index, lease, outcome),
            // Without a coordinator, the outcome is not recorded.
            None => {}
        }
    }

    fn record_end(&mut self, index: usize, lease: LeaseId, outcome: Outcome) {
        let now = self.hosts[index].clock.mono(self.now);
        if let Some(record) = self.hosts[index].records.get_mut(&lease) {
            // Wall times are only displayed, so they are omitted here.
            let ran = AttemptStats {
                started: Wall(0),
                ended: Wall(0),
                elapsed: now.since(record.began),
                cpu: Millis(0),
                memory_peak: 0,
            };
            let report = Report {
                outcome,
                stats: Some(ran),
                outputs: outputs_of(lease.attempt.instance, outcome),
            };
            record.ended = Some(report.clone());
            self.agent_input(index, Input::Ended(lease, report));
        }
    }

    pub(super) fn guard_wake(&mut self, index: usize) {
        if self.hosts[index].guard_wake != Some(self.now) {
            return;
        }
        self.hosts[index].guard_wake = None;
        self.guard_poll(index);
        self.rearm_guard(index);
    }

    pub(super) fn guard_poll(&mut self, index: usize) {
        let now = self.hosts[index].clock.mono(self.now);
        while let Some(action) = self.next_guard_action(index, now) {
            match action {
                GuardAction::Terminate => {
                    self.note(&index, || format!("h{index} dead-man timer fires"));
                    self.terminate_all(index, KillCause::LeaseLapsed);
                    self.agent_input(index, Input::GuardFired);
                }
                GuardAction::Kill => {
                    let all: Vec<LeaseId> = self.hosts[index].children.keys().copied().collect();
                    for lease in all {
                        self.child_killed(index, lease);
                    }
                }
            }
        }
    }

    fn next_guard_action(&mut self, index: usize, now: Mono) -> Option<GuardAction> {
        let coordinator = self.hosts[index].coordinator.as_mut()?;
        if coordinator.paused {
            return None;
        }
        coordinator.guard.poll(now)
    }

    pub(super) fn rearm_guard(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let awake = host
            .coordinator
            .as_ref()
            .filter(|coordinator| !coordinator.paused);
        let Some(due) = awake.and_then(|coordinator| coordinator.guard.next_due()) else {
            return;
        };
        let at = host.clock.when(due).max(self.now.after(1));
        if host
            .guard_wake
            .is_none_or(|wake| wake > at || wake < self.now)
        {
            host.guard_wake = Some(at);
            self.at_time(at, Event::GuardWake(index));
        }
    }

    /// SIGSTOP: from now on only time ends the host's work, and a stopped coordinator cannot
    /// watch the time.
    pub(super) fn coordinator_pause(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        coordinator.paused = true;
        self.hosts[index].excused = true;
        self.checkers.truth.excuse_host(index);
        self.note(&index, || format!("h{index} coordinator is stopped"));
    }

    pub(super) fn coordinator_resume(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        if !coordinator.paused {
            return;
        }
        coordinator.paused = false;
        let zombies = std::mem::take(&mut coordinator.zombies);
        let orders = std::mem::take(&mut coordinator.orders);
        self.note(&index, || format!("h{index} coordinator continues"));
        // The timer first: a queued command must not overtake it.
        self.guard_poll(index);
        for (lease, outcome) in zombies {
            self.record_end(index, lease, outcome);
        }
        for order in orders {
            self.coordinator_command(index, order);
        }
        self.rearm_guard(index);
    }

    /// SIGKILL to a coordinator.
    pub(super) fn coordinator_crash(&mut self, index: usize) {
        let Some(old) = self.hosts[index].coordinator.take() else {
            return;
        };
        self.note(&index, || format!("h{index} coordinator is killed"));
        if self.hosts[index].agent.is_none() {
            self.at(self.now.0 % (8 * SECOND), Event::AgentStart(index));
            return;
        }
        self.hosts[index].coordinator = Some(Coordinator {
            guard: old.guard,
            ..Default::default()
        });
        for (lease, outcome) in old.zombies {
            self.record_end(index, lease, outcome);
        }
        // The timer first, then the commands that the agent repeats.
        self.guard_poll(index);
        for order in old.orders {
            self.coordinator_command(index, order);
        }
        self.rearm_guard(index);
    }
}
