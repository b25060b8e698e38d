//! Holdings: the leases that each incarnation of a worker may be running, and until when.
//!
//! A holding outlives its seat: when a worker is displaced or replaced, what it
//! may still run keeps standing here until a proof or the end of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Incarnation, IncarnationNo, LeaseId, Lineage};
use baton_model::time::{Millis, Mono};

use super::context::Cx;
use super::{Protocol, Timer};
use crate::config::StoreMode;

/// The leases that one incarnation may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holding {
    pub(crate) holder: Holder,
    /// When it was last heard, at the latest.
    pub(crate) heard: Mono,
    /// When all its attempts are certainly dead on its host.
    pub(crate) expires: Mono,
    pub(crate) leases: BTreeSet<LeaseId>,
    /// When this leader first heard of the incarnation.
    pub(crate) since: Mono,
    /// True if it has reported its attempts. Until then, and until it has ended, it may
    /// be running any attempt, also after it was condemned.
    pub(crate) reported: bool,
}

/// All incarnations that may be running attempts, or that hold a seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holdings(pub(crate) BTreeMap<Incarnation, Holding>);

/// Every incarnation of one state directory, as a range of keys.
pub(super) fn incarnations_of(lineage: Lineage) -> RangeInclusive<Incarnation> {
    let incarnation = |number| Incarnation {
        lineage,
        number: IncarnationNo(number),
    };
    incarnation(0)..=incarnation(u64::MAX)
}

impl Holdings {
    /// The holding of an incarnation, created if it is new.
    pub(crate) fn of(&mut self, holder: &Holder, now: Mono, expires: Mono) -> &mut Holding {
        self.0.entry(holder.incarnation).or_insert_with(|| Holding {
            holder: holder.clone(),
            heard: now,
            expires,
            leases: BTreeSet::new(),
            since: now,
            reported: false,
        })
    }

    /// Removes a closed lease from every holding of its lineage.
    pub(crate) fn close(&mut self, granted_to: Incarnation, lease: LeaseId) {
        for (_, holding) in self.0.range_mut(incarnations_of(granted_to.lineage)) {
            if holding.leases.remove(&lease) {
                return;
            }
        }
    }

    /// The incarnations of the same state directory up to and including this one.
    pub(crate) fn lineage_up_to(&self, incarnation: Incarnation) -> Vec<Incarnation> {
        let from = Incarnation {
            number: IncarnationNo(0),
            ..incarnation
        };
        self.0
            .range(from..=incarnation)
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    /// Every known incarnation of a state directory.
    pub(crate) fn incarnations(&self, lineage: Lineage) -> Vec<Incarnation> {
        self.0
            .range(incarnations_of(lineage))
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    /// The leases of an incarnation.
    pub(crate) fn leases(&self, incarnation: Incarnation) -> Vec<LeaseId> {
        self.0
            .get(&incarnation)
            .map(|it| it.leases.iter().copied().collect())
            .unwrap_or_default()
    }
}

/// How long leases of earlier leaders may still be alive.
pub(super) fn inherited_for(cx: &Cx<'_>) -> Millis {
    let longest = cx.config.timeouts.lease().max(cx.ledger().lease_time());
    longest + cx.config.predecessor_grace
}

impl Protocol {
    /// Takes over the open leases of the leader before. It may have extended
    /// them until just before this epoch began, or for the grace of a predecessor after it, and by
    /// more than we would, so each runs for the longer of both lease times from then; nothing else has
    /// to wait.
    pub(super) fn inherit_leases(&mut self, cx: &Cx<'_>) {
        let mut expires = cx.now.mono + inherited_for(cx);
        self.timers.arm(Timer::Inherited, expires);
        if cx.config.bugs.has(crate::bugs::Bug::LeaseWaitSkipped) {
            expires = cx.now.mono;
        }
        for lease in cx.ledger().open_leases() {
            self.holdings
                .of(&lease.holder, cx.now.mono, expires)
                .leases
                .insert(lease.id);
        }
        for incarnation in self.holdings.0.keys() {
            self.timers.arm(Timer::Holding(*incarnation), expires);
        }
    }

    /// Records a longer lease time before a worker is promised it. Without a store it
    /// cannot be recorded: the initial wait of the next scheduler is long enough
    /// only if its lease time is not shorter than ours.
    pub(crate) fn raise_lease_time(&self, cx: &mut Cx<'_>) {
        let lease = cx.config.timeouts.lease();
        if cx.config.store == StoreMode::Durable && lease > cx.ledger().lease_time() {
            cx.commit(Fact::LeaseTimeSet { lease });
        }
    }

    /// The lease times promised by earlier leaders have run out: ours is in force.
    pub(super) fn inherited_ran_out(&self, cx: &mut Cx<'_>) {
        let lease = cx.config.timeouts.lease();
        if lease < cx.ledger().lease_time() {
            cx.commit(Fact::LeaseTimeSet { lease });
        }
    }
}
