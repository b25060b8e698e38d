//! Hosts that sleep: their processes stop, and their clock goes on.
//!
//! A sleeping process has no effects, so the scheduler may give up its lease and place the work
//! elsewhere. When the host resumes, everything that has outlived its lease must be dead before the
//! host reports or starts anything.

use baton_core::bugs::Bug;
use baton_core::supervision::io::Event as AgentEvent;

use super::{Event, World};
use crate::time::{Micros, Time};

/// The time that a host sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    since: Time,
    until: Time,
}

impl World {
    /// Suspends a host. Unless a coordinator that is not stopped, or a reaper, watches the time,
    /// it counts as frozen, which is a fault of its own.
    pub(super) fn suspend(&mut self, index: usize, span: Micros) {
        let host = &mut self.hosts[index];
        let is_unwatched = host.coordinator.as_ref().is_none_or(|it| it.paused);
        if is_unwatched && host.reaper.is_none() {
            return;
        }
        let until = self.now.after(span);
        host.sleep = Some(Sleep {
            since: self.now,
            until,
        });
        self.checkers.truth.suspend_host(index);
        self.note(&(index, span), || format!("h{index} sleeps"));
        self.at_time(until, Event::HostResume(index));
    }

    /// When an event on a sleeping host happens instead: a process continues where it was stopped,
    /// and everything else happens right after the resume.
    pub(super) fn deferral(&self, event: &Event) -> Option<Time> {
        let (host, is_process) = match event {
            Event::ProcessEnds { host, .. }
            | Event::ProcessTerminated { host, .. }
            | Event::RunnerKills { host, .. } => (*host, true),
            Event::ToHost { host, .. }
            | Event::AgentWake(host)
            | Event::AgentStart(host)
            | Event::AgentResume(host)
            | Event::AgentReads(host)
            | Event::CoordinatorWake(host)
            | Event::ReaperWake(host)
            | Event::CoordinatorResume(host)
            | Event::RunnerDies { host, .. }
            | Event::CrashAgain { host, .. } => (*host, false),
            _ => return None,
        };
        let sleep = self.hosts[host].sleep?;
        let progress = self.now.0 - sleep.since.0;
        Some(if is_process {
            sleep.until.after(progress)
        } else {
            sleep.until
        })
    }

    /// Resumes a host: the coordinator's timer and the agent's are due at once.
    pub(super) fn host_resume(&mut self, index: usize) {
        let Some(sleep) = self.hosts[index].sleep.take() else {
            return;
        };
        self.note(&index, || format!("h{index} resumes"));
        if self.config.bugs.has(Bug::ClockStandsStill) {
            let slept = self.now.0 - sleep.since.0;
            self.hosts[index].clock.stand_still(slept);
        }
        let agent_first = self.fault_rng.chance(500);
        if agent_first {
            self.agent_event(index, AgentEvent::Tick);
        }
        self.coordinator_turn(index);
        self.reaper_poll(index);
        if !agent_first {
            self.agent_event(index, AgentEvent::Tick);
        }
        self.checkers.host_resumed(index);
    }
}
