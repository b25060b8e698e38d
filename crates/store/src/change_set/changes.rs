//! The changes of a change set, for the backend to write.

use std::collections::BTreeMap;

use baton_core::ledger::Instance;
use baton_core::limits::ArrayLimits;
use baton_model::alarm::{Alarm, AlarmKey};
use baton_model::backfill::Backfill;
use baton_model::fleet::{Fleet, FleetJob, FleetName};
use baton_model::ids::{BackfillId, Epoch, Incarnation, IncarnationNo, Lineage, WorkerName};
use baton_model::principal::NameOwner;
use baton_model::rate::LimitValue;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::{
    ChangeSet, HistoryEntry, Ids, Lifecycle, NewKey, NewLaunch, NewRevision, RunChanges,
    SpanChange, StoredTask,
};
use crate::view::{LastEnd, Seq};

/// An instance after the change set, and its state in the row it had before, if any.
#[derive(Debug)]
pub(crate) struct InstanceChange<'a> {
    pub(crate) before: Option<UniversalState>,
    pub(crate) instance: &'a Instance,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) last: Option<&'a LastEnd>,
    pub(crate) leased_at: Option<Wall>,
}

impl ChangeSet {
    /// The number after the last fact.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// The facts to append to the history.
    pub(crate) fn entries(&self) -> &[HistoryEntry] {
        &self.entries
    }

    /// The bytes that the facts add to the history.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// The first term of the store's generation, and whether it is settled, if a fact has set them.
    pub(crate) const fn generation(&self) -> Option<(Epoch, bool)> {
        self.generation
    }

    /// The lease time, if a fact has set it.
    pub(crate) fn lease_time(&self) -> Option<Millis> {
        self.lease_time_set.then(|| self.ledger.lease_time())
    }

    /// Every touched instance, in its new state.
    pub(crate) fn changes(&self) -> impl Iterator<Item = InstanceChange<'_>> + '_ {
        self.touched.iter().filter_map(|(id, touched)| {
            Some(InstanceChange {
                before: touched.before,
                instance: self.ledger.instance(*id)?,
                lifecycle: &touched.lifecycle,
                last: touched.last.as_ref(),
                leased_at: touched.leased_at,
            })
        })
    }

    /// Ranges that were removed, added or changed; removed ones first.
    pub(crate) fn span_changes(&self) -> impl Iterator<Item = SpanChange<'_>> + '_ {
        self.spans.changes()
    }

    /// Rows of known ids to remove, and to add.
    pub(crate) fn known(&self) -> (Vec<Ids>, Vec<Ids>) {
        self.known.changes()
    }

    /// Touched tasks of the library, in their new state.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = StoredTask> + '_ {
        self.tasks.changes(&self.ledger)
    }

    /// New revisions.
    pub(crate) fn revisions(&self) -> &[NewRevision] {
        &self.tasks.revisions
    }

    /// Idempotency keys of triggered instances.
    pub(crate) fn keys(&self) -> &[NewKey] {
        &self.tasks.keys
    }

    /// New launches of due times.
    pub(crate) fn launches(&self) -> &[NewLaunch] {
        &self.tasks.launches
    }

    /// Touched backfills, in their new state.
    pub(crate) fn backfills(&self) -> impl Iterator<Item = &Backfill> + '_ {
        self.tasks.backfills.values()
    }

    /// See [`TaskChanges::taken`].
    pub(crate) fn taken(&self) -> impl Iterator<Item = (BackfillId, Option<&Vec<Wall>>)> + '_ {
        let taken = self.tasks.taken.iter();
        taken.map(|(id, taken)| (*id, taken.as_ref()))
    }

    /// Touched fleets, in their new state; none for one that is gone.
    pub(crate) fn fleets(&self) -> impl Iterator<Item = (&FleetName, Option<&Fleet>)> + '_ {
        self.fleets.fleets(&self.ledger)
    }

    /// Touched jobs of fleets, in their new state.
    pub(crate) fn fleet_jobs(&self) -> impl Iterator<Item = &FleetJob> + '_ {
        self.fleets.jobs()
    }

    /// Changes to runs.
    pub(crate) const fn runs(&self) -> &RunChanges {
        &self.runs
    }

    /// Workers that were drained (true) or undrained (false).
    pub(crate) const fn drained(&self) -> &BTreeMap<WorkerName, bool> {
        &self.drained
    }

    /// Names of workers that were assigned, or released.
    pub(crate) const fn name_owners(&self) -> &BTreeMap<WorkerName, Option<NameOwner>> {
        &self.name_owners
    }

    /// Limits that were set, or removed.
    pub(crate) const fn limits(&self) -> &BTreeMap<String, Option<LimitValue>> {
        &self.limits
    }

    /// Concurrency limits of arrays that were changed.
    pub(crate) const fn array_limits(&self) -> &ArrayLimits {
        &self.array_limits
    }

    /// Weights of owners that were set.
    pub(crate) const fn shares(&self) -> &BTreeMap<String, u32> {
        &self.shares
    }

    /// Alarms that were raised, or cleared.
    pub(crate) const fn alarms(&self) -> &BTreeMap<AlarmKey, Option<Alarm>> {
        &self.alarms
    }

    /// The change in the number of instances in each state.
    pub(crate) fn tally(&self) -> BTreeMap<UniversalState, i64> {
        let mut tally: BTreeMap<UniversalState, i64> = BTreeMap::new();
        let mut count = |state, by: u64, add: bool| {
            let number = tally.entry(state).or_default();
            *number = if add {
                number.saturating_add_unsigned(by)
            } else {
                number.saturating_sub_unsigned(by)
            };
        };
        for change in self.changes() {
            count(change.instance.state, 1, true);
            if let Some(before) = change.before {
                count(before, 1, false);
            }
        }
        for SpanChange { before, after } in self.span_changes() {
            if let Some(before) = before {
                count(before.state, before.len(), false);
            }
            if let Some(after) = after {
                count(after.state, after.len(), true);
            }
        }
        tally.retain(|_, by| *by != 0);
        tally
    }

    /// Condemned incarnations to add, and lineages to remove.
    pub(crate) fn condemned(&self) -> (Vec<Incarnation>, Vec<Lineage>) {
        let Some(before) = &self.condemned_before else {
            return (Vec::new(), Vec::new());
        };
        let before: BTreeMap<Lineage, IncarnationNo> = by_lineage(before.iter().copied());
        let after: BTreeMap<Lineage, IncarnationNo> = by_lineage(self.ledger.condemned());
        let gone = before.keys().filter(|lineage| !after.contains_key(lineage));
        let gone = gone.copied().collect();
        let new = self
            .ledger
            .condemned()
            .filter(|it| before.get(&it.lineage) != Some(&it.number));
        (new.collect(), gone)
    }
}

fn by_lineage(incarnations: impl Iterator<Item = Incarnation>) -> BTreeMap<Lineage, IncarnationNo> {
    incarnations.map(|it| (it.lineage, it.number)).collect()
}
