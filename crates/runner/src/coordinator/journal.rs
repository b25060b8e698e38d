//! The coordinator's log: when it is written, synced and replaced, and begun anew after it
//! could not be written.

use baton_model::time::Millis;

use super::runs::RootProcess;
use super::serve::{Coordinator, log_path};
use crate::log::{Kind, Log, LogError};
use crate::record::CoordinatorRecord;
use crate::sys::clock;
use crate::wire::{Guard, KnownRun};

/// A log with more records than this, most of them about forgotten runs, is replaced.
const LOG_RECORDS_MAX: u64 = 4_096;
/// The same for a worker, whose attempts may be thousands in a second. To replace a log
/// takes two syncs, in which nothing is launched.
const WORKER_LOG_RECORDS_MAX: u64 = 32_768;

/// Between two tries to begin a log anew.
const LOG_RETRY: Millis = Millis::from_secs(5);

impl Coordinator {
    /// Keeps something, before what is said from now on is said.
    pub(super) fn record(&mut self, record: CoordinatorRecord) {
        self.records.push(record);
    }

    /// A log that cannot be written is evidence lost, not work lost: the runner hears
    /// everything from us as long as we live, and what it never heard of it finds by its
    /// mark. So we go on, and begin another log with everything that is known as soon as one
    /// can be written.
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
        // A run that is known takes two records at most (and a few that linger a third), so half of a log or more is gone
        // whenever it is replaced: each record is written again once at most, on average.
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

    /// A file of its own, and not the one before: after a failed sync nobody knows what of
    /// that is on the disk.
    fn recreate_log(&mut self) {
        // What waits to be written is in it, too; to say it twice changes nothing.
        let first = self.summary();
        let path = log_path(&self.config.checkpoint);
        match Log::create(&path, Kind::Coordinator, &first) {
            Ok(log) => {
                eprintln!("coordinator: has a log again");
                self.log = Some(log);
            }
            // Why not was said when the one before was given up.
            Err(_) => self.log_at = clock::now().mono + LOG_RETRY,
        }
    }

    /// What is known, as the records that a log begins with.
    fn summary(&self) -> Vec<CoordinatorRecord> {
        let begun = CoordinatorRecord::Begun {
            mark: self.config.mark.clone(),
            boot: self.boot,
            pid: std::process::id(),
        };
        let guard = self.guard.order().map(Guard::from);
        let guard = guard.map(CoordinatorRecord::Guard);
        let kept = self.table.known().chain(self.queue.known());
        // Something of these is left, but how they ended is known.
        let exited = self.table.lingering.iter().filter_map(|key| {
            let run = self.table.runs.get(key).filter(|run| run.is_live())?;
            match run.root {
                RootProcess::Gone(status) => self.exit_record(*key, status),
                RootProcess::Child | RootProcess::Adopted(_) | RootProcess::Ending(..) => None,
            }
        });
        std::iter::once(begun)
            .chain(guard)
            .chain(kept.flat_map(known_records))
            .chain(exited)
            .collect()
    }

    fn abandon_log(&mut self, error: &LogError) {
        eprintln!("coordinator: goes on without its log: {error}");
        self.log = None;
        self.log_at = clock::now().mono + LOG_RETRY;
    }
}

/// The records that say what is known about one run: two at most.
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
        // Also of a run that is over and never was started, for the sake of its tag.
        None if !tag.is_empty() => Some(CoordinatorRecord::Accepted { run, tag }),
        None => None,
    };
    first.into_iter().chain(ended.map(CoordinatorRecord::Ended))
}
