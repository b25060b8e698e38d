//! Clients that submit and cancel instances, and the operator, who confirms that machines are
//! gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::Range;
use baton_core::scheduler::Input;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, InstanceId, Lineage, RequestId};
use baton_model::placement::ResourceRequest;
use baton_model::spec::{Exclusive, InstanceSpec, RetryBackoff, RetryBudget, Scale};
use baton_model::task::Resources;
use baton_model::time::Millis;

use super::{Event, SAFETY_PHASE, World};
use crate::rng::Rng;
use crate::swarm::Mix;
use crate::time::{SECOND, Time};

/// The interval between two rounds of the clients.
const ROUND: u64 = 5 * SECOND;

/// An instance that a client submits.
#[derive(Debug)]
struct PlannedInstance {
    spec: Arc<InstanceSpec>,
    from: Time,
    acknowledged: bool,
    cancel_at: Option<Time>,
    ended: bool,
}

/// The clients and the operator.
#[derive(Debug)]
pub(super) struct Client {
    planned: BTreeMap<InstanceId, PlannedInstance>,
    open: BTreeMap<RequestId, Vec<InstanceId>>,
    last_request: RequestId,
    /// Without a store: the epoch of the scheduler that got every submission again.
    resubmitted_to: Option<Epoch>,
}

impl Client {
    pub(super) fn new(mix: &Mix, rng: &mut Rng) -> Self {
        let mut planned: BTreeMap<_, _> = (1..=u64::from(mix.instances))
            .map(|id| {
                let strict = rng.chance(mix.strict);
                let spec = InstanceSpec {
                    owner: format!("owner{}", rng.below(3)),
                    request: resource_request(rng),
                    exclusive: if strict {
                        Exclusive::Strict
                    } else {
                        Exclusive::Timed
                    },
                    retry: RetryBudget {
                        failures_max: 2,
                        losses_max: 1_000,
                        backoff: RetryBackoff {
                            first: Millis(rng.below(2_000)),
                            max: Millis(3_000),
                        },
                        scale: Scale::default(),
                        fallback: Vec::new(),
                    },
                    ..InstanceSpec::default()
                };
                let from = Time(rng.below(SAFETY_PHASE * 9 / 10));
                let cancel_at = rng
                    .chance(mix.cancelled)
                    .then(|| from.after(rng.below(120 * SECOND)));
                let entry = PlannedInstance {
                    spec: Arc::new(spec),
                    from,
                    acknowledged: false,
                    cancel_at,
                    ended: false,
                };
                (InstanceId(id), entry)
            })
            .collect();
        if let (true, Some(mut last)) = (mix.runs > 0, planned.last_entry()) {
            last.get_mut().from = Time(0);
        }
        Self {
            planned,
            open: BTreeMap::new(),
            last_request: RequestId(0),
            resubmitted_to: None,
        }
    }

    /// Instances of runs get the ids after all known ones: once the last planned instance is
    /// known, the two never overlap.
    pub(super) fn run_ids_are_disjoint(&self) -> bool {
        let last = self.planned.last_key_value();
        last.is_none_or(|(_, entry)| entry.acknowledged || entry.ended)
    }

    pub(super) const fn new_request(&mut self) -> RequestId {
        self.last_request = self.last_request.next();
        self.last_request
    }

    /// Observes a fact of the history.
    pub(super) fn observe(&mut self, fact: &Fact) {
        let ended = match fact {
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                lease.attempt.instance
            }
            Fact::InstancesHalted { first, .. } => *first,
            _ => return,
        };
        if let Some(entry) = self.planned.get_mut(&ended) {
            entry.ended = true;
        }
    }
}

/// Draws a request between nothing and the capacity of the smallest worker.
fn resource_request(rng: &mut Rng) -> ResourceRequest {
    let request = Resources {
        cpu_milli: 250 * rng.below(5),
        ..Resources::default()
    };
    ResourceRequest {
        resources: request,
        ..ResourceRequest::default()
    }
}

impl World {
    pub(super) fn client_wake(&mut self) {
        self.at(ROUND, Event::ClientWake);
        self.client_round();
    }

    pub(super) fn client_round(&mut self) {
        let Some((leader, core)) = self.leader() else {
            return;
        };
        let epoch = core.epoch();
        if !self.is_durable() && self.client.resubmitted_to != Some(epoch) {
            // A scheduler without a store needs every submission again.
            self.client.resubmitted_to = Some(epoch);
            for entry in self.client.planned.values_mut() {
                entry.acknowledged = false;
            }
        }
        self.submit_due(leader);
        self.cancel_due(leader);
        self.operate(leader);
        self.workflows_round();
    }

    fn submit_due(&mut self, leader: usize) {
        let now = self.now;
        let due: Vec<_> = self
            .client
            .planned
            .iter()
            .filter(|(_, entry)| !entry.acknowledged && !entry.ended && entry.from <= now)
            .map(|(id, entry)| Range::one(*id, Arc::clone(&entry.spec)))
            .collect();
        if due.is_empty() {
            return;
        }
        let request = self.client.new_request();
        let ids = due.iter().map(|range| range.first).collect();
        self.client.open.insert(request, ids);
        self.scheduler_input(
            leader,
            Input::Submit {
                request,
                ranges: due,
            },
        );
    }

    pub(super) fn submission_acknowledged(&mut self, request: RequestId) {
        for instance in self.client.open.remove(&request).unwrap_or_default() {
            let known = self.store.ledger.known().contains(instance);
            self.checkers.submission_acknowledged(instance, known);
            if let Some(entry) = self.client.planned.get_mut(&instance) {
                entry.acknowledged = true;
            }
        }
    }

    fn cancel_due(&mut self, leader: usize) {
        let now = self.now;
        let due: Vec<InstanceId> = self
            .client
            .planned
            .iter()
            .filter(|(_, entry)| entry.acknowledged && !entry.ended)
            .filter(|(_, entry)| entry.cancel_at.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for instance in due {
            let request = self.client.new_request();
            let (first, last) = (instance, instance);
            self.scheduler_input(
                leader,
                Input::Cancel {
                    request,
                    first,
                    last,
                },
            );
        }
    }

    /// The operator knows which machines are gone for good, verifies that nothing runs there, and
    /// forgets the workers that still hold a lease.
    fn operate(&mut self, leader: usize) {
        let Some((_, core)) = self.leader() else {
            return;
        };
        let gone = |lineage| {
            let index = self.by_lineage[&lineage];
            let host = &self.hosts[index];
            (host.destroyed || self.links.is_severed(index)) && host.children.is_empty()
        };
        let forgotten: BTreeSet<Lineage> = core
            .ledger()
            .open_leases()
            .map(|lease| lease.holder.incarnation.lineage)
            .filter(|lineage| gone(*lineage))
            .collect();
        for lineage in forgotten {
            self.scheduler_input(leader, Input::Forget(lineage));
        }
    }

    /// True when everything submitted has ended and nothing is left over.
    pub(super) fn is_settled(&self) -> bool {
        self.client.planned.values().all(|entry| entry.ended)
            && self.unfinished_run().is_none()
            && self
                .leader()
                .is_some_and(|(_, core)| core.ledger().is_settled())
            && self.workers_hold_nothing()
            && self.workers_are_healthy()
    }

    pub(super) fn check_end(&mut self) {
        let stuck = self
            .client
            .planned
            .iter()
            .find(|(_, entry)| !entry.ended)
            .map(|(id, _)| *id);
        if let Some(id) = stuck {
            let what = match self.leader() {
                None => format!("{id} has not ended: there is no leader"),
                Some((_, core)) => format!("{id} has not ended: {:?}", core.ledger().find(id)),
            };
            return self.checkers.violate("stuck", what);
        }
        if let Some(what) = self.unfinished_run() {
            return self.checkers.violate("stuck", what);
        }
        if let Some(lease) = self.checkers.truth.any_live() {
            return self
                .checkers
                .violate("diverged", format!("{lease} is still alive"));
        }
        if !self.is_settled() {
            let held: Vec<_> = self
                .hosts
                .iter()
                .filter(|host| !host.destroyed)
                .map(|host| {
                    let agent = host.agent.as_ref();
                    let held = agent.map(|it| it.worker.held().collect::<Vec<_>>());
                    (
                        host.name.to_string(),
                        agent.map(|it| it.worker.state()),
                        held,
                    )
                })
                .collect();
            self.checkers
                .violate("diverged", format!("workers do not settle: {held:?}"));
        }
    }
}
