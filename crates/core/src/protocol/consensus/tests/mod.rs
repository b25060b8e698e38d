//! Scripted situations, each with the reason for one of the rules. The rules
//! under random operations and lost messages are in `restart.rs`; what becomes
//! of those who leave is in `departed.rs`.

mod departed;
mod restart;

use baton_model::ids::{Epoch, Incarnation, IncarnationNo, Lineage};
use baton_model::worker_set::{SetVersion, WorkerSetHash, WorkerSetId};

use super::Consensus;

const BEFORE: Epoch = Epoch(1);
const NOW: Epoch = Epoch(2);
const NEXT: Epoch = Epoch(3);

fn incarnation(lineage: u64, number: u64) -> Incarnation {
    Incarnation {
        lineage: Lineage(lineage),
        number: IncarnationNo(number),
    }
}

fn w(n: u64) -> Incarnation {
    incarnation(n, 1)
}

fn all_count(_: Incarnation) -> bool {
    true
}

fn id_of<const N: usize>(epoch: Epoch, version: u64, members: [Incarnation; N]) -> WorkerSetId {
    WorkerSetId {
        epoch,
        version: SetVersion(version),
        hash: WorkerSetHash::of(members),
    }
}

/// New workers, in this order.
fn joined<const N: usize>(members: [Incarnation; N]) -> Consensus {
    let mut consensus = Consensus::new(NOW);
    for who in members {
        consensus.join(who, None);
    }
    consensus
}

/// Reply, then heartbeat: `who` holds the current id and the scheduler knows.
fn exchange(consensus: &mut Consensus, who: Incarnation) {
    consensus.echo(who, consensus.current());
}

/// What a scheduler concludes to which these connect, showing these ids.
fn restarted(shown: &[(Incarnation, Option<WorkerSetId>)]) -> bool {
    let mut next = Consensus::new(NEXT);
    for &(who, initial) in shown {
        next.join(who, initial);
    }
    next.agreed()
}

#[test]
fn a_delayed_heartbeat_does_not_hide_the_id_that_a_worker_was_given_later() {
    let mut consensus = Consensus::new(NOW);
    consensus.join(w(1), Some(id_of(BEFORE, 3, [w(1)])));
    assert!(consensus.agreed(), "as far as is known");
    consensus.recall(w(1), Some(id_of(BEFORE, 4, [w(1), w(2)])));
    assert!(!consensus.agreed(), "w2 is not back");
    consensus.join(w(2), Some(id_of(BEFORE, 4, [w(1), w(2)])));
    assert!(consensus.agreed());
    consensus.recall(w(2), Some(consensus.current()));
    assert!(
        consensus.agreed(),
        "an id of ours tells nothing about before"
    );
    consensus.recall(w(2), None);
    assert!(!consensus.agreed(), "what it held is not certain");
}

#[test]
fn each_join_and_each_departure_is_one_version() {
    let mut consensus = Consensus::new(NOW);
    assert_eq!(consensus.current(), id_of(NOW, 0, []));
    consensus.join(w(1), None);
    consensus.join(w(2), None);
    assert_eq!(consensus.current(), id_of(NOW, 2, [w(2), w(1)]));
    consensus.leave(w(1));
    assert_eq!(consensus.current(), id_of(NOW, 3, [w(2)]));
    // Replaced by its next life: two changes.
    consensus.leave(w(2));
    consensus.join(incarnation(2, 2), None);
    assert_eq!(consensus.current(), id_of(NOW, 5, [incarnation(2, 2)]));
    assert!(consensus.contains(incarnation(2, 2)) && !consensus.contains(w(2)));
    assert_eq!(consensus.len(), 1);
}

#[test]
fn what_changes_nothing_makes_no_version() {
    let mut consensus = Consensus::new(NOW);
    consensus.join(w(1), Some(id_of(BEFORE, 4, [w(1)])));
    exchange(&mut consensus, w(1));
    let was = consensus.clone();
    consensus.join(w(1), None);
    consensus.leave(w(9));
    consensus.echo(w(9), consensus.current());
    assert_eq!(consensus, was);
    assert!(consensus.agreed() && consensus.permits(w(1), all_count));
}

#[test]
fn an_empty_set_is_no_agreement() {
    let mut consensus = Consensus::new(NOW);
    assert!(consensus.is_empty() && !consensus.agreed());
    consensus.join(w(1), Some(id_of(BEFORE, 2, [])));
    assert!(!consensus.agreed(), "an id that does not count its holder");
    consensus.leave(w(1));
    assert!(consensus.is_empty() && !consensus.agreed());
}

#[test]
fn all_of_the_set_must_be_back() {
    let complete = id_of(BEFORE, 7, [w(1), w(2), w(3)]);
    let shown = [1, 2, 3].map(|n| (w(n), Some(complete)));
    assert!(!restarted(&shown[..1]));
    assert!(!restarted(&shown[..2]));
    assert!(restarted(&shown));
    let reversed = [shown[2], shown[1], shown[0]];
    assert!(restarted(&reversed));
}

#[test]
fn ids_must_be_the_same_in_every_part() {
    let complete = id_of(BEFORE, 7, [w(1), w(2)]);
    let later = id_of(BEFORE, 9, [w(1), w(2)]);
    let earlier_epoch = id_of(Epoch(0), 7, [w(1), w(2)]);
    assert!(restarted(&[(w(1), Some(complete)), (w(2), Some(complete))]));
    for other in [later, earlier_epoch] {
        assert!(!restarted(&[(w(1), Some(complete)), (w(2), Some(other))]));
        assert!(!restarted(&[(w(1), Some(other)), (w(2), Some(complete))]));
    }
}

#[test]
fn another_life_is_another_worker() {
    let complete = Some(id_of(BEFORE, 7, [w(1), w(2)]));
    assert!(!restarted(&[
        (w(1), complete),
        (incarnation(2, 2), complete)
    ]));
}

#[test]
fn a_fresh_worker_blocks_agreement_first_or_last() {
    let alone = Some(id_of(BEFORE, 1, [w(1)]));
    let both = Some(id_of(BEFORE, 2, [w(1), w(2)]));
    assert!(restarted(&[(w(1), alone)]));
    assert!(!restarted(&[(w(1), both), (w(2), None)]));
    assert!(!restarted(&[(w(2), None), (w(1), both)]));
    assert!(!restarted(&[(w(2), None)]));
}

#[test]
fn agreement_returns_when_an_impostor_leaves() {
    let complete = Some(id_of(BEFORE, 7, [w(1), w(2)]));
    let mut consensus = Consensus::new(NOW);
    consensus.join(w(1), complete);
    consensus.join(w(2), complete);
    assert!(consensus.agreed());
    consensus.join(w(3), complete);
    assert!(!consensus.agreed());
    consensus.leave(w(3));
    assert!(consensus.agreed());
    consensus.leave(w(1));
    assert!(!consensus.agreed());
}

#[test]
fn an_id_of_our_own_is_not_a_predecessors() {
    let mut consensus = joined([w(1)]);
    let ours = consensus.current();
    consensus.leave(w(1));
    consensus.join(w(1), Some(ours));
    assert!(!consensus.agreed());
}

/// Why the caller joins a worker with None if its id is from an unfinished wait.
#[test]
fn an_id_from_an_unfinished_wait_would_agree_without_the_absent() {
    // w(1) and w(2) run work. The scheduler restarts, only w(2) has come back,
    // and it restarts once more.
    let mut waiting = Consensus::new(NOW);
    waiting.join(w(2), Some(id_of(BEFORE, 2, [w(1), w(2)])));
    assert!(!waiting.agreed());
    let unfinished = waiting.current();
    assert!(restarted(&[(w(2), Some(unfinished))]), "the hazard");
    assert!(!restarted(&[(w(2), None)]), "the remedy");
}

#[test]
fn a_silent_worker_that_holds_an_old_set_blocks_the_next_one() {
    let mut consensus = joined([w(1)]);
    let alone = consensus.current();
    consensus.echo(w(1), alone);
    consensus.join(w(2), None);
    exchange(&mut consensus, w(2));
    consensus.propagate();
    // If w(2) ran now, this is what a restart would make of a lone w(1).
    assert!(restarted(&[(w(1), Some(alone))]));
    assert!(!consensus.permits(w(2), all_count));
    assert!(consensus.permits(w(1), all_count), "it was there first");
    // It speaks again, or is condemned.
    let mut condemned = consensus.clone();
    condemned.leave(w(1));
    assert!(condemned.permits(w(2), all_count));
    exchange(&mut consensus, w(1));
    assert!(consensus.permits(w(2), all_count));
    assert!(!restarted(&[(w(1), Some(consensus.current()))]));
}

#[test]
fn a_silent_worker_that_never_echoed_blocks_until_it_no_longer_counts() {
    let mut consensus = joined([w(1), w(2)]);
    exchange(&mut consensus, w(2));
    assert!(!consensus.permits(w(2), all_count));
    assert!(consensus.permits(w(2), |who| who != w(1)));
}

#[test]
fn no_worker_is_permitted_before_its_own_echo_or_without_being_a_member() {
    let mut consensus = joined([w(1)]);
    assert!(!consensus.permits(w(1), all_count));
    assert!(!consensus.permits(w(2), all_count));
    exchange(&mut consensus, w(1));
    assert!(consensus.permits(w(1), all_count));
    consensus.leave(w(1));
    assert!(!consensus.permits(w(1), all_count));
}

#[test]
fn meaningless_echoes_are_ignored() {
    let mut consensus = joined([w(1), w(2)]);
    let was = consensus.clone();
    consensus.echo(w(1), id_of(BEFORE, 2, [w(1), w(2)]));
    consensus.echo(w(1), id_of(NEXT, 2, [w(1), w(2)]));
    consensus.echo(w(1), id_of(NOW, 3, [w(1), w(2), w(3)]));
    consensus.echo(w(2), id_of(NOW, 1, [w(1)]));
    assert_eq!(consensus, was);
    exchange(&mut consensus, w(1));
    let was = consensus.clone();
    consensus.echo(w(1), id_of(NOW, 1, [w(1)]));
    assert_eq!(consensus, was, "an overtaken heartbeat takes nothing back");
}

#[test]
fn a_slow_worker_is_vouched_for_by_one_that_it_knows() {
    let mut consensus = joined([w(1), w(2)]);
    // The slow one knows w(2), then falls silent. w(2) gets to know w(3).
    exchange(&mut consensus, w(1));
    consensus.join(w(3), None);
    exchange(&mut consensus, w(2));
    exchange(&mut consensus, w(3));
    assert!(!consensus.permits(w(3), all_count));
    consensus.propagate();
    assert!(consensus.permits(w(3), all_count));
}

#[test]
fn knowing_goes_through_many_in_one_propagation() {
    let mut consensus = Consensus::new(NOW);
    // Each knows the one after it and no later one.
    for n in 1..=50 {
        consensus.join(w(n), None);
        if n > 1 {
            exchange(&mut consensus, w(n - 1));
        }
    }
    exchange(&mut consensus, w(50));
    assert!(!consensus.permits(w(50), all_count));
    consensus.propagate();
    assert!((1..=50).all(|n| consensus.permits(w(n), all_count)));
}

#[test]
fn no_member_vouches_for_a_worker_that_does_not_know_it() {
    let mut consensus = joined([w(1)]);
    exchange(&mut consensus, w(1));
    consensus.join(w(2), None);
    exchange(&mut consensus, w(2));
    consensus.join(w(3), None);
    exchange(&mut consensus, w(2));
    exchange(&mut consensus, w(3));
    consensus.propagate();
    // w(1) holds {w(1)}, whatever the others hold.
    assert!(!consensus.permits(w(2), all_count));
    assert!(!consensus.permits(w(3), all_count));
}

#[test]
fn crash_looping_workers_do_not_block_an_established_one() {
    let mut consensus = joined([w(1), w(2)]);
    exchange(&mut consensus, w(1));
    exchange(&mut consensus, w(2));
    for n in 100..140 {
        consensus.join(incarnation(n, 1), None);
    }
    consensus.join(w(3), None);
    for who in [w(1), w(2), w(3)] {
        exchange(&mut consensus, who);
    }
    consensus.propagate();
    assert!(!consensus.permits(w(3), all_count), "40 came before it");
    // None of the forty ever echoes. Each new life replaces the one before.
    for n in 100..140 {
        assert!(!consensus.permits(w(3), all_count));
        consensus.leave(incarnation(n, 1));
        consensus.join(incarnation(n, 2), None);
        consensus.propagate();
    }
    assert!(consensus.permits(w(3), all_count), "now all came after it");
    for number in 3..20 {
        for n in 100..140 {
            consensus.leave(incarnation(n, number - 1));
            consensus.join(incarnation(n, number), None);
            assert!(consensus.permits(w(3), all_count));
        }
        consensus.propagate();
    }
    assert_eq!(consensus.len(), 43);
}

#[test]
fn a_newcomer_among_crash_loops_waits_for_one_round_of_them_only() {
    let mut consensus = Consensus::new(NOW);
    for n in 100..140 {
        consensus.join(incarnation(n, 1), None);
    }
    for (newcomer, number) in (1..10).zip(1..) {
        consensus.join(w(newcomer), None);
        for earlier in 1..=newcomer {
            exchange(&mut consensus, w(earlier));
        }
        assert!(!consensus.permits(w(newcomer), all_count));
        for n in 100..140 {
            consensus.leave(incarnation(n, number));
            consensus.join(incarnation(n, number + 1), None);
        }
        assert!(consensus.permits(w(newcomer), all_count));
    }
}
