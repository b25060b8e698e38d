//! Resource usage of each process tree of a task, in a ring buffer on disk.
//!
//! | module | holds |
//! |---|---|
//! | `ring` | the file: a fixed number of the latest samples |
//! | `usage` | one pass over `/proc` |
//! | `tree` | assignment of processes to trees |
//!
//! Samples are for users who watch a task, during it or after it. They are not evidence and no
//! decision depends on them: they may be missing, and the file is never synced. The driver decides
//! when to sample.

mod ring;
mod tree;
mod usage;

use baton_model::limits::{SAMPLES_PER_PROCESS_MAX, SAMPLES_SHOWN_MAX};
use baton_model::message::UsageSample;
use baton_model::time::Wall;

pub use ring::{Ring, SLOTS_MAX, read, read_open};
pub use usage::Sampler;

use crate::wire::RunKey;

/// The resource usage of one process tree at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub wall: Wall,
    pub run: RunKey,
    /// Processor time since its start, in milliseconds, including ended processes that were waited
    /// for. It decreases where a process ends that no process of the tree waits for.
    pub cpu_ms: u64,
    /// Bytes of memory. Shared memory is counted once per process.
    pub rss: u64,
    pub threads: u32,
    pub processes: u32,
    /// Bytes read from storage; 0 for a process that we may not inspect.
    pub read: u64,
    /// Bytes written to storage, likewise.
    pub written: u64,
}

impl Sample {
    /// The sample as clients get it.
    #[must_use]
    pub const fn usage(&self) -> UsageSample {
        UsageSample {
            at: self.wall,
            cpu_ms: self.cpu_ms,
            memory: self.rss,
            threads: self.threads,
            processes: self.processes,
            read: self.read,
            written: self.written,
        }
    }
}

/// Samples that clients get of each of so many processes.
#[must_use]
pub fn samples_limit(processes: usize, asked: u32) -> usize {
    let asked = asked.min(SAMPLES_PER_PROCESS_MAX) as usize;
    asked.min(SAMPLES_SHOWN_MAX / processes.max(1))
}
