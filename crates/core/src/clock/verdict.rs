//! Verdicts on due times: launch, late or skip.

use baton_model::time::{Millis, Mono, Wall};

use super::{CatchUp, Key, SkipReason, TickVerdict};
use crate::limits::{EntryLimit, TokenBucket};

/// How a schedule treats due times that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How late a due time may still be launched. Less than a second counts as one.
    pub slack: Millis,
    /// Which of several late due times within slack are launched.
    pub catch_up: CatchUp,
    /// Upper bound of a launch delay that is derived from key and due time, so that schedules for
    /// the same second do not start at once.
    pub jitter: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            slack: Millis::from_secs(3_600),
            catch_up: CatchUp::default(),
            jitter: Millis(0),
        }
    }
}

/// A record of one due time, or of many that were skipped for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    pub key: Key,
    /// The nominal time, or the first of many.
    pub first: Wall,
    /// The nominal time, or the last of many. Everything up to it is accounted for once this record
    /// is durable.
    pub last: Wall,
    /// Planned launch of the first: its nominal time plus jitter.
    pub planned: Wall,
    /// Number of due times in the record; 1 unless they were skipped.
    pub count: u64,
    pub verdict: TickVerdict,
}

/// Checks a launch against the limits of its entry. `active` is the number of instances and runs
/// that are QUEUED or later, and not terminal. Skips stay skips and use no token.
pub fn admit(
    verdict: TickVerdict,
    active: u64,
    limit: EntryLimit,
    rate: Option<&mut TokenBucket>,
    now: Mono,
) -> TickVerdict {
    if matches!(verdict, TickVerdict::Skip(_)) {
        return verdict;
    }
    if let Some(reason) = limit.refusal(active) {
        return TickVerdict::Skip(reason);
    }
    // Last, so that a launch that is refused anyway costs no token.
    if rate.is_none_or(|rate| rate.take(now)) {
        verdict
    } else {
        TickVerdict::Skip(SkipReason::LaunchRate)
    }
}

#[cfg(test)]
mod tests {
    use baton_model::library::{Overlap, Rate, Trigger};

    use super::*;

    fn skipping() -> EntryLimit {
        EntryLimit::of(&Trigger {
            max_instances: Some(2),
            overlap: Overlap::Skip,
            ..Trigger::default()
        })
    }

    #[test]
    fn a_full_task_costs_no_token_and_a_skip_stays_a_skip() {
        let per = Millis(1_000);
        let mut rate = TokenBucket::of_launches(Rate { count: 1, per });
        let full = TickVerdict::Skip(SkipReason::MaxInstances { limit: 2 });
        let late = TickVerdict::Late { by: Millis(5) };
        let skip = TickVerdict::Skip(SkipReason::Missed);
        let mut decide = |verdict, active| {
            let rate = Some(&mut rate);
            admit(verdict, active, skipping(), rate, Mono(0))
        };
        assert_eq!(decide(TickVerdict::Launch, 2), full);
        assert_eq!(decide(skip, 0), skip);
        assert_eq!(decide(late, 1), late);
        assert_eq!(decide(late, 1), TickVerdict::Skip(SkipReason::LaunchRate));
        assert_eq!(
            admit(late, 1_000, EntryLimit::default(), None, Mono(0)),
            late
        );
    }
}
