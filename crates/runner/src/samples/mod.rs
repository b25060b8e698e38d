//! What each process tree of a task uses, in a ring on disk.
//!
//! | module | holds |
//! |---|---|
//! | `ring` | the file: the last so many samples, never more |
//! | `usage` | one pass over `/proc` |
//! | `tree` | which process belongs to whom |
//!
//! Samples are for people who look at a task, during it or after it. They are not
//! evidence and nothing is decided by them: they may be missing, and the file is
//! never synced. When to sample is up to the driver.

mod ring;
mod tree;
mod usage;

use baton_model::time::Wall;

pub use ring::{Ring, SLOTS_MAX, read};
pub use usage::Sampler;

use crate::wire::RunKey;

/// What one process tree used at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub wall: Wall,
    pub run: RunKey,
    /// Processor time since its start, in milliseconds, with that of processes
    /// that are over and were waited for. It steps back where one ends that
    /// nobody in the tree waits for.
    pub cpu_ms: u64,
    /// Bytes of memory. What two processes share is counted twice.
    pub rss: u64,
    pub threads: u32,
    pub processes: u32,
    /// Bytes read from storage; 0 of a process that we may not look into.
    pub read: u64,
    /// Bytes written to storage, likewise.
    pub written: u64,
}
