//! Reapers: the parents of coordinators.
//!
//! A reaper outlives its agent and its coordinators. It knows how the children of a dead
//! coordinator have ended, and kills everything when a lease has ended and no coordinator has done
//! so. An agent starts it and, when it dies, another; without any of the three the children run
//! unguarded until the service manager restarts the agent.

use baton_core::bugs::Bug;
use baton_core::protocol::worker::guard::Backstop;
use baton_core::protocol::worker::io::GuardOrder;
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::RunKey;

use super::{Event, World};
use crate::time::{SECOND, Time};

/// A live reaper.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    backstop: Backstop,
    wake: Option<Time>,
    /// Ends of children that had no coordinator.
    exits: Vec<(RunKey, Outcome)>,
}

impl World {
    /// The agent starts a reaper, if there is none, and tells it the order in force.
    pub(super) fn reaper_start(&mut self, index: usize, order: Option<GuardOrder>) {
        self.hosts[index].reaper.get_or_insert_default();
        self.reaper_guard(index, order);
    }

    pub(super) fn reaper_guard(&mut self, index: usize, order: Option<GuardOrder>) {
        let order = order.filter(|_| !self.config.bugs.has(Bug::DeadManAlone));
        if let Some(reaper) = &mut self.hosts[index].reaper {
            reaper.backstop.set(order);
        }
        self.rearm_reaper(index);
    }

    /// Keeps the end of a child without a coordinator.
    pub(super) fn reaper_keep(&mut self, index: usize, ended: &[(RunKey, Outcome)]) {
        if let Some(reaper) = &mut self.hosts[index].reaper {
            reaper.exits.extend_from_slice(ended);
        }
    }

    /// The ends that the agent has not been told.
    pub(super) fn reaper_exits(&mut self, index: usize) -> Vec<(RunKey, Outcome)> {
        let reaper = self.hosts[index].reaper.as_mut();
        reaper.map_or_else(Vec::new, |reaper| std::mem::take(&mut reaper.exits))
    }

    pub(super) fn reaper_wake(&mut self, index: usize) {
        let now = self.now;
        let reaper = self.hosts[index].reaper.as_mut();
        if let Some(reaper) = reaper.filter(|reaper| reaper.wake == Some(now)) {
            reaper.wake = None;
            self.reaper_poll(index);
        }
    }

    pub(super) fn reaper_poll(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let reaper = host.reaper.as_mut();
        if let Some(reaper) = reaper.filter(|reaper| reaper.backstop.is_due(now)) {
            let backstop = reaper.backstop;
            let mut past: Vec<LeaseId> = Vec::new();
            let mut ahead = Vec::new();
            for (lease, child) in &mut host.children {
                if backstop.is_past(now, child.term) {
                    child.killed_by.get_or_insert(KillCause::LeaseLapsed);
                    past.push(*lease);
                } else {
                    ahead.push(child.term);
                }
            }
            reaper.backstop.looked(now, 0, ahead);
            self.note(&index, || format!("h{index} reaper kills {}", past.len()));
            for lease in past {
                self.child_killed(index, lease);
            }
        }
        self.rearm_reaper(index);
    }

    fn rearm_reaper(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let Some(reaper) = &mut host.reaper else {
            return;
        };
        let Some(due) = reaper.backstop.next_due() else {
            return;
        };
        let at = host.clock.when(due).max(now.after(1));
        if reaper.wake.is_none_or(|wake| wake > at || wake < now) {
            reaper.wake = Some(at);
            self.at_time(at, Event::ReaperWake(index));
        }
    }

    /// SIGKILL to a reaper. An agent that runs starts another.
    pub(super) fn reaper_crash(&mut self, index: usize) {
        if self.hosts[index].reaper.take().is_none() {
            return;
        }
        self.note(&index, || format!("h{index} reaper is killed"));
        let host = &self.hosts[index];
        if host.agent_is_awake() {
            let order = host.guard_on_disk;
            return self.reaper_start(index, order);
        }
        match &host.coordinator {
            // No process watches the time.
            Some(coordinator) if coordinator.paused => self.excuse(index),
            Some(_) => {}
            None => self.at(self.now.0 % (8 * SECOND), Event::AgentStart(index)),
        }
    }

    /// From now on overlaps of this host's timed attempts are excused.
    pub(super) fn excuse(&mut self, index: usize) {
        self.hosts[index].excused = true;
        self.checkers.truth.excuse_host(index);
    }
}
