//! The whole history in order, for those who follow it.
//!
//! What was pruned leaves gaps. A reader is told up to which number there may be some, in the
//! same snapshot as the facts, so that nobody takes a gap for silence.

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::spec::InstanceSpec;

use crate::limits::{FACTS_PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use crate::view::{RecordedFact, Seq};

/// Which facts are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactQuery {
    /// From behind this one on.
    pub after: Seq,
    /// About instances and runs of this owner only.
    pub owner: Option<String>,
    /// About this run and its instances only.
    pub run: Option<RunId>,
}

impl FactQuery {
    /// Whether it wants what somebody has asked for with this spec.
    pub(crate) fn wants(&self, spec: &InstanceSpec) -> bool {
        let run = spec.part.map(|part| part.run);
        self.owner.as_ref().is_none_or(|owner| *owner == spec.owner)
            && (self.run.is_none() || self.run == run)
    }

    /// Whether it leaves anything out.
    pub(crate) const fn filters(&self) -> bool {
        self.owner.is_some() || self.run.is_some()
    }
}

/// Some facts, in the order in which they landed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactPage {
    /// Those that were asked for. There may be none before the end: one page looks at so many
    /// only.
    pub items: Vec<RecordedFact>,
    /// Up to where it has looked; where the next page begins.
    pub scanned_to: Seq,
    /// Whether there is more to look at.
    pub more: bool,
    /// The last fact of all.
    pub last: Seq,
    /// The last one of those that are not kept any more; 0 if all are.
    pub pruned: Seq,
}

/// A walk over one table of facts, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    found: Vec<RecordedFact>,
    bytes: usize,
    stopped: Option<Seq>,
}

impl Walk {
    /// How many rows a walk needs at most.
    pub(crate) const ROWS_MAX: usize = PAGE_ITEMS_MAX;

    /// Takes in the next fact, of so many bytes; false if it was the last to look at.
    pub(crate) fn take(&mut self, entry: RecordedFact, bytes: usize) -> bool {
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
    /// Puts walks together: everything up to where the first of them stopped.
    pub(crate) fn merge(walks: Vec<Walk>, after: Seq, last: Seq, pruned: Seq) -> Self {
        let stopped = walks.iter().filter_map(|walk| walk.stopped).min();
        let mut items: Vec<RecordedFact> = walks.into_iter().flat_map(|walk| walk.found).collect();
        items.sort_unstable_by_key(|entry| entry.seq);
        if let Some(stopped) = stopped {
            items.truncate(items.partition_point(|entry| entry.seq <= stopped));
        }
        // Without more to look at, everything was looked at: behind the last fact of all.
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

/// What a fact is about.
pub(crate) enum About<'a> {
    /// Nobody's things.
    Nobodys,
    /// Instances that come with it.
    New(&'a InstanceSpec),
    /// This instance.
    One(InstanceId),
    /// Some of these.
    Any(InstanceId, InstanceId),
    /// A run; and whose it is, if the fact says so.
    Run(RunId, Option<&'a str>),
}

impl<'a> About<'a> {
    pub(crate) fn of(fact: &'a Fact) -> Self {
        if let Some(run) = fact.run() {
            let said = match fact {
                Fact::RunRegistered { plan, .. } => Some(plan.owner.as_str()),
                _ => None,
            };
            return Self::Run(run, said);
        }
        match (fact, fact.instances()) {
            (Fact::InstancesSubmitted { spec, .. }, _) => Self::New(spec),
            (_, Some((first, last))) if first == last => Self::One(first),
            (_, Some((first, last))) => Self::Any(first, last),
            (_, None) => Self::Nobodys,
        }
    }
}
