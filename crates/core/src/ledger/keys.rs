//! Idempotency keys of requests, with what each of them has created.

use std::collections::{BTreeMap, VecDeque};

use baton_model::ids::TaskNo;
use baton_model::library::{Created, IdempotencyKey};
use baton_model::limits::IDEMPOTENCY_KEYS_MAX;

/// A key counts for the trigger of one task, or else for submissions.
type KeyId = (Option<TaskNo>, (u64, u64));

/// The keys that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keys {
    /// The digest of the request, and what it has created.
    records: BTreeMap<KeyId, (u64, Created)>,
    /// Oldest first.
    recent: VecDeque<KeyId>,
}

impl Keys {
    /// What an earlier request with the same key has created, if there was one.
    ///
    /// # Errors
    /// What it has created, if the key belongs to another request.
    pub fn earlier(
        &self,
        task: Option<TaskNo>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Created>, Created> {
        let found = key.and_then(|key| Some((key, self.records.get(&(task, key.key))?)));
        match found {
            None => Ok(None),
            Some((key, (request, created))) if *request == key.request => Ok(Some(*created)),
            Some((_, (_, created))) => Err(*created),
        }
    }

    /// Every key, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Option<TaskNo>, IdempotencyKey, Created)> + '_ {
        self.recent.iter().map(|id| {
            let (request, created) = self.records[id];
            let key = IdempotencyKey { key: id.1, request };
            (id.0, key, created)
        })
    }

    /// Records what a request has created. Beyond [`IDEMPOTENCY_KEYS_MAX`] keys the oldest are
    /// dropped.
    pub(super) fn record(&mut self, task: Option<TaskNo>, key: &IdempotencyKey, created: Created) {
        let id = (task, key.key);
        if self.records.insert(id, (key.request, created)).is_none() {
            self.recent.push_back(id);
        }
        if self.recent.len() > IDEMPOTENCY_KEYS_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.records.remove(&oldest);
        }
    }
}
