//! The shared store: an epoch row, a ledger, and commits that are slow, fail, or
//! tear.
//!
//! Operations of one connection execute in order, each after a random delay, and are answered
//! after another. When a scheduler crashes or ends its term, a prefix of its operations in flight
//! still executes and the rest never does: a group commit torn at a random position.

use std::collections::BTreeMap;

use baton_core::leader::Row;
use baton_core::ledger::Ledger;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::ids::{AttemptNo, Epoch, LeaseId};
use baton_model::mark::{Mark, StoreState};

use super::copies::Backup;
use super::{Event, World};

/// A request to the store.
#[derive(Debug)]
pub(super) enum StoreOp {
    Read,
    Take {
        expected: Epoch,
        /// The next epoch must be above this one.
        above: Epoch,
        /// The evidence of a worker that the store is a copy.
        copied: Option<CopyEvidence>,
    },
    Renew(Epoch),
    Commit(Batch<Fact>),
}

#[derive(Debug)]
pub(super) enum StoreReply {
    Row(Row),
    Won(Epoch, Box<Ledger>, Option<CopyEvidence>),
    Overtaken,
    Renewed,
    Durable(Receipt),
    Failed,
}

/// The durable state, which survives every scheduler.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) row: Row,
    pub(super) ledger: Ledger,
    pub(super) failing: bool,
    /// Its identity and the number of its facts.
    pub(super) state: StoreState,
    /// Outlives a restored database. A shared store has none.
    pub(super) mark: Option<Mark>,
    /// The server that has a shared store, and the one that its generation began on.
    pub(super) server: u64,
    pub(super) recorded_server: u64,
    pub(super) backup: Option<Backup>,
    /// Per scheduler and ended term: the last operation that still executes.
    pub(super) cuts: BTreeMap<(usize, u64), u64>,
}

impl World {
    /// Whether the store (or, without one, the scheduler) still expects this attempt to run, or
    /// would run its instance again.
    pub(super) fn still_wanted(&self, lease: LeaseId) -> bool {
        let (ledger, id) = (&self.store.ledger, lease.attempt.instance);
        match ledger.instance(id) {
            // A range that is halted while it waits gets no rows.
            None => {
                let is_halted = ledger.known().contains(id) && !ledger.is_live(id, id);
                !self.is_durable() && !is_halted && !self.client.has_ended(id)
            }
            Some(it) => match &it.lease {
                Some(open) => open.id == lease,
                // Without a store, a scheduler that never leased the instance must still ask about it.
                None => {
                    let untouched = it.attempts == AttemptNo(0) && !it.state.is_terminal();
                    !self.is_durable() && untouched
                }
            },
        }
    }

    /// Sends an operation, to execute after those sent before.
    pub(super) fn store_send(&mut self, scheduler: usize, op: StoreOp) {
        let mix = self.mix.store;
        let slow = if !self.calm && self.network_rng.chance(mix.slow) {
            self.network_rng.below(mix.slow_max)
        } else {
            0
        };
        let process = &mut self.schedulers[scheduler];
        let span = mix.latency / 2 + self.network_rng.below(mix.latency) + slow;
        process.store_free = process.store_free.max(self.now.after(span));
        process.ops_sent += 1;
        let (at, term, seq) = (process.store_free, process.term, process.ops_sent);
        let late = self.break_connection(scheduler, at);
        self.at_time(
            at.after(late),
            Event::StoreOp {
                scheduler,
                term,
                seq,
                op,
            },
        );
    }

    /// Ends the connection of a term: draws how many operations in flight still execute.
    pub(super) fn store_cut(&mut self, scheduler: usize) {
        let process = &mut self.schedulers[scheduler];
        let under_way = process.ops_sent - process.ops_applied;
        let last_applied = process.ops_applied + self.fault_rng.below(under_way + 1);
        self.store
            .cuts
            .entry((scheduler, process.term))
            .or_insert(last_applied);
        process.term += 1;
    }

    /// Drops the operations in flight of all schedulers; none of them runs.
    pub(super) fn store_abandon(&mut self) {
        for ((scheduler, _), last_applied) in &mut self.store.cuts {
            let applied = self.schedulers[*scheduler].ops_applied;
            *last_applied = applied.min(*last_applied);
        }
    }

    pub(super) fn store_execute(&mut self, scheduler: usize, term: u64, seq: u64, op: StoreOp) {
        let cut = self.store.cuts.get(&(scheduler, term)).copied();
        if cut.is_some_and(|last| seq > last) {
            return;
        }
        let process = &mut self.schedulers[scheduler];
        process.ops_applied = process.ops_applied.max(seq);
        let reply = if self.store.failing {
            // The store guarantees order: nothing of this term executes after a gap.
            self.store.cuts.insert((scheduler, term), seq);
            StoreReply::Failed
        } else {
            self.store_apply(op)
        };
        if cut.is_some() {
            // The connection is broken: no reply arrives.
            return;
        }
        let span = self.mix.store.latency / 2;
        self.at(
            span,
            Event::StoreReply {
                scheduler,
                term,
                reply,
            },
        );
    }

    fn store_apply(&mut self, op: StoreOp) -> StoreReply {
        match op {
            StoreOp::Read => StoreReply::Row(self.store.row),
            StoreOp::Take {
                expected,
                above,
                copied,
            } if self.store.row.epoch == expected => {
                let won = if self.is_shared {
                    self.store_take_shared(above, copied)
                } else {
                    self.store_take(above, copied)
                };
                self.check_term();
                won
            }
            StoreOp::Renew(epoch) if self.store.row.epoch == epoch => {
                self.store.row.renewals += 1;
                StoreReply::Renewed
            }
            StoreOp::Commit(batch) if self.store.row.epoch == batch.epoch() => {
                self.checkers.group_committed(batch.clone().durable());
                for fact in batch.facts() {
                    self.commit_fact(fact);
                }
                self.checkers.group_complete();
                StoreReply::Durable(batch.durable())
            }
            StoreOp::Take { .. } | StoreOp::Renew(_) | StoreOp::Commit(_) => StoreReply::Overtaken,
        }
    }

    /// Makes a fact durable, or applies it in memory mode.
    pub(super) fn commit_fact(&mut self, fact: &Fact) {
        self.note(fact, || format!("store: {fact}"));
        // Checkers first: their message is more specific than that of the ledger.
        if let Fact::AttemptEnded { lease, .. } = fact {
            let instance = self.store.ledger.instance(lease.attempt.instance);
            let wanted = instance.map(|it| it.spec.name.clone());
            self.checkers.end_accepted(*lease, wanted.as_deref());
        }
        self.checkers.now = self.now;
        self.checkers.committed(fact);
        if let Fact::CopyOpened { .. } = fact {
            self.store.recorded_server = self.store.server;
        }
        if let Err(error) = self.store.ledger.apply(fact) {
            self.checkers
                .violate("panic", format!("the store cannot take {fact}: {error}"));
        }
        self.refresh_mark();
        self.arrays_observe(fact);
        if let Some(number) = self.client.observe(fact)
            && self.is_durable()
        {
            let what = format!("submission {number} has created instances again: {fact}");
            self.checkers.violate("submitted-twice", what);
        }
    }
}
