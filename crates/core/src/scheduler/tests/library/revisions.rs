//! Tasks that are defined, redefined and removed.

use super::*;

const NOON: u64 = NEW_YEAR + 12 * HOUR;
const REPLACED: TickVerdict = TickVerdict::Skip(SkipReason::Replaced);

/// A task whose launch of noon still waits for its jitter.
fn put_off() -> Leader {
    let mut leader = Leader::of_2026();
    let definition = jittered("every day at 12:00", 2 * HOUR);
    leader.define("a", definition).expect("taken");
    let dag = leader.core.next_tick().expect("is due").0;
    assert!(dag > NOON + SECOND, "another number of the task would do");
    leader.set_wall(NOON + SECOND);
    leader
}

#[test]
fn a_new_revision_with_the_same_schedule_goes_on() {
    let mut leader = put_off();
    let mut second = jittered("every day at 12:00", 2 * HOUR);
    second.trigger.max_instances = Some(7);
    let facts = leader.facts_of(|leader| {
        let answer = leader.define("a", second);
        let replaced = DefineReply {
            revision: Revision(2),
            change: Change::Replaced,
        };
        assert_eq!(answer, Ok(replaced));
    });
    assert_eq!(ticks(&facts), []);
    let dag = leader.core.next_tick().expect("is due").0;
    for leader in [&mut leader.successor(), &mut leader] {
        let facts = leader.at(dag);
        let [tick] = ticks(&facts)[..] else {
            panic!("{facts:?}");
        };
        assert_eq!((tick.first, tick.verdict), (NOON, TickVerdict::Launch));
        let of = |it: &Fact| match it {
            Fact::Launched { revision, .. } => Some(*revision),
            _ => None,
        };
        assert_eq!(facts.iter().find_map(of), Some(Revision(2)));
    }
}

#[test]
fn another_schedule_begins_now_and_what_was_due_of_the_old_one_is_replaced() {
    let mut leader = put_off();
    let facts = leader.facts_of(|leader| {
        leader.define("a", scheduled("every hour")).expect("taken");
    });
    let replaced = Tick {
        task: 1,
        first: NOON,
        last: NOON,
        count: 1,
        verdict: REPLACED,
        instance: None,
    };
    assert_eq!(ticks(&facts), [replaced]);
    for leader in [&mut leader.successor(), &mut leader] {
        let told = ticks(&leader.at(NOON + HOUR));
        assert_eq!((told.len(), told[0].first), (1, NOON + HOUR));
    }
}

#[test]
fn what_is_due_when_a_schedule_is_replaced_is_launched_first() {
    let mut leader = Leader::of_2026();
    leader
        .define("a", scheduled("every day at 12:00"))
        .expect("taken");
    leader.set_wall(NOON + SECOND / 2);
    let facts = leader.facts_of(|leader| {
        leader.define("a", scheduled("every hour")).expect("taken");
    });
    assert_eq!(verdicts(&facts), [TickVerdict::Launch]);
}

#[test]
fn with_the_wall_clock_set_back_nothing_is_recorded_twice_by_any_revision() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.at(NOON);
    leader.set_wall(NEW_YEAR);
    leader
        .define("a", scheduled("every 30 minutes"))
        .expect("taken");
    assert_eq!(leader.at(NOON), []);
    let told = ticks(&leader.at(NOON + 30 * MINUTE));
    assert_eq!((told.len(), told[0].first), (1, NOON + 30 * MINUTE));
}

#[test]
fn removing_a_task_records_what_was_still_due() {
    let mut leader = put_off();
    let facts = leader.facts_of(|leader| assert_eq!(leader.remove("a"), Ok(Revision(1))));
    assert_eq!(verdicts(&facts), [REPLACED]);
    assert_eq!(leader.core.next_tick(), None);
    assert_eq!(leader.at(NOON + 9 * DAY), []);
    assert_eq!(leader.successor().core.next_tick(), None);
    assert_eq!(leader.remove("a"), Err(LibraryError::Unknown));
}

#[test]
fn a_task_that_is_defined_again_has_its_number_and_the_next_revision() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.remove("a").expect("is there");
    let new = |revision| DefineReply {
        revision: Revision(revision),
        change: Change::Created,
    };
    for leader in [&mut leader.successor(), &mut leader] {
        leader.set_wall(NEW_YEAR + 10 * HOUR);
        assert_eq!(leader.define("b", plain()), Ok(new(1)));
        let facts = leader.facts_of(|leader| {
            assert_eq!(leader.define("a", scheduled("every hour")), Ok(new(2)));
        });
        assert_eq!(ticks(&facts), [], "while it was away nothing was due");
        let library = leader.core.ledger().library();
        let number = |name| library.find(&named(name)).map(|task| task.number);
        assert_eq!(number("a"), Some(TaskNo(1)));
        assert_eq!(number("b"), Some(TaskNo(2)));
        let told = ticks(&leader.at(NEW_YEAR + 11 * HOUR));
        assert_eq!((told.len(), told[0].first), (1, NEW_YEAR + 11 * HOUR));
    }
}

#[test]
fn instances_of_a_removed_task_count_when_it_comes_back() {
    let mut leader = Leader::of_2026();
    let mut one = scheduled("every hour");
    one.trigger.max_instances = Some(1);
    leader.define("a", one.clone()).expect("taken");
    leader.at(NEW_YEAR + HOUR);
    leader.remove("a").expect("is there");
    leader.define("a", one).expect("taken");
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 2 * HOUR)), [FULL]);
}

#[test]
fn preconditions_are_checked_and_a_refusal_changes_nothing() {
    let mut leader = Leader::of_2026();
    leader.define("a", plain()).expect("taken");
    leader.define("b", scheduled("every hour")).expect("taken");
    let file = Definition {
        file: Some("c.yaml".to_owned()),
        ..plain()
    };
    leader.define("c", file).expect("taken");
    let command = |name: &str, expected| DefineCommand {
        name: named(name),
        definition: Arc::new(scheduled("every minute")),
        expected,
        by_file: false,
        dry: false,
    };
    let (one, two) = (Revision(1), Revision(2));
    let refusals = [
        (
            command("a", Precondition::Absent),
            LibraryError::Exists(one),
        ),
        (
            command("a", Precondition::Revisions(vec![two])),
            LibraryError::Revised(one),
        ),
        (
            command("a", Precondition::Revisions(Vec::new())),
            LibraryError::Revised(one),
        ),
        (
            command("z", Precondition::Revisions(vec![one])),
            LibraryError::Missing,
        ),
        (command("z", Precondition::Present), LibraryError::Missing),
        (
            command("c", Precondition::Anything),
            LibraryError::FromFile("c.yaml".to_owned()),
        ),
    ];
    let before = leader.facts.len();
    for (command, refusal) in refusals {
        assert_eq!(leader.execute(command), Err(refusal));
    }
    assert_eq!(
        leader.remove("c"),
        Err(LibraryError::FromFile("c.yaml".to_owned()))
    );
    let dry = DefineCommand {
        dry: true,
        ..command("b", Precondition::Revisions(vec![two, one]))
    };
    let would = DefineReply {
        revision: two,
        change: Change::Replaced,
    };
    assert_eq!(leader.execute(dry), Ok(would));
    let unchanged = DefineReply {
        revision: one,
        change: Change::Unchanged,
    };
    assert_eq!(leader.define("b", scheduled("every hour")), Ok(unchanged));
    assert_eq!(leader.facts.len(), before);
}

#[test]
fn what_cannot_be_started_by_itself_is_refused() {
    let mut leader = Leader::of_2026();
    let mut open = scheduled("every hour");
    open.spec = None;
    assert_eq!(leader.define("a", open), Err(LibraryError::NeedsDefaults));
    let manual = Definition {
        spec: None,
        ..plain()
    };
    assert!(leader.define("a", manual).is_ok(), "by hand it can be");
    let bad = leader.define("b", scheduled("every blue moon"));
    let Err(LibraryError::Schedule(message)) = bad else {
        panic!("{bad:?}");
    };
    assert!(message.contains("trigger.schedule"), "{message}");
    let mut nowhere = scheduled("every hour");
    if let Some(schedule) = &mut nowhere.trigger.schedule {
        schedule.zone = "Mars/Olympus".to_owned();
    }
    let bad = leader.define("b", nowhere);
    assert!(matches!(bad, Err(LibraryError::Schedule(_))), "{bad:?}");
    assert!(leader.core.ledger().library().find(&named("b")).is_none());
}

#[test]
fn without_a_store_a_strict_task_is_refused() {
    let mut leader = Leader::new(StoreMode::Memory, 1);
    let strict = Definition {
        spec: Some(Arc::new(InstanceSpec {
            exclusive: Exclusive::Strict,
            ..InstanceSpec::default()
        })),
        ..plain()
    };
    assert_eq!(leader.define("a", strict), Err(LibraryError::NeedsStore));
}
