//! Pages of the whole history, in commit order, for readers that follow it.
//!
//! Pruning leaves gaps. Each page reports, from the same snapshot as its facts, up to which number
//! there may be gaps, so that a reader never mistakes a gap for inactivity.

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::spec::InstanceSpec;

use crate::limits::{FACTS_PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use crate::view::{RecordedFact, Seq};

/// Query for a page of facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactQuery {
    /// Only facts after this one.
    pub after: Seq,
    /// Only facts about instances and runs of this owner.
    pub owner: Option<String>,
    /// Only facts about this run and its instances.
    pub run: Option<RunId>,
}

impl FactQuery {
    /// True if instances with this spec pass the filters.
    pub(crate) fn matches(&self, spec: &InstanceSpec) -> bool {
        let run = spec.part.map(|part| part.run);
        self.owner.as_ref().is_none_or(|owner| *owner == spec.owner)
            && (self.run.is_none() || self.run == run)
    }

    /// True if there is any filter.
    pub(crate) const fn is_filtered(&self) -> bool {
        self.owner.is_some() || self.run.is_some()
    }
}

/// A page of facts, in commit order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactPage {
    /// The facts that match. There may be none before the end: a page scans a bounded number.
    pub items: Vec<RecordedFact>,
    /// The last fact that was scanned; the next page starts after it.
    pub scanned_to: Seq,
    /// True if there are facts after `scanned_to`.
    pub more: bool,
    /// The last fact of the store.
    pub last: Seq,
    /// The last fact that was pruned; 0 if none was.
    pub pruned: Seq,
}

/// Bounded scan of one table of facts, by number.
#[derive(Debug, Default)]
pub(crate) struct FactScan {
    found: Vec<RecordedFact>,
    bytes: usize,
    stopped: Option<Seq>,
}

impl FactScan {
    /// Rows that a scan needs at most.
    pub(crate) const ROWS_MAX: usize = PAGE_ITEMS_MAX;

    /// Adds the next fact, of `bytes` bytes; false if the scan must stop after it.
    pub(crate) fn push(&mut self, entry: RecordedFact, bytes: usize) -> bool {
        self.bytes += bytes;
        let seq = entry.seq;
        self.found.push(entry);
        if self.found.len() >= Self::ROWS_MAX || self.bytes >= FACTS_PAGE_BYTES_MAX {
            self.stopped = Some(seq);
        }
        self.stopped.is_none()
    }
}

impl FactPage {
    /// Merges scans: everything up to where the first of them stopped.
    pub(crate) fn merge(scans: Vec<FactScan>, after: Seq, last: Seq, pruned: Seq) -> Self {
        let stopped = scans.iter().filter_map(|scan| scan.stopped).min();
        let mut items: Vec<RecordedFact> = scans.into_iter().flat_map(|scan| scan.found).collect();
        items.sort_unstable_by_key(|entry| entry.seq);
        if let Some(stopped) = stopped {
            items.truncate(items.partition_point(|entry| entry.seq <= stopped));
        }
        // If no scan stopped, everything up to the last fact was scanned.
        let scanned_to = stopped.unwrap_or(last).max(after);
        Self {
            items,
            scanned_to,
            more: scanned_to < last,
            last,
            pruned,
        }
    }
}

/// Subject of a fact, for filters.
pub(crate) enum FactSubject<'a> {
    /// Neither instances nor a run.
    Other,
    /// Instances submitted with this spec.
    Submission(&'a InstanceSpec),
    /// One instance.
    Instance(InstanceId),
    /// Some instances of a range.
    Range(InstanceId, InstanceId),
    /// A run, and its owner if the fact names it.
    Run(RunId, Option<&'a str>),
}

impl<'a> FactSubject<'a> {
    pub(crate) fn of(fact: &'a Fact) -> Self {
        if let Some(run) = fact.run() {
            let owner = match fact {
                Fact::RunRegistered { plan, .. } => Some(plan.owner.as_str()),
                _ => None,
            };
            return Self::Run(run, owner);
        }
        match (fact, fact.instances()) {
            (Fact::InstancesSubmitted { spec, .. }, _) => Self::Submission(spec),
            (_, Some((first, last))) if first == last => Self::Instance(first),
            (_, Some((first, last))) => Self::Range(first, last),
            (_, None) => Self::Other,
        }
    }
}
