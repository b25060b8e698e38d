//! The dead-man timer of a simulated coordinator.

use baton_core::protocol::worker::guard::GuardAction;
use baton_core::supervision::io::Event as AgentEvent;
use baton_model::ids::LeaseId;
use baton_model::outcome::KillCause;
use baton_model::time::Mono;

use super::{Event, World};

impl World {
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
                GuardAction::Terminate(attempts) => {
                    for lease in attempts {
                        self.note(&lease, || format!("h{index} deadline of {lease}"));
                        self.refuse_waiting(index, lease);
                        self.terminate(index, lease, KillCause::LeaseLapsed);
                    }
                }
                GuardAction::Kill(attempts) => {
                    for lease in attempts {
                        self.child_killed(index, lease);
                    }
                }
            }
        }
    }

    /// An attempt whose deadline has passed while it waited is not started.
    fn refuse_waiting(&mut self, index: usize, lease: LeaseId) {
        let coordinator = self.hosts[index].coordinator.as_ref();
        let mut waiting = coordinator.into_iter().flat_map(|it| it.queue.iter());
        let run = waiting
            .find(|(_, it)| it.lease == lease)
            .map(|(run, _)| *run);
        if let Some(run) = run
            && self.unqueue(index, run)
        {
            self.hosts[index].records.remove(&run);
            self.agent_event(index, AgentEvent::Refused(run));
        }
    }

    fn next_guard_action(&mut self, index: usize, now: Mono) -> Option<GuardAction<LeaseId>> {
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
}
