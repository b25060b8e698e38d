//! The account of one schedule: its due times and their records.
//!
//! Due times are enumerated with [`Schedule::after`], also those of a record of many: counts are
//! always verified. The exact jitter of a launch is not checked, only that the launch is neither
//! before the nominal time nor beyond the allowed jitter.

use baton_core::clock::{CatchUp, Schedule, SkipReason, TickVerdict, Zone};
use baton_model::library;
use baton_model::time::{Millis, Wall};

use crate::checkers::Violation;

/// A record within this time is on time.
const ON_TIME: Millis = Millis(1_000);

/// One record of due times.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The first due time of the record.
    pub first: Wall,
    /// The last due time of the record.
    pub last: Wall,
    pub count: u64,
    pub verdict: TickVerdict,
}

/// One schedule and the time up to which it is accounted for.
#[derive(Clone, Debug)]
pub struct Account {
    schedule: Schedule,
    slack: Millis,
    catch_up: CatchUp,
    jitter: Millis,
    until: Wall,
}

fn broken(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}

impl Account {
    /// Opens the account of a schedule for due times after `from`.
    ///
    /// # Errors
    /// If the schedule does not parse, although it was accepted.
    pub fn new(of: &library::Schedule, from: Wall) -> Result<Self, Violation> {
        let schedule = Zone::named(&of.zone)
            .and_then(|zone| Schedule::parse(&of.text, &zone, of.dst))
            .map_err(|error| broken("unreadable", format!("{:?}: {error}", of.text)))?;
        Ok(Self {
            schedule,
            slack: of.slack.max(ON_TIME),
            catch_up: of.catch_up,
            jitter: of.jitter,
            until: from,
        })
    }

    /// The time up to which every due time has a record.
    #[must_use]
    pub const fn until(&self) -> Wall {
        self.until
    }

    /// Adds a record that was decided when the wall clock showed `now`.
    ///
    /// # Errors
    /// The first violation.
    pub fn record(&mut self, record: &Record, now: Wall) -> Result<(), Violation> {
        self.match_times(record)?;
        if record.last > now {
            let what = format!("{record:?} was recorded at {now:?}");
            return Err(broken("due-early", what));
        }
        if let Some(contradiction) = self.contradiction(record, now) {
            let what = format!("{record:?} at {now:?} under {self:?}: {contradiction}");
            return Err(broken("false-verdict", what));
        }
        self.until = record.last;
        Ok(())
    }

    /// Enumerates the due times of the record.
    fn match_times(&self, record: &Record) -> Result<(), Violation> {
        if record.first <= self.until {
            let what = format!(
                "{record:?}, but all is accounted for up to {:?}",
                self.until
            );
            return Err(broken("due-twice", what));
        }
        let mut at = self.until;
        let mut counted = 0;
        while at < record.last {
            let Some(next) = self.schedule.after(at) else {
                break;
            };
            at = next.at;
            counted += 1;
            if counted == 1 && at < record.first {
                let what = format!("{at:?} has no record, the next one is {record:?}");
                return Err(broken("due-forgotten", what));
            }
            if counted == 1 && at > record.first {
                let what = format!("{record:?}, but {at:?} is due first");
                return Err(broken("never-due", what));
            }
        }
        if at != record.last || counted != record.count {
            let what = format!("{record:?} covers {counted} up to {at:?}");
            return Err(broken("due-miscounted", what));
        }
        Ok(())
    }

    /// Returns why the verdict is false.
    fn contradiction(&self, record: &Record, now: Wall) -> Option<&'static str> {
        let at = record.first;
        let age = now.since(record.last);
        let planned_by = self.planned_by(at);
        let overdue = now.since(planned_by);
        let one = record.count == 1;
        match record.verdict {
            TickVerdict::Launch => {
                if one && overdue <= ON_TIME {
                    None
                } else {
                    Some("it was not on time")
                }
            }
            TickVerdict::Late { by } => {
                let planned = Wall(now.0.saturating_sub(by.0));
                if !one || by <= ON_TIME || by > self.slack {
                    Some("that is not within slack")
                } else if planned < at || planned > planned_by {
                    Some("it was not planned for then")
                } else {
                    self.not_caught_up(at, now)
                }
            }
            TickVerdict::Skip(SkipReason::Missed) => {
                if age > self.slack {
                    None
                } else {
                    Some("its slack had not passed")
                }
            }
            TickVerdict::Skip(SkipReason::CatchUp) => {
                let newer = self.schedule.after(record.last);
                let newer = newer.is_some_and(|occurrence| occurrence.at <= now);
                match self.catch_up {
                    CatchUp::All => Some("the policy catches up on all"),
                    CatchUp::Last if !newer => Some("it was the last"),
                    _ if age <= ON_TIME => Some("it was on time"),
                    _ if overdue > self.slack => Some("its slack had passed"),
                    _ => None,
                }
            }
            TickVerdict::Skip(
                SkipReason::MaxInstances { .. }
                | SkipReason::QueueFull { .. }
                | SkipReason::LaunchRate,
            ) => {
                if !one || overdue > self.slack {
                    Some("it was not to be launched anyway")
                } else if overdue > ON_TIME {
                    self.not_caught_up(at, now)
                } else {
                    None
                }
            }
            // Other facts prove the replacement, and the pause.
            TickVerdict::Skip(SkipReason::Replaced | SkipReason::Paused) => None,
        }
    }

    /// Returns why the catch-up policy skips a late due time.
    fn not_caught_up(&self, at: Wall, now: Wall) -> Option<&'static str> {
        let newer = || {
            let next = self.schedule.after(at);
            next.is_some_and(|occurrence| self.planned_by(occurrence.at) <= now)
        };
        match self.catch_up {
            CatchUp::None => Some("nothing late is launched"),
            CatchUp::Last if newer() => Some("there is a newer one"),
            CatchUp::Last | CatchUp::All => None,
        }
    }

    /// The latest launch time of a due time with jitter.
    pub(super) fn planned_by(&self, nominal: Wall) -> Wall {
        if self.jitter.0 == 0 {
            return nominal;
        }
        let next = self.schedule.after(nominal);
        let room = next.map_or(self.jitter, |next| self.jitter.min(next.at.since(nominal)));
        Wall(nominal.0 + room.0.max(1) - 1)
    }

    /// Checks that a leader that has checked the clock left no planned launch without a record.
    ///
    /// # Errors
    /// A due time without a record.
    pub fn check_settled(&self, now: Wall) -> Result<(), Violation> {
        match self.schedule.after(self.until) {
            Some(next) if next.at <= now && self.planned_by(next.at) <= now => {
                let what = format!("{:?} has no record at {now:?}: {self:?}", next.at);
                Err(broken("due-forgotten", what))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a schedule that was replaced, removed or unpaused has no due time without a record.
    ///
    /// # Errors
    /// A due time without a record.
    pub fn check_closed(&self, now: Wall) -> Result<(), Violation> {
        match self.schedule.after(self.until) {
            Some(next) if next.at <= now => {
                let what = format!("{:?} has no record, and {self:?} is closed", next.at);
                Err(broken("due-forgotten", what))
            }
            _ => Ok(()),
        }
    }
}
