//! The clock: many schedules, and their due times.
//!
//! Contract: the caller hands in the wall clock with [`Clock::due`], commits every
//! [`Tick`] it gets before it acts on it, and after a restart inserts each schedule with
//! the last instant that its records account for. Then every due time falls into exactly
//! one record, whatever the wall clock does:
//!
//! - Set forward: all due times past their slack become one record.
//! - Set back: due times that are accounted for are not due again.
//!
//! The cost of a call depends on what is due, not on the number of schedules: they are ordered by
//! their next due times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::time::{Millis, Wall};

use super::limits::{PUNCTUAL, TICKS_PER_CALL, TICKS_PER_TURN};
use super::{CatchUp, Policy, Schedule, SkipReason, Tick, TickVerdict};

/// Identifies a schedule of a [`Clock`]. Jitter is derived from it, so it should stay the same
/// across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// Schedules, and how far each is accounted for.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    entries: BTreeMap<Key, Entry>,
    /// Wake times of the schedules that have a due time left.
    queue: BTreeSet<(Wall, Key)>,
}

#[derive(Clone, Debug)]
struct Entry {
    schedule: Arc<Schedule>,
    policy: Policy,
    /// Every due time up to this instant has its record.
    accounted: Wall,
    /// The first due time after it, or [`NEVER`].
    nominal: Wall,
    /// Its key in the queue.
    wake: Wall,
}

/// In place of a due time, where there is none.
const NEVER: Wall = Wall(u64::MAX);

impl Clock {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a schedule, or replaces that of a known key. It ignores due times up to and including
    /// `accounted` and, for a known key, those that have a record already. Before a schedule is
    /// replaced, the caller takes the due times of the old one and [closes](Self::close) it.
    pub fn insert(&mut self, key: Key, schedule: Arc<Schedule>, policy: Policy, accounted: Wall) {
        let known = self.remove(key).unwrap_or_default();
        let mut entry = Entry {
            schedule,
            policy,
            accounted: accounted.max(known),
            nominal: NEVER,
            wake: NEVER,
        };
        entry.advance(key, entry.accounted);
        if entry.wake != NEVER {
            self.queue.insert((entry.wake, key));
        }
        self.entries.insert(key, entry);
    }

    /// Removes a schedule, and returns up to when it was accounted for.
    pub fn remove(&mut self, key: Key) -> Option<Wall> {
        let entry = self.entries.remove(&key)?;
        self.queue.remove(&(entry.wake, key));
        Some(entry.accounted)
    }

    /// Yields one record for all due times of a schedule that have none. They are not launched any
    /// more: the schedule is about to be replaced or removed, or its pause to end.
    pub fn close(&mut self, key: Key, now: Wall, reason: SkipReason, sink: &mut impl FnMut(Tick)) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        // By nominal times: launches delayed by jitter are dropped, too.
        let last = entry.schedule.last(entry.accounted, now);
        let wake = entry.wake;
        if entry.skip(key, last, reason, sink) > 0 {
            self.queue.remove(&(wake, key));
            if entry.wake != NEVER {
                self.queue.insert((entry.wake, key));
            }
        }
    }

    /// Up to when a schedule is accounted for.
    #[must_use]
    pub fn accounted(&self, key: Key) -> Option<Wall> {
        self.entries.get(&key).map(|entry| entry.accounted)
    }

    /// The next nominal time of a schedule.
    #[must_use]
    pub fn next_of(&self, key: Key) -> Option<Wall> {
        let nominal = self.entries.get(&key)?.nominal;
        (nominal != NEVER).then_some(nominal)
    }

    /// When [`due`](Self::due) is to be called next.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        self.queue.first().map(|(wake, _)| *wake)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Yields due times, in order for each schedule. It stops after about a thousand records: there
    /// are more as long as [`next_due`](Self::next_due) is not in the future.
    pub fn due(&mut self, now: Wall, sink: &mut impl FnMut(Tick)) {
        let mut left = TICKS_PER_CALL;
        while left > 0
            && let Some(&(wake, key)) = self.queue.first()
            && wake <= now
        {
            self.queue.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            let count = entry.take_due(key, now, left.min(TICKS_PER_TURN), sink);
            left = left.saturating_sub(count);
            if entry.wake != NEVER {
                self.queue.insert((entry.wake, key));
            }
        }
    }
}

impl Entry {
    /// Yields due times of this schedule, up to about `budget` records; returns their number.
    fn take_due(
        &mut self,
        key: Key,
        now: Wall,
        budget: usize,
        sink: &mut impl FnMut(Tick),
    ) -> usize {
        let mut count = 0;
        if now.since(self.planned(key, self.nominal)) > PUNCTUAL {
            count += self.skip(key, self.missed(key, now), SkipReason::Missed, sink);
            count += self.skip(key, self.not_caught_up(key, now), SkipReason::CatchUp, sink);
        }
        while self.nominal != NEVER {
            let (nominal, planned) = (self.nominal, self.planned(key, self.nominal));
            if planned > now {
                break;
            }
            if count >= budget {
                // Queue behind the others that are due.
                self.wake = now;
                break;
            }
            let by = now.since(planned);
            let verdict = if by > PUNCTUAL {
                TickVerdict::Late { by }
            } else {
                TickVerdict::Launch
            };
            sink(Tick {
                key,
                first: nominal,
                last: nominal,
                planned,
                count: 1,
                verdict,
            });
            count += 1;
            self.advance(key, nominal);
        }
        count
    }

    /// Yields one record for all due times up to `last`.
    fn skip(
        &mut self,
        key: Key,
        last: Option<Wall>,
        reason: SkipReason,
        sink: &mut impl FnMut(Tick),
    ) -> usize {
        let Some(last) = last else { return 0 };
        assert!(
            last >= self.nominal,
            "{last:?} was recorded before {:?}",
            self.nominal
        );
        sink(Tick {
            key,
            first: self.nominal,
            last,
            planned: self.planned(key, self.nominal),
            count: self.schedule.count(self.accounted, last),
            verdict: TickVerdict::Skip(reason),
        });
        self.advance(key, last);
        1
    }

    /// The last due time whose slack has passed.
    fn missed(&self, key: Key, now: Wall) -> Option<Wall> {
        self.planned_before(key, earlier(now, self.policy.slack.max(PUNCTUAL))?)
    }

    /// The last late due time within slack that the catch-up policy skips.
    fn not_caught_up(&self, key: Key, now: Wall) -> Option<Wall> {
        let overdue = || self.planned_before(key, earlier(now, PUNCTUAL)?);
        match self.policy.catch_up {
            CatchUp::None => overdue(),
            CatchUp::All => None,
            CatchUp::Last => {
                let overdue = overdue()?;
                let newest = self.planned_before(key, Wall(now.0.saturating_add(1)))?;
                if overdue == newest {
                    self.schedule
                        .last(self.accounted, earlier(newest, Millis(1))?)
                } else {
                    Some(overdue)
                }
            }
        }
    }

    /// The last due time without a record that was planned before an instant.
    fn planned_before(&self, key: Key, end: Wall) -> Option<Wall> {
        let end = earlier(end, Millis(1))?;
        let last = self.schedule.last(self.accounted, end)?;
        if self.planned(key, last) <= end {
            Some(last)
        } else {
            // Jitter never reaches the next due time, so the one before is planned in time.
            self.schedule
                .last(self.accounted, earlier(last, Millis(1))?)
        }
    }

    /// Accounts for all due times up to `accounted`, and finds the next one.
    fn advance(&mut self, key: Key, accounted: Wall) {
        self.accounted = accounted;
        self.nominal = self
            .schedule
            .after(accounted)
            .map_or(NEVER, |occurrence| occurrence.at);
        self.wake = match self.nominal {
            NEVER => NEVER,
            nominal => self.planned(key, nominal),
        };
    }

    /// A due time plus jitter, which is limited to the next due time: so planned times have the
    /// same order as nominal ones.
    fn planned(&self, key: Key, nominal: Wall) -> Wall {
        if self.policy.jitter.0 == 0 {
            return nominal;
        }
        let next = self
            .schedule
            .after(nominal)
            .map_or(NEVER, |occurrence| occurrence.at);
        let room = self.policy.jitter.min(next.since(nominal));
        Wall(nominal.0 + mix(mix(key.0) ^ nominal.0) % room.0.max(1))
    }
}

fn earlier(at: Wall, span: Millis) -> Option<Wall> {
    at.0.checked_sub(span.0).map(Wall)
}

/// The splitmix64 step. Written out, because the delays must never change.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
