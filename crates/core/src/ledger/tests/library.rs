//! Facts about the library, and those that do not fit.

use baton_model::ids::Revision;
use baton_model::library::{
    Cause, Created, Definition, Execution, IdempotencyKey, TaskName, TriggerSource,
};
use baton_model::limits::IDEMPOTENCY_KEYS_MAX;
use baton_model::schedule;
use baton_model::spec::Origin;
use baton_model::time::Wall;

use super::*;

const K1: TaskNo = TaskNo(1);

fn named(name: &str) -> TaskName {
    TaskName {
        owner: "o".to_owned(),
        name: name.to_owned(),
    }
}

fn defined(task: u64, name: &str, revision: u32, from: u64) -> Fact {
    let definition = Definition {
        source: format!("{revision}").into(),
        spec: Some(Arc::default()),
        ..Definition::default()
    };
    Fact::TaskDefined {
        task: TaskNo(task),
        name: named(name),
        revision: Revision(revision),
        from: Wall(from),
        definition: Arc::new(definition),
    }
}

fn removed(task: u64) -> Fact {
    Fact::TaskRemoved {
        task: TaskNo(task),
        revision: Revision(1),
    }
}

fn ticked(task: u64, first: u64, last: u64) -> Fact {
    Fact::Launched {
        entry: TaskNo(task),
        revision: Revision(1),
        cause: Cause::Due {
            first: Wall(first),
            last: Wall(last),
            count: 1,
        },
        verdict: schedule::TickVerdict::Launch,
        execution: None,
    }
}

fn accounted(ledger: &Ledger) -> Option<Wall> {
    ledger.library().task(K1).map(|task| task.accounted)
}

#[test]
fn a_second_record_for_a_due_time_is_refused() {
    let mut ledger = of(&[defined(1, "a", 1, 100), ticked(1, 150, 200)]);
    let before = ledger.clone();
    for (first, last) in [
        (150, 150),
        (200, 200),
        (199, 300),
        (50, 90),
        (100, 100),
        (400, 300),
    ] {
        let error = ledger.apply(&ticked(1, first, last));
        assert!(
            matches!(error, Err(LedgerError::Library(K1, _))),
            "{first} {last}: {error:?}"
        );
        assert_eq!(ledger, before);
    }
    assert!(ledger.apply(&ticked(1, 201, 201)).is_ok());
    assert_eq!(accounted(&ledger), Some(Wall(201)));
    let unknown = ledger.apply(&ticked(2, 900, 900));
    assert!(matches!(unknown, Err(LedgerError::Library(TaskNo(2), _))));
}

#[test]
fn a_record_of_the_end_of_another_instance_accounts_for_no_time() {
    let mut ledger = of(&[defined(1, "a", 1, 100)]);
    let mut follows = ticked(1, 500, 500);
    if let Fact::Launched { cause, .. } = &mut follows {
        *cause = Cause::Upstream {
            execution: Execution::Instance(I1),
            at: Wall(500),
        };
    }
    assert!(ledger.apply(&follows).is_ok() && ledger.apply(&follows).is_ok());
    assert_eq!(accounted(&ledger), Some(Wall(100)));
}

#[test]
fn a_name_has_one_number_and_revisions_go_up() {
    let mut ledger = of(&[defined(1, "a", 1, 0), defined(1, "a", 2, 0)]);
    let before = ledger.clone();
    for bad in [
        defined(1, "a", 2, 0),
        defined(1, "a", 1, 0),
        defined(1, "b", 3, 0),
        defined(2, "a", 1, 0),
    ] {
        let error = ledger.apply(&bad);
        assert!(
            matches!(error, Err(LedgerError::Library(..))),
            "{bad}: {error:?}"
        );
        assert_eq!(ledger, before);
    }
    assert_eq!(ledger.library().next_number(), Some(TaskNo(2)));
}

#[test]
fn what_was_removed_keeps_its_number_and_how_far_it_is_accounted_for() {
    let mut ledger = of(&[defined(1, "a", 1, 0), ticked(1, 10, 70), removed(1)]);
    assert!(matches!(
        ledger.apply(&removed(1)),
        Err(LedgerError::Library(..))
    ));
    let task = ledger.library().find(&named("a")).expect("stays known");
    assert!(!task.is_defined() && task.trigger().is_none() && task.payload(Wall(0)).is_none());
    assert_eq!(ledger.library().next_number(), Some(TaskNo(2)));
    let refused = ledger.apply(&defined(1, "a", 1, 50));
    assert!(refused.is_err(), "a revision is never used again");
    ledger.apply(&defined(1, "a", 2, 50)).expect("fits");
    assert_eq!(
        accounted(&ledger),
        Some(Wall(70)),
        "the clock had been set back"
    );
}

#[test]
fn only_so_many_keys_are_remembered_and_the_oldest_go() {
    let mut ledger = of(&[defined(1, "a", 1, 0)]);
    let key = |number: u64| IdempotencyKey {
        key: (number, 0),
        request: 7,
    };
    let count = IDEMPOTENCY_KEYS_MAX as u64 + 2;
    for number in 0..count {
        let fact = Fact::Launched {
            entry: K1,
            revision: Revision(1),
            cause: Cause::Request {
                source: TriggerSource::Manual,
                key: Some(key(number)),
            },
            verdict: schedule::TickVerdict::Launch,
            execution: Some(Execution::Instance(InstanceId(number))),
        };
        ledger.apply(&fact).expect("fits");
    }
    let known = |number| ledger.keys().earlier(Some(K1), Some(&key(number)));
    assert_eq!((known(0), known(1)), (Ok(None), Ok(None)));
    for number in [2, count - 1] {
        let (first, last) = (InstanceId(number), InstanceId(number));
        assert_eq!(known(number), Ok(Some(Created::Instances { first, last })));
    }
}

#[test]
fn a_ledger_restored_from_its_parts_counts_instances_in_flight() {
    let of_task = Arc::new(InstanceSpec {
        origin: Some(Origin {
            task: K1,
            revision: Revision(1),
            due: None,
        }),
        ..InstanceSpec::default()
    });
    let submit = |first, last| Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::clone(&of_task),
    };
    let lease = Ledger::default().next_lease(I1, Epoch(1));
    let holder = holder();
    let mut ledger = of(&[
        defined(1, "a", 1, 0),
        submit(1, 1),
        submit(2, 9),
        Fact::LeaseGranted {
            lease,
            holder,
            executor: None,
            others: Vec::new(),
        },
        halt(3, 4),
    ]);
    assert_eq!(ledger.library().active_count(K1), 7);
    let restored = Ledger::restore(parts(&ledger)).expect("fits");
    assert_eq!(restored.library().active_count(K1), 7);
    ledger.forget_transient();
    assert_eq!(restored, ledger);
}
