//! Time travel of the store: a backup that is restored, or a standby that is promoted without the last
//! commits, while the workers have gone on.
//!
//! What the clients and the operator know goes back with it, as far as it is told by the store:
//! they submit again what is lost. What really runs on the hosts does not go back.

use baton_core::bugs::Bug;
use baton_core::leader::{Row, copy_evidence, next_epoch};
use baton_core::ledger::Ledger;
use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::mark::{Mark, StoreState};

use super::client::ClientRecord;
use super::store::StoreReply;
use super::{Event, World};
use crate::checkers::{ConditionChecks, RunRecord};
use crate::time::SECOND;

/// The store at one time, and what clients knew then.
#[derive(Debug)]
pub(super) struct Backup {
    pub(super) row: Row,
    ledger: Ledger,
    state: StoreState,
    mark: Option<Mark>,
    recorded_server: u64,
    clients: ClientRecord,
    runs: RunRecord,
    conditions: ConditionChecks,
}

/// How a backup is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Restoration {
    /// Into the file of the database; its mark stays.
    Database,
    /// As another directory, with the mark of the backup.
    Directory,
    /// The whole file system: only workers can tell.
    FileSystem,
    /// As the standby of a shared store, which is promoted. Schedulers go on.
    Standby,
}

impl World {
    /// Makes a backup, and restores it some time later.
    pub(super) fn back_up_store(&mut self) {
        if self.store.backup.is_none() && !self.is_copy_unopened() {
            self.note(&"backup", || "the store is backed up".to_owned());
            self.store.backup = Some(self.copy_store());
            let span = self.copies_rng.within(SECOND, 300 * SECOND);
            self.at(span, Event::RestoreStore);
        }
    }

    pub(super) fn copy_store(&self) -> Backup {
        Backup {
            row: self.store.row,
            ledger: self.store.ledger.clone(),
            state: self.store.state,
            mark: self.store.mark.clone(),
            recorded_server: self.store.recorded_server,
            clients: self.client.record(),
            runs: self.checkers.runs.record(),
            conditions: self.checkers.conditions.clone(),
        }
    }

    /// Restores the backup, while no scheduler runs.
    pub(super) fn restore_store(&mut self) {
        let Some(backup) = self.store.backup.take() else {
            return;
        };
        if self.calm {
            return;
        }
        let restoration = if self.is_shared {
            Restoration::Standby
        } else {
            self.copies_rng.pick(&[
                Restoration::Database,
                Restoration::Directory,
                Restoration::FileSystem,
            ])
        };
        self.note(&restoration, || {
            format!("the store goes back in time ({restoration:?})")
        });
        if restoration == Restoration::Standby {
            self.lose_server();
        } else {
            for index in 0..self.schedulers.len() {
                self.scheduler_crash(index);
                let downtime = self.copies_rng.within(SECOND, 20 * SECOND);
                self.at(downtime, Event::SchedulerStart(index));
            }
        }
        self.store_abandon();
        self.checkers
            .history_lost(&self.store.ledger, &backup.ledger);
        self.checkers.runs.restore(backup.runs);
        self.checkers.conditions = backup.conditions;
        if restoration == Restoration::FileSystem {
            // No worker can tell, if the lost future had no term of its own, or if every agent that
            // has obeyed it is restarted, too.
            for lease in backup.ledger.open_leases() {
                self.checkers.truth.lose(lease.id);
            }
            self.checkers.truth.excuse_lost();
            self.checkers.forget_lost_ids();
        }
        let file = self.store.state.file;
        self.store.row = backup.row;
        self.store.ledger = backup.ledger;
        self.store.recorded_server = backup.recorded_server;
        self.store.state = StoreState {
            file,
            ..backup.state
        };
        match restoration {
            Restoration::Database => {}
            Restoration::Directory => {
                self.store.state.file.inode += 1;
                self.store.mark = backup.mark;
            }
            Restoration::FileSystem => self.store.mark = backup.mark,
            Restoration::Standby => self.store.server += 1,
        }
        self.client.restore(backup.clients);
        self.workflows.forget_requests();
    }

    /// Takes the row under the next epoch, after a look at the mark of the store.
    pub(super) fn store_take(&mut self, above: Epoch, copied: Option<CopyEvidence>) -> StoreReply {
        let found = StoreState {
            epoch: self.store.row.epoch,
            ..self.store.state
        };
        let mark = self.store.mark.take();
        let copied = copied.or_else(|| copy_evidence(mark.as_ref(), &found));
        let random = if self.config.bugs.has(Bug::EpochNotRandom) {
            0
        } else {
            self.copies_rng.below(1 << 32) as u32
        };
        let epoch = next_epoch(mark.as_ref(), &found, above, copied.is_some(), random)
            .unwrap_or(found.epoch);
        self.store.mark = Some(Mark {
            seen: StoreState { epoch, ..found },
            next: epoch,
            copied: copied.clone(),
        });
        self.store.row = Row { epoch, renewals: 0 };
        self.store.ledger.begin_term(epoch);
        let ledger = self.ledger_for_leader();
        StoreReply::Won(epoch, Box::new(ledger), copied)
    }

    /// True if the store has gone back in time, and no leader has begun a generation of it yet. One that goes
    /// back to this point again has used the ids that the next generation skips: this is not simulated.
    pub(super) fn is_copy_unopened(&self) -> bool {
        let shared = self.store.server != self.store.recorded_server;
        let found = StoreState {
            epoch: self.store.row.epoch,
            ..self.store.state
        };
        let mark = self.store.mark.as_ref();
        shared || (!self.is_shared && copy_evidence(mark, &found).is_some())
    }

    /// The mark of the store sees every commit.
    pub(super) fn refresh_mark(&mut self) {
        self.store.state.last_fact += 1;
        let generation = self.store.ledger.identity().generation;
        let epoch = self.store.row.epoch;
        if let Some(mark) = &mut self.store.mark
            && mark.next == epoch
        {
            mark.seen = StoreState {
                epoch,
                ..self.store.state
            };
            if generation == epoch {
                mark.copied = None;
            }
        }
    }
}
