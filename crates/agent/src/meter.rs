//! The measured use of a worker: the sum over its attempts.
//!
//! Processor use is a rate: that of an attempt counts from the sample before, or from its start if
//! it has started since. So attempts that are shorter than the interval between samples count with
//! what they use while they run.

use std::collections::BTreeMap;

use baton_model::placement::MeasuredUse;
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};

/// An attempt that has run for less counts as if it had run so long: the kernel counts processor
/// time in steps of some milliseconds.
const RATE_OVER_MIN: Millis = Millis(100);

/// Processor use is rounded up to hundredths of a core: more digits are noise.
const CPU_STEP_MILLI: u64 = 10;

/// A sample of the processes of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptSample {
    pub(crate) run: RunKey,
    pub(crate) started: Mono,
    /// Processor time since the start, in milliseconds. It may decrease.
    pub(crate) cpu_ms: u64,
    /// Bytes of resident memory.
    pub(crate) memory: u64,
}

/// Processor times of the last sample, of which the next rates follow.
#[derive(Debug, Default)]
pub(crate) struct UseMeter {
    last: BTreeMap<RunKey, (Mono, u64)>,
}

impl UseMeter {
    /// The use of all running attempts, from their samples at this time.
    pub(crate) fn sum(
        &mut self,
        now: Mono,
        samples: impl Iterator<Item = AttemptSample>,
    ) -> MeasuredUse {
        let mut sum = MeasuredUse::default();
        let mut current = BTreeMap::new();
        for it in samples {
            let (since, before) = self.last.get(&it.run).copied().unwrap_or((it.started, 0));
            let over = now.since(since).max(RATE_OVER_MIN);
            let spent = it.cpu_ms.saturating_sub(before);
            sum.cpu_milli += spent * 1_000 / over.0;
            sum.memory += it.memory;
            current.insert(it.run, (now, it.cpu_ms));
        }
        self.last = current;
        sum.cpu_milli = sum.cpu_milli.next_multiple_of(CPU_STEP_MILLI);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::task::{ProcessNo, RunNo};

    fn sample(process: u32, started: u64, cpu_ms: u64, memory: u64) -> AttemptSample {
        AttemptSample {
            run: RunKey {
                process: ProcessNo(process),
                run: RunNo(0),
            },
            started: Mono(started),
            cpu_ms,
            memory,
        }
    }

    #[test]
    fn a_worker_uses_what_its_attempts_use_in_sum() {
        let mut meter = UseMeter::default();
        let first = [sample(1, 0, 5_000, 100), sample(2, 5_000, 10_000, 30)];
        let all = meter.sum(Mono(10_000), first.into_iter());
        // Half a core since its start, and two cores since a later one.
        let (cpu_milli, memory) = (2_500, 130);
        assert_eq!(all, MeasuredUse { cpu_milli, memory });
        let second = [sample(1, 0, 6_000, 50), sample(2, 5_000, 10_000, 30)];
        let all = meter.sum(Mono(15_000), second.into_iter());
        let (cpu_milli, memory) = (200, 80);
        assert_eq!(all, MeasuredUse { cpu_milli, memory });
    }

    #[test]
    fn a_rate_has_two_digits() {
        let mut meter = UseMeter::default();
        let all = meter.sum(Mono(9_000), [sample(1, 0, 8_888, 0)].into_iter());
        assert_eq!(all.cpu_milli, 990);
    }

    #[test]
    fn an_attempt_that_has_ended_counts_no_longer() {
        let mut meter = UseMeter::default();
        meter.sum(Mono(10_000), [sample(1, 0, 5_000, 100)].into_iter());
        let none = meter.sum(Mono(15_000), std::iter::empty());
        assert_eq!(none, MeasuredUse::default());
        assert!(meter.last.is_empty());
    }

    #[test]
    fn short_attempts_count_with_what_they_use_while_they_run() {
        let mut meter = UseMeter::default();
        for now in [5_000, 10_000, 15_000] {
            let short = sample(now, u64::from(now) - 500, 500, 1);
            let all = meter.sum(Mono(u64::from(now)), [short].into_iter());
            assert_eq!(all.cpu_milli, 1_000);
        }
    }

    #[test]
    fn no_rate_is_infinite_or_negative() {
        let mut meter = UseMeter::default();
        let all = meter.sum(Mono(5_000), [sample(1, 5_000, 10, 0)].into_iter());
        assert_eq!(all.cpu_milli, 100);
        // A process of the tree has ended, and none has waited for it.
        let all = meter.sum(Mono(10_000), [sample(1, 5_000, 5, 0)].into_iter());
        assert_eq!(all.cpu_milli, 0);
    }
}
