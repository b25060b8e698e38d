//! The writing side of the contract: leadership, commits, retention and tokens.

use std::sync::mpsc;

use baton_core::leader::Row;
use baton_core::ledger::Ledger;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, StoreId, TokenId};
use baton_model::secret::StoredSecret;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};

use crate::StoreError;
use crate::followers::FollowerName;
use crate::notices::NoticeBatch;
use crate::retention::{PruneReport, Retention};
use crate::secret::SecretChange;
use crate::sharing::Sharing;
use crate::view::Seq;

/// Callback with the outcome of a batch, called once; it is dropped uncalled only if the store's
/// own thread has panicked.
pub type CommitCallback = Box<dyn FnOnce(Result<Receipt, StoreError>) + Send>;

/// Outcome of an attempt to take the leadership row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The caller leads under this epoch; the ledger is the state that earlier leaders have left.
    Won(Epoch, Box<Ledger>),
    /// The row's epoch was not the expected one: another scheduler has taken it.
    Overtaken,
}

/// What tells a store from its copies, and one state of it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Copies share it.
    pub store: StoreId,
    /// The last term; 0 before the first.
    pub epoch: Epoch,
    /// The first term since it was last found to be a copy; 0 if it never was.
    pub generation: Epoch,
    /// The number of its last fact.
    pub last_fact: Seq,
}

/// The writing side of a store: a durable log of facts, fenced by epoch, its leadership row, and the
/// tokens, which are written beside the log.
///
/// Guarantees, each checked in `tests/conformance`:
/// * **Fenced.** A write commits only if the store's epoch is the writer's, checked inside the
///   write itself. A deposed leader's write fails, even if it was queued before the row was taken.
/// * **Atomic.** A batch commits completely or not at all.
/// * **Ordered.** Batches of one term commit in the order of [`FactLog::submit`]. After one has
///   failed, no later batch of that term commits, so the stored facts are always a prefix of the
///   submitted ones. A later term starts afresh. After some failures a batch that was reported as
///   failed may still turn out to be committed.
/// * **Durable.** A receipt is issued when the batch and all batches before it would survive a
///   power loss (with the memory store nothing survives the process).
pub trait FactLog: Send + Sync {
    /// What the schedulers of a shared store need; `None` if only one process can use the store.
    fn sharing(&self) -> Option<&dyn Sharing> {
        None
    }

    /// Reads the leadership row.
    ///
    /// # Errors
    /// If the row cannot be read.
    fn read_row(&self) -> Result<Row, StoreError>;

    /// Reads the identity and the state of the store.
    ///
    /// # Errors
    /// If it cannot be read.
    fn fingerprint(&self) -> Result<Fingerprint, StoreError>;

    /// Takes the row under the epoch `next` if its epoch still is `expected`, and restores the
    /// ledger: of ended instances only that their ids were used. Every store that is taken, a copy
    /// included, must get an epoch of its own: the caller draws its random bits.
    ///
    /// A `next` that is not above `expected` takes nothing.
    ///
    /// # Errors
    /// If the row cannot be written or the ledger cannot be read. The row may have been taken
    /// nevertheless; taking it again only costs an epoch.
    fn take(&self, expected: Epoch, next: Epoch) -> Result<TakeOutcome, StoreError>;

    /// Counts one renewal of the row, after everything that was submitted before.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if the row cannot be written.
    fn renew(&self, epoch: Epoch) -> Result<(), StoreError>;

    /// Queues a batch and calls `done` with its outcome; both in submission order. Blocks only
    /// while the queue is full. `done` runs on the store's own thread: it must be quick and must
    /// not call the store.
    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback);

    /// Submits a batch and waits for its outcome.
    ///
    /// # Errors
    /// [`StoreError`] if the batch was not committed, or its outcome is unknown.
    fn commit(&self, batch: Batch<Fact>, wall: Wall) -> Result<Receipt, StoreError> {
        let (sender, outcome) = mpsc::sync_channel(1);
        let done = move |result| {
            // Fails only if the waiting side is gone, and then the outcome is not needed.
            let _ = sender.send(result);
        };
        self.submit(batch, wall, Box::new(done));
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Removes what `retention` does not keep, at most `budget` records, in steps so small that
    /// commits pass between them, and returns the space. Only instances in a terminal state are
    /// removed, each with its whole timeline; their ids stay known. The leader must have no facts
    /// in flight about any of them: they would be refused.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if the store cannot be
    /// written. What earlier steps have removed stays removed.
    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError>;

    /// Records notifications, in a transaction of its own.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if it cannot be written.
    fn record_notices(&self, epoch: Epoch, batch: NoticeBatch) -> Result<(), StoreError>;

    /// Records how far a follower of facts has got, or removes its position.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if it cannot be written.
    fn record_position(
        &self,
        epoch: Epoch,
        follower: FollowerName,
        seq: Option<Seq>,
    ) -> Result<(), StoreError>;

    /// Stores a token under a number that was never used before. If there are too many, the oldest
    /// invalid one is removed.
    ///
    /// Tokens do not belong to a term: the leader decides nothing about them, and another process
    /// may create and revoke tokens while a scheduler leads.
    ///
    /// # Errors
    /// [`StoreError::TooManyTokens`] if all of them are valid; others if it cannot be written.
    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError>;

    /// Revokes a token and returns it; `None` if there is no such token.
    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError>;

    /// Changes a secret, and returns it as it is now, or was; `None` if there is none. Secrets belong to no term, as
    /// tokens.
    ///
    /// # Errors
    /// [`StoreError::TooManySecrets`] for one more than are kept; others if it cannot be written.
    fn change_secret(&self, change: SecretChange) -> Result<Option<StoredSecret>, StoreError>;
}
