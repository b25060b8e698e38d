//! One schedule, and the records of its due times.
//!
//! Due times are found one by one with [`Schedule::after`], and so are those that a record of
//! many stands for: counting is never taken on trust. When exactly jitter had planned a launch
//! is not asked either, only that it is not before the nominal time, nor beyond what was
//! allowed.

use baton_core::clock::{CatchUp, Schedule, SkipReason, TickVerdict, Zone};
use baton_model::library;
use baton_model::time::{Millis, Wall};

use crate::checkers::Violation;

/// What is recorded within this time is on time.
const ON_TIME: Millis = Millis(1_000);

/// One record of due times.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The first that it stands for.
    pub first: Wall,
    /// The last.
    pub last: Wall,
    pub count: u64,
    pub verdict: TickVerdict,
}

/// One schedule, as far as its records account for it.
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
    /// Of a schedule whose due times up to and with `from` are not its business.
    ///
    /// # Errors
    /// If it cannot be read: it was defined all the same.
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

    /// Every due time up to this has its record.
    #[must_use]
    pub const fn until(&self) -> Wall {
        self.until
    }

    /// Takes a record that was decided when the wall clock showed `now`.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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

    /// Walks from due time to due time through the record.
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
            let what = format!("{record:?} stands for {counted} up to {at:?}");
            return Err(broken("due-miscounted", what));
        }
        Ok(())
    }

    /// Why the verdict is not true, if it is not.
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
                    CatchUp::All => Some("all are made up for"),
                    CatchUp::Last if !newer => Some("it was the last"),
                    _ if age <= ON_TIME => Some("it was on time"),
                    _ if overdue > self.slack => Some("its slack had passed"),
                    _ => None,
                }
            }
            TickVerdict::Skip(SkipReason::MaxInstances { .. } | SkipReason::LaunchRate) => {
                if !one || overdue > self.slack {
                    Some("it was not to be launched anyway")
                } else if overdue > ON_TIME {
                    self.not_caught_up(at, now)
                } else {
                    None
                }
            }
            // That it was is seen from what follows.
            TickVerdict::Skip(SkipReason::Replaced) => None,
        }
    }

    /// Why the policy does not make up for a late due time, if it does not.
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

    /// The latest that jitter may have put a due time off to.
    pub(super) fn planned_by(&self, nominal: Wall) -> Wall {
        if self.jitter.0 == 0 {
            return nominal;
        }
        let next = self.schedule.after(nominal);
        let room = next.map_or(self.jitter, |next| self.jitter.min(next.at.since(nominal)));
        Wall(nominal.0 + room.0.max(1) - 1)
    }

    /// Somebody has looked at the clock: nothing that was planned by then may be left.
    ///
    /// # Errors
    /// What was forgotten.
    pub fn check_settled(&self, now: Wall) -> Result<(), Violation> {
        match self.schedule.after(self.until) {
            Some(next) if next.at <= now && self.planned_by(next.at) <= now => {
                let what = format!("{:?} has no record at {now:?}: {self:?}", next.at);
                Err(broken("due-forgotten", what))
            }
            _ => Ok(()),
        }
    }

    /// The schedule is replaced or removed: nothing that was due by then may be left, planned
    /// or not.
    ///
    /// # Errors
    /// What was forgotten.
    pub fn check_closed(&self, now: Wall) -> Result<(), Violation> {
        match self.schedule.after(self.until) {
            Some(next) if next.at <= now => {
                let what = format!("{:?} has no record, and {self:?} is no more", next.at);
                Err(broken("due-forgotten", what))
            }
            _ => Ok(()),
        }
    }
}
