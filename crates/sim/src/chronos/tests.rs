//! Short histories, each with one violation that the checker must report.

use std::sync::Arc;

use baton_model::fact::{Fact, Verdict as End};
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, Revision, TaskNo};
use baton_model::library::{
    Cause, Definition, Execution, IdempotencyKey, Rate, Schedule, TaskName, Trigger, TriggerSource,
};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::schedule::{CatchUp, Dst, SkipReason, TickVerdict};
use baton_model::spec::{Due, InstanceSpec, Origin};
use baton_model::time::{Millis, Mono, Now, Wall};

use super::check::{ClockCheck, Entry, History, check};
use super::tally::Tally;
use crate::checkers::Violation;

const HOUR: u64 = 3_600_000;
/// The first instant of 2026, as UTC.
const START: u64 = 1_767_225_600_000;

/// Builds a history of batches with wall times in hours.
#[derive(Default)]
struct HistoryBuilder {
    entries: Vec<Entry>,
    clock_checks: Vec<ClockCheck>,
}

impl HistoryBuilder {
    fn batch(mut self, hours: u64, facts: Vec<Fact>) -> Self {
        let batch = self.entries.last().map_or(0, |it| it.batch) + 1;
        let entries = facts.into_iter().map(|fact| Entry {
            epoch: Epoch(1),
            batch,
            now: Now {
                mono: Mono(hours * HOUR),
                wall: Wall(START + hours * HOUR),
            },
            fact,
        });
        self.entries.extend(entries);
        self
    }

    fn clock_check(mut self, hours: u64) -> Self {
        self.clock_checks.push(ClockCheck {
            after: self.entries.len(),
            wall: Wall(START + hours * HOUR),
        });
        self
    }

    fn check(&self) -> Result<Tally, Violation> {
        check(&History {
            entries: &self.entries,
            clock_checks: &self.clock_checks,
        })
    }

    #[track_caller]
    fn holds(&self) {
        assert!(self.check().is_ok(), "{:?}", self.check());
    }

    #[track_caller]
    fn violates(&self, checker: &str) {
        let found = self.check().expect_err("something is wrong");
        assert_eq!(found.checker, checker, "{}", found.what);
    }
}

fn named(number: u64) -> TaskName {
    TaskName {
        owner: "o".to_owned(),
        name: format!("t{number}"),
    }
}

/// Every hour, with half an hour of slack, unless the trigger specifies otherwise.
fn defined(number: u64, hours: u64, trigger: Trigger) -> Fact {
    Fact::TaskDefined {
        task: TaskNo(number),
        name: named(number),
        revision: Revision(1 + hours as u32),
        from: Wall(START + hours * HOUR),
        definition: Arc::new(Definition {
            source: "{}".into(),
            spec: Some(Arc::default()),
            trigger,
            ..Definition::default()
        }),
    }
}

fn hourly() -> Trigger {
    Trigger {
        schedule: Some(Schedule {
            text: "0 * * * *".to_owned(),
            zone: "UTC".to_owned(),
            dst: Dst::default(),
            slack: Millis(HOUR / 2),
            catch_up: CatchUp::Last,
            jitter: Millis(0),
        }),
        ..Trigger::default()
    }
}

fn tick(first: u64, last: u64, verdict: TickVerdict, instance: Option<u64>) -> Fact {
    Fact::Launched {
        entry: TaskNo(1),
        revision: Revision(1),
        cause: Cause::Due {
            first: Wall(START + first * HOUR),
            last: Wall(START + last * HOUR),
            count: last - first + 1,
        },
        verdict,
        execution: instance.map(|id| Execution::Instance(InstanceId(id))),
    }
}

fn skip(first: u64, last: u64, reason: SkipReason) -> Fact {
    tick(first, last, TickVerdict::Skip(reason), None)
}

fn submitted(id: u64, task: u64, due: Option<u64>) -> Fact {
    let mut spec = InstanceSpec {
        origin: Some(Origin {
            task: TaskNo(task),
            revision: Revision(1),
            due: due.map(|hours| Due {
                nominal: Wall(START + hours * HOUR),
                latest: Wall(START + hours * HOUR + HOUR / 2),
            }),
        }),
        ..InstanceSpec::default()
    };
    if due.is_some() {
        spec.env
            .insert("BATON_NOMINAL_TIME".to_owned(), String::new());
    }
    Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::new(spec),
    }
}

/// A launch of the hour, with its instance of the same number.
fn launch(hour: u64) -> Vec<Fact> {
    let record = tick(hour, hour, TickVerdict::Launch, Some(hour));
    vec![record, submitted(hour, 1, Some(hour))]
}

fn done(id: u64) -> Fact {
    Fact::AttemptEnded {
        lease: LeaseId {
            attempt: AttemptId {
                instance: InstanceId(id),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        },
        end: AttemptEnd::Real(Outcome::Exited(0)),
        verdict: End::Done,
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

fn with(trigger: Trigger) -> HistoryBuilder {
    HistoryBuilder::default().batch(0, vec![defined(1, 0, trigger)])
}

#[test]
fn a_launch_in_time_is_valid_and_a_missing_one_is_forgotten() {
    let history = || with(hourly()).batch(1, launch(1)).clock_check(1);
    history().holds();
    history().clock_check(2).violates("due-forgotten");
    with(hourly()).batch(2, launch(2)).violates("due-forgotten");
    history().batch(1, launch(1)).violates("due-twice");
    history().batch(1, launch(2)).violates("due-early");
}

#[test]
fn a_launch_and_its_instance_are_one_batch() {
    let [record, instance] = &launch(1)[..] else {
        panic!("two facts");
    };
    let history =
        |facts: &[&Fact]| with(hourly()).batch(1, facts.iter().copied().cloned().collect());
    history(&[record]).violates("record-alone");
    history(&[record])
        .batch(1, vec![instance.clone()])
        .violates("record-alone");
    history(&[instance]).violates("record-alone");
    history(&[record, &submitted(1, 1, Some(2))]).violates("record-alone");
    history(&[record, &submitted(1, 1, None)]).violates("record-alone");
    history(&[record, &submitted(1, 2, Some(1))]).violates("record-alone");
    let none = tick(1, 1, TickVerdict::Launch, None);
    with(hourly()).batch(1, vec![none]).violates("false-record");
}

#[test]
fn a_skip_needs_a_true_reason() {
    use SkipReason::{CatchUp, LaunchRate, MaxInstances, Missed, Replaced};
    let at = |hour, fact| with(hourly()).batch(hour, vec![fact]);
    at(3, skip(1, 2, Missed)).holds();
    at(3, skip(1, 3, Missed)).violates("false-verdict");
    at(1, skip(1, 1, CatchUp)).violates("false-verdict");
    at(3, skip(1, 2, CatchUp)).violates("false-verdict");
    at(1, skip(1, 1, MaxInstances { limit: 1 })).violates("false-verdict");
    at(1, skip(1, 1, LaunchRate)).violates("false-verdict");
    at(1, skip(1, 1, Replaced)).violates("record-alone");
    let gone = Fact::TaskRemoved {
        task: TaskNo(1),
        revision: Revision(1),
    };
    let replaced = vec![skip(1, 1, Replaced), gone.clone()];
    with(hourly()).batch(1, replaced).holds();
    with(hourly())
        .batch(1, vec![gone])
        .violates("due-forgotten");
}

#[test]
fn limits_hold_and_are_not_invented() {
    let one = || Trigger {
        max_instances: Some(1),
        ..hourly()
    };
    let full = || skip(2, 2, SkipReason::MaxInstances { limit: 1 });
    with(one())
        .batch(1, launch(1))
        .batch(2, vec![full()])
        .holds();
    with(one())
        .batch(1, launch(1))
        .batch(2, launch(2))
        .violates("limit-broken");
    let ended = || with(one()).batch(1, launch(1)).batch(1, vec![done(1)]);
    ended().batch(2, launch(2)).holds();
    ended().batch(2, vec![full()]).violates("false-verdict");
    let rate = |hours| Trigger {
        launch_rate: Some(Rate {
            count: 1,
            per: Millis(hours * HOUR),
        }),
        ..hourly()
    };
    let refused = || vec![skip(2, 2, SkipReason::LaunchRate)];
    with(rate(2))
        .batch(1, launch(1))
        .batch(2, refused())
        .holds();
    with(rate(2))
        .batch(1, launch(1))
        .batch(2, launch(2))
        .violates("limit-broken");
    with(rate(1))
        .batch(1, launch(1))
        .batch(2, launch(2))
        .holds();
    with(rate(1))
        .batch(1, launch(1))
        .batch(2, refused())
        .violates("false-verdict");
}

#[test]
fn each_end_is_followed_once_and_in_its_batch() {
    let after = Trigger {
        after: vec![named(1)],
        ..Trigger::default()
    };
    let begun = || {
        let history = with(hourly()).batch(0, vec![defined(2, 0, after.clone())]);
        history.batch(1, launch(1))
    };
    let follows = |of| Fact::Launched {
        entry: TaskNo(2),
        revision: Revision(1),
        cause: Cause::Upstream {
            execution: Execution::Instance(InstanceId(of)),
            at: Wall(START + HOUR),
        },
        verdict: TickVerdict::Launch,
        execution: Some(Execution::Instance(InstanceId(9))),
    };
    let launched = || {
        let mut fact = submitted(9, 2, None);
        if let Fact::InstancesSubmitted { spec, .. } = &mut fact {
            let env = &mut Arc::make_mut(spec).env;
            env.insert("BATON_AFTER".to_owned(), "i1".to_owned());
        }
        fact
    };
    begun()
        .batch(1, vec![done(1), follows(1), launched()])
        .holds();
    let untold = vec![done(1), follows(1), submitted(9, 2, None)];
    begun().batch(1, untold).violates("false-origin");
    begun().batch(1, vec![done(1)]).violates("record-alone");
    begun()
        .batch(1, vec![follows(1), launched()])
        .violates("false-follower");
    let other = vec![done(1), follows(7), launched()];
    begun().batch(1, other).violates("false-follower");
    let twice = vec![done(1), follows(1), launched(), follows(1)];
    begun().batch(1, twice).violates("false-follower");
}

#[test]
fn a_key_has_one_instance_and_a_revision_begins_where_it_must() {
    let keyed = |id| {
        let key = IdempotencyKey {
            key: (5, 5),
            request: id,
        };
        let triggered = Fact::Launched {
            entry: TaskNo(1),
            revision: Revision(1),
            cause: Cause::Request {
                source: TriggerSource::Manual,
                key: Some(key),
            },
            verdict: TickVerdict::Launch,
            execution: Some(Execution::Instance(InstanceId(id))),
        };
        vec![submitted(id, 1, None), triggered]
    };
    let history = || with(Trigger::default()).batch(1, keyed(1));
    history().holds();
    history().batch(2, keyed(2)).violates("key-twice");
    history()
        .batch(2, vec![submitted(1, 1, None)])
        .violates("launched-twice");
    // A new schedule begins now, an unchanged one where it is accounted for; these are swapped.
    let again = |trigger| {
        with(hourly())
            .batch(1, launch(1))
            .batch(2, vec![defined(1, 1, trigger)])
    };
    again(Trigger::default()).violates("false-start");
    again(hourly()).holds();
    let renamed = with(hourly()).batch(0, vec![defined(1, 0, hourly())]);
    renamed.violates("number-again");
}

#[test]
fn a_pause_skips_what_is_due_and_nothing_else() {
    let paused = || Fact::TaskPaused {
        task: TaskNo(1),
        at: Wall(START),
        reason: None,
    };
    let unpaused = || Fact::TaskUnpaused { task: TaskNo(1) };
    let skipped = |hour| vec![skip(hour, hour, SkipReason::Paused)];
    let during = || with(hourly()).batch(0, vec![paused()]);
    during().batch(1, skipped(1)).clock_check(1).holds();
    during().clock_check(1).violates("due-forgotten");
    during().batch(1, launch(1)).violates("pause-ignored");
    let missed = vec![skip(1, 1, SkipReason::Missed)];
    during().batch(3, missed).violates("pause-ignored");
    with(hourly())
        .batch(1, skipped(1))
        .violates("pause-ignored");
    // A new revision is paused as well; what was due is skipped before the pause ends.
    during()
        .batch(0, vec![defined(1, 0, hourly())])
        .violates("number-again");
    let mut again = defined(1, 0, hourly());
    if let Fact::TaskDefined { revision, .. } = &mut again {
        *revision = Revision(2);
    }
    let mut tick_of_two = skip(1, 1, SkipReason::Paused);
    if let Fact::Launched { revision, .. } = &mut tick_of_two {
        *revision = Revision(2);
    }
    let revised = || during().batch(0, vec![again.clone()]);
    revised().batch(1, vec![tick_of_two, unpaused()]).holds();
    revised()
        .batch(1, vec![unpaused()])
        .violates("due-forgotten");
}
