//! Checker of backfills: each due time of an interval gets exactly one launch, in its order, while
//! its backfill runs and within its limits.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::clock::{Schedule, Zone};
use baton_model::backfill::BackfillRange;
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, TaskNo};
use baton_model::library::{Cause, Execution};
use baton_model::time::Wall;

use super::check::Entry;
use crate::checkers::Violation;

/// One backfill that has not ended.
#[derive(Debug)]
struct Open {
    task: TaskNo,
    range: BackfillRange,
    /// The due times of the range.
    due: Vec<Wall>,
    max_concurrent: u32,
    running: bool,
    last: Option<Wall>,
    live: BTreeSet<Execution>,
}

impl Open {
    fn is_ahead(&self, at: Wall) -> bool {
        match self.last {
            Some(last) if self.range.reverse => at < last,
            Some(last) => at > last,
            None => true,
        }
    }
}

/// All backfills, and all launched due times.
#[derive(Debug, Default)]
pub(super) struct BackfillCheck {
    open: BTreeMap<BackfillId, Open>,
    members: BTreeMap<Execution, BackfillId>,
    launched: BTreeSet<(TaskNo, Wall)>,
    last: BackfillId,
}

fn broken<T>(checker: &'static str, entry: &Entry, what: &str) -> Result<T, Violation> {
    let what = format!("{entry:?}: {what}");
    Err(Violation { checker, what })
}

impl BackfillCheck {
    /// Notes a launched due time, which must be the first launch of it.
    pub(super) fn launched(
        &mut self,
        entry: &Entry,
        task: TaskNo,
        nominal: Wall,
    ) -> Result<(), Violation> {
        if self.launched.insert((task, nominal)) {
            Ok(())
        } else {
            broken("launched-again", entry, "it has a launch already")
        }
    }

    /// Notes whether an instance or a run is in flight.
    pub(super) fn set_live(&mut self, execution: Execution, is_live: bool) {
        let id = self.members.get(&execution);
        let Some(open) = id.and_then(|id| self.open.get_mut(id)) else {
            return;
        };
        if is_live {
            open.live.insert(execution);
        } else {
            open.live.remove(&execution);
        }
    }

    /// Applies a fact about a backfill.
    pub(super) fn apply(&mut self, entry: &Entry) -> Result<(), Violation> {
        match &entry.fact {
            Fact::BackfillRegistered { .. } => self.registered(entry),
            Fact::Launched {
                entry: task,
                cause: Cause::Backfill { backfill, nominal },
                execution,
                ..
            } => {
                let Some(open) = self.open.get_mut(backfill) else {
                    return broken("backfill-unknown", entry, "it is not open");
                };
                let room = (open.live.len() as u64) < u64::from(open.max_concurrent);
                let due = open.due.binary_search(nominal).is_ok() && open.is_ahead(*nominal);
                if !open.running || !room || !due || open.task != *task {
                    return broken("false-backfill", entry, &format!("{open:?}"));
                }
                open.last = Some(*nominal);
                self.members.extend(execution.map(|it| (it, *backfill)));
                self.launched(entry, *task, *nominal)
            }
            Fact::BackfillHalted { backfill, .. } => self.set_running(entry, *backfill, false),
            Fact::BackfillResumed {
                backfill, taken, ..
            } => {
                self.set_running(entry, *backfill, true)?;
                self.check_taken(entry, *backfill, taken)
            }
            Fact::BackfillEnded { backfill, .. } => {
                let Some(open) = self.open.remove(backfill).filter(|it| it.running) else {
                    return broken("backfill-unknown", entry, "it is not running");
                };
                let missing = open.due.iter().find(|at| !self.is_launched(&open, **at));
                if missing.is_some() || !open.live.is_empty() {
                    return broken("backfill-incomplete", entry, &format!("{missing:?}"));
                }
                Ok(())
            }
            Fact::BackfillCancelled { backfill, .. } => match self.open.remove(backfill) {
                Some(_) => Ok(()),
                None => broken("backfill-unknown", entry, "it is not open"),
            },
            _ => Ok(()),
        }
    }

    /// Whether a backfill of the entry has something to launch, and may, as far as it decides.
    pub(super) fn is_pending(&self, task: TaskNo) -> bool {
        let mut open = self.open.values().filter(|it| it.task == task);
        open.any(|it| {
            let room = (it.live.len() as u64) < u64::from(it.max_concurrent);
            let left = |at: &&Wall| !self.is_launched(it, **at);
            it.running && room && it.due.iter().any(|at| left(&at))
        })
    }

    fn is_launched(&self, open: &Open, at: Wall) -> bool {
        self.launched.contains(&(open.task, at))
    }

    fn registered(&mut self, entry: &Entry) -> Result<(), Violation> {
        let Fact::BackfillRegistered {
            backfill,
            task,
            range,
            max_concurrent,
            due,
            taken,
            ..
        } = &entry.fact
        else {
            return Ok(());
        };
        let other = |open: &Open| open.task == *task && open.running;
        if *backfill <= self.last || range.to > entry.now.wall || self.open.values().any(other) {
            return broken("false-backfill", entry, "it may not begin");
        }
        self.last = *backfill;
        let schedule = Zone::named(&range.schedule.zone)
            .and_then(|zone| Schedule::parse(&range.schedule.text, &zone, range.schedule.dst));
        let Ok(schedule) = schedule else {
            return broken("unreadable", entry, "its schedule");
        };
        let first = schedule.after(Wall(range.from.0 - 1));
        let all = std::iter::successors(first, |it| schedule.after(it.at));
        let all = all.map(|it| it.at).take_while(|at| *at < range.to);
        let open = Open {
            task: *task,
            range: range.clone(),
            due: all.collect(),
            max_concurrent: *max_concurrent,
            running: true,
            last: None,
            live: BTreeSet::new(),
        };
        if open.due.len() as u64 != *due {
            return broken("false-backfill", entry, &format!("{open:?}"));
        }
        self.open.insert(*backfill, open);
        self.check_taken(entry, *backfill, taken)
    }

    /// Checks that a backfill skips exactly the due times ahead of it that have a launch.
    fn check_taken(&self, entry: &Entry, id: BackfillId, taken: &[Wall]) -> Result<(), Violation> {
        let Some(open) = self.open.get(&id) else {
            return Ok(());
        };
        let ahead = open.due.iter().filter(|at| open.is_ahead(**at));
        let expected: BTreeSet<Wall> = ahead
            .filter(|at| self.is_launched(open, **at))
            .copied()
            .collect();
        if expected == taken.iter().copied().collect() {
            Ok(())
        } else {
            broken("false-taken", entry, &format!("{expected:?} have a launch"))
        }
    }

    fn set_running(
        &mut self,
        entry: &Entry,
        id: BackfillId,
        running: bool,
    ) -> Result<(), Violation> {
        match self.open.get_mut(&id) {
            Some(open) if open.running != running => {
                open.running = running;
                Ok(())
            }
            _ => broken("backfill-unknown", entry, "it cannot change to that state"),
        }
    }
}
