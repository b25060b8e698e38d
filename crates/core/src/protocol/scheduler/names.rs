//! Names of workers belong to credentials.
//!
//! Where workers authenticate, a name belongs to the credential that has used it first, until an operator
//! releases it. Otherwise the holder of any worker's credential could pose as the next life of another
//! worker, whose attempts would be killed and run again. The driver asks [`Protocol::foreign_name`] before it
//! passes a heartbeat on, and [`Protocol::assign_name`] records the first use. A connection that is
//! refused gets no order to die: only the owner of a name may end what runs under it.

use std::collections::BTreeSet;
use std::iter;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::WorkerName;
use baton_model::limits::WORKER_NAMES_MAX;
use baton_model::principal::NameOwner;

use super::Protocol;
use super::context::Cx;
use super::holdings::incarnations_of;
use crate::ledger::Ledger;

impl Protocol {
    /// A name that a heartbeat of this worker is about, and that belongs to another credential. It is
    /// about its own name, and about those under which its state directory is known: a later incarnation
    /// empties their seats and ends their attempts. Credentials that are `void` own nothing any more.
    pub(crate) fn foreign_name(
        &self,
        ledger: &Ledger,
        worker: &Holder,
        credential: &NameOwner,
        is_void: &dyn Fn(&NameOwner) -> bool,
    ) -> Option<WorkerName> {
        let incarnations = incarnations_of(worker.incarnation.lineage);
        let seated = self.seated.range(incarnations.clone());
        let seated = seated.map(|(_, name)| name);
        let held = self.holdings.0.range(incarnations);
        let held = held.map(|(_, holding)| &holding.holder.worker);
        let mut names = iter::once(&worker.worker).chain(seated).chain(held);
        let foreign = names.find(|name| {
            let owner = ledger.name_owners().get(*name);
            owner.is_some_and(|owner| owner != credential && !is_void(owner))
        });
        foreign.cloned()
    }

    /// Assigns a name to a credential.
    pub(crate) fn assign_name(&self, cx: &mut Cx<'_>, worker: WorkerName, owner: NameOwner) {
        if cx.ledger().name_owners().get(&worker) == Some(&owner) {
            return;
        }
        if let Some(unused) = self.unused_name(cx.ledger(), &owner) {
            self.release_name(cx, &unused);
        }
        cx.commit(Fact::WorkerNameAssigned {
            worker,
            owner: Some(owner),
        });
    }

    /// Releases a name. False if it belonged to no credential.
    pub(crate) fn release_name(&self, cx: &mut Cx<'_>, worker: &WorkerName) -> bool {
        let is_owned = cx.ledger().name_owners().contains_key(worker);
        if is_owned {
            cx.commit(Fact::WorkerNameAssigned {
                worker: worker.clone(),
                owner: None,
            });
        }
        is_owned
    }

    /// The name of a worker that is gone, if its owner has too many.
    fn unused_name(&self, ledger: &Ledger, owner: &NameOwner) -> Option<WorkerName> {
        let owned = ledger.name_owners().iter();
        let owned = owned.filter(|(_, it)| *it == owner).map(|(name, _)| name);
        if owned.clone().count() < WORKER_NAMES_MAX {
            return None;
        }
        let holdings = self.holdings.0.values();
        let held: BTreeSet<&WorkerName> = holdings.map(|it| &it.holder.worker).collect();
        let is_unused =
            |name: &&WorkerName| !self.seats.contains_key(*name) && !held.contains(name);
        owned.filter(|name| is_unused(name)).min().cloned()
    }
}
