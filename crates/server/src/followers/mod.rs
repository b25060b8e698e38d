//! Followers of facts: what the leader does because of facts that are durable.
//!
//! A [`Follower`] reads the history from a recorded position, a page at a time, wakes when something was
//! committed, and stops when another scheduler leads. It never delays a commit: it reads on a
//! connection of its own.
//!
//! | module | holds |
//! |---|---|
//! | `notifications` | notices about facts, and their deliveries |
//! | `traces` | spans of work that has ended, for a receiver of OpenTelemetry |
//! | `receiver` | requests to receivers |
//!
//! Logs are collected by another follower, `http::logs::collect`. The stream of events is none of them: its
//! position belongs to a client, and any scheduler serves it.

pub(crate) mod notifications;
mod receiver;
pub(crate) mod traces;

use std::sync::Arc;
use std::time::Duration;

use baton_store::facts::{FactPage, FactQuery};
use baton_store::view::Seq;
use baton_store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::driver::Status;
use crate::limits::LOG_POLL_PAUSE;

/// The store, and when to look at it.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) status: watch::Receiver<Status>,
    /// Changes whenever facts were committed.
    pub(crate) committed: watch::Receiver<()>,
}

impl Source {
    /// Calls the store, on a blocking thread.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        let called = tokio::task::spawn_blocking(move || call(&*store)).await;
        called.unwrap_or_else(|error| Err(StoreError::Failed(format!("a call of it: {error}"))))
    }

    /// The number of the last fact.
    pub(crate) async fn last(&self) -> Result<Seq, StoreError> {
        let end = FactQuery {
            after: Seq(u64::MAX),
            ..FactQuery::default()
        };
        self.call(move |store| Ok(store.facts(&end)?.last)).await
    }
}

/// What happens after a page of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The page is done. It is called again after this time, although nothing was committed.
    Continue(Option<Duration>),
    /// It begins again, from where it was recorded last.
    Restart,
}

/// Acts because of facts that are durable.
pub(crate) trait Follower: Send {
    /// True if it acts now. One whose position is shared by several schedulers acts on the leader only.
    fn is_active(&self) -> bool;

    /// Where to begin; none if that is not known yet.
    fn begin(&mut self) -> impl Future<Output = Option<Seq>> + Send;

    /// Handles the facts after `after` up to `reached`, and records the position when its time has come.
    /// The page may be empty.
    fn handle(
        &mut self,
        after: Seq,
        reached: Seq,
        page: FactPage,
    ) -> impl Future<Output = Next> + Send;
}

/// Follows until the server stops.
pub(crate) async fn follow(source: Source, mut follower: impl Follower) {
    let mut status = source.status.clone();
    let mut committed = source.committed.clone();
    let mut position = None;
    loop {
        committed.mark_unchanged();
        status.mark_unchanged();
        if !follower.is_active() {
            position = None;
            if status.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(after) = position else {
            position = follower.begin().await;
            if position.is_none() {
                sleep(LOG_POLL_PAUSE).await;
            }
            continue;
        };
        let query = FactQuery {
            after,
            ..FactQuery::default()
        };
        let Ok(page) = source.call(move |store| store.facts(&query)).await else {
            sleep(LOG_POLL_PAUSE).await;
            continue;
        };
        // Another history, whose end comes before: a restored backup.
        let reached = if after <= page.last {
            page.scanned_to
        } else {
            page.last
        };
        let more = page.more;
        let pause = match follower.handle(after, reached, page).await {
            Next::Restart => {
                position = None;
                sleep(LOG_POLL_PAUSE).await;
                continue;
            }
            Next::Continue(pause) => pause,
        };
        position = Some(reached);
        if more {
            continue;
        }
        let again = async {
            match pause {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = committed.changed() => if changed.is_err() {
                return;
            },
            changed = status.changed() => if changed.is_err() {
                return;
            },
            () = again => {}
        }
    }
}
