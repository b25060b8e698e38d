//! Which life of a worker may be running which leases, and until when.
//!
//! A holding outlives its seat: when a worker is displaced or replaced, what it
//! may still run keeps standing here until a proof or the end of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Incarnation, IncarnationNo, LeaseId, Lineage};
use baton_model::time::Mono;

use super::context::{Cx, StoreMode};
use super::{Protocol, Timer};

/// What one life may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holding {
    pub(crate) holder: Holder,
    /// When everything it was leased for certain is dead on its host.
    pub(crate) expires: Mono,
    pub(crate) leases: BTreeSet<LeaseId>,
    /// When this leader first heard of the life.
    pub(crate) since: Mono,
    /// Whether it has said what it runs. Until then, and until it is over, it may
    /// be running anything, also after it was condemned.
    pub(crate) reported: bool,
}

/// All lives that may be running something, or that hold a seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holdings(pub(crate) BTreeMap<Incarnation, Holding>);

/// Every life of one state directory, as a range of keys.
pub(super) fn lives_of(lineage: Lineage) -> RangeInclusive<Incarnation> {
    let life = |life| Incarnation {
        lineage,
        number: IncarnationNo(life),
    };
    life(0)..=life(u64::MAX)
}

impl Holdings {
    /// The holding of a life, made if it is new.
    pub(crate) fn of(&mut self, holder: &Holder, now: Mono, expires: Mono) -> &mut Holding {
        self.0.entry(holder.incarnation).or_insert_with(|| Holding {
            holder: holder.clone(),
            expires,
            leases: BTreeSet::new(),
            since: now,
            reported: false,
        })
    }

    /// Removes a closed lease from wherever it is held.
    pub(crate) fn close(&mut self, granted_to: Incarnation, lease: LeaseId) {
        for (_, holding) in self.0.range_mut(lives_of(granted_to.lineage)) {
            if holding.leases.remove(&lease) {
                return;
            }
        }
    }

    /// The lives of the same state directory up to and including `life`.
    pub(crate) fn lineage_up_to(&self, life: Incarnation) -> Vec<Incarnation> {
        let from = Incarnation {
            number: IncarnationNo(0),
            ..life
        };
        self.0
            .range(from..=life)
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    /// Every life of a state directory that is known here.
    pub(crate) fn lives(&self, lineage: Lineage) -> Vec<Incarnation> {
        self.0
            .range(lives_of(lineage))
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    /// The leases of a life.
    pub(crate) fn leases(&self, incarnation: Incarnation) -> Vec<LeaseId> {
        self.0
            .get(&incarnation)
            .map(|it| it.leases.iter().copied().collect())
            .unwrap_or_default()
    }
}

impl Protocol {
    /// Takes over the open leases of the leader before. It may have extended
    /// them until just before this epoch began, and by more than we would, so each
    /// runs for the longer of both lease times from now; nothing else has to wait.
    pub(super) fn inherit_leases(&mut self, cx: &Cx<'_>) {
        let longest = cx.config.timeouts.lease().max(cx.ledger.lease_time());
        let mut expires = cx.now.mono + longest;
        self.timers.arm(Timer::Inherited, expires);
        if cx.config.bugs.has(crate::bugs::Bug::LeaseWaitSkipped) {
            expires = cx.now.mono;
        }
        for lease in cx.ledger.open_leases() {
            self.holdings
                .of(&lease.holder, cx.now.mono, expires)
                .leases
                .insert(lease.id);
        }
        for incarnation in self.holdings.0.keys() {
            self.timers.arm(Timer::Holding(*incarnation), expires);
        }
    }

    /// A longer lease time is recorded before anybody is promised it. Without a
    /// store there is nobody to tell: the initial wait of a next scheduler is right
    /// only if its lease time is not shorter than ours.
    pub(crate) fn raise_lease_time(&self, cx: &mut Cx<'_>) {
        let lease = cx.config.timeouts.lease();
        if cx.config.store == StoreMode::Durable && lease > cx.ledger.lease_time() {
            cx.commit(Fact::LeaseTimeSet { lease });
        }
    }

    /// What leaders before us have promised has run out: ours is in force.
    pub(super) fn inherited_ran_out(&self, cx: &mut Cx<'_>) {
        let lease = cx.config.timeouts.lease();
        if lease < cx.ledger.lease_time() {
            cx.commit(Fact::LeaseTimeSet { lease });
        }
    }
}
