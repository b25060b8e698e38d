//! What the store has held: terms, groups of facts, and what was acknowledged.
//!
//! Nothing of it goes back when the store does: the checkers know exactly what a store has lost, and
//! that no more may be missing.

use std::collections::BTreeSet;

use baton_core::ledger::{IdSet, Ledger};
use baton_core::step::Receipt;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, LeaseId};

use super::Violation;

/// The history of the store.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The epochs of all terms, lost ones included.
    terms: BTreeSet<Epoch>,
    groups: BTreeSet<Receipt>,
    /// Submissions that were acknowledged, and not lost.
    acknowledged: BTreeSet<InstanceId>,
    /// Leases whose end was committed, and not lost.
    ended: BTreeSet<LeaseId>,
    /// Instances that the store has lost, and has no other of that id.
    forgotten: BTreeSet<InstanceId>,
    /// Ids that it has lost, and that workers may hold.
    lost: IdSet,
    /// The generation after the loss is not settled: a worker may hold such an instance.
    unsettled: bool,
}

impl History {
    pub(super) fn group_committed(&mut self, group: Receipt) -> Result<(), Violation> {
        if self.groups.insert(group) {
            return Ok(());
        }
        let what = format!("{group:?} was committed before");
        Err(violation("committed-twice", what))
    }

    pub(super) fn committed(&mut self, fact: &Fact) -> Result<(), Violation> {
        match fact {
            Fact::InstancesSubmitted { first, last, .. } if self.unsettled => {
                if let Some((lost, _)) = self.lost.overlap(*first, *last) {
                    let what = format!("{first} to {last} are new, and {lost} is forgotten");
                    return Err(violation("id-reused", what));
                }
            }
            Fact::AttemptEnded { lease, .. } => {
                self.ended.insert(*lease);
            }
            Fact::CopySettled { .. } => self.forget_lost_ids(),
            _ => {}
        }
        if let Fact::InstancesSubmitted { first, last, .. } = fact {
            self.forgotten.retain(|id| !(first..=last).contains(&id));
        }
        Ok(())
    }

    /// True if the store had the instance, and has lost it.
    pub(super) fn is_forgotten(&self, instance: InstanceId) -> bool {
        self.forgotten.contains(&instance)
    }

    pub(super) fn acknowledge(&mut self, instance: InstanceId) {
        self.acknowledged.insert(instance);
    }

    /// The ledger of a new term must have everything that was acknowledged, and was not lost.
    pub(super) fn term_begun(&mut self, epoch: Epoch, ledger: &Ledger) -> Result<(), Violation> {
        if !self.terms.insert(epoch) {
            let what = format!("a second term has the epoch {epoch}");
            return Err(violation("epoch-repeated", what));
        }
        let mut acknowledged = self.acknowledged.iter();
        if let Some(instance) = acknowledged.find(|it| !ledger.known().contains(**it)) {
            let what = format!("instance {instance} was acknowledged and is not in the store");
            return Err(violation("lost-acknowledged", what));
        }
        let mut open = ledger.open_leases().map(|lease| lease.id);
        if let Some(lease) = open.find(|lease| self.ended.contains(lease)) {
            let what = format!("{lease} has ended, and is open in the store");
            return Err(violation("lost-acknowledged", what));
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, lost: &Ledger, remaining: &Ledger) {
        for (first, last) in lost.known().ranges() {
            for (first, last) in remaining.known().gaps(first, last) {
                self.lost.insert(first, last);
                self.forgotten.extend((first.0..=last.0).map(InstanceId));
                self.unsettled = true;
            }
        }
        self.acknowledged
            .retain(|instance| remaining.known().contains(*instance));
        for lease in remaining.open_leases() {
            self.ended.remove(&lease.id);
        }
    }

    pub(super) fn forget_lost_ids(&mut self) {
        self.lost = IdSet::default();
        self.unsettled = false;
    }
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
