//! The limit of logs: those of running attempts are cut when they exceed it.
//!
//! Checked once a second, and when an attempt ends: a fast writer exceeds the limit for that long.

use std::io;
use std::path::{Path, PathBuf};

use baton_core::supervision::attempts::{Attempts, Phase};
use baton_model::ids::LeaseId;
use baton_model::task::{LogMode, RunNo, TaskSpec};
use baton_model::time::{Millis, Mono};
use baton_runner::logs::{LOG_LIMIT_MIN, LogSource};
use baton_runner::sys::clock;

use crate::log_follower::sources;

/// The shortest interval between two checks.
const CHECK_EVERY: Millis = Millis::from_secs(1);
/// A slow check makes the interval longer: it takes at most one part in this many of the time.
const CHECK_COST_RATIO: u64 = 20;

#[derive(Debug)]
pub(crate) struct LogLimit {
    state: PathBuf,
    /// Bytes of one stream; `None` for no limit.
    limit: Option<u64>,
    due: Mono,
    has_failed: bool,
}

impl LogLimit {
    /// A limit of 0 is none.
    pub(crate) fn new(state: &Path, limit: u64, now: Mono) -> Self {
        Self {
            state: state.to_owned(),
            limit: Some(limit.max(LOG_LIMIT_MIN)).filter(|_| limit > 0),
            due: now,
            has_failed: false,
        }
    }

    pub(crate) fn next_due(&self, attempts: &Attempts) -> Option<Mono> {
        self.limit?;
        (!attempts.is_empty()).then_some(self.due)
    }

    /// Cuts the logs of running attempts, if that is due.
    pub(crate) fn check(&mut self, now: Mono, attempts: &Attempts) {
        if self.limit.is_none() || attempts.is_empty() || now < self.due {
            return;
        }
        let running = attempts.iter().filter(|it| it.phase == Phase::Running);
        for attempt in running {
            self.cut(attempt.assignment.lease);
        }
        let took = clock::now().mono.since(now);
        self.due = now + CHECK_EVERY.max(Millis(took.0.saturating_mul(CHECK_COST_RATIO)));
    }

    /// Cuts the logs of an attempt.
    pub(crate) fn cut(&mut self, lease: LeaseId) {
        let Some(limit) = self.limit else {
            return;
        };
        if let Err(error) = cut(&self.state, lease, limit)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!("a log of {lease} cannot be cut to the log limit: {error}");
        }
    }
}

fn cut(state: &Path, lease: LeaseId, limit: u64) -> io::Result<()> {
    for (_, _, source) in sources(state, lease)? {
        let run = match &source {
            LogSource::File(_) => Some(RunNo(0)),
            LogSource::Process(logs, _) => logs.runs()?.last().copied(),
        };
        if let Some(run) = run {
            source.cut(run, limit)?;
        }
    }
    Ok(())
}

/// Lowers the rotation that a task asks for to the limit of the worker, for all files of a stream
/// together.
pub(crate) fn clamp_rotation(task: &mut TaskSpec, limit: u64) {
    if limit == 0 {
        return;
    }
    let limit = limit.max(LOG_LIMIT_MIN);
    for process in &mut task.processes {
        let mode = process.logger.as_mut().map(|logger| &mut logger.mode);
        if let Some(LogMode::Rotate { size, backups }) = mode {
            *size = (*size).clamp(1, limit);
            let files = u32::try_from(limit / *size).unwrap_or(u32::MAX);
            *backups = (*backups).min(files.saturating_sub(1));
        }
    }
}
