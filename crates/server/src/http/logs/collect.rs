//! Collection of logs: those of every attempt that ends, into the archive.
//!
//! The collector follows the facts of the store, from where it was when the server stopped. It reads
//! the last run of every process from the worker, as clients do. What a worker cannot answer is not
//! asked for again: it stays readable there.
//!
//! An archive in a bucket is shared: the leader collects, and the next one continues.

use std::sync::{Arc, Mutex, PoisonError};

use baton_model::fact::Fact;
use baton_model::ids::LeaseId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{
    LogAnswer, LogChunk, LogCursor, LogFileId, LogQuery, LogStart, LogStream,
};
use baton_model::outcome::AttemptEnd;
use baton_model::spec::Work;
use baton_store::facts::{FactPage, FactQuery};
use baton_store::view::{RecordedFact, Seq};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::LogSelector;
use crate::followers::{Follower, Next, Source, follow};
use crate::http::app::App;
use crate::limits::{BUCKET_BACKOFF, COLLECTED_LOG_BYTES_MAX, COLLECTIONS_MAX};
use crate::log_archive::{ArchiveError, ArchivedLog, LogArchive, LogKey};

const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// The file of a cursor into the archive.
const ARCHIVED: LogFileId = LogFileId {
    inode: 0,
    created_ns: 0,
};

/// Collects until the server stops.
pub(crate) async fn run(app: App, archive: LogArchive, committed: watch::Receiver<()>) {
    let source = Source {
        store: Arc::clone(&app.0.store),
        status: app.0.status.clone(),
        committed,
    };
    let collector = Collector {
        app,
        archive,
        failure: Arc::default(),
    };
    let following = Following {
        collector,
        recorded: None,
        recorded_at: None,
    };
    follow(source, following).await;
}

/// Collects the logs of attempts that end.
#[derive(Clone)]
struct Collector {
    app: App,
    archive: LogArchive,
    /// The failure of the archive that was logged last, until it works again.
    failure: Arc<Mutex<Option<String>>>,
}

/// The collector, and the position that the archive has.
struct Following {
    collector: Collector,
    recorded: Option<Seq>,
    recorded_at: Option<Instant>,
}

impl Follower for Following {
    /// The leader collects; what it has reached is in the archive.
    fn is_active(&self) -> bool {
        !self.collector.has_lost_lead()
    }

    async fn begin(&mut self) -> Option<Seq> {
        self.recorded = self.collector.begin().await;
        self.recorded
    }

    async fn handle(&mut self, _: Seq, reached: Seq, page: FactPage) -> Next {
        // The leader collects; logs of attempts that end meanwhile are in its archive.
        if !self.collector.app.0.status.borrow().follows() {
            self.collector.collect_all(ended(&page.items)).await;
        }
        if !self.is_active() {
            return Next::Restart;
        }
        let pause = self.collector.archive.position_pause();
        let is_due = self.recorded_at.is_none_or(|at| at.elapsed() >= pause);
        if self.recorded != Some(reached) && is_due {
            let what = "record how far logs were collected";
            let archive = &self.collector.archive;
            self.collector
                .attempt(what, || archive.set_position(reached))
                .await;
            self.recorded = Some(reached);
            self.recorded_at = Some(Instant::now());
        }
        Next::Continue((self.recorded != Some(reached)).then_some(pause))
    }
}

impl Collector {
    /// Where to begin: at the position of the archive. Without one, what has ended before is left
    /// where it is. None if that is not known yet.
    async fn begin(&self) -> Option<Seq> {
        let end = FactQuery {
            after: Seq(u64::MAX),
            ..FactQuery::default()
        };
        let page = self.app.follow_read(move |store| store.facts(&end)).await;
        let page = page.ok()?;
        let what = "read how far logs were collected";
        let found = self.attempt(what, || self.archive.position()).await?;
        if found.is_none() {
            let what = "record how far logs were collected";
            self.attempt(what, || self.archive.set_position(page.last))
                .await?;
        }
        Some(found.unwrap_or(page.last))
    }

    /// True if another scheduler now collects into the same archive.
    fn has_lost_lead(&self) -> bool {
        self.archive.is_shared() && self.app.0.status.borrow().follows()
    }

    async fn collect_all(&self, leases: Vec<LeaseId>) {
        let is_empty = leases.is_empty();
        let mut running = JoinSet::new();
        for lease in leases {
            if running.len() >= COLLECTIONS_MAX {
                running.join_next().await;
            }
            let collector = self.clone();
            running.spawn(async move { collector.collect(lease).await });
        }
        running.join_all().await;
        if !is_empty && let Err(error) = self.archive.sweep().await {
            // The next page is a reason to try again.
            self.failed("remove the oldest collected logs", &error);
        }
    }

    /// Collects the logs of one attempt.
    async fn collect(&self, lease: LeaseId) {
        let id = lease.attempt.instance;
        let Ok(record) = self.app.record(id).await else {
            return;
        };
        let processes = match &record.instance.spec.work {
            Work::Command(_) => vec![None],
            Work::Task(task) => {
                let names = task.processes.iter();
                names.map(|process| Some(process.name.0.clone())).collect()
            }
        };
        for (process, name) in processes.into_iter().enumerate() {
            for stream in STREAMS {
                let selector = LogSelector {
                    attempt: Some(lease.attempt.number.0),
                    process: name.clone(),
                    run: None,
                    stream,
                };
                let Some(log) = self.app.last_bytes(lease, selector).await else {
                    continue;
                };
                let (log, key) = (
                    Arc::new(log),
                    LogKey {
                        lease,
                        process,
                        stream,
                    },
                );
                let written = self.attempt("store a log", || self.archive.write(key, &log));
                if written.await.is_some() {
                    self.app.0.metrics.log_collected();
                }
            }
        }
    }

    /// Carries out a request to the archive. One to a bucket is repeated until it succeeds, or another
    /// scheduler leads: an outage delays the collection, and loses nothing that workers still have.
    async fn attempt<T, R>(&self, what: &str, request: impl Fn() -> R + Send) -> Option<T>
    where
        R: Future<Output = Result<T, ArchiveError>> + Send,
    {
        let mut status = self.app.0.status.clone();
        status.mark_unchanged();
        let [mut pause, pause_max] = BUCKET_BACKOFF;
        loop {
            let error = match request().await {
                Ok(done) => {
                    self.succeeded();
                    return Some(done);
                }
                Err(error) => error,
            };
            self.failed(what, &error);
            if !self.archive.is_shared() {
                return None;
            }
            tokio::select! {
                () = sleep(pause) => pause = pause_max.min(pause * 2),
                _ = status.changed() => {}
            }
            if self.has_lost_lead() {
                return None;
            }
        }
    }

    fn failed(&self, what: &str, error: &ArchiveError) {
        self.app.0.metrics.log_archive_failed();
        let error = error.to_string();
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&error) {
            tracing::warn!("cannot {what}: {error}");
            *last = Some(error);
        }
    }

    fn succeeded(&self) {
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if last.take().is_some() {
            tracing::warn!("the archive of collected logs works again");
        }
    }
}

/// The leases of the attempts that have ended on their workers.
fn ended(facts: &[RecordedFact]) -> Vec<LeaseId> {
    let ended = facts.iter().filter_map(|entry| match &entry.fact {
        Fact::AttemptEnded {
            lease,
            end: AttemptEnd::Real(_),
            ..
        } => Some(*lease),
        _ => None,
    });
    ended.collect()
}

impl App {
    /// The end of a log on its worker, as much as is collected.
    async fn last_bytes(&self, lease: LeaseId, mut selector: LogSelector) -> Option<ArchivedLog> {
        let id = lease.attempt.instance;
        let (_, first) = self
            .worker_piece(id, &selector, LogStart::Offset(0), 1)
            .await
            .ok()?;
        let first = match first {
            LogAnswer::Chunk(first) => first,
            // A log that stayed empty may be gone.
            LogAnswer::NotFound => LogChunk::default(),
            LogAnswer::Unavailable(_) => return None,
        };
        if first.size == 0 {
            return Some(ArchivedLog {
                run: first.run,
                is_cut: false,
                bytes: Vec::new(),
            });
        }
        selector.run = Some(first.run);
        let cut = first.size.saturating_sub(COLLECTED_LOG_BYTES_MAX as u64);
        let mut bytes = Vec::new();
        if cut > 0 {
            let mark = format!("[baton: the first {cut} bytes were not collected]\n");
            bytes.extend_from_slice(mark.as_bytes());
        }
        let mut start = LogStart::Offset(cut);
        loop {
            let piece = self.worker_piece(id, &selector, start, LOG_CHUNK_BYTES_MAX);
            let Ok((_, LogAnswer::Chunk(chunk))) = piece.await else {
                return None;
            };
            bytes.extend_from_slice(&chunk.bytes);
            match chunk.cursor {
                Some(cursor) if chunk.bytes.len() == LOG_CHUNK_BYTES_MAX as usize => {
                    start = LogStart::Cursor(cursor);
                }
                _ => break,
            }
            // A process that was left behind may still write.
            if bytes.len() > 2 * COLLECTED_LOG_BYTES_MAX {
                break;
            }
        }
        Some(ArchivedLog {
            run: first.run,
            is_cut: cut > 0,
            bytes,
        })
    }

    /// Reads a piece of a collected log, and whether that is only the end of what was written.
    pub(super) async fn archived(
        &self,
        work: &Work,
        query: &LogQuery,
    ) -> Result<Option<(LogAnswer, bool)>, ArchiveError> {
        let Some(archive) = &self.0.log_archive else {
            return Ok(None);
        };
        let process = match (work, &query.process) {
            (Work::Command(_) | Work::Task(_), None) => Some(0),
            (Work::Command(_), Some(_)) => None,
            (Work::Task(task), Some(name)) => {
                let mut names = task.processes.iter();
                names.position(|process| process.name.0 == *name)
            }
        };
        let Some(process) = process else {
            return Ok(None);
        };
        let key = LogKey {
            lease: query.lease,
            process,
            stream: query.stream,
        };
        let log = archive.read(key).await.inspect_err(|error| {
            self.0.metrics.log_archive_failed();
            tracing::warn!("cannot read a collected log of {}: {error}", query.lease);
        })?;
        let log = log.filter(|log| query.run.is_none_or(|run| run == log.run));
        Ok(log.map(|log| (LogAnswer::Chunk(piece(&log, query)), log.is_cut)))
    }
}

/// A piece of a log that is in memory.
fn piece(log: &ArchivedLog, query: &LogQuery) -> LogChunk {
    let (file, offset) = match query.start {
        LogStart::Offset(offset) => (ARCHIVED, offset),
        LogStart::Cursor(cursor) => (cursor.file, cursor.offset),
    };
    let size = log.bytes.len();
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(size);
    let end = start.saturating_add(query.bytes_max as usize).min(size);
    let cursor = LogCursor {
        file,
        offset: end as u64,
    };
    LogChunk {
        bytes: log.bytes[start..end].to_vec(),
        size: size as u64,
        cursor: Some(cursor),
        run: log.run,
        next_run: None,
    }
}
