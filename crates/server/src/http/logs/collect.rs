//! Collection of logs: those of every attempt that ends, into the archive.
//!
//! The collector follows the facts of the store, from where it was when the server stopped. It reads
//! the last run of every process from the worker, as clients do. What a worker cannot answer is not
//! asked for again: it stays readable there.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::LeaseId;
use baton_model::limits::LOG_CHUNK_BYTES_MAX;
use baton_model::message::{
    LogAnswer, LogChunk, LogCursor, LogFileId, LogQuery, LogStart, LogStream,
};
use baton_model::outcome::AttemptEnd;
use baton_model::spec::Work;
use baton_store::facts::FactQuery;
use baton_store::view::Seq;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::LogSelector;
use crate::http::app::App;
use crate::limits::{COLLECTED_LOG_BYTES_MAX, COLLECTIONS_MAX, LOG_POLL_PAUSE};
use crate::log_archive::{ArchivedLog, LogArchive, LogKey};

const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// The file of a cursor into the archive.
const ARCHIVED: LogFileId = LogFileId {
    inode: 0,
    created_ns: 0,
};

/// Collects until the server stops.
pub(crate) async fn run(app: App, archive: Arc<LogArchive>, mut committed: watch::Receiver<()>) {
    let mut position = archive.position();
    loop {
        committed.mark_unchanged();
        // Without a position, what has ended before is left where it is.
        let query = FactQuery {
            after: position.unwrap_or(Seq(u64::MAX)),
            ..FactQuery::default()
        };
        let Ok(page) = app.follow_read(move |store| store.facts(&query)).await else {
            sleep(LOG_POLL_PAUSE).await;
            continue;
        };
        let ended = page.items.iter().filter_map(|entry| match &entry.fact {
            Fact::AttemptEnded {
                lease,
                end: AttemptEnd::Real(_),
                ..
            } => Some(*lease),
            _ => None,
        });
        // The leader collects; logs of attempts that end meanwhile are in its archive.
        if !app.0.status.borrow().follows() {
            collect_all(&app, &archive, ended.collect()).await;
        }
        // Another history, whose end comes before: a restored backup.
        let reached = match position {
            Some(position) if position <= page.last => page.scanned_to,
            _ => page.last,
        };
        if position != Some(reached)
            && let Err(error) = archive.set_position(reached)
        {
            tracing::warn!("cannot record how far logs were collected: {error}");
        }
        position = Some(reached);
        if !page.more && committed.changed().await.is_err() {
            return;
        }
    }
}

async fn collect_all(app: &App, archive: &Arc<LogArchive>, leases: Vec<LeaseId>) {
    let mut running = JoinSet::new();
    for lease in leases {
        if running.len() >= COLLECTIONS_MAX {
            running.join_next().await;
        }
        let (app, archive) = (app.clone(), Arc::clone(archive));
        running.spawn(async move { app.collect(&archive, lease).await });
    }
    running.join_all().await;
}

impl App {
    /// Collects the logs of one attempt.
    async fn collect(&self, archive: &Arc<LogArchive>, lease: LeaseId) {
        let id = lease.attempt.instance;
        let Ok(record) = self.record(id).await else {
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
                let Some(log) = self.last_bytes(lease, selector).await else {
                    continue;
                };
                let key = LogKey {
                    lease,
                    process,
                    stream,
                };
                let archive = Arc::clone(archive);
                let written = tokio::task::spawn_blocking(move || archive.write(&key, &log));
                if let Ok(Err(error)) = written.await {
                    tracing::warn!("cannot keep a log of {lease}: {error}");
                }
            }
        }
    }

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
    ) -> Option<(LogAnswer, bool)> {
        let archive = Arc::clone(self.0.log_archive.as_ref()?);
        let process = match (work, &query.process) {
            (Work::Command(_), None) | (Work::Task(_), None) => 0,
            (Work::Command(_), Some(_)) => return None,
            (Work::Task(task), Some(name)) => {
                let mut names = task.processes.iter();
                names.position(|process| process.name.0 == *name)?
            }
        };
        let key = LogKey {
            lease: query.lease,
            process,
            stream: query.stream,
        };
        let read = tokio::task::spawn_blocking(move || archive.read(&key)).await;
        let log = match read.ok()? {
            Ok(log) => log?,
            Err(error) => {
                tracing::warn!("cannot read a collected log of {}: {error}", query.lease);
                return None;
            }
        };
        if query.run.is_some_and(|run| run != log.run) {
            return None;
        }
        let is_cut = log.is_cut;
        Some((LogAnswer::Chunk(piece(log, query)), is_cut))
    }
}

/// A piece of a log that is in memory.
fn piece(log: ArchivedLog, query: &LogQuery) -> LogChunk {
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
