//! How long the attempts of each task take, and the runs of each workflow.
//!
//! A leader learns it from the ends that it records, and a new one from the measurements of the store: of each task
//! the last [`RUN_TIMES_REMEMBERED`]. It decides about order and alarms only, so two leaders may know a little
//! more or less.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use baton_model::limits::{RUN_TIMES_REMEMBERED, TASKS_MEASURED_MAX};
use baton_model::measurement::{MeasuredEnd, TaskPath};
use baton_model::time::Millis;

/// The weight of the latest run time in an estimate: one part in this many.
const ESTIMATE_PARTS: u64 = 4;

/// Successes before anything counts as unusual.
pub const LEARNED_MIN: usize = 10;

/// The share of successes at either end, in percent, that may be unusual themselves.
const UNUSUAL_PERCENT: usize = 10;

/// Less than the shortest usual success, divided by this, is short.
const SHORT_PART: u64 = 4;

/// More than the longest usual success, times this, is slow.
const SLOW_TIMES: u64 = 3;

/// An excess of less than this is not slow, whatever the factor: very short tasks vary by what their host does.
const SLOW_MARGIN: Millis = Millis::from_secs(60);

/// The run time of a task that is not unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualTime {
    pub min: Millis,
    pub max: Millis,
    /// Successes from which it was learned.
    pub runs: usize,
}

/// The run times of one task.
#[derive(Clone, Debug, Default)]
struct History {
    /// A moving mean of the attempts that ended by themselves.
    estimate: Millis,
    /// The last successes, the oldest first.
    successes: VecDeque<Millis>,
    used: u64,
}

/// Run times by task: at most [`TASKS_MEASURED_MAX`] of them, beyond which the least recently used goes.
///
/// All of them are equal: ledgers with the same facts are, whatever their leaders have seen of the time.
#[derive(Clone, Debug, Default)]
pub struct RunTimes {
    tasks: BTreeMap<TaskPath, History>,
    /// When each was last used, the longest ago first.
    by_use: BTreeSet<(u64, TaskPath)>,
    uses: u64,
}

impl PartialEq for RunTimes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RunTimes {}

impl Hash for RunTimes {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl RunTimes {
    /// Takes in the end of an attempt, or of a run. What was killed or lost tells nothing.
    pub fn record(&mut self, path: &TaskPath, elapsed: Millis, end: MeasuredEnd) {
        if !matches!(end, MeasuredEnd::Done | MeasuredEnd::Failed) {
            return;
        }
        self.uses += 1;
        let uses = self.uses;
        if !self.tasks.contains_key(path) && self.tasks.len() >= TASKS_MEASURED_MAX {
            self.forget_oldest();
        }
        let history = self.tasks.entry(path.clone()).or_insert_with(|| History {
            estimate: elapsed,
            ..History::default()
        });
        self.by_use.remove(&(history.used, path.clone()));
        self.by_use.insert((uses, path.clone()));
        history.used = uses;
        history.estimate = moved(history.estimate, elapsed);
        if end == MeasuredEnd::Done {
            history.successes.push_back(elapsed);
            if history.successes.len() > RUN_TIMES_REMEMBERED {
                history.successes.pop_front();
            }
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, path)) = self.by_use.pop_first() {
            self.tasks.remove(&path);
        }
    }

    /// How long an attempt of a task takes, if some have ended.
    #[must_use]
    pub fn estimate(&self, path: &TaskPath) -> Option<Millis> {
        self.tasks.get(path).map(|history| history.estimate)
    }

    /// The run times that are usual for a task, if enough have succeeded.
    #[must_use]
    pub fn usual(&self, path: &TaskPath) -> Option<UsualTime> {
        let successes = self.tasks.get(path)?.successes.iter().copied();
        let mut sorted: Vec<Millis> = successes.collect();
        sorted.sort_unstable();
        let runs = sorted.len();
        // By nearest rank; the same number is left out at either end.
        let omitted = (runs * UNUSUAL_PERCENT).div_ceil(100).max(1) - 1;
        let (min, max) = (*sorted.get(omitted)?, *sorted.get(runs - 1 - omitted)?);
        (runs >= LEARNED_MIN).then(|| UsualTime {
            min: Millis(min.0 / SHORT_PART),
            max: Millis(max.0.saturating_mul(SLOW_TIMES)).max(max + SLOW_MARGIN),
            runs,
        })
    }

    /// Number of tasks that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// A moving mean, after one more value.
pub(crate) fn moved(mean: Millis, value: Millis) -> Millis {
    let sum = u128::from(mean.0) * u128::from(ESTIMATE_PARTS - 1) + u128::from(value.0);
    Millis(u64::try_from(sum / u128::from(ESTIMATE_PARTS)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(task: &str) -> TaskPath {
        TaskPath {
            owner: "me".into(),
            workflow: "".into(),
            task: task.into(),
        }
    }

    #[test]
    fn estimates_are_those_of_the_task_and_move() {
        let mut times = RunTimes::default();
        assert_eq!(times.estimate(&path("a")), None);
        times.record(&path("a"), Millis(1_000), MeasuredEnd::Done);
        times.record(&path("b"), Millis(10), MeasuredEnd::Failed);
        assert_eq!(times.estimate(&path("a")), Some(Millis(1_000)));
        times.record(&path("a"), Millis(2_000), MeasuredEnd::Done);
        assert_eq!(times.estimate(&path("a")), Some(Millis(1_250)));
        times.record(&path("a"), Millis(1), MeasuredEnd::Cut);
        times.record(&path("a"), Millis(1), MeasuredEnd::TimedOut);
        assert_eq!(times.estimate(&path("a")), Some(Millis(1_250)));
        assert_eq!(times.estimate(&path("b")), Some(Millis(10)));
    }

    #[test]
    fn usual_times_need_ten_successes() {
        let mut times = RunTimes::default();
        let task = path("a");
        for at in 0..LEARNED_MIN as u64 {
            assert_eq!(times.usual(&task), None);
            times.record(&task, Millis(1), MeasuredEnd::Failed);
            times.record(&task, Millis(600_000 + at * 1_000), MeasuredEnd::Done);
        }
        let usual = times.usual(&task).expect("learned");
        assert_eq!(usual.runs, LEARNED_MIN);
        assert_eq!(usual.min, Millis(150_000));
        assert_eq!(usual.max, Millis(3 * 609_000));
    }

    #[test]
    fn short_tasks_have_a_minute_to_spare() {
        let mut times = RunTimes::default();
        for _ in 0..LEARNED_MIN {
            times.record(&path("a"), Millis(100), MeasuredEnd::Done);
        }
        let usual = times.usual(&path("a")).expect("learned");
        assert_eq!((usual.min, usual.max), (Millis(25), Millis(60_100)));
    }

    #[test]
    fn old_successes_are_forgotten_one_by_one() {
        let mut times = RunTimes::default();
        times.record(&path("a"), Millis(1), MeasuredEnd::Done);
        for _ in 0..RUN_TIMES_REMEMBERED {
            times.record(&path("a"), Millis(4_000), MeasuredEnd::Done);
        }
        assert_eq!(times.usual(&path("a")).expect("learned").min, Millis(1_000));
    }

    #[test]
    fn single_unusual_successes_are_no_measure() {
        let mut times = RunTimes::default();
        for _ in 0..RUN_TIMES_REMEMBERED - 2 {
            times.record(&path("a"), Millis(100_000), MeasuredEnd::Done);
        }
        times.record(&path("a"), Millis(1), MeasuredEnd::Done);
        times.record(&path("a"), Millis(u64::MAX), MeasuredEnd::Done);
        let usual = times.usual(&path("a")).expect("learned");
        assert_eq!((usual.min, usual.max), (Millis(25_000), Millis(300_000)));
    }

    #[test]
    fn the_task_used_longest_ago_is_forgotten_beyond_the_limit() {
        let mut times = RunTimes::default();
        for at in 0..TASKS_MEASURED_MAX {
            times.record(&path(&format!("t{at}")), Millis(1), MeasuredEnd::Done);
        }
        times.record(&path("t0"), Millis(1), MeasuredEnd::Done);
        times.record(&path("new"), Millis(1), MeasuredEnd::Done);
        assert_eq!(times.len(), TASKS_MEASURED_MAX);
        assert_eq!(times.estimate(&path("t1")), None);
        assert_eq!(times.estimate(&path("t0")), Some(Millis(1)));
    }
}
