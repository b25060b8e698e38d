//! The constants of an exploration: its bounds, and the memoized answers of the parts.

use std::sync::Arc;

use baton_core::protocol::worker::io;
use baton_core::scheduler::{Effect, Input};
use baton_model::message::{ToScheduler, ToWorker};

use super::bound::Bound;
use super::hashed::Hashed;
use super::host::{Host, HostEffects};
use super::leader::Leader;
use super::memo::Memo;
use super::store::Store;

/// Leader and store after a commit, and the effects that waited for it.
type Committed = (Hashed<Leader>, Hashed<Store>, Arc<[Effect]>);

/// The constants of one exploration.
pub(crate) struct World {
    pub(crate) bound: Bound,
    leaders: Memo<LeaderReply>,
    commits: Memo<Committed>,
    hosts: Memo<(Hashed<Host>, Arc<HostEffects>)>,
}

impl World {
    pub(crate) fn new(bound: Bound) -> Self {
        Self {
            bound,
            leaders: Memo::new(),
            commits: Memo::new(),
            hosts: Memo::new(),
        }
    }

    /// Returns the leader after a message, and its immediate effects.
    pub(crate) fn deliver_to_leader(
        &self,
        leader: &Hashed<Leader>,
        key: u64,
        message: &ToScheduler,
    ) -> LeaderReply {
        self.leaders.get(leader.key(), key, || {
            LeaderReply::new(leader, Input::Message(message.clone()))
        })
    }

    /// Makes the oldest batch durable.
    pub(crate) fn commit(&self, leader: &Hashed<Leader>, store: &Hashed<Store>) -> Committed {
        self.commits.get(leader.key(), store.key(), || {
            let (mut leader, mut store) = (leader.clone(), store.clone());
            let effects = leader.edit(|leader| store.edit(|store| leader.commit(store)));
            (leader, store, effects.into())
        })
    }

    /// Returns a host after a message, and its effects.
    pub(crate) fn deliver_to_host(
        &self,
        host: &Hashed<Host>,
        key: u64,
        message: &ToWorker,
    ) -> (Hashed<Host>, Arc<HostEffects>) {
        self.hosts.get(host.key(), key, || {
            let mut after = host.clone();
            let mut effects = HostEffects::default();
            after.edit(|it| it.handle(io::Input::Message(message.clone()), &mut effects));
            (keep_if_same(host, after), Arc::new(effects))
        })
    }
}

/// The reaction of a leader to an input.
#[derive(Clone)]
pub(crate) struct LeaderReply {
    after: Hashed<Leader>,
    left: Arc<[Effect]>,
    repeated: Option<(Arc<[Effect]>, Hashed<Leader>)>,
}

impl LeaderReply {
    /// Feeds an input to a leader.
    pub(crate) fn new(before: &Hashed<Leader>, input: Input) -> Self {
        let mut after = before.clone();
        let step = after.edit(|leader| leader.handle(input));
        let repeated = step
            .repeated
            .map(|(effects, leader)| (effects.into(), keep_if_same(before, Hashed::new(leader))));
        Self {
            after: keep_if_same(before, after),
            left: step.left.into(),
            repeated,
        }
    }

    /// Returns the leader and its immediate effects; `sent` tells which effects were sent before.
    pub(crate) fn after(self, sent: impl Fn(&Effect) -> bool) -> (Hashed<Leader>, Arc<[Effect]>) {
        match self.repeated {
            Some((effects, leader)) if effects.iter().all(sent) => (leader, Arc::default()),
            _ => (self.after, self.left),
        }
    }
}

/// Reuses the old copy of an equal value, so that comparing it again is free.
fn keep_if_same<T: PartialEq>(before: &Hashed<T>, after: Hashed<T>) -> Hashed<T> {
    if after == *before {
        before.clone()
    } else {
        after
    }
}
