//! Limits: how much of something may be in use at once, or start per time.
//!
//! Every limit of the scheduler is one kind of counted resource: a [`LimitKey`] says what is bounded,
//! a [`Limit`] has its total and what is in use, and [`Limits`] is the only code that counts. What is
//! in use follows from facts: a new leader counts the open leases and the live work of its ledger
//! again, so no count is stored.
//!
//! A named limit may be a rate. Its total is its burst, and what a start takes of it comes back with time,
//! not with the end of the lease ([`TokenBucket`]). A new leader begins with none of it free.
//!
//! | key | total | in use |
//! |---|---|---|
//! | `Named` | `baton limits set`, `--limit` | requests of leased instances; of a rate, of recent starts |
//! | `Array` | `%N` of the submission, `baton array limit` | its leased elements |
//! | `Entry` | `max_instances` with `overlap` | its executions that have started |
//! | `Backfill` | `--max-concurrent` of the backfill | its launches in flight |
//! | `Run` | `max_concurrent` of a workflow, a template or a task | instances of the run in flight |
//!
//! Placement counts what is leased, [`crate::workflow::Progress`] what a run has in flight; both
//! count here. `scheduler::limits::find` answers for every key.
//!
//! Elsewhere: which worker has room (`placement`), and the claims of processes on one host (`host`).

mod bucket;
mod entry;

use std::collections::BTreeMap;
use std::fmt;

use baton_model::conditions::ArrayLimit;
use baton_model::ids::{BackfillId, InstanceId, RunId, TaskNo};
use baton_model::rate::Rate;
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Mono};

pub use bucket::TokenBucket;
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

/// Concurrency limits of arrays that were changed after the submission, by their first instance.
pub type ArrayLimits = BTreeMap<InstanceId, ArrayLimit>;

/// The limits that bind an instance whatever it requests, with their totals. Its lease takes one of
/// each. An array whose limit was removed has one that is never reached.
#[must_use]
pub fn implied(spec: &InstanceSpec, changed: &ArrayLimits) -> Vec<(LimitKey, u64)> {
    let conditions = &spec.conditions;
    let Some((first, _)) = conditions.instances else {
        return Vec::new();
    };
    let total = match changed.get(&first) {
        Some(limit) => Some(array_total(limit.total)),
        None => conditions.concurrent_max.map(u64::from),
    };
    let array = total.map(|total| (LimitKey::Array(first), total));
    array.into_iter().collect()
}

/// The total of an array's limit that was changed.
#[must_use]
pub fn array_total(changed: Option<u32>) -> u64 {
    changed.map_or(u64::MAX, u64::from)
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
pub struct Limits<K> {
    all: BTreeMap<K, Limit>,
    /// Those of them that are rates. Their total is the burst, and their use that of the bucket.
    buckets: BTreeMap<K, TokenBucket>,
    now: Mono,
}

impl<K> Default for Limits<K> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            buckets: BTreeMap::new(),
            now: Mono::default(),
        }
    }
}

impl<K: Ord> Limits<K> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.all.contains_key(key)
    }

    #[must_use]
    pub fn get(&self, key: &K) -> Option<Limit> {
        self.get_at(key, self.now)
    }

    /// A limit at a time that may be later than the last that was taken in.
    #[must_use]
    pub fn get_at(&self, key: &K, now: Mono) -> Option<Limit> {
        let limit = self.all.get(key).copied()?;
        let used = self.bucket(key).map_or(limit.used, |it| it.used(now));
        Some(Limit { used, ..limit })
    }

    /// The rate of a limit, if it is one.
    #[must_use]
    pub fn rate(&self, key: &K) -> Option<Rate> {
        self.bucket(key).map(TokenBucket::rate)
    }

    /// When a rate has room for so much, if nothing starts until then; none if it is no rate, or never has.
    #[must_use]
    pub fn next_at(&self, key: &K, amount: u64, now: Mono) -> Option<Mono> {
        self.bucket(key)?.next(amount, now)
    }

    fn bucket(&self, key: &K) -> Option<&TokenBucket> {
        // Most scopes have no rates.
        if self.buckets.is_empty() {
            return None;
        }
        self.buckets.get(key)
    }

    /// True if some limit is a rate.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// Takes in the time, which only grows.
    pub fn set_now(&mut self, now: Mono) {
        self.now = self.now.max(now);
    }

    /// The time that was last taken in.
    #[must_use]
    pub const fn now(&self) -> Mono {
        self.now
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, Limit)> {
        let all = self.all.iter();
        all.filter_map(|(key, _)| Some((key, self.get(key)?)))
    }

    /// Adds a limit of which so much is in use.
    pub fn insert(&mut self, key: K, limit: Limit) {
        self.buckets.remove(&key);
        self.all.insert(key, limit);
    }

    /// Changes the total of a limit; false if there is none, or it is a rate.
    pub fn set_total(&mut self, key: &K, total: u64) -> bool {
        if self.bucket(key).is_some() {
            return false;
        }
        let limit = self.all.get_mut(key);
        limit.map(|limit| limit.total = total).is_some()
    }

    /// Adds a rate, with its whole burst free, or changes one.
    pub fn set_rate(&mut self, key: K, rate: Rate, burst: u64)
    where
        K: Clone,
    {
        let limit = Limit {
            total: burst,
            used: 0,
        };
        self.all.insert(key.clone(), limit);
        let now = self.now;
        self.buckets
            .entry(key)
            .and_modify(|bucket| bucket.change(rate, burst, now))
            .or_insert_with(|| TokenBucket::new(rate, burst));
    }

    /// Takes all of every rate: a new leader does not know what was left.
    pub fn empty_rates(&mut self) {
        for bucket in self.buckets.values_mut() {
            bucket.empty(self.now);
        }
    }

    /// Makes every rate full again, for a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn fill_rates(&mut self) {
        for bucket in self.buckets.values_mut() {
            *bucket = TokenBucket::new(bucket.rate(), bucket.burst());
        }
    }

    /// Removes a limit; false if there is none.
    pub fn remove(&mut self, key: &K) -> bool {
        self.buckets.remove(key);
        self.all.remove(key).is_some()
    }

    /// Removes limits that are no rates, and returns whether there were any.
    pub fn remove_if(&mut self, mut condition: impl FnMut(&K, &Limit) -> bool) -> bool {
        let before = self.len();
        let buckets = &self.buckets;
        self.all
            .retain(|key, limit| buckets.contains_key(key) || !condition(key, limit));
        self.len() < before
    }

    /// The first limit that has no room for all of this. What is not limited has room.
    pub fn short_of<'a>(&self, amounts: &'a [(K, u64)]) -> Option<&'a K> {
        let is_short = |(key, amount): &&(K, u64)| {
            let limit = self.get(key);
            limit.is_some_and(|limit| !limit.has(*amount))
        };
        amounts.iter().find(is_short).map(|(key, _)| key)
    }

    /// When time alone makes room for all of this; none if there is room, or something else must end first.
    #[must_use]
    pub fn room_at(&self, amounts: &[(K, u64)]) -> Option<Mono> {
        let mut latest = None;
        for (key, amount) in amounts {
            if self.get(key).is_none_or(|limit| limit.has(*amount)) {
                continue;
            }
            latest = latest.max(Some(self.next_at(key, *amount, self.now)?));
        }
        latest
    }

    /// True if each limit would be large enough if none of it were in use.
    pub fn could_hold(&self, amounts: &[(K, u64)]) -> bool {
        let holds = |key, amount| self.all.get(key).is_none_or(|limit| limit.total >= amount);
        amounts.iter().all(|(key, amount)| holds(key, *amount))
    }

    /// How much of a limit may start within a span, as far as that is known: of a rate also what time
    /// brings.
    #[must_use]
    pub fn prospect(&self, key: &K, span: Millis) -> Option<u64> {
        let free = self.get(key)?.free();
        let Some(rate) = self.rate(key) else {
            return Some(free);
        };
        let brings = u128::from(rate.count) * u128::from(span.0) / u128::from(rate.per.0.max(1));
        Some(free.saturating_add(u64::try_from(brings).unwrap_or(u64::MAX)))
    }

    /// Counts amounts that are in use from now on, as far as they are limited: each start takes its part of
    /// a rate.
    pub fn charge(&mut self, amounts: &[(K, u64)]) {
        self.inherit(amounts);
        if self.buckets.is_empty() {
            return;
        }
        for (key, amount) in amounts {
            if let Some(bucket) = self.buckets.get_mut(key) {
                bucket.charge(*amount, self.now);
            }
        }
    }

    /// The same, of what has started before: it takes nothing of a rate.
    pub fn inherit(&mut self, amounts: &[(K, u64)]) {
        for (key, amount) in amounts {
            if self.bucket(key).is_none()
                && let Some(limit) = self.all.get_mut(key)
            {
                limit.used += u128::from(*amount);
            }
        }
    }

    /// Counts amounts that are no longer in use. What a start has taken of a rate comes back with time only.
    pub fn discharge(&mut self, amounts: &[(K, u64)]) {
        for (key, amount) in amounts {
            if self.bucket(key).is_none()
                && let Some(limit) = self.all.get_mut(key)
            {
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
