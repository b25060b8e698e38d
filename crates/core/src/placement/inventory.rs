//! Workers, limits and fleets as a client sees them: whether a definition fits any of them.

use baton_model::fleet::{FleetName, FleetSpec};
use baton_model::ids::{InstanceId, WorkerName};
use baton_model::placement::{Offer, ResourceRequest};
use baton_model::spec::InstanceSpec;

use super::{Arrival, Demand, JobShape, Placement, PlacementError};
use crate::fleet::labelled;
use crate::limits::LimitKey;
use crate::wait::{Wait, WaitReason};

/// What there is to run work on. Nothing is ever placed on it.
#[derive(Debug, Default)]
pub struct Inventory {
    placement: Placement,
    fleets: Vec<(FleetName, FleetSpec)>,
}

impl Inventory {
    /// Adds a worker.
    ///
    /// # Errors
    /// [`PlacementError::TooManyWorkers`].
    pub fn add_worker(&mut self, name: &WorkerName, offer: Offer) -> Result<(), PlacementError> {
        self.placement.set_offer(name, offer)
    }

    /// Adds a limit of the cluster, whose resource no worker needs to have.
    ///
    /// # Errors
    /// [`PlacementError::TooManyLimits`].
    pub fn add_limit(&mut self, name: &str, total: u64) -> Result<(), PlacementError> {
        self.placement
            .set_limit(LimitKey::Named(name.to_owned()), Some(total))
    }

    pub fn add_fleet(&mut self, name: FleetName, spec: FleetSpec) {
        self.fleets.push((name, spec));
    }

    /// The reason for which none of these workers can ever run such an instance, and no worker of a
    /// fleet either; none if one can. That all are busy is no reason. A limit is one if its total is too small.
    pub fn misfit(&mut self, spec: &InstanceSpec) -> Option<Wait> {
        const INSTANCE: InstanceId = InstanceId(1);
        let request = ResourceRequest {
            resources: spec.resources(&[]),
            constraints: spec.request.constraints.clone(),
        };
        let arrival = Arrival {
            first: INSTANCE,
            last: INSTANCE,
            demand: Demand {
                request: &request,
                limits: &[],
                time: spec.time_needed(spec.timeout, &[]),
                nodes: spec.nodes.get(),
            },
            owner: &spec.owner,
            priority: 0,
            sequence: 0,
            task: None,
        };
        self.placement.enqueue(arrival).ok()?;
        let wait = self.placement.explain(INSTANCE);
        let exceeds = |wait: &Wait| match &wait.reason {
            WaitReason::Limit(reached) => reached.asked > reached.limit.total,
            _ => false,
        };
        if wait.as_ref().is_some_and(exceeds) {
            self.placement.withdraw(INSTANCE, INSTANCE);
            return wait;
        }
        let has_fleet = self.fleets.iter().any(|(name, spec)| {
            let shape = labelled(name, &spec.shape);
            let job = JobShape {
                worker: &shape,
                workers: spec.workers_per_job,
                time_limit: spec.time_limit,
            };
            self.placement.misfit(INSTANCE, job).is_none()
        });
        self.placement.withdraw(INSTANCE, INSTANCE);
        let lacks_worker =
            |wait: &Wait| matches!(wait.reason, WaitReason::NoWorker | WaitReason::Excluded(_));
        wait.filter(|wait| !has_fleet && lacks_worker(wait))
    }
}
