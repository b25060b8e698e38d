//! Workers on which unrelated work fails.

use baton_model::limits::{
    SUSPICION_FAILURES_MIN, SUSPICION_MEMORY, SUSPICION_PAUSE, SUSPICION_PAUSE_MAX,
    SUSPICION_TRIALS,
};
use baton_model::outcome::Outcome;
use baton_model::placement::{Constraint, Rule, Suspicion};
use baton_model::spec::RetryBudget;

use super::placing::rig;
use super::*;
use crate::wait::Exclusion;

/// Two workers, and the id of the next instance.
struct Pair {
    leader: Leader,
    workers: [Remote; 2],
    id: u64,
}

const SICK: usize = 0;
const WELL: usize = 1;

impl Pair {
    fn new() -> Self {
        let (mut leader, _) = rig();
        // No worker becomes silent in this test.
        let timeouts = &mut leader.core.config.timeouts;
        (timeouts.heartbeat_gap, timeouts.check_gap) = (Millis(u64::MAX / 4), Millis(u64::MAX / 4));
        let workers = [("sick", 8), ("well", 9)].map(|(name, lineage)| {
            let mut worker = Remote::new(name, lineage, 1);
            let labels = [("is".to_owned(), name.to_owned())];
            worker.offer = Arc::new(Offer {
                labels: labels.into(),
                ..Offer::default()
            });
            worker.slots = 100;
            leader.welcome(&mut worker, &[]);
            worker
        });
        Self {
            leader,
            workers,
            id: 0,
        }
    }

    /// Submits work that only this worker takes.
    fn submit(&mut self, at: usize, name: &str) -> u64 {
        let worker = &self.workers[at].holder.worker;
        let mut spec = InstanceSpec {
            name: name.to_owned(),
            retry: RetryBudget {
                failures_max: 0,
                ..RetryBudget::default()
            },
            ..InstanceSpec::default()
        };
        spec.request.constraints = vec![Constraint {
            label: "is".to_owned(),
            rule: Rule::OneOf([worker.to_string()].into()),
        }];
        self.id += 1;
        self.leader.submit_as(self.id, submission(&spec, None));
        self.id
    }

    fn end(&mut self, at: usize, id: u64, code: i32) {
        let outcome = Outcome::Exited(code);
        self.leader.ends(&self.workers[at], &[id], outcome, 10);
    }

    fn run(&mut self, at: usize, name: &str, code: i32) {
        let id = self.submit(at, name);
        self.end(at, id, code);
    }

    fn suspicion(&self, at: usize) -> Option<Suspicion> {
        self.leader.core.suspicion(&self.workers[at].holder.worker)
    }

    fn is_placed(&self, id: u64) -> bool {
        self.leader.state(id) == UniversalState::Launched
    }

    /// The changes that operators are told of.
    fn told(&self) -> Vec<bool> {
        let facts = self.leader.facts.iter();
        let told = facts.filter_map(|fact| match fact {
            Fact::WorkerSuspected { suspicion, .. } => Some(suspicion.is_some()),
            _ => None,
        });
        told.collect()
    }

    /// Lets many kinds of work fail on one worker that succeed on the other.
    fn make_suspicious(&mut self) {
        for name in names() {
            self.run(WELL, &name, 0);
        }
        for name in names() {
            assert_eq!(self.suspicion(SICK), None, "{name}");
            self.run(SICK, &name, 1);
        }
    }
}

fn names() -> impl Iterator<Item = String> {
    (1..=SUSPICION_FAILURES_MIN).map(|number| format!("task-{number}"))
}

#[test]
fn a_worker_on_which_unrelated_work_fails_is_tried_in_turn() {
    let mut pair = Pair::new();
    pair.make_suspicious();
    let suspicion = pair.suspicion(SICK).expect("it is suspicious");
    let text = "5 of the last 5 different tasks failed there, and 0 of 5 elsewhere";
    assert_eq!(suspicion.to_string(), text);
    let (first, second) = (pair.submit(SICK, "a"), pair.submit(SICK, "b"));
    let groups = pair.leader.waits(first).workers;
    let exclusions: Vec<_> = groups.iter().map(|it| it.exclusion.clone()).collect();
    assert!(
        exclusions.contains(&Some(Exclusion::Suspicious)),
        "{exclusions:?}"
    );
    pair.leader.wait(SUSPICION_PAUSE.saturating_sub(Millis(1)));
    assert!(!pair.is_placed(first));
    pair.leader.wait(Millis(1));
    assert!(pair.is_placed(first) && !pair.is_placed(second));
    pair.end(SICK, first, 1);
    pair.leader.wait(SUSPICION_PAUSE);
    assert!(!pair.is_placed(second), "the pause is twice as long");
    pair.leader.wait(SUSPICION_PAUSE);
    assert!(pair.is_placed(second));
    pair.end(SICK, second, 0);
    for trial in 2..=SUSPICION_TRIALS {
        assert_eq!(pair.told(), [true], "{trial}");
        pair.run(SICK, "a", 0);
    }
    assert_eq!(
        (pair.told(), pair.suspicion(SICK)),
        (vec![true, false], None)
    );
    let both = [pair.submit(SICK, "a"), pair.submit(SICK, "b")];
    assert!(both.into_iter().all(|id| pair.is_placed(id)));
}

#[test]
fn pauses_between_trials_are_bounded() {
    let mut pair = Pair::new();
    pair.make_suspicious();
    for _ in 0..20 {
        let id = pair.submit(SICK, "a");
        pair.leader.wait(SUSPICION_PAUSE_MAX);
        assert!(pair.is_placed(id));
        pair.end(SICK, id, 1);
    }
}

#[test]
fn a_trial_that_proves_nothing_is_repeated() {
    let mut pair = Pair::new();
    pair.make_suspicious();
    let (first, second) = (pair.submit(SICK, "a"), pair.submit(SICK, "b"));
    pair.leader.wait(SUSPICION_PAUSE);
    pair.leader.cancel_range(first, first);
    let killed = Outcome::Killed(baton_model::outcome::KillCause::Requested);
    pair.leader.ends(&pair.workers[SICK], &[first], killed, 10);
    assert!(pair.is_placed(second));
}

#[test]
fn an_array_that_fails_is_one_failure() {
    let mut pair = Pair::new();
    for name in names() {
        pair.run(WELL, &name, 0);
    }
    for _ in 0..100 {
        pair.run(SICK, "array", 1);
    }
    assert!(pair.told().is_empty());
}

#[test]
fn work_that_fails_everywhere_makes_no_worker_suspicious() {
    let mut pair = Pair::new();
    for name in names().chain(names()) {
        pair.run(WELL, &name, 1);
        pair.run(SICK, &name, 1);
    }
    assert!(pair.told().is_empty());
}

#[test]
fn a_worker_without_comparison_is_trusted() {
    let mut pair = Pair::new();
    for name in names() {
        pair.run(SICK, &name, 1);
    }
    assert!(pair.told().is_empty());
}

#[test]
fn old_failures_do_not_count() {
    let mut pair = Pair::new();
    for name in names() {
        pair.run(WELL, &name, 0);
    }
    for name in names() {
        pair.run(SICK, &name, 1);
        pair.leader.wait(Millis(SUSPICION_MEMORY.0 / 3));
    }
    assert!(pair.told().is_empty());
}

#[test]
fn an_operator_or_another_incarnation_ends_the_suspicion() {
    let undrain = |worker: &Remote| Command::Drain {
        worker: worker.holder.worker.clone(),
        drained: false,
    };
    let mut pair = Pair::new();
    pair.make_suspicious();
    let id = pair.submit(SICK, "a");
    let command = undrain(&pair.workers[SICK]);
    pair.leader.give(Input::command(RequestId(900), command));
    assert!(pair.is_placed(id));
    assert_eq!(pair.told(), [true, false]);
    let mut pair = Pair::new();
    pair.make_suspicious();
    let mut again = Remote::new("sick", 8, 2);
    again.offer = Arc::clone(&pair.workers[SICK].offer);
    pair.leader.welcome(&mut again, &[]);
    assert_eq!(pair.suspicion(SICK), None);
    let id = pair.submit(SICK, "a");
    assert!(pair.is_placed(id));
}
