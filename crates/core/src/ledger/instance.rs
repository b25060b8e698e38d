//! An instance and its lease.

use std::sync::Arc;

use baton_model::fact::{Holder, NextAttempt, Verdict};
use baton_model::ids::{AttemptNo, InstanceId, LeaseId, WorkerName};
use baton_model::outcome::{AttemptEnd, KillCause, KillMode, Outcome};
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use serde::{Deserialize, Serialize};

use super::{LedgerError, verdict_event};
use crate::fsm::{Transition, Universal, UniversalEvent, transition};
use crate::triage::{self, Charge};

/// An open lease: the right of one incarnation to one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The attempt, and the epoch that granted the lease.
    pub id: LeaseId,
    pub holder: Holder,
    /// Whether the worker has confirmed that it holds the attempt.
    pub confirmed: bool,
    /// The attempt is to be killed: its instance was stopped, an operator kills this attempt, or a member
    /// of its gang was lost.
    pub kill: Option<KillMode>,
    /// Of a gang: its other members.
    pub gang: Option<Gang>,
}

/// The members of a gang that are held for it, other than the holder of its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gang {
    /// In the order of the host list. Not empty.
    pub others: Vec<Holder>,
    /// The first of them that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<WorkerName>,
}

impl Gang {
    fn of(others: &[Holder]) -> Option<Self> {
        (!others.is_empty()).then(|| Self {
            others: others.to_vec(),
            lost: None,
        })
    }
}

impl Lease {
    /// The other members of a gang.
    #[must_use]
    pub fn others(&self) -> &[Holder] {
        self.gang.as_ref().map_or(&[], |gang| &gang.others)
    }

    /// All workers that are taken by the attempt, the holder first.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerName> {
        let others = self.others().iter().map(|it| &it.worker);
        std::iter::once(&self.holder.worker).chain(others)
    }

    /// The member that was lost, if one was.
    #[must_use]
    pub fn lost_member(&self) -> Option<&WorkerName> {
        self.gang.as_ref()?.lost.as_ref()
    }
}

/// One requested execution of one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub id: InstanceId,
    pub spec: Arc<InstanceSpec>,
    pub state: UniversalState,
    /// Its open lease; boxed, since most instances have none.
    pub lease: Option<Box<Lease>>,
    /// Number of attempts leased so far.
    pub attempts: AttemptNo,
    /// Number of failed attempts.
    pub failures: u32,
    /// Number of lost attempts.
    pub losses: u32,
    /// A stop was requested.
    pub stop_requested: bool,
    /// Backoff and allowance of its next attempt, if a failed attempt changed them.
    pub next_attempt: Option<Box<NextAttempt>>,
}

impl Instance {
    pub(super) const fn new(id: InstanceId, spec: Arc<InstanceSpec>) -> Self {
        Self {
            id,
            spec,
            state: UniversalState::Registering,
            lease: None,
            attempts: AttemptNo(0),
            failures: 0,
            losses: 0,
            stop_requested: false,
            next_attempt: None,
        }
    }

    /// An instance without a fact after its submission.
    pub(super) const fn queued(id: InstanceId, spec: Arc<InstanceSpec>) -> Self {
        let mut instance = Self::new(id, spec);
        // The transition that every submission takes; a test checks it against the table.
        instance.state = UniversalState::Queued;
        instance
    }

    /// The allowance of its running or next attempt.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        let scaled = self
            .next_attempt
            .as_ref()
            .and_then(|it| it.allowance.clone());
        scaled.unwrap_or_else(|| self.spec.allowance())
    }

    #[must_use]
    pub fn not_before(&self) -> Option<Wall> {
        self.next_attempt.as_ref()?.not_before
    }

    /// The end of its attempt with the origin of the kill, which no worker knows. Programs of a gang often fail
    /// by themselves when a member is gone, before they are killed for it.
    #[must_use]
    pub fn attribute(&self, end: AttemptEnd) -> AttemptEnd {
        let is_incomplete = self
            .lease
            .as_ref()
            .is_some_and(|it| it.lost_member().is_some());
        if is_incomplete && !self.stop_requested && follows_from_loss(end) {
            return AttemptEnd::Real(Outcome::Killed(KillCause::MemberLost));
        }
        let is_killed = self.lease.as_ref().is_some_and(|it| it.kill.is_some());
        match end {
            AttemptEnd::Real(Outcome::Killed(KillCause::Requested))
                if is_killed && !self.stop_requested =>
            {
                AttemptEnd::Real(Outcome::Killed(KillCause::Operator))
            }
            end => end,
        }
    }

    /// The verdict if its attempt ends like this.
    #[must_use]
    pub fn verdict(&self, end: AttemptEnd) -> Verdict {
        triage::decide(
            end,
            self.failures,
            self.losses,
            &self.spec.retry,
            self.stop_requested,
        )
    }

    /// Backoff and allowance of the next attempt, if this one ends like this and another follows.
    #[must_use]
    pub fn next_attempt(&self, now: Wall, end: AttemptEnd) -> Option<NextAttempt> {
        triage::next_attempt(end, self.failures, &self.spec.retry, &self.allowance(), now)
    }

    pub(super) fn open(
        &mut self,
        lease: LeaseId,
        holder: Holder,
        others: &[Holder],
    ) -> Result<(), LedgerError> {
        if let Some(open) = &self.lease {
            return Err(LedgerError::NotTheOpenLease(lease, Some(open.id)));
        }
        self.step(UniversalEvent::Claimed)?;
        self.step(UniversalEvent::LeaseGranted)?;
        self.attempts = self.attempts.max(lease.attempt.number);
        self.lease = Some(Box::new(Lease {
            id: lease,
            holder,
            confirmed: false,
            kill: None,
            gang: Gang::of(others),
        }));
        if let Some(next_attempt) = &mut self.next_attempt {
            next_attempt.not_before = None;
        }
        Ok(())
    }

    pub(super) fn confirm(&mut self, lease: LeaseId) -> Result<(), LedgerError> {
        match &mut self.lease {
            Some(open) if open.id == lease => open.confirmed = true,
            other => {
                let open = other.as_ref().map(|open| open.id);
                return Err(LedgerError::NotTheOpenLease(lease, open));
            }
        }
        self.step(UniversalEvent::Confirmed)
    }

    /// Records a stop of the instance, and with it the kill of its attempt.
    pub(super) fn stop(&mut self, mode: KillMode) {
        self.stop_requested = true;
        if let Some(open) = &mut self.lease {
            open.kill = open.kill.max(Some(mode));
        }
    }

    /// Records a kill of one attempt.
    pub(super) fn kill(&mut self, lease: LeaseId, mode: KillMode) -> Result<(), LedgerError> {
        match &mut self.lease {
            Some(open) if open.id == lease => {
                open.kill = open.kill.max(Some(mode));
                Ok(())
            }
            other => {
                let open = other.as_ref().map(|open| open.id);
                Err(LedgerError::NotTheOpenLease(lease, open))
            }
        }
    }

    /// Records the loss of a member of its gang, and with it the kill of its attempt.
    pub(super) fn lose_member(
        &mut self,
        lease: LeaseId,
        worker: &WorkerName,
    ) -> Result<(), LedgerError> {
        self.kill(lease, KillMode::Graceful)?;
        let gang = self.lease.as_mut().and_then(|open| open.gang.as_mut());
        let is_member =
            |gang: &&mut Gang| gang.others.iter().any(|holder| holder.worker == *worker);
        let Some(gang) = gang.filter(is_member) else {
            let reason = "has lost a member that its gang does not have";
            return Err(LedgerError::Impossible(self.id, reason));
        };
        gang.lost.get_or_insert_with(|| worker.clone());
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        lease: LeaseId,
        end: AttemptEnd,
        verdict: Verdict,
        next_attempt: Option<&NextAttempt>,
    ) -> Result<(), LedgerError> {
        match self.lease.take() {
            Some(open) if open.id == lease => {}
            other => {
                let open = other.map(|open| open.id);
                return Err(LedgerError::NotTheOpenLease(lease, open));
            }
        }
        // A stop that was requested is no failure, however the attempt ended.
        let charge = match verdict {
            Verdict::Stopped => Charge::Nothing,
            _ => triage::charge(end),
        };
        match charge {
            Charge::Nothing => {}
            Charge::Failure => self.failures += 1,
            Charge::Loss => self.losses += 1,
        }
        if let Some(next_attempt) = next_attempt {
            let allowance = next_attempt.allowance.clone().or_else(|| {
                let before = self.next_attempt.take()?;
                before.allowance
            });
            self.next_attempt = Some(Box::new(NextAttempt {
                not_before: next_attempt.not_before,
                allowance,
            }));
        }
        if verdict == Verdict::Done {
            // The confirmation may have been lost on the way; the result proves it.
            if self.state == UniversalState::Launched {
                self.step(UniversalEvent::Confirmed)?;
            }
        } else {
            self.step(UniversalEvent::AttemptEnded)?;
        }
        self.step(verdict_event(verdict))
    }

    /// Halts a waiting instance. Only the end of its attempt closes a lease.
    pub(super) fn halt(&mut self) -> Result<(), LedgerError> {
        if self.lease.is_some() {
            let reason = "is leased; only the end of its attempt can stop it";
            return Err(LedgerError::Impossible(self.id, reason));
        }
        self.step(UniversalEvent::Stopped)
    }

    /// Requeues it on request, with fresh budgets. Attempts are numbered on, so that no two ever
    /// have the same number.
    pub(super) fn retry(&mut self) -> Result<(), LedgerError> {
        let event = match self.state {
            UniversalState::Halted => UniversalEvent::Resumed,
            _ => UniversalEvent::RetriedByHand,
        };
        self.step(event)?;
        self.failures = 0;
        self.losses = 0;
        self.stop_requested = false;
        self.next_attempt = None;
        Ok(())
    }

    pub(super) fn step(&mut self, event: UniversalEvent) -> Result<(), LedgerError> {
        match transition::<Universal>(self.state, event) {
            Ok(Transition::Moved(state)) => {
                self.state = state;
                Ok(())
            }
            // Late events are sorted out before they become facts.
            Ok(Transition::Late(_)) => Err(LedgerError::Illegal(
                self.id,
                crate::fsm::IllegalTransition {
                    state: self.state,
                    event,
                },
            )),
            Err(illegal) => Err(LedgerError::Illegal(self.id, illegal)),
        }
    }
}

/// True if an attempt may have ended like this because a member of its gang was lost.
const fn follows_from_loss(end: AttemptEnd) -> bool {
    match end {
        AttemptEnd::Real(Outcome::Exited(code)) => code != 0,
        AttemptEnd::Real(Outcome::Signaled(_) | Outcome::Killed(KillCause::Requested)) => true,
        _ => false,
    }
}
