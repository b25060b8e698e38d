//! What those who left still say, and for how long it is remembered.

use super::*;
use baton_model::limits::REMOVED_MAX;

#[test]
fn the_dead_vouch_on() {
    let mut consensus = joined([w(1), w(2)]);
    exchange(&mut consensus, w(1));
    consensus.join(w(3), None);
    exchange(&mut consensus, w(2));
    exchange(&mut consensus, w(3));
    consensus.leave(w(2));
    // w(1) holds {w(1), w(2)}: it agrees only with w(2), who knew w(3).
    consensus.propagate();
    assert!(consensus.permits(w(3), all_count));
    // Who joins after the death is not vouched for by the dead.
    consensus.join(w(4), None);
    exchange(&mut consensus, w(4));
    consensus.propagate();
    assert!(!consensus.permits(w(4), all_count));
}

/// Why the caller counts no worker out before its lease has run out.
#[test]
fn a_worker_counted_out_too_early_would_agree_without_the_next() {
    let mut consensus = joined([w(1)]);
    let alone = consensus.current();
    consensus.echo(w(1), alone);
    consensus.join(w(2), None);
    exchange(&mut consensus, w(2));
    assert!(!consensus.permits(w(2), all_count));
    consensus.leave(w(1));
    assert!(consensus.permits(w(2), all_count));
    assert!(restarted(&[(w(1), Some(alone))]), "the hazard");
    assert!(!restarted(&[(w(1), None)]), "the remedy: it has given up");
}

#[test]
fn the_departed_are_forgotten_once_no_member_can_need_them() {
    let mut consensus = joined([w(1), w(2), w(3)]);
    exchange(&mut consensus, w(1));
    consensus.join(w(4), None);
    exchange(&mut consensus, w(2));
    consensus.leave(w(2));
    consensus.propagate();
    assert_eq!(consensus.departed.len(), 1, "w(3) may still echo version 3");
    exchange(&mut consensus, w(3));
    exchange(&mut consensus, w(1));
    consensus.propagate();
    assert_eq!(consensus.departed.len(), 0);
}

#[test]
fn departures_that_overlap_are_remembered_as_one() {
    let mut consensus = joined([w(1), w(2)]);
    exchange(&mut consensus, w(1));
    consensus.join(w(3), None);
    exchange(&mut consensus, w(2));
    consensus.join(w(4), None);
    exchange(&mut consensus, w(3));
    exchange(&mut consensus, w(4));
    // w(2) knew w(3), who knew w(4). They go in an order that joins the ends first.
    for dead in [w(3), w(2)] {
        consensus.leave(dead);
        assert_eq!(consensus.departed.len(), 1);
    }
    assert!(!consensus.permits(w(4), all_count));
    consensus.propagate();
    assert!(consensus.permits(w(4), all_count), "w(1) knew w(2)");
}

#[test]
fn the_departed_are_forgotten_with_the_last_member() {
    let mut consensus = joined([w(1), w(2)]);
    exchange(&mut consensus, w(1));
    consensus.leave(w(1));
    consensus.leave(w(2));
    assert_eq!(consensus.departed.len(), 1);
    consensus.propagate();
    assert_eq!(consensus.departed.len(), 0);
}

#[test]
fn a_storm_of_deaths_is_remembered_within_bounds_and_stays_safe() {
    // One stays silent; thousands come, get to know a successor, and die.
    let mut consensus = joined([w(0)]);
    for n in 1..=2 * REMOVED_MAX as u64 {
        consensus.join(w(n), None);
        consensus.join(incarnation(n, 2), None);
        exchange(&mut consensus, w(n));
        consensus.leave(w(n));
        consensus.leave(incarnation(n, 2));
        assert!(consensus.departed.len() <= REMOVED_MAX);
    }
    assert_eq!(consensus.departed.len(), REMOVED_MAX);
    let last = w(2 * REMOVED_MAX as u64 + 1);
    consensus.join(last, None);
    exchange(&mut consensus, last);
    consensus.propagate();
    assert!(!consensus.permits(last, all_count));
    exchange(&mut consensus, w(0));
    consensus.propagate();
    assert!(consensus.permits(last, all_count));
    assert_eq!(consensus.departed.len(), 0);
}
