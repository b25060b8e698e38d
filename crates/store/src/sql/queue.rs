//! Operations queued for the writer, in order.
//!
//! Adjacent commits and renewals form one group, which is written in one transaction (group
//! commit); every other operation runs alone.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, TokenId};
use baton_model::secret::StoredSecret;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};

use crate::followers::FollowerName;
use crate::limits::{GROUP_FACTS_MAX, QUEUE_FACTS_MAX};
use crate::notices::NoticeBatch;
use crate::secret::SecretChange;
use crate::view::Seq;
use crate::{CommitCallback, PruneReport, Retention, StoreError};

/// Called once with the outcome of an operation.
pub(super) type Callback<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// A member of a group.
pub(super) enum Write {
    Commit {
        batch: Batch<Fact>,
        wall: Wall,
        done: CommitCallback,
    },
    Renew {
        epoch: Epoch,
        done: Callback<()>,
    },
}

impl Write {
    pub(super) fn epoch(&self) -> Epoch {
        match self {
            Self::Commit { batch, .. } => batch.epoch(),
            Self::Renew { epoch, .. } => *epoch,
        }
    }

    pub(super) fn facts(&self) -> &[Fact] {
        match self {
            Self::Commit { batch, .. } => batch.facts(),
            Self::Renew { .. } => &[],
        }
    }

    /// Reports the outcome to its caller.
    pub(super) fn complete(self, outcome: Result<(), StoreError>) {
        match self {
            Self::Commit { batch, done, .. } => done(outcome.map(|()| batch.durable())),
            Self::Renew { done, .. } => done(outcome),
        }
    }
}

/// An operation with a transaction of its own.
pub(super) enum ExclusiveOp {
    /// Take the leadership row; returns whether its epoch was the expected one.
    Take {
        expected: Epoch,
        next: Epoch,
        done: Callback<bool>,
    },
    /// Remove some expired records.
    Prune {
        epoch: Epoch,
        now: Wall,
        retention: Retention,
        limit: usize,
        done: Callback<PruneReport>,
    },
    /// Return some free space; returns whether there is more.
    Vacuum { epoch: Epoch, done: Callback<bool> },
    /// Store a token; returns its number.
    CreateToken {
        new: Box<NewToken>,
        done: Callback<TokenId>,
    },
    /// Revoke a token; returns it, if it exists.
    RevokeToken {
        id: TokenId,
        done: Callback<Option<Token>>,
    },
    /// Change a secret.
    ChangeSecret {
        change: Box<SecretChange>,
        done: Callback<Option<StoredSecret>>,
    },
    /// Record notifications.
    RecordNotices {
        epoch: Epoch,
        batch: Box<NoticeBatch>,
        done: Callback<()>,
    },
    /// Record the position of a follower, or remove it.
    RecordPosition {
        epoch: Epoch,
        follower: FollowerName,
        seq: Option<Seq>,
        done: Callback<()>,
    },
    /// Maintenance after space was returned.
    Vacuumed { done: Callback<()> },
}

/// The writer's next piece of work.
pub(super) enum WriterTask {
    Group(Vec<Write>),
    Exclusive(ExclusiveOp),
}

enum QueueEntry {
    Write(Write),
    Exclusive(ExclusiveOp),
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueueEntry>,
    facts: usize,
    closed: bool,
}

/// The queue between many callers and the one writer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

impl Queue {
    /// Queues a write; blocks while the queue is full. Fails the write if the queue is closed.
    pub(super) fn push_write(&self, write: Write) {
        let mut state = self.lock();
        while state.facts >= QUEUE_FACTS_MAX && !state.closed {
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            drop(state);
            write.complete(Err(StoreError::Closed));
            return;
        }
        state.facts += weight(&write);
        state.waiting.push_back(QueueEntry::Write(write));
        drop(state);
        self.filled.notify_one();
    }

    /// Queues an exclusive operation; if the queue is closed, drops it, which unblocks its caller.
    pub(super) fn push_exclusive(&self, op: ExclusiveOp) {
        let mut state = self.lock();
        if !state.closed {
            state.waiting.push_back(QueueEntry::Exclusive(op));
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Waits for the next piece of work; `None` when the queue is closed and empty.
    pub(super) fn next(&self) -> Option<WriterTask> {
        let mut state = self.lock();
        loop {
            match state.waiting.pop_front() {
                Some(QueueEntry::Exclusive(op)) => return Some(WriterTask::Exclusive(op)),
                Some(QueueEntry::Write(first)) => {
                    let group = take_group(&mut state, first);
                    drop(state);
                    self.emptied.notify_all();
                    return Some(WriterTask::Group(group));
                }
                None if state.closed => return None,
                None => {
                    state = self
                        .filled
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Closes the queue. What is queued is still carried out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Fails everything that is queued: the writer is gone.
    pub(super) fn fail_all(&self) {
        self.close();
        let waiting = std::mem::take(&mut self.lock().waiting);
        for waiting in waiting {
            if let QueueEntry::Write(write) = waiting {
                write.complete(Err(StoreError::Closed));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_group(state: &mut State, first: Write) -> Vec<Write> {
    let mut facts = weight(&first);
    let mut group = vec![first];
    while facts < GROUP_FACTS_MAX
        && let Some(QueueEntry::Write(write)) = state
            .waiting
            .pop_front_if(|waiting| matches!(waiting, QueueEntry::Write(_)))
    {
        facts += weight(&write);
        group.push(write);
    }
    state.facts -= facts;
    group
}

/// A fence or a renewal has no facts, but must still take room in the queue.
fn weight(write: &Write) -> usize {
    write.facts().len().max(1)
}
