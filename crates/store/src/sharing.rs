//! What schedulers that share a store learn from each other through it.
//!
//! Safety never depends on this: the epoch in the leader row fences every write. It makes a takeover
//! fast, and lets followers find the leader.

use std::time::Duration;

use baton_model::ids::Epoch;
use baton_model::time::Millis;

use crate::StoreError;

/// A scheduler that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Unique among the schedulers of the store, and different after a restart.
    pub name: String,
    /// The URL of its client port, for other schedulers and for clients.
    pub clients: String,
    /// The address of its worker port.
    pub workers: String,
    /// The last term that it has led; 0 if none.
    pub epoch: Epoch,
}

/// An announcement as others read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub scheduler: Announcement,
    /// How long ago it was made, by the clock of the store.
    pub age: Millis,
    /// How long ago the scheduler was first announced, by the same clock.
    pub started: Millis,
}

/// Sessions, notifications and announcements of a store that several schedulers use.
///
/// All calls block, and each may be made from a thread of its own.
pub trait Sharing: Send + Sync {
    /// Waits until no live session leads, at most `wait`. True if so: from then on the session of
    /// this store leads, until [`Sharing::release`] or until its connection breaks. True at once if
    /// it leads already.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn await_vacancy(&self, wait: Duration) -> Result<bool, StoreError>;

    /// Ends the session that leads, if it is another one, and leads. For a leader that was seen to be
    /// frozen or cut off.
    ///
    /// # Errors
    /// If the store cannot be reached, or refuses to end the session.
    fn depose(&self) -> Result<(), StoreError>;

    /// Leads no more, so that another scheduler takes over at once.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn release(&self) -> Result<(), StoreError>;

    /// Waits until any scheduler has committed facts since the last call, at most `wait`; true if so,
    /// or if it may be so.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn await_commit(&self, wait: Duration) -> Result<bool, StoreError>;

    /// Whether the store may lack what was acknowledged in its last term: a standby was promoted that
    /// did not replicate synchronously, or a backup was restored.
    ///
    /// # Errors
    /// If that cannot be told.
    fn has_broken_history(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Records that the leader of this epoch has taken account of it; false if its new generation is
    /// not durable yet.
    ///
    /// # Errors
    /// If it cannot be written.
    fn record_history(&self, _epoch: Epoch) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Records that the content of the store was restored from a backup.
    ///
    /// # Errors
    /// If it cannot be written.
    fn mark_restored(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Records or renews the announcement of this scheduler; those that were not renewed for a day go.
    ///
    /// # Errors
    /// If it cannot be written.
    fn announce(&self, scheduler: &Announcement) -> Result<(), StoreError>;

    /// Removes the announcement of this name, at an orderly end.
    ///
    /// # Errors
    /// If it cannot be written.
    fn withdraw(&self, name: &str) -> Result<(), StoreError>;

    /// All announcements, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    fn announced(&self) -> Result<Vec<Announced>, StoreError>;
}
