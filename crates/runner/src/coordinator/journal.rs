//! The coordinator's log: writing, syncing, compacting, and recreating it after a failed write.

use std::path::PathBuf;

use baton_model::time::{Millis, Mono};

use super::{Config, log_path};
use crate::log::{Kind, Log, LogError};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::clock;

/// A log with more records than this, most of them about forgotten runs, is replaced.
const LOG_RECORDS_MAX: u64 = 4_096;
/// The same for a worker, which may run thousands of attempts per second. Replacing a log takes two
/// syncs, during which nothing is launched.
const WORKER_LOG_RECORDS_MAX: u64 = 32_768;

/// The interval between two attempts to recreate the log.
const LOG_RETRY: Millis = Millis::from_secs(5);

/// The log.
///
/// A log that cannot be written is evidence lost, not work lost: a live coordinator reports
/// everything to the runner, and the runner finds unreported processes by their mark. So the
/// coordinator continues, and creates another log with the full state as soon as one can be written.
pub(super) struct Journal {
    path: PathBuf,
    /// `None` while it cannot be written; then records are kept in memory only.
    log: Option<Log>,
    /// The time of the next attempt to recreate it.
    retry_at: Mono,
    /// Why the last one was abandoned.
    fault: String,
    records_max: u64,
}

impl Journal {
    pub(super) fn create(config: &Config, begun: CoordinatorRecord) -> Result<Self, LogError> {
        let path = log_path(&config.checkpoint);
        let log = Log::create(&path, Kind::Coordinator, &[begun])?;
        Ok(Self {
            path,
            log: Some(log),
            retry_at: Mono(0),
            fault: String::new(),
            records_max: if config.guarded {
                WORKER_LOG_RECORDS_MAX
            } else {
                LOG_RECORDS_MAX
            },
        })
    }

    pub(super) const fn is_writable(&self) -> bool {
        self.log.is_some()
    }

    /// Why there is no log; none if there is one.
    pub(super) fn fault(&self) -> Option<&str> {
        let fault = self.log.is_none().then_some(&self.fault);
        fault.map(String::as_str)
    }

    /// When the log is to be recreated.
    pub(super) fn next_due(&self) -> Option<Mono> {
        self.log.is_none().then_some(self.retry_at)
    }

    pub(super) fn must_recreate(&self) -> bool {
        self.next_due().is_some_and(|due| clock::now().mono >= due)
    }

    /// Creates a new log file. The one before is not reused: after a failed sync it is unknown what
    /// of it is on the disk.
    pub(super) fn recreate(&mut self, first: &[CoordinatorRecord]) {
        match Log::create(&self.path, Kind::Coordinator, first) {
            Ok(log) => {
                log_line!("coordinator: writing a log again");
                self.log = Some(log);
            }
            // The cause was logged when the log before was abandoned.
            Err(_) => self.retry_at = clock::now().mono + LOG_RETRY,
        }
    }

    /// Writes records. True if the log should then be compacted, with so many known runs.
    pub(super) fn write(&mut self, records: &[CoordinatorRecord], known: usize) -> bool {
        self.attempt(|log| log.append(records).map(drop));
        // A known run takes two records at most (a few lingering ones a third), so at least half of
        // a log is dropped whenever it is replaced: each record is rewritten at most once, on
        // average.
        let least = self.records_max.max(4 * known as u64);
        self.log.as_ref().is_some_and(|log| log.records() > least)
    }

    /// Replaces the log by one with these records.
    pub(super) fn compact(&mut self, first: &[CoordinatorRecord]) {
        self.attempt(|log| log.replace(first));
    }

    pub(super) fn sync(&mut self) {
        self.attempt(Log::sync);
    }

    /// Uses the log, and abandons it if that fails.
    fn attempt(&mut self, write: impl FnOnce(&mut Log) -> Result<(), LogError>) {
        if let Some(Err(error)) = self.log.as_mut().map(write) {
            log_line!("coordinator: continuing without its log: {error}");
            self.fault = error.to_string();
            self.log = None;
            self.retry_at = clock::now().mono + LOG_RETRY;
        }
    }
}
