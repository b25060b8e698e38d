//! A follower that stores what it takes, as the server's does, and loses what it has not stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::alarm::{Alarm, AlarmKind};
use baton_model::conditions::Subject;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, Epoch, Generation, InstanceId, LeaseId, RunId, TaskNo,
};
use baton_model::library::{Cause, TaskName};
use baton_model::notify::{Notice, NoticeKind, NotifyRule, Route};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::{Array, InstanceSpec, Origin};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::Part;
use baton_testing::Rng;

use super::*;

/// The store: facts, specs and what the follower has stored.
#[derive(Default)]
struct Store {
    facts: Vec<Fact>,
    specs: BTreeMap<u64, Arc<InstanceSpec>>,
    /// Instances that have not ended.
    live: BTreeSet<u64>,
    position: u64,
    rows: BTreeMap<String, String>,
    notices: Vec<Raised>,
}

impl Store {
    fn push(&mut self, fact: Fact) {
        let live = &mut self.live;
        match &fact {
            Fact::InstancesSubmitted { first, last, spec } => {
                for id in first.0..=last.0 {
                    self.specs.insert(id, Arc::clone(spec));
                    live.insert(id);
                }
            }
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                live.remove(&lease.attempt.instance.0);
            }
            Fact::InstancesHalted { first, last, .. } => {
                live.retain(|id| !(first.0..=last.0).contains(id));
            }
            Fact::InstanceRetried { instance } => {
                live.insert(instance.0);
            }
            _ => {}
        }
        self.facts.push(fact);
    }

    fn submit(&mut self, first: u64, last: u64, spec: InstanceSpec) {
        self.push(Fact::InstancesSubmitted {
            first: InstanceId(first),
            last: InstanceId(last),
            spec: Arc::new(spec),
        });
    }

    fn end(&mut self, id: u64, verdict: Verdict) {
        self.push(ended(id, verdict));
    }

    fn array(&mut self, first: u64, last: u64) {
        let array = Array {
            first: InstanceId(first),
            from: 0,
        };
        self.submit(
            first,
            last,
            InstanceSpec {
                array: Some(array),
                ..spec("sweep")
            },
        );
    }

    /// Follows to the end, in pages of these sizes; a leader dies before it stores where `dies` says so.
    fn follow(&mut self, rules: &Rules, mut page: impl FnMut() -> (usize, bool)) {
        while (self.position as usize) < self.facts.len() {
            let mut notifier = Notifier::restore(rules.clone(), &self.rows, self.position);
            loop {
                let (size, dies) = page();
                let from = notifier.seq as usize;
                let to = (from + size.max(1)).min(self.facts.len());
                for at in from..to {
                    self.show(&mut notifier, at);
                }
                notifier.passed(to as u64, time(to));
                if dies {
                    break;
                }
                self.store(notifier.take(), to as u64);
                if to == self.facts.len() {
                    break;
                }
            }
        }
    }

    fn follow_all(&mut self, rules: &Rules) -> Vec<Notice> {
        self.follow(rules, || (7, false));
        let notices = std::mem::take(&mut self.notices);
        notices.into_iter().map(|raised| raised.notice).collect()
    }

    fn show(&self, notifier: &mut Notifier, at: usize) {
        let fact = &self.facts[at];
        // The store is ahead: it counts what the follower has not seen yet.
        let last = self.facts.len();
        for (first, end) in notifier.uncertain(fact) {
            let live = self.live.range(first.0..=end.0).count();
            notifier.anchor(first, live as u64, last as u64);
        }
        let context = match notifier.need(fact) {
            Need::Nothing => Context::Nothing,
            Need::Instance(id) => Context::Instance(Arc::clone(&self.specs[&id.0])),
            Need::Run(_) => Context::Run(RunContext {
                name: "etl".to_owned(),
                owner: "a".to_owned(),
                origin: None,
                rule: None,
                items: Some(40),
            }),
            Need::Entry(_) => Context::Entry {
                name: TaskName {
                    owner: "a".to_owned(),
                    name: "nightly".to_owned(),
                },
                rule: None,
            },
        };
        let seen = Observation {
            seq: at as u64 + 1,
            at: time(at),
            epoch: Epoch(7),
            fact,
        };
        notifier.handle(seen, &context);
    }

    fn store(&mut self, changes: Changes, position: u64) {
        for (name, body) in changes.rows {
            match body {
                Some(body) => self.rows.insert(name, body),
                None => self.rows.remove(&name),
            };
        }
        self.notices.extend(changes.notices);
        self.position = position;
    }
}

fn time(at: usize) -> Wall {
    Wall(1_000_000 + at as u64)
}

fn spec(name: &str) -> InstanceSpec {
    InstanceSpec {
        name: name.to_owned(),
        owner: "a".to_owned(),
        ..InstanceSpec::default()
    }
}

fn of_entry(number: u64, rule: Option<NotifyRule>) -> InstanceSpec {
    InstanceSpec {
        origin: Some(Origin {
            task: TaskNo(number),
            revision: baton_model::ids::Revision(1),
            due: None,
        }),
        notify: rule,
        ..spec("nightly")
    }
}

fn ended(id: u64, verdict: Verdict) -> Fact {
    let code = i32::from(verdict != Verdict::Done);
    Fact::AttemptEnded {
        lease: LeaseId {
            attempt: AttemptId {
                instance: InstanceId(id),
                number: AttemptNo(1),
            },
            epoch: Epoch(7),
        },
        end: AttemptEnd::Real(Outcome::Exited(code)),
        verdict,
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: (code > 0).then(|| "no such table\n".into()),
        progress: None,
    }
}

fn rules(routes: Vec<Route>) -> Rules {
    Rules {
        routes,
        rates: [("ops".to_owned(), 1_000_000)].into(),
    }
}

fn route(on: &[NoticeKind]) -> Route {
    Route {
        channels: vec!["ops".to_owned()],
        on: on.to_vec(),
        ..Route::default()
    }
}

const FAILURES: &[NoticeKind] = &[NoticeKind::Failed, NoticeKind::Recovered];

fn titles(notices: &[Notice]) -> Vec<&str> {
    notices.iter().map(|notice| &*notice.title).collect()
}

#[test]
fn only_the_last_attempt_is_told() {
    let mut store = Store::default();
    store.submit(1, 1, spec("job"));
    store.end(1, Verdict::Requeued);
    store.end(1, Verdict::Requeued);
    store.end(1, Verdict::GaveUp);
    store.push(Fact::InstanceRetried {
        instance: InstanceId(1),
    });
    store.end(1, Verdict::Done);
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(
        titles(&told),
        [
            "a/job failed: exit 1",
            "a/job succeeded again, after a failure"
        ]
    );
    assert_eq!(told[0].command.as_deref(), Some("baton retry i1"));
    assert_eq!(told[0].stderr.as_deref(), Some("no such table\n"));
    assert_eq!(told[0].path.as_deref(), Some("/instances/i1"));
    assert_eq!(told[0].series, told[1].series);
}

#[test]
fn failures_in_a_row_are_those_of_the_entry() {
    let mut store = Store::default();
    for id in 1..=6 {
        store.submit(id, id, of_entry(3, None));
        let failed = [1, 2, 3, 4].contains(&id);
        store.end(
            id,
            if failed {
                Verdict::GaveUp
            } else {
                Verdict::Done
            },
        );
    }
    let third = Route {
        after: Some(3),
        ..route(FAILURES)
    };
    let told = store.follow_all(&rules(vec![third]));
    assert_eq!(
        titles(&told),
        [
            "a/nightly failed 3 times in a row: exit 1",
            "a/nightly succeeded again, after 4 failures in a row",
        ]
    );
}

#[test]
fn a_recovery_is_told_to_whom_the_failure_was() {
    let mut store = Store::default();
    store.submit(1, 1, of_entry(3, None));
    store.end(1, Verdict::GaveUp);
    store.submit(2, 2, of_entry(3, None));
    store.end(2, Verdict::Done);
    let second = Route {
        after: Some(2),
        ..route(FAILURES)
    };
    assert!(store.follow_all(&rules(vec![second])).is_empty());
}

#[test]
fn routes_choose_by_owner_entry_and_tags() {
    let fits = |route: Route| {
        let mut store = Store::default();
        let tags = vec!["gpu".to_owned(), "night".to_owned()];
        store.submit(
            1,
            1,
            InstanceSpec {
                tags,
                ..spec("job")
            },
        );
        store.end(1, Verdict::GaveUp);
        !store.follow_all(&rules(vec![route])).is_empty()
    };
    let text = |text: &str| Some(text.to_owned());
    let base = || route(FAILURES);
    assert!(fits(base()));
    assert!(fits(Route {
        owner: text("a"),
        ..base()
    }));
    assert!(!fits(Route {
        owner: text("b"),
        ..base()
    }));
    assert!(fits(Route {
        entry: text("a/job"),
        ..base()
    }));
    assert!(!fits(Route {
        entry: text("a/other"),
        ..base()
    }));
    assert!(fits(Route {
        tags: vec!["gpu".to_owned()],
        ..base()
    }));
    assert!(!fits(Route {
        tags: vec!["cpu".to_owned()],
        ..base()
    }));
    assert!(!fits(route(&[NoticeKind::Recovered])));
}

#[test]
fn an_entry_names_its_own_channels() {
    let rule = NotifyRule {
        channels: vec!["ops".to_owned(), "gone".to_owned()],
        on: vec![NoticeKind::Failed],
        after: None,
    };
    let mut store = Store::default();
    store.submit(1, 1, of_entry(3, Some(rule)));
    store.end(1, Verdict::GaveUp);
    store.follow(&rules(Vec::new()), || (9, false));
    let expected = [
        ("gone".to_owned(), Recipient::Unknown),
        ("ops".to_owned(), Recipient::Deliver),
    ];
    assert_eq!(store.notices.len(), 1);
    assert_eq!(store.notices[0].recipients, expected.into());
}

#[test]
fn an_array_is_told_once() {
    let mut store = Store::default();
    store.array(1, 5_000);
    for id in 1..=5_000 {
        let failed = id % 100 == 7;
        store.end(
            id,
            if failed {
                Verdict::GaveUp
            } else {
                Verdict::Done
            },
        );
    }
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(titles(&told), ["a/sweep: 50 of 5,000 failed"]);
    assert_eq!(told[0].subject, "i1..i5000");
    assert_eq!(told[0].examples[0], "i7: exit 1");
    assert_eq!(told[0].examples.len(), EXAMPLES_MAX);
    assert!(store.rows.contains_key("array:1"), "it may be retried");
}

#[test]
fn retried_elements_are_a_round_of_their_own() {
    let mut store = Store::default();
    store.array(1, 4);
    store.end(1, Verdict::Done);
    store.end(2, Verdict::GaveUp);
    store.end(3, Verdict::GaveUp);
    store.end(4, Verdict::Done);
    let retry = |store: &mut Store, ids: &[u64]| {
        for id in ids {
            store.push(Fact::InstanceRetried {
                instance: InstanceId(*id),
            });
        }
    };
    retry(&mut store, &[2, 3]);
    store.end(3, Verdict::GaveUp);
    store.end(2, Verdict::Done);
    retry(&mut store, &[3]);
    store.end(3, Verdict::Done);
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(
        titles(&told),
        [
            "a/sweep: 2 of 4 failed",
            "a/sweep: 1 of 2 retried failed 2 times in a row",
            "a/sweep succeeded again, after 2 failures in a row",
        ]
    );
    assert_eq!(store.rows.keys().collect::<Vec<_>>(), ["channel:ops"]);
}

#[test]
fn a_cancelled_array_ends_with_what_has_failed() {
    let mut store = Store::default();
    store.array(1, 10);
    store.end(1, Verdict::GaveUp);
    store.push(Fact::InstancesHalted {
        first: InstanceId(3),
        last: InstanceId(10),
        reason: None,
    });
    // What ran goes on.
    store.end(2, Verdict::GaveUp);
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(titles(&told), ["a/sweep: 2 of 10 failed"]);
}

#[test]
fn an_array_of_items_is_one_array() {
    let mut store = Store::default();
    for id in 1..=3 {
        let array = Array {
            first: InstanceId(1),
            from: 0,
        };
        let env = [("BATON_ITEM".to_owned(), id.to_string())].into();
        let spec = InstanceSpec {
            env,
            array: Some(array),
            ..spec("sweep")
        };
        store.submit(id, id, spec);
    }
    (1..=3).for_each(|id| store.end(id, Verdict::GaveUp));
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(titles(&told), ["a/sweep: 3 of 3 failed"]);
}

#[test]
fn a_run_is_told_as_a_whole() {
    let mut store = Store::default();
    let part = |item| Part {
        run: RunId(2),
        generation: Generation(1),
        task: 0,
        item,
    };
    for id in 1..=4 {
        let part = Some(part(u32::try_from(id).expect("small")));
        store.submit(
            id,
            id,
            InstanceSpec {
                part,
                ..spec("etl")
            },
        );
    }
    let run_ended = |generation, state| Fact::RunEnded {
        run: RunId(2),
        generation: Generation(generation),
        state,
    };
    (1..=3).for_each(|id| store.end(id, Verdict::GaveUp));
    store.push(run_ended(1, UniversalState::Failed));
    store.end(4, Verdict::Done);
    store.push(run_ended(2, UniversalState::Done));
    let told = store.follow_all(&rules(vec![route(FAILURES)]));
    assert_eq!(
        titles(&told),
        [
            "a/etl failed: 3 of 40 items failed",
            "a/etl succeeded again, after a failure",
        ]
    );
    assert_eq!(told[0].command.as_deref(), Some("baton retry r2"));
    assert_eq!(told[0].reason.as_deref(), Some("exit 1"));
}

#[test]
fn due_times_are_missed_unless_a_person_wanted_that() {
    let mut store = Store::default();
    for reason in [SkipReason::Missed, SkipReason::Paused] {
        store.push(Fact::Launched {
            entry: TaskNo(3),
            revision: baton_model::ids::Revision(1),
            cause: Cause::Due {
                first: Wall(1_790_000_000_000),
                last: Wall(1_790_000_060_000),
                count: 2,
            },
            verdict: TickVerdict::Skip(reason),
            execution: None,
        });
    }
    let told = store.follow_all(&rules(vec![route(&[NoticeKind::Missed])]));
    assert_eq!(told.len(), 1);
    let title = &told[0].title;
    assert!(
        title.starts_with("a/nightly was not launched for 2 due times from 2026-"),
        "{title}"
    );
}

#[test]
fn beyond_its_rate_a_channel_gets_one_digest() {
    let few = Rules {
        rates: [("ops".to_owned(), 2)].into(),
        ..rules(vec![route(FAILURES)])
    };
    let mut store = Store::default();
    for id in 1..=10 {
        store.submit(id, id, spec("job"));
        store.end(id, Verdict::GaveUp);
    }
    store.follow(&few, || (3, false));
    let sent = store.notices.iter();
    let sent = sent.filter(|raised| raised.recipients["ops"] == Recipient::Deliver);
    assert_eq!((sent.count(), store.notices.len()), (2, 10));
    let mut next = Notifier::restore(few, &store.rows, store.position);
    let due = next.next_due().expect("a digest waits");
    next.tick(Wall(due.0 - 1));
    assert!(next.take().is_empty());
    next.tick(due);
    let digest = next.take().notices.remove(0);
    assert_eq!(digest.notice.title, "8 more notifications: 8 failed");
    assert_eq!(digest.notice.examples.len(), 8);
    assert_eq!(digest.recipients["ops"], Recipient::Deliver);
    assert_eq!(next.next_due(), None);
}

/// Random work: single instances of entries, arrays that are cancelled and retried, and runs.
fn random_history(random: &mut Rng) -> Store {
    let mut store = Store::default();
    let mut next = 1;
    for _ in 0..60 {
        match random.below(5) {
            0 => {
                let size = 1 + random.below(6);
                store.array(next, next + size - 1);
                next += size;
            }
            1 => {
                store.submit(next, next, of_entry(1 + random.below(3), None));
                next += 1;
            }
            2 if next > 1 => {
                let first = 1 + random.below(next - 1);
                let last = first + random.below(next - first);
                store.push(Fact::InstancesHalted {
                    first: InstanceId(first),
                    last: InstanceId(last),
                    reason: None,
                });
            }
            3 if next > 1 => {
                let id = 1 + random.below(next - 1);
                if !store.live.contains(&id) {
                    store.push(Fact::InstanceRetried {
                        instance: InstanceId(id),
                    });
                }
            }
            _ => {
                let live = store.live.clone();
                for id in live {
                    match random.below(4) {
                        0 => store.end(id, Verdict::GaveUp),
                        1 => store.end(id, Verdict::Done),
                        2 => store.end(id, Verdict::Requeued),
                        _ => {}
                    }
                }
            }
        }
    }
    store
}

/// Leaders that die before or after any page neither lose nor double a notice, and those that follow say
/// the same in the same order.
#[test]
fn leader_changes_neither_lose_nor_double_a_notice() {
    let rules = rules(vec![route(FAILURES)]);
    for seed in 0..300 {
        let mut random = Rng::new(seed);
        let mut calm = random_history(&mut random);
        let mut stormy = Store {
            facts: calm.facts.clone(),
            specs: calm.specs.clone(),
            live: calm.live.clone(),
            ..Store::default()
        };
        calm.follow(&rules, || (usize::MAX >> 1, false));
        let mut steps = 0;
        stormy.follow(&rules, || {
            steps += 1;
            let dies = steps < 500 && random.below(3) == 0;
            (1 + random.below(9) as usize, dies)
        });
        let told = |store: &Store| {
            let notices = store.notices.iter();
            let told = notices.map(|raised| (raised.notice.title.clone(), raised.notice.counts));
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(&calm), told(&stormy), "seed {seed}");
        let keys: BTreeSet<&str> = stormy.notices.iter().map(|it| &*it.notice.key).collect();
        assert_eq!(keys.len(), stormy.notices.len(), "seed {seed}");
        assert_eq!(calm.rows, stormy.rows, "seed {seed}");
    }
}

fn alarm(kind: AlarmKind, subject: Subject) -> Fact {
    Fact::AlarmRaised(Box::new(Alarm {
        kind,
        subject,
        at: Wall(7),
        owner: "a".into(),
        name: "nightly".into(),
        reason: "has not ended by its deadline".into(),
    }))
}

#[test]
fn alarms_are_told_in_the_series_of_their_entry() {
    let one = Subject::Instances {
        first: InstanceId(1),
        last: InstanceId(1),
    };
    let mut store = Store::default();
    let rule = NotifyRule {
        channels: vec!["ops".to_owned()],
        on: vec![NoticeKind::Failed, NoticeKind::Late],
        after: None,
    };
    store.submit(1, 1, of_entry(3, Some(rule)));
    store.push(alarm(AlarmKind::Late, one));
    // No route asks for these.
    store.push(alarm(AlarmKind::Slow, one));
    store.push(alarm(AlarmKind::Late, Subject::Run(RunId(9))));
    store.end(1, Verdict::GaveUp);
    let told = store.follow_all(&rules(Vec::new()));
    assert_eq!(
        titles(&told),
        [
            "a/nightly has not ended by its deadline",
            "a/nightly failed: exit 1",
        ]
    );
    assert_eq!(told[0].kind, NoticeKind::Late);
    assert_eq!(told[0].series, told[1].series);
    assert_eq!(told[0].command.as_deref(), Some("baton show i1"));
    assert_eq!(told[0].path.as_deref(), Some("/instances/i1"));
}

#[test]
fn each_kind_of_alarm_has_a_kind_of_notice() {
    let kinds = [
        (AlarmKind::Late, NoticeKind::Late),
        (AlarmKind::Stuck, NoticeKind::Stuck),
        (AlarmKind::Slow, NoticeKind::Unusual),
        (AlarmKind::Short, NoticeKind::Unusual),
    ];
    for (alarm_kind, kind) in kinds {
        let mut store = Store::default();
        store.push(alarm(alarm_kind, Subject::Run(RunId(9))));
        let told = store.follow_all(&rules(vec![route(&[kind])]));
        assert_eq!(told.len(), 1, "{alarm_kind}");
        assert_eq!(told[0].subject, "r9");
        assert_eq!(told[0].path.as_deref(), Some("/runs/r9"));
    }
}
