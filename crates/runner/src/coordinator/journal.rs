//! The coordinator's log: writing, syncing, compacting, and recreating it after a failed write.

use baton_model::time::Millis;

use super::runs::RootProcess;
use super::serve::{Coordinator, log_path};
use crate::log::{Kind, Log, LogError};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::clock;
use crate::wire::{Guard, KnownRun};

/// A log with more records than this, most of them about forgotten runs, is replaced.
const LOG_RECORDS_MAX: u64 = 4_096;
/// The same for a worker, which may run thousands of attempts per second. Replacing a log takes two
/// syncs, during which nothing is launched.
const WORKER_LOG_RECORDS_MAX: u64 = 32_768;

/// The interval between two attempts to recreate the log.
const LOG_RETRY: Millis = Millis::from_secs(5);

impl Coordinator {
    /// Queues a record. It is written before any later reply is sent.
    pub(super) fn record(&mut self, record: CoordinatorRecord) {
        self.records.push(record);
    }

    /// Writes the queued records. A log that cannot be written is evidence lost, not work lost: a
    /// live coordinator reports everything to the runner, and the runner finds unreported processes
    /// by their mark. So we continue, and create another log with the full state as soon as one can
    /// be written.
    pub(super) fn write_records(&mut self) {
        if self.log.is_none() && clock::now().mono >= self.log_at {
            self.recreate_log();
        }
        if self.records.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.records);
        let Some(log) = &mut self.log else {
            return;
        };
        if let Err(error) = log.append(&records) {
            return self.abandon_log(&error);
        }
        let least = if self.config.guarded {
            WORKER_LOG_RECORDS_MAX
        } else {
            LOG_RECORDS_MAX
        };
        // A known run takes two records at most (a few lingering ones a third), so at least half of
        // a log is dropped whenever it is replaced: each record is rewritten at most once, on
        // average.
        let known = self.table.runs.len() + self.queue.len();
        if log.records() > least.max(4 * known as u64) {
            self.compact();
        }
        if self.client().is_none() {
            self.sync();
        }
    }

    pub(super) fn sync(&mut self) {
        if let Some(Err(error)) = self.log.as_mut().map(Log::sync) {
            self.abandon_log(&error);
        }
    }

    fn compact(&mut self) {
        let first = self.summary();
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.replace(&first)) {
            self.abandon_log(&error);
        }
    }

    /// Creates a new log file. The one before is not reused: after a failed sync it is unknown what
    /// of it is on the disk.
    fn recreate_log(&mut self) {
        // Queued records are included, too; a repeated record changes nothing.
        let first = self.summary();
        let path = log_path(&self.config.checkpoint);
        match Log::create(&path, Kind::Coordinator, &first) {
            Ok(log) => {
                log_line!("coordinator: writing a log again");
                self.log = Some(log);
            }
            // The cause was logged when the log before was abandoned.
            Err(_) => self.log_at = clock::now().mono + LOG_RETRY,
        }
    }

    /// The full state, as the first records of a log.
    fn summary(&self) -> Vec<CoordinatorRecord> {
        let begun = CoordinatorRecord::Begun {
            mark: self.config.mark.clone(),
            boot: self.boot,
            pid: std::process::id(),
        };
        let guard = self.guard.order().map(Guard::from);
        let guard = guard.map(CoordinatorRecord::Guard);
        let known = self.table.known().chain(self.queue.known());
        // These have processes left, but their exit status is known.
        let exited = self.table.lingering.iter().filter_map(|key| {
            let run = self.table.runs.get(key).filter(|run| run.is_live())?;
            match run.root {
                RootProcess::Gone(status) => self.exit_record(*key, status),
                RootProcess::Child | RootProcess::Adopted(_) | RootProcess::Ending(..) => None,
            }
        });
        std::iter::once(begun)
            .chain(guard)
            .chain(known.flat_map(known_records))
            .chain(exited)
            .collect()
    }

    fn abandon_log(&mut self, error: &LogError) {
        log_line!("coordinator: continuing without its log: {error}");
        self.log = None;
        self.log_at = clock::now().mono + LOG_RETRY;
    }
}

/// The records that describe one run: two at most.
fn known_records(known: KnownRun) -> impl Iterator<Item = CoordinatorRecord> {
    let KnownRun {
        run,
        started,
        ended,
        tag,
        ..
    } = known;
    let first = match started {
        Some((at, identity)) => Some(CoordinatorRecord::Started {
            run,
            at,
            identity,
            tag,
        }),
        // Also for a run that ended without being started, to preserve its tag.
        None if !tag.is_empty() => Some(CoordinatorRecord::Accepted { run, tag }),
        None => None,
    };
    first.into_iter().chain(ended.map(CoordinatorRecord::Ended))
}
