//! Backfills: one launch for each due time of a past interval that has none.
//!
//! A launch and the progress of its backfill are one fact, in the commit of the instance or run; the
//! next leader continues behind it. So no due time is lost or doubled, whichever leader stops where.
//!
//! Which due times have a launch already is known to the store, not to the leader: a command brings
//! what the store knows, with the number of launches of the entry at that time. If that number has
//! changed since, the command is refused, and the caller reads again. After that, only the backfill
//! itself launches due times of its interval: those that the schedule has not recorded are not part of it,
//! and one backfill of an entry runs at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use baton_model::backfill::{Backfill, BackfillHalt, BackfillRange, BackfillState};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, TaskNo};
use baton_model::library::{self, Cause, TaskName};
use baton_model::limits::{
    BACKFILL_CONCURRENT_MAX, BACKFILL_DUE_MAX, BACKFILL_STEP_LAUNCHES, BACKFILLS_OPEN_MAX,
};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::Due;
use baton_model::time::{Mono, Wall};

use super::launch::{self, Launch};
use super::timetable::Timetable;
use crate::clock::{Schedule, Zone};
use crate::ledger::{Ledger, OpenBackfill, Task};
use crate::scheduler::context::Cx;

/// The launched due times of an entry in an interval, as a store knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownLaunches {
    /// The number of launches of the entry, ever.
    pub launches: u64,
    /// Launches of due times before this one may be forgotten.
    pub since: Wall,
    /// The due times of the interval that have a launch.
    pub times: Vec<Wall>,
}

/// A command about backfills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackfillCommand {
    Register {
        name: TaskName,
        from: Wall,
        to: Wall,
        reverse: bool,
        max_concurrent: u32,
        known: KnownLaunches,
        /// Only report the due times, change nothing.
        dry: bool,
    },
    Halt(BackfillId),
    /// End it, running or halted. What it has launched continues.
    Cancel(BackfillId),
    Resume {
        backfill: BackfillId,
        known: KnownLaunches,
    },
}

/// The reply to a command about backfills.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackfillReply {
    /// None of a dry command, and if there is nothing to launch.
    pub backfill: Option<BackfillId>,
    /// The number of due times of the interval.
    pub due: u64,
    /// The due times that are still to be launched, in order; only of a new backfill.
    pub times: Vec<Wall>,
}

/// Why a command about backfills is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BackfillError {
    UnknownEntry,
    UnknownBackfill,
    NoSchedule,
    /// Its schedule cannot be read any more.
    Schedule(String),
    /// A parameter has no default.
    NeedsDefaults,
    EmptyInterval,
    Future,
    Concurrency(u32),
    TooManyDue(u64),
    /// Launches before this time may be forgotten.
    Forgotten(Wall),
    /// Something was launched since the caller has read the launches.
    Stale,
    /// This backfill of the entry runs.
    Running(BackfillId),
    TooManyOpen,
    /// The backfill is in this state.
    State(BackfillState),
}

impl fmt::Display for BackfillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownEntry => f.write_str("there is no such entry in the library"),
            Self::UnknownBackfill => f.write_str("the backfill has ended"),
            Self::NoSchedule => f.write_str("it has no schedule, so it has no due times"),
            Self::Schedule(message) => write!(f, "its schedule cannot be read: {message}"),
            Self::NeedsDefaults => f.write_str("a parameter has no default"),
            Self::EmptyInterval => f.write_str("the interval is empty: it ends before it begins"),
            Self::Future => f.write_str("the interval ends in the future"),
            Self::Concurrency(number) => {
                write!(f, "{number} is not from 1 to {BACKFILL_CONCURRENT_MAX}")
            }
            Self::TooManyDue(due) => write!(
                f,
                "the interval has {due} due times, more than {BACKFILL_DUE_MAX}"
            ),
            Self::Forgotten(since) => write!(
                f,
                "which due times before {} were launched is not known any more",
                Zone::UTC.rfc3339(*since)
            ),
            Self::Stale => f.write_str("something was launched meanwhile; try again"),
            Self::Running(id) => write!(f, "backfill {id} of it is running"),
            Self::TooManyOpen => {
                write!(f, "{BACKFILLS_OPEN_MAX} backfills are running or halted")
            }
            Self::State(state) => write!(f, "the backfill is {}", state.word()),
        }
    }
}

impl std::error::Error for BackfillError {}

/// The state of backfills that belongs to one leader.
#[derive(Clone, Debug, Default)]
pub(super) struct BackfillDriver {
    schedules: BTreeMap<BackfillId, Arc<Schedule>>,
    /// Backfills that wait for the launch rate of their entries.
    delayed: BTreeMap<BackfillId, Mono>,
}

impl BackfillDriver {
    /// When a delayed launch is due.
    pub(super) fn next_due(&self, ledger: &Ledger) -> Option<Mono> {
        if ledger.library().backfills().has_dirty() {
            return Some(Mono(0));
        }
        self.delayed.values().min().copied()
    }

    /// Looks again at backfills that have waited for a launch rate.
    pub(super) fn wake(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.mono;
        let due = self.delayed.extract_if(.., |_, at| *at <= now);
        let backfills = cx.ledger.library_mut().backfills_mut();
        due.for_each(|(id, _)| backfills.mark_dirty(id));
    }

    /// Launches the next due time of a backfill, if it may; halts or ends it where it must. Returns
    /// whether something was launched: then there may be more.
    pub(super) fn advance(
        &mut self,
        cx: &mut Cx<'_>,
        table: &mut Timetable,
        id: BackfillId,
    ) -> bool {
        let backfill = cx.ledger.library().backfills().get(id);
        let Some(backfill) = backfill.filter(|it| it.is_running()) else {
            self.forget(id);
            return false;
        };
        let task = backfill.head.task;
        let Some(schedule) = self.schedule(id, &backfill.head.range.schedule) else {
            halt(cx, id, task, BackfillHalt::EntryUnusable);
            return false;
        };
        let Some(nominal) = next_of(&schedule, backfill) else {
            if backfill.live_count() == 0 {
                let at = cx.now.wall;
                let backfill = id;
                cx.commit(Fact::BackfillEnded { backfill, task, at });
                self.forget(id);
            }
            return false;
        };
        let has_room = backfill.limit().has(1);
        let entry = cx.ledger.library().task(task).cloned();
        let launch = entry.and_then(|entry| {
            let payload = entry.payload(nominal)?;
            Some((entry, payload))
        });
        let Some((entry, payload)) = launch else {
            halt(cx, id, task, BackfillHalt::EntryUnusable);
            return false;
        };
        if !has_room {
            return false;
        }
        let launch = Launch {
            cause: Cause::Backfill {
                backfill: id,
                nominal,
            },
            due: Some(Due {
                nominal,
                latest: cx.now.wall,
            }),
            payload: Some(payload),
            trace: None,
        };
        match launch::try_launch(cx, table, &entry, launch, TickVerdict::Launch) {
            Ok(_) => !seeded!(cx.config.bugs, BackfillRecordLate),
            Err(SkipReason::LaunchRate) => {
                let wait = table.wait_for_launch(task, cx.now.mono);
                self.delayed.insert(id, cx.now.mono + wait);
                false
            }
            Err(_) => false,
        }
    }

    /// The schedule of a backfill; none if its time zone was removed by another version of Baton.
    fn schedule(&mut self, id: BackfillId, of: &library::Schedule) -> Option<Arc<Schedule>> {
        if let Some(known) = self.schedules.get(&id) {
            return Some(Arc::clone(known));
        }
        let parsed = Arc::new(parse(of).ok()?);
        self.schedules.insert(id, Arc::clone(&parsed));
        Some(parsed)
    }

    fn forget(&mut self, id: BackfillId) {
        self.schedules.remove(&id);
        self.delayed.remove(&id);
    }
}

/// The number of launches that one step may make.
pub(super) const STEP_LAUNCHES: usize = BACKFILL_STEP_LAUNCHES;

/// Carries out a command.
pub(super) fn execute(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: BackfillCommand,
) -> Result<BackfillReply, BackfillError> {
    match command {
        BackfillCommand::Register {
            name,
            from,
            to,
            reverse,
            max_concurrent,
            known,
            dry,
        } => {
            let new = Registration {
                from,
                to,
                reverse,
                max_concurrent,
            };
            register(cx, table, &name, new, &known, dry)
        }
        BackfillCommand::Halt(id) => {
            let head = open(cx, id)?.head.clone();
            if head.state != BackfillState::Running {
                return Err(BackfillError::State(head.state));
            }
            halt(cx, id, head.task, BackfillHalt::Requested);
            Ok(reply(&head))
        }
        BackfillCommand::Cancel(id) => {
            let head = open(cx, id)?.head.clone();
            cx.commit(Fact::BackfillCancelled {
                backfill: id,
                task: head.task,
                at: cx.now.wall,
            });
            Ok(reply(&head))
        }
        BackfillCommand::Resume { backfill, known } => resume(cx, table, backfill, &known),
    }
}

/// A new backfill.
struct Registration {
    from: Wall,
    to: Wall,
    reverse: bool,
    max_concurrent: u32,
}

fn register(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    name: &TaskName,
    new: Registration,
    known: &KnownLaunches,
    dry: bool,
) -> Result<BackfillReply, BackfillError> {
    let max_concurrent = new.max_concurrent;
    if new.from >= new.to {
        return Err(BackfillError::EmptyInterval);
    }
    if new.to > cx.now.wall {
        return Err(BackfillError::Future);
    }
    if !(1..=BACKFILL_CONCURRENT_MAX).contains(&max_concurrent) {
        return Err(BackfillError::Concurrency(max_concurrent));
    }
    // The schedule has a record of every due time that it is not going to launch itself.
    table.due(cx);
    let task = cx.ledger.library().find(name).cloned();
    let task = task.filter(Task::is_defined);
    let task = task.ok_or(BackfillError::UnknownEntry)?;
    let schedule = task.trigger().and_then(|trigger| trigger.schedule.clone());
    let schedule = schedule.ok_or(BackfillError::NoSchedule)?;
    let parsed = parse(&schedule)?;
    let range = BackfillRange {
        schedule,
        from: new.from,
        to: table
            .next_of(task.number)
            .map_or(new.to, |next| next.min(new.to)),
        reverse: new.reverse,
    };
    if task.payload(range.from).is_none() {
        return Err(BackfillError::NeedsDefaults);
    }
    check_known(&task, range.from, known)?;
    let due = count(&parsed, &range);
    if due > BACKFILL_DUE_MAX {
        return Err(BackfillError::TooManyDue(due));
    }
    let library = cx.ledger.library();
    if !dry && let Some(running) = library.backfills().running(task.number) {
        return Err(BackfillError::Running(running));
    }
    if !dry && library.backfills().iter().count() >= BACKFILLS_OPEN_MAX {
        return Err(BackfillError::TooManyOpen);
    }
    let id = library.backfills().last().next();
    let head = Backfill {
        id,
        task: task.number,
        range,
        max_concurrent,
        state: BackfillState::Running,
        due,
        launched: 0,
        remaining: due,
        last: None,
        registered_at: cx.now.wall,
        changed_at: cx.now.wall,
    };
    seeded! { let known = &crate::bugs::scheduler::forget_launches(cx.config.bugs, known); }
    let (taken, times) = split(&parsed, &head, known);
    let backfill = (!dry && !times.is_empty()).then_some(id);
    if backfill.is_some() {
        cx.commit(Fact::BackfillRegistered {
            backfill: id,
            task: task.number,
            at: cx.now.wall,
            range: head.range,
            max_concurrent,
            due,
            taken,
        });
    }
    Ok(BackfillReply {
        backfill,
        due,
        times,
    })
}

fn resume(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    id: BackfillId,
    known: &KnownLaunches,
) -> Result<BackfillReply, BackfillError> {
    let head = open(cx, id)?.head.clone();
    if !matches!(head.state, BackfillState::Halted(_)) {
        return Err(BackfillError::State(head.state));
    }
    table.due(cx);
    let library = cx.ledger.library();
    let task = library.task(head.task).filter(|task| task.is_defined());
    let task = task.ok_or(BackfillError::UnknownEntry)?;
    if task.payload(head.range.from).is_none() {
        return Err(BackfillError::NeedsDefaults);
    }
    if let Some(running) = library.backfills().running(head.task) {
        return Err(BackfillError::Running(running));
    }
    check_known(task, head.range.from, known)?;
    let parsed = parse(&head.range.schedule)?;
    seeded! { let known = &crate::bugs::scheduler::forget_launches(cx.config.bugs, known); }
    let (taken, times) = split(&parsed, &head, known);
    cx.commit(Fact::BackfillResumed {
        backfill: id,
        task: head.task,
        at: cx.now.wall,
        remaining: times.len() as u64,
        taken,
    });
    Ok(reply(&head))
}

fn reply(head: &Backfill) -> BackfillReply {
    BackfillReply {
        backfill: Some(head.id),
        due: head.due,
        times: Vec::new(),
    }
}

fn open<'a>(cx: &'a Cx<'_>, id: BackfillId) -> Result<&'a OpenBackfill, BackfillError> {
    let backfill = cx.ledger.library().backfills().get(id);
    backfill.ok_or(BackfillError::UnknownBackfill)
}

/// Checks that the caller knows every launch of the interval.
fn check_known(task: &Task, from: Wall, known: &KnownLaunches) -> Result<(), BackfillError> {
    if known.launches != task.launches {
        Err(BackfillError::Stale)
    } else if from < known.since {
        Err(BackfillError::Forgotten(known.since))
    } else {
        Ok(())
    }
}

fn halt(cx: &mut Cx<'_>, id: BackfillId, task: TaskNo, cause: BackfillHalt) {
    let at = cx.now.wall;
    cx.commit(Fact::BackfillHalted {
        backfill: id,
        task,
        at,
        cause,
    });
}

fn parse(schedule: &library::Schedule) -> Result<Schedule, BackfillError> {
    let parsed = Zone::named(&schedule.zone)
        .and_then(|zone| Schedule::parse(&schedule.text, &zone, schedule.dst));
    parsed.map_err(|error| BackfillError::Schedule(error.message))
}

/// The instant before an interval or a due time: schedules look strictly after one.
const fn before(at: Wall) -> Wall {
    Wall(at.0.saturating_sub(1))
}

fn count(schedule: &Schedule, range: &BackfillRange) -> u64 {
    schedule.count(before(range.from), before(range.to))
}

/// The due times ahead of a backfill, in its order: those that have a launch, and those to launch.
fn split(schedule: &Schedule, head: &Backfill, known: &KnownLaunches) -> (Vec<Wall>, Vec<Wall>) {
    let ahead = std::iter::successors(after(schedule, head, head.last), |at| {
        after(schedule, head, Some(*at))
    });
    ahead.partition(|at| known.times.binary_search(at).is_ok())
}

/// The due time of a backfill after the given one, in its order; the first if none is given.
fn after(schedule: &Schedule, head: &Backfill, last: Option<Wall>) -> Option<Wall> {
    let BackfillRange {
        from, to, reverse, ..
    } = head.range;
    if reverse {
        let end = last.map_or(to, |last| last.min(to));
        return schedule.last(before(from), before(end));
    }
    let next = schedule.after(last.unwrap_or(before(from)))?.at;
    (next < to).then_some(next)
}

/// The next due time that a backfill launches.
fn next_of(schedule: &Schedule, backfill: &OpenBackfill) -> Option<Wall> {
    let head = &backfill.head;
    let mut next = after(schedule, head, head.last)?;
    while backfill.is_taken(next) {
        next = after(schedule, head, Some(next))?;
    }
    Some(next)
}
