//! The state that all handlers share, and their ways to the driver and to the store.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use baton_core::scheduler::{Command, Reply, Scheduler};
use baton_model::api::LocalWorker;
use baton_model::ids::{InstanceId, RunId};
use baton_model::principal::Principal;
use baton_store::view::{Record, RunRecord};
use baton_store::{FactLog, Store, StoreError, Views};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::bodies::BodyBudget;
use super::problem::{Answer, Fault};
use super::runs::ended::EndedRuns;
use crate::access::Access;
use crate::driver::Status;
use crate::driver::event::{Event, Inbox, Unanswered};
use crate::followers::notifications::Notifications;
use crate::library::Problems;
use crate::limits::{ANSWER_WAIT, STREAMS_MAX};
use crate::log_archive::LogArchive;
use crate::log_reader::LogReader;
use crate::metrics::Metrics;
use crate::peers::{Contact, Peers};
use crate::prune::HistoryLock;
use crate::rate_limit::RateLimiter;
use crate::secrets::Secrets;

/// Concurrent store reads: each needs a thread and a connection of its own.
pub(super) const READERS_MAX: usize = 8;

/// Concurrent store reads for event streams, counted apart so that they do not starve other reads.
const FOLLOW_READERS_MAX: usize = 2;

/// Shared state of all handlers.
#[derive(Clone)]
pub(crate) struct App(pub(super) Arc<Inner>);

pub(super) struct Inner {
    parts: Parts,
    pub(super) readers: Arc<Semaphore>,
    follow_readers: Arc<Semaphore>,
    /// Permits of streaming responses.
    pub(super) streams: Arc<Semaphore>,
    pub(super) ended_runs: EndedRuns,
}

/// The parts of an [`App`].
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Inbox,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) history: HistoryLock,
    pub(crate) address: SocketAddr,
    pub(crate) access: Access,
    /// Whether clients must authenticate.
    pub(crate) requires_credentials: bool,
    pub(crate) rate_limit: RateLimiter,
    pub(crate) bodies: Arc<BodyBudget>,
    pub(crate) shutdown: watch::Receiver<bool>,
    /// Changes whenever facts were committed.
    pub(crate) committed: watch::Receiver<()>,
    pub(crate) metrics: Arc<Metrics>,
    /// Errors of library files.
    pub(crate) problems: Problems,
    /// The directory of the files of fleets.
    pub(crate) fleet_dir: Option<PathBuf>,
    /// Errors of the file of fleets.
    pub(crate) fleet_problems: Problems,
    pub(crate) local_worker: Option<LocalWorker>,
    pub(crate) contact: Contact,
    /// The other schedulers, if the store is shared.
    pub(crate) peers: Option<Arc<Peers>>,
    /// Reads logs of a worker that is not connected.
    pub(crate) log_reader: Option<LogReader>,
    pub(crate) notifications: Notifications,
    /// Collected logs, if they are collected.
    pub(crate) log_archive: Option<LogArchive>,
    /// Where jobs of fleets that need not be defined are tried.
    pub(crate) fleet_site: Option<baton_fleet::Site>,
    pub(crate) secrets: Arc<Secrets>,
}

impl Deref for Inner {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            parts,
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            follow_readers: Arc::new(Semaphore::new(FOLLOW_READERS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            ended_runs: EndedRuns::default(),
        }))
    }

    /// Carries out a command, and waits until it is durable.
    pub(super) async fn command(
        &self,
        by: Option<Arc<Principal>>,
        command: Command,
    ) -> Answer<Reply> {
        answered(self.0.inbox.command(by, command)).await
    }

    /// Sends a command at once; its answer comes when it is durable.
    pub(super) fn begin(
        &self,
        by: Option<Arc<Principal>>,
        command: Command,
    ) -> impl Future<Output = Answer<Reply>> + use<> {
        answered(self.0.inbox.command(by, command))
    }

    /// Reads the memory of the leader, on its thread.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let query = Box::new(move |leader: Result<&Scheduler, Unanswered>| {
            // The client may be gone.
            let _ = reply.send(leader.map(query));
        });
        self.0.inbox.send(Event::Query(query));
        answered(answer).await
    }

    /// Reads from the store, on a blocking thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Views) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.call(&self.0.readers, |store| read(store)).await
    }

    /// The same, for event streams.
    pub(super) async fn follow_read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Views) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.call(&self.0.follow_readers, |store| read(store)).await
    }

    /// Calls the writing side of the store, on a blocking thread.
    pub(super) async fn call_log<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn FactLog) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.call(&self.0.readers, |store| call(store)).await
    }

    async fn call<T: Send + 'static>(
        &self,
        readers: &Arc<Semaphore>,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        // The semaphore is never closed, so a permit always comes.
        let permit = Arc::clone(readers).acquire_owned().await;
        let store = Arc::clone(&self.0.store);
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call(&*store)
        });
        match work.await {
            Ok(found) => Ok(found?),
            Err(error) => Err(Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "bug",
                format!("reading the store failed: {error}"),
            )),
        }
    }
    /// The stored record of an instance.
    pub(super) async fn record(&self, id: InstanceId) -> Answer<Record> {
        let found = self.read(move |store| store.instance(id)).await?;
        found.ok_or_else(|| Fault::unknown_instance(id))
    }

    /// The stored record of a run.
    pub(super) async fn run_record(&self, run: RunId) -> Answer<RunRecord> {
        let found = self.read(move |store| store.run(run)).await?;
        found.ok_or_else(|| Fault::unknown_run(run))
    }
}

/// Waits for an answer of the leader.
async fn answered<T>(answer: oneshot::Receiver<Result<T, Unanswered>>) -> Answer<T> {
    match timeout(ANSWER_WAIT, answer).await {
        Ok(Ok(answer)) => Ok(answer?),
        Ok(Err(_)) | Err(_) => Err(Fault::no_answer()),
    }
}
