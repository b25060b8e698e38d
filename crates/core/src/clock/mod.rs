//! When something is due: schedules, and the accounts of many of them.
//!
//! A [`Schedule`] is an expression with a time zone and a policy for the days on which
//! clocks are changed. It answers one question, [`Schedule::after`]: the first due time
//! strictly after an instant. A [`Clock`] keeps many schedules and says which ticks are
//! due, late or skipped, so that every due time falls into exactly one record.
//!
//! | module | holds |
//! |---|---|
//! | `cron` | five or six fields |
//! | `english` | `every monday at 12:00`, by a strict grammar |
//! | `period`, `moment` | fixed periods; single instants |
//! | `civil` | sets of times on a clock without a zone |
//! | `zone` | offsets, and when they change; the rules are compiled in |
//! | `search` | from civil times to instants: gaps and folds |
//! | `describe` | a schedule in words |
//! | `intern` | one copy of equal schedules |
//! | `ticks`, `verdict` | the [`Clock`], and what it makes of a due time |
//! | `rate` | how many launches in how long |
//!
//! Invariants. Due times are whole seconds, from 1970 to the end of 9998. `after` is
//! strictly increasing and its cost is bounded, also for what never comes. Nothing here
//! reads a clock, a file or the environment. `docs/schedules.md` tells users what each
//! expression means; what a tick launches, and that it is durable, is the scheduler's.

mod civil;
mod cron;
mod describe;
mod english;
mod error;
mod intern;
mod limits;
mod moment;
mod period;
mod rate;
mod search;
#[cfg(test)]
mod tests;
mod ticks;
mod verdict;
mod zone;

use baton_model::time::Wall;

pub use baton_model::schedule::{CatchUp, Dst, Fold, Gap, SkipReason, TickVerdict};
pub use error::ScheduleError;
pub use intern::Schedules;
pub use rate::LaunchRate;
pub use ticks::{Clock, Key};
pub use verdict::{Policy, Tick, admit};
pub use zone::Zone;

use civil::Pattern;
use error::quote;
use limits::{END_SECONDS, TEXT_BYTES_MAX};
use period::Period;

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    pub at: Wall,
    /// What a change of clocks has to do with it.
    pub effect: DstEffect,
}

/// What a change of clocks has to do with a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DstEffect {
    None,
    /// The time was jumped over, and this one stands for it.
    Shifted,
    /// The clocks show the time again.
    Repeated,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schedule {
    rule: Rule,
    zone: Zone,
    dst: Dst,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Pattern(Pattern),
    Period(Period),
    /// A single second.
    Once(u64),
}

impl Schedule {
    /// Reads an expression: cron, English, a fixed period or a single time.
    ///
    /// # Errors
    /// What is not understood, or never happens, with its hint.
    pub fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<Self, ScheduleError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScheduleError::new(
                format!("a schedule of {} bytes is too long", text.len()),
                format!("keep it below {TEXT_BYTES_MAX}"),
            ));
        }
        let plain = text.to_ascii_lowercase();
        let rule = match cron::is_cron(&plain) {
            true => Rule::Pattern(cron::parse(&plain)?),
            false => english::parse(&plain, zone, dst)?,
        };
        if let Rule::Pattern(pattern) = &rule
            && !pattern.happens()
        {
            return Err(ScheduleError::new(
                format!("{} never happens", quote(text)),
                "name days that the months have",
            ));
        }
        Ok(Self {
            rule,
            zone: zone.clone(),
            dst,
        })
    }

    /// The first due time strictly after an instant, if there is one.
    #[must_use]
    pub fn after(&self, instant: Wall) -> Option<Occurrence> {
        let second = instant.0 / 1_000;
        let plain = |second: u64| Occurrence {
            at: Wall(second * 1_000),
            effect: DstEffect::None,
        };
        let signed = i64::try_from(second).ok().filter(|at| *at < END_SECONDS)?;
        match &self.rule {
            Rule::Pattern(pattern) => search::next(pattern, &self.zone, self.dst, signed),
            Rule::Period(period) => {
                let next = period.next(second)?;
                (next < END_SECONDS.unsigned_abs()).then(|| plain(next))
            }
            Rule::Once(at) => (*at > second).then(|| plain(*at)),
        }
    }

    /// How many times are due after one instant, up to and with another. It costs the
    /// months between the two, not the times.
    #[must_use]
    pub fn count(&self, after: Wall, until: Wall) -> u64 {
        let last = END_SECONDS.unsigned_abs() - 1;
        let from = (after.0 / 1_000).min(last) + 1;
        let to = (until.0 / 1_000).min(last) + 1;
        if from >= to {
            return 0;
        }
        match &self.rule {
            Rule::Pattern(pattern) => {
                let (from, to) = (from.cast_signed(), to.cast_signed());
                search::count(pattern, &self.zone, self.dst, from, to)
            }
            Rule::Period(period) => period.count(from, to),
            Rule::Once(at) => u64::from((from..to).contains(at)),
        }
    }

    /// The last due time after one instant, up to and with another.
    #[must_use]
    pub fn last(&self, after: Wall, until: Wall) -> Option<Wall> {
        let next = |second: u64| {
            let next = self.after(Wall(second * 1_000))?.at;
            (next <= until).then_some(next.0 / 1_000)
        };
        let first = next(after.0 / 1_000)?;
        if next(first).is_none() {
            return Some(Wall(first * 1_000));
        }
        // `after(low)` is not beyond the end, `after(high)` is. The last one is mostly
        // near the end: look there first, in growing steps.
        let mut low = first;
        let mut high = (until.0 / 1_000).min(END_SECONDS.unsigned_abs());
        let mut step = 1;
        while high - low > step {
            match next(high - step) {
                Some(found) => {
                    low = found - 1;
                    break;
                }
                None => high -= step,
            }
            step *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match next(middle) {
                Some(found) => low = found - 1,
                None => high = middle,
            }
        }
        Some(Wall(high * 1_000))
    }

    /// The zone whose clocks it goes by.
    #[must_use]
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }

    /// How it was understood, in English: `at 12:00 on Monday`.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::rule(&self.rule, &self.zone)
    }
}
