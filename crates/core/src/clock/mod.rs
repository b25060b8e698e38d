//! Schedules: when tasks are due, and the accounting of due times.
//!
//! A [`Schedule`] is an expression with a time zone and a policy for the days on which
//! clocks are changed. [`Schedule::after`] is the first due time strictly after an instant. A
//! [`Clock`] holds many schedules and yields which ticks are due, late or skipped; every due time
//! falls into exactly one record.
//!
//! | module | holds |
//! |---|---|
//! | `cron` | five or six fields |
//! | `english` | `every monday at 12:00`, by a strict grammar |
//! | `rule` | the rule of a schedule: one of the three |
//! | `period`, `moment` | fixed periods; single instants |
//! | `civil` | sets of civil times (without a zone) |
//! | `zone` | time zones |
//! | `search` | from civil times to instants: gaps and folds |
//! | `describe` | description of a schedule |
//! | `intern` | one copy of equal schedules |
//! | `ticks`, `verdict` | the [`Clock`], and its verdicts on due times |
//! | [`nominal`] | references to the nominal time in texts |
//!
//! Invariants. Due times are whole seconds, from 1970 to the end of 9998. `after` is
//! strictly increasing and its cost is bounded, even for expressions that are never due. Nothing
//! here reads a clock, a file or the environment. `docs/schedules.md` explains the expressions to
//! users. Launching and durability are the scheduler's business.

mod civil;
mod cron;
mod describe;
mod english;
mod error;
mod intern;
mod limits;
mod moment;
pub mod nominal;
mod period;
mod rule;
mod search;
#[cfg(test)]
mod tests;
mod ticks;
mod verdict;
mod zone;

use baton_model::time::Wall;

pub use baton_tzdata::release as tzdata;

pub use baton_model::schedule::{CatchUp, Dst, Fold, Gap, SkipReason, TickVerdict};
pub use error::ScheduleError;
pub use intern::Schedules;
pub use ticks::{Clock, Key};
pub use verdict::{Policy, Tick, admit};
pub use zone::Zone;

use error::quote;
use limits::{END_SECONDS, TEXT_BYTES_MAX};
use rule::Rule;

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    pub at: Wall,
    pub effect: DstEffect,
}

/// Effect of a daylight saving change on a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DstEffect {
    None,
    /// The local time was skipped, and this one replaces it.
    Shifted,
    /// The local time occurs for the second time.
    Repeated,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schedule {
    rule: Rule,
    zone: Zone,
    dst: Dst,
}

impl Schedule {
    /// Parses an expression: cron, English, a fixed period or a single time.
    ///
    /// # Errors
    /// If it is invalid or never due.
    pub fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<Self, ScheduleError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScheduleError::new(
                format!("a schedule of {} bytes is too long", text.len()),
                format!("keep it below {TEXT_BYTES_MAX}"),
            ));
        }
        let plain = text.to_ascii_lowercase();
        let rule = if cron::is_cron(&plain) {
            Rule::Pattern(cron::parse(&plain)?)
        } else {
            english::parse(&plain, zone, dst)?
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

    /// Number of due times in `(after, until]`. The cost depends on the number of months between
    /// the two, not on the number of due times.
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

    /// The last due time in `(after, until]`.
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
        // `after(low)` is not beyond the end, `after(high)` is. The last one is mostly near the end:
        // search there first, in growing steps, then by bisection.
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

    #[must_use]
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Its meaning in English: `at 12:00 on Monday`.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::rule(&self.rule, &self.zone)
    }
}
