//! Random tasks under random events: the invariants of the plan, held after every
//! step, and the log held against the live plan after every record.

use std::collections::BTreeSet;

use super::world::World;
use super::*;
use baton_model::task::{Backoff, Disposition};
use baton_testing::Rng;

const SEEDS: u64 = 1_500;

/// A task of up to nine processes. `kind`: every process can end, and with success.
fn random_task(rng: &mut Rng, kind: bool) -> TaskSpec {
    let count = 1 + rng.below(9) as usize;
    let mut processes: Vec<ProcessSpec> = Vec::new();
    for index in 0..count {
        let mut one = process(&format!("p{index}"));
        one.is_final = rng.chance(25);
        one.ephemeral = rng.chance(20);
        one.daemon = rng.chance(15) && (!kind || one.ephemeral);
        one.max_failures = rng.below(4) as u32;
        one.min_duration = Millis(rng.below(3) * 50);
        one.timeout = rng.chance(20).then(|| Millis(1 + rng.below(400)));
        one.retryable = rng.chance(20).then(|| vec![1]);
        one.ready = rng.chance(20).then(check);
        one.health = rng.chance(20).then(check);
        one.backoff = rng.chance(30).then(|| Backoff {
            first: Millis(rng.below(50)),
            growth_percent: 150,
            max: Millis(200),
            jitter_percent: 50,
        });
        if kind {
            one.timeout = None;
        }
        for other in &processes {
            let fits = other.is_final == one.is_final && (one.ephemeral || !other.ephemeral);
            if fits && rng.chance(35) {
                one.after
                    .push(on(&other.name.0, condition(rng, other, kind)));
            }
        }
        processes.push(one);
    }
    let mut spec = task(processes);
    spec.max_failures = rng.below(3) as u32;
    spec.max_concurrency = rng.below(4) as u32;
    spec.finalization_wait = Millis(rng.below(4) * 500);
    if kind {
        spec.finalization_wait = Millis(1_000_000);
    }
    spec
}

fn condition(rng: &mut Rng, other: &ProcessSpec, kind: bool) -> Condition {
    // A kind process may end before it was ever asked whether it is ready.
    let weak = [Condition::Started, Condition::Healthy];
    let all = [Condition::Success, Condition::Exit, weak[0], weak[1]];
    let picked = if other.daemon {
        weak[rng.below(2) as usize]
    } else {
        all[rng.below(4) as usize]
    };
    if kind && picked == Condition::Healthy {
        return Condition::Started;
    }
    picked
}

fn random_action(world: &mut World) {
    match world.rng.below(200) {
        0..=69 => world.deliver(),
        70..=139 => world.happen(false),
        140..=179 => world.pass_time(true),
        180..=185 => world.recover(false),
        186..=193 => world.deliver_and_crash(),
        194 => world.recover(true),
        195 => {
            let grace = Some(Millis(world.rng.below(1_000)));
            world.feed(Input::Kill { grace });
        }
        196 => world.feed_and_crash(Input::Kill { grace: None }),
        197 if world.rng.chance(30) => world.feed_and_crash(Input::KillNow),
        198 if world.rng.chance(30) => world.feed(Input::KillNow),
        199 if world.rng.chance(10) => world.feed(Input::GiveUp),
        _ => {}
    }
}

/// Everything goes well from here on.
fn calm_down(world: &mut World, rounds: usize) {
    for _ in 0..rounds {
        if world.finished.is_some() {
            return;
        }
        world.deliver();
        world.happen(true);
        let idle = world.is_idle();
        if idle || world.rng.chance(30) {
            world.pass_time(idle);
        }
    }
}

#[test]
fn random_tasks_under_faults_keep_every_invariant_and_come_to_an_end() {
    let mut endings = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let spec = random_task(&mut rng, false);
        let mut world = World::new(rng.next(), spec);
        world.feed(Input::Tick);
        for _ in 0..150 {
            random_action(&mut world);
        }
        calm_down(&mut world, 500);
        if world.finished.is_none() {
            // A daemon, or a process that waits for the health of one.
            world.feed(Input::Kill { grace: None });
            calm_down(&mut world, 2_000);
        }
        assert!(world.finished.is_some(), "seed {seed} does not end");
        endings.extend(world.finished);
    }
    assert_eq!(endings.len(), 4, "every way to end was seen: {endings:?}");
}

#[test]
fn random_tasks_that_always_succeed_end_in_success_each_process_once() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let spec = random_task(&mut rng, true);
        let mut world = World::new(rng.next(), spec);
        world.feed(Input::Tick);
        for round in 0..2_000 {
            if round % 50 == 49 {
                world.deliver_and_crash();
            }
            calm_down(&mut world, 1);
        }
        let snapshot = world.plan.snapshot();
        let ended = world.finished;
        assert_eq!(ended, Some(AttemptState::Success), "{seed}: {snapshot:#?}");
        for view in world.plan.processes(now(0)) {
            if !view.spec.ephemeral {
                assert_eq!(view.progress.runs, 1, "seed {seed}: {}", view.spec.name);
                assert_eq!(view.progress.disposition, Disposition::Finished);
            }
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_log() {
    let run = |seed: u64| {
        let mut rng = Rng::new(seed);
        let spec = random_task(&mut rng, false);
        let mut world = World::new(rng.next(), spec);
        for _ in 0..200 {
            random_action(&mut world);
        }
        world.plan.snapshot()
    };
    for seed in 0..50 {
        assert_eq!(run(seed), run(seed));
    }
}
