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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use baton_model::message::Launch;
    use baton_model::secret::SecretUse;
    use baton_model::spec::{InstanceSpec, Work};

    use super::*;
    use crate::protocol::worker::io::Effect;
    use crate::supervision::io::{Event, Sighting};
    use crate::supervision::tests::{lease, orders, run, supervisor};

    /// A worker that has just been given an attempt that needs a secret.
    fn awaiting_secrets() -> (Supervisor, Vec<Action>) {
        let mut worker = supervisor(Vec::new());
        let spec = InstanceSpec {
            work: Work::Command(vec!["true".to_owned()]),
            secrets: vec![SecretUse {
                name: "db".parse().expect("a name"),
                env: None,
                file: None,
            }],
            ..InstanceSpec::default()
        };
        let launch = Launch {
            lease: lease(1),
            spec: Arc::new(spec),
            allowance: None,
            trace: None,
        };
        let mut out = Vec::new();
        worker.apply(Mono(100), Effect::Launch(launch), &mut out);
        (worker, out)
    }

    #[test]
    fn an_attempt_starts_when_its_secrets_are_there() {
        let (mut worker, out) = awaiting_secrets();
        assert_eq!(orders(out), [], "nothing is launched without them");
        assert!(worker.awaits_secrets(lease(1)));
        assert!(
            worker.inventory(Vec::new()).attempts().next().is_none(),
            "it has not begun"
        );
        let actions = worker.handle(Mono(200), Event::SecretsHere(lease(1)));
        assert_eq!(orders(actions), [Action::Launch(run(0, 0))]);
        assert!(!worker.awaits_secrets(lease(1)));
        let again = worker.handle(Mono(201), Event::SecretsHere(lease(1)));
        assert_eq!(orders(again), [], "they may come twice");
    }

    #[test]
    fn an_attempt_without_its_secrets_fails_and_one_that_is_killed_ends_at_once() {
        let (mut worker, _) = awaiting_secrets();
        worker.handle(
            Mono(200),
            Event::SecretsMissing(lease(1), "there is none".into()),
        );
        assert!(worker.attempts().is_empty());
        let (mut worker, _) = awaiting_secrets();
        let mut out = Vec::new();
        worker.apply(Mono(200), Effect::Kill(lease(1), Millis(5)), &mut out);
        assert_eq!(out, [], "the coordinator does not know of it");
        assert!(worker.attempts().is_empty());
        let late = worker.handle(Mono(300), Event::SecretsHere(lease(1)));
        assert_eq!(orders(late), []);
        let (mut worker, _) = awaiting_secrets();
        worker.apply(
            Mono(200),
            Effect::KillAll(KillCause::Suicide, Millis(5)),
            &mut Vec::new(),
        );
        assert!(worker.attempts().is_empty());
    }

    #[test]
    fn an_attempt_waits_for_its_secrets_through_a_change_of_coordinators() {
        let (mut worker, _) = awaiting_secrets();
        let inventory = worker.inventory(Vec::new());
        worker.take_over(Mono(200), inventory, &BTreeSet::new(), |_| {
            Sighting::Unknown
        });
        assert!(worker.awaits_secrets(lease(1)));
        let actions = worker.handle(Mono(300), Event::SecretsHere(lease(1)));
        assert!(orders(actions).contains(&Action::Launch(run(0, 0))));
    }
}
