//! A table of deadlines; its cost depends on the number of due deadlines, not of all.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::time::Mono;

/// At most one deadline per key, ordered by time and then by key, so that two
/// timers due at the same instant fire in the same order in every run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timers<K: Ord> {
    by_key: BTreeMap<K, Mono>,
    by_time: BTreeSet<(Mono, K)>,
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets or moves the deadline of `key`.
    pub(crate) fn arm(&mut self, key: K, at: Mono) {
        self.disarm(&key);
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
        self.assert_paired();
    }

    /// Removes the deadline of `key`.
    pub(crate) fn disarm(&mut self, key: &K) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
        self.assert_paired();
    }

    /// Takes the earliest key that is due, if there is one.
    pub(crate) fn pop_due(&mut self, now: Mono) -> Option<K> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        self.assert_paired();
        Some(key)
    }

    fn assert_paired(&self) {
        let (keys, times) = (self.by_key.len(), self.by_time.len());
        assert_eq!(keys, times, "keys and deadlines of one table");
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_in_order_of_time_then_key_and_only_when_due() {
        let mut timers = Timers::default();
        timers.arm("b", Mono(5));
        timers.arm("a", Mono(5));
        timers.arm("c", Mono(3));
        assert_eq!(timers.next(), Some(Mono(3)));
        assert_eq!(timers.pop_due(Mono(2)), None);
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_due(Mono(5))).collect();
        assert_eq!(fired, ["c", "a", "b"]);
    }

    #[test]
    fn arming_again_moves_and_disarming_removes() {
        let mut timers = Timers::default();
        timers.arm("a", Mono(5));
        timers.arm("a", Mono(9));
        assert_eq!(timers.pop_due(Mono(5)), None);
        timers.disarm(&"a");
        assert_eq!(timers.next(), None);
    }
}
