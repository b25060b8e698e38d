//! The memory in use, where no control group enforces the limits.
//!
//! One pass over `/proc` samples all attempts, and there is none while no attempt has a limit. The
//! supervisor kills an attempt beyond its limit at once; what it can allocate between two samples
//! is bounded by a resource limit that its launch sets.

use std::path::PathBuf;

use baton_core::supervision::attempts::Attempts;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};
use baton_runner::samples::Sampler;
use baton_runner::sys::clock;

/// The shortest interval between samples.
const SAMPLE_EVERY: Millis = Millis(500);
/// A slow sample makes the interval longer: it takes at most one part in this many of the time.
const SAMPLE_COST_RATIO: u64 = 20;

#[derive(Debug)]
pub(crate) struct MemoryWatch {
    cgroup: Option<PathBuf>,
    sampler: Option<Sampler>,
    sample_at: Mono,
}

impl MemoryWatch {
    pub(crate) fn new(cgroup: Option<PathBuf>, now: Mono) -> Self {
        Self {
            cgroup,
            sampler: Sampler::new().ok(),
            sample_at: now,
        }
    }

    pub(crate) fn next_due(&self, attempts: &Attempts) -> Option<Mono> {
        (self.sampler.is_some() && attempts.has_limited()).then_some(self.sample_at)
    }

    /// True if the kernel enforces the limits: then this sampling, which counts shared memory
    /// twice, would only do harm.
    fn is_enforced_by_kernel(&self) -> bool {
        let control = self
            .cgroup
            .as_ref()
            .map(|path| path.join("cgroup.subtree_control"));
        let control = control.and_then(|path| std::fs::read_to_string(path).ok());
        control.is_some_and(|text| text.split_whitespace().any(|word| word == "memory"))
    }

    /// The memory that running attempts with a limit use, if a sample is due.
    pub(crate) fn sample(&mut self, now: Mono, attempts: &Attempts) -> Vec<(RunKey, u64)> {
        if self.next_due(attempts).is_none_or(|due| now < due) {
            return Vec::new();
        }
        let enforced = self.is_enforced_by_kernel();
        let Some(sampler) = self.sampler.as_mut().filter(|_| !enforced) else {
            self.sample_at = now + SAMPLE_EVERY;
            return Vec::new();
        };
        let begun = clock::now();
        let limited = attempts.limited();
        let roots: Vec<(RunKey, u32)> = limited.map(|(run, first)| (run, first.pid)).collect();
        let samples = sampler.sample(begun.wall, &roots).unwrap_or_else(|error| {
            tracing::warn!("the memory in use cannot be sampled: {error}");
            Vec::new()
        });
        let ended = clock::now().mono;
        let took = ended.since(begun.mono);
        self.sample_at = ended + SAMPLE_EVERY.max(took.scaled(SAMPLE_COST_RATIO, 1));
        let samples = samples.into_iter();
        samples.map(|sample| (sample.run, sample.rss)).collect()
    }
}
