//! Attempts that use too much memory, where no control group limits them.
//!
//! One pass over `/proc` for all of them, and none at all while no attempt has a limit. An
//! attempt that is found beyond its limit is killed at once; what it can grow by between two
//! looks is bounded by a limit of the kernel that its launch sets.

use std::path::PathBuf;

use baton_model::outcome::KillCause;
use baton_model::time::{Millis, Mono};
use baton_runner::samples::Sampler;
use baton_runner::sys::clock;

use crate::drive::Agent;
use crate::runs::Runs;

/// How often it is looked, at the most.
const LOOK_EVERY: Millis = Millis(500);
/// A look that takes long is taken less often: it may use this part of the time.
const LOOK_SHARE: u64 = 20;

#[derive(Debug)]
pub(crate) struct Watch {
    cgroup: Option<PathBuf>,
    sampler: Option<Sampler>,
    look_at: Mono,
}

impl Watch {
    pub(crate) fn new(cgroup: Option<PathBuf>, now: Mono) -> Self {
        Self {
            cgroup,
            sampler: Sampler::new().ok(),
            look_at: now,
        }
    }

    pub(crate) fn next_due(&self, runs: &Runs) -> Option<Mono> {
        (self.sampler.is_some() && runs.has_limited()).then_some(self.look_at)
    }

    /// True where the kernel keeps the limits: then counting what processes share twice would
    /// only do harm.
    fn is_needless(&self) -> bool {
        let control = self
            .cgroup
            .as_ref()
            .map(|path| path.join("cgroup.subtree_control"));
        let control = control.and_then(|path| std::fs::read_to_string(path).ok());
        control.is_some_and(|text| text.split_whitespace().any(|word| word == "memory"))
    }
}

impl Agent {
    /// Kills what uses more memory than it may.
    pub(crate) fn watch_memory(&mut self, now: Mono) {
        if self.watch.next_due(&self.runs).is_none_or(|due| now < due) {
            return;
        }
        let begun = clock::now();
        let roots = self.runs.limited();
        let needless = self.watch.is_needless();
        let Some(sampler) = self.watch.sampler.as_mut().filter(|_| !needless) else {
            self.watch.look_at = now + LOOK_EVERY;
            return;
        };
        match sampler.sample(begun.wall, &roots) {
            Ok(samples) => {
                for sample in samples {
                    let limit = self.runs.get_mut(sample.run).map(|run| run.memory_max);
                    if limit.is_some_and(|limit| limit > 0 && sample.rss > limit) {
                        let cause = KillCause::OutOfMemory;
                        self.stop(sample.run, libc::SIGKILL, Millis(0), cause);
                    }
                }
            }
            Err(error) => tracing::warn!("the memory in use cannot be looked at: {error}"),
        }
        let ended = clock::now().mono;
        let took = ended.since(begun.mono);
        self.watch.look_at = ended + LOOK_EVERY.max(took.scaled(LOOK_SHARE, 1));
    }
}
