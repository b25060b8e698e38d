//! What happens at the limits, and with nonsense.

use baton_model::ids::InstanceId;

use super::*;
use crate::placement::limits::{CLASSES_MAX, OWNERS_MAX};
use crate::placement::{Demand, PlacementError};

fn arrive(p: &mut Placement, first: u64, last: u64) -> Result<ClassId, PlacementError> {
    p.enqueue(Arrival {
        first: InstanceId(first),
        last: InstanceId(last),
        demand: Demand::from(&request(1, 1)),
        owner: "me",
        priority: 0,
        sequence: 1,
        task: None,
    })
}

#[test]
fn what_waits_or_is_placed_cannot_wait_again() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    arrive(&mut p, 10, 19).expect("new");
    assert_eq!(placed(&mut p), [10]);
    let before = format!("{p:#?}");
    assert_eq!(
        arrive(&mut p, 5, 12),
        Err(PlacementError::Waits(InstanceId(11)))
    );
    assert_eq!(
        arrive(&mut p, 15, 15),
        Err(PlacementError::Waits(InstanceId(15)))
    );
    assert_eq!(
        arrive(&mut p, 0, 10),
        Err(PlacementError::Placed(InstanceId(10)))
    );
    assert_eq!(arrive(&mut p, 2, 1), Err(PlacementError::Empty));
    assert_eq!(arrive(&mut p, 100, 1 << 33), Err(PlacementError::TooLong));
    assert_eq!(format!("{p:#?}"), before);
}

#[test]
fn the_extremes_of_ids_and_amounts_are_no_trouble() {
    let mut p = Placement::default();
    let mut huge = offer(0, 0, u32::MAX);
    huge.capacity.cpu_milli = u64::MAX;
    huge.capacity.memory = u64::MAX;
    huge.capacity.disk = u64::MAX;
    huge.capacity.named.insert("x".to_owned(), u64::MAX);
    join(&mut p, "w", huge);
    p.set_limit("y", Some(u64::MAX)).expect("few limits");
    let mut all = with_named(with_named(request(0, 0), "x", u64::MAX), "y", u64::MAX);
    all.resources.cpu_milli = u64::MAX;
    all.resources.memory_min = u64::MAX;
    all.resources.disk = u64::MAX;
    all.resources.gpu = DeviceAmount::whole(u32::MAX.into());
    for id in [3, 4, 5] {
        p.adopt(&name("w"), InstanceId(id), &all).expect("new");
    }
    wait_range(
        &mut p,
        (u64::MAX - 1, u64::MAX),
        &all,
        "me",
        i32::MIN,
        u64::MAX,
    );
    wait_range(&mut p, (0, 0), &all, "me", i32::MAX, 0);
    assert_eq!(p.next(), None);
    for id in [3, 4, 5] {
        release(&mut p, "w", id);
    }
    assert_eq!(one_by_one(&mut p, "w"), [0, u64::MAX - 1, u64::MAX]);
    assert_eq!(p.withdraw(InstanceId(0), InstanceId(u64::MAX)), 0);
}

#[test]
fn nothing_changed_means_nothing_is_looked_at() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    wait_range(&mut p, (1, 9), &request(1, 1), "me", 0, 1);
    assert_eq!(placed(&mut p), [1]);
    let rounds = p.rounds;
    assert_eq!((p.next(), p.next()), (None, None));
    assert_eq!(p.rounds, rounds);
}

#[test]
fn beyond_the_most_classes_the_longest_idle_is_forgotten_or_a_new_one_refused() {
    let mut p = Placement::default();
    let nth = |n: usize| request(1, 1 + n as u64);
    for n in 0..CLASSES_MAX {
        wait(&mut p, n as u64, &nth(n));
    }
    let last = nth(CLASSES_MAX);
    let arrival = Arrival {
        first: InstanceId(u64::MAX),
        last: InstanceId(u64::MAX),
        demand: Demand::from(&last),
        owner: "me",
        priority: 0,
        sequence: 0,
        task: None,
    };
    assert_eq!(p.enqueue(arrival), Err(PlacementError::TooManyClasses));
    assert_eq!(p.withdraw(InstanceId(7), InstanceId(8)), 2);
    assert!(p.enqueue(arrival).is_ok());
    assert_eq!(p.class(&nth(7)), None);
    assert!(p.class(&nth(8)).is_some());
}

#[test]
fn many_classes_are_all_served() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(2, 8_000, 0));
    for n in 0..3_000 {
        wait(&mut p, n, &request(1, 1 + n));
    }
    for n in 0..3_000 {
        assert_eq!(p.next().map(|d| d.instance.0), Some(n));
        release(&mut p, "w", n);
    }
    assert_eq!(p.next(), None);
}

#[test]
fn owners_beyond_the_most_share_a_turn_and_are_served() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    let owners = OWNERS_MAX as u64 + 50;
    for owner in 0..owners {
        wait_as(&mut p, owner, &request(1, 1), &format!("o{owner}"), 0);
    }
    let served = one_by_one(&mut p, "w");
    assert_eq!(served.len() as u64, owners);
}
