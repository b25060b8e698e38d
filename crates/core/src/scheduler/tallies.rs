//! Tallies by owner and entry since this leader began: what its metrics count, and nothing that it decides on.
//!
//! A tally is found by the fact itself and costs a lookup, whatever the backlog. Their number is bounded: what
//! comes after [`TALLIES_MAX`] names counts under [`OTHER`].

use std::collections::BTreeMap;

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::InstanceId;
use baton_model::library::Cause;
use baton_model::schedule::TickVerdict;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;

use crate::ledger::Ledger;

/// Names that are counted apart.
pub const TALLIES_MAX: usize = 500;

/// The owner and the entry of what is not counted apart.
const OTHER: &str = "other";

/// Numbers of one entry of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instances that are DONE, elements and items included.
    pub instances_done: u64,
    pub instances_failed: u64,
    pub runs_done: u64,
    pub runs_failed: u64,
    pub runs_halted: u64,
    /// Due times that were launched on time.
    pub due_launched: u64,
    /// Due times that were launched within slack.
    pub due_late: u64,
    pub due_skipped: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    /// By owner, then by entry.
    by_name: BTreeMap<String, BTreeMap<String, Tally>>,
    count: usize,
}

impl Tallies {
    /// Follows a fact that was just applied.
    pub(crate) fn observe(&mut self, ledger: &Ledger, fact: &Fact) {
        match fact {
            Fact::AttemptEnded {
                lease,
                verdict: verdict @ (Verdict::Done | Verdict::GaveUp),
                ..
            } => {
                if let Some(instance) = ledger.instance(lease.attempt.instance) {
                    let (owner, entry) = work(ledger, &instance.spec);
                    let tally = self.of(owner, entry);
                    match verdict {
                        Verdict::Done => tally.instances_done += 1,
                        _ => tally.instances_failed += 1,
                    }
                }
            }
            Fact::RunEnded { run, state, .. } => {
                if let Some(run) = ledger.runs().run(*run) {
                    let tally = self.of(&run.head.owner, &run.head.name);
                    match state {
                        UniversalState::Done => tally.runs_done += 1,
                        UniversalState::Failed => tally.runs_failed += 1,
                        _ => tally.runs_halted += 1,
                    }
                }
            }
            Fact::Launched {
                entry,
                cause: Cause::Due { count, .. },
                verdict,
                ..
            } => {
                if let Some(task) = ledger.library().task(*entry) {
                    let tally = self.of(&task.name.owner, &task.name.name);
                    match verdict {
                        TickVerdict::Launch => tally.due_launched += count,
                        TickVerdict::Late { .. } => tally.due_late += count,
                        TickVerdict::Skip(_) => tally.due_skipped += count,
                    }
                }
            }
            _ => {}
        }
    }

    /// The tally of an entry, without a copy of its name if there is one already.
    fn of(&mut self, owner: &str, entry: &str) -> &mut Tally {
        let of_owner = self.by_name.get(owner);
        let is_known = of_owner.is_some_and(|entries| entries.contains_key(entry));
        let is_counted_apart = is_known || self.count < TALLIES_MAX;
        self.count += usize::from(is_counted_apart && !is_known);
        let (owner, entry) = if is_counted_apart {
            (owner, entry)
        } else {
            (OTHER, OTHER)
        };
        if !self.by_name.contains_key(owner) {
            self.by_name.insert(owner.to_owned(), BTreeMap::new());
        }
        // It was inserted if it was not there.
        let entries = self.by_name.get_mut(owner).expect("it is there");
        if !entries.contains_key(entry) {
            entries.insert(entry.to_owned(), Tally::default());
        }
        entries.get_mut(entry).expect("it is there")
    }

    /// All of them, by owner and entry.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, Tally)> + '_ {
        self.by_name.iter().flat_map(|(owner, entries)| {
            let entries = entries.iter();
            entries.map(|(entry, tally)| (owner.as_str(), entry.as_str(), *tally))
        })
    }
}

/// The owner of an instance, and what it counts for: items for their workflow, others for their task.
pub(super) fn work<'a>(ledger: &'a Ledger, spec: &'a InstanceSpec) -> (&'a str, &'a str) {
    let run = spec.part.and_then(|part| ledger.runs().run(part.run));
    let entry = run.map_or(spec.name.as_str(), |run| run.head.name.as_str());
    (&spec.owner, entry)
}

/// An instance that is first in line in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueHead {
    pub instance: InstanceId,
    pub owner: String,
    pub entry: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_count_as_others() {
        let mut tallies = Tallies::default();
        for round in 0..2 {
            for number in 0..2 * TALLIES_MAX {
                let owner = format!("o{}", number % 7);
                tallies.of(&owner, &format!("e{number}")).runs_done += 1;
            }
            assert_eq!(tallies.iter().count(), TALLIES_MAX + 1, "{round}");
        }
        tallies.of(OTHER, "new").runs_done += 1;
        assert_eq!(
            tallies.iter().count(),
            TALLIES_MAX + 1,
            "also of that owner"
        );
        let others = tallies.iter().find(|(owner, ..)| *owner == OTHER);
        let others = others.map(|(_, entry, tally)| (entry.to_owned(), tally.runs_done));
        assert_eq!(others, Some((OTHER.to_owned(), 2 * TALLIES_MAX as u64 + 1)));
        let first = tallies.iter().find(|(_, entry, _)| *entry == "e0");
        assert_eq!(first.map(|(_, _, tally)| tally.runs_done), Some(2));
    }
}
