//! Limits: how much of something may be in use at once.
//!
//! Every limit of the scheduler is one kind of counted resource: a [`LimitKey`] says what is bounded,
//! a [`Limit`] has its total and what is in use, and [`Limits`] is the only code that counts. What is
//! in use follows from facts: a new leader counts the open leases and the live work of its ledger
//! again, so no count is stored.
//!
//! | key | total | in use |
//! |---|---|---|
//! | `Named` | `baton limits set`, `--limit` | requests of leased instances |
//! | `Array` | `%N` of the submission | its leased elements |
//! | `Entry` | `max_instances` with `overlap` | its executions that have started |
//! | `Backfill` | `--max-concurrent` of the backfill | its launches in flight |
//! | `Run` | `max_concurrent` of a workflow, a template or a task | instances of the run in flight |
//!
//! Placement counts what is leased, [`crate::workflow::Progress`] what a run has in flight; both
//! count here. `scheduler::limits::find` answers for every key.
//!
//! Elsewhere: which worker has room (`placement`), and the claims of processes on one host (`host`).

mod entry;

use std::collections::BTreeMap;
use std::fmt;

use baton_model::ids::{BackfillId, InstanceId, RunId, TaskNo};
use baton_model::spec::InstanceSpec;

pub use entry::EntryLimit;

/// Identifies a limit by the work that it bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey {
    /// A named resource across the cluster, which tasks request by this name.
    Named(String),
    /// The elements of one array that are leased at once, by its first instance.
    Array(InstanceId),
    /// The executions of a library entry that have started.
    Entry(TaskNo),
    /// The launches of a backfill in flight.
    Backfill(BackfillId),
    /// The instances of a run in flight.
    Run(RunId, RunLimit),
}

/// The part of a run whose instances in flight are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunLimit {
    /// All of them.
    Run,
    /// Those of a template, by its index in the plan's pools.
    Template(u32),
    /// Those of a task, by its index in the plan.
    Task(u32),
}

impl LimitKey {
    /// True if it exists only as long as the work that it bounds, and an operator does not set it.
    #[must_use]
    pub const fn belongs_to_work(&self) -> bool {
        !matches!(self, Self::Named(_))
    }
}

impl From<&str> for LimitKey {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Array(first) => write!(f, "array {first}"),
            Self::Entry(task) => write!(f, "entry {}", task.0),
            Self::Backfill(id) => write!(f, "backfill {id}"),
            Self::Run(run, RunLimit::Run) => write!(f, "run {run}"),
            Self::Run(run, RunLimit::Template(at)) => write!(f, "template {at} of run {run}"),
            Self::Run(run, RunLimit::Task(at)) => write!(f, "task {at} of run {run}"),
        }
    }
}

/// The limits that bind an instance whatever it requests, with their totals. Its lease takes one of
/// each.
#[must_use]
pub fn implied(spec: &InstanceSpec) -> Vec<(LimitKey, u64)> {
    let conditions = &spec.conditions;
    let array = conditions.concurrent_max.zip(conditions.instances);
    let array = array.map(|(total, (first, _))| (LimitKey::Array(first), u64::from(total)));
    array.into_iter().collect()
}

/// A total and its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limit {
    pub total: u64,
    /// May exceed the total after that was lowered, or by what a new leader inherits.
    pub used: u128,
}

impl Limit {
    /// True if so much more may be used.
    #[must_use]
    pub fn has(&self, amount: u64) -> bool {
        self.used + u128::from(amount) <= u128::from(self.total)
    }

    /// How much more may be used.
    #[must_use]
    pub fn free(&self) -> u64 {
        let free = u128::from(self.total).saturating_sub(self.used);
        u64::try_from(free).unwrap_or(u64::MAX)
    }
}

/// All limits of one scope, by key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits<K>(BTreeMap<K, Limit>);

impl<K> Default for Limits<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Limits<K> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    #[must_use]
    pub fn get(&self, key: &K) -> Option<Limit> {
        self.0.get(key).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &Limit)> {
        self.0.iter()
    }

    /// Adds a limit of which so much is in use.
    pub fn insert(&mut self, key: K, limit: Limit) {
        self.0.insert(key, limit);
    }

    /// Changes the total of a limit; false if there is none.
    pub fn set_total(&mut self, key: &K, total: u64) -> bool {
        let limit = self.0.get_mut(key);
        limit.map(|limit| limit.total = total).is_some()
    }

    /// Removes a limit; false if there is none.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    /// Removes limits, and returns whether there were any.
    pub fn remove_if(&mut self, mut condition: impl FnMut(&K, &Limit) -> bool) -> bool {
        let before = self.len();
        self.0.retain(|key, limit| !condition(key, limit));
        self.len() < before
    }

    /// The first limit that has no room for all of this. What is not limited has room.
    pub fn short_of<'a>(&self, amounts: &'a [(K, u64)]) -> Option<&'a K> {
        let is_short = |(key, amount): &&(K, u64)| {
            let limit = self.0.get(key);
            limit.is_some_and(|limit| !limit.has(*amount))
        };
        amounts.iter().find(is_short).map(|(key, _)| key)
    }

    /// True if each limit would be large enough if none of it were in use.
    pub fn could_hold(&self, amounts: &[(K, u64)]) -> bool {
        let holds = |key, amount| self.0.get(key).is_none_or(|limit| limit.total >= amount);
        amounts.iter().all(|(key, amount)| holds(key, *amount))
    }

    /// Counts amounts that are in use from now on, as far as they are limited.
    pub fn charge(&mut self, amounts: &[(K, u64)]) {
        for (key, amount) in amounts {
            if let Some(limit) = self.0.get_mut(key) {
                limit.used += u128::from(*amount);
            }
        }
    }

    /// Counts amounts that are no longer in use.
    pub fn discharge(&mut self, amounts: &[(K, u64)]) {
        for (key, amount) in amounts {
            if let Some(limit) = self.0.get_mut(key) {
                let amount = u128::from(*amount);
                // A scheduler that starts again counts from the facts; a wrong count lasts.
                assert!(amount <= limit.used, "{amount} returned of {limit:?}");
                limit.used -= amount;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_lowered_has_room_when_less_is_used() {
        let mut limits = Limits::default();
        let one = [(LimitKey::from("db"), 1)];
        limits.insert(one[0].0.clone(), Limit { total: 2, used: 0 });
        limits.charge(&one);
        limits.charge(&one);
        assert_eq!(limits.short_of(&one), Some(&one[0].0));
        assert!(limits.set_total(&one[0].0, 1));
        limits.discharge(&one);
        assert!(limits.short_of(&one).is_some());
        limits.discharge(&one);
        assert_eq!(limits.short_of(&one), None);
    }

    #[test]
    fn a_resource_cannot_be_named_like_an_array() {
        let named = LimitKey::from("array i1");
        let array = LimitKey::Array(InstanceId(1));
        assert_eq!(named.to_string(), array.to_string());
        assert_ne!(named, array);
        assert!(array.belongs_to_work() && !named.belongs_to_work());
    }
}
