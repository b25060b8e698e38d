//! Backfills of entries. No worker is there: what is in flight ends when it is cancelled.

use baton_model::backfill::{BackfillHalt, BackfillState};
use baton_model::ids::BackfillId;
use baton_model::library::{Overlap, Rate};
use baton_model::limits::{BACKFILL_DUE_MAX, BACKFILLS_OPEN_MAX};

use super::workflows::workflow;
use super::*;
use crate::limits::{Limit, LimitKey};
use crate::scheduler::{BackfillCommand, BackfillError, BackfillReply, KnownLaunches};

const B1: BackfillId = BackfillId(1);

/// Launched due times, by schedule or backfill.
fn launched(facts: &[Fact]) -> Vec<u64> {
    let one = |fact: &Fact| match fact {
        Fact::Launched {
            cause: Cause::Due { first: at, .. } | Cause::Backfill { nominal: at, .. },
            verdict: TickVerdict::Launch | TickVerdict::Late { .. },
            ..
        } => Some(at.0),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

/// Hours of the first day of 2026.
fn hours(hours: impl IntoIterator<Item = u64>) -> Vec<u64> {
    hours
        .into_iter()
        .map(|hour| NEW_YEAR + hour * HOUR)
        .collect()
}

impl Leader {
    /// What a store knows of the launches of a task, if `facts` are all about it.
    fn known(&self, facts: &[Fact]) -> KnownLaunches {
        let mut times: Vec<Wall> = launched(facts).into_iter().map(Wall).collect();
        times.sort_unstable();
        let task = self.kept.library().task(TaskNo(1));
        KnownLaunches {
            launches: task.map_or(0, |task| task.launches),
            since: Wall(0),
            times,
        }
    }

    fn give_backfill(&mut self, command: BackfillCommand) -> Result<BackfillReply, BackfillError> {
        let command = Command::Backfill(Box::new(command));
        let effects = self.give(Input::command(RequestId(1), command));
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Backfill(answer)) => Some(answer),
            _ => None,
        });
        told.expect("a backfill is answered")
    }

    /// Backfills `a` from one hour of the day to another.
    fn backfill(
        &mut self,
        from: u64,
        to: u64,
        at_once: u32,
    ) -> Result<BackfillReply, BackfillError> {
        let known = self.known(&self.facts);
        self.give_backfill(register(from, to, at_once, known))
    }

    /// Cancels an instance; returns the due times that are launched in its place.
    fn ends_and_launches(&mut self, id: u64) -> Vec<u64> {
        launched(&self.facts_of(|leader| {
            leader.cancel_range(id, id);
        }))
    }

    fn backfill_state(&self, id: BackfillId) -> Option<BackfillState> {
        let open = self.core.ledger().library().backfills().get(id)?;
        Some(open.head.state)
    }
}

fn register(from: u64, to: u64, at_once: u32, known: KnownLaunches) -> BackfillCommand {
    BackfillCommand::Register {
        name: named("a"),
        from: Wall(NEW_YEAR + from * HOUR),
        to: Wall(NEW_YEAR + to * HOUR),
        reverse: false,
        max_concurrent: at_once,
        known,
        dry: false,
    }
}

/// A leader at noon of a day, with an hourly task that was defined at noon.
fn at_noon(definition: Definition) -> Leader {
    let mut leader = Leader::of_2026();
    leader.at(NEW_YEAR + 12 * HOUR);
    leader.define("a", definition).expect("taken");
    leader
}

#[test]
fn each_due_time_without_a_launch_is_launched_in_order_and_one_at_a_time() {
    let mut leader = at_noon(scheduled("every hour"));
    let reply = leader.backfill(3, 7, 1).expect("taken");
    assert_eq!((reply.backfill, reply.due), (Some(B1), 4));
    assert_eq!(launched(&leader.facts), hours([3]));
    assert_eq!(leader.at(NEW_YEAR + 12 * HOUR), [], "one at a time");
    for (id, hour) in [(1, 4), (2, 5), (3, 6)] {
        assert_eq!(leader.ends_and_launches(id), hours([hour]));
    }
    assert_eq!(leader.backfill_state(B1), Some(BackfillState::Running));
    let facts = leader.facts_of(|leader| {
        leader.cancel_range(4, 4);
    });
    assert!(
        matches!(facts.last(), Some(Fact::BackfillEnded { backfill: B1, .. })),
        "{facts:?}"
    );
    assert_eq!(leader.backfill_state(B1), None);
    let again = leader.backfill(0, 9, 9).expect("taken");
    assert_eq!(again.times.len(), 5, "the others have a launch");
    let facts = launched(&leader.facts);
    assert_eq!(facts, hours([3, 4, 5, 6, 0, 1, 2, 7, 8]));
    let none = leader.backfill(3, 7, 1).map(|reply| reply.backfill);
    assert_eq!(none, Err(BackfillError::Running(BackfillId(2))));
}

#[test]
fn a_launch_and_the_progress_of_its_backfill_are_one_fact_in_the_step_of_its_run() {
    let daily = scheduled("every hour");
    let mut leader = at_noon(workflow(daily, &["x"]));
    let facts = leader.facts_of(|leader| {
        leader.backfill(3, 5, 1).expect("taken");
    });
    let [
        Fact::BackfillRegistered { .. },
        Fact::Launched {
            cause:
                Cause::Backfill {
                    backfill: B1,
                    nominal,
                },
            execution: Some(Execution::Run(run)),
            ..
        },
        Fact::RunRegistered {
            run: registered,
            origin: Some(origin),
            ..
        },
        ..,
    ] = &*facts
    else {
        panic!("{facts:?}");
    };
    assert_eq!(run, registered);
    assert_eq!(origin.due.map(|due| due.nominal), Some(*nominal));
}

#[test]
fn what_the_schedule_has_launched_or_will_launch_is_not_launched_again() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.at(NEW_YEAR + HOUR);
    leader.pause("a", None).expect("is there");
    leader.at(NEW_YEAR + 2 * HOUR);
    leader.unpause("a").expect("is there");
    leader.at(NEW_YEAR + 3 * HOUR);
    assert_eq!(launched(&leader.facts), hours([1, 3]));
    // It works while the entry is paused; the next due time belongs to the schedule.
    leader.pause("a", None).expect("is there");
    leader.set_wall(NEW_YEAR + 3 * HOUR + MINUTE);
    let reply = leader.backfill(0, 3, 5).expect("taken");
    assert_eq!(reply.due, 3);
    assert_eq!(launched(&leader.facts)[2..], hours([0, 2]));
}

#[test]
fn a_backfill_goes_backwards_and_reports_what_it_would_do() {
    let mut leader = at_noon(scheduled("every hour"));
    let command = |dry| BackfillCommand::Register {
        name: named("a"),
        from: Wall(NEW_YEAR + 1),
        to: Wall(NEW_YEAR + 3 * HOUR + 1),
        reverse: true,
        max_concurrent: 2,
        known: KnownLaunches::default(),
        dry,
    };
    let facts = leader.facts_of(|leader| {
        let reply = leader.give_backfill(command(true)).expect("taken");
        assert_eq!((reply.backfill, reply.due), (None, 3));
        let times: Vec<_> = reply.times.iter().map(|at| at.0).collect();
        assert_eq!(times, hours([3, 2, 1]));
    });
    assert_eq!(facts, []);
    leader.give_backfill(command(false)).expect("taken");
    assert_eq!(launched(&leader.facts), hours([3, 2]));
    assert_eq!(leader.ends_and_launches(2), hours([1]));
}

#[test]
fn the_next_leader_continues_and_repeats_nothing() {
    let mut leader = at_noon(scheduled("every hour"));
    leader.backfill(3, 8, 2).expect("taken");
    let limit = |leader: &Leader| leader.core.limit(&LimitKey::Backfill(B1));
    assert_eq!(limit(&leader), Some(Limit { total: 2, used: 2 }));
    let mut next = leader.successor();
    next.give(Input::Tick);
    assert_eq!(launched(&next.facts), hours([]), "two are in flight");
    assert_eq!(limit(&next), limit(&leader));
    next.cancel_range(1, 1);
    let mut last = next.successor();
    last.cancel_range(2, 3);
    assert_eq!(launched(&next.facts), hours([5]));
    assert_eq!(launched(&last.facts), hours([6, 7]));
}

#[test]
fn a_halted_backfill_launches_nothing_and_goes_on_where_it_was() {
    let mut leader = at_noon(scheduled("every hour"));
    leader.backfill(3, 7, 1).expect("taken");
    leader
        .give_backfill(BackfillCommand::Halt(B1))
        .expect("runs");
    let halted = BackfillState::Halted(BackfillHalt::Requested);
    assert_eq!(leader.backfill_state(B1), Some(halted));
    assert_eq!(leader.ends_and_launches(1), hours([]));
    let again = leader.give_backfill(BackfillCommand::Halt(B1));
    assert_eq!(again, Err(BackfillError::State(halted)));
    // Another one launches one of its due times meanwhile.
    leader.backfill(5, 6, 1).expect("taken");
    let known = leader.known(&leader.facts);
    let resume = |known| BackfillCommand::Resume {
        backfill: B1,
        known,
    };
    let refused = leader.give_backfill(resume(known.clone()));
    assert_eq!(refused, Err(BackfillError::Running(BackfillId(2))));
    leader.cancel_range(2, 2);
    leader.give_backfill(resume(known)).expect("is halted");
    assert_eq!(launched(&leader.facts), hours([3, 5, 4]));
    assert_eq!(leader.ends_and_launches(3), hours([6]));
}

#[test]
fn a_cancelled_backfill_launches_nothing_and_makes_room() {
    let mut leader = at_noon(scheduled("every minute"));
    leader.backfill(3, 7, 1).expect("taken");
    let cancel = |leader: &mut Leader| leader.give_backfill(BackfillCommand::Cancel(B1));
    cancel(&mut leader).expect("runs");
    assert_eq!(leader.backfill_state(B1), None);
    assert_eq!(cancel(&mut leader), Err(BackfillError::UnknownBackfill));
    assert_eq!(leader.ends_and_launches(1), hours([]));
    // Halted ones count as open, until they are cancelled.
    let last = 1 + BACKFILLS_OPEN_MAX as u64;
    for id in 2..=last {
        leader.backfill(3, 7, 1).expect("taken");
        let halt = BackfillCommand::Halt(BackfillId(id));
        leader.give_backfill(halt).expect("runs");
    }
    let refused = leader.backfill(3, 7, 1);
    assert_eq!(refused, Err(BackfillError::TooManyOpen));
    let cancel = BackfillCommand::Cancel(BackfillId(last));
    leader.give_backfill(cancel).expect("is halted");
    leader.backfill(3, 7, 1).expect("taken");
}

#[test]
fn a_backfill_waits_for_the_limits_of_its_entry() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::Replace] {
        let mut one = scheduled("every hour");
        one.trigger.max_instances = Some(1);
        one.trigger.overlap = overlap;
        let mut leader = at_noon(one);
        leader.backfill(3, 7, 4).expect("taken");
        assert_eq!(launched(&leader.facts), hours([3]), "{overlap:?}");
        assert_eq!(leader.ends_and_launches(1), hours([4]), "{overlap:?}");
    }
    let mut rare = scheduled("every hour");
    rare.trigger.launch_rate = Some(Rate {
        count: 1,
        per: Millis(MINUTE),
    });
    let mut leader = at_noon(rare);
    leader.backfill(3, 5, 2).expect("taken");
    assert_eq!(launched(&leader.facts), hours([3]));
    let due = leader.core.next_due().expect("it waits");
    assert_eq!(due, leader.now + Millis(MINUTE));
    leader.wait(Millis(MINUTE));
    assert_eq!(launched(&leader.facts), hours([3, 4]));
}

#[test]
fn a_removed_entry_halts_its_backfill_in_the_same_step_and_a_revision_does_not() {
    let mut leader = at_noon(scheduled("every hour"));
    leader.backfill(3, 7, 1).expect("taken");
    // The due times stay those of the schedule at that time.
    leader
        .define("a", scheduled("every 2 hours"))
        .expect("taken");
    assert_eq!(leader.ends_and_launches(1), hours([4]));
    let facts = leader.facts_of(|leader| {
        leader.remove("a").expect("is there");
    });
    let cause = BackfillHalt::EntryUnusable;
    assert!(
        matches!(facts.last(), Some(Fact::BackfillHalted { cause: reason, .. }) if *reason == cause),
        "{facts:?}"
    );
    assert_eq!(leader.ends_and_launches(2), hours([]));
    let halted = BackfillState::Halted(cause);
    assert_eq!(leader.backfill_state(B1), Some(halted));
    let known = leader.known(&[]);
    let resume = BackfillCommand::Resume {
        backfill: B1,
        known,
    };
    assert_eq!(
        leader.give_backfill(resume),
        Err(BackfillError::UnknownEntry)
    );
}

#[test]
fn what_cannot_be_backfilled_is_refused_and_changes_nothing() {
    let mut leader = at_noon(scheduled("every minute"));
    leader.define("plain", plain()).expect("taken");
    let facts = leader.facts_of(|leader| {
        let known = leader.known(&[]);
        let refuse =
            |leader: &mut Leader, command| leader.give_backfill(command).expect_err("refused");
        let command = register(3, 3, 1, known.clone());
        assert_eq!(refuse(leader, command), BackfillError::EmptyInterval);
        let command = register(3, 13, 1, known.clone());
        assert_eq!(refuse(leader, command), BackfillError::Future);
        for at_once in [0, 1_001] {
            let command = register(3, 4, at_once, known.clone());
            let refused = refuse(leader, command);
            assert_eq!(refused, BackfillError::Concurrency(at_once));
        }
        let stale = KnownLaunches {
            launches: known.launches + 1,
            ..known.clone()
        };
        let command = register(3, 4, 1, stale);
        assert_eq!(refuse(leader, command), BackfillError::Stale);
        let since = Wall(NEW_YEAR + 3 * HOUR + 1);
        let forgetful = KnownLaunches {
            since,
            ..known.clone()
        };
        let command = register(3, 4, 1, forgetful);
        assert_eq!(refuse(leader, command), BackfillError::Forgotten(since));
        let mut command = register(3, 4, 1, known.clone());
        if let BackfillCommand::Register { name, .. } = &mut command {
            *name = named("plain");
        }
        assert_eq!(refuse(leader, command), BackfillError::NoSchedule);
        let long = BackfillCommand::Register {
            name: named("a"),
            from: Wall(NEW_YEAR - 30 * DAY),
            to: Wall(NEW_YEAR),
            reverse: false,
            max_concurrent: 1,
            known,
            dry: true,
        };
        let due = 30 * 24 * 60;
        assert!(due > BACKFILL_DUE_MAX);
        assert_eq!(refuse(leader, long), BackfillError::TooManyDue(due));
        let halt = leader.give_backfill(BackfillCommand::Halt(B1));
        assert_eq!(halt, Err(BackfillError::UnknownBackfill));
    });
    assert_eq!(facts, []);
}
