//! The archive in a bucket of an S3-compatible store.
//!
//! The keys are `PREFIX/STORE/logs/INSTANCE.…` and `PREFIX/STORE/position`, so that several clusters
//! may share a prefix. The number of an instance has leading zeros: a list of the keys has
//! the oldest instances first, and the archive is swept without knowing all of them.
//!
//! Only the leader writes. After a change of leaders two may do so for a moment: both write the
//! same objects, and a position that is too old costs a second collection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baton_model::ids::StoreId;
use baton_model::message::LogStream;
use baton_store::view::Seq;

use super::location::LogBucket;
use super::requests::{BucketError, Requests};
use super::{ArchiveError, ArchivedLog, LogKey, unblocked};
use crate::limits::BUCKET_LOGS_CACHED;

/// Not swept yet, so its total is not known.
const UNKNOWN: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Bucket {
    requests: Requests,
    /// The directory of one store, with a slash at its end.
    prefix: String,
    /// Bytes of its logs.
    budget: u64,
    /// Bytes that were there at the last sweep, or were added since.
    total: AtomicU64,
    /// The logs that were read last: clients read them in pieces.
    cache: Mutex<VecDeque<(LogKey, Arc<ArchivedLog>)>>,
}

impl Bucket {
    /// The archive of a store. `probe` tells whether it can be used.
    pub(crate) fn new(
        location: &LogBucket,
        store: StoreId,
        budget: u64,
    ) -> Result<Self, BucketError> {
        Ok(Self {
            requests: Requests::new(location)?,
            prefix: format!("{}{store}/", location.prefix()),
            budget,
            total: AtomicU64::new(UNKNOWN),
            cache: Mutex::default(),
        })
    }

    /// Lists, writes, reads and removes an object: everything that the credentials must allow.
    pub(crate) async fn probe(&self) -> Result<(), BucketError> {
        let key = format!("{}probe", self.prefix);
        self.requests.list(&key, None).await?;
        self.requests.put(&key, b"baton".to_vec()).await?;
        self.requests.get(&key).await?;
        self.requests.delete(&key).await
    }

    pub(super) async fn position(&self) -> Result<Option<Seq>, BucketError> {
        let bytes = self.requests.get(&self.position_key()).await?;
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        Ok(text.and_then(|text| text.parse().ok()).map(Seq))
    }

    pub(super) async fn set_position(&self, position: Seq) -> Result<(), BucketError> {
        let text = position.0.to_string().into_bytes();
        self.requests.put(&self.position_key(), text).await
    }

    pub(super) async fn write(
        &self,
        key: LogKey,
        log: &Arc<ArchivedLog>,
    ) -> Result<(), ArchiveError> {
        if log.is_implied(&key) {
            return Ok(());
        }
        let encoding = Arc::clone(log);
        let bytes = unblocked(move || encoding.encode()).await?;
        let size = bytes.len() as u64;
        self.requests.put(&self.key(&key), bytes).await?;
        if self.total.load(Ordering::Relaxed) != UNKNOWN {
            self.total.fetch_add(size, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(super) async fn read(&self, key: LogKey) -> Result<Option<Arc<ArchivedLog>>, ArchiveError> {
        if let Some(log) = self.cached(&key) {
            return Ok(Some(log));
        }
        let log = match self.fetch(&key).await? {
            Some(log) => Some(log),
            None if key.stream == LogStream::Stdout => None,
            None => {
                let stdout = self.fetch(&key.stdout()).await?;
                stdout.as_ref().map(ArchivedLog::implied)
            }
        };
        let log = log.map(Arc::new);
        if let Some(log) = &log {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.truncate(BUCKET_LOGS_CACHED - 1);
            cache.push_front((key, Arc::clone(log)));
        }
        Ok(log)
    }

    async fn fetch(&self, key: &LogKey) -> Result<Option<ArchivedLog>, ArchiveError> {
        let Some(bytes) = self.requests.get(&self.key(key)).await? else {
            return Ok(None);
        };
        let log = unblocked(move || ArchivedLog::decode(&*bytes)).await?;
        Ok(Some(log))
    }

    fn cached(&self, key: &LogKey) -> Option<Arc<ArchivedLog>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = cache.iter().filter(|(known, _)| known == key);
        found.next().map(|(_, log)| Arc::clone(log))
    }

    /// Removes the logs of the oldest instances beyond the budget. It lists the bucket once after
    /// the start, and when the budget is reached.
    pub(super) async fn sweep(&self) -> Result<(), BucketError> {
        let total = self.total.load(Ordering::Relaxed);
        if total != UNKNOWN && total <= self.budget {
            return Ok(());
        }
        let prefix = self.logs_prefix();
        let mut total = 0;
        let mut after: Option<String> = None;
        loop {
            let page = self.requests.list(&prefix, after.as_deref()).await?;
            total += page.contents.iter().filter_map(|it| it.size).sum::<u64>();
            after = page.contents.last().map(|it| it.key.clone());
            if page.next_continuation_token.is_none() || after.is_none() {
                break;
            }
        }
        // Some room, or every log that is added would be a reason for another sweep.
        let target = self.budget - self.budget / 16;
        let target = if total > self.budget {
            target
        } else {
            self.budget
        };
        while total > target {
            // What was removed is not in the next page.
            let page = self.requests.list(&prefix, None).await?;
            if page.contents.is_empty() {
                break;
            }
            for object in &page.contents {
                if total <= target {
                    break;
                }
                self.requests.delete(&object.key).await?;
                total = total.saturating_sub(object.size.unwrap_or(0));
            }
        }
        self.total.store(total, Ordering::Relaxed);
        Ok(())
    }

    fn logs_prefix(&self) -> String {
        format!("{}logs/", self.prefix)
    }

    fn position_key(&self) -> String {
        format!("{}position", self.prefix)
    }

    fn key(&self, key: &LogKey) -> String {
        let instance = key.lease.attempt.instance.0;
        format!("{}{instance:020}.{}", self.logs_prefix(), key.suffix())
    }
}
