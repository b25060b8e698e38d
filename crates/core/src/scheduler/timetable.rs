//! Automatic launches: schedules, and entries that come after others.
//!
//! The timetable is rebuilt from the ledger's library; only the state of launch rates starts
//! afresh with each leader. A due time becomes a record and, if it is launched, an instance or a
//! run, in one step: both are durable, or neither. The record also tells up to when a schedule is accounted
//! for, so a restart repeats nothing and forgets nothing.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::fact::Fact;
use baton_model::ids::TaskNo;
use baton_model::library::{self, Cause, Definition, TaskName};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::Due;
use baton_model::time::{Millis, Mono, Now, Wall};

use super::launch::{self, Launch};
use crate::clock::{Clock, Key, Policy, Schedule, ScheduleError, Schedules, Tick, Zone, admit};
use crate::ledger::{Ledger, Task};
use crate::limits::{EntryLimit, TokenBucket};
use crate::scheduler::context::{Cx, Success};

/// Schedules, launch rates and `after` edges of the library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timetable {
    clock: Clock,
    schedules: Schedules,
    rates: BTreeMap<TaskNo, TokenBucket>,
    followers: BTreeMap<TaskName, BTreeSet<TaskNo>>,
    /// Upstream tasks of each follower.
    after: BTreeMap<TaskNo, Vec<TaskName>>,
    /// Records that a seeded bug holds back.
    #[cfg(feature = "seeded-bugs")]
    late: Vec<Fact>,
}

impl Timetable {
    /// The timetable of a leader that takes over this ledger.
    pub(crate) fn restore(ledger: &Ledger) -> Self {
        let mut timetable = Self::default();
        for task in ledger.library().tasks() {
            // The schedule was valid when the task was defined. Its time zone may have been removed
            // by another version of Baton: then the task is no longer due, and its list of due
            // times is empty.
            let _ = timetable.insert(task);
        }
        timetable
    }

    /// When [`due`](Self::due) is to be called next.
    pub(crate) fn next_due(&self) -> Option<Wall> {
        self.clock.next_due()
    }

    /// The next due time of a task.
    pub(crate) fn next_of(&self, task: TaskNo) -> Option<Wall> {
        self.clock.next_of(Key(task.0))
    }

    /// Records due times, and launches instances and runs.
    pub(crate) fn due(&mut self, cx: &mut Cx<'_>) {
        seeded! { crate::bugs::scheduler::follow_wall_clock(self, cx); }
        let mut ticks = Vec::new();
        self.clock.due(cx.now.wall, &mut |tick| ticks.push(tick));
        cx.unrequested(|cx| {
            for tick in ticks {
                self.record_tick(cx, &tick);
            }
        });
    }

    /// Adds or replaces a task.
    pub(crate) fn insert(&mut self, task: &Task) -> Result<(), ScheduleError> {
        self.insert_from(task, task.accounted)
    }

    pub(crate) fn insert_from(
        &mut self,
        task: &Task,
        accounted: Wall,
    ) -> Result<(), ScheduleError> {
        self.remove(task.number);
        let Some(trigger) = task.trigger() else {
            return Ok(());
        };
        for name in &trigger.after {
            let followers = self.followers.entry(name.clone()).or_default();
            followers.insert(task.number);
        }
        if !trigger.after.is_empty() {
            self.after.insert(task.number, trigger.after.clone());
        }
        if let Some(rate) = trigger.launch_rate {
            let rate = TokenBucket::of_launches(rate);
            self.rates.insert(task.number, rate);
        }
        if let Some(schedule) = &trigger.schedule {
            let parsed = self
                .schedules
                .parse(&schedule.text, &schedule.zone, schedule.dst)?;
            let key = Key(task.number.0);
            self.clock.insert(key, parsed, policy(schedule), accounted);
        }
        Ok(())
    }

    /// Removes a task.
    fn remove(&mut self, task: TaskNo) {
        self.clock.remove(Key(task.0));
        self.rates.remove(&task);
        for name in self.after.remove(&task).unwrap_or_default() {
            if let Some(followers) = self.followers.get_mut(&name) {
                followers.remove(&task);
                if followers.is_empty() {
                    self.followers.remove(&name);
                }
            }
        }
    }

    /// Records due times of a task that will not be launched any more, for this reason.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>, task: TaskNo, reason: SkipReason) {
        let mut ticks = Vec::new();
        let sink = &mut |tick| ticks.push(tick);
        self.clock.close(Key(task.0), cx.now.wall, reason, sink);
        cx.unrequested(|cx| {
            for tick in ticks {
                self.record_tick(cx, &tick);
            }
        });
    }

    fn record_tick(&mut self, cx: &mut Cx<'_>, tick: &Tick) {
        let number = TaskNo(tick.key.0);
        let Some(task) = cx.ledger.library().task(number).cloned() else {
            return;
        };
        let Some(trigger) = task.trigger() else {
            return;
        };
        let slack = trigger.schedule.as_ref().map(|it| it.slack);
        let due = Due {
            nominal: tick.first,
            latest: Wall(tick.planned.0.saturating_add(slack.unwrap_or_default().0)),
        };
        let cause = Cause::Due {
            first: tick.first,
            last: if seeded!(cx.config.bugs, AccountedNotAdvanced) {
                tick.first
            } else {
                tick.last
            },
            count: tick.count,
        };
        let launch = Launch {
            cause,
            due: Some(due),
            payload: task.payload(tick.first),
            trace: None,
        };
        // A launch that is skipped is recorded, too.
        let _ = launch::try_launch(cx, self, &task, launch, tick.verdict);
    }

    /// Launches the followers of an entry of which an instance or a run is DONE.
    pub(crate) fn launch_followers(&mut self, cx: &mut Cx<'_>, upstream: &Success) {
        let execution = upstream.execution;
        let Some(task) = cx.ledger.library().task(upstream.entry) else {
            return;
        };
        let Some(followers) = self.followers.get(&task.name).cloned() else {
            return;
        };
        let at = cx.now.wall;
        let nominal = upstream.due.map_or(at, |due| due.nominal);
        for number in followers {
            let Some(follower) = cx.ledger.library().task(number).cloned() else {
                continue;
            };
            let launch = Launch {
                cause: Cause::Upstream { execution, at },
                due: None,
                payload: follower.payload(nominal),
                trace: None,
            };
            let _ = launch::try_launch(cx, self, &follower, launch, TickVerdict::Launch);
        }
    }

    /// Commits the record of a launch.
    pub(super) fn record_launch(&mut self, cx: &mut Cx<'_>, record: Fact) {
        seeded!(cx.config.bugs, BackfillRecordLate => if record.backfill().is_some() {
            return self.late.push(record);
        });
        cx.commit(record);
    }

    /// Commits the records that a seeded bug has held back.
    #[cfg(feature = "seeded-bugs")]
    pub(super) fn record_late(&mut self, cx: &mut Cx<'_>) {
        for fact in std::mem::take(&mut self.late) {
            cx.commit(fact);
        }
    }

    /// Time until the launch rate of an entry allows the next launch.
    pub(super) fn wait_for_launch(&self, task: TaskNo, now: Mono) -> Millis {
        let next = self.rates.get(&task).and_then(|rate| rate.next(1, now));
        next.map_or(Millis(0), |at| at.since(now))
    }

    /// Checks a launch against `max_instances` and the launch rate of its task.
    pub(super) fn admit(
        &mut self,
        cx: &Cx<'_>,
        task: TaskNo,
        limit: EntryLimit,
        verdict: TickVerdict,
    ) -> TickVerdict {
        let active = cx.ledger.library().active(task);
        let active = active.map_or(0, |active| {
            if seeded!(cx.config.bugs, RunsUncounted) {
                active.instances.len() as u64
            } else {
                active.count()
            }
        });
        let rate = self.rates.get_mut(&task);
        admit(verdict, active, limit, rate, cx.now.mono)
    }
}

fn policy(schedule: &library::Schedule) -> Policy {
    Policy {
        slack: schedule.slack,
        catch_up: schedule.catch_up,
        jitter: schedule.jitter,
    }
}

/// Validates the schedule of a definition.
pub(super) fn check(definition: &Definition) -> Result<(), ScheduleError> {
    let Some(schedule) = &definition.trigger.schedule else {
        return Ok(());
    };
    let zone = Zone::named(&schedule.zone)?;
    Schedule::parse(&schedule.text, &zone, schedule.dst).map(drop)
}

/// Up to when due times are accounted for under a new revision: an unchanged schedule continues
/// where the revision before has stopped.
pub(super) fn accounted_from(before: Option<&Task>, definition: &Definition, now: Now) -> Wall {
    let schedule = definition.trigger.schedule.as_ref();
    let same = before.and_then(|task| {
        let was = task.trigger()?.schedule.as_ref();
        (was.is_some() && was == schedule).then_some(task.accounted)
    });
    same.unwrap_or(now.wall)
}

#[cfg(test)]
mod tests {
    use baton_model::ids::Revision;
    use baton_model::library::Trigger;

    use super::*;

    #[test]
    fn a_schedule_that_stays_goes_on_and_another_begins_now() {
        let definition = |text: &str| Definition {
            source: "{}".into(),
            trigger: Trigger {
                schedule: Some(library::Schedule {
                    text: text.to_owned(),
                    zone: "UTC".to_owned(),
                    dst: crate::clock::Dst::default(),
                    slack: baton_model::time::Millis(0),
                    catch_up: crate::clock::CatchUp::Last,
                    jitter: baton_model::time::Millis(0),
                }),
                ..Trigger::default()
            },
            ..Definition::default()
        };
        let daily = definition("@daily");
        let name = TaskName::default();
        let task = Task::new(TaskNo(1), name, Revision(1), Wall(5), Some(&daily));
        let now = Now {
            wall: Wall(9),
            ..Now::default()
        };
        assert_eq!(accounted_from(Some(&task), &daily, now), Wall(5));
        assert_eq!(
            accounted_from(Some(&task), &definition("@hourly"), now),
            Wall(9)
        );
        assert_eq!(accounted_from(None, &daily, now), Wall(9));
    }
}
