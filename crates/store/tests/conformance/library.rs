//! The library: tasks, revisions, recorded ticks, and idempotency keys.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, Revision, RunId, TaskNo};
use baton_model::library::{
    Cause, Created, Definition, EntryKind, Execution, IdempotencyKey, Pause, RunOrigin, TaskName,
    Trigger, TriggerSource,
};
use baton_model::limits::IDEMPOTENCY_KEYS_MAX;
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::{Due, InstanceSpec, Origin};
use baton_model::time::{Millis, Wall};
use baton_store::view::{Seq, TaskQuery, TickQuery};
use baton_store::{Retention, Store, StoreError};

use crate::Open;
use crate::leading::{Leader, halted};
use crate::running::{plan, task};

pub(crate) fn named(owner: &str, name: &str) -> TaskName {
    TaskName {
        owner: owner.to_owned(),
        name: name.to_owned(),
    }
}

/// A definition unique to this text.
pub(crate) fn definition(text: &str) -> Definition {
    Definition {
        source: format!("{{\"run\":\"{text}\"}}").into(),
        spec: Some(Arc::new(InstanceSpec {
            name: text.to_owned(),
            ..InstanceSpec::default()
        })),
        trigger: Trigger {
            max_instances: Some(3),
            after: vec![named("other", "ünrelated")],
            ..Trigger::default()
        },
        file: Some("some.yaml".to_owned()),
        ..Definition::default()
    }
}

pub(crate) fn defined(task: u64, name: &TaskName, revision: u32, text: &str) -> Fact {
    Fact::TaskDefined {
        task: TaskNo(task),
        name: name.clone(),
        revision: Revision(revision),
        from: Wall(10),
        definition: Arc::new(definition(text)),
    }
}

pub(crate) fn removed(task: u64, revision: u32) -> Fact {
    Fact::TaskRemoved {
        task: TaskNo(task),
        revision: Revision(revision),
    }
}

/// A pause of a task, or its end.
pub(crate) fn paused(task: u64, paused: bool) -> Fact {
    let task = TaskNo(task);
    if !paused {
        return Fact::TaskUnpaused { task };
    }
    Fact::TaskPaused {
        task,
        at: Wall(70),
        reason: None,
    }
}

pub(crate) fn ticked(task: u64, first: u64, last: u64) -> Fact {
    Fact::Launched {
        entry: TaskNo(task),
        revision: Revision(1),
        cause: Cause::Due {
            first: Wall(first),
            last: Wall(last),
            count: last - first + 1,
        },
        verdict: TickVerdict::Skip(SkipReason::Missed),
        execution: None,
    }
}

pub(crate) fn triggered(instance: u64, task: u64, key: u64) -> Fact {
    Fact::Launched {
        entry: TaskNo(task),
        revision: Revision(1),
        cause: Cause::Request {
            source: TriggerSource::Remote,
            key: Some(IdempotencyKey {
                key: (key, !key),
                request: key ^ 7,
            }),
        },
        verdict: TickVerdict::Launch,
        execution: Some(Execution::Instance(InstanceId(instance))),
    }
}

/// The facts of a manual trigger.
fn launched(instance: u64, task: u64, key: u64) -> [Fact; 2] {
    let spec = InstanceSpec {
        origin: Some(Origin {
            task: TaskNo(task),
            revision: Revision(1),
            due: None,
        }),
        ..InstanceSpec::default()
    };
    let submitted = Fact::InstancesSubmitted {
        first: InstanceId(instance),
        last: InstanceId(instance),
        spec: Arc::new(spec),
    };
    [submitted, triggered(instance, task, key)]
}

fn current(store: &dyn Store, name: &TaskName) -> Option<(Revision, Arc<Definition>)> {
    let task = store.task(name, None).expect("readable")?;
    assert!(task.current);
    Some((task.revision, task.definition))
}

pub(crate) fn a_task_is_its_latest_revision_and_each_before_it_can_be_read(open: Open<'_>) {
    let store = open();
    let name = named("o", "a");
    assert_eq!(store.task(&name, None), Ok(None));
    let mut leader = Leader::elect(&*store);
    for (revision, text) in [(1, "one"), (2, "two"), (4, "four")] {
        let at = Wall(100 * u64::from(revision));
        leader.commit_at(&*store, at, vec![defined(1, &name, revision, text)]);
    }
    let store = open();
    let four = (Revision(4), Arc::new(definition("four")));
    assert_eq!(current(&*store, &name), Some(four));
    let second = store.task(&name, Some(Revision(2))).expect("readable");
    let second = second.expect("is there");
    assert_eq!((second.number, second.at), (TaskNo(1), Wall(200)));
    assert_eq!(*second.definition, definition("two"));
    assert!(!second.current);
    assert_eq!(store.task(&name, Some(Revision(3))), Ok(None));
    assert_eq!(store.task(&named("o", "b"), Some(Revision(1))), Ok(None));
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store.revisions(TaskNo(1), before, 2).expect("readable");
        seen.extend(page.items.iter().map(|it| (it.revision.0, it.at.0)));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, [(4, 400), (2, 200), (1, 100)]);
    let none = store.revisions(TaskNo(2), None, 2).expect("readable");
    assert!(none.items.is_empty() && none.next.is_none());
}

pub(crate) fn a_removed_task_can_be_read_by_revision_and_comes_back_with_the_next(open: Open<'_>) {
    let store = open();
    let name = named("o", "a");
    let mut leader = Leader::elect(&*store);
    leader.commit(
        &*store,
        vec![defined(1, &name, 1, "one"), ticked(1, 50, 90)],
    );
    leader.commit(&*store, vec![removed(1, 1)]);
    assert_eq!(store.task(&name, None), Ok(None));
    let old = store.task(&name, Some(Revision(1))).expect("readable");
    assert!(old.is_some_and(|it| !it.current));
    let all = store.tasks(&TaskQuery {
        limit: 9,
        ..TaskQuery::default()
    });
    assert_eq!(all.expect("readable").items, []);
    let mut next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left());
    let library = next.ledger.library();
    assert_eq!(library.find(&name).map(|it| it.accounted), Some(Wall(90)));
    // Neither its number, nor a revision, nor the name is free.
    for bad in [
        defined(1, &name, 1, "again"),
        defined(2, &name, 1, "again"),
        defined(1, &named("o", "b"), 2, "again"),
        removed(1, 1),
        removed(7, 1),
    ] {
        assert!(next.try_commit(&*store, vec![bad]).is_err());
        next = Leader::elect(&*store);
    }
    next.commit(&*store, vec![defined(1, &name, 2, "two")]);
    assert_eq!(current(&*store, &name).map(|it| it.0), Some(Revision(2)));
    assert_eq!(Leader::elect(&*open()).ledger, next.left());
}

pub(crate) fn tasks_come_in_pages_by_owner_and_name(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let names = [
        ("b", "x"),
        ("a", "z"),
        ("a", "y"),
        ("ab", "a"),
        ("a", "gone"),
        ("ä", "ß"),
        ("a", "Y"),
    ];
    for (number, (owner, name)) in (1..).zip(names) {
        leader.commit(&*store, vec![defined(number, &named(owner, name), 1, name)]);
    }
    leader.commit(&*store, vec![removed(5, 1)]);
    let all = |owner: Option<&str>, limit| {
        let mut query = TaskQuery {
            owner: owner.map(str::to_owned),
            after: None,
            limit,
        };
        let mut seen = Vec::new();
        loop {
            let page = store.tasks(&query).expect("readable");
            assert!(page.items.len() <= limit);
            seen.extend(page.items.iter().map(|it| it.name.to_string()));
            query.after = page.next;
            if query.after.is_none() {
                return seen;
            }
        }
    };
    for limit in 1..8 {
        let expected = ["a/Y", "a/y", "a/z", "ab/a", "b/x", "ä/ß"];
        assert_eq!(all(None, limit), expected, "in pages of {limit}");
        assert_eq!(all(Some("a"), limit), ["a/Y", "a/y", "a/z"]);
        assert_eq!(all(Some("ab"), limit), ["ab/a"]);
        assert!(all(Some("c"), limit).is_empty());
    }
}

pub(crate) fn a_pause_survives_revisions_removal_and_leaders(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let name = named("o", "a");
    let pause = |reason: Option<&str>| Fact::TaskPaused {
        task: TaskNo(1),
        at: Wall(70),
        reason: reason.map(str::to_owned),
    };
    let stored = |store: &dyn Store| store.task(&name, None).expect("readable")?.pause;
    let expected = |reason: Option<&str>| {
        Some(Pause {
            since: Wall(70),
            reason: reason.map(str::to_owned),
        })
    };
    leader.commit(&*store, vec![defined(1, &name, 1, "one")]);
    assert_eq!(stored(&*store), None);
    leader.commit(&*store, vec![pause(Some("ünplanned"))]);
    assert_eq!(stored(&*store), expected(Some("ünplanned")));
    leader.commit(&*store, vec![pause(None), defined(1, &name, 2, "two")]);
    leader.commit(&*store, vec![removed(1, 2)]);
    let refused = leader.try_commit(&*store, vec![paused(1, false)]);
    assert!(refused.is_err(), "{refused:?}");
    let store = open();
    let mut next = Leader::elect(&*store);
    assert_eq!(next.ledger, leader.left());
    next.commit(&*store, vec![defined(1, &name, 3, "three")]);
    assert_eq!(stored(&*store), expected(None));
    let query = TaskQuery {
        limit: 9,
        ..TaskQuery::default()
    };
    let listed = store.tasks(&query).expect("readable").items;
    assert_eq!(listed[0].pause, expected(None));
    next.commit(&*store, vec![paused(1, false)]);
    assert_eq!(stored(&*store), None);
    assert_eq!(Leader::elect(&*open()).ledger, next.left());
}

/// Every recorded tick, the latest first, in pages of `limit`.
fn ticks(store: &dyn Store, task: Option<u64>, limit: usize) -> Vec<(Seq, Fact)> {
    let mut query = TickQuery {
        task: task.map(TaskNo),
        before: None,
        limit,
    };
    let mut seen = Vec::new();
    loop {
        let page = store.ticks(&query).expect("readable");
        assert!(page.items.len() <= limit);
        seen.extend(page.items.into_iter().map(|it| (it.seq, it.fact)));
        query.before = page.next;
        if query.before.is_none() {
            assert!(seen.is_sorted_by(|one, next| one.0 > next.0));
            return seen;
        }
    }
}

pub(crate) fn ticks_are_listed_latest_first_and_by_task(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let mut told = Vec::new();
    for task in [1, 2] {
        let name = named("o", &format!("t{task}"));
        leader.commit(&*store, vec![defined(task, &name, 1, "t")]);
    }
    for at in 20..40_u64 {
        let task = 1 + at % 2;
        let tick = ticked(task, at * 10, at * 10 + at % 3);
        // Other facts about no instance, and about the same task, lie between them.
        let lease = Millis(at);
        let name = named("o", &format!("t{task}"));
        let again = defined(task, &name, at as u32, "t");
        leader.commit(
            &*store,
            vec![Fact::LeaseTimeSet { lease }, tick.clone(), again],
        );
        told.push((task, tick));
    }
    told.reverse();
    let store = open();
    for limit in [1, 3, 10, 20, 100] {
        let all: Vec<_> = told.iter().map(|(_, fact)| fact.clone()).collect();
        let seen: Vec<_> = ticks(&*store, None, limit);
        assert_eq!(seen.into_iter().map(|it| it.1).collect::<Vec<_>>(), all);
        for task in [1, 2] {
            let own = told.iter().filter(|it| it.0 == task);
            let own: Vec<_> = own.map(|(_, fact)| fact.clone()).collect();
            let seen = ticks(&*store, Some(task), limit);
            assert_eq!(seen.into_iter().map(|it| it.1).collect::<Vec<_>>(), own);
        }
        assert_eq!(ticks(&*store, Some(9), limit), []);
    }
}

pub(crate) fn a_second_record_for_a_due_time_is_refused_with_its_batch(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let name = named("o", "a");
    leader.commit(&*store, vec![defined(1, &name, 1, "a"), ticked(1, 50, 60)]);
    let kept = leader.left();
    let [instance, request] = launched(1, 1, 1);
    for (first, last) in [(60, 60), (50, 50), (55, 90), (10, 10)] {
        let facts = vec![instance.clone(), request.clone(), ticked(1, first, last)];
        let refused = leader.try_commit(&*store, facts);
        assert!(
            matches!(refused, Err(StoreError::Contradiction(_))),
            "{refused:?}"
        );
        leader = Leader::elect(&*open());
        assert_eq!(leader.ledger, kept, "nothing of the batch has landed");
    }
    assert_eq!(ticks(&*store, Some(1), 9).len(), 1);
    leader.commit(&*store, vec![instance, request, ticked(1, 61, 61)]);
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}

pub(crate) fn requests_are_remembered_by_the_next_leader(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    for (instance, key) in [(1, u64::MAX), (2, 0), (3, 1 << 63)] {
        leader.commit(&*store, launched(instance, 1, key).to_vec());
        // Whether its instance has ended does not matter.
        leader.commit(&*store, vec![halted(instance, instance)]);
    }
    let key = |number| IdempotencyKey {
        key: (number, number),
        request: number,
    };
    let (first, last) = (InstanceId(4), InstanceId(9));
    let submissions = [
        (u64::MAX, Created::Instances { first, last }),
        (1 << 63, Created::Run(RunId(7))),
    ];
    for (number, created) in submissions {
        let key = key(number);
        leader.commit(&*store, vec![Fact::KeyRecorded { key, created }]);
    }
    drop(store);
    let next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left());
    for (instance, key) in [(1, u64::MAX), (2, 0), (3, 1 << 63)] {
        let wanted = |request| IdempotencyKey {
            key: (key, !key),
            request,
        };
        let (first, last) = (InstanceId(instance), InstanceId(instance));
        let created = Created::Instances { first, last };
        let keys = next.ledger.keys();
        let earlier = |request| keys.earlier(Some(TaskNo(1)), Some(&wanted(request)));
        assert_eq!(earlier(key ^ 7), Ok(Some(created)));
        assert_eq!(earlier(key), Err(created), "it was another request");
    }
    let keys = next.ledger.keys();
    for (number, created) in submissions {
        assert_eq!(keys.earlier(None, Some(&key(number))), Ok(Some(created)));
        let of_a_task = keys.earlier(Some(TaskNo(1)), Some(&key(number)));
        assert_eq!(of_a_task, Ok(None), "keys of tasks are others");
    }
}

pub(crate) fn runs_of_a_workflow_keep_their_origin_and_are_counted_by_the_next_leader(
    open: Open<'_>,
) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let name = named("o", "etl");
    let plan = Arc::new(plan(vec![task("a", &[])]));
    let workflow = Arc::new(Definition {
        kind: EntryKind::Workflow,
        spec: None,
        plan: Some(Arc::clone(&plan)),
        ..definition("etl")
    });
    let defined = Fact::TaskDefined {
        task: TaskNo(1),
        name: name.clone(),
        revision: Revision(1),
        from: Wall(1),
        definition: Arc::clone(&workflow),
    };
    let origin = |due, after| RunOrigin {
        task: TaskNo(1),
        revision: Revision(1),
        due,
        after,
    };
    let due = Due {
        nominal: Wall(50),
        latest: Wall(90),
    };
    let scheduled = origin(Some(due), None);
    let followed = origin(None, Some(Execution::Run(RunId(1))));
    let launched = |run, cause| Fact::Launched {
        entry: TaskNo(1),
        revision: Revision(1),
        cause,
        verdict: TickVerdict::Launch,
        execution: Some(Execution::Run(RunId(run))),
    };
    let at = |first| Cause::Due {
        first: Wall(first),
        last: Wall(first),
        count: 1,
    };
    let registered = |run, origin| Fact::RunRegistered {
        run: RunId(run),
        at: Wall(60),
        plan: Arc::clone(&plan),
        open: false,
        origin: Some(origin),
    };
    let key = IdempotencyKey {
        key: (3, 4),
        request: 5,
    };
    let request = Cause::Request {
        source: TriggerSource::Remote,
        key: Some(key),
    };
    let ended = Fact::RunEnded {
        run: RunId(1),
        generation: baton_model::ids::Generation(1),
        state: baton_model::state::UniversalState::Halted,
    };
    leader.commit(&*store, vec![defined]);
    leader.commit(
        &*store,
        vec![launched(1, at(50)), registered(1, scheduled), ended],
    );
    let upstream = Cause::Upstream {
        execution: Execution::Run(RunId(1)),
        at: Wall(40),
    };
    let facts = vec![launched(2, upstream), registered(2, followed)];
    leader.commit(&*store, facts);
    let manual = origin(None, None);
    leader.commit(&*store, vec![registered(3, manual), launched(3, request)]);
    // A trigger of a run that does not exist is refused.
    let wrong = vec![launched(9, request)];
    assert!(leader.try_commit(&*store, wrong).is_err());
    drop(store);
    let store = open();
    let mut next = Leader::elect(&*store);
    for (run, origin) in [(1, scheduled), (2, followed), (3, manual)] {
        let record = store.run(RunId(run)).expect("readable").expect("is there");
        assert_eq!(record.head.origin, Some(origin), "{run}");
        let head = next.ledger.runs().head(RunId(run));
        assert_eq!(head.and_then(|head| head.origin), Some(origin), "{run}");
    }
    let library = next.ledger.library();
    assert_eq!(library.active_count(TaskNo(1)), 2, "one has ended");
    assert_eq!(current(&*store, &name), Some((Revision(1), workflow)));
    assert_eq!(library.find(&name).map(|it| it.accounted), Some(Wall(50)));
    let created = next.ledger.keys().earlier(Some(TaskNo(1)), Some(&key));
    assert_eq!(created, Ok(Some(Created::Run(RunId(3)))));
    let ticks = ticks(&*store, Some(1), 9);
    let ticks: Vec<_> = ticks.into_iter().map(|it| it.1).collect();
    assert_eq!(ticks, [launched(2, upstream), launched(1, at(50))]);
    next.commit(&*store, vec![launched(4, at(70)), registered(4, scheduled)]);
    assert_eq!(Leader::elect(&*open()).ledger, next.left());
}

pub(crate) fn only_so_many_requests_are_remembered_and_the_oldest_go(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    leader.commit(&*store, vec![crate::leading::array(1, 10_000_000)]);
    let all: Vec<u64> = (1..=IDEMPOTENCY_KEYS_MAX as u64 + 70).collect();
    // Few enough that a starved host prepares them before PostgreSQL gives up an idle transaction.
    for some in all.chunks(2_500) {
        let facts = some.iter().map(|it| triggered(*it, 1, *it)).collect();
        leader.commit(&*store, facts);
    }
    drop(store);
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}

pub(crate) fn a_trigger_is_in_the_timeline_and_removed_with_its_instance(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![defined(1, &named("o", "a"), 1, "a")]);
    let mut facts = launched(5, 1, 1).to_vec();
    facts.push(halted(5, 5));
    leader.commit(&*store, facts.clone());
    let timeline = store.timeline(InstanceId(5), None, 9).expect("readable");
    let told: Vec<_> = timeline.items.into_iter().map(|it| it.fact).collect();
    assert_eq!(told, facts);
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let pruned = store.prune(leader.epoch, Wall(0), &none, usize::MAX);
    let pruned = pruned.expect("prunable");
    assert_eq!(pruned.instances, 1);
    let timeline = store.timeline(InstanceId(5), None, 9).expect("readable");
    assert_eq!(timeline.items, []);
    assert_eq!(store.counts().expect("readable").history_bytes, 0);
    assert_eq!(
        Leader::elect(&*open()).ledger,
        leader.left(),
        "its key stays"
    );
}

pub(crate) fn pruning_removes_old_due_times_and_never_what_a_task_is(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let (a, b) = (named("o", "a"), named("o", "b"));
    let facts = vec![defined(1, &a, 1, "one"), defined(2, &b, 1, "b")];
    leader.commit_at(&*store, Wall(100), facts);
    leader.commit_at(&*store, Wall(200), vec![ticked(1, 50, 60), removed(2, 1)]);
    leader.commit_at(&*store, Wall(300), vec![defined(1, &a, 2, "two")]);
    leader.commit_at(&*store, Wall(900), vec![ticked(1, 70, 80)]);
    let old = Retention {
        history_age: Some(Millis(150)),
        ..Retention::default()
    };
    let pruned = store.prune(leader.epoch, Wall(1_000), &old, usize::MAX);
    assert_eq!(pruned.expect("prunable").facts, 5);
    let left = ticks(&*store, None, 9);
    assert_eq!(
        left.into_iter().map(|it| it.1).collect::<Vec<_>>(),
        [ticked(1, 70, 80)]
    );
    let store = open();
    let two = (Revision(2), Arc::new(definition("two")));
    assert_eq!(current(&*store, &a), Some(two));
    for (name, revision) in [(&a, 1), (&b, 1)] {
        let kept = store
            .task(name, Some(Revision(revision)))
            .expect("readable");
        assert!(kept.is_some(), "{name}");
    }
    let mut next = Leader::elect(&*store);
    assert_eq!(next.ledger, leader.left());
    let refused = next.try_commit(&*store, vec![ticked(1, 60, 60)]);
    assert!(refused.is_err(), "it stays accounted for");
}
