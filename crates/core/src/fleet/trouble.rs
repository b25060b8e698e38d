//! The slow trials of a failing fleet, and the nodes that it avoids.

use baton_model::fleet::{Fleet, FleetJob};
use baton_model::time::{Millis, Mono, Wall};

use super::Scene;
use super::limits::{
    NODE_AVOIDED_FOR, NODE_FAILURES_MAX, NODES_AVOIDED_MAX, RECOVERED_AFTER, TRIAL_PAUSE,
    TRIAL_PAUSE_MAX,
};
use super::watch::Controller;

impl Controller {
    /// Notes when the last failure was, by this leader's clock.
    pub(super) fn note_trouble(&mut self, scene: &Scene<'_>, fleet: &Fleet) {
        let trouble = &fleet.trouble;
        let watch = self.fleet(&fleet.name);
        if trouble.failures == 0 {
            watch.failed = None;
        } else if watch
            .failed
            .is_none_or(|(known, _)| known != trouble.failures)
        {
            let ago = trouble
                .last
                .map_or(Millis(0), |last| scene.now.wall.since(last));
            let at = Mono(scene.now.mono.0.saturating_sub(ago.0));
            watch.failed = Some((trouble.failures, at));
        }
    }

    /// When a failing fleet may request its next job; none if it is well.
    pub(super) fn next_trial(&self, scene: &Scene<'_>, fleet: &Fleet) -> Option<Mono> {
        let (failures, at) = self.fleets.get(&fleet.name)?.failed?;
        let mut jobs = scene.fleets.jobs_of(&fleet.name);
        if jobs.any(|job| self.proves_recovery(scene, fleet, job)) {
            return None;
        }
        let doubled = TRIAL_PAUSE.0.checked_shl(failures - 1);
        let pause = Millis(doubled.unwrap_or(u64::MAX)).min(TRIAL_PAUSE_MAX);
        let pause = if failures > 32 {
            TRIAL_PAUSE_MAX
        } else {
            pause
        };
        Some(at + pause)
    }

    /// Whether a job has worked for a while since the last failure.
    fn proves_recovery(&self, scene: &Scene<'_>, fleet: &Fleet, job: &FleetJob) -> bool {
        let came = self.jobs.get(&job.id).and_then(|it| it.first_came);
        came.is_some_and(|came| scene.now.mono.since(came) >= RECOVERED_AFTER)
            && !scene.pilots_of(job.id).is_empty()
            && job.arrived_at > fleet.trouble.last
    }
}

/// Nodes that the next job avoids. If many nodes fail and no job succeeds, the nodes are not the cause, and none is
/// avoided: otherwise the fleet would exclude its whole cluster.
pub(super) fn avoided(fleet: &Fleet, now: Wall) -> Vec<String> {
    let nodes = fleet.trouble.nodes.iter();
    let bad = nodes.filter(|(_, it)| {
        it.failures >= NODE_FAILURES_MAX && now.since(it.last) < NODE_AVOIDED_FOR
    });
    let bad: Vec<String> = bad.map(|(name, _)| name.clone()).collect();
    if bad.len() > NODES_AVOIDED_MAX {
        return Vec::new();
    }
    bad
}
