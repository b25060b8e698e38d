//! Who runs after whom, and how many at once.

use super::*;

#[test]
fn a_diamond_of_three_tiers_runs_tier_by_tier() {
    let mut rig = Rig::new(task(vec![
        process("top"),
        after("left", &["top"]),
        after("right", &["top"]),
        after("bottom", &["left", "right"]),
    ]));
    assert_eq!(rig.launched(), ["top"]);
    rig.exit("top", 0);
    assert_eq!(rig.launched(), ["left", "right"]);
    rig.exit("right", 0);
    assert_eq!(rig.launched(), names(&[]), "left is not over");
    assert_eq!(
        rig.wait("bottom"),
        Some(Wait::Dependencies(vec![(
            rig.no("left"),
            Condition::Success
        )]))
    );
    rig.exit("left", 0);
    assert_eq!(rig.launched(), ["bottom"]);
    rig.exit("bottom", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn times_of_a_run_are_in_order() {
    let mut rig = Rig::new(task(vec![process("a"), process("b")]));
    rig.now += 5;
    rig.start("a");
    rig.now += 5;
    rig.exit("a", 0);
    let last = rig.at("a").last.unwrap();
    let started = last.started.unwrap();
    assert_eq!(last.ordered.mono, Mono(1_000));
    assert_eq!(started.mono, Mono(1_005));
    assert_eq!(last.ended.mono, Mono(1_010));
    assert_eq!(last.ended.wall, Wall(1_010 + WALL_AHEAD));
}

#[test]
fn a_concurrency_of_one_serialises_in_the_order_of_definition() {
    let mut spec = task(vec![process("c"), process("a"), process("b")]);
    spec.max_concurrency = 1;
    let mut rig = Rig::new(spec);
    assert_eq!(rig.plan.live().count(), 1);
    assert_eq!(rig.wait("a"), Some(Wait::Concurrency));
    assert_eq!(rig.wait("c"), Some(Wait::Launch));
    assert_eq!(rig.run_all(|_, _| 0), ["c", "a", "b"]);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn the_process_with_the_fewest_runs_starts_first_so_none_starves() {
    let mut spec = task(vec![process("a"), process("b"), process("c")]);
    spec.max_concurrency = 1;
    spec.processes[0].daemon = true;
    spec.processes[0].ephemeral = true;
    let mut rig = Rig::new(spec);
    for name in ["a", "b", "c"] {
        assert_eq!(
            rig.launched(),
            [name],
            "first runs in the order of definition"
        );
        rig.exit(name, 0);
    }
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_pause_delays_no_other_process() {
    let mut spec = task(vec![process("a"), process("b"), process("c")]);
    spec.max_concurrency = 1;
    spec.processes[0].max_failures = 2;
    spec.processes[0].min_duration = Millis(50);
    let mut rig = Rig::new(spec);
    rig.exit("a", 1);
    assert_eq!(rig.launched(), ["a", "b"]);
    assert_eq!(rig.plan.next_due(), None, "without room no pause matters");
    rig.now += 100;
    rig.exit("b", 0);
    rig.exit("c", 0);
    assert_eq!(rig.launched(), ["c", "a"]);
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn the_limit_holds_for_each_plan_on_its_own() {
    let mut spec = task(vec![process("a"), last("x", &[]), last("y", &[])]);
    spec.max_concurrency = 1;
    let mut rig = Rig::new(spec);
    assert_eq!(rig.wait("x"), Some(Wait::Turn));
    assert_eq!(rig.run_all(|_, _| 0), ["a", "x", "y"]);
}

#[test]
fn a_task_without_regular_processes_succeeds_at_once() {
    let mut rig = Rig::new(task(vec![last("x", &[])]));
    assert_eq!(rig.launched(), ["x"]);
    rig.exit("x", 1);
    rig.assert_finished(AttemptState::Success);
    Rig::new(task(vec![])).assert_finished(AttemptState::Success);
}

#[test]
fn a_thousand_processes_with_a_retry_each_take_three_events_a_run() {
    let mut processes = vec![process("first")];
    for index in 0..1_000 {
        let mut process = after(&format!("p{index}"), &["first"]);
        process.max_failures = 0;
        processes.push(process);
    }
    let mut spec = task(processes);
    spec.max_concurrency = 10;
    let mut plan = Plan::new(Arc::new(spec), now(0)).unwrap();
    let _ = plan.handle(now(0), Input::Tick);
    let mut events = 0;
    loop {
        let first = plan.live().map(|(no, live)| (no, live.run)).next();
        let Some((process, run)) = first else { break };
        let code = i32::from(run.0 == 0 && process.0 > 0);
        let step = plan.handle(
            now(0),
            Input::Exited {
                process,
                run,
                at: now(0),
                outcome: Outcome::Exited(code),
                random: 0,
            },
        );
        events += step.facts().len();
    }
    assert_eq!(plan.outcome(), Some(AttemptState::Success));
    assert_eq!(
        events,
        3 * 2_001 - 1 + 3,
        "order, start, end; and the three phases"
    );
}
