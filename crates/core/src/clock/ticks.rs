//! Many schedules, and what is due of them.
//!
//! Contract: the caller hands in the wall clock with [`Clock::due`], commits every
//! [`Tick`] it gets before it acts on it, and after a restart inserts each schedule with
//! the last instant that its records account for. Then every due time falls into exactly
//! one record, whatever the wall clock does:
//!
//! - Forward by much: what is past its slack is one record, however many it is.
//! - Back: nothing that is accounted for is due again.
//!
//! A call costs what is due, not what there is: the schedules stand in the order of
//! their next due times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::time::{Millis, Wall};

use super::limits::{PUNCTUAL, TICKS_PER_CALL, TICKS_PER_TURN};
use super::{CatchUp, Policy, Schedule, SkipReason, Tick, TickVerdict};

/// Names a schedule of a [`Clock`]. Jitter comes from it, so it should stay the same
/// across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// Schedules, and how far each is accounted for.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    entries: BTreeMap<Key, Entry>,
    /// When to look at which, of those that have a due time left.
    queue: BTreeSet<(Wall, Key)>,
}

#[derive(Clone, Debug)]
struct Entry {
    schedule: Arc<Schedule>,
    policy: Policy,
    /// Every due time up to this instant has its record.
    accounted: Wall,
    /// The first one after it, or [`NEVER`].
    nominal: Wall,
    /// Where the entry stands in the queue.
    wake: Wall,
}

/// In place of a due time, where there is none.
const NEVER: Wall = Wall(u64::MAX);

impl Clock {
    /// Without schedules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a schedule, or gives a known key another one. Due times up to and with
    /// `accounted` are not its business; for a known key neither is what has a record
    /// already. Whoever replaces a schedule takes what is due of the old one first, and
    /// [closes](Self::close) it.
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

    /// Forgets a schedule, and says up to when it was accounted for.
    pub fn remove(&mut self, key: Key) -> Option<Wall> {
        let entry = self.entries.remove(&key)?;
        self.queue.remove(&(entry.wake, key));
        Some(entry.accounted)
    }

    /// Hands out one record for everything that is due of a schedule and has none, which is
    /// not launched any more: its schedule is about to be replaced or removed.
    pub fn close(&mut self, key: Key, now: Wall, sink: &mut impl FnMut(Tick)) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        // By nominal times: what jitter has put off is not launched either.
        let last = entry.schedule.last(entry.accounted, now);
        let wake = entry.wake;
        if entry.skip(key, last, SkipReason::Replaced, sink) > 0 {
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

    /// When [`due`](Self::due) has something to say again.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        self.queue.first().map(|(wake, _)| *wake)
    }

    /// How many schedules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Hands out what is due, in the order of each schedule. It stops after about a
    /// thousand records: as long as [`next_due`](Self::next_due) is not in the future,
    /// there are more.
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
            let given = entry.turn(key, now, left.min(TICKS_PER_TURN), sink);
            left = left.saturating_sub(given);
            if entry.wake != NEVER {
                self.queue.insert((entry.wake, key));
            }
        }
    }
}

impl Entry {
    /// Hands out what is due of this schedule, up to about `budget` records.
    fn turn(&mut self, key: Key, now: Wall, budget: usize, sink: &mut impl FnMut(Tick)) -> usize {
        let mut given = 0;
        if now.since(self.planned(key, self.nominal)) > PUNCTUAL {
            given += self.skip(key, self.missed(key, now), SkipReason::Missed, sink);
            given += self.skip(key, self.left_behind(key, now), SkipReason::CatchUp, sink);
        }
        while self.nominal != NEVER {
            let (nominal, planned) = (self.nominal, self.planned(key, self.nominal));
            if planned > now {
                break;
            }
            if given >= budget {
                // Behind the others that are due.
                self.wake = now;
                break;
            }
            let by = now.since(planned);
            let verdict = match by > PUNCTUAL {
                true => TickVerdict::Late { by },
                false => TickVerdict::Launch,
            };
            sink(Tick {
                key,
                first: nominal,
                last: nominal,
                planned,
                count: 1,
                verdict,
            });
            given += 1;
            self.advance(key, nominal);
        }
        given
    }

    /// Hands out one record for everything up to `last`.
    fn skip(
        &mut self,
        key: Key,
        last: Option<Wall>,
        reason: SkipReason,
        sink: &mut impl FnMut(Tick),
    ) -> usize {
        let Some(last) = last else { return 0 };
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

    /// The last due time within slack that the policy does not make up for.
    fn left_behind(&self, key: Key, now: Wall) -> Option<Wall> {
        let overdue = || self.planned_before(key, earlier(now, PUNCTUAL)?);
        match self.policy.catch_up {
            CatchUp::None => overdue(),
            CatchUp::All => None,
            CatchUp::Last => {
                let overdue = overdue()?;
                let newest = self.planned_before(key, Wall(now.0.saturating_add(1)))?;
                match overdue == newest {
                    true => self
                        .schedule
                        .last(self.accounted, earlier(newest, Millis(1))?),
                    false => Some(overdue),
                }
            }
        }
    }

    /// The last due time without a record that was planned before an instant.
    fn planned_before(&self, key: Key, end: Wall) -> Option<Wall> {
        let end = earlier(end, Millis(1))?;
        let last = self.schedule.last(self.accounted, end)?;
        match self.planned(key, last) <= end {
            true => Some(last),
            // Jitter never reaches the next due time, so the one before will do.
            false => self
                .schedule
                .last(self.accounted, earlier(last, Millis(1))?),
        }
    }

    /// Everything up to `accounted` has its record now.
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

    /// A due time with its jitter, which ends before the next due time: so the order of
    /// planned times is that of nominal ones.
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

/// A span before an instant, if there is such a time.
fn earlier(at: Wall, span: Millis) -> Option<Wall> {
    at.0.checked_sub(span.0).map(Wall)
}

/// The splitmix64 step. Written out, because a delay must stay the same for ever.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
