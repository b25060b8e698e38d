//! The oracle against the core on random plans, and the checkers against histories with one
//! violation.

use baton_core::workflow::{Dag, ItemResult, ItemState, Progress, compare, invalidate};
use baton_model::ids::{AttemptId, AttemptNo, Epoch, LeaseId};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;
use baton_model::workflow::{CarriedItems, Condition, Edges, PlanTask, Upstream};

use super::*;
use crate::plans;
use crate::rng::Rng;

const R1: RunId = RunId(1);

fn status(state: ItemState) -> ItemStatus {
    match state {
        ItemState::Waiting => ItemStatus::Waits,
        ItemState::Ready => ItemStatus::Ready,
        ItemState::Live => ItemStatus::Live,
        ItemState::Done => ItemStatus::Done,
        ItemState::Failed | ItemState::Halted => ItemStatus::Bad,
        ItemState::Skipped => ItemStatus::Skipped,
        ItemState::Blocked => ItemStatus::Blocked,
    }
}

/// Both agree on every item, after every end, in any order of ends, and after resumes with any
/// set of DONE items.
#[test]
fn the_oracle_and_the_core_agree_on_every_plan() {
    let mut rng = Rng::new(11);
    let mut compared = 0;
    for at in 0..1_000 {
        let plan = Arc::new(plans::draw(&mut rng, format!("flow{at}"), 0));
        let dag = Dag::new(Arc::clone(&plan));
        let mut row = Row::new(&plan, false);
        for _ in 0..rng.within(1, 3) {
            row.ends.retain(|_, end| *end == ItemEnd::Done);
            carry_out(&mut rng, &dag, &mut row, &mut compared);
        }
    }
    assert!(compared > 50_000, "{compared}");
}

fn carry_out(rng: &mut Rng, dag: &Dag, row: &mut Row, compared: &mut u64) {
    let ended = |ends: &std::collections::BTreeMap<ItemPosition, ItemEnd>| -> Vec<ItemResult> {
        let ends = ends.iter();
        ends.map(|((task, item), end)| ItemResult {
            task: *task,
            item: *item,
            end: *end,
            outputs: None,
        })
        .collect()
    };
    let mut progress = Progress::new(dag, [], ended(&row.ends));
    loop {
        for ((task, item), said) in row.oracle().all() {
            let state = progress.state(task, item).expect("an item of the plan");
            assert_eq!(said, status(state), "{task}.{item} of {}", row.describe());
            *compared += 1;
        }
        let live: Vec<_> = progress.live().collect();
        let rebuilt = Progress::new(dag, live.clone(), ended(&row.ends));
        assert_eq!(rebuilt, progress, "{}", row.describe());
        if let Some((task, item)) = progress.next_ready(dag) {
            let id = InstanceId(1 + u64::from(task) * 100 + u64::from(item));
            assert!(progress.start_item(dag, task, item, id));
            row.live.insert((task, item), id);
            continue;
        }
        if live.is_empty() {
            return;
        }
        let (task, item, _) = live[rng.below(live.len() as u64) as usize];
        let end = rng.pick(&[
            ItemEnd::Done,
            ItemEnd::Done,
            ItemEnd::Failed,
            ItemEnd::Halted,
        ]);
        row.live.remove(&(task, item));
        row.ends.insert((task, item), end);
        let outputs = None;
        let it = ItemResult {
            task,
            item,
            end,
            outputs,
        };
        progress.end_item(dag, &it);
    }
}

/// The core retains exactly the expected items of a changed plan.
#[test]
fn the_core_retains_the_expected_items() {
    let mut rng = Rng::new(12);
    let mut followed = 0;
    for at in 0..1_000 {
        let old = Arc::new(plans::draw(&mut rng, format!("flow{at}"), 0));
        let new = Arc::new(plans::change(&mut rng, &old));
        let mut row = Row::new(&old, false);
        for (place, _) in row.clone().oracle().all() {
            if rng.chance(700) {
                row.ends.insert(place, ItemEnd::Done);
            }
        }
        let right = retained::done_items(&old, &row.ends, Some(&new), None);
        let (before, after) = (Dag::new(Arc::clone(&old)), Dag::new(Arc::clone(&new)));
        let lengths = |task: u32| plans::count(&old.tasks[task as usize]);
        let carried = compare::compare(&before, &after, lengths).carried;
        let done = row.ends.keys().map(|(task, item)| ItemResult {
            task: *task,
            item: *item,
            end: ItemEnd::Done,
            outputs: None,
        });
        let undone =
            invalidate::stale_spans(&after, &compare::carry_over(done.collect(), &carried));
        let carried = invalidate::carried_without(carried, &undone);
        let is_followed = |it: &&CarriedItems| {
            let (was, is) = (
                &old.tasks[it.from.task as usize],
                &new.tasks[it.task as usize],
            );
            was.items != is.items && is.after.iter().any(|it| it.edges == Edges::Same)
        };
        followed += carried.iter().filter(is_followed).count();
        row.resume(Some(&new), &carried, &[]);
        let stays: BTreeSet<ItemPosition> = row.ends.keys().copied().collect();
        assert_eq!(stays, right, "{old:?} {new:?}");
    }
    assert!(followed > 10, "{followed} spans of changed lists were kept");
}

/// Two tasks, the second after the first.
fn pair() -> Arc<Plan> {
    let task = |name: &str, after: Vec<Upstream>| PlanTask {
        name: name.to_owned(),
        after,
        ..PlanTask::default()
    };
    let after = Upstream {
        task: 0,
        condition: Condition::Success,
        edges: Edges::All,
    };
    Arc::new(Plan {
        tasks: vec![task("a", vec![]), task("b", vec![after])],
        ..Plan::default()
    })
}

fn registered() -> Fact {
    Fact::RunRegistered {
        run: R1,
        at: Wall(0),
        plan: pair(),
        open: false,
        origin: None,
    }
}

fn begins(id: u64, generation: u32, task: u32) -> Fact {
    let part = Part {
        run: R1,
        generation: Generation(generation),
        task,
        item: 0,
    };
    Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::new(InstanceSpec {
            part: Some(part),
            ..InstanceSpec::default()
        }),
    }
}

fn ends(id: u64, verdict: Verdict) -> Fact {
    let attempt = AttemptId {
        instance: InstanceId(id),
        number: AttemptNo(1),
    };
    Fact::AttemptEnded {
        lease: LeaseId {
            attempt,
            epoch: Epoch(1),
        },
        end: AttemptEnd::Real(Outcome::Exited(0)),
        verdict,
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

fn over(generation: u32, state: UniversalState) -> Fact {
    Fact::RunEnded {
        run: R1,
        generation: Generation(generation),
        state,
    }
}

fn resumed() -> Fact {
    Fact::RunResumed {
        run: R1,
        generation: Generation(2),
        at: Wall(0),
        plan: None,
        carried: Vec::new(),
        rerun: Vec::new(),
    }
}

/// Returns the checker that detects the violation of a history.
fn noticed(checks: &mut RunChecks, story: &[Fact]) -> Option<&'static str> {
    let truth = Truth::default();
    let mut told = story.iter();
    told.find_map(|fact| checks.committed(fact, &truth).err())
        .map(|it| it.checker)
}

#[test]
fn each_checker_detects_its_violation() {
    use UniversalState as S;
    use Verdict as V;
    let halting = Fact::RunHalting {
        run: R1,
        mode: HaltMode::Drain,
        cause: HaltCause::Requested,
    };
    let stories: &[(&[Fact], Option<&str>)] = &[
        (
            &[
                begins(1, 1, 0),
                ends(1, V::Done),
                begins(2, 1, 1),
                ends(2, V::Done),
                over(1, S::Done),
            ],
            None,
        ),
        (&[begins(1, 1, 1)], Some("too-early")),
        (
            &[begins(1, 1, 0), ends(1, V::Done), begins(2, 1, 0)],
            Some("done-again"),
        ),
        (&[begins(1, 1, 0), begins(2, 1, 0)], Some("done-again")),
        (&[begins(1, 2, 0)], Some("generation")),
        (&[begins(1, 1, 0), over(1, S::Failed)], Some("generation")),
        (&[over(1, S::Done)], Some("run-end")),
        (
            &[begins(1, 1, 0), ends(1, V::GaveUp), over(1, S::Done)],
            Some("run-end"),
        ),
        (
            &[begins(1, 1, 0), ends(1, V::GaveUp), over(1, S::Halted)],
            Some("run-end"),
        ),
        (
            &[begins(1, 1, 0), ends(1, V::GaveUp), over(1, S::Failed)],
            None,
        ),
        (
            &[begins(1, 1, 0), ends(1, V::Done), over(1, S::Failed)],
            Some("run-end"),
        ),
        (&[begins(1, 1, 0), ends(1, V::Stopped)], Some("halt-broken")),
        (&[halting.clone(), begins(1, 1, 0)], Some("halt-broken")),
        (&[halting, over(1, S::Halted)], None),
        (
            &[
                begins(1, 1, 0),
                ends(1, V::GaveUp),
                over(1, S::Failed),
                resumed(),
            ],
            Some("resume-unasked"),
        ),
        (&[resumed()], Some("generation")),
    ];
    for (story, by) in stories {
        let mut checks = RunChecks::default();
        assert_eq!(noticed(&mut checks, &[registered()]), None);
        assert_eq!(noticed(&mut checks, story), *by, "{story:?}");
    }
}

#[test]
fn only_one_resume_of_a_generation_succeeds() {
    let mut checks = RunChecks::default();
    let story = [
        registered(),
        begins(1, 1, 0),
        ends(1, Verdict::GaveUp),
        over(1, UniversalState::Failed),
    ];
    assert_eq!(noticed(&mut checks, &story), None);
    checks.record_request(ResumeRequest {
        run: R1,
        seen: Generation(1),
        plan: None,
        rerun: None,
    });
    let (one, two) = (Generation(1), Generation(2));
    let early = checks
        .resume_answered(R1, one, two)
        .expect_err("not recorded");
    assert_eq!(early.checker, "lost-acknowledged");
    checks.resumed.clear();
    assert_eq!(noticed(&mut checks, &[resumed()]), None);
    checks.resume_answered(R1, one, two).expect("the first");
    let twice = checks
        .resume_answered(R1, one, two)
        .expect_err("the second");
    assert_eq!(twice.checker, "resumed-twice");
    let stale = checks
        .resume_answered(R1, one, Generation(3))
        .expect_err("stale");
    assert_eq!(stale.checker, "stale-accepted");
}
