//! Reapers: the parents of coordinators.
//!
//! A reaper outlives its agent and its coordinators. It knows how the children of a dead
//! coordinator have ended, and kills everything when a lease has ended and no coordinator has done
//! so. An agent starts it and, when it dies, another; without any of the three the children run
//! unguarded until the service manager restarts the agent.

use std::collections::BTreeMap;

use baton_core::bugs::Bug;
use baton_core::host::kernel::SIGKILL;
use baton_core::protocol::worker::guard::Backstop;
use baton_core::protocol::worker::io::GuardOrder;
use baton_model::outcome::{ExitStatus, KillCause};

use super::{Event, World};
use crate::machine::processes::Parent;
use crate::time::{SECOND, Time};

/// A live reaper.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    backstop: Backstop,
    wake: Option<Time>,
    /// Exit statuses of its children that no agent has taken, by pid and start time.
    exits: BTreeMap<(u32, u64), ExitStatus>,
}

impl Reaper {
    /// Keeps the exit status of a child.
    pub(super) fn keep(&mut self, pid: u32, ticks: u64, status: ExitStatus) {
        self.exits.insert((pid, ticks), status);
    }

    /// The exit statuses that no agent has taken.
    pub(super) fn take_exits(&mut self) -> BTreeMap<(u32, u64), ExitStatus> {
        std::mem::take(&mut self.exits)
    }
}

impl World {
    /// The agent starts a reaper, if there is none. One that is found keeps its order.
    pub(super) fn reaper_start(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.reaper.is_none() {
            host.reaper = Some(Reaper::default());
            let order = host.agent.as_ref().and_then(|agent| agent.guard);
            self.reaper_guard(index, order);
        }
    }

    pub(super) fn reaper_guard(&mut self, index: usize, order: Option<GuardOrder>) {
        let order = order.filter(|_| !self.config.bugs.has(Bug::DeadManAlone));
        if let Some(reaper) = &mut self.hosts[index].reaper {
            reaper.backstop.set(order);
        }
        self.rearm_reaper(index);
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
            // It knows its worker's processes by their mark.
            let processes = host.processes.living().filter(|(_, it)| it.mark.is_some());
            let (past, ahead): (Vec<_>, Vec<_>) =
                processes.partition(|(_, it)| backstop.is_past(now, it.term));
            let past: Vec<(u32, u64)> = past
                .into_iter()
                .map(|(pid, it)| (pid, it.start_ticks))
                .collect();
            let ahead: Vec<_> = ahead.into_iter().map(|(_, it)| it.term).collect();
            reaper.backstop.looked(now, 0, ahead);
            self.note(&index, || format!("h{index} reaper kills {}", past.len()));
            for (pid, ticks) in past {
                let host = &mut self.hosts[index];
                if let Some(lease) = host.workload.lease_of(ticks) {
                    self.checkers.signals.kill(lease, KillCause::LeaseLapsed);
                }
                host.processes.end(pid, ExitStatus::Signal(SIGKILL));
            }
            self.processes_changed(index);
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
        let host = &mut self.hosts[index];
        let heir = host.heir();
        host.processes.reparent(Parent::Reaper, heir);
        self.reap_children(index);
        let host = &self.hosts[index];
        if host.agent_is_awake() {
            return self.reaper_start(index);
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
