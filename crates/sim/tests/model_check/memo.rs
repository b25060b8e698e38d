//! Memoized transitions of a part of the cluster.
//!
//! The same leader receives the same message in thousands of states that differ elsewhere. The
//! core is deterministic, so its answer can be looked up by the hashes of the part and of the
//! message, which the checker also trusts to distinguish whole states.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Enough shards that threads rarely contend.
const SHARDS: usize = 64;

/// Answers by part and input.
pub(crate) struct Memo<V>(Vec<Mutex<HashMap<(u64, u64), V>>>);

impl<V: Clone> Memo<V> {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// Returns the answer, computed at the first request.
    pub(crate) fn get(&self, part: u64, input: u64, compute: impl FnOnce() -> V) -> V {
        let shard = &self.0[(part ^ input) as usize % SHARDS];
        let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&(part, input)) {
            return known.clone();
        }
        // Without the lock: another thread may compute the same, but none waits.
        let value = compute();
        lock().insert((part, input), value.clone());
        value
    }
}
