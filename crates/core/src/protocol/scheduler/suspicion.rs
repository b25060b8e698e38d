//! Suspicious workers: unrelated work fails there, and succeeds elsewhere.
//!
//! A host can be sick in ways that its own check does not see: a broken accelerator, a mount that is
//! missing, a wrong library. Its tasks fail at once, so it is the freest worker and gets the most.
//! Each worker has a [`Track`] of the last ends there, one for each kind of work (owner and name), so
//! that an array of a thousand broken elements is one failure. A worker is suspicious if many kinds
//! failed there, at least half of what ended, and several times as often as on all others. A worker
//! that is alone is never suspicious: there is nothing to compare it with.
//!
//! A suspicious worker gets nothing for a while, then one attempt at a time. A failure doubles the
//! pause; several successes in a row, an operator's `undrain` or another incarnation end it, and so
//! does an absence after which the worker is forgotten. Nothing of this is durable: the next leader
//! learns it anew.

use std::collections::{BTreeMap, VecDeque};

use baton_model::fact::Fact;
use baton_model::ids::{Incarnation, LeaseId, WorkerName};
use baton_model::limits::{
    SUSPICION_FAILURES_MIN, SUSPICION_MEMORY, SUSPICION_PAUSE, SUSPICION_PAUSE_MAX,
    SUSPICION_RATIO, SUSPICION_TRIALS, SUSPICION_WORKS_MAX,
};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_model::placement::Suspicion;
use baton_model::time::{Millis, Mono};

use super::Protocol;
use super::context::Cx;
use crate::triage::{self, Charge};

/// The last end of one kind of work on a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WorkEnd {
    owner: Box<str>,
    name: Box<str>,
    at: Mono,
    failed: bool,
}

/// Kinds of work that ended, and that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Tally {
    ended: u32,
    failed: u32,
}

impl Tally {
    const fn add(&mut self, failed: bool) {
        self.ended += 1;
        self.failed += failed as u32;
    }

    const fn remove(&mut self, failed: bool) {
        self.ended -= 1;
        self.failed -= failed as u32;
    }
}

/// Trials of a suspicious worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Trials {
    suspicion: Suspicion,
    /// It gets nothing before.
    next: Mono,
    pause: Millis,
    /// The attempt that tries it now.
    open: Option<LeaseId>,
    /// Successes in a row.
    passed: u32,
}

/// The last ends on one worker, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Track {
    ends: VecDeque<WorkEnd>,
    tally: Tally,
    trials: Option<Trials>,
}

impl Track {
    fn record(&mut self, end: WorkEnd) {
        let mut known = self.ends.iter();
        let same = known.position(|it| it.name == end.name && it.owner == end.owner);
        if let Some(before) = same.and_then(|at| self.ends.remove(at)) {
            self.tally.remove(before.failed);
        }
        let now = end.at;
        self.tally.add(end.failed);
        self.ends.push_back(end);
        while let Some(oldest) = self.ends.front()
            && (self.ends.len() > SUSPICION_WORKS_MAX || now.since(oldest.at) > SUSPICION_MEMORY)
        {
            self.tally.remove(oldest.failed);
            self.ends.pop_front();
        }
    }
}

/// A change of what is thought of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judgement {
    Suspected(Suspicion),
    /// It has passed its trials.
    Proved,
}

/// The tracks of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Suspicions {
    tracks: BTreeMap<Incarnation, Track>,
    /// The sum of all tracks.
    total: Tally,
}

impl Suspicions {
    /// Records an end on a worker. Returns the suspicion that it gives rise to.
    fn record(&mut self, worker: Incarnation, end: WorkEnd) -> Option<Suspicion> {
        let now = end.at;
        let track = self.tracks.entry(worker).or_default();
        let before = track.tally;
        track.record(end);
        let here = track.tally;
        self.total = Tally {
            ended: self.total.ended - before.ended + here.ended,
            failed: self.total.failed - before.failed + here.failed,
        };
        let suspicion = Suspicion {
            failed: here.failed,
            ended: here.ended,
            failed_elsewhere: self.total.failed - here.failed,
            ended_elsewhere: self.total.ended - here.ended,
        };
        if track.trials.is_some() || !is_unusual(suspicion) {
            return None;
        }
        track.trials = Some(Trials {
            suspicion,
            next: now + SUSPICION_PAUSE,
            pause: SUSPICION_PAUSE,
            open: None,
            passed: 0,
        });
        Some(suspicion)
    }

    /// An attempt has ended, which may be the trial of a suspicious worker. Returns true if the worker
    /// has passed enough of them.
    fn tried(
        &mut self,
        worker: Incarnation,
        lease: LeaseId,
        failed: Option<bool>,
        now: Mono,
    ) -> bool {
        let Some(track) = self.tracks.get_mut(&worker) else {
            return false;
        };
        let Some(trials) = track.trials.as_mut().filter(|it| it.open == Some(lease)) else {
            return false;
        };
        trials.open = None;
        match failed {
            Some(true) => {
                trials.passed = 0;
                trials.pause = trials.pause.scaled(2, 1).min(SUSPICION_PAUSE_MAX);
                trials.next = now + trials.pause;
                false
            }
            Some(false) => {
                trials.passed += 1;
                trials.passed >= SUSPICION_TRIALS
            }
            None => false,
        }
    }

    /// Forgets what is known of a worker. True if it was suspicious.
    pub(super) fn forget(&mut self, worker: Incarnation) -> bool {
        let Some(track) = self.tracks.remove(&worker) else {
            return false;
        };
        self.total.ended -= track.tally.ended;
        self.total.failed -= track.tally.failed;
        track.trials.is_some()
    }

    /// True if a worker gets nothing at this moment.
    pub(super) fn holds_back(&self, worker: Incarnation, now: Mono) -> bool {
        self.trials(worker)
            .is_some_and(|it| it.open.is_some() || now < it.next)
    }

    /// When a worker is tried next, if it is suspicious and not tried now.
    pub(super) fn next_trial(&self, worker: Incarnation) -> Option<Mono> {
        let trials = self.trials(worker)?;
        trials.open.is_none().then_some(trials.next)
    }

    /// A lease was granted to a worker: a trial, if it is suspicious.
    pub(super) fn granted(&mut self, worker: Incarnation, lease: LeaseId) {
        let track = self.tracks.get_mut(&worker);
        if let Some(trials) = track.and_then(|it| it.trials.as_mut()) {
            trials.open = Some(lease);
        }
    }

    fn trials(&self, worker: Incarnation) -> Option<&Trials> {
        self.tracks.get(&worker)?.trials.as_ref()
    }
}

/// True if work fails on a worker far more often than elsewhere.
const fn is_unusual(it: Suspicion) -> bool {
    let (failed, ended) = (it.failed as u64, it.ended as u64);
    let (failed_elsewhere, ended_elsewhere) =
        (it.failed_elsewhere as u64, it.ended_elsewhere as u64);
    it.failed >= SUSPICION_FAILURES_MIN
        && 2 * failed >= ended
        && it.ended_elsewhere >= SUSPICION_FAILURES_MIN
        && failed * ended_elsewhere >= SUSPICION_RATIO * failed_elsewhere * ended
}

/// Whether the work has failed, if its end says something about its worker.
fn evidence(end: AttemptEnd) -> Option<bool> {
    match end {
        AttemptEnd::Real(Outcome::Killed(KillCause::Requested | KillCause::Operator)) => None,
        AttemptEnd::Real(outcome) if outcome.is_success() => Some(false),
        end => (triage::charge(end) == Charge::Failure).then_some(true),
    }
}

impl Protocol {
    /// Why a worker is suspicious, if it is.
    pub(crate) fn suspicion(&self, name: &WorkerName) -> Option<Suspicion> {
        let worker = self.seats.get(name)?.holder.incarnation;
        Some(self.suspicions.trials(worker)?.suspicion)
    }

    /// Judges a worker by the end of an attempt whose lease is still open: its ledger has the work.
    pub(super) fn judge_end(
        &mut self,
        cx: &Cx<'_>,
        name: &WorkerName,
        lease: LeaseId,
        end: AttemptEnd,
    ) -> Option<Judgement> {
        let now = cx.now.mono;
        let worker = self.seats.get(name)?.holder.incarnation;
        let failed = evidence(end);
        let passed = self.suspicions.tried(worker, lease, failed, now);
        let spec = &cx.ledger().instance(lease.attempt.instance)?.spec;
        let end = WorkEnd {
            owner: spec.owner.as_str().into(),
            name: spec.name.as_str().into(),
            at: now,
            failed: failed?,
        };
        match self.suspicions.record(worker, end) {
            Some(suspicion) => Some(Judgement::Suspected(suspicion)),
            None if passed && !seeded!(cx.config.bugs, SuspicionKept) => Some(Judgement::Proved),
            None => None,
        }
    }

    /// Acts on what the end of an attempt says about its worker.
    pub(super) fn pronounce(&mut self, cx: &mut Cx<'_>, name: &WorkerName, judgement: Judgement) {
        match judgement {
            Judgement::Suspected(suspicion) => {
                cx.commit(Fact::WorkerSuspected {
                    worker: name.clone(),
                    incarnation: self.seats[name].holder.incarnation,
                    suspicion: Some(suspicion),
                });
                self.rearm(cx, name);
            }
            Judgement::Proved => self.trust(cx, name),
        }
    }

    /// Ends the suspicion against a worker, if there is one.
    pub(crate) fn trust(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        if let Some(seat) = self.seats.get(name) {
            self.forget_suspicion(cx, name, seat.holder.incarnation);
            self.update_offer(cx, name);
            self.rearm(cx, name);
        }
    }

    /// Forgets what is known of an incarnation; never silently.
    pub(super) fn forget_suspicion(
        &mut self,
        cx: &mut Cx<'_>,
        name: &WorkerName,
        incarnation: Incarnation,
    ) {
        if self.suspicions.forget(incarnation) {
            cx.commit(Fact::WorkerSuspected {
                worker: name.clone(),
                incarnation,
                suspicion: None,
            });
        }
    }
}
