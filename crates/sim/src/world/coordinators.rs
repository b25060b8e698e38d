//! Coordinators: when they take turns, stop, die and are replaced. The host in them is the real one.

use baton_model::coordinator::Reply;

use super::hosts::Host;
use super::{Event, World};
use crate::machine::coordinator::{Coordinator as Process, Machine, Turned};
use crate::machine::processes::Parent;
use crate::time::{MILLI, SECOND, Time};

/// Deaths in the middle of a turn, of a thousand.
const DIES_WITHIN: u64 = 700;

/// A live coordinator.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) process: Process,
    pub(super) paused: bool,
    /// It kills processes until then, and does nothing else meanwhile.
    busy_until: Time,
}

impl Coordinator {
    pub(super) const fn new(process: Process) -> Self {
        Self {
            process,
            paused: false,
            busy_until: Time(0),
        }
    }
}

impl Host {
    /// The machine, for a turn of its coordinator.
    pub(super) fn machine(&mut self, now: Time) -> (Option<&mut Coordinator>, Machine<'_>) {
        let machine = Machine {
            now: self.clock.read(now),
            boot: self.boot,
            processes: &mut self.processes,
            disk: &mut self.disk,
            launches_fail: self.launches_fail,
            tells_statuses: self.tells_statuses,
        };
        (self.coordinator.as_mut(), machine)
    }
}

impl World {
    /// Lets a coordinator take its turn by then.
    pub(super) fn wake_coordinator(&mut self, index: usize, at: Time) {
        let host = &mut self.hosts[index];
        let Some(coordinator) = &host.coordinator else {
            return;
        };
        let at = at.max(coordinator.busy_until);
        let is_late = |wake: Time| wake > at || wake < self.now;
        if host.coordinator_wake.is_none_or(is_late) {
            host.coordinator_wake = Some(at);
            self.at_time(at, Event::CoordinatorWake(index));
        }
    }

    pub(super) fn coordinator_wake(&mut self, index: usize) {
        if self.hosts[index].coordinator_wake == Some(self.now) {
            self.hosts[index].coordinator_wake = None;
            self.coordinator_turn(index);
        }
    }

    /// One turn of a coordinator, unless it is stopped or busy.
    pub(super) fn coordinator_turn(&mut self, index: usize) {
        self.note_overdue(index);
        let now = self.now;
        let (coordinator, mut machine) = self.hosts[index].machine(now);
        let Some(coordinator) = coordinator.filter(|it| !it.paused) else {
            return;
        };
        if coordinator.busy_until > now {
            let until = coordinator.busy_until;
            return self.wake_coordinator(index, until);
        }
        let turned = coordinator.process.turn(&mut machine);
        self.coordinator_turned(index, turned);
    }

    pub(super) fn coordinator_turned(&mut self, index: usize, turned: Turned) {
        self.processes_changed(index);
        if turned.has_killed {
            let span = self.host_rng.below(SECOND);
            let until = self.now.after(span);
            if let Some(coordinator) = &mut self.hosts[index].coordinator {
                coordinator.busy_until = until;
            }
        }
        for reply in turned.replies {
            self.agent_inbox(index, Some(reply));
        }
        if turned.is_gone {
            self.coordinator_gone(index);
        } else {
            self.rearm_coordinator(index);
        }
    }

    /// Schedules the next turn.
    pub(super) fn rearm_coordinator(&mut self, index: usize) {
        let now = self.now;
        let (coordinator, mut machine) = self.hosts[index].machine(now);
        let Some(coordinator) = coordinator.filter(|it| !it.paused) else {
            return;
        };
        let due = coordinator.process.next_due(&mut machine);
        let is_ready =
            coordinator.process.has_requests() && !coordinator.process.host().is_killing();
        let due = due.map(|due| self.hosts[index].clock.when(due));
        let next = due.into_iter().chain(is_ready.then_some(now)).min();
        if let Some(next) = next {
            self.wake_coordinator(index, next.max(now.after(1)));
        }
    }

    /// A process has ended: its parent reaps it.
    pub(super) fn child_ended(&mut self, index: usize, ticks: u64) {
        let coordinator = self.hosts[index].coordinator.as_ref();
        let is_held = coordinator.is_some_and(|it| it.process.holds(ticks));
        self.reap_children(index);
        let children = self.hosts[index].processes.zombies_of(Parent::Coordinator);
        if is_held || !children.is_empty() {
            let span = self.host_rng.below(MILLI);
            self.wake_coordinator(index, self.now.after(span));
        }
    }

    /// SIGSTOP: a stopped coordinator cannot watch the time, only the reaper can.
    pub(super) fn coordinator_pause(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        coordinator.paused = true;
        if self.hosts[index].reaper.is_none() {
            self.excuse(index);
        }
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
        self.note(&index, || format!("h{index} coordinator continues"));
        self.coordinator_turn(index);
    }

    /// SIGKILL to a coordinator, between two turns or in the middle of one.
    pub(super) fn coordinator_crash(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        if !coordinator.paused && self.host_rng.chance(DIES_WITHIN) {
            let fuse = self.host_rng.below(6) as u32;
            return coordinator.process.light_fuse(fuse);
        }
        self.coordinator_gone(index);
    }

    /// A coordinator is dead: its children get another parent, and its agent notices.
    pub(super) fn coordinator_gone(&mut self, index: usize) {
        self.note(&index, || format!("h{index} coordinator is gone"));
        let host = &mut self.hosts[index];
        host.coordinator = None;
        let heir = host.heir();
        host.processes.reparent(Parent::Coordinator, heir);
        self.reap_children(index);
        let host = &self.hosts[index];
        if host.agent.is_some() {
            if !host.agent_is_awake() && host.reaper.is_none() {
                // No process watches the time.
                self.excuse(index);
            }
            self.agent_inbox(index, None);
        } else if host.reaper.is_none() {
            self.at(self.now.0 % (8 * SECOND), Event::AgentStart(index));
        }
    }

    /// The reaper reaps its children at once, and so does an agent that is not stopped.
    pub(super) fn reap_children(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if let Some(reaper) = &mut host.reaper {
            for (pid, _) in host.processes.zombies_of(Parent::Reaper) {
                if let Some((ticks, status)) = host.processes.reap(pid) {
                    reaper.keep(pid, ticks, status);
                }
            }
        }
        if host.agent_is_awake() {
            for (pid, _) in host.processes.zombies_of(Parent::Agent) {
                if let Some((ticks, status)) = host.processes.reap(pid) {
                    host.exits.insert((pid, ticks), status);
                }
            }
        }
    }

    /// The next agent cannot reach a stopped coordinator, and kills it.
    pub(super) fn kill_stopped_coordinator(&mut self, index: usize) {
        let coordinator = self.hosts[index].coordinator.as_ref();
        if coordinator.is_some_and(|it| it.paused) {
            self.coordinator_gone(index);
        }
    }

    /// A reply, or the end of the connection, is on its way to the agent.
    pub(super) fn agent_inbox(&mut self, index: usize, reply: Option<Reply>) {
        let span = self.draw_latency();
        let at = self.now.after(span);
        if let Some(agent) = &mut self.hosts[index].agent {
            agent.inbox.push_back(reply);
            self.at_time(at, Event::AgentReads(index));
        }
    }

    /// The time that a message between an agent and its coordinator takes.
    pub(super) fn draw_latency(&mut self) -> u64 {
        let longest = if self.host_rng.chance(50) { 200 } else { 1 };
        self.host_rng.below(longest * MILLI)
    }
}
