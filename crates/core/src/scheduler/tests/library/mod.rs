//! The library of a leader: due times, launch limits and commands. Helpers of its tests are here.

use baton_model::ids::{Epoch, Revision};
use baton_model::library::{Cause, Definition, Execution, Pause, Schedule, TaskName, Trigger};
use baton_model::schedule::{CatchUp, Dst, SkipReason, TickVerdict};

use super::*;

mod after;
mod backfill;
mod due;
mod limits;
mod overlap;
mod pause;
mod revisions;
mod triggers;
mod workflows;

/// The first instant of 2026, as UTC.
const NEW_YEAR: u64 = 1_767_225_600_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn named(name: &str) -> TaskName {
    TaskName {
        owner: "o".to_owned(),
        name: name.to_owned(),
    }
}

/// A definition without a trigger.
fn plain() -> Definition {
    Definition {
        source: "{}".into(),
        spec: Some(Arc::default()),
        ..Definition::default()
    }
}

/// The same with a schedule of UTC, an hour of slack and no jitter.
fn scheduled(text: &str) -> Definition {
    Definition {
        trigger: Trigger {
            schedule: Some(Schedule {
                text: text.to_owned(),
                zone: "UTC".to_owned(),
                dst: Dst::default(),
                slack: Millis(HOUR),
                catch_up: CatchUp::Last,
                jitter: Millis(0),
            }),
            ..Trigger::default()
        },
        ..plain()
    }
}

fn jittered(text: &str, jitter: u64) -> Definition {
    let mut definition = scheduled(text);
    if let Some(schedule) = &mut definition.trigger.schedule {
        schedule.jitter = Millis(jitter);
    }
    definition
}

fn catching_up(text: &str, slack: u64, catch_up: CatchUp) -> Definition {
    let mut definition = scheduled(text);
    if let Some(schedule) = &mut definition.trigger.schedule {
        schedule.slack = Millis(slack);
        schedule.catch_up = catch_up;
    }
    definition
}

/// A record of due times, as far as most tests look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tick {
    task: u64,
    first: u64,
    last: u64,
    count: u64,
    verdict: TickVerdict,
    instance: Option<u64>,
}

fn ticks(facts: &[Fact]) -> Vec<Tick> {
    let tick = |fact: &Fact| match fact {
        Fact::Launched {
            entry,
            cause,
            verdict,
            execution,
            ..
        } => {
            let (first, last, count) = match cause {
                Cause::Due { first, last, count } => (first.0, last.0, *count),
                Cause::Upstream { at, .. } => (at.0, at.0, 1),
                Cause::Request { .. } | Cause::Backfill { .. } => return None,
            };
            Some(Tick {
                task: entry.0,
                first,
                last,
                count,
                verdict: *verdict,
                instance: execution.and_then(Execution::instance).map(|id| id.0),
            })
        }
        _ => None,
    };
    facts.iter().filter_map(tick).collect()
}

/// Verdicts on a leader's due times.
fn verdicts(facts: &[Fact]) -> Vec<TickVerdict> {
    ticks(facts).iter().map(|tick| tick.verdict).collect()
}

const FULL: TickVerdict = TickVerdict::Skip(SkipReason::MaxInstances { limit: 1 });

impl Leader {
    /// One whose wall clock shows the first instant of 2026.
    fn of_2026() -> Self {
        let mut leader = Self::new(StoreMode::Durable, 1);
        leader.set_wall(NEW_YEAR);
        leader.give(Input::Tick);
        leader
    }

    /// Sets the wall clock, and nothing else.
    fn set_wall(&mut self, to: u64) {
        self.wall_at_zero = to - self.now.0;
    }

    /// Sets the wall clock and ticks the leader; returns the resulting facts.
    fn at(&mut self, wall: u64) -> Vec<Fact> {
        self.set_wall(wall);
        self.facts_of(|leader| {
            leader.give(Input::Tick);
        })
    }

    fn facts_of(&mut self, act: impl FnOnce(&mut Self)) -> Vec<Fact> {
        let before = self.facts.len();
        act(self);
        self.facts[before..].to_vec()
    }

    fn execute(&mut self, command: DefineCommand) -> Result<DefineReply, LibraryError> {
        let effects = self.give(Input::command(
            RequestId(1),
            Command::Define(Box::new(command)),
        ));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Defined(answer)) => Some(answer),
            _ => None,
        });
        told.expect("a definition is answered")
    }

    fn define(&mut self, name: &str, definition: Definition) -> Result<DefineReply, LibraryError> {
        self.execute(DefineCommand {
            name: named(name),
            definition: Arc::new(definition),
            expected: Precondition::Anything,
            by_file: false,
            dry: false,
        })
    }

    fn remove(&mut self, name: &str) -> Result<Revision, LibraryError> {
        let effects = self.give(Input::command(
            RequestId(1),
            Command::Remove(RemoveCommand {
                name: named(name),
                expected: Precondition::Anything,
                by_file: false,
            }),
        ));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Removed(answer)) => Some(answer),
            _ => None,
        });
        told.expect("a removal is answered")
    }

    /// Pauses an entry for this reason, or ends its pause.
    fn pause(&mut self, name: &str, reason: Option<&str>) -> Result<Option<Pause>, LibraryError> {
        self.set_pause(name, true, reason)
    }

    fn unpause(&mut self, name: &str) -> Result<Option<Pause>, LibraryError> {
        self.set_pause(name, false, None)
    }

    fn set_pause(
        &mut self,
        name: &str,
        paused: bool,
        reason: Option<&str>,
    ) -> Result<Option<Pause>, LibraryError> {
        let effects = self.give(Input::command(
            RequestId(1),
            Command::Pause(PauseCommand {
                name: named(name),
                paused,
                reason: reason.map(str::to_owned),
            }),
        ));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Paused(answer)) => Some(answer),
            _ => None,
        });
        told.expect("a pause is answered")
    }

    fn active(&self, task: u64) -> u64 {
        self.core.ledger().library().active_count(TaskNo(task))
    }

    /// The next leader, which starts from what is durable.
    fn successor(&self) -> Self {
        let epoch = Epoch(self.core.epoch().0 + 1);
        Self {
            core: Scheduler::new(Config::default(), epoch, self.kept.clone(), self.clock()),
            outbox: Outbox::new(epoch),
            kept: self.kept.clone(),
            facts: Vec::new(),
            ..*self
        }
    }
}
