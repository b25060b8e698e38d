//! Launches that wait for the secrets of their attempt.
//!
//! The values are not here: the driver keeps them in memory files, and says when they are there. The request is
//! repeated for as long as the attempt waits, so that neither a lost message nor another leader matters; only a
//! leader that knows the lease answers, so an attempt whose lease has run out never starts.

use std::sync::Arc;

use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};

use super::Supervisor;
use super::attempts::Phase;
use super::io::Action;
use crate::protocol::worker::io::Input;

/// The interval between two requests for the same secrets. A scheduler may take longer: it may ask a program.
const REQUEST_INTERVAL: Millis = Millis::from_secs(2);

impl Supervisor {
    /// True if an attempt waits for its secrets.
    #[must_use]
    pub fn awaits_secrets(&self, lease: LeaseId) -> bool {
        let attempt = self.attempts.of(lease);
        attempt.is_some_and(|it| it.phase == Phase::AwaitingSecrets)
    }

    pub(super) fn request_secrets(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get(run) else {
            return;
        };
        let request = self.worker.get_secrets(attempt.assignment.lease);
        out.extend(request.map(Action::Send));
        self.secrets_due.insert((now + REQUEST_INTERVAL, run));
    }

    pub(super) fn request_secrets_again(&mut self, now: Mono, out: &mut Vec<Action>) {
        while let Some(due) = self
            .secrets_due
            .first()
            .copied()
            .filter(|(at, _)| *at <= now)
        {
            self.secrets_due.remove(&due);
            self.request_secrets(now, due.1, out);
        }
    }

    pub(super) fn secrets_here(&mut self, lease: LeaseId, out: &mut Vec<Action>) {
        if let Some(run) = self.end_wait(lease) {
            self.attempts.set_phase(run, Phase::Requested);
            out.push(Action::Launch(run));
        }
    }

    pub(super) fn secrets_missing(&mut self, lease: LeaseId, reason: Arc<str>) {
        if let Some(run) = self.end_wait(lease) {
            self.launch_impossible(run, Some(reason));
        }
    }

    /// Ends an attempt that waits: nothing of it has begun.
    pub(super) fn end_unbegun(&mut self, run: RunKey, cause: KillCause) {
        let attempt = self.attempts.get(run);
        if let Some(lease) = attempt.map(|it| it.assignment.lease)
            && self.end_wait(lease).is_some()
        {
            self.attempts.remove(lease);
            let killed = Outcome::Killed(cause).into();
            self.inputs.push_back(Input::Ended(lease, killed));
        }
    }

    /// The run of an attempt that has waited until now.
    fn end_wait(&mut self, lease: LeaseId) -> Option<RunKey> {
        let attempt = self.attempts.of(lease);
        let run = attempt.filter(|it| it.phase == Phase::AwaitingSecrets)?.run;
        self.secrets_due.retain(|(_, other)| *other != run);
        Some(run)
    }
}
