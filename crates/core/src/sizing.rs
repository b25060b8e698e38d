//! Sizing: whether the requests of a task suit what its attempts have used, and which would.
//!
//! | request | suggestion |
//! |---|---|
//! | `cpu` | the 95th percentile of CPU time over run time, and a tenth more |
//! | `memory` | from the 95th percentile of the peaks to the highest, each and a fifth more; if attempts ran out of memory, at least half as much again as they had |
//! | `time_request` | the 95th percentile of the run times, and a quarter more; no more than the timeout |
//! | `timeout` | only if attempts timed out: half as much again as the longest of them had |
//!
//! Each is rounded up to an amount that a person would write. Percentiles are those of attempts that succeeded: what has failed
//! early needed less than the work does. A request suits if it covers what was used, and is at most half as much again as the suggestion.

use baton_model::measurement::{MeasuredEnd, Measurement, Requested};
use baton_model::time::{Millis, Wall};

/// Attempts that must have succeeded for a suggestion. What ran out of memory or time needs more all the same.
pub const ATTEMPTS_MIN: usize = 5;

/// Of the amount used, in percent.
const CPU_PERCENT: u64 = 110;
const MEMORY_PERCENT: u64 = 120;
const TIME_PERCENT: u64 = 125;

/// Of the amount that was exceeded, in percent.
const EXCEEDED_PERCENT: u64 = 150;

/// Of the suggested amount, in percent: a larger request is too much.
const SUITS_PERCENT: u64 = 150;

const MIB: u64 = 1 << 20;
const MINUTE: u64 = 60_000;

/// The distribution of an amount over attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub p50: u64,
    pub p95: u64,
    pub max: u64,
}

impl Spread {
    /// By nearest rank; none of nothing.
    fn of(amounts: impl Iterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = amounts.collect();
        sorted.sort_unstable();
        let at = |percent: usize| (sorted.len() * percent).div_ceil(100).max(1) - 1;
        Some(Self {
            p50: *sorted.get(at(50))?,
            p95: *sorted.get(at(95))?,
            max: *sorted.last()?,
        })
    }
}

/// What is wrong with a request, if anything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    Suits,
    TooMuch,
    TooLittle,
    /// Nothing was requested.
    Missing,
    /// So many attempts ran out of it.
    Exceeded(usize),
}

/// A suggested amount, and what is wrong with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice<T> {
    pub amount: T,
    pub finding: Finding,
}

/// The measurements of a task in sum, and the suggestion that follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Attempts that were looked at.
    pub attempts: usize,
    pub succeeded: usize,
    pub failed: usize,
    pub out_of_memory: usize,
    pub timed_out: usize,
    /// When the first of them was recorded.
    pub since: Option<Wall>,
    /// In thousandths of a core.
    pub cpu_milli: Option<Spread>,
    /// In bytes.
    pub memory: Option<Spread>,
    /// In milliseconds.
    pub elapsed: Option<Spread>,
    /// CPU time in percent of the requested cores over the run time.
    pub cpu_percent: Option<u64>,
    /// The mean of the peaks in percent of the requested memory.
    pub memory_percent: Option<u64>,
    /// In thousandths of a core.
    pub cpu: Option<Advice<u64>>,
    /// The ends of the range, in bytes.
    pub memory_range: Option<Advice<(u64, u64)>>,
    pub time_request: Option<Advice<Millis>>,
    pub timeout: Option<Advice<Millis>>,
}

impl Sizing {
    /// Looks at the measurements of a task.
    #[must_use]
    pub fn new(requested: &Requested, measured: &[Measurement]) -> Self {
        let count = |end| measured.iter().filter(|it| it.end == end).count();
        let succeeded = measured.iter().filter(|it| it.end == MeasuredEnd::Done);
        let succeeded: Vec<&Measurement> = succeeded.collect();
        let ran = || succeeded.iter().filter(|it| it.elapsed > Millis(0));
        let cores = ran().map(|it| it.cpu.0.saturating_mul(1_000) / it.elapsed.0);
        let peaks = succeeded.iter().map(|it| it.memory_peak);
        let mut sizing = Self {
            attempts: measured.len(),
            succeeded: succeeded.len(),
            failed: count(MeasuredEnd::Failed),
            out_of_memory: count(MeasuredEnd::OutOfMemory),
            timed_out: count(MeasuredEnd::TimedOut),
            since: measured.first().map(|it| it.at),
            cpu_milli: Spread::of(cores).filter(|it| it.max > 0),
            memory: Spread::of(peaks).filter(|it| it.max > 0),
            elapsed: Spread::of(succeeded.iter().map(|it| it.elapsed.0)),
            ..Self::default()
        };
        sizing.rate(requested, &succeeded);
        // Only the first of several nodes is measured.
        if requested.nodes <= 1 {
            sizing.advise(requested, measured);
        }
        sizing
    }

    /// True if nothing can be said about what the task needs.
    #[must_use]
    pub const fn has_too_few(&self) -> bool {
        self.succeeded < ATTEMPTS_MIN
    }

    fn rate(&mut self, requested: &Requested, succeeded: &[&Measurement]) {
        let sum = |of: fn(&Measurement) -> u64| {
            let amounts = succeeded.iter().map(|it| u128::from(of(it)));
            amounts.sum::<u128>()
        };
        let percent = |part: u128, whole: u128| {
            let share = (part * 100).checked_div(whole)?;
            u64::try_from(share).ok()
        };
        let resources = &requested.resources;
        let nodes = u128::from(requested.nodes.max(1));
        let claimed = sum(|it| it.elapsed.0) * u128::from(resources.cpu_milli) * nodes / 1_000;
        self.cpu_percent = percent(sum(|it| it.cpu.0), claimed);
        let claimed = succeeded.len() as u128 * u128::from(resources.memory_min);
        self.memory_percent = percent(sum(|it| it.memory_peak), claimed);
    }

    fn advise(&mut self, requested: &Requested, measured: &[Measurement]) {
        let resources = &requested.resources;
        if !self.has_too_few() {
            self.cpu = self.cpu_milli.map(|used| {
                let amount = round_cpu(more(used.p95, CPU_PERCENT), resources.pin.is_some());
                let finding = judge(resources.cpu_milli, used.p95, amount);
                Advice { amount, finding }
            });
            self.time_request = self.elapsed.map(|used| {
                let amount = Millis(round_time(more(used.p95, TIME_PERCENT)));
                let amount = requested.timeout.map_or(amount, |most| amount.min(most));
                let asked = requested.time_request.or(requested.timeout);
                let asked = asked.unwrap_or_default().0;
                let finding = judge(asked, used.p95.min(amount.0), amount.0);
                Advice { amount, finding }
            });
        }
        self.memory_range = self.advise_memory(requested, measured);
        let longest = measured.iter().filter(|it| it.end == MeasuredEnd::TimedOut);
        self.timeout = longest.map(|it| it.elapsed.0).max().map(|longest| Advice {
            amount: Millis(round_time(more(longest, EXCEEDED_PERCENT))),
            finding: Finding::Exceeded(self.timed_out),
        });
        if let (Some(timeout), Some(time)) = (self.timeout, &mut self.time_request) {
            let needed = more(self.elapsed.map_or(0, |it| it.p95), TIME_PERCENT);
            time.amount = Millis(round_time(needed)).min(timeout.amount);
        }
    }

    fn advise_memory(
        &self,
        requested: &Requested,
        measured: &[Measurement],
    ) -> Option<Advice<(u64, u64)>> {
        let resources = &requested.resources;
        let exceeded = measured
            .iter()
            .filter(|it| it.end == MeasuredEnd::OutOfMemory);
        let exceeded = exceeded.map(|it| it.memory_peak).max();
        // A process may have asked for more than it could have in one step, so its peak may be low.
        let exceeded = exceeded.map(|peak| peak.max(resources.memory_max));
        let used = self.memory.filter(|_| !self.has_too_few());
        let min = used.map(|used| round_memory(more(used.p95, MEMORY_PERCENT)));
        let max = used.map(|used| round_memory(more(used.max, MEMORY_PERCENT)));
        if let Some(exceeded) = exceeded {
            let enough = round_memory(more(exceeded, EXCEEDED_PERCENT));
            let max = max.unwrap_or(0).max(enough);
            let min = min.unwrap_or(resources.memory_min).min(max);
            return Some(Advice {
                amount: (if min == 0 { max } else { min }, max),
                finding: Finding::Exceeded(self.out_of_memory),
            });
        }
        let (used, min, max) = (used?, min?, max?);
        let low = judge(resources.memory_min, used.p95, min);
        let has_room = resources.memory_max == 0 || resources.memory_max >= used.max;
        let finding = if low == Finding::Suits && !has_room {
            Finding::TooLittle
        } else {
            low
        };
        Some(Advice {
            amount: (min, max.max(min)),
            finding,
        })
    }
}

/// The finding about a request, with what was used and what is suggested.
const fn judge(requested: u64, used: u64, suggested: u64) -> Finding {
    if requested == 0 {
        Finding::Missing
    } else if requested < used {
        Finding::TooLittle
    } else if requested > more(suggested, SUITS_PERCENT) {
        Finding::TooMuch
    } else {
        Finding::Suits
    }
}

const fn more(amount: u64, percent: u64) -> u64 {
    amount.saturating_mul(percent).div_ceil(100)
}

/// The next amount in steps: each entry has the amount up to which its step counts.
fn round_up(amount: u64, steps: &[(u64, u64)]) -> u64 {
    let step = steps.iter().find(|(most, _)| amount <= *most);
    let step = step.or(steps.last()).map_or(1, |(_, step)| *step);
    amount.max(1).div_ceil(step).saturating_mul(step)
}

fn round_cpu(milli: u64, whole: bool) -> u64 {
    if whole {
        return milli.max(1).div_ceil(1_000) * 1_000;
    }
    round_up(milli, &[(1_000, 100), (4_000, 500), (u64::MAX, 1_000)])
}

fn round_memory(bytes: u64) -> u64 {
    let steps = [
        (100 * MIB, 10 * MIB),
        (1_000 * MIB, 50 * MIB),
        (10 * 1_024 * MIB, 512 * MIB),
        (u64::MAX, 1_024 * MIB),
    ];
    round_up(bytes, &steps)
}

fn round_time(millis: u64) -> u64 {
    let steps = [
        (MINUTE, 10_000),
        (10 * MINUTE, MINUTE),
        (60 * MINUTE, 5 * MINUTE),
        (6 * 60 * MINUTE, 15 * MINUTE),
        (u64::MAX, 60 * MINUTE),
    ];
    round_up(millis, &steps)
}

#[cfg(test)]
mod tests {
    use baton_model::task::Resources;

    use super::*;

    const SECOND: u64 = 1_000;

    fn attempt(seconds: u64, cpu: u64, mib: u64, end: MeasuredEnd) -> Measurement {
        Measurement {
            at: Wall(7),
            elapsed: Millis(seconds * SECOND),
            cpu: Millis(cpu * SECOND),
            memory_peak: mib * MIB,
            end,
        }
    }

    fn requested(cpu_milli: u64, min: u64, max: u64) -> Requested {
        Requested {
            resources: Resources {
                cpu_milli,
                memory_min: min * MIB,
                memory_max: max * MIB,
                ..Resources::default()
            },
            ..Requested::default()
        }
    }

    /// 100 attempts, of which the last ten use more.
    fn hundred() -> Vec<Measurement> {
        let attempt = |at: u64| {
            let mib = if at < 90 { 200 } else { 150 + at };
            attempt(600 + at, 500, mib, MeasuredEnd::Done)
        };
        (1..=100).map(attempt).collect()
    }

    #[test]
    fn percentiles_are_of_the_elements_and_not_of_their_mean() {
        let sizing = Sizing::new(&requested(4_000, 2_048, 2_048), &hundred());
        let memory = sizing.memory.expect("measured");
        assert_eq!(
            [memory.p50, memory.p95, memory.max].map(|it| it / MIB),
            [200, 245, 250]
        );
        let elapsed = sizing.elapsed.expect("measured");
        assert_eq!((elapsed.p50, elapsed.max), (650 * SECOND, 700 * SECOND));
        assert_eq!((sizing.attempts, sizing.since), (100, Some(Wall(7))));
        assert_eq!(sizing.memory_percent, Some(10));
        assert_eq!(sizing.cpu_percent, Some(19));
    }

    #[test]
    fn requests_that_are_too_large_are_told_with_what_is_enough() {
        let sizing = Sizing::new(&requested(4_000, 2_048, 2_048), &hundred());
        let cpu = sizing.cpu.expect("enough attempts");
        assert_eq!((cpu.amount, cpu.finding), (1_000, Finding::TooMuch));
        let memory = sizing.memory_range.expect("enough attempts");
        assert_eq!(memory.amount, (300 * MIB, 300 * MIB));
        assert_eq!(memory.finding, Finding::TooMuch);
        let time = sizing.time_request.expect("enough attempts");
        assert_eq!(time.amount, Millis(15 * MINUTE));
        assert_eq!(time.finding, Finding::Missing);
        assert_eq!(sizing.timeout, None);
        let again = Requested {
            time_request: Some(time.amount),
            ..requested(cpu.amount, memory.amount.0 / MIB, memory.amount.1 / MIB)
        };
        let again = Sizing::new(&again, &hundred());
        let findings = [
            again.cpu.map(|it| it.finding),
            again.memory_range.map(|it| it.finding),
            again.time_request.map(|it| it.finding),
        ];
        assert_eq!(findings, [Some(Finding::Suits); 3], "it is stable");
    }

    #[test]
    fn too_few_attempts_suggest_nothing() {
        let few = [attempt(1, 1, 100, MeasuredEnd::Done); ATTEMPTS_MIN - 1];
        let sizing = Sizing::new(&requested(1_000, 100, 100), &few);
        assert!(sizing.has_too_few());
        assert_eq!((sizing.cpu, sizing.memory_range), (None, None));
        assert_eq!((sizing.time_request, sizing.timeout), (None, None));
        assert!(sizing.memory.is_some());
        assert_eq!(Sizing::new(&requested(1, 1, 1), &[]), Sizing::default());
    }

    #[test]
    fn what_ran_out_gets_more_even_with_few_attempts() {
        let few = [
            attempt(60, 1, 40, MeasuredEnd::OutOfMemory),
            attempt(600, 1, 40, MeasuredEnd::TimedOut),
        ];
        let sizing = Sizing::new(&requested(1_000, 100, 200), &few);
        let memory = sizing.memory_range.expect("it ran out");
        assert_eq!(memory.amount, (100 * MIB, 300 * MIB));
        assert_eq!(memory.finding, Finding::Exceeded(1));
        let timeout = sizing.timeout.expect("it ran out");
        assert_eq!(timeout.amount, Millis(15 * MINUTE));
        assert_eq!(timeout.finding, Finding::Exceeded(1));
    }

    #[test]
    fn requests_below_the_use_are_too_little() {
        let attempts = [attempt(100, 250, 500, MeasuredEnd::Done); 10];
        let sizing = Sizing::new(&requested(1_000, 400, 0), &attempts);
        let cpu = sizing.cpu.expect("enough attempts");
        assert_eq!((cpu.amount, cpu.finding), (3_000, Finding::TooLittle));
        let memory = sizing.memory_range.expect("enough attempts");
        assert_eq!(memory.finding, Finding::TooLittle);
        assert_eq!(memory.amount, (600 * MIB, 600 * MIB));
    }

    #[test]
    fn failures_and_kills_do_not_count_for_percentiles() {
        let mut attempts = vec![attempt(100, 100, 500, MeasuredEnd::Done); 10];
        attempts.extend([attempt(1, 0, 1, MeasuredEnd::Failed); 90]);
        attempts.extend([attempt(9_999, 9_999, 1, MeasuredEnd::Cut); 90]);
        let sizing = Sizing::new(&requested(1_000, 600, 600), &attempts);
        assert_eq!(sizing.elapsed.map(|it| it.p50), Some(100 * SECOND));
        assert_eq!((sizing.succeeded, sizing.failed), (10, 90));
    }

    #[test]
    fn gangs_are_measured_without_a_suggestion() {
        let attempts = [attempt(100, 250, 500, MeasuredEnd::Done); 10];
        let gang = Requested {
            nodes: 4,
            ..requested(1_000, 400, 0)
        };
        let sizing = Sizing::new(&gang, &attempts);
        assert!(sizing.cpu.is_none() && sizing.memory_range.is_none());
        assert_eq!(sizing.cpu_percent, Some(62));
    }
}
