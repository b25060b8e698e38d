//! What a draft has changed, for its owner to write.

use std::collections::BTreeMap;

use baton_core::ledger::Instance;
use baton_model::ids::{Incarnation, Life, Lineage, WorkerName};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::{Draft, Ids, KeptTask, Line, NewKey, NewRevision, Runs, SpanChange, Story};
use crate::view::{LastEnd, Seq};

/// An instance after the draft, and the state of the row it had before, if any.
#[derive(Debug)]
pub(crate) struct Change<'a, S> {
    pub(crate) before: Option<UniversalState>,
    pub(crate) instance: &'a Instance,
    pub(crate) story: &'a Story<S>,
    pub(crate) last: Option<&'a LastEnd>,
    pub(crate) leased_at: Option<Wall>,
}

impl<S: Clone + PartialEq> Draft<S> {
    /// The number after the last fact.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// The facts, to be appended to the history.
    pub(crate) fn lines(&self) -> &[Line<S>] {
        &self.lines
    }

    /// The facts, to be kept as they are.
    pub(crate) fn into_lines(self) -> Vec<Line<S>> {
        self.lines
    }

    /// What the facts add to the size of the history.
    pub(crate) fn bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes).sum()
    }

    /// The lease time, if a fact has set it.
    pub(crate) fn lease_time(&self) -> Option<Millis> {
        self.lease_time_set.then(|| self.ledger.lease_time())
    }

    /// Every instance that was touched, as it stands now.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change<'_, S>> + '_ {
        self.touched.iter().filter_map(|(id, touch)| {
            Some(Change {
                before: touch.before,
                instance: self.ledger.instance(*id)?,
                story: &touch.story,
                last: touch.last.as_ref(),
                leased_at: touch.leased_at,
            })
        })
    }

    /// Ranges that came, changed, and went; these first.
    pub(crate) fn span_changes(&self) -> impl Iterator<Item = SpanChange<'_, S>> + '_ {
        self.spans.changes()
    }

    /// Ranges of known ids to forget, and to add, as they are kept.
    pub(crate) fn known(&self) -> (Vec<Ids>, Vec<Ids>) {
        self.known.changes()
    }

    /// Tasks of the library that were touched, as they stand now.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = KeptTask> + '_ {
        self.tasks.changes(&self.ledger)
    }

    /// Revisions that are new.
    pub(crate) fn revisions(&self) -> &[NewRevision] {
        &self.tasks.revisions
    }

    /// What requests with a key have brought about.
    pub(crate) fn keys(&self) -> &[NewKey] {
        &self.tasks.keys
    }

    /// What has changed about runs.
    pub(crate) const fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Workers that were drained, or no longer are.
    pub(crate) const fn drained(&self) -> &BTreeMap<WorkerName, bool> {
        &self.drained
    }

    /// By how much the number of instances in each state changes.
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

    /// Lives to remember, and lineages to forget.
    pub(crate) fn condemned(&self) -> (Vec<Incarnation>, Vec<Lineage>) {
        let Some(before) = &self.condemned_before else {
            return (Vec::new(), Vec::new());
        };
        let before: BTreeMap<Lineage, Life> = lives(before.iter().copied());
        let after: BTreeMap<Lineage, Life> = lives(self.ledger.condemned());
        let gone = before.keys().filter(|lineage| !after.contains_key(lineage));
        let gone = gone.copied().collect();
        let new = self
            .ledger
            .condemned()
            .filter(|it| before.get(&it.lineage) != Some(&it.life));
        (new.collect(), gone)
    }
}

fn lives(incarnations: impl Iterator<Item = Incarnation>) -> BTreeMap<Lineage, Life> {
    incarnations.map(|it| (it.lineage, it.life)).collect()
}
