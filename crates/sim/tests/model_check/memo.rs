//! What a part of the cluster does with an input, computed once.
//!
//! The same leader meets the same message in thousands of states that differ in
//! something else. The core is deterministic, so its answer can be looked up; it
//! is told apart by the hashes of the part and of the message, which the checker
//! trusts to tell whole states apart as well.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Enough that two threads rarely want the same one.
const SHARDS: usize = 64;

/// Answers by part and input.
pub(crate) struct Memo<V>(Vec<Mutex<HashMap<(u64, u64), V>>>);

impl<V: Clone> Memo<V> {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// The answer, computed if it is asked for the first time.
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
