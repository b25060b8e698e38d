//! Resource usage of attempts.
//!
//! It is sampled for two purposes, in one pass over `/proc`:
//!
//! * Attempts with a memory limit, where no control group enforces the limits. The supervisor kills
//!   an attempt beyond its limit at once; what it can allocate between two samples is bounded by a
//!   resource limit that its launch sets.
//! * Plain commands, for clients who watch them. The runner of a task samples its processes itself.
//!
//! The history of an attempt is bounded: a full one drops every second sample, and grows half as
//! fast from then on, so it always covers the whole attempt. It is in memory only.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use baton_core::supervision::attempts::{Attempts, Phase};
use baton_model::ids::LeaseId;
use baton_model::limits::SAMPLES_PER_PROCESS_MAX;
use baton_model::message::UsageSample;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};
use baton_runner::samples::{Sample, Sampler};
use baton_runner::sys::clock;

/// The shortest interval between samples of attempts with a memory limit.
const LIMITED_EVERY: Millis = Millis(500);
/// The shortest interval between samples of all commands.
const COMMANDS_EVERY: Millis = Millis::from_secs(5);
/// A slow sample makes the intervals longer: it takes at most one part in this many of the time.
const SAMPLE_COST_RATIO: u64 = 20;

#[derive(Debug)]
pub(crate) struct UsageWatch {
    cgroup: Option<PathBuf>,
    sampler: Option<Sampler>,
    limited_at: Mono,
    commands_at: Mono,
    histories: BTreeMap<LeaseId, UsageHistory>,
}

impl UsageWatch {
    pub(crate) fn new(cgroup: Option<PathBuf>, now: Mono) -> Self {
        Self {
            cgroup,
            sampler: Sampler::new().ok(),
            limited_at: now,
            commands_at: now,
            histories: BTreeMap::new(),
        }
    }

    pub(crate) fn next_due(&self, attempts: &Attempts) -> Option<Mono> {
        self.sampler.as_ref()?;
        let limited = attempts.has_limited().then_some(self.limited_at);
        let commands = (!attempts.is_empty()).then_some(self.commands_at);
        [limited, commands].into_iter().flatten().min()
    }

    /// The samples of an attempt, oldest first.
    pub(crate) fn history(&self, lease: LeaseId) -> Vec<UsageSample> {
        let history = self.histories.get(&lease);
        history.map_or_else(Vec::new, UsageHistory::samples)
    }

    /// Samples what is due. Returns the memory that running attempts with a limit use.
    pub(crate) fn sample(&mut self, now: Mono, attempts: &Attempts) -> Vec<(RunKey, u64)> {
        let is_limited_due = attempts.has_limited() && now >= self.limited_at;
        let are_commands_due = !attempts.is_empty() && now >= self.commands_at;
        if !is_limited_due && !are_commands_due {
            return Vec::new();
        }
        let mut roots = BTreeMap::new();
        if is_limited_due {
            self.limited_at = now + LIMITED_EVERY;
            if !self.is_enforced_by_kernel() {
                roots.extend(attempts.limited().map(|(run, first)| (run, first.pid)));
            }
        }
        let limited: Vec<RunKey> = roots.keys().copied().collect();
        let mut commands: BTreeMap<RunKey, LeaseId> = BTreeMap::new();
        if are_commands_due {
            self.commands_at = now + COMMANDS_EVERY;
            self.histories.retain(|lease, _| attempts.contains(*lease));
            let running = attempts.iter().filter(|it| it.phase == Phase::Running);
            for attempt in running.filter(|it| !it.assignment.is_task()) {
                if let Some((_, first)) = attempt.started {
                    roots.insert(attempt.run, first.pid);
                    commands.insert(attempt.run, attempt.assignment.lease);
                }
            }
        }
        let samples = self.take(roots.into_iter().collect());
        for sample in &samples {
            if let Some(lease) = commands.get(&sample.run) {
                let history = self.histories.entry(*lease).or_default();
                history.push(sample.usage());
            }
        }
        let samples = samples.into_iter();
        let samples = samples.filter(|sample| limited.binary_search(&sample.run).is_ok());
        samples.map(|sample| (sample.run, sample.rss)).collect()
    }

    /// One pass over `/proc`.
    fn take(&mut self, roots: Vec<(RunKey, u32)>) -> Vec<Sample> {
        let Some(sampler) = self.sampler.as_mut().filter(|_| !roots.is_empty()) else {
            return Vec::new();
        };
        let begun = clock::now();
        let samples = sampler.sample(begun.wall, &roots).unwrap_or_else(|error| {
            tracing::warn!("resource usage cannot be sampled: {error}");
            Vec::new()
        });
        let ended = clock::now().mono;
        let pause = ended + ended.since(begun.mono).scaled(SAMPLE_COST_RATIO, 1);
        self.limited_at = self.limited_at.max(pause);
        self.commands_at = self.commands_at.max(pause);
        samples
    }

    /// True if the kernel enforces the limits: then sampling for them, which counts shared memory
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

/// The samples of one attempt.
#[derive(Debug, Default)]
struct UsageHistory {
    kept: Vec<UsageSample>,
    /// The last two, of which the current usage follows.
    recent: VecDeque<UsageSample>,
    /// Each of these many samples is kept; 0 for the first time.
    stride: u32,
    /// Samples since the last that was kept.
    skipped: u32,
}

impl UsageHistory {
    const RECENT_MAX: usize = 2;
    const KEPT_MAX: usize = SAMPLES_PER_PROCESS_MAX as usize - Self::RECENT_MAX;

    fn push(&mut self, sample: UsageSample) {
        if self.recent.len() == Self::RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
        self.skipped += 1;
        if self.skipped < self.stride.max(1) {
            return;
        }
        self.skipped = 0;
        if self.kept.len() == Self::KEPT_MAX {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride = self.stride.max(1).saturating_mul(2);
        }
        self.kept.push(sample);
    }

    fn samples(&self) -> Vec<UsageSample> {
        let kept = self.kept.iter().filter(|it| !self.recent.contains(it));
        kept.chain(&self.recent).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::time::Wall;

    #[test]
    fn a_history_is_bounded_covers_the_whole_attempt_and_has_the_latest() {
        let mut history = UsageHistory::default();
        for at in 0..100_000 {
            history.push(UsageSample {
                at: Wall(at),
                cpu_ms: 0,
                memory: 0,
                threads: 1,
                processes: 1,
                read: 0,
                written: 0,
            });
            let samples = history.samples();
            assert!(samples.len() <= SAMPLES_PER_PROCESS_MAX as usize);
            assert_eq!(samples.first().map(|it| it.at), Some(Wall(0)));
            assert_eq!(samples.last().map(|it| it.at), Some(Wall(at)));
            let before = samples.iter().rev().nth(1).map(|it| it.at.0);
            assert_eq!(before, at.checked_sub(1));
        }
        let samples = history.samples();
        assert!(samples.len() > SAMPLES_PER_PROCESS_MAX as usize / 3);
        let gaps = samples.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0);
        assert!(gaps.max() < Some(100_000 / 16), "{samples:?}");
    }
}
