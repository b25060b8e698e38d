//! Random operations against the model.

use baton_model::ids::InstanceId;
use baton_testing::Rng;

use super::world::{OWNERS, World, requests};
use super::*;
use crate::placement::limits::PASSED_OVER_MAX;

#[test]
fn every_decision_is_the_one_that_a_model_from_scratch_takes() {
    let mut exact = 0;
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.turn();
        }
        let count = world.log.len();
        assert!(count > 50, "seed {seed} placed {count}");
        exact += world.exact;
    }
    assert!(exact > 2_000, "only {exact} without a reservation");
}

#[test]
fn with_reservations_too_nothing_is_oversubscribed_or_left_without_a_reason() {
    let mut bound = 0;
    for seed in 0..8 {
        let mut world = World::new(seed);
        world.settle();
        for _ in 0..500 {
            world.busy_turn();
        }
        bound += world.bound;
    }
    assert!(bound > 50, "only {bound} with a reservation");
}

#[test]
fn equal_calls_give_equal_decisions_also_after_a_copy() {
    let run = |copied: bool| {
        let mut world = World::new(7);
        for turn in 0..400 {
            world.turn();
            if copied && turn % 10 == 0 {
                world.p = world.p.clone();
            }
        }
        (world.log, format!("{:#?}", world.p))
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn owners_with_enough_waiting_differ_by_one_turn_at_most() {
    let kinds = requests();
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut p = Placement::default();
        join(&mut p, "w", offer(1, 8, 0));
        let mut next = 0;
        let mut turns = [0_i64; 4];
        for (owner, owner_name) in OWNERS.iter().enumerate() {
            for _ in 0..=rng.below(3) {
                let request = &kinds[[0, 2, 4][rng.below(3) as usize]];
                let range = (next, next + 99);
                wait_range(&mut p, range, request, owner_name, 0, rng.below(9));
                turns[owner] = 0;
                next += 100;
            }
        }
        let owner_of = |p: &Placement, id: u64| {
            let (_, entry) = p.queue.find(InstanceId(id)).expect("it waits");
            p.queue.class_queues[p.queue.class_queue_of(&entry)].owner - 1
        };
        for _ in 0..390 {
            let before = p.clone();
            let decision = p.next().expect("plenty waits");
            turns[owner_of(&before, decision.instance.0)] += 1;
            release(&mut p, "w", decision.instance.0);
            let spread = turns.iter().max().zip(turns.iter().min());
            assert!(spread.is_some_and(|(max, min)| max - min <= 1), "{turns:?}");
        }
    }
}

#[test]
fn whatever_fits_when_empty_is_placed_among_any_endless_stream() {
    let kinds = requests();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut p = Placement::default();
        for worker in 0..=rng.below(3) {
            let mut offer = offer(6 + rng.below(4), 8, 2);
            offer.capacity.named.insert("licence".to_owned(), 2);
            offer.labels.insert("zone".to_owned(), "a".to_owned());
            join(&mut p, &format!("w{worker}"), offer);
        }
        p.set_limit("db", Some(3)).expect("one limit");
        let small = [0, 1, 2, 5, 7, 9, 10].map(|at: usize| kinds[at].clone());
        let mut running: Vec<(u64, String)> = Vec::new();
        let mut next = 1_000;
        let big = [3, 11].map(|at: usize| kinds[at].clone());
        let mut missing: Vec<u64> = Vec::new();
        for step in 0..40 * PASSED_OVER_MAX {
            if step == 50 {
                wait(&mut p, 1, &big[0]);
                wait(&mut p, 2, &big[1]);
                missing = vec![1, 2];
            }
            for request in &small {
                let class = p.class(request).unwrap_or(ClassId(usize::MAX));
                if p.waiting_in(class) < 5 {
                    wait_range(&mut p, (next, next + 9), request, "me", 0, next);
                    next += 10;
                }
            }
            let placed = drain(&mut p);
            missing.retain(|id| placed.iter().all(|(placed, _)| placed != id));
            running.extend(placed);
            let at = rng.below(running.len() as u64) as usize;
            let (id, worker) = running.swap_remove(at);
            release(&mut p, &worker, id);
        }
        assert_eq!(missing, [0_u64; 0], "seed {seed}");
    }
}
