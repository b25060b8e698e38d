//! What waits for the writer, in order.
//!
//! Neighbouring commits and renewals leave as one group, to be written in one
//! transaction; everything else leaves alone.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, TokenId};
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};

use crate::limits::{GROUP_FACTS_MAX, QUEUE_FACTS_MAX};
use crate::{CommitCallback, PruneReport, Retention, StoreError};

/// Called once with what became of an operation.
pub(super) type Tell<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// A part of a group.
pub(super) enum Write {
    Commit {
        batch: Batch<Fact>,
        wall: Wall,
        done: CommitCallback,
    },
    Renew {
        epoch: Epoch,
        done: Tell<()>,
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

    /// Tells its fate.
    pub(super) fn end(self, fate: Result<(), StoreError>) {
        match self {
            Self::Commit { batch, done, .. } => done(fate.map(|()| batch.durable())),
            Self::Renew { done, .. } => done(fate),
        }
    }
}

/// What the writer is asked to do by itself.
pub(super) enum Alone {
    /// Take the row; answers whether it was still free.
    Take { expected: Epoch, done: Tell<bool> },
    /// Remove some of what is not to be kept.
    Prune {
        epoch: Epoch,
        now: Wall,
        retention: Retention,
        limit: usize,
        done: Tell<PruneReport>,
    },
    /// Return some free pages; answers whether there are more.
    Vacuum { epoch: Epoch, done: Tell<bool> },
    /// Keep a token; answers its number.
    CreateToken {
        new: Box<NewToken>,
        done: Tell<TokenId>,
    },
    /// Mark a token; answers it, if it is there.
    RevokeToken {
        id: TokenId,
        done: Tell<Option<Token>>,
    },
    /// Bring the file up to date with the log.
    Checkpoint { done: Tell<()> },
}

/// What the writer does next.
pub(super) enum Work {
    Group(Vec<Write>),
    Alone(Alone),
}

enum Waiting {
    Write(Write),
    Alone(Alone),
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
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
    /// Adds a write; waits while there are too many. Fails it if nobody will come.
    pub(super) fn write(&self, write: Write) {
        let mut state = self.lock();
        while state.facts >= QUEUE_FACTS_MAX && !state.closed {
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            drop(state);
            write.end(Err(StoreError::Closed));
            return;
        }
        state.facts += weight(&write);
        state.waiting.push_back(Waiting::Write(write));
        drop(state);
        self.filled.notify_one();
    }

    /// Adds something to be done alone; dropped, and so its caller freed, if nobody
    /// will come.
    pub(super) fn alone(&self, alone: Alone) {
        let mut state = self.lock();
        if !state.closed {
            state.waiting.push_back(Waiting::Alone(alone));
            drop(state);
            self.filled.notify_one();
        }
    }

    /// What to do next, waiting for it; nothing when closed and done.
    pub(super) fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            match state.waiting.pop_front() {
                Some(Waiting::Alone(alone)) => return Some(Work::Alone(alone)),
                Some(Waiting::Write(first)) => {
                    let group = take_group(&mut state, first);
                    drop(state);
                    self.emptied.notify_all();
                    return Some(Work::Group(group));
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

    /// Takes nothing more in. What is waiting is still done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Fails everything that waits: the writer is gone.
    pub(super) fn abandon(&self) {
        self.close();
        let waiting = std::mem::take(&mut self.lock().waiting);
        for waiting in waiting {
            if let Waiting::Write(write) = waiting {
                write.end(Err(StoreError::Closed));
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
        && let Some(Waiting::Write(write)) = state
            .waiting
            .pop_front_if(|waiting| matches!(waiting, Waiting::Write(_)))
    {
        facts += weight(&write);
        group.push(write);
    }
    state.facts -= facts;
    group
}

/// A fence or a renewal has no facts, but must not be free of charge either.
fn weight(write: &Write) -> usize {
    write.facts().len().max(1)
}
