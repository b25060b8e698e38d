//! Resource usage of attempts.
//!
//! It is sampled for three purposes, in one pass over `/proc`:
//!
//! * Attempts with a memory limit, where no control group enforces the limits. The supervisor kills
//!   an attempt beyond its limit at once; what it can allocate between two samples is bounded by a
//!   resource limit that its launch sets.
//! * Plain commands, for clients who watch them. The runner of a task samples its processes itself.
//! * All running attempts, for the use of the worker, which its heartbeats report.
//!
//! The history of an attempt is bounded: a full one drops every second sample, and grows half as
//! fast from then on, so it always covers the whole attempt. It is in memory only.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use baton_core::supervision::attempts::{Attempts, Phase};
use baton_model::ids::LeaseId;
use baton_model::limits::SAMPLES_PER_PROCESS_MAX;
use baton_model::message::UsageSample;
use baton_model::placement::MeasuredUse;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};
use baton_runner::samples::{Sample, Sampler};
use baton_runner::sys::clock;

use crate::meter::{AttemptSample, UseMeter};

/// The shortest interval between samples of attempts with a memory limit.
const LIMITED_EVERY: Millis = Millis(500);
/// The shortest interval between samples of all attempts.
const ALL_EVERY: Millis = Millis::from_secs(5);
/// A slow sample makes the intervals longer: it takes at most one part in this many of the time.
const SAMPLE_COST_RATIO: u64 = 20;

#[derive(Debug)]
pub(crate) struct UsageWatch {
    cgroup: Option<PathBuf>,
    sampler: Option<Sampler>,
    limited_at: Mono,
    all_at: Mono,
    meter: UseMeter,
    /// None until the first sample, and if sampling has failed.
    measured: Option<MeasuredUse>,
    histories: BTreeMap<LeaseId, UsageHistory>,
}

impl UsageWatch {
    pub(crate) fn new(cgroup: Option<PathBuf>, now: Mono) -> Self {
        Self {
            cgroup,
            sampler: Sampler::new().ok(),
            limited_at: now,
            all_at: now,
            meter: UseMeter::default(),
            measured: None,
            histories: BTreeMap::new(),
        }
    }

    pub(crate) fn next_due(&self, attempts: &Attempts) -> Option<Mono> {
        self.sampler.as_ref()?;
        let limited = attempts.has_limited().then_some(self.limited_at);
        let all = (!attempts.is_empty()).then_some(self.all_at);
        [limited, all].into_iter().flatten().min()
    }

    /// The samples of an attempt, oldest first.
    pub(crate) fn history(&self, lease: LeaseId) -> Vec<UsageSample> {
        let history = self.histories.get(&lease);
        history.map_or_else(Vec::new, UsageHistory::samples)
    }

    /// What the attempts of this worker use, as of the last sample of all of them.
    pub(crate) fn measured(&self, attempts: &Attempts) -> Option<MeasuredUse> {
        self.sampler.as_ref()?;
        let idle = attempts.is_empty().then(MeasuredUse::default);
        idle.or(self.measured)
    }

    /// Samples what is due. Returns the memory that running attempts with a limit use.
    pub(crate) fn sample(&mut self, now: Mono, attempts: &Attempts) -> Vec<(RunKey, u64)> {
        let is_limited_due = attempts.has_limited() && now >= self.limited_at;
        let are_all_due = !attempts.is_empty() && now >= self.all_at;
        if !is_limited_due && !are_all_due {
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
        if are_all_due {
            self.all_at = now + ALL_EVERY;
            let running = attempts.iter().filter(|it| it.phase == Phase::Running);
            roots.extend(running.filter_map(|it| Some((it.run, it.started?.1.pid))));
        }
        let samples = self.take(roots.into_iter().collect());
        if are_all_due {
            self.record(now, attempts, samples.as_deref());
        }
        let samples = samples.unwrap_or_default().into_iter();
        let samples = samples.filter(|sample| limited.binary_search(&sample.run).is_ok());
        samples.map(|sample| (sample.run, sample.rss)).collect()
    }

    /// Adds samples of all running attempts to their histories, and to the use of the worker.
    fn record(&mut self, now: Mono, attempts: &Attempts, samples: Option<&[Sample]>) {
        self.histories.retain(|lease, _| attempts.contains(*lease));
        let Some(samples) = samples else {
            self.measured = None;
            return;
        };
        for sample in samples {
            if let Some(attempt) = attempts.get(sample.run)
                && !attempt.assignment.is_task()
            {
                let history = self.histories.entry(attempt.assignment.lease);
                history.or_default().push(sample.usage());
            }
        }
        let measured = samples.iter().filter_map(|sample| {
            let (began, _) = attempts.get(sample.run)?.started?;
            Some(AttemptSample {
                run: sample.run,
                started: began.mono,
                cpu_ms: sample.cpu_ms,
                memory: sample.rss,
            })
        });
        self.measured = Some(self.meter.sum(now, measured));
    }

    /// One pass over `/proc`; none if it fails.
    fn take(&mut self, roots: Vec<(RunKey, u32)>) -> Option<Vec<Sample>> {
        if roots.is_empty() {
            return Some(Vec::new());
        }
        let sampler = self.sampler.as_mut()?;
        let begun = clock::now();
        let samples = sampler.sample(begun.wall, &roots);
        let samples = samples
            .inspect_err(|error| tracing::warn!("resource usage cannot be sampled: {error}"))
            .ok();
        let ended = clock::now().mono;
        let pause = ended + ended.since(begun.mono).scaled(SAMPLE_COST_RATIO, 1);
        self.limited_at = self.limited_at.max(pause);
        self.all_at = self.all_at.max(pause);
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
