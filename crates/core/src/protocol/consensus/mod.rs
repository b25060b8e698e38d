//! Worker set consensus: how a scheduler without a store learns early that all
//! workers are back.
//!
//! # The problem
//!
//! With `--store memory` a restarted scheduler does not know what runs; only the
//! workers do. If it started work before the last of them had come back, it
//! could start something twice. So it waits the *initial wait*: long enough that
//! every worker of its predecessor has either connected or given up and killed
//! its work. That takes minutes. Mostly all workers are back within seconds, and
//! the scheduler may stop waiting as soon as it *knows* that.
//!
//! # The idea
//!
//! Every heartbeat reply tells the worker the id of the set of all workers
//! ([`WorkerSetId`]: epoch, version, hash). The worker keeps the last one it
//! received and sends it to the next scheduler, where it is called the worker's
//! `initial` id. If all connected workers send the very same id, and its hash is
//! the hash of the connected workers, then they are that whole set:
//! [`Consensus::agreed`].
//!
//! That is safe only if the set they agree on was not outdated. Suppose w1
//! received `{w1}` and fell silent, then w2 came and was given work. After a
//! restart w1 connects first, sends `{w1}`, is alone, agrees with itself, and the
//! work of w2 is started again. So w2 must not be given work before it is certain
//! that no such agreement without w2 can come about: [`Consensus::permits`],
//! asked before a worker becomes HEALTHY for the first time. The scheduler learns
//! what a worker holds from its next heartbeat, which repeats the id: its *echo*.
//! Replies get lost, so a worker may hold a newer id than it has echoed, never an
//! older one.
//!
//! # The floor
//!
//! For each member the scheduler keeps one version, its **floor**:
//!
//! > an agreement in which this member takes part is about its floor's version
//! > or a later one.
//!
//! It begins as the member's echo (what it holds is at least that new) and rises
//! by [`Consensus::propagate`]: if my floor is `v`, then each set that I can
//! agree on contains all those of set `v` that have not left until then, so
//! their floors hold for me as well. Hence a worker whose echoes are slow is
//! vouched for by a quicker one in the set that it did echo. Members that have left
//! still vouch: see `propagate.rs`. A floor that is too low only delays a
//! permission, so propagating rarely or forgetting the departed is always safe.
//!
//! # When w is permitted
//!
//! 1. w itself has echoed. From then on it holds an id of this epoch, so no worker
//!    that is given new work can still agree on a predecessor's set.
//! 2. The floor of every other member that joined *before* w, and still counts,
//!    is at least the version at which w joined.
//!
//! **Safety.** While a permitted w is a member, no group without w agrees on a
//! set of this epoch. Suppose a group did, on version `v`. The group is then the
//! set of version `v`, and since w is not in it, `v` lies before w joined. Take a
//! member u of the group. It joined at `v` or earlier, so before w; by rule 2
//! its floor is not below the version at which w joined, hence above `v`; but an
//! agreement of u cannot be about a version below its floor.
//!
//! **Why later joiners are not asked.** The protocol this one follows also wants
//! every member, however new, to have echoed, and w to have echoed the *current*
//! id. Then each newcomer restarts the wait of all workers that are not HEALTHY yet,
//! and some twenty workers in a crash loop block all others for ever. Neither is
//! needed. Every id of this epoch that a later joiner u can hold is at least as
//! new as u, thus newer than w, thus contains w; and until it holds one it sends
//! none, or an id of an earlier epoch (below). So w waits for a finite set,
//! the members that joined before it, and each of them echoes or is counted out
//! within the loss time and a lease. No member can be added to that set.
//!
//! # Obligations of the caller, which this module cannot check
//!
//! * **Ids of earlier epochs.** A member that has not received any reply of this
//!   scheduler still holds a predecessor's id and might agree on that. It has had
//!   no reply since before this scheduler started. If this scheduler waited its
//!   initial wait to the end, then such a member has given up by the time the
//!   first work is handed out. If the wait was cut short by agreement, then the
//!   agreed set was complete: what a member outside of it holds either names some
//!   of the workers that agreed, which no longer hold it, or only workers that the
//!   predecessor had condemned, which have given up.
//! * **An unfinished wait proves nothing.** An id given out *during* the initial
//!   wait names only the workers that have come back so far. If the scheduler dies then,
//!   its successor must not take that id for a complete set: a worker that sends one
//!   joins with `initial: None`. (So replies tell whether the wait has ended, and
//!   workers store that together with the id. It may become true of an id that
//!   they hold already.)
//! * **Leaving is final, and not too early.** No member waits any longer for one that
//!   left, though it may hold an id from before others joined. So it is counted
//!   out only when it cannot send that id any more: its lease has run out, or a
//!   later incarnation of it exists. And it never joins again under this epoch.
//! * **A worker that gives up forgets its id.** A worker whose lease has run out, or that must
//!   die, sends no id from then on. All arguments about time rest on
//!   this: without it, a worker that comes back much later with `{itself}` would
//!   agree with itself.
//! * **Nothing held goes back.** Within one epoch a worker replaces its id only
//!   by one of a higher version. It may forget its id (and then sends none), but
//!   not restore one older than an echo it has sent.
//! * **The reply comes after the join**, so that the id in it counts its reader.
//!
//! # Invariants
//!
//! * `version` grows by one with each join and each departure, and with nothing
//!   else; `hash` is the hash of exactly the members.
//! * `first <= floor <= version` for each member that has a floor; a floor never
//!   sinks.
//! * Every loop is bounded by the number of members and [`REMOVED_MAX`].
//!
//! Time does not appear here: the length of the wait and condemnation are
//! decided by the scheduler's protocol, and whether a worker must *remain*
//! HEALTHY never depends on this module.

mod members;
mod propagate;
#[cfg(test)]
mod tests;

use baton_model::ids::{Epoch, Incarnation};
use baton_model::limits::REMOVED_MAX;
use baton_model::worker_set::{SetVersion, WorkerSetHash, WorkerSetId};

use self::members::{Member, Members};
use self::propagate::Departed;

/// One scheduler's knowledge of the worker sets that its workers hold. See the module docs.
///
/// Calls, in this order for each heartbeat: [`join`](Self::join) if it is the
/// first, else [`echo`](Self::echo); then the reply with
/// [`current`](Self::current). [`leave`](Self::leave) when a member cannot come
/// back. Now and then [`propagate`](Self::propagate), before
/// [`permits`](Self::permits) is asked. [`agreed`](Self::agreed) matters only
/// while the initial wait lasts; that its end is irrevocable is the caller's part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consensus {
    epoch: Epoch,
    version: SetVersion,
    hash: WorkerSetHash,
    members: Members,
    departed: Departed,
}

impl Consensus {
    /// The empty set, at version 0, of a scheduler that has just started.
    #[must_use]
    pub fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            version: SetVersion::default(),
            hash: WorkerSetHash::default(),
            members: Members::default(),
            departed: Departed::default(),
        }
    }

    /// Counts `who` in, at its first heartbeat to this scheduler. `initial` is
    /// the id that it last held: a predecessor's, or none if it is new to the
    /// cluster, has forgotten it, or was given it during an unfinished wait.
    ///
    /// For a member nothing changes: its second "first" heartbeat is a repeat.
    pub fn join(&mut self, who: Incarnation, initial: Option<WorkerSetId>) {
        if self.members.contains(who) {
            return;
        }
        self.version = self.version.next();
        self.hash.add(who);
        self.members.insert(Member {
            who,
            first: self.version,
            // An id of our own says nothing about what our predecessor left.
            initial: initial.filter(|id| id.epoch != self.epoch),
            floor: None,
        });
    }

    /// Takes note of the id that a member holds which does not know this scheduler yet. Its first
    /// heartbeat may have been a delayed one, sent before it was given a later id of the
    /// predecessor: the latest counts.
    pub fn recall(&mut self, who: Incarnation, held: Option<WorkerSetId>) {
        if held.is_none_or(|id| id.epoch != self.epoch) {
            self.members.set_initial(who, held);
        }
    }

    /// Counts `who` out for ever: it was condemned and its lease has run out, or a
    /// later incarnation of it has appeared. Does nothing if it is not a member.
    pub fn leave(&mut self, who: Incarnation) {
        let Some(member) = self.members.remove(who) else {
            return;
        };
        self.version = self.version.next();
        self.hash.remove(who);
        if let Some(floor) = member.floor {
            self.departed.record(member.first, floor, REMOVED_MAX);
        }
    }

    /// Takes note of the id that a member repeats in a heartbeat.
    ///
    /// Ignored are ids that say nothing about this member's knowledge of this
    /// set: of another epoch, beyond the current version, from before it joined,
    /// or (a heartbeat overtaken by another) no newer than what is known already.
    pub fn echo(&mut self, who: Incarnation, id: WorkerSetId) {
        if id.epoch != self.epoch || id.version > self.version {
            return;
        }
        self.members.raise(who, id.version);
    }

    /// The id of the present set, for a heartbeat reply.
    #[must_use]
    pub fn current(&self) -> WorkerSetId {
        WorkerSetId {
            epoch: self.epoch,
            version: self.version,
            hash: self.hash,
        }
    }

    /// Raises every floor as far as what is known now allows, and forgets what
    /// no floor can need any more. One sorted sweep, O(n log n).
    pub fn propagate(&mut self) {
        propagate::raise_floors(&mut self.members, &self.departed);
        self.departed.prune(self.members.lowest());
    }

    /// True if `who` may become HEALTHY for the first time.
    ///
    /// `counts` is false for members that certainly cannot come back with the id
    /// they hold, such as one that is about to be counted out; they block no other member.
    /// Once true it stays true for as long as `who` is a member.
    #[must_use]
    pub fn permits(&self, who: Incarnation, counts: impl Fn(Incarnation) -> bool) -> bool {
        let Some(candidate) = self.members.get(who) else {
            return false;
        };
        candidate.floor.is_some()
            && self
                .members
                .joined_before(candidate.first)
                .filter(|earlier| counts(earlier.who))
                .all(|earlier| earlier.floor.is_some_and(|floor| floor >= candidate.first))
    }

    /// True if the initial wait may end: there are members, all sent the same id before
    /// they knew this scheduler, and its hash is theirs.
    #[must_use]
    pub fn agreed(&self) -> bool {
        let mut shown = self.members.iter().map(|member| member.initial);
        match shown.next() {
            Some(Some(id)) => id.hash == self.hash && shown.all(|other| other == Some(id)),
            Some(None) | None => false,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.len() == 0
    }

    /// True if `who` has joined and not left.
    #[must_use]
    pub fn contains(&self, who: Incarnation) -> bool {
        self.members.contains(who)
    }
}
