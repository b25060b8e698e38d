//! Due times: one record each, with an instance if it is launched, across leaders and changes of
//! the wall clock.

use baton_model::spec::{Due, Origin};

use super::*;

const NOON: u64 = NEW_YEAR + 12 * HOUR;

#[test]
fn a_due_time_becomes_a_record_and_an_instance_in_one_step() {
    let mut leader = Leader::of_2026();
    leader
        .define("a", scheduled("every day at 12:00"))
        .expect("taken");
    assert_eq!(leader.core.next_tick(), Some(Wall(NOON)));
    assert_eq!(leader.at(NOON - 1), []);
    let facts = leader.at(NOON + 300);
    let [
        Fact::Launched {
            entry: TaskNo(1),
            revision: Revision(1),
            cause:
                Cause::Due {
                    first: Wall(NOON),
                    last: Wall(NOON),
                    count: 1,
                },
            verdict: TickVerdict::Launch,
            execution: Some(Execution::Instance(InstanceId(1))),
        },
        Fact::InstancesSubmitted {
            first: InstanceId(1),
            last: InstanceId(1),
            spec,
        },
    ] = &*facts
    else {
        panic!("{facts:?}");
    };
    let due = Due {
        nominal: Wall(NOON),
        latest: Wall(NOON + HOUR),
    };
    let origin = Origin {
        task: TaskNo(1),
        revision: Revision(1),
        due: Some(due),
    };
    assert_eq!(spec.origin, Some(origin));
    let nominal = spec.env.get("BATON_NOMINAL_TIME").map(String::as_str);
    assert_eq!(nominal, Some("2026-01-01T12:00:00+00:00"));
    assert_eq!(leader.state(1), UniversalState::Queued);
    assert_eq!(leader.at(NOON + 301), []);
    assert_eq!(leader.core.next_tick(), Some(Wall(NOON + DAY)));
    assert_eq!(leader.core.next_of(TaskNo(1)), Some(Wall(NOON + DAY)));
}

#[test]
fn what_is_late_says_by_how_much_and_what_is_too_late_is_skipped() {
    let mut leader = Leader::of_2026();
    leader
        .define("a", scheduled("every day at 12:00"))
        .expect("taken");
    let late = TickVerdict::Late {
        by: Millis(30 * MINUTE),
    };
    assert_eq!(verdicts(&leader.at(NOON + 30 * MINUTE)), [late]);
    let facts = leader.at(NOON + DAY + 2 * HOUR);
    let missed = TickVerdict::Skip(SkipReason::Missed);
    assert_eq!(verdicts(&facts), [missed]);
    assert_eq!(facts.len(), 1, "nothing is launched: {facts:?}");
}

/// Hours pass; at times the leader dies, with or without committing its last decision.
#[test]
fn a_leader_that_takes_over_repeats_nothing_and_forgets_nothing() {
    for policy in [CatchUp::None, CatchUp::Last, CatchUp::All] {
        for pattern in 0..27_u64 {
            takes_over(policy, pattern);
        }
    }
}

fn takes_over(policy: CatchUp, pattern: u64) {
    let mut leader = Leader::of_2026();
    let hourly = catching_up("every hour", DAY, policy);
    leader.define("a", hourly).expect("taken");
    let mut durable = Vec::new();
    for hour in 1..=24 {
        let fate = pattern / [1, 3, 9][hour as usize % 3] % 3;
        match fate {
            // All is well.
            0 => durable.extend(leader.at(NEW_YEAR + hour * HOUR)),
            // It decides, but the decision does not become durable.
            1 => {
                let before = leader.successor();
                leader.at(NEW_YEAR + hour * HOUR);
                leader = before;
            }
            // Its decision is durable, and it dies before it sends the effects.
            _ => {
                durable.extend(leader.at(NEW_YEAR + hour * HOUR));
                leader = leader.successor();
            }
        }
    }
    leader = leader.successor();
    durable.extend(leader.at(NEW_YEAR + 25 * HOUR));
    let told = ticks(&durable);
    let mut until = NEW_YEAR;
    for tick in &told {
        assert_eq!(tick.first, until + HOUR, "{policy:?} {pattern} {told:?}");
        assert_eq!(tick.last, until + tick.count * HOUR);
        until = tick.last;
    }
    assert_eq!(
        until,
        NEW_YEAR + 25 * HOUR,
        "{policy:?} {pattern}: {told:?}"
    );
    for tick in &told {
        let launched = !matches!(tick.verdict, TickVerdict::Skip(_));
        assert_eq!(tick.instance.is_some(), launched, "{tick:?}");
        if policy == CatchUp::All {
            assert!(launched && tick.count == 1, "{tick:?}");
        }
    }
    let submitted = |it: &&Fact| matches!(it, Fact::InstancesSubmitted { .. });
    let launched = told.iter().filter(|tick| tick.instance.is_some());
    assert_eq!(durable.iter().filter(submitted).count(), launched.count());
}

#[test]
fn a_year_forward_is_one_record_and_a_year_back_is_none() {
    let mut leader = Leader::of_2026();
    let definition = catching_up("every 5 minutes", 10 * SECOND, CatchUp::Last);
    leader.define("a", definition).expect("taken");
    let year = 365 * DAY;
    let facts = leader.at(NEW_YEAR + year + MINUTE);
    let all = Tick {
        task: 1,
        first: NEW_YEAR + 5 * MINUTE,
        last: NEW_YEAR + year,
        count: 365 * 24 * 12,
        verdict: TickVerdict::Skip(SkipReason::Missed),
        instance: None,
    };
    assert_eq!((ticks(&facts), facts.len()), (vec![all], 1));
    for back in [
        NEW_YEAR,
        NEW_YEAR + 5 * MINUTE,
        NEW_YEAR + year + 4 * MINUTE,
    ] {
        assert_eq!(leader.at(back), []);
        assert_eq!(leader.successor().at(back), []);
    }
    let facts = leader.at(NEW_YEAR + year + 5 * MINUTE);
    assert_eq!(verdicts(&facts), [TickVerdict::Launch]);
}

#[test]
fn more_than_one_call_hands_out_comes_with_the_next() {
    let mut leader = Leader::of_2026();
    let definition = catching_up("every 1s", DAY, CatchUp::All);
    leader.define("a", definition).expect("taken");
    let now = NEW_YEAR + HOUR;
    let mut told = ticks(&leader.at(now));
    assert!(told.len() < 3_600, "a step has its bounds");
    while leader.core.next_tick().is_some_and(|at| at.0 <= now) {
        told.extend(ticks(&leader.at(now)));
    }
    let times: Vec<u64> = told.iter().map(|tick| tick.first).collect();
    let expected: Vec<u64> = (1..=3_600).map(|at| NEW_YEAR + at * SECOND).collect();
    assert_eq!(times, expected);
}

#[test]
fn jitter_puts_a_launch_off_by_the_same_for_every_leader() {
    let mut leader = Leader::of_2026();
    leader
        .define("a", jittered("every day at 12:00", HOUR))
        .expect("taken");
    leader
        .define("b", jittered("every day at 12:00", HOUR))
        .expect("taken");
    let mut dag = Vec::new();
    for _ in 0..2 {
        let next = leader.core.next_tick().expect("is due").0;
        assert!((NOON..NOON + HOUR).contains(&next), "{next}");
        assert_eq!(leader.successor().core.next_tick(), Some(Wall(next)));
        assert_eq!(leader.at(next - 1), []);
        let facts = leader.at(next);
        let due = facts.iter().find_map(|fact| match fact {
            Fact::InstancesSubmitted { spec, .. } => spec.origin?.due,
            _ => None,
        });
        let expected = Due {
            nominal: Wall(NOON),
            latest: Wall(next + HOUR),
        };
        assert_eq!(due, Some(expected), "its slack begins when it was planned");
        let told = ticks(&facts);
        assert_eq!((told.len(), told[0].first), (1, NOON));
        assert_eq!(told[0].verdict, TickVerdict::Launch);
        dag.push(next - NOON);
    }
    assert_ne!(dag[0], dag[1], "two tasks wait for different times");
    assert_ne!(dag[0], 0);
}

#[test]
fn a_task_whose_zone_is_gone_is_no_longer_due_and_affects_no_other() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.define("b", scheduled("every hour")).expect("taken");
    let mut gone = scheduled("every hour");
    if let Some(schedule) = &mut gone.trigger.schedule {
        schedule.zone = "Mars/Olympus".to_owned();
    }
    // As another version had stored it.
    let fact = Fact::TaskDefined {
        task: TaskNo(1),
        name: named("a"),
        revision: Revision(2),
        from: Wall(NEW_YEAR),
        definition: Arc::new(gone),
    };
    leader.kept.apply(&fact).expect("fits");
    let mut next = leader.successor();
    let told = ticks(&next.at(NEW_YEAR + HOUR));
    assert_eq!(told.iter().map(|it| it.task).collect::<Vec<_>>(), [2]);
    assert_eq!(next.core.next_of(TaskNo(1)), None);
}
