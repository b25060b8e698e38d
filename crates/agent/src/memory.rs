//! Memory limits where no control group enforces them.
//!
//! One pass over `/proc` samples all attempts, and there is none while no attempt has a limit. An
//! attempt beyond its limit is killed at once; what it can allocate between two samples is bounded
//! by a resource limit that its launch sets.

use std::path::PathBuf;

use baton_model::outcome::KillCause;
use baton_model::time::{Millis, Mono};
use baton_runner::samples::Sampler;
use baton_runner::sys::clock;

use crate::attempts::Attempts;
use crate::drive::Agent;

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
}

impl Agent {
    /// Kills attempts that use more memory than allowed.
    pub(crate) fn watch_memory(&mut self, now: Mono) {
        if self
            .memory_watch
            .next_due(&self.attempts)
            .is_none_or(|due| now < due)
        {
            return;
        }
        let begun = clock::now();
        let roots = self.attempts.limited();
        let enforced = self.memory_watch.is_enforced_by_kernel();
        let Some(sampler) = self.memory_watch.sampler.as_mut().filter(|_| !enforced) else {
            self.memory_watch.sample_at = now + SAMPLE_EVERY;
            return;
        };
        match sampler.sample(begun.wall, &roots) {
            Ok(samples) => {
                for sample in samples {
                    let limit = self
                        .attempts
                        .get_mut(sample.run)
                        .map(|attempt| attempt.memory_max);
                    if limit.is_some_and(|limit| limit > 0 && sample.rss > limit) {
                        let cause = KillCause::OutOfMemory;
                        self.stop(sample.run, libc::SIGKILL, Millis(0), cause);
                    }
                }
            }
            Err(error) => tracing::warn!("the memory in use cannot be sampled: {error}"),
        }
        let ended = clock::now().mono;
        let took = ended.since(begun.mono);
        self.memory_watch.sample_at = ended + SAMPLE_EVERY.max(took.scaled(SAMPLE_COST_RATIO, 1));
    }
}
