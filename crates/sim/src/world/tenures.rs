//! Workers that end in order: lifetimes, idle exits and drains.
//!
//! Drawn from a stream of its own: they do not change other draws of a seed.

use baton_core::supervision::io::Event as AgentEvent;
use baton_core::supervision::lifetime::Lifetime;
use baton_model::message::LeaveCause;
use baton_model::spec::Warning;
use baton_model::time::{Millis, Mono};

use super::{Event, World};
use crate::rng::Rng;
use crate::swarm::FaultKind;
use crate::time::SECOND;

/// Seeds with workers that end in order, of a thousand.
const ENDING: u64 = 300;

/// The draws about workers that end in order.
#[derive(Debug)]
pub(super) struct Tenures {
    pub(super) rng: Rng,
    /// Workers of this seed do.
    pub(super) is_enabled: bool,
}

impl Tenures {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ (1 << 57));
        let is_enabled = rng.chance(ENDING);
        Self { rng, is_enabled }
    }
}

impl World {
    /// Lets some instances request time and warnings, and workers be told to end.
    pub(super) fn populate_tenures(&mut self) {
        if !self.tenure.is_enabled {
            return;
        }
        let rng = &mut self.tenure.rng;
        for spec in self.client.specs_mut() {
            let seconds = rng.pick(&[10, 30, 60, 120, 200]);
            let asks = rng.chance(400);
            spec.time_request = asks.then(|| Millis::from_secs(seconds));
            spec.warn = rng.chance(300).then_some(Warning {
                signal: 10,
                before: Millis::from_secs(5),
            });
        }
        let mean = 200 * SECOND;
        let first = self.tenure.rng.below(2 * mean);
        self.at(first, Event::Strike(FaultKind::WorkerLeaves, mean));
    }

    /// The lifetime of an incarnation that begins at this time of its clock. In the calm phase no
    /// worker ends by itself.
    pub(super) fn draw_lifetime(&mut self, now: Mono) -> Lifetime {
        if !self.tenure.is_enabled || self.calm {
            return Lifetime::default();
        }
        let rng = &mut self.tenure.rng;
        let drain_grace = Millis::from_secs(rng.pick(&[3, 10, 30]));
        let span = Millis::from_secs(rng.within(40, 300));
        let idle_exit = Millis::from_secs(rng.within(20, 120));
        Lifetime {
            until: rng.chance(500).then(|| now + span),
            idle_exit: rng.chance(200).then_some(idle_exit),
            drain_grace,
            drains: true,
        }
    }

    pub(super) fn worker_leaves(&mut self, host: usize) {
        let causes = [LeaveCause::Terminated, LeaveCause::Interrupted];
        let cause = self.tenure.rng.pick(&causes);
        self.note(&host, || format!("h{host} is told to end: {cause}"));
        let agent = self.hosts[host].agent.as_ref();
        let attempts = agent.map(|agent| agent.supervisor.attempts().iter());
        for attempt in attempts.into_iter().flatten() {
            self.checkers.signals.leave(attempt.assignment.lease);
        }
        self.agent_event(host, AgentEvent::Leave(cause));
    }
}
