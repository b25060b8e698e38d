//! Holdings: the leases that each incarnation of a worker may be running, and until when.
//!
//! A holding outlives its seat: when a worker is displaced or replaced, what it
//! may still run keeps standing here until a proof or the end of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{Incarnation, IncarnationNo, LeaseId, Lineage};
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

use super::context::Cx;
use super::{Protocol, Timer};
use crate::config::StoreMode;

/// The leases that one incarnation may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holding {
    pub(crate) holder: Holder,
    /// When it was last heard, at the latest.
    pub(crate) heard: Mono,
    /// When its leases were last extended, at the latest: their terms count from then.
    pub(crate) extended: Mono,
    /// When its attempts without a time of their own are certainly dead on its host.
    pub(crate) expires: Mono,
    pub(crate) leases: BTreeSet<LeaseId>,
    /// Leases of others, of gangs of which it is a member: it is held until they are closed, and while it is
    /// lost it runs nothing of them.
    pub(crate) member_of: BTreeSet<LeaseId>,
    /// No lease of it has a shorter term.
    pub(crate) shortest: Millis,
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

impl Holding {
    /// When an attempt of this term is certainly dead; `None` if only a proof ends it.
    pub(crate) fn expiry(&self, term: LeaseTerm) -> Option<Mono> {
        match term {
            LeaseTerm::Lease => Some(self.expires),
            LeaseTerm::For(span) => Some(self.extended + span),
            LeaseTerm::Unlimited => None,
        }
    }

    /// Adds a lease with this term.
    pub(crate) fn add(&mut self, lease: LeaseId, term: LeaseTerm) {
        self.leases.insert(lease);
        self.shorten(term);
    }

    /// Adds a lease of this term, of a gang of which it is a member.
    pub(crate) fn join(&mut self, lease: LeaseId, term: LeaseTerm) {
        self.member_of.insert(lease);
        self.shorten(term);
    }

    fn shorten(&mut self, term: LeaseTerm) {
        if let LeaseTerm::For(span) = term {
            self.shortest = self.shortest.min(span);
        }
    }
}

impl Holdings {
    /// The holding of an incarnation, created if it is new.
    pub(crate) fn of(&mut self, holder: &Holder, now: Mono, expires: Mono) -> &mut Holding {
        self.0.entry(holder.incarnation).or_insert_with(|| Holding {
            holder: holder.clone(),
            heard: now,
            extended: now,
            expires,
            leases: BTreeSet::new(),
            member_of: BTreeSet::new(),
            shortest: expires.since(now),
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

    /// Frees the members of a closed lease.
    pub(crate) fn free(&mut self, others: &[Holder], lease: LeaseId) {
        for member in others {
            if let Some(holding) = self.0.get_mut(&member.incarnation) {
                holding.member_of.remove(&lease);
            }
        }
    }

    /// How many attempts it holds, and for how many of others it is held.
    pub(crate) fn load(&self, incarnation: Incarnation) -> (u32, u32) {
        let count = |set: &BTreeSet<LeaseId>| u32::try_from(set.len()).unwrap_or(u32::MAX);
        let holding = self.0.get(&incarnation);
        holding.map_or((0, 0), |it| (count(&it.leases), count(&it.member_of)))
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

/// How long leases of earlier leaders without a time of their own may still be alive.
pub(super) fn inherited_for(cx: &Cx<'_>) -> Millis {
    let longest = cx.config.timeouts.lease().max(cx.ledger().lease_time());
    longest + cx.config.predecessor_grace
}

/// The term of an open lease. Without a store all have the same: the initial wait of the next
/// scheduler is as long.
pub(super) fn term_of(cx: &Cx<'_>, lease: LeaseId) -> LeaseTerm {
    if cx.config.store == StoreMode::Memory {
        return LeaseTerm::Lease;
    }
    let instance = cx.ledger().instance(lease.attempt.instance);
    let term = instance.map_or(LeaseTerm::Unlimited, |it| LeaseTerm::of(&it.spec));
    if term == LeaseTerm::Unlimited && seeded!(cx.config.bugs, StrictByTime) {
        return LeaseTerm::Lease;
    }
    term
}

impl Protocol {
    /// Takes over the open leases of the leader before. It may have extended
    /// them until just before this epoch began, or for the grace of a predecessor after it, and by
    /// more than we would, so each runs for its own term, or the longer of both lease times, from then;
    /// nothing else has to wait.
    pub(super) fn inherit_leases(&mut self, cx: &Cx<'_>) {
        let mut expires = cx.now.mono + inherited_for(cx);
        self.timers.arm(Timer::Inherited, expires);
        if seeded!(cx.config.bugs, LeaseWaitSkipped) {
            expires = cx.now.mono;
        }
        for lease in cx.ledger().open_leases() {
            let holding = self.holdings.of(&lease.holder, cx.now.mono, expires);
            holding.extended = cx.now.mono + cx.config.predecessor_grace;
            holding.add(lease.id, term_of(cx, lease.id));
            for member in lease.others() {
                let holding = self.holdings.of(member, cx.now.mono, expires);
                holding.extended = cx.now.mono + cx.config.predecessor_grace;
                holding.join(lease.id, term_of(cx, lease.id));
            }
        }
        let incarnations: Vec<Incarnation> = self.holdings.0.keys().copied().collect();
        for incarnation in incarnations {
            self.arm_holding(cx, incarnation);
            if seeded!(cx.config.bugs, LeaseWaitSkipped) {
                self.timers.arm(Timer::Holding(incarnation), expires);
            }
        }
    }

    /// From now on this incarnation may be running the attempt.
    pub(super) fn hold(&mut self, cx: &Cx<'_>, holder: &Holder, lease: LeaseId) {
        let expires = cx.now.mono + cx.config.timeouts.lease();
        let holding = self.holdings.of(holder, cx.now.mono, expires);
        let before = holding.shortest;
        holding.add(lease, term_of(cx, lease));
        if holding.shortest < before {
            self.arm_holding(cx, holder.incarnation);
        }
    }

    /// From now on this incarnation is held for the attempt of another.
    pub(super) fn hold_member(&mut self, cx: &Cx<'_>, member: &Holder, lease: LeaseId) {
        let expires = cx.now.mono + cx.config.timeouts.lease();
        let holding = self.holdings.of(member, cx.now.mono, expires);
        holding.join(lease, term_of(cx, lease));
        self.arm_holding(cx, member.incarnation);
    }

    /// Arms the timer of a holding for the next time at which something may follow from silence.
    pub(super) fn arm_holding(&mut self, cx: &Cx<'_>, incarnation: Incarnation) {
        let Some(holding) = self.holdings.0.get(&incarnation) else {
            return;
        };
        let now = cx.now.mono;
        let ahead = [
            holding.heard + cx.config.timeouts.silence(),
            holding.extended + holding.shortest,
            holding.expires,
        ];
        let soon = ahead.into_iter().filter(|at| *at > now).min();
        // Only leases with a longer term of their own are left: they are few, or it is long.
        let due = soon.or_else(|| {
            let leases = holding.leases.iter().chain(&holding.member_of);
            let due = leases.filter_map(|lease| holding.expiry(term_of(cx, *lease)));
            due.filter(|at| *at > now).min()
        });
        match due {
            Some(due) => self.timers.arm(Timer::Holding(incarnation), due),
            None => self.timers.disarm(&Timer::Holding(incarnation)),
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
